// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source `log`: messages of a pipe, written to a file before they are handed on.
///
/// Messages take this way: bytes of the pipe are split into messages; a message that can
/// become an item is appended to the log; a group of them is made durable by one sync;
/// and only then they are handed on from `queue_`. A process that is killed before the
/// sync has handed on nothing of the group.
///
/// A resumed run first reads the log from the cursor on (`replay_`): these messages were
/// accepted before the crash. Then it continues with the pipe. New messages are appended
/// behind those of the replay, so the order of the log is that of the items.
#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>

#include "stages/factories.hpp"
#include "stages/live/message_items.hpp"
#include "stages/source_parts.hpp"
#include "tensogram/byte_pipe.hpp"
#include "tensogram/message_feed.hpp"
#include "tensogram/message_file.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/hash.hpp"
#include "weir/pipeline/append_file.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view log_name = "log";
/// Time for which a pull waits for bytes. Messages that come within this time of each
/// other are made durable together.
constexpr std::chrono::milliseconds live_wait{5};
/// Time after which the messages of a group are made durable.
/// @units{nanoseconds}
constexpr std::int64_t max_group_ns = 20'000'000;
/// Bytes that are read from the pipe at a time. @units{bytes}
constexpr std::size_t live_piece = std::size_t{256} << 10;

/// See the table for the meaning of each.
struct log_settings {
  std::string path;
  std::string live;
  std::string object;
  std::uint64_t index = 0;
  std::string type = "any";
  std::uint64_t group = 256;
  std::uint64_t max_bytes = std::uint64_t{1} << 30;
  std::string until;
};

settings_table<log_settings> log_table() {
  using s = log_settings;
  settings_table<s> table("the source log");
  table
      .add("path", &s::path,
           "the log: a file of messages, which is made if it is missing")
      .required()
      .path(path_use::output);
  table.add("live", &s::live, "where messages come from: a pipe, or - for standard input")
      .required()
      .path(path_use::input);
  table.add("object", &s::object,
            "name of the object of each message; empty: the object of the index");
  table.add("index", &s::index, "number of the object of each message").range(0, 65535);
  table
      .add("type", &s::type,
           "type of the tensors, such as f32[n,4]; messages with another one are not "
           "accepted; any: as the stages behind need")
      .rule("that is a type of a port", is_port_type);
  table.add("group", &s::group, "messages that are made durable together at most")
      .range(1, 65536)
      .unit("messages")
      .may_change();
  table
      .add("max_bytes", &s::max_bytes,
           "largest size of a message and of its decoded object; larger ones are not "
           "accepted")
      .range(1, std::int64_t{1} << 40)
      .unit("bytes");
  table.add("until", &s::until,
            "name of a metadata of a message that is the last one; empty: the log ends "
            "when all writers have closed the pipe");
  return table;
}

/// Position of the source: behind the last message that was handed on.
struct log_cursor {
  std::uint64_t messages = 0;
  std::uint64_t ended = 0;  ///< 1 behind the message that says that it is the last one
  read_block last;          ///< the last message in the log
};

/// A message of the log that was not handed on yet.
/// It is in the log, and durable once `accept` has returned.
struct accepted {
  std::shared_ptr<const formats::message_reader> message;
  std::uint64_t length = 0;
  std::uint64_t digest = 0;
};

/// Owns the log, whose only writer it is.
class log_source final : public flow::stage_object {
 public:
  log_source(log_settings settings, flow::port_type type, file_system& fs)
      : settings_(std::move(settings)),
        choice_{settings_.object, settings_.index},
        type_(std::move(type)),
        fs_(fs) {}

