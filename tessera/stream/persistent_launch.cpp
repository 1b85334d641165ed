// SPDX-License-Identifier: Apache-2.0
/// @file
/// Launches of kernels that run until they are asked to stop.
///
/// The blocks run on threads of their own, because a worker that is occupied for ever
/// would be lost to all streams. The task only starts the threads. The stream holds back
/// its later operations until the last device's threads have ended. Then a deferred call,
/// which may wait for the session, reports the outcomes and lets the stream proceed.
#include "stream/persistent_launch.hpp"

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "stream/deferred_calls.hpp"

namespace weir::tessera {
namespace {

/// A persistent launch. It keeps its stream alive until its threads have ended.
///
/// Its kernel may run for as long as the program.
class persistent_operation final : public launch_operation {
 public:
  persistent_operation(ref<launch_shape> shape, ref<launch_arguments> args,
                       std::uint64_t ordinal, stream& target)
      // The stream must not end before the kernel.
      : launch_operation(std::move(shape), std::move(args), ordinal),
        stream_(target.shared_from_this()) {}

  // A persistent launch cannot be in a graph. Captures refuse such launches.
  [[nodiscard]] ref<operation> clone() const override { return {}; }
  [[nodiscard]] std::uint32_t tasks(unsigned devices) const override { return devices; }
  [[nodiscard]] std::int64_t resident() const noexcept override {
    // The device must have room for them all.
    return shape_->grid().blocks();  // each block has a thread of its own
  }

  // One task for each lane, which starts the blocks of the lane's device.
  void submit(submission& to) override {
    lane_set& lanes = to.lanes();
    // Counted down by `ended`.
    left_ = lanes.devices();
    outcomes_.resize(lanes.devices());
    // Each lane holds its token only until the blocks have begun.
    for (unsigned d = 0; d < lanes.devices(); ++d) {
      to.add(*this, d, 0, to.held(*this, d));
    }
  }

  // Later operations wait in the stream instead of in the engine's window.
  void admitted(submission_lock::session&, stream& target) override { target.hold(); }

  // A device starts its kernel when it gets to it, which workers do not wait for.
  void step(lane_set& lanes, unsigned lane, std::uint32_t) noexcept override {
    // A lane that has failed counts as ended.
    if (!may_run(lanes, lane)) {
      ended(lane, {}, 0);
      return;
    }
    // The observer sees the whole time of the kernel.
    const std::int64_t begun = begin();
    const context& owner = *shape_->mesh->context;
    if (owner.backend().inline_work()) {
      start(lane, begun);
      return;
    }
    // The deferred call may wait for the device.
    shape_->mesh->context->deferred().later([self = ref<persistent_operation>(this), lane,
                                             begun] { self->start(lane, begun); });
  }

 private:
  /// Starts the kernel on the device of a lane.
  // The arguments live on this stack only until `start_persistent` returns, which copies
  // them. `self` and `target` keep operation and stream alive even if the run ends before
  // this call does.
  //
  // It may be called on a worker, or by a deferred call.
  void start(unsigned lane, std::int64_t start_ns) noexcept {
    const ref<persistent_operation> self(this);
    const std::shared_ptr<stream> target = stream_;  // until the run has ended
    // An exception becomes a failed outcome.
    auto begun = guarded([&]() -> result<void> {
      std::vector<std::byte> args(args_ ? args_->bytes.size() : 0);
      const tessDeterminism of_numbers = determinism();
      const grid_launch grid = placed(lane, args.data(), of_numbers);
      // The function is called once, when the last block has ended.
      WEIR_TRY(const auto run, shape_->mesh->context->backend().start_persistent(
                                   grid, [self, lane, start_ns](result<void> outcome) {
                                     self->ended(lane, std::move(outcome), start_ns);
                                   }));
      // The stream can ask it to stop from here on.
      target->note_persistent(run, number);
      const std::lock_guard lock(mutex_);
      runs_.push_back(run);
      return {};
    });
    // Nothing runs on this device.
    if (!begun) {
      ended(lane, std::move(begun), start_ns);
    }
  }
  /// Notes the outcome of one device, on the thread that ended the run or on a worker if
  /// nothing was started. After the last device, the stream is released.
  void ended(unsigned lane, result<void> outcome, std::int64_t start) {
    // Seen even if the kernel failed.
    observe(lane, start);
    {
      const std::lock_guard lock(mutex_);
      // Each device has its own place.
      outcomes_[lane] = std::move(outcome);
      if (--left_ > 0) {
        return;
      }
    }
    // A worker must not wait for the session, so a deferred call takes it.
    shape_->mesh->context->deferred().later(
        [self = ref<persistent_operation>(this)] { self->release_stream(); });
  }
  /// Reports the outcomes and lets the stream proceed. @threads{that of the deferred
  /// calls}
  ///
  /// The reference to the stream goes here.
  void release_stream();

  // Null after the release.
  std::shared_ptr<stream> stream_;
  std::mutex mutex_;
  unsigned left_ = 0;
  // Filled by `ended`, and read after the last device.
  std::vector<result<void>> outcomes_;
  // Kept, so that runs are released with the operation.
  std::vector<std::shared_ptr<persistent_run>> runs_;
};

/// Reports the outcomes of a persistent kernel as failures of the lanes, and of the
/// memory that the kernel should have written. It is not held back by the stream, because
/// it goes ahead of all operations that are.
///
/// It is submitted without the stream's own order.
class outcome_operation final : public lane_operation {
 public:
  outcome_operation(ref<persistent_operation> launch, std::vector<result<void>> outcomes)
      : lane_operation(operation_kind::other),
        launch_(std::move(launch)),
        outcomes_(std::move(outcomes)) {
    // Other lanes must not read what the kernel should have written.
    touches_more = launch_->touches_more;
  }

  void touched(unsigned lane, std::vector<touched_memory>& all) const override {
    launch_->touched(lane, all);
  }

 protected:
  // Each lane runs once.
  result<void> run(unsigned lane) override { return std::move(outcomes_[lane]); }

 private:
  ref<persistent_operation> launch_;
  std::vector<result<void>> outcomes_;
};

// The operation drops its reference to the stream, which would otherwise be a cycle.
//
// The reports come before the operations that were held back.
void persistent_operation::release_stream() {
  // Keeps the stream until the end of this function.
  const std::shared_ptr<stream> target = std::move(stream_);
  auto in = target->context().submission_lock().enter();
  const auto report =
      make_ref<outcome_operation>(ref<persistent_operation>(this), std::move(outcomes_));
  // Failures name the launch, not the report.
  report->number = number;
  submission to(in, target->chain(), report);
  report->submit(to);
  // May submit many operations.
  target->proceed(in);
}

}  // namespace

/// Checked by the caller.
ref<operation> make_persistent_launch(ref<launch_shape> shape, ref<launch_arguments> args,
                                      std::uint64_t ordinal, stream& target) {
  return make_ref<persistent_operation>(std::move(shape), std::move(args), ordinal,
                                        target);
}

}  // namespace weir::tessera
