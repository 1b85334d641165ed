// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory for the successors of tasks that have many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tasks/task.hpp"

namespace weir::runtime {

/// Blocks for successors beyond those that fit into the block beside a task's record.
///
/// Invariant: each block is either in the free list or in the list of exactly one task
/// that has not been retired. The number of blocks is bounded, so that a program whose
/// tasks have ever more successors runs out of blocks and not out of memory.
/// @threads{the submitter. The worker that ends a task reads the task's blocks; it reads
/// only as many successors as `task::successors` counted with release order after they
/// were written, and it gives no block back}
class successor_pool {
 public:
  explicit successor_pool(std::size_t max_blocks) noexcept : max_blocks_(max_blocks) {}

  /// Returns an unused block, or null if all are in use.
  [[nodiscard]] successor_block* take();
  void give_back(successor_block& block) noexcept;
  /// Gives back all blocks but the first of a task that had this many successors. The
  /// first one lies beside the record.
  /// @pre the task has ended, and successors > successor_block::capacity
  void give_back_all(const task& t, std::uint32_t successors) noexcept;

 private:
  std::size_t max_blocks_;
  std::vector<std::unique_ptr<successor_block>> blocks_;
  successor_block* free_ = nullptr;  ///< a list through `successor_block::next`
};

}  // namespace weir::runtime