  /// The log of a resumed run is opened by `seek`, which knows where to begin.
  result<void> open(opening& run) override {
    path_ = path_of(run, settings_.path);
    live_path_ = path_of(run, settings_.live);
    // The pipe is opened first: a log without a source is of no use.
    WEIR_TRY(pipe_, open_pipe_to_read(live_path_, live_wait));
    return run.resuming() ? result<void>() : open_log();
  }
  result<bool> next(pull& p) override {
    // A resumed run without a cursor begins at the start of the log.
    if (!file_) {
      WEIR_CHECK(open_log());
    }
    // The last message was handed on in an earlier run, or just now.
    if (at_.ended != 0) {
      return false;
    }
    // Messages of the log come before new ones. The bytes are read for their digest.
    while (replay_) {
      WEIR_TRY(const auto delivery, replay_->next());
      if (!delivery || !delivery->message) {
        replay_.reset();
        break;
      }
      // The bytes of the message are read for their digest.
      byte_vector bytes(delivery->length);
      WEIR_TRY(const auto f, fs_.open(path_, open_mode::read));
      WEIR_CHECK(read_exactly(*f, delivery->place.offset, bytes));
      return hand_on(p, {delivery->message, delivery->length, xxh3_64(bytes)});
    }
    // New messages are only taken when those before are handed on.
    if (queue_.empty() && !closed_) {
      WEIR_CHECK(accept());
    }
    // Nothing has come in time; the run asks again.
    if (queue_.empty()) {
      if (closed_) {
        return false;
      }
      // The run asks again, and meanwhile other stages work.
      p.nothing_yet();
      return true;
    }
    const accepted first = std::move(queue_.front());
    queue_.pop_front();
    return hand_on(p, first);
  }
  [[nodiscard]] flow::small_record position() const override {
    return flow::small_record::holding(at_);
  }
  /// The message before the cursor must be in the log, with the same bytes.
  result<void> seek(bytes_view stored) override {
    WEIR_TRY(const auto where, record_of<log_cursor>(stored, log_name, "cursor"));
    if (where.messages != 0) {
      WEIR_TRY(const auto f, fs_.open(path_, open_mode::read));
      // The message before the cursor is compared by its digest.
      WEIR_TRY(const std::uint64_t size, f->size());
      WEIR_CHECK(verify_block(where.last, size, log_name, path_,
                              [&](std::uint64_t offset, mutable_bytes to) {
                                return read_exactly(*f, offset, to);
                              }));
    }
    at_ = where;
    return open_log();
  }
  /// Counts of messages; messages that were not accepted are a problem of the report.
  void report(figures& to) const override {
    // The number is that of all runs together.
    to.set("accepted", at_.messages);
    to.set("refused", refused_);
    if (refused_ != 0) {
      to.problem(
          fmt::format("{} messages of \"{}\" were not accepted, the last one "
                      "because: {}",
                      refused_, live_path_, last_refusal_));
    }
  }

