// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source `tgm.read`: one object of each message of a file, a folder or a pipe.
///
/// Messages come from a feed, which is a file, a folder or a pipe. Small messages are
/// read as a whole; of larger ones the object alone. The digest of the last message is
/// computed only when a checkpoint asks for the position.
///
/// A file that grows (`follow`) is read as a pipe that never ends. Whenever it has
/// nothing, it is opened again behind the last message, because its writer may have cut
/// and rewritten the end.
#include <algorithm>
#include <thread>
#include <utility>

#include "stages/factories.hpp"
#include "stages/live/growing_file.hpp"
#include "stages/live/message_items.hpp"
#include "stages/source_parts.hpp"
#include "tensogram/message_feed.hpp"
#include "weir/base/hash.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view tgm_read_name = "tgm.read";
/// Larger messages are not read as a whole: their objects are read from the file straight
/// into the memory of the item.
constexpr std::uint64_t whole_message = 65536;
/// Time for which a pull waits for bytes of a pipe.
constexpr std::chrono::milliseconds pipe_wait{50};

/// See the table.
struct tgm_settings {
  std::string path;
  std::string object;
  std::uint64_t index = 0;
  std::string type = "any";
  bool skip_garbage = false;
  bool follow = false;
  std::string until;
};

/// The path, the object of each message, and what to do at odd bytes.
settings_table<tgm_settings> read_table() {
  settings_table<tgm_settings> table("the source tgm.read");
  table
      .add("path", &tgm_settings::path,
           "a file, a folder whose files *.tgm are read in the order of their names, a "
           "pipe, or - for standard input")
      .required()
      .path(path_use::input);
  // Either a name or an index; see `make_tgm_read`.
  table.add("object", &tgm_settings::object,
            "name of the object of each message; empty: the object of the index");
  table.add("index", &tgm_settings::index, "number of the object of each message")
      .range(0, 65535);
  table
      .add("type", &tgm_settings::type,
           "type of the tensors, such as f32[n,4]; any: as the stages behind it need")
      .rule("that is a type of a port", is_port_type);
  table.add("skip_garbage", &tgm_settings::skip_garbage,
            "true to skip bytes that belong to no message; false: they are an error");
  // A followed file is a path of a file, not a pipe.
  table
      .add("follow", &tgm_settings::follow,
           "true: at the end of a file wait for messages that are appended; false: end")
      .may_change();
  table
      .add("until", &tgm_settings::until,
           "name of a metadata of a message that is the last one; empty: there is none")
      .may_change();
  return table;
}

/// Bit of the number of messages behind the message that says that it is the last one.
constexpr std::uint64_t ended_bit = std::uint64_t{1} << 63U;
/// Bit that says that the last message could not be read when the position was asked for,
/// so that its digest is not known.
constexpr std::uint64_t unread_bit = std::uint64_t{1} << 62U;
/// Reads of a file that grows which may find other bytes than a message in a row, because
/// its writer replaces the end of the file at that moment.
constexpr int max_retries = 20;

/// The two highest bits of `messages` are `ended_bit` and `unread_bit`.
struct read_cursor {
  std::uint64_t messages = 0;  ///< messages so far
  std::uint64_t file = 0;      ///< digest of the name of the file in its folder
  read_block last;             ///< the last message
};

/// Belongs to the thread of its I/O host.
class tgm_read final : public flow::stage_object {
 public:
  tgm_read(tgm_settings settings, file_system& fs)
      : settings_(std::move(settings)), fs_(fs) {}

