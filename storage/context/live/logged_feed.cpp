// SPDX-License-Identifier: Apache-2.0
/// @file
/// A feed whose bytes are durable before anybody reads them.
///
/// Bytes of a pipe exist only once: a process that was killed after it had read them, and
/// before a checkpoint held them, has lost them. The log keeps them. It holds the bytes
/// of the stream from the first one on, as they came, and a resumed run reads what the
/// log has behind its place before it asks the pipe.
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "context/live/byte_feed.hpp"
#include "weir/base/file.hpp"

namespace weir::storage {

namespace {

/// Bytes that are made durable together at most.
constexpr std::size_t max_group = std::size_t{256} << 10;

/// The size in `size_` counts durable bytes; everything below it is read from the file.
class logged_feed final : public byte_feed {
 public:
  logged_feed(std::unique_ptr<byte_feed> from, bool turns, std::string path,
              file_lock lock, std::unique_ptr<file> log, std::uint64_t size)
      : from_(std::move(from)),
        turns_(turns),
        path_(std::move(path)),
        lock_(std::move(lock)),
        log_(std::move(log)),
        size_(size) {}

  /// The log can go on at any of its bytes.
  bool asks() const override { return true; }

  // `taken` is the number of bytes that the caller has. First come bytes of the log,
  // then those of the feed, which pass through the log.
  result<feed_piece> receive(std::uint64_t taken, mutable_bytes to,
                             int wait_ms) override {
    // The log is shorter than what the run has consumed.
    if (taken > size_) {
      return error(errc::history_mismatch,
                   fmt::format("cannot go on at byte {} of the log \"{}\": expected at "
                               "least as many bytes, found {}",
                               taken, path_, size_))
          .hint(
              "the log must hold the text from its beginning; name the log with which "
              "the run began");
    }
    if (taken == size_) {
      if (failed_) {
        return *std::exchange(failed_, std::nullopt);
      }
      if (pending_.is == feed_piece::kind::nothing) {
        WEIR_CHECK(accept(wait_ms));
      }
      // Nothing new has arrived: an end may have.
      if (taken == size_) {
        return std::exchange(pending_, {});
      }
    }
    const std::size_t count =
        static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), size_ - taken));
    WEIR_CHECK(read_exactly(*log_, taken, to.first(count)));
    return feed_piece{feed_piece::kind::bytes, count};
  }

 private:
  /// Takes what has arrived, and makes it durable.
  ///
  /// A group ends when nothing more is there, so that one sync serves all bytes that
  /// have arrived.
  result<void> accept(int wait_ms) {
    group_.resize(max_group);
    std::size_t count = 0;
    while (count < group_.size() && pending_.is == feed_piece::kind::nothing) {
      const auto got = from_->receive(size_ + count, mutable_bytes(group_).subspan(count),
                                      count == 0 ? wait_ms : 0);
      if (!got && count == 0) {
        return got.error();
      }
      // The source has given the bytes before a failure away, so the log must have them.
      // A socket reports a failure once and then says that it has ended, so the failure
      // is kept for the next call.
      if (!got) {
        failed_ = got.error();
        break;
      }
      if (got->is == feed_piece::kind::nothing) {
        break;
      }
      if (got->is == feed_piece::kind::bytes) {
        count += got->count;
      } else {
        pending_ = *got;
      }
    }
    WEIR_CHECK(write(bytes_view(group_).first(count)));
    return pending_.is == feed_piece::kind::left ? end_turn() : result<void>();
  }
  // Bytes count only once they are durable.
  result<void> write(bytes_view bytes) {
    if (bytes.empty()) {
      return {};
    }
    WEIR_CHECK(write_all(*log_, size_, bytes));
    WEIR_CHECK(log_->sync());
    size_ += bytes.size();
    return {};
  }
  /// A writer that has left in the middle of a turn has ended it. The log says so with
  /// the end of the line, because a resumed run sees the log alone.
  result<void> end_turn() {
    std::byte last{'\n'};
    if (turns_ && size_ > 0) {
      WEIR_CHECK(read_exactly(*log_, size_ - 1, {&last, 1}));
    }
    const std::byte newline{'\n'};
    // The log ends with a complete line already.
    return last == newline ? result<void>() : write({&newline, 1});
  }

  std::unique_ptr<byte_feed> from_;
  bool turns_;
  std::string path_;
  file_lock lock_;
  std::unique_ptr<file> log_;
  std::uint64_t size_;  ///< durable bytes of the log
  byte_vector group_;
  feed_piece pending_;           ///< an end that came behind the bytes of the log
  std::optional<error> failed_;  ///< a failure that came behind them
};

}  // namespace

/// Without a log the feed is returned as it is. The lock keeps a second process from
/// writing to the log.
result<std::unique_ptr<byte_feed>> make_logged_feed(std::unique_ptr<byte_feed> from,
                                                    const live_options& options) {
  if (options.log.empty()) {
    return from;
  }
  const auto cannot = [&](error cause) {
    return error(cause.code(),
                 fmt::format("cannot use the log \"{}\" of a live source", options.log))
        .because(std::move(cause));
  };
  file_system& fs = posix_file_system();
  auto lock = file_lock::acquire(options.log);
  if (!lock) {
    return cannot(std::move(lock).error());
  }
  auto log = fs.open(options.log, open_mode::create_or_open);
  if (!log) {
    return cannot(std::move(log).error());
  }
  // What a killed process has written need not be durable yet.
  WEIR_CHECK((*log)->sync());
  // The name of a new log must survive as well.
  WEIR_CHECK(fs.sync_folder(folder_of(options.log)));
  WEIR_TRY(const std::uint64_t size, (*log)->size());
  return std::unique_ptr<byte_feed>(
      std::make_unique<logged_feed>(std::move(from), options.turns, options.log,
                                    *std::move(lock), *std::move(log), size));
}

}  // namespace weir::storage