 private:
  /// Opens the log, and begins to read what it has behind the cursor. A message that a
  /// crash has cut short was never accepted, so it is cut off.
  result<void> open_log() {
    // A file of something else is not touched.
    WEIR_CHECK(check_messages(fs_, path_));
    target_environment environment;
    environment.fs = &fs_;
    // Only the file system of the machine can lock; tests use others.
    environment.lock = &fs_ == &posix_file_system();
    message_target target;
    target.path = path_;
    // A message that a crash has cut short is removed.
    target.repair = true;
    WEIR_TRY(file_, message_file::open(environment, target));
    if (const std::uint64_t bytes = file_->info().cut_bytes; bytes != 0) {
      note_cut({path_, bytes});
    }
    // What a killed process has written need not be durable yet.
    WEIR_CHECK(file_->sync());
    // The log has messages behind the cursor.
    if (file_->end() > at_.last.end) {
      feed_environment reading;
      reading.fs = &fs_;
      message_source source;
      source.path = path_;
      source.origin = message_origin::file;
      // Reading begins behind the cursor, at a message.
      source.start.offset = at_.last.end;
      source.prefetch_bytes = settings_.max_bytes;
      WEIR_TRY(replay_, open_feed(reading, source));
    }
    return {};
  }
  /// Makes an item of a message and moves the cursor behind it. An error names the place
  /// in the log.
  result<bool> hand_on(pull& p, const accepted& one) {
    const auto object = fill_from(p, choice_, *one.message);
    if (!object) {
      // The message was checked before it was accepted, so this is a fault of the file.
      const errc code = object.error().code();
      return error(code, fmt::format("cannot read message {}", at_.messages))
          .located(fmt::format("{}:{}", path_, at_.last.end))
          .because(object.error());
    }
    add_about(p.emitted(), at_.messages, *one.message, *object);
    // The metadata that ends the log is that of the user.
    at_.ended = has_metadata(*one.message, settings_.until) ? 1 : 0;
    ++at_.messages;
    at_.last = {at_.last.end + one.length, one.length, one.digest};
    return true;
  }
  /// Takes messages of the pipe, writes them to the log, and makes them durable together.
  /// The group ends at `group` messages, after `max_group_ns`, when the pipe has nothing,
  /// or with the last message.
  result<void> accept() {
    const std::int64_t begin = now_ns();
    bool last = false;
    // The time limits how long the first message of a group waits.
    while (!last && queue_.size() < settings_.group && now_ns() - begin < max_group_ns) {
      // Messages that have come already are taken before more bytes are read.
      auto piece = splitter_.take();
      if (piece) {
        WEIR_TRY(last, take_message(std::move(piece->bytes)));
        continue;
      }
      WEIR_TRY(const bool came, fill());
      if (!came) {
        break;
      }
    }
    // One sync for all; without a new message the log has not changed.
    if (!queue_.empty()) {
      WEIR_CHECK(file_->sync());
    }
    return {};
  }
  /// Reads from the pipe. Returns false if it has no bytes now.
  result<bool> fill() {
    if (closed_) {
      return false;
    }
    // The pieces are small against the largest message.
    byte_vector bytes(live_piece);
    WEIR_TRY(const auto got, pipe_->read_some(bytes));
    if (!got) {
      return false;
    }
    if (*got == 0) {
      // All writers have gone. The rest of a message that one of them has left is lost.
      splitter_ = formats::message_splitter(settings_.max_bytes);
      // With `until`, another writer may open the pipe later.
      closed_ = settings_.until.empty();
      if (!closed_) {
        std::this_thread::sleep_for(live_wait);
      }
      return false;
    }
    splitter_.put(bytes_view(bytes).first(*got));
    return true;
  }
  /// Appends a message to the log if it can become an item. Returns whether it says that
  /// it is the last one.
  // The bytes are written as they came, so the log has the messages of the sender.
  result<bool> take_message(byte_vector bytes) {
    auto kept = std::make_shared<const byte_vector>(std::move(bytes));
    // The length is part of the cursor.
    const std::uint64_t length = kept->size();
    auto memory =
        std::make_shared<formats::memory_byte_source>(byte_vector(*kept), "message");
    // Opening reads the header and the descriptors of the message.
    auto reader = formats::message_reader::open(std::move(memory), {0, length}, {});
    if (!reader) {
      return refuse(reader.error());
    }
    if (auto fits = check(*reader); !fits) {
      return refuse(fits.error());
    }
    // The message is written as it was received.
    message_order order;
    order.encoded = kept;
    // A failure of the log ends the run: nothing could be accepted any more.
    WEIR_TRY(const auto span, file_->append(order));
    static_cast<void>(span);
    const bool last = has_metadata(*reader, settings_.until);
    queue_.push_back({std::make_shared<const formats::message_reader>(std::move(*reader)),
                      length, xxh3_64(*kept)});
    return last;
  }
  /// Counts a message that is not accepted. It is no error of the run.
  bool refuse(const error& cause) {
    ++refused_;
    last_refusal_ = cause.message();
    return false;
  }
  /// A message that cannot become an item would stop the run at each resume.
  /// The elements are decoded once to verify them; the item is decoded again later.
  [[nodiscard]] result<void> check(const formats::message_reader& message) const {
    WEIR_TRY(const std::size_t object, find_object(choice_, message));
    const formats::object_descriptor& found = message.descriptor(object);
    // Without an element type in the setting, every type is accepted.
    // Fixed extents of the setting must agree; letters and open ones accept all.
    bool fits = !type_.element || (found.type == *type_.element &&
                                   found.shape.size() == type_.shape.size());
    for (std::size_t i = 0; fits && type_.element && i < type_.shape.size(); ++i) {
      fits = type_.shape[i].is != flow::extent::kind::fixed ||
             type_.shape[i].number == found.shape[i];
    }
    if (!fits) {
      return error(
          errc::corrupt,
          fmt::format("cannot accept a message: expected {}, found {}[{}]", type_.text(),
                      info_of(found.type).tensogram, fmt::join(found.shape, ",")));
    }
    WEIR_CHECK(check_item(found));
    // A short message may declare a size that no memory has.
    const std::uint64_t bytes = message.object_bytes(object);
    if (bytes > settings_.max_bytes) {
      return error(errc::out_of_range,
                   fmt::format("cannot accept a message: expected an object of at most "
                               "{} bytes, found {}",
                               settings_.max_bytes, bytes));
    }
    byte_vector elements(static_cast<std::size_t>(bytes));
    return message.decode_into(object, elements);
  }