  /// The source is opened by the first pull or by `seek`. A missing path is found here.
  result<void> open(opening& run) override {
    path_ = path_of(run, settings_.path);
    // A pipe waits by itself, and a folder has no end at which to wait.
    if (settings_.follow && (is_pipe(path_) || fs_.list(path_))) {
      return error(errc::invalid_argument,
                   fmt::format("cannot follow \"{}\": expected a file, found a pipe or a "
                               "folder",
                               path_));
    }
    return run.resuming() ? result<void>() : open_source({});
  }
  /// Makes an item of the next message.
  result<bool> next(pull& p) override {
    // A resumed run without a cursor begins here.
    if (!feed_) {
      WEIR_CHECK(open_source({}));
    }
    if (ended_) {
      return false;
    }
    // A file never waits; a pipe waits for a short time.
    const auto delivery = feed_->next();
    // Nothing whole is there, or other bytes than a message.
    if (settings_.follow && (!delivery || !*delivery)) {
      WEIR_CHECK(look_again(delivery));
    }
    // Errors of a file that does not grow end the run.
    WEIR_CHECK(delivery || settings_.follow ? result<void>()
                                            : result<void>(delivery.error()));
    // A failed read of a growing file is tried again later.
    if (!delivery || !*delivery) {
      p.nothing_yet();
      return true;
    }
    retries_ = 0;
    // The delivery without a message stands for the end.
    if (!(*delivery)->message) {
      return false;
    }
    return take(p, **delivery);
  }
  [[nodiscard]] flow::small_record position() const override {
    find_digest();
    const std::uint64_t bits = (ended_ ? ended_bit : 0) | (has_digest() ? 0 : unread_bit);
    return flow::small_record::holding(
        read_cursor{messages_ | bits, xxh3_64(as_view(file_)), last_});
  }
  /// Continues behind the message of the cursor.
  result<void> seek(bytes_view stored) override {
    WEIR_TRY(const auto cursor, record_of<read_cursor>(stored, tgm_read_name, "cursor"));
    if (cursor.messages == 0) {
      return open_source({});
    }
    if (is_pipe(path_)) {
      return error(errc::unsupported,
                   fmt::format("cannot continue tgm.read behind message {} of \"{}\": "
                               "expected a file or a folder, found a pipe",
                               number_in(cursor) - 1, path_))
          .hint("write what arrives to a file first");
    }
    // Of a folder, the name follows from its digest.
    WEIR_TRY(file_, name_of_file(cursor.file));
    // The file may have been closed in the meantime.
    WEIR_TRY(const auto f, fs_.open(file_path(file_), open_mode::read));
    WEIR_TRY(const std::uint64_t size, f->size());
    // Without a digest only the length of the file can be compared.
    const bool unread = (cursor.messages & unread_bit) != 0;
    const read_block known{cursor.last.end, unread ? 0 : cursor.last.length,
                           cursor.last.digest};
    WEIR_CHECK(verify_block(known, size, tgm_read_name, file_path(file_),
                            [&](std::uint64_t offset, mutable_bytes to) {
                              return read_exactly(*f, offset, to);
                            }));
    messages_ = number_in(cursor);
    ended_ = (cursor.messages & ended_bit) != 0;
    last_ = cursor.last;
    digest_known_ = !unread;
    return open_source({file_, last_.end});
  }

 private:
  /// Makes an item of a message.
  result<bool> take(pull& p, const message_delivery& delivery) {
    // Offsets of a followed file count from where it was opened.
    const std::uint64_t offset = base_ + delivery.place.offset;
    const auto object =
        fill_from(p, {settings_.object, settings_.index}, *delivery.message);
    // The code of the cause stays, and the place is that in the file.
    if (!object) {
      const errc code = object.error().code();
      return error(code, fmt::format("cannot read message {}", messages_))
          .located(fmt::format("{}:{}", file_path(delivery.place.file), offset))
          .because(object.error());
    }
    // Attributes of the message come before those of the object.
    add_about(p.emitted(), messages_, *delivery.message, *object);
    ended_ = has_metadata(*delivery.message, settings_.until);
    ++messages_;
    // A folder has many files, and the cursor names one.
    file_ = delivery.place.file;
    // The digest is not known yet.
    last_ = {offset + delivery.length, delivery.length, 0};
    digest_known_ = false;
    return true;
  }
  /// Reads a file that grows from the last message on again: its writer may have replaced
  /// what was behind it. Other bytes than messages are an error only if they stay.
  result<void> look_again(const result<std::optional<message_delivery>>& found) {
    // The writer may be replacing the end at this moment.
    if (!found && ++retries_ > max_retries) {
      return found.error();
    }
    if (!found) {
      std::this_thread::sleep_for(pipe_wait);
    }
    // Behind the last message that was whole.
    return open_source({file_, last_.end});
  }
  /// Opens the feed behind `start`. A growing file counts from there.
  result<void> open_source(message_position start) {
    message_source source;
    source.path = path_;
    source.start = std::move(start);
    // Small messages are read as a whole.
    source.prefetch_bytes = whole_message;
    source.skip_garbage = settings_.skip_garbage;
    feed_environment environment;
    environment.fs = &fs_;
    environment.timeout = pipe_wait;
    // A feed of a pipe has no begin of its own.
    if (settings_.follow) {
      base_ = std::exchange(source.start, {}).offset;
      WEIR_TRY(environment.pipe, growing_file::open(fs_, path_, base_, pipe_wait));
    }
    WEIR_TRY(feed_, open_feed(environment, source));
    return {};
  }
  /// Returns the path of a file, whose name is empty if the path is the file itself.
  [[nodiscard]] std::string file_path(const std::string& name) const {
    return name.empty() ? path_ : join_path(path_, name);
  }
  /// Returns the name of the file of a folder whose digest is given; empty for a file.
  [[nodiscard]] result<std::string> name_of_file(std::uint64_t digest) const {
    // The digest of an empty name.
    if (digest == xxh3_64({})) {
      return std::string();
    }
    WEIR_TRY(const auto names, fs_.list(path_));
    const auto found = std::find_if(names.begin(), names.end(), [&](const auto& name) {
      return xxh3_64(as_view(name)) == digest;
    });
    if (found == names.end()) {
      return other_data(tgm_read_name, path_, "the file of the last message", "none");
    }
    return *found;
  }
  /// Returns the number of messages without the bits.
  [[nodiscard]] static std::uint64_t number_in(const read_cursor& cursor) noexcept {
    return cursor.messages & ~(ended_bit | unread_bit);
  }
  /// Returns whether the digest of the last message is known, or is never needed.
  [[nodiscard]] bool has_digest() const {
    return digest_known_ || last_.length == 0 || is_pipe(path_);
  }
  /// Computes the digest of the last message, which is needed at checkpoints alone. A
  /// position cannot fail, so a read that fails is tried again. If the file cannot be
  /// read, the digest stays unknown, and a run that continues does not compare it.
  void find_digest() const {
    constexpr int max_tries = 3;
    for (int n = 0; n < max_tries && !has_digest(); ++n) {
      const auto digest = read_digest();
      digest_known_ = digest.has_value();
      last_.digest = digest.value_or(0);
    }
  }
  /// Computes the digest of the last message. @error{io, the file cannot be read}
  [[nodiscard]] result<std::uint64_t> read_digest() const {
    // The file may be gone.
    WEIR_TRY(const auto f, fs_.open(file_path(file_), open_mode::read));
    byte_vector piece(static_cast<std::size_t>(
        std::min<std::uint64_t>(std::uint64_t{1} << 20, last_.length)));
    xxh3_stream digest;
    // A message may have gigabytes, so it is read in pieces.
    for (std::uint64_t done = 0; done < last_.length;) {
      const auto part = mutable_bytes(piece).first(static_cast<std::size_t>(
          std::min<std::uint64_t>(piece.size(), last_.length - done)));
      WEIR_CHECK(read_exactly(*f, last_.end - last_.length + done, part));
      digest.update(part);
      done += part.size();
    }
    return digest.digest();
  }

