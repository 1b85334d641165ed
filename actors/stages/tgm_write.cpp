// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sink `tgm.write`: each item becomes a Tensogram message at the end of a file.
#include <deque>

#include "stages/factories.hpp"
#include "stages/source_parts.hpp"
#include "tensogram/message_file.hpp"
#include "weir/base/hash.hpp"
#include "weir/formats/tensogram_packing.hpp"
#include "weir/pipeline/append_file.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view tgm_write_name = "tgm.write";

enum class write_mode : std::uint8_t { append, replace };
enum class encoding : std::uint8_t { none, simple_packing };
enum class filter : std::uint8_t { none, shuffle };
enum class compression : std::uint8_t { none, lz4, zstd };

struct write_settings {
  std::string path;
  std::string object = "x";
  write_mode mode = write_mode::replace;
  actors::encoding encoding = actors::encoding::none;
  std::uint32_t bits = 16;
  actors::filter filter = actors::filter::none;
  actors::compression compression = actors::compression::none;
  std::int32_t level = 3;
  bool non_finite = true;
  std::uint64_t hold = std::uint64_t{64} << 20;
};

settings_table<write_settings> write_table() {
  settings_table<write_settings> table("the sink tgm.write");
  table
      .add("path", &write_settings::path,
           "a file, which is created if it is missing, a pipe, or - for standard output")
      .required()
      .path(path_use::output);
  table.add("object", &write_settings::object, "name of the object of each message");
  table.add("mode", &write_settings::mode,
            {{"new", write_mode::replace}, {"append", write_mode::append}},
            "new: the file begins empty; append: messages follow those of the file");
  table.add("encoding", &write_settings::encoding,
            {{"none", encoding::none}, {"simple_packing", encoding::simple_packing}},
            "simple_packing: f64 elements are rounded to integers of some bits");
  table.add("bits", &write_settings::bits, "bits of an element in simple_packing")
      .range(1, 64)
      .unit("bits");
  table.add("filter", &write_settings::filter,
            {{"none", filter::none}, {"shuffle", filter::shuffle}},
            "shuffle: bytes of equal significance stand together, for compression");
  table.add("compression", &write_settings::compression,
            {{"none", compression::none},
             {"lz4", compression::lz4},
             {"zstd", compression::zstd}},
            "compression of the elements");
  table.add("level", &write_settings::level, "level of zstd").range(1, 22);
  table.add("non_finite", &write_settings::non_finite,
            "true to store NaN and infinities; false: they are an error");
  table
      .add(
          "hold", &write_settings::hold,
          "a pipe gets messages at a checkpoint, or earlier if more bytes than this wait")
      .unit("bytes")
      .may_change();
  return table;
}

struct write_offset {
  std::uint64_t messages = 0;  ///< messages of the run
  read_block last;             ///< the last message; `end` is the end of the file
};

class tgm_write final : public flow::stage_object {
 public:
  tgm_write(write_settings settings, file_system& fs)
      : settings_(std::move(settings)), fs_(fs) {}

  result<void> open(opening& run) override {
    path_ = path_of(run, settings_.path);
    pipe_ = is_pipe(path_);
    if (run.resuming()) {
      return {};  // `rewind` opens the file
    }
    if (!pipe_ && settings_.mode == write_mode::replace) {
      WEIR_CHECK(empty_file());
    }
    return open_file();
  }
  result<void> put(taken& t) override {
    auto message = std::make_shared<byte_vector>();
    WEIR_CHECK(encode(t, *message));
    offset_.last = {offset_.last.end + message->size(), message->size(), 0};
    ++offset_.messages;
    last_ = message;
    if (!pipe_) {
      return append(message);
    }
    held_bytes_ += message->size();
    held_.push_back(std::move(message));
    return held_bytes_ > settings_.hold ? release() : result<void>();
  }
  result<flow::small_record> settle() override {
    WEIR_CHECK(release());
    WEIR_TRY(const std::uint64_t durable, file_->sync());
    WEIR_EXPECT(pipe_ || durable == offset_.last.end);
    if (last_) {
      offset_.last.digest = xxh3_64(*last_);
      last_.reset();
    }
    return flow::small_record::holding(offset_);
  }
  result<void> rewind(bytes_view stored) override {
    WEIR_TRY(offset_, record_of<write_offset>(stored, tgm_write_name, "offset"));
    if (!pipe_) {
      WEIR_CHECK(cut());
    }
    return open_file();
  }
  result<bool> verify(opening& run, bytes_view stored,
                      const flow::state_reader& /*state*/) override {
    path_ = path_of(run, settings_.path);
    if (is_pipe(path_)) {
      return false;
    }
    WEIR_TRY(offset_, record_of<write_offset>(stored, tgm_write_name, "offset"));
    if (!fs_.exists(path_)) {
      return offset_.last.end == 0 ? result<bool>(true) : result<bool>(missing());
    }
    WEIR_TRY(const auto f, fs_.open(path_, open_mode::read));
    WEIR_CHECK(holds_last(*f));
    return true;
  }

