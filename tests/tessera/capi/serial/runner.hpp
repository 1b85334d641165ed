// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs programs through the C interface, rightly or with a planted fault, and compares
/// memory with the interpreter's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serial/program.hpp"
#include "support.hpp"

namespace weir::test::serial {

/// What a runtime could do wrong, done by the caller instead.
enum class fault_kind : std::uint8_t {
  none,
  dropped_wait,          ///< one wait of a stream for an event is left out
  event_of_one_lane,     ///< who waits for a mesh stream's event waits for its lane 0
  pairing_by_admission,  ///< one rank's share overtakes the share before it
  /// What a stream waits for when it begins or joins a capture is not waited for behind
  /// the capture either.
  waits_lost_at_capture
};

struct fault {
  fault_kind kind = fault_kind::none;
  int operation = 0;      ///< the share that is overtaken, by its id
  int by = 0;             ///< the share that overtakes it, by its id
  int rank = none;        ///< on this rank
  std::vector<int> lost;  ///< waits that are left out, by their ids
};

/// A fault of the kind that the program has a place for.
[[nodiscard]] std::optional<fault> plant(fault_kind kind, const program& p, dice& d);

/// A context with the kernels of programs, for any number of them.
class machine {
 public:
  explicit machine(int workers);
  ~machine();
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  /// What is wrong with the outcome: a status or the first words that differ; empty if
  /// nothing is. Behind an outcome that is wrong the machine is to be replaced.
  [[nodiscard]] std::string run(const program& p, const fault& with = {});

 private:
  tessContext_t context_ = nullptr;
  std::unique_ptr<registered_module> kernels_;
};

}  // namespace weir::test::serial
