// SPDX-License-Identifier: Apache-2.0
/// @file
/// A point in a stream, which events refer to and which streams and threads wait for.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "weir/tessera/stream/operation.hpp"

namespace weir::tessera {

class context;
class notifier;
class graph_recording;
class stream;

/// A marker on every device chain of one stream. It is reached when all device chains
/// have run it; waiting for it means waiting for all device chains.
/// @threads{`reached` and `when_ns`, and failures once reached: any thread; others: the
/// thread that holds the submission lock}
class point final : public operation {
 public:
  /// Makes a marker for this many device chains. `notifier` wakes waiting threads when it
  /// is reached.
  point(unsigned chains, notifier& notifier);
  /// Returns a point that is already reached, for a stream without unfinished operations.
  [[nodiscard]] static ref<point> over_now(notifier& notifier);
  /// Makes a point of `over_now` reached at the present time, if the caller has its only
  /// reference. Returns false and changes nothing for other points.
  [[nodiscard]] bool over_again(const notifier& notifier) noexcept;

  /// Submits a task on each device chain, then calls the callbacks of `when_submitted`.
  void submit(submission& to) override;
  /// Marks one device chain as reached and keeps the device chain's failure.
  void step(device_chains& chains, unsigned chain, std::uint32_t index) noexcept override;
  [[nodiscard]] std::string_view name() const noexcept override { return "event"; }
  [[nodiscard]] ref<operation> clone() const override;
  /// Adds nothing: the order of a graph has its points.
  [[nodiscard]] bool add_native_work(native_pieces&) const override { return true; }

  /// Returns true if all device chains have reached it.
  [[nodiscard]] bool reached() const noexcept {
    return left_.load(std::memory_order_seq_cst) == 0;
  }
  /// Returns true if all device chains have reached it without a failure, so that no wait
  /// is needed.
  [[nodiscard]] bool over() const noexcept {
    return reached() &&
           std::none_of(failures_.begin(), failures_.end(),
                        [](const failure& f) { return static_cast<bool>(f); });
  }
  /// Returns the time at which the last device chain reached it. @units{nanoseconds of
  /// the monotonic clock}
  [[nodiscard]] std::int64_t when_ns() const noexcept {
    return when_.load(std::memory_order_relaxed);
  }
  /// Returns true if its tasks have been submitted.
  [[nodiscard]] bool submitted() const noexcept { return submitted_; }
  /// Adds a callback that is called after submission, with the submission lock held.
  void when_submitted(std::function<void(submission_lock::guard&)> call) {
    waiting_.push_back(std::move(call));
  }
  /// Sets a callback for the worker that reaches it last. Set before submission only.
  void when_reached(std::function<void()> call) { reached_call_ = std::move(call); }

  /// Returns the tasks that end before it is reached. Valid once submitted.
  [[nodiscard]] std::span<const runtime::task_id> tasks_to_wait_for() const noexcept {
    return ids_;
  }
  /// Returns the first failure of all device chains. Valid once reached.
  [[nodiscard]] failure first_failure() const;

  /// True: operations that wait for it run after it and do not take over its failures.
  bool order_only = false;
  /// Capture that records it without running it; empty for other points.
  std::weak_ptr<graph_recording> capture;
  bool captured = false;  ///< true: recorded in a capture, which may have ended since

 private:
  notifier& notifier_;
  std::atomic<unsigned> left_;
  std::atomic<std::int64_t> when_{std::numeric_limits<std::int64_t>::min()};
  bool submitted_ = false;
  std::vector<runtime::task_id> ids_;  ///< the task of each device chain
  std::vector<failure> failures_;      ///< the failure of each device chain
  std::vector<std::function<void(submission_lock::guard&)>> waiting_;
  std::function<void()> reached_call_;
};

/// Waits until a point is reached, at most as long as the settings of its context say,
/// and returns the first failure before it, which may have any code.
/// @error{timeout; it was not reached in time}
[[nodiscard]] result<void> wait_for(const point& p, context& owner);

}  // namespace weir::tessera
