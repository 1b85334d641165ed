// SPDX-License-Identifier: Apache-2.0
/// @file
/// A point in a stream: what an event names, what other streams and threads wait for.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <vector>

#include "weir/tessera/stream/operation.hpp"

namespace weir::tessera {

class doorbell;
class graph_recording;

/// A marker on every lane of one stream. It is reached when all lanes have reached it,
/// and whoever waits for it waits for all of them.
/// @threads{`reached`, `when_ns` and the failures once reached: any; the rest: whoever
/// has the session}
class point final : public operation {
 public:
  /// `bell` is rung when all lanes are there.
  point(unsigned lanes, doorbell& bell);
  /// One that is over from the beginning, for a stream of which nothing is under way.
  [[nodiscard]] static ref<point> over_now(doorbell& bell);
  /// Makes such a one as new, for who has the only reference. False if it is another.
  [[nodiscard]] bool over_again(const doorbell& bell) noexcept;

  void submit(submission& to) override;
  void step(lane_set& lanes, unsigned lane, std::uint32_t index) noexcept override;
  [[nodiscard]] std::string_view name() const noexcept override { return "event"; }
  [[nodiscard]] ref<operation> clone() const override;

  [[nodiscard]] bool reached() const noexcept {
    return left_.load(std::memory_order_seq_cst) == 0;
  }
  /// All lanes are there and none had a failure: nothing is left to wait for.
  [[nodiscard]] bool over() const noexcept {
    return reached() &&
           std::none_of(failures_.begin(), failures_.end(),
                        [](const failure& f) { return static_cast<bool>(f); });
  }
  /// Monotonic time at which the last lane was there.
  [[nodiscard]] std::int64_t when_ns() const noexcept {
    return when_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool submitted() const noexcept { return submitted_; }
  /// Calls back once it has been submitted, with the session in hand.
  void when_submitted(std::function<void(submission_port::session&)> call) {
    waiting_.push_back(std::move(call));
  }
  /// Called by a worker when all lanes are there. Before submission only.
  void when_reached(std::function<void()> call) { reached_call_ = std::move(call); }

  /// Tasks after which it is reached, once it has been submitted.
  [[nodiscard]] std::span<const runtime::task_id> tasks_to_wait_for() const noexcept {
    return ids_;
  }
  /// The first failure of all lanes, once it has been reached.
  [[nodiscard]] failure first_failure() const;

  /// Who waits for it is only ordered behind it, and inherits no failures.
  bool order_only = false;
  /// The capture that it is in without having run; nothing for all others.
  std::weak_ptr<graph_recording> capture;
  bool captured = false;  ///< was recorded in a capture, which may have ended since

 private:
  doorbell& bell_;
  std::atomic<unsigned> left_;
  std::atomic<std::int64_t> when_{std::numeric_limits<std::int64_t>::min()};
  bool submitted_ = false;
  std::vector<runtime::task_id> ids_;  ///< by lane
  std::vector<failure> failures_;      ///< by lane
  std::vector<std::function<void(submission_port::session&)>> waiting_;
  std::function<void()> reached_call_;
};

}  // namespace weir::tessera
