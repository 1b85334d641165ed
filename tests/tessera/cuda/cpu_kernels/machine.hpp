// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs kernels for GPUs on the processor: their sources are compiled for the host, and
/// each thread of a block is a fiber. The machine can check every access to memory.
///
/// Between barriers the threads run one after the other, in an order that the caller
/// chooses. The checks find accesses outside of memory, reads of shared memory that was
/// never written, barriers that not all threads of a block reach in the same place, and
/// two accesses of different threads of which one is a plain write, unless a barrier or
/// atomic operations order them. The blocks have vector clocks, which atomic operations
/// join; threads of one block are ordered by barriers alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stand_in/executor.hpp"
#include "weir/base/error.hpp"

namespace weir::tessera::kernel_machine {

/// Order of the threads between two barriers.
enum class thread_order : std::uint8_t { ascending, descending, random };

/// Memory that a kernel may access.
struct memory_range {
  const void* first = nullptr;
  std::size_t bytes = 0;
};

/// A launch.
struct launch_options {
  std::array<std::uint32_t, 3> grid{1, 1, 1};   ///< extents in blocks
  std::array<std::uint32_t, 3> block{1, 1, 1};  ///< extents in threads
  bool cooperative = false;                     ///< all blocks run at the same time
  thread_order order = thread_order::ascending;
  std::uint64_t seed = 1;            ///< of the random order
  bool checked = true;               ///< checks accesses; false: every access takes place
  std::vector<memory_range> memory;  ///< memory outside of which accesses are faults
  /// Returns whether global memory may be accessed; empty: `memory` tells if the launch
  /// is checked. Shared memory is not asked for.
  std::function<bool(const void* first, std::size_t bytes, bool write)> accessible;
};

/// Calls a kernel with the arguments at these addresses.
using kernel_call = void (*)(const void* const* arguments);

/// Runs a launch to its end or to its first fault. @threads{safe to call concurrently}
/// @error{out_of_range; an access that is not allowed, or that nothing orders}
/// @error{kernel_failed; a barrier that not all threads of a block reach}
[[nodiscard]] result<void> run(kernel_call call, std::span<const void* const> arguments,
                               const launch_options& options);

/// A kernel that is compiled for the host.
struct kernel_entry {
  std::string_view name;
  kernel_call call = nullptr;
  std::vector<std::size_t> parameter_bytes;  ///< sizes of the parameters, in order
  std::vector<stand_in::pointer_use> uses;   ///< what is done behind them, in order
  /// Returns what a launch with these arguments touches; null: all of the allocations
  /// that `uses` tells of. Kernels need it that work on parts of allocations at the same
  /// time.
  std::vector<stand_in::touched_range> (*touched)(const void* const* arguments) = nullptr;
};

/// Returns the kernel of this name, or null.
[[nodiscard]] const kernel_entry* find_kernel(std::string_view name);
/// Returns all kernels.
[[nodiscard]] std::span<const kernel_entry> all_kernels();

}  // namespace weir::tessera::kernel_machine
