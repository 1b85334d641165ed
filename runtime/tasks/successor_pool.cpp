// SPDX-License-Identifier: Apache-2.0
/// @file
/// Takes and returns blocks of successors.
///
/// Blocks are made one by one until the limit is reached, and are used again through a
/// free list. They are never freed before the engine ends, since a steady program needs
/// the same number again and again.
#include "tasks/successor_pool.hpp"

#include <utility>

namespace weir::runtime {

successor_block* successor_pool::take() {
  if (free_ == nullptr) {
    if (blocks_.size() == max_blocks_) {
      return nullptr;
    }
    blocks_.push_back(std::make_unique<successor_block>());
    free_ = blocks_.back().get();
  }
  return std::exchange(free_, free_->next);
}

void successor_pool::give_back(successor_block& block) noexcept {
  block.next = std::exchange(free_, &block);
}

void successor_pool::give_back_all(const task& t, std::uint32_t successors) noexcept {
  successor_block* block = successors_of(t).next;
  for (std::uint32_t i = successor_block::capacity; i < successors;
       i += successor_block::capacity) {
    give_back(*std::exchange(block, block->next));
  }
}

}  // namespace weir::runtime