  log_settings settings_;
  object_choice choice_;
  /// Type of the setting; without an element it accepts every type.
  flow::port_type type_;
  file_system& fs_;
  std::string path_;
  std::string live_path_;
  /// Where messages come from.
  std::unique_ptr<byte_pipe> pipe_;
  formats::message_splitter splitter_{settings_.max_bytes};
  bool closed_ = false;  ///< all writers of the pipe have gone for good
  std::unique_ptr<message_file> file_;
  std::unique_ptr<message_feed> replay_;  ///< messages that the log had before
  std::deque<accepted> queue_;            ///< durable messages behind the cursor
  log_cursor at_;
  /// Messages of this run that were not accepted.
  std::uint64_t refused_ = 0;
  /// The reason of the last of them.
  std::string last_refusal_;
};

/// Further paragraphs of the reference of `log`.
constexpr std::string_view log_details =
    R"(Makes a source of which every item can be had again out of a pipe. A message is
accepted when it is in the log and durable, and only then it is handed on; messages that
come close to each other are made durable together, up to `group` of them. The log is a
file of messages that `tgm.read` reads: with `follow = true` also while the run goes on.

A run begins with what the log has already, and then takes messages of the pipe. A
resumed run hands on the messages of the log behind its cursor first. Each accepted
message is therefore an item once, whenever the process is killed. Bytes that the process
has read from the pipe but not accepted are lost with it, and a message that a crash has
cut short is cut off the log.

A message that is damaged, has another type than the setting, or lacks the object is not
accepted: the figure `refused` counts them, and the report warns. Bytes between messages
are skipped. With `until` the pipe may have no writer for a time; without, the source
ends when the last writer has closed it.

Attributes are those of `tgm.read`. The cursor holds the number of messages, and offset,
length and XXH3 digest of the last one.)";

/// A small pipeline with `log`.
constexpr std::string_view log_example = R"([[stage]]
name = "sensor"
use = "log"
live = "sensor.fifo"
path = "accepted.tgm"
type = "f32[4]"

[[stage]]
name = "sink"
use = "tgm.write"
path = "out.tgm"
)";

}  // namespace

/// Makes the source from its settings.
result<void> make_log(flow::described_stage& made, const given_settings& given,
                      file_system& fs) {
  made.info =
      source_info(std::string(log_name),
                  "writes messages of a pipe to a durable log, then hands them on");
  made.info.details = log_details;
  made.info.example = log_example;
  WEIR_TRY(log_settings settings, flow::read_settings(made.info, log_table(), given));
  WEIR_TRY(flow::port_type type, flow::port_type::parse(settings.type));
  made.info.ports = {{"x", type, false}};
  made.object = std::make_unique<log_source>(std::move(settings), std::move(type), fs);
  return {};
}

}  // namespace weir::actors
