// SPDX-License-Identifier: Apache-2.0
/// @file
/// The state of a world in files: each rank writes its part, and a manifest that is
/// written last makes the parts a generation, from which any number of ranks resumes.
/// @source{docs/ranks.md;
/// docs/decisions/221-states-of-worlds-are-parts-and-a-manifest.md}
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weir/base/file.hpp"
#include "weir/runtime/world.hpp"

namespace weir::runtime {

/// Options of the files of a state.
struct state_options {
  std::int64_t every = 0;  ///< steps between two saves of `weir::world::repeat`; 0: none
  std::size_t kept = 2;    ///< number of complete generations that stay, at least 1
  /// Folder of the parts of this rank, an absolute path that may differ between ranks;
  /// empty: the folder of the manifests. Only a rank that reaches the folder of a part
  /// can resume from it.
  std::string parts{};
  file_system* files = nullptr;  ///< file system; null: that of the operating system
  /// Receives warnings on rank 0, in a thread that runs tasks; empty: standard error.
  std::function<void(const std::string& text)> warn{};
};

/// One tensor of a state as it is at present.
struct state_tensor {
  tensor bytes;  ///< whole tensor, row-major
  /// Extents of a tile; empty for a number that all ranks have. Tile i of n belongs to
  /// rank i * ranks / n. @units{elements}
  std::vector<std::int64_t> tile;
};
/// A name of a state and the tensor behind it.
struct state_item {
  std::string name;                      ///< name in the manifest
  std::function<state_tensor()> tensor;  ///< returns the tensor that has the name now
};

/// Saves the state of a world and resumes from it. All ranks make the same calls with the
/// same items.
///
/// A save is tasks: the run goes on while they write. If a rank cannot write its part,
/// the generation does not exist on any rank; rank 0 warns, and the run goes on. After
/// a failure of a task no generation is written until a wait has reported the failure.
/// @threads{thread-compatible; belongs to the submitter of the world}
class world_state {
 public:
  /// Opens the folder of the manifests, which is made if its parent exists, and removes
  /// parts that belong to no generation. One world at a time may have it open. Waits.
  /// @pre the world outlives the state; options.kept >= 1
  /// @error{locked; another run has the folder open}
  /// @error{io; a folder cannot be made or read} @error{not_found; a parent is missing}
  /// @error{out_of_range; a path is too long} @error{out_of_memory; see `world`}
  [[nodiscard]] static result<std::unique_ptr<world_state>> open(
      world& ranks, std::string folder, state_options options,
      std::vector<state_item> items);
  ~world_state();
  world_state(const world_state&) = delete;
  world_state& operator=(const world_state&) = delete;

  /// Submits the tasks that save the present state as the next generation. Does not wait.
  /// @error{stopping; the world has failed}
  [[nodiscard]] result<void> save(std::int64_t step);

  /// Number of the newest generation.
  static constexpr std::uint64_t newest = 0;
  /// Fills the state from a generation, waits, and returns the step at which it was
  /// saved, or 0 if no generation exists and none was named. After an error the state is
  /// undefined; if an older generation is complete, the hint names it.
  /// @error{config_mismatch; the generation has other names, types, shapes or tiles}
  /// @error{not_found; the generation or a part of it is missing}
  /// @error{torn; a part has another size} @error{hash_mismatch; a part was altered}
  /// @error{corrupt; the manifest is damaged} @error{io; a file cannot be read}
  [[nodiscard]] result<std::int64_t> resume(std::uint64_t generation = newest);

 private:
  class open_state;
  explicit world_state(std::unique_ptr<open_state> state);
  std::unique_ptr<open_state> state_;
};

}  // namespace weir::runtime
