// SPDX-License-Identifier: Apache-2.0
/// @file
/// Launches: arguments for each device, blocks in slices, persistent kernels.
#include <algorithm>
#include <atomic>
#include <cstring>

#include <fmt/format.h>

#include "stream/block_tuner.hpp"
#include "weir/base/clock.hpp"
#include "weir/runtime/stream/work.hpp"

namespace weir::runtime {
namespace {

/// A pointer argument that names an allocation of devices. If it is the address of rank
/// 0, each rank gets the address of its own instance.
struct translated {
  std::size_t offset = 0;  ///< in the buffer
  memory_place place;
};

/// Random numbers depend on how many launches the stream has run before.
bool draws_by_counter(const tessDeterminism& told) noexcept {
  constexpr std::uint32_t stateless = 1U << 2;
  return (told.policy & stateless) == 0;
}

/// What launches on the same terms in a row share, as long as one of them lives.
struct launch_shape : counted {
  alignas(64) module_kernel kernel;  // apart from the count, which workers change
  std::shared_ptr<runtime::mesh> mesh;
  device_backend* backend = nullptr;
  std::vector<grid_launch> grids;  ///< by lane; but for arguments and descriptor
  slice_plan slices;
  int rank = -1;           ///< of the stream; -1: its lanes are those of the mesh
  tessDeterminism told{};  ///< but for number and digest

  /// What all lanes have in common.
  [[nodiscard]] const grid_launch& grid() const noexcept { return grids.front(); }
};

/// What a launch in a graph has ready, as it runs often.
struct prepared_launch {
  tessDeterminism told;
  std::vector<grid_launch> grids;  ///< by lane; but for arguments
};

/// Arguments of one launch, and of its runs in graphs.
struct launch_arguments : counted {
  std::vector<std::byte> bytes;
  std::vector<translated> pointers;
  /// What the pointers reach besides memory of the device that a block runs on.
  std::vector<touched_memory> reached;
};

/// Small: its memory goes from the thread that launches to the worker and back.
class launch_operation : public operation {
 public:
  launch_operation(ref<launch_shape> shape, ref<launch_arguments> args,
                   std::uint64_t ordinal)
      : operation(kind::launch),
        shape_(std::move(shape)),
        args_(std::move(args)),
        ordinal_(ordinal) {
    touches_more = args_ && !args_->reached.empty();
  }

  [[nodiscard]] std::string_view name() const noexcept override {
    return shape_->kernel.kernel->record.name;
  }
  void touched(unsigned lane, std::vector<touched_memory>& all) const override {
    if (!args_) {
      return;
    }
    for (const touched_memory& one : args_->reached) {
      if (one.owner != static_cast<int>(lane)) {
        all.push_back(one);
      }
    }
  }
  [[nodiscard]] memory_need needs() const noexcept override {
    const std::size_t own = shape_->kernel.kernel->record.shared_bytes;
    return {(shape_->grid().shared_bytes - own) * static_cast<std::size_t>(resident()),
            args_ ? args_->bytes.size() : 0};
  }
  /// Blocks of one device that are at work, and have shared memory, at a time.
  [[nodiscard]] virtual std::int64_t resident() const noexcept {
    return shape_->slices.slices;
  }
  [[nodiscard]] std::string details() const override {
    const grid_launch& g = shape_->grid();
    return fmt::format(
        "\"grid\":[{},{},{}],\"block\":[{},{},{}],\"resident_blocks\":{},"
        "\"occupancy\":{:.3f},\"policy\":\"{:016x}\",\"arguments\":{{{}}}",
        g.grid[0], g.grid[1], g.grid[2], g.block[0], g.block[1], g.block[2], resident(),
        occupancy(), told().digest, listed_arguments());
  }
  [[nodiscard]] std::uint32_t counted_launches() const noexcept override {
    return draws_by_counter(shape_->told) ? 1 : 0;
  }
  void count_from(std::uint64_t stream, std::uint64_t& next) noexcept override {
    if (!draws_by_counter(shape_->told)) {
      return;
    }
    ordinal_ = next++;
    prepared_->told.stream = stream;
    prepared_->told.ordinal = ordinal_;
    stream::seal(prepared_->told);
  }
  [[nodiscard]] ref<operation> clone() const override {
    auto out = make_ref<launch_operation>(shape_, args_, ordinal_);
    out->prepared_ =
        std::make_unique<prepared_launch>(prepared_launch{told(), shape_->grids});
    for (grid_launch& grid : out->prepared_->grids) {
      grid.facts.determinism = &out->prepared_->told;
    }
    return out;
  }
  [[nodiscard]] std::uint32_t tasks(unsigned devices) const override {
    const auto n = static_cast<std::uint32_t>(shape_->slices.slices);
    return devices * (n <= 1 ? 1 : n + 2);
  }

