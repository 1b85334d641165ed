// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a checkpoint of a run contains: sections of model, stream, Conductor and metrics,
/// and the hash of the state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "conductor/accounts.hpp"
#include "weir/actors/orders.hpp"
#include "weir/storage/checkpoint.hpp"

namespace weir::actors {

/// XXH3-64 over the XXH3-64 of the model's snapshot and the bytes of the cursor:
/// parameters, moments, error buffers, counters, context and cursor. Generation, build,
/// resumes and times are not in it.
[[nodiscard]] std::uint64_t state_hash_of(bytes_view snapshot,
                                          const storage::stream_cursor& cursor);

/// The sections of one checkpoint and the bytes that they name.
struct checkpoint_contents {
  explicit checkpoint_contents(const save_order& order);
  checkpoint_contents(const checkpoint_contents&) = delete;
  checkpoint_contents& operator=(const checkpoint_contents&) = delete;

  storage::cursor_sections stream;
  byte_vector conductor;
  byte_vector hashes;
  std::vector<storage::checkpoint_section> sections;
};

/// What a resumed run needs of a checkpoint besides the model and the cursor.
struct stored_run {
  std::string config;
  std::string build;
  conductor_record record;
  run_accounts accounts;
};
/// @error{corrupt, not_found, with the section}
[[nodiscard]] result<stored_run> read_run(const storage::checkpoint& from);

}  // namespace weir::actors
