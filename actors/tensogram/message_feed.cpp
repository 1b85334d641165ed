// SPDX-License-Identifier: Apache-2.0
/// @file
/// Feeds of messages: a file is scanned for messages when it is opened, and the bytes of
/// a pipe are split into messages as they arrive.
#include "tensogram/message_feed.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace weir::actors {

namespace {

/// Bytes that are read from a pipe at a time. @units{bytes}
constexpr std::size_t pipe_piece = std::size_t{256} << 10;
/// Ending of the files that a folder is searched for.
constexpr std::string_view suffix = ".tgm";

/// Returns the error for bytes that belong to no message, or to one that is cut short.
error garbage(const std::string& name, std::uint64_t offset, std::uint64_t bytes,
              bool cut_short) {
  return error(
             cut_short ? errc::torn : errc::corrupt,
             fmt::format("cannot read message: expected one, found {} bytes {}", bytes,
                         cut_short ? "of one that is cut short" : "that belong to none"))
      .located(fmt::format("{}:{}", name, offset))
      .hint("set skip_garbage to skip such bytes");
}

/// The part that all feeds share: opening a message whose bytes are known.
/// A delivery holds a reader of the message. The bytes behind the reader are in memory
/// or, for large messages, still in the file.
class feed_base : public message_feed {
 public:
  explicit feed_base(const message_source& source) : source_(source) {}
  [[nodiscard]] bool ended() const noexcept override { return ended_; }
  [[nodiscard]] const message_source_info& info() const noexcept override {
    return info_;
  }

 protected:
  /// Opens the message in `bytes`, decodes it if the source says so, and completes the
  /// delivery.
  result<std::optional<message_delivery>> deliver(
      message_delivery delivery, std::shared_ptr<const formats::byte_source> bytes,
      formats::message_span span, const std::string& name) const {
    // The position in the error is that of the message in its file, not that in `bytes`.
    const auto failed = [&](error cause) {
      return error(cause.code(), "cannot read message")
          .located(fmt::format("{}:{}", name, delivery.place.offset))
          .because(std::move(cause));
    };
    auto reader = formats::message_reader::open(std::move(bytes), span, source_.read);
    if (!reader) {
      return failed(reader.error());
    }
    if (source_.decode) {
      auto elements = reader->decode_all();
      if (!elements) {
        return failed(elements.error());
      }
      delivery.elements = std::move(*elements);
    }
    delivery.length = span.length;
    // The reader is shared, because every client of the delivery may keep it.
    delivery.message =
        std::make_shared<const formats::message_reader>(std::move(*reader));
    return std::optional(std::move(delivery));
  }
  /// Returns the delivery that stands for the end: it has no message.
  /// `skipped` counts garbage behind the last message.
  std::optional<message_delivery> end(message_position place, std::uint64_t skipped) {
    ended_ = true;
    message_delivery out;
    out.place = place;
    out.next = std::move(place);
    out.skipped = skipped;
    return out;
  }

  /// Options of the reader; its path is used for errors.
  message_source source_;
  /// Filled in while the feed is opened.
  message_source_info info_;
  /// Set with the last delivery or with an error after which nothing can follow.
  bool ended_ = false;
};

/// The messages of a file, or of the files of a folder in the order of their names. Each
/// file is scanned when the feed reaches it.
class file_feed final : public feed_base {
 public:
  file_feed(file_system& fs, const message_source& source)
      : feed_base(source), fs_(fs), start_(source.start.offset) {}

  /// Finds the files.
  result<void> begin() {
    WEIR_CHECK(resolve_path());
    // A single file is opened now, so that an error is the answer to opening the feed.
    // Files of a folder are opened later, and an error takes the place of its file.
    if (info_.origin == message_origin::file) {
      WEIR_CHECK(open_file());
    }
    return {};
  }

  /// Returns the next message of the files. A gap before it is reported first, as an
  /// error, unless garbage is to be skipped; the next call goes on behind the gap. A file
  /// that cannot be opened is an error too, and the next call goes on with the file after
  /// it.
  result<std::optional<message_delivery>> next() override {
    for (;;) {
      if (!file_ && path_index_ == paths_.size()) {
        return end(last_, std::exchange(skipped_, 0));
      }
      if (!file_) {
        if (auto entered = open_file(); !entered) {
          ++path_index_;
          return std::move(entered).error();
        }
      }
      // Without a further message, everything up to the end of the file is a gap.
      const std::uint64_t begin =
          span_index_ < spans_.size() ? spans_[span_index_].offset : file_->size();
      // `position_` moves behind the gap even if it is reported, so that the next call
      // continues there.
      if (const std::uint64_t gap = begin - std::exchange(position_, begin); gap > 0) {
        skipped_ += gap;
        if (!source_.skip_garbage) {
          return gap_error(begin - gap, gap);
        }
      }
      if (span_index_ < spans_.size()) {
        return message(spans_[span_index_++]);
      }
      close_file();
    }
  }

