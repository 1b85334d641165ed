// SPDX-License-Identifier: Apache-2.0
/// @file
/// Launches of kernels that run until they are asked to stop.
///
/// The blocks run on threads of their own, because a worker that is occupied for ever
/// would be lost to all streams. The task only starts the threads. The stream holds back
/// its later operations until the last device's threads have ended. Then a deferred call,
/// which may wait for the submission lock, reports the outcomes and lets the stream
/// proceed.
#include "stream/persistent_launch.hpp"

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "stream/deferred_calls.hpp"

namespace weir::tessera {
namespace {

/// A persistent launch. It keeps its stream alive until its threads have ended.
class persistent_operation final : public launch_operation {
 public:
  persistent_operation(ref<launch_shape> shape, ref<launch_arguments> args,
                       std::uint64_t ordinal, stream& target)
      : launch_operation(std::move(shape), std::move(args), ordinal),
        stream_(target.shared_from_this()) {}

  // A persistent launch cannot be in a graph.
  [[nodiscard]] ref<operation> clone() const override { return {}; }
  [[nodiscard]] std::uint32_t tasks(unsigned devices) const override { return devices; }
  [[nodiscard]] std::int64_t resident() const noexcept override {
    return shape_->grid().blocks();  // each block has a thread of its own
  }

  // One task for each lane, which starts the blocks of the lane's device.
  void submit(submission& to) override {
    lane_set& lanes = to.lanes();
    left_ = lanes.devices();
    outcomes_.resize(lanes.devices());
    for (unsigned d = 0; d < lanes.devices(); ++d) {
      to.add(*this, d, 0, to.held(*this, d));
    }
  }

  // Later operations wait in the stream instead of in the engine's window.
  void admitted(submission_lock::guard&, stream& target) override { target.hold(); }

  // A device starts its kernel when it gets to it, which workers do not wait for.
  void step(lane_set& lanes, unsigned lane, std::uint32_t) noexcept override {
    if (!may_run(lanes, lane)) {
      ended(lane, {}, 0);
      return;
    }
    const std::int64_t begun = begin();
    const context& owner = *shape_->mesh->context;
    if (owner.backend().inline_work()) {
      start(lane, begun);
      return;
    }
    shape_->mesh->context->deferred().later([self = ref<persistent_operation>(this), lane,
                                             begun] { self->start(lane, begun); });
  }

 private:
  /// Starts the kernel on the device of a lane.
  // The arguments live on this stack only until `start_persistent` returns, which copies
  // them. `self` and `target` keep operation and stream alive even if the run ends before
  // this call does.
  void start(unsigned lane, std::int64_t start_ns) noexcept {
    const ref<persistent_operation> self(this);
    const std::shared_ptr<stream> target = stream_;  // until the run has ended
    auto begun = guarded([&]() -> result<void> {
      std::vector<std::byte> args(args_ ? args_->bytes.size() : 0);
      const tessDeterminism of_numbers = determinism();
      const grid_launch grid = placed(lane, args.data(), of_numbers);
      WEIR_TRY(const auto run, shape_->mesh->context->backend().start_persistent(
                                   grid, [self, lane, start_ns](result<void> outcome) {
                                     self->ended(lane, std::move(outcome), start_ns);
                                   }));
      target->note_persistent(run, number);
      const std::lock_guard lock(mutex_);
      runs_.push_back(run);
      return {};
    });
    if (!begun) {
      ended(lane, std::move(begun), start_ns);
    }
  }
  /// Notes the outcome of one device, on the thread that ended the run or on a worker if
  /// nothing was started. After the last device, the stream is released.
  void ended(unsigned lane, result<void> outcome, std::int64_t start) {
    observe(lane, start);
    {
      const std::lock_guard lock(mutex_);
      outcomes_[lane] = std::move(outcome);
      if (--left_ > 0) {
        return;
      }
    }
    // A worker must not wait for the submission lock, so a deferred call takes it.
    shape_->mesh->context->deferred().later(
        [self = ref<persistent_operation>(this)] { self->release_stream(); });
  }
  /// Reports the outcomes and lets the stream proceed. @threads{that of the deferred
  /// calls}
  void release_stream();

  std::shared_ptr<stream> stream_;
  std::mutex mutex_;
  unsigned left_ = 0;
  std::vector<result<void>> outcomes_;
  std::vector<std::shared_ptr<persistent_run>> runs_;
};

/// Reports the outcomes of a persistent kernel as failures of the lanes, and of the
/// memory that the kernel should have written. It is not held back by the stream, because
/// it goes ahead of all operations that are.
class outcome_operation final : public lane_operation {
 public:
  outcome_operation(ref<persistent_operation> launch, std::vector<result<void>> outcomes)
      : lane_operation(operation_kind::other),
        launch_(std::move(launch)),
        outcomes_(std::move(outcomes)) {
    touches_more = launch_->touches_more;
  }

  void touched(unsigned lane, std::vector<touched_memory>& all) const override {
    launch_->touched(lane, all);
  }

 protected:
  result<void> run(unsigned lane) override { return std::move(outcomes_[lane]); }

 private:
  ref<persistent_operation> launch_;
  std::vector<result<void>> outcomes_;
};

// The operation drops its reference to the stream, which would otherwise be a cycle.
void persistent_operation::release_stream() {
  const std::shared_ptr<stream> target = std::move(stream_);
  auto in = target->context().submission_lock().enter();
  const auto report =
      make_ref<outcome_operation>(ref<persistent_operation>(this), std::move(outcomes_));
  report->number = number;
  submission to(in, target->chain(), report);
  report->submit(to);
  target->proceed(in);
}

}  // namespace

ref<operation> make_persistent_launch(ref<launch_shape> shape, ref<launch_arguments> args,
                                      std::uint64_t ordinal, stream& target) {
  return make_ref<persistent_operation>(std::move(shape), std::move(args), ordinal,
                                        target);
}

}  // namespace weir::tessera
