// SPDX-License-Identifier: Apache-2.0
/// @file
/// The layout of the memory that a run shares with the child process of a stage.
#pragma once

#include <cstdint>

#include "weir/pipeline/graph.hpp"

namespace weir::flow {

/// Offsets and sizes of the parts of the shared memory, see docs/formats/stage-wire.md.
/// @units{all but `made_records`: bytes}
/// @threads{a value}
struct shared_layout {
  /// Calls of one message at most.
  static constexpr std::uint64_t max_calls = 32;
  static constexpr std::uint64_t call_bytes = 64;    ///< size of a call
  static constexpr std::uint64_t tensor_bytes = 96;  ///< size of a tensor's record
  static constexpr std::uint64_t made_bytes = 128;   ///< size of a made item's record
  static constexpr std::uint64_t attribute_bytes = 2048;  ///< place for attributes

  std::uint64_t calls = 0;            ///< records of calls
  std::uint64_t inputs = 0;           ///< records of the tensors of calls
  std::uint64_t attributes = 0;       ///< attributes of calls
  std::uint64_t made = 0;             ///< records of made items
  std::uint64_t outputs = 0;          ///< records of the tensors of made items
  std::uint64_t made_attributes = 0;  ///< attributes of made items
  std::uint64_t made_records = 0;     ///< number of made items of one message at most
  std::uint64_t in = 0;               ///< begin of the tensors of calls
  std::uint64_t in_bytes = 0;         ///< size of that part
  std::uint64_t out = 0;              ///< begin of the tensors of made items
  std::uint64_t out_bytes = 0;        ///< size of that part
  std::uint64_t slots = 0;            ///< start of slots, which need no copy
  std::uint64_t slot_bytes = 0;       ///< size of that part, which is the last one
  std::uint64_t bytes = 0;            ///< size of all
};

/// Returns the layout for a stage. All items that the edges before the stage may have
/// alive fit into the memory, and so does one call's worth of items behind it.
/// @pre The windows of the plan and the slots of the stage are known.
/// @threads{pure}
[[nodiscard]] shared_layout layout_of(const plan& p, std::uint32_t stage);

/// Returns the bytes that a stage outside of the engine's thread needs beside the memory
/// of the run: items on its own engine, and memory that it shares with a child.
/// @units{return value, bytes} @threads{pure}
[[nodiscard]] std::uint64_t host_bytes(const plan& p, std::uint32_t stage);

}  // namespace weir::flow
