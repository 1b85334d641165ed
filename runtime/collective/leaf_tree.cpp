// SPDX-License-Identifier: Apache-2.0
/// @file
/// The lower levels of the canonical tree, fed one leaf at a time.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>

#include <fmt/format.h>

#include "weir/runtime/collective/leaves.hpp"

namespace weir::runtime {

dtype node_type(dtype type) noexcept {
  switch (type) {
    case dtype::fp8_e4m3:
    case dtype::fp8_e5m2:
    case dtype::fp16:
    case dtype::bf16: return dtype::fp32;
    default: return type;
  }
}

result<leaf_tree> leaf_tree::make(const reduction& what, std::size_t count) {
  if (what.op == reduction_op::average || what.level > 1) {
    return error(errc::unsupported,
                 fmt::format("no tree of leaves for {} at level {}: expected sum, "
                             "product, max or min at level 1",
                             name_of(what.op), what.level));
  }
  reduction ordered = what;
  ordered.level = 1;
  ordered.wide = false;
  WEIR_TRY(const reducer arithmetic, reducer::make(ordered));
  if (count > std::numeric_limits<std::size_t>::max() / 2 / arithmetic.node_bytes()) {
    return error(errc::invalid_argument,
                 fmt::format("no tree of leaves of {} elements: expected fewer bytes "
                             "than 2^63",
                             count));
  }
  return leaf_tree(arithmetic, count);
}

std::size_t leaf_tree::bytes() const noexcept {
  return count_ * arithmetic_.node_bytes();
}

result<void> leaf_tree::add(const std::byte* leaf) {
  try {
    if (leaves_ % 2 == 0) {  // the first of a pair
      const std::size_t size = count_ * arithmetic_.element_bytes();
      first_.resize(size);
      if (size > 0) {
        std::memcpy(first_.data(), leaf, size);
      }
      ++leaves_;
      return {};
    }
    std::vector<std::byte> sum(bytes());
    const std::array<std::byte*, 1> to = {sum.data()};
    std::array<reducer::part, 2> parts = {{{first_.data(), false}, {leaf, false}}};
    arithmetic_.fold(parts, to, count_, false, 1);
    std::size_t level = 1;
    for (; ((leaves_ >> level) & 1U) != 0; ++level) {
      parts = {{{waiting_[level].data(), true}, {sum.data(), true}}};
      arithmetic_.fold(parts, to, count_, false, 1);
    }
    waiting_.resize(std::max(waiting_.size(), level + 1));
    waiting_[level] = std::move(sum);
    ++leaves_;
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory,
                 fmt::format("no memory to add leaf {} of {} elements", leaves_, count_));
  }
  return {};
}

result<void> leaf_tree::finish(std::byte* nodes) {
  if (leaves_ == 0 || (leaves_ & (leaves_ - 1)) != 0) {
    return error(errc::invalid_argument,
                 fmt::format("cannot end a tree of leaves: expected a power of two of "
                             "them, found {}",
                             leaves_));
  }
  if (leaves_ == 1) {
    const std::array<reducer::part, 1> alone = {{{first_.data(), false}}};
    const std::array<std::byte*, 1> to = {nodes};
    arithmetic_.fold(alone, to, count_, false, 1);
  } else if (bytes() > 0) {
    std::size_t level = 0;
    while ((std::uint64_t{1} << level) < leaves_) {
      ++level;
    }
    std::memcpy(nodes, waiting_[level].data(), bytes());
  }
  leaves_ = 0;
  return {};
}

result<void> round_nodes(dtype type, const std::byte* nodes, std::size_t count,
                         std::byte* elements) {
  WEIR_TRY(const reducer arithmetic, reducer::make({type, reduction_op::sum, 1}));
  const std::array<reducer::part, 1> alone = {{{nodes, true}}};
  const std::array<std::byte*, 1> to = {elements};
  arithmetic.fold(alone, to, count, true, 1);
  return {};
}

}  // namespace weir::runtime
