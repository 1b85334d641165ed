// SPDX-License-Identifier: Apache-2.0
/// @file
/// Launches that a call has described, in a stream or as nodes of a graph.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tessera/cuda/stand_in/world.hpp"

namespace weir::tessera::stand_in {

/// A launch with copies of its arguments.
struct described_launch {
  launch_request request;  ///< without arguments
  std::vector<std::vector<std::byte>> arguments;
  function_state* function = nullptr;
  void* handle = nullptr;  ///< handle of `function`, which may end before the launch
  /// What the launch accesses if the executor does not tell.
  std::vector<touched_range> assumed;
};

/// Checks and describes a launch on a device. Reports what is wrong with `call`, and
/// missing arguments by the rule `of_arguments`. @threads{hold the mutex}
[[nodiscard]] cuda::status describe_launch(const char* call, const char* of_arguments,
                                           const cuda::launch_config& config,
                                           cuda::function_handle handle,
                                           const device_state& device, void** parameters,
                                           std::shared_ptr<described_launch>& made);
/// Returns the function with a handle, or null with a breach. @threads{hold the mutex}
[[nodiscard]] function_state* function_at(void* handle, const char* call);
/// Notes that a launch is under way. @threads{hold the mutex}
void begin_launch(const described_launch& launch);
/// Notes that a launch has ended or never begins. @threads{hold the mutex}
void end_launch(const described_launch& launch);
/// Runs a launch that is under way, on the thread of its stream, notes its accesses, and
/// ends it.
[[nodiscard]] cuda::status run_launch(const described_launch& launch,
                                      const stream_state& on, std::uint64_t number,
                                      const vector_clock& before,
                                      const graph_place& place = {});

}  // namespace weir::tessera::stand_in
