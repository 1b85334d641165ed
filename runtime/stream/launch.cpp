// SPDX-License-Identifier: Apache-2.0
/// @file
/// Launches: arguments for each device, blocks in slices, persistent kernels.
#include <algorithm>
#include <atomic>
#include <cstring>

#include <fmt/format.h>

#include "weir/base/clock.hpp"
#include "weir/runtime/stream/work.hpp"

namespace weir::runtime {
namespace {

/// A pointer argument that names a symmetric allocation.
struct translated {
  std::size_t offset = 0;  ///< in the buffer
  memory_place place;
};

/// What launches of one kernel in one stream share: what has to live until they have run.
struct launch_owner : counted {
  launch_owner(module_kernel k, std::shared_ptr<runtime::mesh> m)
      : kernel(std::move(k)), mesh(std::move(m)) {}

  module_kernel kernel;
  std::shared_ptr<runtime::mesh> mesh;
};

/// One launch, and its runs in graphs.
struct launch_plan : counted {
  ref<launch_owner> owner;
  grid_launch grid;
  tessDeterminism determinism{};
  std::vector<std::byte> args;
  std::vector<translated> pointers;
  bool touches_host = false;  ///< a pointer that is no device memory
};

class launch_operation : public operation {
 public:
  launch_operation(ref<launch_plan> plan, stream& on)
      : operation(kind::launch), plan_(std::move(plan)), rank_(on.options().rank) {
    slices_ = plan_->grid.blocks() <= 1 ? slice_plan{plan_->grid.blocks(), 1, 1}
                                        : backend().plan(plan_->grid, workers_for(on));
  }

  [[nodiscard]] std::string_view name() const noexcept override {
    return plan_->owner->kernel.kernel->record.name;
  }
  [[nodiscard]] memory_need needs() const noexcept override {
    const std::size_t own = plan_->owner->kernel.kernel->record.shared_bytes;
    return {(plan_->grid.shared_bytes - own) * static_cast<std::size_t>(resident()),
            plan_->args.size()};
  }
  /// Blocks of one device that are at work, and have shared memory, at a time.
  [[nodiscard]] virtual std::int64_t resident() const noexcept { return slices_.slices; }
  [[nodiscard]] std::string details() const override {
    const grid_launch& g = plan_->grid;
    return fmt::format(
        "\"grid\":[{},{},{}],\"block\":[{},{},{}],\"resident_blocks\":{},"
        "\"occupancy\":{:.3f},\"policy\":\"{:016x}\"",
        g.grid[0], g.grid[1], g.grid[2], g.block[0], g.block[1], g.block[2], resident(),
        occupancy(), plan_->determinism.digest);
  }
  [[nodiscard]] ref<operation> clone() const override {
    return make_ref<launch_operation>(plan_, rank_, slices_);
  }
  [[nodiscard]] std::uint32_t tasks(unsigned devices) const override {
    const auto n = static_cast<std::uint32_t>(slices_.slices);
    return devices * (n <= 1 ? 1 : n + 2);
  }

  launch_operation(ref<launch_plan> plan, int rank, const slice_plan& slices)
      : operation(kind::launch), plan_(std::move(plan)), rank_(rank), slices_(slices) {}

  void submit(submission& to) override {
    lane_set& lanes = to.lanes();
    lanes.host_used |= plan_->touches_host;
    const unsigned devices = lanes.devices();
    if (slices_.slices > 1 && started_ == nullptr) {
      started_ = std::make_unique<std::int64_t[]>(devices);
      broken_ = std::make_unique<first_failure[]>(devices);
    }
    for (unsigned d = 0; d < devices; ++d) {
      const access& own = holds(lanes.of(d));
      if (plan_->touches_host) {
        const access both[] = {own, {lanes.host().token, access_mode::read}};
        submit_on(to, d, both);
      } else {
        submit_on(to, d, {&own, 1});
      }
    }
  }

