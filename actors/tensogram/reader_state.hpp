// SPDX-License-Identifier: Apache-2.0
/// @file
/// The logic of the message reader, without actors: the messages that were read ahead,
/// and how many more may be read.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "tensogram/message_feed.hpp"

namespace weir::actors {

/// Largest number of pulls without an answer.
inline constexpr std::size_t max_pulls = 256;

/// A buffer of messages. Each unanswered pull allows to read one message. Up to
/// `prefetch` more are read ahead, as long as the messages that are held have fewer than
/// `prefetch_bytes` bytes.
/// @threads{thread-compatible}
class reader_state {
 public:
  /// Takes a feed whose first message has not been read.
  reader_state(std::unique_ptr<message_feed> feed, const message_source& source)
      : feed_(std::move(feed)),
        prefetch_(source.prefetch),
        prefetch_bytes_(source.prefetch_bytes) {}

  /// Result of a read: a message is held, or a pipe has none now.
  enum class step : std::uint8_t { buffered, waiting };

  /// Returns whether a message may be read while `pulls` pulls are unanswered.
  [[nodiscard]] bool wants(std::size_t pulls) const noexcept;
  /// Reads one message, or finds that a pipe has none now.
  step read();
  /// Returns the answer to the next pull; nothing if it has not been read yet.
  [[nodiscard]] std::optional<result<message_delivery>> take();

  /// Returns the number of messages that are held.
  [[nodiscard]] std::size_t buffered() const noexcept { return buffered_.size(); }
  /// Returns the bytes of memory of these messages.
  [[nodiscard]] std::uint64_t buffered_bytes() const noexcept { return buffered_bytes_; }
  /// Returns the number of messages that were taken.
  [[nodiscard]] std::uint64_t delivered() const noexcept { return delivered_; }
  /// Returns information about the source.
  [[nodiscard]] const message_source_info& info() const noexcept { return feed_->info(); }

 private:
  /// A message, or the error in its place.
  struct item {
    result<message_delivery> delivery;
    std::uint64_t bytes = 0;
  };
  std::unique_ptr<message_feed> feed_;
  std::size_t prefetch_;
  std::uint64_t prefetch_bytes_;
  std::deque<item> buffered_;
  std::uint64_t buffered_bytes_ = 0;  ///< sum of the bytes of `buffered_`
  std::uint64_t delivered_ = 0;
  /// The answer to all further pulls: the end, or the error after which nothing follows.
  std::optional<result<message_delivery>> last_;
};

}  // namespace weir::actors