 private:
  /// Finds out whether the path is a file or a folder, and lists the folder.
  /// A path can be a folder only if it cannot be read as a file. For a folder, files in
  /// front of the start position are left out; the file of the position must exist.
  result<void> resolve_path() {
    const bool automatic = source_.origin == message_origin::automatic;
    info_.origin = message_origin::file;
    paths_ = {source_.path};
    if (source_.origin == message_origin::file || (automatic && can_read(source_.path))) {
      return {};
    }
    auto names = fs_.list(source_.path);
    if (!names) {
      // The path is neither a readable file nor a folder. Opening it as a file returns
      // the better error.
      return automatic ? result<void>() : std::move(names).error();
    }
    paths_.clear();
    info_.origin = message_origin::folder;
    // `list` returns the names in order.
    for (const std::string& name : *names) {
      if (name.ends_with(suffix) && name >= source_.start.file) {
        info_.files.push_back(name);
        paths_.push_back(join_path(source_.path, name));
      }
    }
    const std::string& first = source_.start.file;
    if (!first.empty() && (info_.files.empty() || info_.files.front() != first)) {
      return error(errc::not_found,
                   fmt::format("cannot continue in \"{}\": expected a file \"{}\", found "
                               "none",
                               source_.path, first));
    }
    return {};
  }
  /// Returns whether a path can be read as a file. Folders can be opened but not read.
  /// One byte is read, because opening a folder succeeds.
  [[nodiscard]] bool can_read(const std::string& path) {
    const auto f = fs_.open(path, open_mode::read);
    std::byte one{};
    return f && (*f)->read_some(0, {&one, 1}).has_value();
  }

  /// Opens and scans the next file. The first one begins at the start of the source.
  /// A pipe in a folder is an error, because opening it would wait for a writer for ever.
  result<void> open_file() {
    if (info_.origin == message_origin::folder && is_pipe(paths_[path_index_])) {
      return error(errc::unsupported,
                   fmt::format("cannot open \"{}\": expected a file, found a pipe",
                               paths_[path_index_]));
    }
    WEIR_TRY(auto f, fs_.open(paths_[path_index_], open_mode::read));
    WEIR_TRY(auto opened, formats::file_source::open(std::move(f)));
    // Files behind the first one begin at 0.
    const std::uint64_t start = std::exchange(start_, 0);
    if (start > opened->size()) {
      return error(errc::out_of_range,
                   fmt::format("cannot continue in \"{}\": expected at least {} bytes, "
                               "found {}",
                               paths_[path_index_], start, opened->size()));
    }
    WEIR_TRY(spans_, formats::scan(*opened));
    // Messages in front of the start were delivered by an earlier reader.
    const auto before = [&](const formats::message_span& s) { return s.offset < start; };
    spans_.erase(spans_.begin(), std::find_if_not(spans_.begin(), spans_.end(), before));
    span_index_ = 0;
    position_ = start;
    file_ = std::move(opened);
    return {};
  }
  // The end of this file is the position of the end if no other file follows.
  void close_file() {
    last_ = position(file_->size());
    file_.reset();
    ++path_index_;
  }
  [[nodiscard]] message_position position(std::uint64_t offset) const {
    return {info_.files.empty() ? std::string() : info_.files[path_index_], offset};
  }
  /// Returns the error for bytes between messages. Bytes that begin like a message and
  /// are the last of their file are a message that is cut short.
  [[nodiscard]] error gap_error(std::uint64_t offset, std::uint64_t bytes) {
    skipped_ = 0;
    // A magic number at the end of a file is a message whose rest is missing.
    byte_vector start(std::min<std::uint64_t>(bytes, 8));
    const bool read = file_->read(offset, start).has_value();
    const bool begins = read && as_text(start) == "TENSOGRM";
    return garbage(paths_[path_index_], offset, bytes,
                   begins && span_index_ == spans_.size());
  }

  /// Delivers a message of the file. A message that is too large to be read ahead stays
  /// in the file, and its client reads from there.
  result<std::optional<message_delivery>> message(const formats::message_span& span) {
    position_ = span.offset + span.length;
    message_delivery out;
    out.place = position(span.offset);
    out.next = position(position_);
    out.skipped = std::exchange(skipped_, 0);
    // Larger messages are not copied; `deliver` decodes from the file if that was asked
    // for.
    if (span.length > source_.prefetch_bytes) {
      return deliver(std::move(out), file_, span, paths_[path_index_]);
    }
    byte_vector bytes(span.length);
    WEIR_CHECK(file_->read(span.offset, bytes));
    auto memory =
        std::make_shared<formats::memory_byte_source>(std::move(bytes), "message");
    return deliver(std::move(out), std::move(memory), {0, span.length},
                   paths_[path_index_]);
  }

