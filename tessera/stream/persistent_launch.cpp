// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs that outlast their tasks.
#include "stream/persistent_launch.hpp"

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "stream/janitor.hpp"

namespace weir::tessera {
namespace {

/// Ends when its threads have; holds its stream until then.
class persistent_operation final : public launch_operation {
 public:
  persistent_operation(ref<launch_shape> shape, ref<launch_arguments> args,
                       std::uint64_t ordinal, stream& target)
      : launch_operation(std::move(shape), std::move(args), ordinal),
        stream_(target.shared_from_this()) {}

  [[nodiscard]] ref<operation> clone() const override { return {}; }
  [[nodiscard]] std::uint32_t tasks(unsigned devices) const override { return devices; }
  [[nodiscard]] std::int64_t resident() const noexcept override {
    return shape_->grid().blocks();  // each has a thread of its own
  }

  void submit(submission& to) override {
    lane_set& lanes = to.lanes();
    left_ = lanes.devices();
    outcomes_.resize(lanes.devices());
    for (unsigned d = 0; d < lanes.devices(); ++d) {
      to.add(*this, d, 0, to.held(*this, d));
    }
  }

  void admitted(submission_lock::session&, stream& target) override { target.hold(); }

  void step(lane_set& lanes, unsigned lane, std::uint32_t) noexcept override {
    if (!may_run(lanes, lane)) {
      ended(lane, {}, 0);
      return;
    }
    const std::int64_t start = begin();
    auto begun = guarded([&]() -> result<void> {
      std::vector<std::byte> args(args_ ? args_->bytes.size() : 0);
      const tessDeterminism of_numbers = determinism();
      const grid_launch grid = placed(lane, args.data(), of_numbers);
      const ref<persistent_operation> self(this);
      const std::shared_ptr<stream> on = stream_;  // until the run has ended
      WEIR_TRY(const auto run, shape_->mesh->context->backend().start_persistent(
                                   grid, [self, lane, start](result<void> outcome) {
                                     self->ended(lane, std::move(outcome), start);
                                   }));
      on->note_persistent(run, number);
      const std::lock_guard lock(mutex_);
      runs_.push_back(run);
      return {};
    });
    if (!begun) {
      ended(lane, std::move(begun), start);
    }
  }

 private:
  /// The last device's end lets the stream go on, with what went wrong.
  void ended(unsigned lane, result<void> outcome, std::int64_t start) {
    observe(lane, start);
    {
      const std::lock_guard lock(mutex_);
      outcomes_[lane] = std::move(outcome);
      if (--left_ > 0) {
        return;
      }
    }
    // A worker must not wait for the session.
    shape_->mesh->context->cleaner().later(
        [self = ref<persistent_operation>(this)] { self->release_stream(); });
  }
  void release_stream();

  std::shared_ptr<stream> stream_;
  std::mutex mutex_;
  unsigned left_ = 0;
  std::vector<result<void>> outcomes_;
  std::vector<std::shared_ptr<persistent_run>> runs_;
};

/// Puts outcomes of a persistent kernel into the lanes, and into the memory that it
/// should have written.
class outcome_operation final : public lane_operation {
 public:
  outcome_operation(ref<persistent_operation> of, std::vector<result<void>> outcomes)
      : lane_operation(operation_kind::other),
        of_(std::move(of)),
        outcomes_(std::move(outcomes)) {
    touches_more = of_->touches_more;
  }

  void touched(unsigned lane, std::vector<touched_memory>& all) const override {
    of_->touched(lane, all);
  }

 protected:
  result<void> run(unsigned lane) override { return std::move(outcomes_[lane]); }

 private:
  ref<persistent_operation> of_;
  std::vector<result<void>> outcomes_;
};

void persistent_operation::release_stream() {
  const std::shared_ptr<stream> on = std::move(stream_);
  auto in = on->context().submission_lock().enter();
  const auto report =
      make_ref<outcome_operation>(ref<persistent_operation>(this), std::move(outcomes_));
  report->number = number;
  submission to(in, on->chain(), report);
  report->submit(to);
  on->proceed(in);
}

}  // namespace

ref<operation> make_persistent_launch(ref<launch_shape> shape, ref<launch_arguments> args,
                                      std::uint64_t ordinal, stream& target) {
  return make_ref<persistent_operation>(std::move(shape), std::move(args), ordinal,
                                        target);
}

}  // namespace weir::tessera