 private:
  [[nodiscard]] bool locks() const { return &fs_ == &posix_file_system(); }
  /// Locks the file as long as the result lives.
  [[nodiscard]] result<std::optional<file_lock>> locked() const {
    if (!locks()) {
      return std::optional<file_lock>();
    }
    WEIR_TRY(file_lock lock, file_lock::acquire(path_));
    return std::optional(std::move(lock));
  }

  result<void> open_file() {
    target_environment environment;
    environment.fs = &fs_;
    environment.lock = locks();
    message_target target;
    target.path = path_;
    WEIR_TRY(file_, message_file::open(environment, target));
    if (!pipe_) {
      offset_.last.end = file_->end();
    }
    return {};
  }
  /// Empties a file of messages. Other files are left alone.
  result<void> empty_file() {
    WEIR_TRY(const auto lock, locked());
    auto f = fs_.open(path_, open_mode::read_write);
    if (!f) {
      return f.error().code() == errc::not_found ? result<void>() : f.error();
    }
    WEIR_TRY(const std::uint64_t size, (*f)->size());
    if (size == 0) {
      return {};
    }
    WEIR_CHECK(check_ours(**f, path_, "Tensogram messages", {&message_magic, 1}));
    WEIR_CHECK((*f)->resize(0));
    return (*f)->sync();
  }
  /// Cuts the file to exactly the offset. The last message before it must be the one that
  /// was durable.
  result<void> cut() {
    if (!fs_.exists(path_) && offset_.last.end != 0) {
      return missing();
    }
    WEIR_TRY(const auto lock, locked());
    WEIR_TRY(const auto f, fs_.open(path_, open_mode::create_or_open));
    WEIR_CHECK(holds_last(*f));
    WEIR_TRY(const std::uint64_t size, f->size());
    if (size == offset_.last.end) {
      return {};
    }
    WEIR_CHECK(cut_output(*f, offset_.last.end));
    return f->sync();
  }
  [[nodiscard]] result<void> holds_last(file& f) const {
    return check_appended(f, path_, offset_.last, tgm_write_name, "message");
  }
  [[nodiscard]] error missing() const {
    return shorter_than_offset(path_, offset_.last.end, 0);
  }

  result<void> append(std::shared_ptr<const byte_vector> message) {
    message_order order;
    order.encoded = std::move(message);
    WEIR_TRY(const auto span, file_->append(order));
    WEIR_EXPECT(pipe_ || span.offset + span.length == offset_.last.end);
    return {};
  }
  /// Writes what is held for a pipe.
  result<void> release() {
    for (; !held_.empty(); held_.pop_front()) {
      WEIR_CHECK(append(held_.front()));
    }
    held_bytes_ = 0;
    return {};
  }

