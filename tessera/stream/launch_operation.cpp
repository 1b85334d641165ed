// SPDX-License-Identifier: Apache-2.0
/// @file
/// Launches as tasks.
///
/// On each device, a launch of few blocks is one task (`whole`). A larger launch is cut
/// into slices: the task `opening` waits for the device chain's token and decides whether
/// the launch may run, the slices run in parallel behind it without accesses of their
/// own, and the task `closing` runs behind all slices and passes the failure on. Opening
/// and closing both hold the token, so later operations of the device chain wait for the
/// closing task.
#include "stream/launch_operation.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/core.h>

#include "stream/graphs/native_graph.hpp"
#include "weir/base/clock.hpp"
#include "weir/tessera/stream/device_step.hpp"

namespace weir::tessera {
namespace {

/// Returns true if random numbers depend on the number of the launch in its stream.
bool draws_by_counter(const tessDeterminism& determinism) noexcept {
  constexpr std::uint32_t stateless = 1U << 2;
  return (determinism.policy & stateless) == 0;
}

}  // namespace

void launch_operation::touched(unsigned chain, std::vector<touched_memory>& all) const {
  if (!args_) {
    return;
  }
  for (const touched_memory& one : args_->reached) {
    if (one.owner != static_cast<int>(chain)) {
      all.push_back(one);
    }
  }
}

// Each block that runs at a time needs the requested shared memory. The memory that the
// kernel itself declares is not counted.
memory_need launch_operation::needs() const noexcept {
  const std::size_t own =
      shape_->backend->inline_work() ? shape_->kernel.kernel->record.shared_bytes : 0;
  return {(shape_->grid().shared_bytes - own) * static_cast<std::size_t>(resident()),
          args_ ? args_->bytes.size() : 0};
}

/// For profiles; the text continues an object.
std::string launch_operation::details() const {
  const grid_launch& g = shape_->grid();
  return fmt::format(
      "\"grid\":[{},{},{}],\"block\":[{},{},{}],\"resident_blocks\":{},"
      "\"occupancy\":{:.3f},\"policy\":\"{:016x}\",\"arguments\":{{{}}}",
      g.grid[0], g.grid[1], g.grid[2], g.block[0], g.block[1], g.block[2], resident(),
      occupancy(), determinism().digest, listed_arguments());
}

std::uint32_t launch_operation::counted_launches() const noexcept {
  return draws_by_counter(shape_->determinism) ? 1 : 0;
}

// Called by the task that enters a graph, before the run's other tasks. The launch takes
// the next number of the stream that the graph was launched on.
void launch_operation::count_from(std::uint64_t stream, std::uint64_t& next) noexcept {
  if (!draws_by_counter(shape_->determinism)) {
    return;
  }
  ordinal_ = next++;
  prepared_->determinism.stream = stream;
  prepared_->determinism.ordinal = ordinal_;
  stream::seal(prepared_->determinism);
}

// A launch in a graph gets descriptor and grids of its own, because `count_from` changes
// them in each run. The grids point to the descriptor next to them, which does not move.
ref<operation> launch_operation::clone() const {
  auto out = make_ref<launch_operation>(shape_, args_, ordinal_);
  out->prepared_ =
      std::make_unique<prepared_launch>(prepared_launch{determinism(), shape_->grids});
  for (grid_launch& grid : out->prepared_->grids) {
    grid.facts.determinism = &out->prepared_->determinism;
  }
  return out;
}

/// A launch of one slice is one task per device.
void launch_operation::submit(submission& to) {
  device_chains& chains = to.chain_count();
  const unsigned devices = chains.devices();
  if (shape_->slices.slices > 1 && cut_ == nullptr) {
    cut_ = std::make_unique<cut[]>(devices);
  }
  // In the last iteration `add_last` may hand over the operation, so nothing is read from
  // it after that.
  for (unsigned d = 0; d < devices; ++d) {
    submit_on(to, d, to.held(*this, d), d + 1 == devices);
  }
}

// Submits the tasks on device `d`. `accesses` are those of the device chain's token and
// of other memory that the launch touches.
void launch_operation::submit_on(submission& to, unsigned d,
                                 std::span<const runtime::access> accesses, bool last) {
  // The number is the same on all devices.
  const std::int64_t slices = shape_->slices.slices;
  if (slices <= 1) {
    if (last) {
      to.add_last(*this, d, whole, accesses);
    } else {
      to.add(*this, d, whole, accesses);
    }
    return;
  }
  const runtime::task_id first = to.add(*this, d, opening, accesses);
  std::vector<runtime::task_id> all;
  for (std::uint32_t i = 0; i < slices; ++i) {
    all.push_back(to.add(*this, d, i, {}, {&first, 1}));
  }
  to.add(*this, d, closing, accesses, all);
}

// Runs one of the tasks. The fields of `cut` are set by the opening task before the
// slices and read by the closing task after them. The order of tasks synchronizes them.
void launch_operation::step(device_chains& chains, unsigned chain,
                            std::uint32_t index) noexcept {
  if (index == whole && !shape_->backend->inline_work()) {
    run_later(chains, chain, [&](device_step& to) { return give(to, chain); });
  } else if (index == whole) {
    run_on(chains, chain, [&] { return run(chain, 0, shape_->grid().blocks()); });
  } else if (index == opening) {
    cut& state = cut_[chain];
    state.skip = !may_run(chains, chain);
    state.failed.store(no_slice, std::memory_order_relaxed);
    state.started = begin();
  } else if (index == closing) {
    cut& state = cut_[chain];
    // A slice that failed has set `why` before.
    if (state.failed.load(std::memory_order_relaxed) != no_slice) {
      fail(chains.chain_of(chain), std::move(*state.why));
      state.why.reset();
    }
    if (!state.skip) {
      observe(chain, state.started);
    }
    pass_failure_on(chains, chain);
  } else {
    run_slice(chain, index);
  }
}

// Arguments are little-endian, hence the loop from the last byte.
std::string launch_operation::listed_arguments() const {
  std::string out;
  if (!args_) {
    return out;
  }
  for (const kernel_parameter& p : shape_->kernel.kernel->record.parameters) {
    out += fmt::format("{}\"{}\":\"0x", out.empty() ? "" : ",", p.name);
    for (std::size_t i = p.size; i > 0; --i) {
      out += fmt::format("{:02x}", static_cast<unsigned>(args_->bytes[p.offset + i - 1]));
    }
    out += '"';
  }
  return out;
}

/// Part of the workers that the blocks keep busy.
double launch_operation::occupancy() const {
  const auto workers = static_cast<double>(shape_->mesh->context->workers());
  return std::min(1.0, static_cast<double>(resident()) / workers);
}

// Runs one slice. Later slices run even if an earlier one has failed, because otherwise
// the reported failure would depend on timing.
void launch_operation::run_slice(unsigned chain, std::uint32_t index) noexcept {
  cut& state = cut_[chain];
  if (state.skip) {
    return;
  }
  const slice_plan& slices = shape_->slices;
  auto outcome =
      guarded([&] { return run(chain, slices.begin(index), slices.end(index)); });
  if (!outcome) {
    // The failure of the lowest slice is kept.
    const std::lock_guard lock(state.mutex);
    if (index < state.failed.load(std::memory_order_relaxed)) {
      state.failed.store(index, std::memory_order_relaxed);
      state.why.emplace(std::move(outcome).error());
    }
  }
}

// Runs blocks [first, last) of one device. Without arguments a graph's launch needs no
// copy of its grid. The buffer for arguments is on the stack unless they are large,
// because each rank needs other addresses in it.
result<void> launch_operation::run(unsigned chain, std::int64_t first,
                                   std::int64_t last) const {
  if (prepared_ && !args_) {
    return shape_->backend->run_blocks(prepared_->grids[chain], first, last);
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
  const tessDeterminism of_numbers = determinism();
  return shape_->backend->run_blocks(placed(chain, args, of_numbers), first, last);
}

// `keeps` has the arguments and the descriptor. Devices take a grid as a whole.
grid_work launch_operation::work_of(unsigned chain,
                                    std::shared_ptr<const void>& keeps) const {
  struct kept {
    std::vector<std::byte> args;
    tessDeterminism of_numbers;
  };
  const auto data = std::make_shared<kept>(
      kept{std::vector<std::byte>(args_ ? args_->bytes.size() : 0), determinism()});
  const grid_launch grid = placed(chain, data->args.data(), data->of_numbers);
  keeps = data;
  return {grid, 0, grid.blocks()};
}

// Arguments and descriptor live until the device has ended the launch.
result<void> launch_operation::give(device_step& to, unsigned chain) const {
  std::shared_ptr<const void> keeps;
  const grid_work work = work_of(chain, keeps);
  to.give(*shape_->backend, work, std::move(keeps));
  return {};
}

// Arguments are those of every run. The descriptor of numbers is not: devices refuse
// kernels that get it in a graph of their own.
bool launch_operation::add_native_work(native_pieces& to) const {
  if (shape_->slices.slices > 1) {
    return false;
  }
  to.work.emplace_back(work_of(0, to.keeps.emplace_back()));
  return true;
}

// Writes the arguments for one device chain to `args`: a copy in which each symmetric
// pointer is replaced by the address of the device chain's own instance.
grid_launch launch_operation::placed(unsigned chain, std::byte* args,
                                     const tessDeterminism& of_numbers) const {
  grid_launch grid = shape_->grids[chain];
  grid.facts.determinism = &of_numbers;
  if (args_) {
    const int rank = shape_->rank < 0 ? static_cast<int>(chain) : shape_->rank;
    std::memcpy(args, args_->bytes.data(), args_->bytes.size());
    for (const translated& p : args_->pointers) {
      const std::byte* const there = p.place.on_rank(rank);
      std::memcpy(args + p.offset, &there, sizeof there);
    }
    grid.args = {args, args_->bytes.size()};
  }
  return grid;
}

// The digest covers the number of the launch, so it is computed for each launch.
tessDeterminism launch_operation::determinism() const noexcept {
  if (prepared_) {
    return prepared_->determinism;
  }
  tessDeterminism out = shape_->determinism;
  out.ordinal = ordinal_;
  stream::seal(out);
  return out;
}

/// The time covers all device chains.
void measured_launch::step(device_chains& chains, unsigned chain,
                           std::uint32_t index) noexcept {
  if (index == whole || index == opening) {
    std::int64_t none = 0;  // only the first device chain to begin sets the time
    began_.compare_exchange_strong(none, now_ns());
  }
  launch_operation::step(chains, chain, index);
  if (index != whole && index != closing) {
    return;
  }
  if (chains.chain_of(chain).poison) {
    failed_ = true;
  }
  // The last device chain to end reports the time from the first beginning to now. A
  // launch that failed is not reported: it may have ended early.
  if (left_.fetch_sub(1) == 1 && !failed_) {
    static_cast<void>(guarded([&]() -> result<void> {
      shape_->mesh->context->took(trial_, now_ns() - began_);
      return {};
    }));
  }
}

}  // namespace weir::tessera
