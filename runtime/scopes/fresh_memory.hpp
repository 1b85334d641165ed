// SPDX-License-Identifier: Apache-2.0
/// @file
/// Scopes, and the fresh memory that they hold.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "map/dependency_map.hpp"
#include "scopes/heap_ring.hpp"
#include "scopes/scope_stack.hpp"
#include "tasks/storage_table.hpp"
#include "tasks/task_window.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// Makes fresh memory in a ring of fixed size, and takes it back.
///
/// A block of the ring is held by its scope until the scope closes or the program gives
/// the block up. From then on no new task can name it, but tasks that were submitted
/// before may still use it: `storage_table::kept_by` is the newest of them. The block
/// goes back to the ring when it has been given up, that task has been retired, and all
/// older blocks have gone back.
///
/// Invariant: the storages of `heap_` are exactly the fresh storages that have an index
/// in the map. Those that are `valid` are held by a scope of `scopes_`.
///
/// `make` waits only if waiting helps. Tasks end by themselves, so blocks that have been
/// given up go back in the end. Blocks that a scope holds are given up by the submitter
/// alone, who would wait here: `make` reports them at once.
/// @threads{the submitter; the counter is safe from any thread}
/// @source{TensorMap design, 2.2 and 6.2}
class fresh_memory {
 public:
  fresh_memory(std::int64_t capacity, storage_table& storages, dependency_map& map,
               task_window& window) noexcept
      : heap_(static_cast<std::uint64_t>(capacity)),
        storages_(storages),
        map_(map),
        window_(window) {}
  fresh_memory(const fresh_memory&) = delete;
  fresh_memory& operator=(const fresh_memory&) = delete;

  /// Opens a scope inside the innermost one and returns its serial number.
  /// @error{invalid_argument, an automatic scope inside a manual one}
  [[nodiscard]] result<std::uint64_t> open_scope(std::string_view name, scope_kind kind);
  /// Closes the scope and all scopes inside it. Does nothing if it has been closed.
  void close_scope(std::uint64_t serial) noexcept;
  /// Returns true if tasks that are submitted now belong to a manual scope.
  [[nodiscard]] bool is_manual() const noexcept { return scopes_.manual(); }

  /// Makes a storage in the innermost scope.
  /// @error{out_of_range, larger than the heap; out_of_memory, a scope holds what is in
  ///        the way}
  [[nodiscard]] result<storage> make(std::int64_t bytes) {
    return make_in(scopes_.last().serial, bytes, {});
  }
  /// Makes a tensor like `before` in fresh memory. With `replaces`, `before` is given up
  /// first if it is fresh memory.
  /// @error{invalid_argument, `before` is no row-major whole storage; as for `make`}
  [[nodiscard]] result<tensor> make_like(const tensor& before, bool replaces);
  /// @error{not_found, never a storage; invalid_argument, no fresh memory}
  [[nodiscard]] result<void> give_up(storage_id id);

  /// Requests that had to wait for tasks.
  [[nodiscard]] const std::atomic<std::uint64_t>& stalls() const noexcept {
    return stalls_;
  }

 private:
  /// `replaced` is a storage that is given up if the new one does not fit beside it.
  [[nodiscard]] result<storage> make_in(std::uint64_t scope, std::int64_t bytes,
                                        storage_id replaced);
  /// Runs tasks until no block is in the way of a new one.
  [[nodiscard]] result<void> make_space(std::uint64_t bytes, storage_id replaced);
  [[nodiscard]] error deadlock(std::uint64_t bytes, storage_id replaced) const;
  /// Takes a block from its scope.
  void drop(storage_id id) noexcept;
  /// Gives the oldest blocks back to the ring, up to the first that is held or used.
  void reclaim() noexcept;

  scope_stack scopes_;
  heap_ring heap_;
  storage heap_memory_;  ///< allocated when the first block is made
  storage_table& storages_;
  dependency_map& map_;
  task_window& window_;
  std::atomic<std::uint64_t> stalls_{0};
};

}  // namespace weir::runtime
