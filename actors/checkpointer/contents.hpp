// SPDX-License-Identifier: Apache-2.0
/// @file
/// The contents of a run's checkpoint: the sections of configuration, Conductor, stream,
/// model, hashes, build and metrics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "conductor/accounts.hpp"
#include "weir/actors/orders.hpp"
#include "weir/storage/checkpoint.hpp"

namespace weir::actors {

/// Returns the hash of a run's state: XXH3-64 over the XXH3-64 of the model's snapshot
/// and the bytes of the cursor. It covers parameters, moments, error buffers, counters,
/// contexts and cursor. The number of the checkpoint, the build, resumes and times do not
/// count, so that an interrupted run has the hash of one that was not.
[[nodiscard]] std::uint64_t state_hash_of(bytes_view snapshot,
                                          const storage::stream_cursor& cursor);
/// Returns the hash of a run's state as above, from the XXH3-64 of the model's snapshot
/// and the encoded cursor.
[[nodiscard]] std::uint64_t state_hash_of(std::uint64_t snapshot_hash, bytes_view cursor);

/// The sections of one checkpoint, and the bytes to which they point. The order must live
/// as long as this object, because sections point to its bytes too.
struct checkpoint_contents {
  /// Makes the sections in the order in which they are written.
  explicit checkpoint_contents(const save_order& order);
  checkpoint_contents(const checkpoint_contents&) = delete;
  checkpoint_contents& operator=(const checkpoint_contents&) = delete;

  storage::cursor_sections stream;
  byte_vector conductor;
  byte_vector hashes;
  std::vector<storage::checkpoint_section> sections;
};

/// The part of a checkpoint that a resumed run needs besides the model and the cursor.
struct stored_run {
  std::string config;  ///< lines of the settings that a resumed run cannot change
  std::string build;   ///< kernel set of the run; empty if the checkpoint has none
  conductor_record record;
  run_accounts accounts;  ///< zeros if the checkpoint has none
};
/// Reads these sections of a checkpoint.
/// @error{not_found, a section is missing}
/// @error{corrupt, a section is damaged or contradicts the header}
/// @error{unsupported_version, a section was written by a later version}
[[nodiscard]] result<stored_run> read_run(const storage::checkpoint& from);

}  // namespace weir::actors
