// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages on hosts of their own, as the other stages of a run see them.
/// @threads{thread-compatible}
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "weir/pipeline/graph.hpp"
#include "weir/pipeline/stage_object.hpp"

namespace weir::flow {

/// Makes the object that stands in a run for a stage in a child process.
/// @param stage  Index in the plan.
using process_stage_maker = std::function<result<std::unique_ptr<stage_object>>(
    const plan& p, std::uint32_t stage)>;

/// Replaces the objects of stages that work outside of the engine's thread by objects
/// that stand for them, and changes the plan so that the run treats such a stage as a
/// blocking one. Images and identity of the run stay as they are.
/// @param p        Plan of the run, as `check` returns it.
/// @param objects  Stages in the order of the plan.
/// @param seed     Seed of the run.
/// @param process  Makes the objects for child processes; may be empty.
/// @param fill_slots  See `execution_options`.
/// @error{unsupported, a stage works in a child process and `process` is empty}
/// @error{out_of_memory, the memory of items cannot be allocated}
[[nodiscard]] result<void> move_to_hosts(
    plan& p, std::vector<std::unique_ptr<stage_object>>& objects, std::uint64_t seed,
    const process_stage_maker& process = {}, int fill_slots = -1);

/// Returns the bytes of the largest window behind a stage. @units{return value, bytes}
[[nodiscard]] std::int64_t window_behind(const graph& g, std::uint32_t stage);

}  // namespace weir::flow
