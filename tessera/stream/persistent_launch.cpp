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

  // One task for each device chain, which starts the blocks of the device chain's device.
  void submit(submission& to) override {
    device_chains& chains = to.chain_count();
    left_ = chains.devices();
    outcomes_.resize(chains.devices());
    for (unsigned d = 0; d < chains.devices(); ++d) {
      to.add(*this, d, 0, to.held(*this, d));
    }
  }

  // Later operations wait in the stream instead of in the engine's window.
  void admitted(submission_lock::guard&, stream& target) override { target.hold(); }

  // A device starts its kernel when it gets to it, which workers do not wait for.
  void step(device_chains& chains, unsigned chain, std::uint32_t) noexcept override {
    if (!may_run(chains, chain)) {
      ended(chain, {}, 0);
      return;
    }
    const std::int64_t begun = begin();
    const context& owner = *shape_->mesh->context;
    if (owner.backend().inline_work()) {
      start(chain, begun);
      return;
    }
    shape_->mesh->context->deferred().later([self = ref<persistent_operation>(this),
                                             chain,
                                             begun] { self->start(chain, begun); });
  }

 private:
  /// Starts the kernel on the device of a device chain.
  // The arguments live on this stack only until `start_persistent` returns, which copies
  // them. `self` and `target` keep operation and stream alive even if the run ends before
  // this call does.
  void start(unsigned chain, std::int64_t start_ns) noexcept {
    const ref<persistent_operation> self(this);
    const std::shared_ptr<stream> target = stream_;  // until the run has ended
    auto begun = guarded([&]() -> result<void> {
      std::vector<std::byte> args(args_ ? args_->bytes.size() : 0);
      const tessDeterminism of_numbers = determinism();
      const grid_launch grid = placed(chain, args.data(), of_numbers);
      WEIR_TRY(const auto run, shape_->mesh->context->backend().start_persistent(
                                   grid, [self, chain, start_ns](result<void> outcome) {
                                     self->ended(chain, std::move(outcome), start_ns);
                                   }));
      target->note_persistent(run, number);
      const std::lock_guard lock(mutex_);
      runs_.push_back(run);
      return {};
    });
    if (!begun) {
      ended(chain, std::move(begun), start_ns);
    }
  }
  /// Notes the outcome of one device, on the thread that ended the run or on a worker if
  /// nothing was started. After the last device, the stream is released.
  void ended(unsigned chain, result<void> outcome, std::int64_t start) {
    observe(chain, start);
    {
      const std::lock_guard lock(mutex_);
      outcomes_[chain] = std::move(outcome);
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

/// Reports the outcomes of a persistent kernel as failures of the device chains, and of
/// the memory that the kernel should have written. It is not held back by the stream,
/// because it goes ahead of all operations that are.
class outcome_operation final : public chain_operation {
 public:
  outcome_operation(ref<persistent_operation> launch, std::vector<result<void>> outcomes)
      : chain_operation(operation_kind::other),
        launch_(std::move(launch)),
        outcomes_(std::move(outcomes)) {
    touches_more = launch_->touches_more;
  }

  void touched(unsigned chain, std::vector<touched_memory>& all) const override {
    launch_->touched(chain, all);
  }

 protected:
  result<void> run(unsigned chain) override { return std::move(outcomes_[chain]); }

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
  submission to(in, target->chains(), report);
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