  void submit(submission& to) override {
    lane_set& lanes = to.lanes();
    const unsigned devices = lanes.devices();
    if (shape_->slices.slices > 1 && cut_ == nullptr) {
      cut_ = std::make_unique<cut[]>(devices);
    }
    for (unsigned d = 0; d < devices; ++d) {
      submit_on(to, d, to.held(*this, d), d + 1 == devices);
    }
  }

  void step(lane_set& lanes, unsigned lane, std::uint32_t index) noexcept override {
    if (index == whole) {
      run_on(lanes, lane, [&] { return run(lane, 0, shape_->grid().blocks()); });
    } else if (index == opening) {
      cut& of = cut_[lane];
      of.skip = !may_run(lanes, lane);
      of.failed.store(no_slice, std::memory_order_relaxed);
      of.started = begin();
    } else if (index == closing) {
      cut& of = cut_[lane];
      if (of.failed.load(std::memory_order_relaxed) != no_slice) {
        fail(lanes.of(lane), std::move(*of.why));
        of.why.reset();
      }
      if (!of.skip) {
        observe(lane, of.started);
      }
      pass_failure_on(lanes, lane);
    } else {
      run_slice(lane, index);
    }
  }

 private:
  static constexpr std::int64_t no_slice = INT64_MAX;

  /// A run in slices on one device, and the failure of the lowest of them, so that timing
  /// does not show.
  struct cut {
    std::int64_t started = 0;
    bool skip = false;
    std::atomic<std::int64_t> failed{no_slice};
    std::mutex mutex;
    std::optional<error> why;
  };

  void submit_on(submission& to, unsigned d, std::span<const access> held, bool last) {
    const std::int64_t slices = shape_->slices.slices;
    if (slices <= 1) {
      if (last) {
        to.add_last(*this, d, whole, held);
      } else {
        to.add(*this, d, whole, held);
      }
      return;
    }
    const task_id first = to.add(*this, d, opening, held);
    std::vector<task_id> all;
    for (std::uint32_t i = 0; i < slices; ++i) {
      all.push_back(to.add(*this, d, i, {}, {&first, 1}));
    }
    to.add(*this, d, closing, held, all);
  }
  /// Members of a JSON object: each argument by name, its bytes as a hexadecimal number,
  /// the most significant first.
  [[nodiscard]] std::string listed_arguments() const {
    std::string out;
    if (!args_) {
      return out;
    }
    for (const kernel_parameter& p : shape_->kernel.kernel->record.parameters) {
      out += fmt::format("{}\"{}\":\"0x", out.empty() ? "" : ",", p.name);
      for (std::size_t i = p.size; i > 0; --i) {
        out +=
            fmt::format("{:02x}", static_cast<unsigned>(args_->bytes[p.offset + i - 1]));
      }
      out += '"';
    }
    return out;
  }
  /// Part of the workers that its blocks on one device can keep busy.
  [[nodiscard]] double occupancy() const {
    const auto workers = static_cast<double>(shape_->mesh->of->workers());
    return std::min(1.0, static_cast<double>(resident()) / workers);
  }

  void run_slice(unsigned lane, std::uint32_t index) noexcept {
    cut& of = cut_[lane];
    if (of.skip) {
      return;
    }
    const slice_plan& slices = shape_->slices;
    auto outcome =
        guarded([&] { return run(lane, slices.begin(index), slices.end(index)); });
    if (!outcome) {
      const std::lock_guard lock(of.mutex);
      if (index < of.failed.load(std::memory_order_relaxed)) {
        of.failed.store(index, std::memory_order_relaxed);
        of.why.emplace(std::move(outcome).error());
      }
    }
  }

