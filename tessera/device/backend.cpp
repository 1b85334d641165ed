// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts that all backends share: slices, checks, and work that is done at once.
///
/// A backend is a kind of device, such as the processor or GPUs over CUDA.
#include "weir/tessera/device/backend.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/core.h>

#include "device/launch_check.hpp"

namespace weir::tessera {
namespace {

/// Returns the error of a backend without graphs of its own.
error no_graphs(const device_backend& backend) {
  return {errc::unsupported,
          fmt::format("graph not made: expected devices that run graphs by themselves, "
                      "found the backend \"{}\"",
                      backend.name())};
}

/// Does a piece of work on the calling thread.
///
/// Used by backends whose work is done when `submit` returns.
struct inline_executor {
  device_backend& backend;

  result<void> operator()(const copy_work& work) const { return backend.copy(work); }
  result<void> operator()(const fill_work& work) const { return backend.fill(work); }
  result<void> operator()(const grid_work& work) const {
    return backend.run_blocks(work.launch, work.first, work.last);
  }
  // Such backends make no graphs that could run here.
  result<void> operator()(const graph_work& /*work*/) const { return no_graphs(backend); }
};

/// Returns the error of a launch with a number outside of [1, max].
error wrong_launch(const grid_launch& launch, std::string_view expected, std::int64_t max,
                   std::int64_t found) {
  return {errc::invalid_argument,
          fmt::format("launch kernel {}: expected {} of 1 to {}, found {}",
                      launch.code.name, expected, max, found)};
}

/// Checks that grid and block are within the limits of the device. Extents of grid and
/// block are checked dimension by dimension.
result<void> check_extents(const grid_launch& launch, const launch_limits& limits) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (launch.grid[i] < 1 || launch.grid[i] > limits.grid[i]) {
      return wrong_launch(launch, "a grid extent", limits.grid[i], launch.grid[i]);
    }
  }
  for (std::size_t i = 0; i < 3; ++i) {
    if (launch.block[i] < 1 || launch.block[i] > limits.block[i]) {
      return wrong_launch(launch, "a block extent", limits.block[i], launch.block[i]);
    }
  }
  if (launch.threads() > limits.threads) {
    return wrong_launch(launch, "a number of threads", limits.threads, launch.threads());
  }
  return {};
}

/// Checks that the kernel may run in this mode, and that a persistent launch has few
/// enough blocks to run all of them at the same time.
result<void> check_mode(const grid_launch& launch, const launch_limits& limits,
                        bool persistent) {
  constexpr std::uint32_t able =
      TESS_KERNEL_PERSISTENT_CAPABLE | TESS_KERNEL_PERSISTENT_ONLY;
  if (!persistent && (launch.code.flags & TESS_KERNEL_PERSISTENT_ONLY) != 0) {
    return error(errc::invalid_argument,
                 fmt::format("launch kernel {}: expected the persistent flag, found none",
                             launch.code.name));
  }
  if (persistent && (launch.code.flags & able) == 0) {
    return error(errc::unsupported,
                 fmt::format("launch kernel {} persistently: expected one that is marked "
                             "as capable of it, found none",
                             launch.code.name));
  }
  // Blocks that wait for each other must all be running.
  if (persistent && launch.blocks() > limits.persistent_blocks) {
    return wrong_launch(launch, "a number of persistent blocks", limits.persistent_blocks,
                        launch.blocks());
  }
  return {};
}

/// True while the thread must not wait for a device. Set by `no_device_waits`, for
/// instance in callbacks of a driver.
thread_local bool never_waits = false;  // NOLINT: one for each thread

}  // namespace

no_device_waits::no_device_waits() noexcept : before_(std::exchange(never_waits, true)) {}
no_device_waits::~no_device_waits() {
  never_waits = before_;
}
bool no_device_waits::active() noexcept {
  return never_waits;
}

// Slices differ by at most one unit, so workers end at about the same time.
std::int64_t slice_plan::begin(std::int64_t slice) const noexcept {
  if (slice >= slices) {
    return total;
  }
  // The first `rest` slices are one unit longer.
  const std::int64_t units = total / unit;
  const std::int64_t each = units / slices;
  const std::int64_t rest = units % slices;
  return (slice * each + std::min(slice, rest)) * unit;
}

