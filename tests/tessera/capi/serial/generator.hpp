// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random programs without races, but only just: where two operations conflict and
/// nothing orders them yet, there is one wait, and no more.
#pragma once

#include "serial/program.hpp"

namespace weir::test::serial {

/// What programs may have.
struct features {
  bool shared_launches = true;  ///< pointers into the host's or another rank's memory
  bool peer_copies = true;
  bool rank_streams = true;  ///< with collectives that each rank calls on its own
  bool second_mesh = true;
  bool plain_captures = true;
  bool waits_before_captures = true;  ///< for what the stream has behind the capture
  bool flagged_captures = true;
  bool pooled_memory = true;
  bool graph_memory = true;  ///< taken in captures
  bool child_graphs = true;  ///< launched into captures
  bool updates = true;       ///< of nodes
  bool host_copies = true;   ///< from host to host
  bool late_streams = true;  ///< that come and go in the middle
  bool merged_calls = true;  ///< ranks ahead of each other
  bool collectives = true;
};

/// The same program for the same seed everywhere.
[[nodiscard]] program random_program(std::uint64_t seed, const features& with = {});

}  // namespace weir::test::serial