  void step(lane_set& lanes, unsigned lane, std::uint32_t index) noexcept override {
    if (index == whole) {
      run_on(lanes, lane, [&] { return run(lane, 0, plan_->grid.blocks()); });
    } else if (index == opening) {
      first_failure& broken = broken_[lane];
      broken.skip = !may_run(lanes, lane);
      broken.slice.store(no_slice, std::memory_order_relaxed);
      started_[lane] = begin();
    } else if (index == closing) {
      first_failure& broken = broken_[lane];
      if (broken.slice.load(std::memory_order_relaxed) != no_slice) {
        fail(lanes.of(lane), std::move(*broken.why));
        broken.why.reset();
      }
      if (!broken.skip) {
        observe(lane, started_[lane]);
      }
    } else {
      run_slice(lane, index);
    }
  }

 private:
  static constexpr std::uint32_t whole = 0xFFFFFFF0;
  static constexpr std::uint32_t opening = 0xFFFFFFF1;
  static constexpr std::uint32_t closing = 0xFFFFFFF2;
  static constexpr std::int64_t no_slice = INT64_MAX;

  /// The failure of the lowest slice, so that timing does not show.
  struct first_failure {
    bool skip = false;
    std::atomic<std::int64_t> slice{no_slice};
    std::mutex mutex;
    std::optional<error> why;
  };

  [[nodiscard]] device_backend& backend() const {
    return plan_->owner->mesh->of->backend();
  }
  void submit_on(submission& to, unsigned d, std::span<const access> held) {
    if (slices_.slices <= 1) {
      to.add(*this, d, whole, held);
      return;
    }
    const task_id first = to.add(*this, d, opening, held);
    std::vector<task_id> all;
    for (std::uint32_t i = 0; i < slices_.slices; ++i) {
      all.push_back(to.add(*this, d, i, {}, {&first, 1}));
    }
    to.add(*this, d, closing, held, all);
  }
  /// Part of the workers that its blocks on one device can keep busy.
  [[nodiscard]] double occupancy() const {
    const auto workers = static_cast<double>(plan_->owner->mesh->of->workers());
    return std::min(1.0, static_cast<double>(resident()) / workers);
  }
  /// Workers that a launch on one device is cut for, so that all devices keep them busy.
  [[nodiscard]] static unsigned workers_for(const stream& on) {
    const unsigned lanes = on.lanes();
    return (on.of().workers() + lanes - 1) / lanes;
  }

  void run_slice(unsigned lane, std::uint32_t index) noexcept {
    first_failure& broken = broken_[lane];
    if (broken.skip) {
      return;
    }
    auto outcome =
        guarded([&] { return run(lane, slices_.begin(index), slices_.end(index)); });
    if (!outcome) {
      const std::lock_guard lock(broken.mutex);
      if (index < broken.slice.load(std::memory_order_relaxed)) {
        broken.slice.store(index, std::memory_order_relaxed);
        broken.why.emplace(std::move(outcome).error());
      }
    }
  }

  result<void> run(unsigned lane, std::int64_t first, std::int64_t last) const {
    const std::size_t bytes = plan_->args.size();
    std::byte* args = nullptr;
    alignas(16) std::array<std::byte, 512> small;
    std::vector<std::byte> large;
    if (bytes > small.size()) {
      large.resize(bytes);
      args = large.data();
    } else {
      args = small.data();
    }
    grid_launch grid = plan_->grid;
    place(grid, lane, args);
    return backend().run_blocks(grid, first, last);
  }

 protected:
  /// Makes the launch that of one device; `args` gets its arguments.
  void place(grid_launch& grid, unsigned lane, std::byte* args) const {
    const int rank = rank_ < 0 ? static_cast<int>(lane) : rank_;
    if (!plan_->args.empty()) {
      std::memcpy(args, plan_->args.data(), plan_->args.size());
    }
    for (const translated& p : plan_->pointers) {
      const std::byte* const there = p.place.on_rank(rank);
      std::memcpy(args + p.offset, &there, sizeof there);
    }
    grid.args = {args, plan_->args.size()};
    const runtime::mesh& mesh = *plan_->owner->mesh;
    grid.device = mesh.devices[static_cast<std::size_t>(rank)];
    grid.facts = mesh.places[static_cast<std::size_t>(rank)];
    grid.facts.determinism = &plan_->determinism;
  }