  result<void> run(unsigned lane, std::int64_t first, std::int64_t last) const {
    if (prepared_ && !args_) {
      return shape_->backend->run_blocks(prepared_->grids[lane], first, last);
    }
    const std::size_t bytes = args_ ? args_->bytes.size() : 0;
    std::byte* args = nullptr;
    alignas(16) std::array<std::byte, 512> small;
    std::vector<std::byte> large;
    if (bytes > small.size()) {
      large.resize(bytes);
      args = large.data();
    } else {
      args = small.data();
    }
    const tessDeterminism of_numbers = told();
    return shape_->backend->run_blocks(placed(lane, args, of_numbers), first, last);
  }

 protected:
  // Steps; others are numbers of slices.
  static constexpr std::uint32_t whole = 0xFFFFFFF0;
  static constexpr std::uint32_t opening = 0xFFFFFFF1;
  static constexpr std::uint32_t closing = 0xFFFFFFF2;

  /// The launch on one device; `args` gets its arguments.
  [[nodiscard]] grid_launch placed(unsigned lane, std::byte* args,
                                   const tessDeterminism& of_numbers) const {
    grid_launch grid = shape_->grids[lane];
    grid.facts.determinism = &of_numbers;
    if (args_) {
      const int rank = shape_->rank < 0 ? static_cast<int>(lane) : shape_->rank;
      std::memcpy(args, args_->bytes.data(), args_->bytes.size());
      for (const translated& p : args_->pointers) {
        const std::byte* const there = p.place.on_rank(rank);
        std::memcpy(args + p.offset, &there, sizeof there);
      }
      grid.args = {args, args_->bytes.size()};
    }
    return grid;
  }
  /// What its blocks are told of numbers.
  [[nodiscard]] tessDeterminism told() const noexcept {
    if (prepared_) {
      return prepared_->told;
    }
    tessDeterminism out = shape_->told;
    out.ordinal = ordinal_;
    stream::seal(out);
    return out;
  }
  ref<launch_shape> shape_;
  ref<launch_arguments> args_;  ///< null: the kernel takes none
  std::uint64_t ordinal_;
  std::unique_ptr<cut[]> cut_;                 ///< by lane, if it is cut into slices
  std::unique_ptr<prepared_launch> prepared_;  ///< in a graph
};

/// Whose time counts for the choice of later blocks.
class measured_launch final : public launch_operation {
 public:
  measured_launch(ref<launch_shape> shape, ref<launch_arguments> args,
                  std::uint64_t ordinal, block_trial trial, unsigned lanes)
      : launch_operation(std::move(shape), std::move(args), ordinal),
        trial_(std::move(trial)),
        left_(lanes) {}

  void step(lane_set& lanes, unsigned lane, std::uint32_t index) noexcept override {
    if (index == whole || index == opening) {
      std::int64_t none = 0;  // the first of the lanes
      began_.compare_exchange_strong(none, now_ns());
    }
    launch_operation::step(lanes, lane, index);
    if (index != whole && index != closing) {
      return;
    }
    if (lanes.of(lane).poison) {
      failed_ = true;
    }
    if (left_.fetch_sub(1) == 1 && !failed_) {
      static_cast<void>(guarded([&]() -> result<void> {
        shape_->mesh->of->took(trial_, now_ns() - began_);
        return {};
      }));
    }
  }

 private:
  block_trial trial_;
  std::atomic<std::int64_t> began_{0};
  std::atomic<unsigned> left_;
  std::atomic<bool> failed_{false};
};

/// Ends when its threads have; holds its stream until then.
class persistent_operation final : public launch_operation {
 public:
  persistent_operation(ref<launch_shape> shape, ref<launch_arguments> args,
                       std::uint64_t ordinal, stream& on)
      : launch_operation(std::move(shape), std::move(args), ordinal),
        stream_(on.shared_from_this()) {}

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

  void admitted(submission_port::session&, stream& on) override { on.hold(); }