  tgm_settings settings_;
  file_system& fs_;
  /// Absolute, or relative to the folder of the pipeline's file.
  std::string path_;
  /// Null until the source is opened.
  std::unique_ptr<message_feed> feed_;
  std::uint64_t base_ = 0;  ///< offset at which the feed of a growing file begins
  /// Messages so far.
  std::uint64_t messages_ = 0;
  bool ended_ = false;  ///< the last message has said that it is the last one
  int retries_ = 0;     ///< reads in a row that have found other bytes than a message
  std::string file_;    ///< name in the folder of the file of the last message
  /// Mutable because the digest is computed when the position is asked for.
  mutable read_block last_;
  mutable bool digest_known_ = false;
};

/// Further paragraphs of the reference of `tgm.read`.
constexpr std::string_view tgm_read_details =
    R"(Outlet `x` has the type of the setting. Elements are decoded straight into the
memory of the item.

Attributes: `message` is the number of the message. Further attributes are the scalars
of the message's metadata and then those of the object's own metadata, without its
`name`; scalars in maps of the object have names with dots, such as `mars.param`. If
both have a name, that of the message counts. All attributes together have at most 256
bytes; what does not fit is left out. Booleans become 0 or 1. The cursor holds file,
offset, number of the message and the XXH3 digest of the last message. If that message
could not be read again for the digest, a run that continues compares only the length
of the file. A pipe cannot be continued, so its guarantee is "none".

With `follow` the source reads a file while another process appends to it, such as the
log of a `log`: it waits for messages at the end, and a message that is not whole yet is
read when it is. It ends with the message that `until` describes, or with the run.)";

/// A small pipeline with `tgm.read`.
constexpr std::string_view tgm_read_example = R"([[stage]]
name = "read"
use = "tgm.read"
path = "in.tgm"
type = "f32[4]"

[[stage]]
name = "sink"
use = "null"
)";

}  // namespace

/// Makes the source. A name and an index of the object exclude each other.
result<void> make_tgm_read(flow::described_stage& made, const given_settings& given,
                           file_system& fs) {
  made.info = source_info(std::string(tgm_read_name),
                          "reads one object of each Tensogram message as an item");
  made.info.details = tgm_read_details;
  made.info.example = tgm_read_example;
  WEIR_TRY(tgm_settings settings, flow::read_settings(made.info, read_table(), given));
  // An index of 0 that the user has written counts, too.
  if (!settings.object.empty() && given.find("index") != given.end()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot make tgm.read: expected a name or an index of the "
                             "object, found \"{}\" and {}",
                             settings.object, settings.index));
  }
  WEIR_TRY(flow::port_type type, flow::port_type::parse(settings.type));
  made.info.ports = {{"x", std::move(type), false}};
  // A pipe cannot be read again after a crash.
  if (is_pipe(settings.path)) {
    made.info.promise = flow::guarantee::none;
  }
  made.object = std::make_unique<tgm_read>(std::move(settings), fs);
  return {};
}

}  // namespace weir::actors