  file_system& fs_;
  std::vector<std::string> paths_;
  std::size_t path_index_ = 0;  ///< the file that is open or comes next
  std::uint64_t start_;         ///< offset at which the first file begins; then 0
  std::shared_ptr<formats::file_source> file_;  ///< null if no file is open
  std::vector<formats::message_span> spans_;    ///< messages of the open file
  std::size_t span_index_ = 0;                  ///< next message
  std::uint64_t position_ = 0;                  ///< offset behind the last message
  std::uint64_t skipped_ = 0;                   ///< garbage before the next message
  message_position last_;                       ///< end of the last file
};

/// The messages of a pipe.
class pipe_feed final : public feed_base {
 public:
  pipe_feed(std::shared_ptr<byte_pipe> pipe, const message_source& source)
      : feed_base(source), pipe_(std::move(pipe)), splitter_(source.max_message_bytes) {
    info_.origin = message_origin::pipe;
  }

  /// Returns the next message of the pipe, or no value if no bytes have come in time.
  /// Garbage is reported before the message behind it, which is kept for the next call.
  /// A message and the garbage before it come from the splitter together. They are two
  /// deliveries here, so the message waits in `pending_piece_`.
  result<std::optional<message_delivery>> next() override {
    for (;;) {
      if (pending_piece_) {
        return message(*std::exchange(pending_piece_, std::nullopt));
      }
      if (auto piece = splitter_.take()) {
        if (piece->skipped == 0 || source_.skip_garbage) {
          return message(std::move(*piece));
        }
        const std::uint64_t bytes = std::exchange(piece->skipped, 0);
        const std::uint64_t offset = piece->offset - bytes;
        pending_piece_ = std::move(piece);
        return garbage(source_.path, offset, bytes, false);
      }
      if (closed_) {
        return finish();
      }
      WEIR_TRY(const bool came, fill());
      if (!came) {
        return std::optional<message_delivery>();
      }
    }
  }

 private:
  /// Reads from the pipe. Returns false if it has no bytes now.
  // After an error of the pipe its place in the stream is lost, so the feed ends.
  result<bool> fill() {
    byte_vector piece(pipe_piece);
    auto got = pipe_->read_some(piece);
    if (!got) {
      ended_ = true;
      return error(got.error().code(), "cannot read messages from pipe")
          .located(fmt::format("{}:{}", source_.path, received_))
          .because(std::move(got).error());
    }
    if (!*got) {
      return false;
    }
    // No bytes mean that all writers have closed the pipe.
    if (**got == 0) {
      closed_ = true;
      splitter_.end();
    }
    received_ += **got;
    splitter_.put(bytes_view(piece).first(**got));
    return true;
  }
  /// Returns the end of a closed pipe, after the error for garbage before it.
  result<std::optional<message_delivery>> finish() {
    const std::uint64_t bytes = splitter_.skipped();
    if (bytes > 0 && !source_.skip_garbage && !garbage_reported_) {
      garbage_reported_ = true;
      return garbage(source_.path, received_ - bytes, bytes, splitter_.cut_short());
    }
    return end({"", received_}, garbage_reported_ ? 0 : bytes);
  }
  /// The bytes belong to this message alone; the splitter has given them away.
  result<std::optional<message_delivery>> message(
      formats::message_splitter::piece piece) const {
    message_delivery out;
    out.place = {"", piece.offset};
    const std::uint64_t length = piece.bytes.size();
    out.next = {"", piece.offset + length};
    out.skipped = piece.skipped;
    auto memory =
        std::make_shared<formats::memory_byte_source>(std::move(piece.bytes), "message");
    return deliver(std::move(out), std::move(memory), {0, length}, source_.path);
  }

  std::shared_ptr<byte_pipe> pipe_;
  formats::message_splitter splitter_;
  /// A message that was found behind garbage; the error for the garbage comes first.
  std::optional<formats::message_splitter::piece> pending_piece_;
  std::uint64_t received_ = 0;  ///< bytes read from the pipe
  bool closed_ = false;         ///< the pipe has ended
  bool garbage_reported_ = false;
};

}  // namespace

/// Opens the feed that fits the source. A pipe cannot be positioned, so a start position
/// is refused there.
/// `environment.pipe` is a pipe of a test.
result<std::unique_ptr<message_feed>> open_feed(const feed_environment& environment,
                                                const message_source& source) {
  const bool pipe = source.origin == message_origin::pipe || environment.pipe ||
                    (source.origin == message_origin::automatic && is_pipe(source.path));
  if (!pipe) {
    auto files = std::make_unique<file_feed>(*environment.fs, source);
    WEIR_CHECK(files->begin());
    return std::unique_ptr<message_feed>(std::move(files));
  }
  if (source.start != message_position()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot open \"{}\": expected no position in a pipe, found "
                             "offset {}",
                             source.path, source.start.offset));
  }
  std::shared_ptr<byte_pipe> from = environment.pipe;
  if (!from) {
    WEIR_TRY(from, open_pipe_to_read(source.path, environment.timeout));
  }
  return std::unique_ptr<message_feed>(
      std::make_unique<pipe_feed>(std::move(from), source));
}

}  // namespace weir::actors
