// SPDX-License-Identifier: Apache-2.0
/// @file
/// The checkpointer actor: owns the folder of generations and its lock, on a thread of
/// its own.
#pragma once

#include <optional>

#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"
#include "weir/base/file.hpp"
#include "weir/storage/checkpoint.hpp"

namespace weir::actors {

/// The checkpointer without actors. @threads{thread-compatible}
class checkpointer_state {
 public:
  explicit checkpointer_state(file_system& fs) : fs_(&fs) {}
  [[nodiscard]] result<store_info> open(const store_spec& spec);
  /// Durable when it returns.
  [[nodiscard]] result<save_done> save(const save_order& order);

 private:
  file_system* fs_;
  std::optional<storage::checkpoint_store> store_;
};

struct checkpointer_config {
  file_system* fs = &posix_file_system();
};
struct checkpointer_shell {
  static constexpr const char* name = "weir.checkpointer_io";
  std::optional<checkpointer_state> core;
};
checkpointer_actor::behavior_type checkpointer_io(
    checkpointer_actor::stateful_pointer<checkpointer_shell> self,
    checkpointer_config config);

}  // namespace weir::actors
