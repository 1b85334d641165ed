// SPDX-License-Identifier: Apache-2.0
/// @file
/// A run as a checkpoint holds it. Checkpoints of the first version have a section for
/// each part of the run; those of later ones are of a pipeline, whose stages have the
/// parts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stages/prose/accounts.hpp"
#include "weir/pipeline/host/image.hpp"
#include "weir/storage/checkpoint.hpp"
#include "weir/storage/run_history.hpp"

namespace weir::actors {

/// Names of the stages of a run, which are parts of the names of sections.
namespace stage_names {
inline constexpr const char* text = "text";
inline constexpr const char* learn = "learn";
inline constexpr const char* accounts = "accounts";
inline constexpr const char* curve = "curve";
inline constexpr const char* predictions = "predictions";  ///< only if the run has any
}  // namespace stage_names

/// The parts of a checkpoint that describe a run.
struct stored_run {
  storage::checkpoint file;                  ///< whole checkpoint
  bool first_version = false;                ///< true: it is not of a pipeline
  std::string config;                        ///< lines of `config_text`
  conductor_record record;                   ///< what the phases have used
  run_accounts accounts;                     ///< zeros if the checkpoint has none
  byte_vector cursor;                        ///< encoded `storage::stream_cursor`
  std::uint64_t build_budget = 0;            ///< tokens of the Build phase
  std::vector<storage::run_change> history;  ///< changes at earlier resumes
  std::vector<phase_use> steps;              ///< what the steps of the run have used
  /// Encoded cursors of the sources that phases name, by their names.
  std::map<std::string, byte_vector> other_cursors;

  /// Returns the bytes of a part of the model's state, valid as long as this object.
  /// @error{not_found, there is no such part}
  [[nodiscard]] result<bytes_view> model_part(const std::string& name) const;
  /// Returns the hash of the state of the run, see `state_hash_of`.
  [[nodiscard]] std::uint64_t state_hash() const;
  /// Returns the lanes with their positions in all streams together.
  /// @error{corrupt, a cursor is damaged}
  [[nodiscard]] result<std::vector<storage::lane_state>> lanes() const;
};

/// Reads the parts of a run.
/// @error{not_found, a section is missing; the checkpoint is of another pipeline}
/// @error{corrupt, a section is damaged or contradicts the header}
/// @error{unsupported_version, a section was written by a later version}
[[nodiscard]] result<stored_run> read_run(storage::checkpoint from);

}  // namespace weir::actors