  ref<launch_plan> plan_;
  int rank_;
  slice_plan slices_;
  std::unique_ptr<std::int64_t[]> started_;
  std::unique_ptr<first_failure[]> broken_;
};

/// Ends when its threads have; holds its stream until then.
class persistent_operation final : public launch_operation {
 public:
  persistent_operation(ref<launch_plan> plan, stream& on)
      : launch_operation(std::move(plan), on), stream_(on.shared_from_this()) {}

  [[nodiscard]] ref<operation> clone() const override { return {}; }
  [[nodiscard]] std::uint32_t tasks(unsigned devices) const override { return devices; }
  [[nodiscard]] std::int64_t resident() const noexcept override {
    return plan_->grid.blocks();  // each has a thread of its own
  }

  void submit(submission& to) override {
    lane_set& lanes = to.lanes();
    left_ = lanes.devices();
    outcomes_.resize(lanes.devices());
    lanes.host_used |= plan_->touches_host;
    for (unsigned d = 0; d < lanes.devices(); ++d) {
      to.add(*this, d, 0, {&holds(lanes.of(d)), 1});
    }
  }

  void admitted(submission_port::session&, stream& on) override { on.hold(); }

  void step(lane_set& lanes, unsigned lane, std::uint32_t) noexcept override {
    if (!may_run(lanes, lane)) {
      ended(lane, {}, 0);
      return;
    }
    const std::int64_t start = begin();
    auto begun = guarded([&]() -> result<void> {
      std::vector<std::byte> args(plan_->args.size());
      grid_launch grid = plan_->grid;
      place(grid, lane, args.data());
      const ref<persistent_operation> self(this);
      const std::shared_ptr<stream> on = stream_;  // until the run has ended
      WEIR_TRY(const auto run, plan_->owner->mesh->of->backend().start_persistent(
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
    plan_->owner->mesh->of->cleaner().later(
        [self = ref<persistent_operation>(this)] { self->release_stream(); });
  }
  void release_stream();

  std::shared_ptr<stream> stream_;
  std::mutex mutex_;
  unsigned left_ = 0;
  std::vector<result<void>> outcomes_;
  std::vector<std::shared_ptr<persistent_run>> runs_;
};

/// Puts outcomes of a persistent kernel into the lanes.
class outcome_operation final : public lane_operation {
 public:
  explicit outcome_operation(std::vector<result<void>> outcomes)
      : lane_operation(kind::other), outcomes_(std::move(outcomes)) {}

 protected:
  result<void> run(unsigned lane) override { return std::move(outcomes_[lane]); }

 private:
  std::vector<result<void>> outcomes_;
};

void persistent_operation::release_stream() {
  const std::shared_ptr<stream> on = std::move(stream_);
  auto in = on->of().port().enter();
  const auto report = make_ref<outcome_operation>(std::move(outcomes_));
  report->number = number;
  submission to(in, on->chain(), true);
  report->submit(to);
  on->proceed(in);
}

result<void> fill_in(stream& on, const launch_request& what, launch_plan& plan) {
  const kernel_record& record = what.kernel.kernel->record;
  WEIR_TRY(plan.args, copy_arguments(record.parameters, what.args, what.args_bytes));
  for (const kernel_parameter& p : record.parameters) {
    if (p.kind != parameter_kind::pointer) {
      continue;
    }
    void* pointer = nullptr;
    std::memcpy(&pointer, plan.args.data() + p.offset, sizeof pointer);
    auto place = pointer == nullptr ? std::nullopt : on.of().memory().find(pointer);
    if (place && place->memory->symmetric()) {
      if (!on.fits(*place)) {
        return error(errc::invalid_argument,
                     fmt::format("kernel not launched \"{}\": expected memory of the "
                                 "stream's mesh as {}, found another mesh's",
                                 record.name, p.name));
      }
      plan.pointers.push_back({p.offset, std::move(*place)});
    } else if (pointer != nullptr) {
      plan.touches_host = true;
    }
  }
  return {};
}

result<void> shape(stream& on, const launch_request& what, launch_plan& plan) {
  const kernel_record& record = what.kernel.kernel->record;
  grid_launch& grid = plan.grid;
  grid.code = what.kernel.code();
  grid.device = on.device_of(0);
  grid.grid = what.grid;
  grid.block = what.block;
  const bool none = std::all_of(what.block.begin(), what.block.end(),
                                [](std::int32_t n) { return n == 0; });
  const bool no_default =
      std::all_of(record.default_block.begin(), record.default_block.end(),
                  [](std::uint32_t n) { return n == 0; });
  constexpr std::int64_t too_many = std::int64_t{1} << 31;
  std::int64_t threads = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    if (grid.block[i] == 0) {
      const auto usual = static_cast<std::int32_t>(record.default_block[i]);
      grid.block[i] = none && no_default && i == 0 ? 128 : std::max(usual, 1);
    }
    threads = std::min(threads, too_many) * std::max(grid.block[i], 1);
  }
  if (threads > record.most_threads) {
    return error(errc::invalid_argument,
                 fmt::format("kernel not launched \"{}\": expected at most {} threads in "
                             "a block, found {}",
                             record.name, record.most_threads, threads));
  }
  if (what.shared_bytes > SIZE_MAX - record.shared_bytes) {
    return error(errc::invalid_argument,
                 fmt::format("kernel not launched \"{}\": expected shared memory that "
                             "can be counted, found {} bytes",
                             record.name, what.shared_bytes));
  }
  grid.shared_bytes = what.shared_bytes + record.shared_bytes;
  return on.of().backend().check(grid, what.persistent);
}

bool fits_shared(const stream& on, const launch_request& what, std::int64_t blocks) {
  return what.shared_bytes == 0 ||
         on.budget()->room() / what.shared_bytes >= static_cast<std::size_t>(blocks);
}

/// A recording is not run now: what it needs is looked at when it is.
bool only_records(stream& on) {
  const auto in = on.of().port().enter();
  return on.recording_only();
}

ref<operation> over_limit(const stream& on, const launch_request& what) {
  return make_failing(
      error(errc::out_of_memory,
            fmt::format("kernel not run \"{}\": expected shared memory of all blocks at "
                        "work within the {} bytes that the stream's limit leaves, found "
                        "{} bytes for each",
                        what.kernel.kernel->record.name, on.budget()->room(),
                        what.shared_bytes)));
}

}  // namespace

result<ref<operation>> make_launch(stream& on, const launch_request& what) {
  auto plan = make_ref<launch_plan>();
  WEIR_CHECK(shape(on, what, *plan));
  WEIR_CHECK(fill_in(on, what, *plan));
  numerics_policy policy = on.of().policy();
  policy.deterministic |= what.deterministic;
  const auto& of_module = what.kernel.module->policy();
  tessDeterminism& told = plan->determinism;
  told = on.describe(policy, of_module ? of_module->seed : 0);
  told.ordinal = on.next_ordinal();
  plan->owner = on.shared_by_launches<launch_owner>(what.kernel.kernel, told, [&] {
    return make_ref<launch_owner>(what.kernel, on.on());
  });
  ref<operation> out;
  if (what.persistent && !fits_shared(on, what, plan->grid.blocks())) {
    out = over_limit(on, what);
  } else if (what.persistent) {
    out = make_ref<persistent_operation>(std::move(plan), on);
  } else if (policy.deterministic &&
             (what.kernel.kernel->record.flags & TESS_KERNEL_DETERMINISTIC) == 0) {
    out = make_failing(
        error(errc::determinism_violation,
              fmt::format("kernel not run \"{}\": expected one that is marked "
                          "deterministic, as the policy asks, found one that is not",
                          what.kernel.kernel->record.name)));
  } else {
    auto launch = make_ref<launch_operation>(std::move(plan), on);
    if (fits_shared(on, what, launch->resident()) || only_records(on)) {
      out = std::move(launch);
    } else {
      out = over_limit(on, what);
    }
  }
  out->urgent = what.urgent;
  return out;
}

}  // namespace weir::runtime
