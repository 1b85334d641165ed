// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a message reader holds: messages read ahead, and how many it may read. No actor
/// in it.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "tensogram/message_feed.hpp"

namespace weir::actors {

/// Pulls that may be unanswered.
inline constexpr std::size_t max_pulls = 256;

/// A pull is a credit for one message. The state reads as many as there are credits, and
/// `prefetch` more as long as what is held stays below `prefetch_bytes`.
/// @threads{thread-compatible}
class reader_state {
 public:
  reader_state(std::unique_ptr<message_feed> feed, const message_source& source)
      : feed_(std::move(feed)),
        prefetch_(source.prefetch),
        prefetch_bytes_(source.prefetch_bytes) {}

  /// What a read led to.
  enum class step : std::uint8_t { held, waiting };

  /// Whether a message is to be read for `pulls` that are unanswered.
  [[nodiscard]] bool wants(std::size_t pulls) const noexcept;
  /// Reads one message, or finds that a pipe has none yet.
  step read();
  /// What answers the next pull; nothing if it is still to be read.
  [[nodiscard]] std::optional<result<message_delivery>> take();

  [[nodiscard]] std::size_t held() const noexcept { return held_.size(); }
  [[nodiscard]] std::uint64_t held_bytes() const noexcept { return held_bytes_; }
  [[nodiscard]] std::uint64_t delivered() const noexcept { return delivered_; }
  [[nodiscard]] const message_source_info& info() const noexcept { return feed_->info(); }

 private:
  struct item {
    result<message_delivery> delivery;
    std::uint64_t bytes = 0;
  };
  std::unique_ptr<message_feed> feed_;
  std::size_t prefetch_;
  std::uint64_t prefetch_bytes_;
  std::deque<item> held_;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t delivered_ = 0;
  /// What answers every further pull: the end, or the error that ended all.
  std::optional<result<message_delivery>> last_;
};

}  // namespace weir::actors