  void step(lane_set& lanes, unsigned lane, std::uint32_t) noexcept override {
    if (!may_run(lanes, lane)) {
      ended(lane, {}, 0);
      return;
    }
    const std::int64_t start = begin();
    auto begun = guarded([&]() -> result<void> {
      std::vector<std::byte> args(args_ ? args_->bytes.size() : 0);
      const tessDeterminism of_numbers = told();
      const grid_launch grid = placed(lane, args.data(), of_numbers);
      const ref<persistent_operation> self(this);
      const std::shared_ptr<stream> on = stream_;  // until the run has ended
      WEIR_TRY(const auto run, shape_->mesh->of->backend().start_persistent(
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
    shape_->mesh->of->cleaner().later(
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
      : lane_operation(kind::other), of_(std::move(of)), outcomes_(std::move(outcomes)) {
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
  auto in = on->of().port().enter();
  const auto report =
      make_ref<outcome_operation>(ref<persistent_operation>(this), std::move(outcomes_));
  report->number = number;
  submission to(in, on->chain(), report);
  report->submit(to);
  on->proceed(in);
}

std::size_t rank_in(const memory_place& place) noexcept {
  return static_cast<std::size_t>(place.rank);
}

/// Null where the kernel takes no arguments.
result<ref<launch_arguments>> arguments_of(stream& on, const kernel_record& record,
                                           const launch_request& what) {
  auto fits = check_arguments(record.parameters, what.args, what.args_bytes);
  if (!fits) {
    return std::move(fits.error()).at(fmt::format("kernel \"{}\"", record.name));
  }
  if (record.parameters.empty()) {
    return ref<launch_arguments>();
  }
  auto out = make_ref<launch_arguments>();
  WEIR_TRY(out->bytes, copy_arguments(record.parameters, what.args, what.args_bytes));
  for (const kernel_parameter& p : record.parameters) {
    if (p.kind != parameter_kind::pointer) {
      continue;
    }
    void* pointer = nullptr;
    std::memcpy(&pointer, out->bytes.data() + p.offset, sizeof pointer);
    if (pointer == nullptr) {
      continue;
    }
    auto place = on.of().memory().find(pointer);
    if (place && place->memory->symmetric() && !on.fits(*place)) {
      return error(errc::invalid_argument,
                   fmt::format("kernel not launched \"{}\": expected memory of the "
                               "stream's mesh as {}, found another mesh's",
                               record.name, p.name));
    }
    // A kernel may touch every byte of an allocation that it is given. If no table knows
    // the address, it may touch any byte of the host.
    const auto reached =
        place ? on.owner_of(place, place->memory->instances()[rank_in(*place)],
                            place->memory->bytes(), true)
              : on.owner_of(place, nullptr, 0, true);
    if (reached && on.lanes() > 1) {
      out->reached.push_back(*reached);
    }
    if (place && place->memory->symmetric()) {
      out->pointers.push_back({p.offset, std::move(*place)});
    }
  }
  return out;
}

result<grid_launch> grid_of(stream& on, const launch_request& what) {
  const kernel_record& record = what.kernel.kernel->record;
  grid_launch grid;
  grid.code = what.kernel.code();
  grid.device = on.device_of(0);
  grid.grid = what.grid;
  grid.block = what.block;
  if (is_zero(what.block)) {
    grid.block = usual_block(record);
  }
  constexpr std::int64_t too_many = std::int64_t{1} << 31;
  std::int64_t threads = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    if (grid.block[i] == 0) {
      grid.block[i] = std::max(static_cast<std::int32_t>(record.default_block[i]), 1);
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
  WEIR_CHECK(on.of().backend().check(grid, what.persistent));
  return grid;
}

result<ref<launch_shape>> shape_of(stream& on, const launch_request& what,
                                   const numerics_policy& policy) {
  auto out = make_ref<launch_shape>();
  WEIR_TRY(grid_launch grid, grid_of(on, what));
  out->kernel = what.kernel;
  out->mesh = on.on();
  out->backend = &on.of().backend();
  out->rank = on.options().rank;
  const auto& of_module = what.kernel.module->policy();
  out->told = on.describe(policy, of_module ? of_module->seed : 0);
  for (unsigned lane = 0; lane < on.lanes(); ++lane) {
    grid.device = on.device_of(lane);
    grid.facts = on.on()->places[static_cast<std::size_t>(on.rank_of(lane))];
    out->grids.push_back(grid);
  }
  // Cut for so many workers that all devices keep all of them busy.
  const unsigned workers = (on.of().workers() + on.lanes() - 1) / on.lanes();
  const std::int64_t blocks = grid.blocks();
  out->slices =
      blocks <= 1 ? slice_plan{blocks, 1, 1} : out->backend->plan(grid, workers);
  return out;
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

ref<operation> over_limit(const stream& on, const kernel_record& record,
                          std::size_t bytes) {
  return make_failing(
      error(errc::out_of_memory,
            fmt::format("kernel not run \"{}\": expected shared memory of all blocks at "
                        "work within the {} bytes that the stream's limit leaves, found "
                        "{} bytes for each",
                        record.name, on.budget()->room(), bytes)));
}

/// `trial`: the launch is to be measured; may be null.
result<ref<operation>> make_launch(stream& on, const launch_request& what,
                                   const numerics_policy& policy, block_trial* trial) {
  const launch_terms terms{what.key,          what.grid,       what.block,
                           what.shared_bytes, what.persistent, on.describe(policy)};
  ref<launch_arguments> args;
  std::uint64_t ordinal = 0;
  const auto make = [&]() -> result<ref<launch_shape>> {
    return what.kernel.kernel == nullptr ? result<ref<launch_shape>>()
                                         : shape_of(on, what, policy);
  };
  const auto accept = [&](const launch_shape& of, std::uint64_t number) -> result<void> {
    WEIR_TRY(args, arguments_of(on, of.kernel.kernel->record, what));
    ordinal = number;
    return {};
  };
  // By the counter, only runs take numbers: of what is recorded, each run of the graph.
  const bool counts =
      policy.stateless_rng || (!what.in_graph && !(on.records() && only_records(on)));
  WEIR_TRY(auto shape, on.shared_by_launches<launch_shape>(terms, counts, make, accept));
  if (!shape) {
    return ref<operation>();
  }
  const kernel_record& record = shape->kernel.kernel->record;
  if (what.persistent && on.records()) {
    return error(errc::unsupported,
                 fmt::format("kernel not launched \"{}\": expected a launch that can be "
                             "captured, found a persistent one on a stream that captures",
                             record.name));
  }
  ref<operation> out;
  if (what.persistent && !fits_shared(on, what, shape->grid().blocks())) {
    out = over_limit(on, record, what.shared_bytes);
  } else if (what.persistent) {
    out = make_ref<persistent_operation>(std::move(shape), std::move(args), ordinal, on);
  } else if (policy.deterministic && (record.flags & TESS_KERNEL_DETERMINISTIC) == 0) {
    out = make_failing(
        error(errc::determinism_violation,
              fmt::format("kernel not run \"{}\": expected one that is marked "
                          "deterministic, as the policy asks, found one that is not",
                          record.name)));
  } else if (!fits_shared(on, what, shape->slices.slices) && !only_records(on)) {
    out = over_limit(on, record, what.shared_bytes);
  } else if (trial) {
    out = make_ref<measured_launch>(std::move(shape), std::move(args), ordinal,
                                    std::move(*trial), on.lanes());
  } else {
    out = make_ref<launch_operation>(std::move(shape), std::move(args), ordinal);
  }
  out->urgent = what.urgent;
  return out;
}

result<ref<operation>> make_launch_in_any_block(stream& on, const launch_request& what,
                                                const numerics_policy& policy) {
  WEIR_TRY(auto choice, choose_block(on, what, policy));
  launch_request chosen = what;
  chosen.block = choice.block;
  return make_launch(on, chosen, policy, choice.trial ? &*choice.trial : nullptr);
}

}  // namespace

result<ref<operation>> make_launch(stream& on, const launch_request& what) {
  numerics_policy policy = on.of().policy();
  policy.deterministic |= what.deterministic;
  if (leaves_block(what)) {
    return make_launch_in_any_block(on, what, policy);
  }
  return make_launch(on, what, policy, nullptr);
}

}  // namespace weir::runtime
