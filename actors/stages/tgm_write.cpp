// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sink `tgm.write`: each item becomes a Tensogram message at the end of a file.
///
/// The stage encodes; `message_output` appends and cuts.
#include "stages/factories.hpp"
#include "stages/message_output.hpp"
#include "stages/source_parts.hpp"
#include "weir/formats/tensogram_packing.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view tgm_write_name = "tgm.write";

/// What happens to the messages that a file has.
enum class write_mode : std::uint8_t { append, replace };
/// Encoding of the elements.
enum class encoding : std::uint8_t { none, simple_packing };
/// Filter before the compression.
enum class filter : std::uint8_t { none, shuffle };
/// Compression of the bytes.
enum class compression : std::uint8_t { none, lz4, zstd };

/// See the table.
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

/// The settings of one pipeline: encoding, filter, compression.
settings_table<write_settings> write_table() {
  settings_table<write_settings> table("the sink tgm.write");
  table
      .add("path", &write_settings::path,
           "a file, which is created if it is missing, a pipe, or - for standard output")
      .required()
      .path(path_use::output);
  // The name is part of the metadata of the object.
  table.add("object", &write_settings::object, "name of the object of each message");
  table.add("mode", &write_settings::mode,
            {{"new", write_mode::replace}, {"append", write_mode::append}},
            "new: the file begins empty; append: messages follow those of the file");
  // Only f64 elements can be packed; see `describe`.
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
  // A pipe cannot be cut, so its messages wait for the checkpoint.
  table
      .add(
          "hold", &write_settings::hold,
          "a pipe gets messages at a checkpoint, or earlier if more bytes than this wait")
      .unit("bytes")
      .may_change();
  return table;
}

/// Belongs to the thread of its I/O host.
class tgm_write final : public flow::stage_object {
 public:
  tgm_write(write_settings settings, file_system& fs)
      : settings_(std::move(settings)), output_(tgm_write_name, fs) {}

  /// `new` empties the file unless the run is resumed.
  result<void> open(opening& run) override {
    return output_.open(path_of(run, settings_.path), run.resuming(),
                        settings_.mode == write_mode::replace);
  }
  /// Encodes the item and appends it. It is not durable before `settle`.
  result<void> put(taken& t) override {
    // The message is shared with the output, which may hold it back.
    auto message = std::make_shared<byte_vector>();
    WEIR_CHECK(encode(t, *message));
    return output_.append(std::move(message), settings_.hold);
  }
  /// See `message_output`.
  result<flow::small_record> settle() override { return output_.settle(); }
  /// Cuts messages behind the offset.
  result<void> rewind(bytes_view stored) override { return output_.rewind(stored); }
  /// Compares the last message of a finished run.
  result<bool> verify(opening& run, bytes_view stored,
                      const flow::state_reader& /*state*/) override {
    return output_.verify(path_of(run, settings_.path), stored);
  }

 private:
  /// Returns the pipeline of an object; the parameters of packing depend on its elements.
  [[nodiscard]] result<formats::object_descriptor> describe(const runtime::tensor& x,
                                                            bytes_view data) const {
    formats::object_descriptor d;
    d.type = x.type();
    d.shape.assign(x.shape().begin(), x.shape().end());
    // Packing computes its parameters from all elements of the item.
    if (settings_.encoding == encoding::simple_packing) {
      if (x.type() != dtype::fp64) {
        return error(errc::invalid_argument,
                     fmt::format("cannot pack an item: expected f64 elements, found {}",
                                 flow::port_text(x.type())));
      }
      // A copy, because the memory of an item has no type.
      std::vector<double> values(data.size() / sizeof(double));
      std::memcpy(values.data(), data.data(), data.size());
      WEIR_TRY(const formats::packing packed,
               formats::compute_packing(values, settings_.bits));
      // Packed elements are integers of `bits` bits.
      d.encoding = "simple_packing";
      formats::store_packing(packed, d.parameters);
    }
    if (settings_.filter == filter::shuffle) {
      // The filter needs to know the size of what it shuffles.
      d.filter = "shuffle";
      d.parameters.set("shuffle_element_size", shuffled_bytes(x.type()));
    }
    // Compression comes last, over the filtered bytes.
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
    // Packed numbers that are no whole bytes are shuffled as bytes, which changes
    // nothing.
    return settings_.bits % 8 == 0 ? settings_.bits / 8 : 1;
  }
  /// Encodes one message: the object of the setting, and the attributes as its metadata.
  result<void> encode(const taken& t, byte_vector& to) const {
    const runtime::tensor& x = t[any_in{0}];
    WEIR_TRY(const std::int64_t bytes, byte_size(x.type(), x.count()));
    formats::object_to_write object;
    // The object refers to the memory of the item.
    object.data = {x.data(), static_cast<std::size_t>(bytes)};
    WEIR_TRY(object.descriptor, describe(x, object.data));
    object.metadata.set("name", settings_.object);
    formats::message_options options;
    // Attributes become keys of the message.
    options.extra = metadata_of(t.about());
    options.floats =
        settings_.non_finite ? formats::non_finite::store : formats::non_finite::refuse;
    return formats::encode_message_into(to, {&object, 1}, options);
  }

  write_settings settings_;
  message_output output_;
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

/// Makes the sink. A pipe gets messages once more after a resume.
result<void> make_tgm_write(flow::described_stage& made, const given_settings& given,
                            file_system& fs) {
  made.info.name = tgm_write_name;
  made.info.documentation = "appends each item to a file as a Tensogram message";
  made.info.face = flow::face::sink;
  made.info.details = tgm_write_details;
  made.info.example = tgm_write_example;
  WEIR_TRY(write_settings settings, flow::read_settings(made.info, write_table(), given));
  // Items of any type and shape are taken.
  made.info.ports = {{"x", {}, true}};
  // Messages behind a checkpoint come once more through a pipe.
  if (is_pipe(settings.path)) {
    made.info.promise = flow::guarantee::at_least_once;
  }
  made.object = std::make_unique<tgm_write>(std::move(settings), fs);
  return {};
}

}  // namespace weir::actors