  /// Returns the pipeline of an object; the parameters of packing depend on its elements.
  [[nodiscard]] result<formats::object_descriptor> describe(const runtime::tensor& x,
                                                            bytes_view data) const {
    formats::object_descriptor d;
    d.type = x.type();
    d.shape.assign(x.shape().begin(), x.shape().end());
    if (settings_.encoding == encoding::simple_packing) {
      if (x.type() != dtype::fp64) {
        return error(errc::invalid_argument,
                     fmt::format("cannot pack an item: expected f64 elements, found {}",
                                 flow::port_text(x.type())));
      }
      std::vector<double> values(data.size() / sizeof(double));
      std::memcpy(values.data(), data.data(), data.size());
      WEIR_TRY(const formats::packing packed,
               formats::compute_packing(values, settings_.bits));
      d.encoding = "simple_packing";
      formats::store_packing(packed, d.parameters);
    }
    if (settings_.filter == filter::shuffle) {
      d.filter = "shuffle";
      d.parameters.set("shuffle_element_size", shuffled_bytes(x.type()));
    }
    if (settings_.compression == compression::zstd) {
      d.compression = "zstd";
      d.parameters.set("zstd_level", settings_.level);
    } else if (settings_.compression == compression::lz4) {
      d.compression = "lz4";
    }
    return d;
  }
  /// Packed elements are shuffled only if they have whole bytes.
  [[nodiscard]] std::uint64_t shuffled_bytes(dtype type) const {
    if (settings_.encoding == encoding::none) {
      return info_of(type).size;
    }
    return settings_.bits % 8 == 0 ? settings_.bits / 8 : 1;
  }
  result<void> encode(const taken& t, byte_vector& to) const {
    const runtime::tensor& x = t[any_in{0}];
    WEIR_TRY(const std::int64_t bytes, byte_size(x.type(), x.count()));
    formats::object_to_write object;
    object.data = {x.data(), static_cast<std::size_t>(bytes)};
    WEIR_TRY(object.descriptor, describe(x, object.data));
    object.metadata.set("name", settings_.object);
    formats::message_options options;
    options.extra = metadata_of(t.about());
    options.floats =
        settings_.non_finite ? formats::non_finite::store : formats::non_finite::refuse;
    return formats::encode_message_into(to, {&object, 1}, options);
  }

  write_settings settings_;
  file_system& fs_;
  std::string path_;
  bool pipe_ = false;
  std::unique_ptr<message_file> file_;
  write_offset offset_;
  std::shared_ptr<const byte_vector>
      last_;  ///< the last message, if it has no digest yet
  std::deque<std::shared_ptr<const byte_vector>> held_;  ///< messages for a pipe
  std::uint64_t held_bytes_ = 0;
};

/// Further paragraphs of the reference of `tgm.write`.
constexpr std::string_view tgm_write_details =
    R"(The attributes of the item become metadata of the message. Failed items of a
stage with `on_error = "dead_letter"` come here, too: the metadata `error` says why they
failed.

`new` empties a file of messages when the run begins, and refuses other files. The
offset holds the length of the file, the number of messages and the XXH3 digest of the
last message. A resumed run cuts the file to exactly the offset; a shorter file is
`torn`, another last message is `hash_mismatch`, and in both cases the file stays as
it is. A finished run that is resumed compares the last message and leaves what
follows it alone. A run in the mode `append` that ends before its first checkpoint
leaves its messages in the file. A pipe cannot be cut, so its guarantee is "at least
once": a resumed run repeats messages byte for byte.)";

/// A small pipeline with `tgm.write`.
constexpr std::string_view tgm_write_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 6
shape = [4]

[[stage]]
name = "write"
use = "tgm.write"
path = "out.tgm"
object = "y"
filter = "shuffle"
compression = "zstd"
)";

}  // namespace

result<void> make_tgm_write(flow::described_stage& made, const given_settings& given,
                            file_system& fs) {
  made.info.name = tgm_write_name;
  made.info.documentation = "appends each item to a file as a Tensogram message";
  made.info.face = flow::face::sink;
  made.info.details = tgm_write_details;
  made.info.example = tgm_write_example;
  WEIR_TRY(write_settings settings, flow::read_settings(made.info, write_table(), given));
  made.info.ports = {{"x", {}, true}};
  if (is_pipe(settings.path)) {
    made.info.promise = flow::guarantee::at_least_once;
  }
  made.object = std::make_unique<tgm_write>(std::move(settings), fs);
  return {};
}

}  // namespace weir::actors
