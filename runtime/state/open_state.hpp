// SPDX-License-Identifier: Apache-2.0
/// @file
/// The state that a world has open: what ranks tell each other about its files, and the
/// tasks that save and load it.
#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "state/part_files.hpp"
#include "state/state_folder.hpp"
#include "weir/runtime/state/world_state.hpp"

namespace weir::runtime {

/// Outcome of a rank, as bytes of a tensor that other ranks read.
///
/// The record has a fixed size, so that it can be a tensor.
struct rank_outcome {
  std::uint64_t code = 0;  ///< code of the failure; 0: success
  written_part part;
  std::array<char, 64> machine{};
  std::array<char, 512> path{};  ///< part, or location of the failure
  std::array<char, 512> text{};  ///< text of the failure
};

/// Copies as much of a text as fits in front of a zero.
///
/// The rest is filled with zeros, so equal texts are equal bytes.
template <std::size_t Size>
void copy_text(std::array<char, Size>& to, const std::string& text) {
  to.fill('\0');
  text.copy(to.data(), Size - 1);
}

/// The folders of a state, used by tasks.
///
/// It lives as long as the last task.
struct state_site {
  file_system* files = nullptr;
  std::string folder;       ///< of the manifests
  std::string part_folder;  ///< of the parts of this rank
  // Parts need not be where the manifests are.
  bool apart = false;  ///< true if the folders differ
  /// Identity of the state in the names of parts that lie apart; otherwise empty.
  std::string identity;
  std::string machine;
  rank_id rank = 0;
  std::size_t kept = 2;
  std::function<void(const std::string&)> warn;
  std::optional<file_lock> lock;        ///< rank 0 alone
  std::vector<std::uint64_t> complete;  ///< known to be complete, ascending; rank 0 alone

  /// Returns the path of a part of this rank as a manifest names it.
  ///
  /// Names of parts in the same folder are relative.
  [[nodiscard]] std::string name_of_part(std::uint64_t generation) const {
    const std::string name = part_name(generation, rank, identity);
    return apart ? join_path(part_folder, name) : name;
  }
  /// Returns the path of a part of this rank.
  [[nodiscard]] std::string path_of_part(std::uint64_t generation) const {
    return join_path(part_folder, part_name(generation, rank, identity));
  }
};

/// One save as the tasks of a rank see it.
///
/// Tasks share it, and the last one ends it.
struct save_job {
  std::shared_ptr<state_site> site;
  state_manifest manifest;  ///< of rank 0: written by its tasks
  state_plan plan;
  std::unique_ptr<part_writer> part;
  std::vector<tensor> tiles;       ///< tiles of this rank
  std::vector<tile_place> places;  ///< their places
};
/// One load as the tasks of a rank see it.
///
/// Tasks of different parts may fail at the same time.
struct load_job {
  std::shared_ptr<state_site> site;
  state_manifest manifest;
  state_plan plan;
  // Nothing is written into the tensors then.
  bool fill = true;  ///< false: the parts are only verified
  std::vector<std::unique_ptr<part_reader>> parts;
  std::vector<tensor> tiles;       ///< tiles of this rank
  std::vector<tile_place> places;  ///< their places
  std::mutex mutex;
  std::optional<error> failure;  ///< first failure, guarded by the mutex
};

/// Implementation of `world_state`. Storages of the world carry what ranks tell each
/// other: `outcomes_` has a record of each rank, `digests_` a number for each tile in the
/// order of the parts, and `verdict_` numbers of rank 0. Destroyed with the state.
class world_state::open_state {
 public:
  open_state(world& ranks, std::shared_ptr<state_site> site,
             std::vector<state_item> items);
  ~open_state();
  open_state(const open_state&) = delete;
  open_state& operator=(const open_state&) = delete;

  // Each returns the same outcome on all ranks.
  [[nodiscard]] result<void> begin();
  [[nodiscard]] result<void> save(std::int64_t step);
  [[nodiscard]] result<std::int64_t> resume(std::uint64_t generation);

 private:
  /// An action of a rank in a task. Its failure is an outcome and poisons nothing.
  using action = std::function<result<void>()>;

  // What ranks tell each other.
  [[nodiscard]] result<void> allocate();
  [[nodiscard]] result<void> agree(const char* name, action own);
  [[nodiscard]] result<byte_vector> from_rank_0(byte_vector own);
  [[nodiscard]] result<void> list();
  [[nodiscard]] tensor outcome_of(rank_id rank) const;
  [[nodiscard]] tensor digests_of(rank_id rank) const;
  [[nodiscard]] tensor digest_slot(const tile_place& place) const;

  // Saving.
  [[nodiscard]] result<void> submit_tiles(const std::shared_ptr<save_job>& job);
  [[nodiscard]] result<void> submit_values(const std::shared_ptr<save_job>& job);
  [[nodiscard]] result<void> submit_seals(const std::shared_ptr<save_job>& job);
  [[nodiscard]] result<void> submit_publication(const std::shared_ptr<save_job>& job);

  // Loading.
  [[nodiscard]] result<std::shared_ptr<load_job>> read_manifest(std::uint64_t generation);
  [[nodiscard]] result<void> load(const std::shared_ptr<load_job>& job);
  [[nodiscard]] result<void> submit_loads(const std::shared_ptr<load_job>& job);
  [[nodiscard]] result<std::int64_t> load_generation(std::uint64_t generation, bool fill);
  [[nodiscard]] error with_offer(error cause, std::uint64_t failed);

  // The world outlives its state.
  world& ranks_;
  std::shared_ptr<state_site> site_;
  std::vector<state_item> items_;
  // What a manifest says of the items.
  std::vector<item_description> descriptions_;
  state_plan plan_;
  std::vector<std::size_t> first_digest_;  ///< of each part, in `digests_`
  // Released by the destructor.
  storage outcomes_;
  storage digests_;
  storage verdict_;
  std::vector<std::uint64_t> generations_;  ///< that have a manifest
  std::uint64_t newest_ = 0;                ///< number of the newest generation
};

}  // namespace weir::runtime
