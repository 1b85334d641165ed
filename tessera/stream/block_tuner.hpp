// SPDX-License-Identifier: Apache-2.0
/// @file
/// Choice of the block for launches that let the runtime choose.
///
/// The measuring itself is that of runtime/tuning.hpp; here are the keys, candidates and
/// the store for blocks of kernels.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weir/runtime/tuning.hpp"
#include "weir/tessera/module/cache.hpp"
#include "weir/tessera/stream/work.hpp"

namespace weir::tessera {

/// Threads of a block in each direction.
using block_extents = std::array<std::int32_t, 3>;

/// Identifies launches that are measured together: one kernel under one policy, in
/// similar shapes. Sizes of the grid, shared memory and whole-number arguments are
/// similar if they have equally many binary digits.
struct block_key {
  digest256 module{};
  std::string kernel;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint32_t> dtypes;  ///< types of the parameters
  std::uint64_t policy = 0;
  friend auto operator<=>(const block_key&, const block_key&) = default;
};

/// A launch that is measured with this block.
struct block_trial {
  block_key key;
  block_extents block{};
};

/// The block of a launch that lets the runtime choose.
struct block_choice {
  block_extents block{};
  std::optional<block_trial> trial;  ///< set if the launch is to be measured
};

/// Measured times of blocks. @threads{safe from any thread}
using block_tuner = runtime::measured_choice<block_key, block_extents>;

/// Returns true if all sizes are 0: the module or the runtime chooses the block.
[[nodiscard]] bool is_zero(const block_extents& block) noexcept;
/// Returns the block without measurements: the module's own, or 128 threads if it has
/// none.
[[nodiscard]] block_extents usual_block(const kernel_record& record);

/// Returns the key of a measurement in the cache.
[[nodiscard]] cache_key cache_key_of(const block_key& key);

/// Returns a store that keeps measurements in files of the cache.
[[nodiscard]] block_tuner::store block_store_in(module_cache& cache);

/// Returns true if the runtime may choose the block and the kernel works with any.
[[nodiscard]] inline bool leaves_block(const launch_request& request) noexcept {
  return request.kernel.kernel != nullptr && is_zero(request.block) &&
         !request.persistent &&
         (request.kernel.kernel->record.flags & TESS_KERNEL_ANY_BLOCK) != 0;
}

/// Returns the block for such a launch: the fastest that was measured, the next one to be
/// measured, or the usual one.
/// @error{cache_corrupt; a damaged entry of a strict cache}
[[nodiscard]] result<block_choice> choose_block(stream& target,
                                                const launch_request& request,
                                                const numerics_policy& policy);

}  // namespace weir::tessera
