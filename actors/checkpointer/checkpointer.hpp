// SPDX-License-Identifier: Apache-2.0
/// @file
/// The checkpointer actor: owns the folder of checkpoints and its lock. It has its own
/// thread, because files block.
#pragma once

#include <optional>

#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"
#include "weir/base/file.hpp"
#include "weir/storage/checkpoint.hpp"

namespace weir::actors {

/// The logic of the checkpointer, without actors.
/// @threads{thread-compatible}
class checkpointer_state {
 public:
  /// Makes a checkpointer without a folder.
  explicit checkpointer_state(file_system& fs) : fs_(&fs) {}
  /// Takes the lock of a folder and reads its newest valid checkpoint, if it has any.
  /// @error{locked, another process has the folder}
  /// @error{already_exists, the folder has checkpoints and `spec` does not allow that}
  [[nodiscard]] result<store_info> open(const store_spec& spec);
  /// Writes a checkpoint, which is durable when the call returns.
  /// @error{stopping, no folder is open}
  /// @error{no_space; io}
  [[nodiscard]] result<save_done> save(const save_order& order);

 private:
  file_system* fs_;
  std::optional<storage::checkpoint_store> store_;  ///< the open folder
};

/// Configuration of a checkpointer.
struct checkpointer_config {
  file_system* fs = &posix_file_system();
};
/// State that CAF keeps for a checkpointer.
struct checkpointer_shell {
  static constexpr const char* name = "weir.checkpointer_io";
  std::optional<checkpointer_state> core;
};
/// Returns the behavior of a checkpointer; CAF calls this when it spawns the actor.
checkpointer_actor::behavior_type checkpointer_io(
    checkpointer_actor::stateful_pointer<checkpointer_shell> self,
    checkpointer_config config);

}  // namespace weir::actors
