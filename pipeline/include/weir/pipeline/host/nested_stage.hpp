// SPDX-License-Identifier: Apache-2.0
/// @file
/// A stage alone with an engine of its own, away from the other stages of its pipeline:
/// on a thread of its own or in a child process.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weir/pipeline/graph.hpp"
#include "weir/pipeline/host/batch_stage.hpp"

namespace weir::flow {

/// An item that a stage alone has made.
struct made_view {
  std::size_t call = 0;               ///< number of the call, from 0
  bool skipped = false;               ///< the number has no item behind the stage
  const attributes* about = nullptr;  ///< attributes; not null unless it is skipped
  std::array<const runtime::tensor*, max_ports>
      tensors{};  ///< tensors by outlet; null: a gap
};
/// Takes an item that a stage alone has made. Returns false if it has no space for it
/// now. The error may have any code: the item cannot be taken at all.
using made_items = std::function<result<bool>(const made_view&)>;

/// A stage alone.
///
/// The numbers, attributes, random numbers and times that the stage sees are those of the
/// run, so that it makes the items that it would make beside the other stages.
/// @threads{thread-compatible}
class nested_stage {
 public:
  /// Makes a stage alone.
  /// @param stage    Stage of the graph of the run.
  /// @param planned  Its plan.
  /// @param budget   Largest window behind it. @units{budget: bytes}
  /// @param seed     Seed of the run.
  /// @error{out_of_memory, the memory of items cannot be allocated}
  [[nodiscard]] static result<std::unique_ptr<nested_stage>> create(
      const graph_stage& stage, const planned_stage& planned, std::int64_t budget,
      std::uint64_t seed, std::unique_ptr<stage_object> object);
  nested_stage(const nested_stage&) = delete;
  nested_stage& operator=(const nested_stage&) = delete;
  /// Waits for the tasks of the stage.
  ~nested_stage();

  /// Returns the stage.
  [[nodiscard]] stage_object& object() noexcept;
  /// Returns the engine of the stage.
  [[nodiscard]] weir::engine& host() noexcept;
  /// Opens the stage on its engine. Returns the constants that it has loaded. Also
  /// returns the errors of `stage_object::open`.
  [[nodiscard]] result<std::vector<constant_info>> open(const opening::facts& run);
  /// Processes calls of a stage that is neither a source nor a sink, in their order. What
  /// it makes goes to `to`. After a call that failed or for which `to` had no space, the
  /// next calls of `work` begin with that call again, or with the one behind it.
  [[nodiscard]] processed_items work(std::span<const call_view> calls,
                                     const made_items& to);
  /// Lets a sink write items.
  [[nodiscard]] processed_items write(std::span<const call_view> calls);
  /// Lets a source fill items, of the numbers from `seq` on. `to` is called for each, and
  /// has space for all of them, or refuses the first.
  [[nodiscard]] filled_items fill(std::uint64_t seq, std::size_t count,
                                  const made_items& to);
  /// Returns copies of all parts of the state, in the order of the checkpoint. Their
  /// names are those in the stage. Also returns the errors of `stage_object::copy_state`.
  [[nodiscard]] result<std::vector<image_section>> copy_state();
  /// Restores the state. @param from  Parts as `copy_state` returns them.
  /// @error{corrupt, a part is missing or has another size}
  [[nodiscard]] result<void> restore_state(std::vector<image_section> from);
  /// Restores the state from an image of the run. @error{corrupt, see above}
  [[nodiscard]] result<void> restore_state(const image& from);

 private:
  struct state;
  explicit nested_stage(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace weir::flow
