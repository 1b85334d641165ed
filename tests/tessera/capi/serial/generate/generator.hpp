// SPDX-License-Identifier: Apache-2.0
/// @file
/// Generates random programs without races that wait as little as possible: where two
/// conflicting operations are not ordered yet, exactly one wait is added.
#pragma once

#include "serial/program.hpp"

namespace weir::test::serial {

/// Kinds of operations that a program may contain.
struct features {
  bool shared_launches = true;  ///< with pointers to the host or to another rank
  bool peer_copies = true;
  bool rank_streams = true;  ///< streams of one rank; each rank calls collectives itself
  bool second_mesh = true;
  bool plain_captures = true;
  bool waits_before_captures = true;  ///< waits whose effect a capture must not lose
  bool flagged_captures = true;
  bool pooled_memory = true;
  bool graph_memory = true;  ///< allocated in captures
  bool child_graphs = true;  ///< graphs launched into captures
  bool updates = true;       ///< updates of nodes of executable graphs
  bool host_copies = true;   ///< copies from host to host
  bool late_streams = true;  ///< streams created and destroyed in the middle
  bool merged_calls = true;  ///< ranks call ahead of each other
  bool collectives = true;
};

/// Returns the program of a seed. It is the same on every machine.
[[nodiscard]] program random_program(std::uint64_t seed, const features& with = {});

}  // namespace weir::test::serial