// Cuts `total` into at most `max_slices` slices of whole units, with at least `least` in
// each as far as possible. A total of 0 has no slices.
slice_plan cut_evenly(std::int64_t total, std::int64_t unit, std::int64_t least,
                      std::int64_t max_slices) noexcept {
  slice_plan plan{std::max<std::int64_t>(total, 0), 0, std::max<std::int64_t>(unit, 1)};
  // A slice of less than `least` would cost more than it saves, so there are fewer
  // slices.
  if (plan.total > 0) {
    const std::int64_t fit = plan.total / std::max(least, plan.unit);
    plan.slices = std::clamp<std::int64_t>(fit, 1, std::max<std::int64_t>(max_slices, 1));
  }
  return plan;
}

// Backends whose work is done at once need no queue: the work has ended when this
// returns, and the completion is called before.
void device_backend::submit(const device_work& work, completion done) {
  result<void> outcome = std::visit(inline_executor{*this}, work);
  if (done) {
    done(std::move(outcome));
  }
}

// Devices that work on the calling thread have no driver, and so no streams but ours.
result<void> device_backend::follow_native(std::int32_t /*device*/,
                                           std::uintptr_t /*native*/,
                                           completion /*done*/) {
  return error(
      errc::unsupported,
      fmt::format("native stream not used: expected devices with streams of other "
                  "libraries, found the backend \"{}\"",
                  name()));
}

// The engine runs the nodes of graphs one by one on such backends.
result<std::shared_ptr<device_graph>> device_backend::make_graph(
    std::int32_t /*device*/, std::span<const graph_piece> /*pieces*/) {
  return no_graphs(*this);
}

/// Device numbers begin with 0.
result<void> check_device(std::int32_t device, std::int32_t count) {
  if (device < 0 || device >= count) {
    return error(errc::out_of_range,
                 fmt::format("look up device {}: expected 0 to {}, found no such device",
                             device, count - 1));
  }
  return {};
}

// Arguments are read by kernels as 64-bit values, hence the alignment.
//
// Every launch passes this check before it is given to a backend.
result<void> check_launch(const grid_launch& launch, const launch_limits& limits,
                          bool persistent) {
  if (launch.code.entry == nullptr) {
    return error(
        errc::invalid_argument,
        fmt::format("launch kernel {}: expected code, found none", launch.code.name));
  }
  WEIR_CHECK(check_extents(launch, limits));
  if (launch.shared_bytes > limits.shared_bytes) {
    return error(
        errc::invalid_argument,
        fmt::format("launch kernel {}: expected at most {} bytes of shared memory, "
                    "found {}",
                    launch.code.name, limits.shared_bytes, launch.shared_bytes));
  }
  if (reinterpret_cast<std::uintptr_t>(launch.args.data()) % 8 != 0) {
    return error(
        errc::invalid_argument,
        fmt::format("launch kernel {}: expected arguments at a multiple of 8, "
                    "found {}",
                    launch.code.name, static_cast<const void*>(launch.args.data())));
  }
  return check_mode(launch, limits, persistent);
}

/// Ranges that overlap would make the result depend on the order of the copies.
result<void> check_copy(const copy_work& work) {
  if (work.bytes == 0) {
    return {};
  }
  if (work.to == nullptr || work.from == nullptr) {
    return error(errc::invalid_argument,
                 fmt::format("copy {} bytes: expected two addresses, found a null one",
                             work.bytes));
  }
  const auto to = reinterpret_cast<std::uintptr_t>(work.to);
  const auto from = reinterpret_cast<std::uintptr_t>(work.from);
  // Equal addresses are allowed: such a copy does nothing.
  const std::uintptr_t apart = to > from ? to - from : from - to;
  if (apart != 0 && apart < work.bytes) {
    return error(errc::invalid_argument,
                 fmt::format("copy {} bytes: expected ranges that do not overlap, found "
                             "them {} bytes apart",
                             work.bytes, apart));
  }
  return {};
}

// Patterns have the sizes of elements, so the fill consists of whole patterns.
result<void> check_fill(const fill_work& work) {
  if (!std::has_single_bit(work.pattern_bytes) || work.pattern_bytes > 16) {
    return error(
        errc::invalid_argument,
        fmt::format("fill {} bytes: expected a pattern of 1, 2, 4, 8 or 16 bytes, "
                    "found {}",
                    work.bytes, work.pattern_bytes));
  }
  if (work.bytes % work.pattern_bytes != 0) {
    return error(
        errc::invalid_argument,
        fmt::format("fill {} bytes: expected a multiple of the pattern, found {} "
                    "bytes of that",
                    work.bytes, work.pattern_bytes));
  }
  if (work.bytes > 0 && work.to == nullptr) {
    return error(
        errc::invalid_argument,
        fmt::format("fill {} bytes: expected an address, found a null one", work.bytes));
  }
  return {};
}

}  // namespace weir::tessera
