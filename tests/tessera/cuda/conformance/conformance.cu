// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels of the conformance suite of backends for GPUs. `device/conformance.hpp`
/// says what each of them does.
#include "kernels/device.hpp"
#include "kernels/grid_barrier.hpp"

// On the host the kernels are C++ functions, whose names belong to this namespace.
namespace weir::device_code::conformance {

/// Largest number of threads of a block that `reverse` takes.
constexpr std::int32_t max_reversed = 128;

WEIR_KERNEL write_indices(std::int32_t* out) {
  const std::int64_t i = block_number() * thread_count() + thread_number();
  store(out, i, load(out, i) + static_cast<std::int32_t>(i) + 1);
}

WEIR_KERNEL write_facts(std::int32_t* out, launch_facts facts) {
  if (thread_number() != 0) {
    return;
  }
  const launch_extents e = extents();
  store(out, 0, e.grid[0]);
  store(out, 1, e.grid[1]);
  store(out, 2, e.grid[2]);
  store(out, 3, e.block[0]);
  store(out, 4, e.block[1]);
  store(out, 5, e.block[2]);
  store(out, 6, facts.rank);
  store(out, 7, facts.ranks);
  store(out, 8, facts.device);
  store(out, 9, facts.axis_size[0]);
  store(out, 10, facts.axis_size[1]);
  store(out, 11, facts.axis_size[2]);
  store(out, 12, facts.axis_size[3]);
  store(out, 13, facts.axis_index[0]);
  store(out, 14, facts.axis_index[1]);
  store(out, 15, facts.axis_index[2]);
  store(out, 16, facts.axis_index[3]);
  const auto* const bytes = static_cast<const std::uint8_t*>(facts.constants);
  const auto count = static_cast<std::int64_t>(facts.constant_bytes);
  std::int32_t sum = 0;
  WEIR_ROLLED
  for (std::int64_t i = 0; i < count; ++i) {
    sum += load(bytes, i);
  }
  store(out, 17, sum);
}

WEIR_KERNEL reverse(const std::int32_t* in, std::int32_t* out) {
  WEIR_SHARED(std::int32_t, values, max_reversed);
  const std::int32_t n = thread_count();
  const std::int32_t t = thread_number();
  const std::int64_t first = block_number() * n;
  store(values, t, load(in, first + t));
  barrier();
  store(out, first + t, load(values, n - 1 - t));
}

WEIR_KERNEL fail_block(std::int32_t* out, std::int32_t block, std::int32_t status,
                       launch_facts facts) {
  if (thread_number() != 0) {
    return;
  }
  const std::int64_t self = block_number();
  if (self == block) {
    atomic_store(&facts.report->failure, static_cast<std::uint32_t>(status));
    fence();
    atomic_store(&facts.report->block, static_cast<std::uint32_t>(self));
    return;
  }
  store(out, self, load(out, self) + 1);
}

WEIR_KERNEL grid_sum(std::int32_t* slots, std::int64_t* sums, std::int32_t rounds,
                     launch_facts facts) {
  const std::int64_t self = block_number();
  const bool first = thread_number() == 0;
  WEIR_ROLLED
  for (std::int32_t round = 0; round < rounds; ++round) {
    if (first) {
      store(slots, self, load(slots, self) + 1);
    }
    if (grid_barrier(facts)) {
      return;
    }
    if (first) {
      std::int64_t sum = load(sums, self);
      WEIR_ROLLED
      for (std::int64_t i = 0; i < block_count(); ++i) {
        sum += load(slots, i);
      }
      store(sums, self, sum);
    }
    if (grid_barrier(facts)) {
      return;
    }
  }
}

WEIR_KERNEL until_stop(std::int32_t* out, launch_facts facts) {
  if (thread_number() != 0) {
    return;
  }
  const auto* const stop = const_cast<const std::uint32_t*>(facts.stop);
  while (atomic_load(stop) == 0) {
    short_wait();
  }
  store(out, block_number(), 7);
}

}  // namespace weir::device_code::conformance
