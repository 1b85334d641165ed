// SPDX-License-Identifier: Apache-2.0
/// @file
/// Blocks of launches that leave their extents to the runtime.
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

using block_extents = std::array<std::int32_t, 3>;

/// Launches that are measured together: of one kernel under one policy, in shapes that
/// are alike. Extents of the grid, shared memory and whole-number arguments are alike
/// where they have as many binary digits.
struct block_key {
  digest256 module{};
  std::string kernel;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint32_t> dtypes;  ///< of the parameters
  std::uint64_t policy = 0;
  friend auto operator<=>(const block_key&, const block_key&) = default;
};

struct block_trial {
  block_key key;
  block_extents block{};
};

/// What a launch that leaves its extents gets.
struct block_choice {
  block_extents block{};
  std::optional<block_trial> trial;  ///< it is to be measured
};

/// @threads{safe from any thread}
using block_tuner = runtime::measured_choice<block_key, block_extents>;

/// A launch leaves the block to the module or the runtime.
[[nodiscard]] bool is_zero(const block_extents& block) noexcept;
/// The block of such a launch where nothing else is known: the module's own extents, or
/// 128 threads where it says none.
[[nodiscard]] block_extents usual_block(const kernel_record& record);

/// The name of what was measured in the cache.
[[nodiscard]] cache_key cache_key_of(const block_key& key);

/// What was measured, in files of the cache.
[[nodiscard]] block_tuner::store block_store_in(module_cache& cache);

/// The launch leaves its block to the runtime, and its kernel works with any.
[[nodiscard]] inline bool leaves_block(const launch_request& what) noexcept {
  return what.kernel.kernel != nullptr && is_zero(what.block) && !what.persistent &&
         (what.kernel.kernel->record.flags & TESS_KERNEL_ANY_BLOCK) != 0;
}

/// The block of such a launch: what was measured to be the fastest, the next to be
/// measured, or the usual one. @error{cache_corrupt, a damaged entry of a strict cache}
[[nodiscard]] result<block_choice> choose_block(stream& on, const launch_request& what,
                                                const numerics_policy& policy);

}  // namespace weir::tessera
