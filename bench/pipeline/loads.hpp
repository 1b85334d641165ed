// SPDX-License-Identifier: Apache-2.0
/// @file
/// Work of a known length, for stages of Weir and of peers.
#pragma once

#include <cstdint>

#include "clean.hpp"
#include "work.hpp"

namespace weir::bench {

/// Stages of the pipelines that work, and the work of each for one item.
inline constexpr int work_stages = 3;
inline constexpr double stage_work_ns = 20'000;

/// Returns the iterations of `work` that take a time on an undisturbed processor.
inline std::int64_t iterations_for(double ns) {
  return static_cast<std::int64_t>(ns / best_pace().work_ns);
}

}  // namespace weir::bench
