// SPDX-License-Identifier: Apache-2.0
/// @file
/// Faults that are planted in programs.
#pragma once

#include <optional>
#include <vector>

#include "serial/program.hpp"

namespace weir::test::serial {

/// Faults that a runtime could have. The runner imitates them by making different calls.
enum class fault_kind : std::uint8_t {
  none,
  dropped_wait,          ///< leaves out one wait of a stream for an event
  event_of_one_chain,    ///< waits only for device chain 0 of a mesh stream's event
  pairing_by_admission,  ///< lets one rank's share overtake the share before it
  /// Forgets, after a capture, the waits that the stream had made before it began or
  /// joined the capture.
  waits_lost_at_capture
};

/// A planted fault and its place in the program.
struct fault {
  fault_kind kind = fault_kind::none;
  int operation = 0;      ///< the share that is overtaken, by its id
  int by = 0;             ///< the share that overtakes it, by its id
  int rank = none;        ///< the rank whose shares are exchanged
  std::vector<int> lost;  ///< ids of the waits that are left out
};

/// Returns a fault of this kind in the program, or nothing if it has no place for one.
[[nodiscard]] std::optional<fault> plant(fault_kind kind, const program& p, dice& d);

}  // namespace weir::test::serial
