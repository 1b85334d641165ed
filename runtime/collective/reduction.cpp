// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reductions: which exist, and the canonical tree, computed over tiles that stay in the
/// cache.
///
/// The canonical tree over n ranks has as its left part the largest power of two below n.
/// Rounding errors depend only on this tree, so every algorithm, number of workers and
/// instruction set gives the same bits.
#include "weir/collective/reduction.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/core.h>

#include "collective/kernels/default_environment.hpp"
#include "collective/kernels/reduction_kernels.hpp"
#include "collective/kernels/vector_sum.hpp"

namespace weir::collective {
namespace {

/// Bytes of nodes in a tile. The tiles of a whole stack stay in the first level of the
/// cache.
constexpr std::size_t tile_bytes = 2048;
/// Bytes of one input that are read forwards within a sum that goes backwards.
constexpr std::size_t stretch_bytes = 4096;
/// Capacity of the stack of complete subtrees: one for each bit of a rank, and the one
/// that is added.
constexpr std::size_t max_tiles = 12;
static_assert((1 << (max_tiles - 2)) >= max_ranks);

bool is_complex(dtype type) noexcept {
  return type == dtype::complex64 || type == dtype::complex128;
}
bool is_integer(dtype type) noexcept {
  return type == dtype::int8 || type == dtype::int16 || type == dtype::int32 ||
         type == dtype::int64 || type == dtype::boolean;
}
bool adds(reduction_op op) noexcept {
  return op == reduction_op::sum || op == reduction_op::average;
}
bool is_tessera_type(dtype type) noexcept {
  return static_cast<int>(type) >= 1 && static_cast<int>(type) <= 13;
}

/// Returns which partial results may be added. Integers and extremes do not round, so
/// their order does not matter. At level 1 only siblings of the tree may be added. At
/// level 2 the sum is rounded once.
partial_rule rule_of(const reduction& operation) noexcept {
  const bool rounds = !is_integer(operation.type) &&
                      (adds(operation.op) || operation.op == reduction_op::product);
  if (!rounds || operation.level == 0) {
    return partial_rule::any;
  }
  if (operation.level == 1) {
    return partial_rule::siblings;
  }
  // fp64 holds every sum of these types exactly.
  const bool narrow = operation.type == dtype::fp8_e4m3 ||
                      operation.type == dtype::fp8_e5m2 || operation.type == dtype::fp16;
  return narrow ? partial_rule::any : partial_rule::none;
}

/// Returns the kernels of a reduction that exists.
const reduction_kernels* kernels_of(const reduction& operation,
                                    instructions set) noexcept {
  if (rule_of(operation) == partial_rule::none) {
    return exact_kernels(operation, set);
  }
  if (is_integer(operation.type)) {
    return integer_kernels(operation, set);
  }
  const reduction_kernels* narrow = narrow_kernels(operation, set);
  return narrow != nullptr ? narrow : float_kernels(operation, set);
}

/// The tree of one call of `fold`: a stack of complete subtrees and the tiles that hold
/// them. Two subtrees of equal size are joined at once, as in binary addition, which
/// gives the canonical tree.
class tree_driver {
 public:
  tree_driver(const reduction_kernels& k, std::span<const reducer::part> parts)
      : kernels_(k), parts_(parts) {}

  /// Returns the sum over elements [first, first + count) as nodes; valid until the next
  /// call.
  const std::byte* sum(std::size_t first, std::size_t count) noexcept {
    depth_ = 0;
    for (std::size_t p = 0; p < parts_.size();) {
      p += push(p, first, count);
      while (depth_ > 1 && sizes_[depth_ - 1] == sizes_[depth_ - 2]) {
        merge(count);
      }
    }
    while (depth_ > 1) {
      merge(count);
    }
    return tops_[0];
  }

 private:
  /// Pushes a subtree of one part, or of two neighbouring elements. Returns the number of
  /// parts.
  std::size_t push(std::size_t p, std::size_t first, std::size_t count) noexcept {
    const reducer::part& one = parts_[p];
    std::byte* const to = tiles_[depth_].data();
    tops_[depth_] = to;
    sizes_[depth_] = 1;
    if (one.node) {  // nodes are read where they are
      tops_[depth_++] = one.data + first * kernels_.node_bytes;
      return 1;
    }
    const std::byte* const from = one.data + first * kernels_.element_bytes;
    if (p + 1 < parts_.size() && !parts_[p + 1].node && p % 2 == 0) {
      kernels_.pair(from, parts_[p + 1].data + first * kernels_.element_bytes, to, count);
      sizes_[depth_++] = 2;
      return 2;
    }
    kernels_.widen(from, to, count);
    ++depth_;
    return 1;
  }

  /// Joins the two subtrees on top of the stack.
  void merge(std::size_t count) noexcept {
    --depth_;
    std::byte* const to = tiles_[depth_ - 1].data();
    kernels_.join(tops_[depth_ - 1], tops_[depth_], to, count);
    tops_[depth_ - 1] = to;
    sizes_[depth_ - 1] += sizes_[depth_];
  }

  const reduction_kernels& kernels_;
  std::span<const reducer::part> parts_;
  std::size_t depth_ = 0;
  std::array<const std::byte*, max_tiles> tops_;
  std::array<std::size_t, max_tiles> sizes_;
  alignas(64) std::array<std::array<std::byte, tile_bytes>, max_tiles> tiles_;
};

}  // namespace

// The processor is asked once.
instructions best_instructions() noexcept {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  return has_avx2 ? instructions::avx2 : instructions::portable;
#else
  return instructions::portable;
#endif
}

std::string_view name_of(reduction_op op) noexcept {
  constexpr std::array<std::string_view, 5> names = {"sum", "max", "min", "product",
                                                     "average"};
  return names[static_cast<std::size_t>(op)];
}

int canonical_split(int first, int last) noexcept {
  return split_of(first, last);
}

// Refuses what has no meaning (an order of complex numbers, the average of booleans) and
// products at level 2, because an exact product would need too many bits.
result<void> check_reduction(const reduction& operation) {
  if (!is_tessera_type(operation.type)) {
    return error(errc::invalid_argument,
                 fmt::format("cannot reduce elements of type {}: expected an id in 1..13",
                             static_cast<int>(operation.type)));
  }
  if (static_cast<int>(operation.op) > static_cast<int>(reduction_op::average)) {
    return error(errc::invalid_argument,
                 fmt::format("no reduction {}: expected an id in 0..4",
                             static_cast<int>(operation.op)));
  }
  if (operation.level < 0 || operation.level > 2) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot reduce at level {}: expected 0, 1 or 2", operation.level));
  }
  const bool extreme =
      operation.op == reduction_op::max || operation.op == reduction_op::min;
  const bool rounded_product = operation.op == reduction_op::product &&
                               operation.level == 2 && !is_integer(operation.type);
  if ((is_complex(operation.type) && extreme) || rounded_product ||
      (operation.type == dtype::boolean && operation.op == reduction_op::average)) {
    return error(errc::unsupported,
                 fmt::format("{} has no {} at level {}", info_of(operation.type).tessera,
                             name_of(operation.op), operation.level));
  }
  return {};
}

result<reducer> reducer::make(const reduction& operation) {
  WEIR_TRY(reducer made, make_portable(operation));
  made.kernels_ = kernels_of(operation, best_instructions());
  return made;
}

// Complex numbers that are handled by components have kernels of real numbers.
result<reducer> reducer::make_portable(const reduction& operation) {
  WEIR_CHECK(check_reduction(operation));
  reducer made;
  made.operation_ = operation;
  made.rule_ = rule_of(operation);
  made.kernels_ = kernels_of(operation, instructions::portable);
  made.element_bytes_ = info_of(operation.type).size;
  made.components_ = made.element_bytes_ / made.kernels_->element_bytes;
  made.node_bytes_ = made.kernels_->node_bytes * made.components_;
  return made;
}

// Reduces whole inputs. The loops in registers come first; the rest goes through tiles.
void reducer::reduce(std::span<const std::byte* const> inputs,
                     std::span<std::byte* const> outputs,
                     std::size_t count) const noexcept {
  const std::uint32_t divisor = operation_.op == reduction_op::average
                                    ? static_cast<std::uint32_t>(inputs.size())
                                    : 0;
  std::size_t done = 0;
  if (kernels_->whole != nullptr) {
    const default_environment environment;
    done = kernels_->whole(inputs.data(), inputs.size(), outputs.data(), outputs.size(),
                           count * components_, divisor) /
           components_;
  }
  if (done == count) {
    return;
  }
  // The elements that the loops in registers have left.
  std::array<part, max_ranks> parts;
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    parts[r] = {inputs[r] + done * element_bytes_, false};
  }
  std::array<std::byte*, max_ranks> rest;
  std::transform(outputs.begin(), outputs.end(), rest.begin(),
                 [&](std::byte* to) { return to + done * element_bytes_; });
  fold(std::span(parts).first(inputs.size()), std::span(rest).first(outputs.size()),
       count - done, true, static_cast<int>(inputs.size()));
}

// Reads the buffers from the end. The next collective then begins with data that this one
// touched last. The result is the same, since elements are independent.
void reducer::reduce_backwards(std::span<const std::byte* const> inputs,
                               std::span<std::byte* const> outputs,
                               std::size_t count) const noexcept {
  const default_environment environment;  // once for all stretches
  const std::size_t stretch = stretch_bytes / element_bytes_;
  std::array<const std::byte*, max_ranks> from;
  std::array<std::byte*, max_ranks> to;
  std::size_t here = 0;
  for (std::size_t left = count; left > 0; left -= here) {
    here = (left - 1) % stretch + 1;
    const std::size_t offset = (left - here) * element_bytes_;
    std::transform(inputs.begin(), inputs.end(), from.begin(),
                   [&](const std::byte* p) { return p + offset; });
    std::transform(outputs.begin(), outputs.end(), to.begin(),
                   [&](std::byte* p) { return p + offset; });
    reduce(std::span(from).first(inputs.size()), std::span(to).first(outputs.size()),
           here);
  }
}

// Adds parts, which may be elements or nodes, tile by tile. The first output gets the
// result, and others get copies of it.
void reducer::fold(std::span<const part> parts, std::span<std::byte* const> outputs,
                   std::size_t count, bool finish, int ranks) const noexcept {
  const default_environment environment;
  const std::uint32_t divisor =
      operation_.op == reduction_op::average ? static_cast<std::uint32_t>(ranks) : 0;
  if (rule_ == partial_rule::none) {
    std::array<const std::byte*, max_ranks> inputs;
    std::transform(parts.begin(), parts.end(), inputs.begin(),
                   [](const part& p) { return p.data; });
    kernels_->whole(inputs.data(), parts.size(), outputs.data(), outputs.size(),
                    count * components_, divisor);
    return;
  }
  tree_driver driver(*kernels_, parts);
  const std::size_t out_bytes = finish ? kernels_->element_bytes : kernels_->node_bytes;
  const std::size_t tile = tile_bytes / kernels_->node_bytes;
  const std::size_t total = count * components_;
  for (std::size_t first = 0; first < total; first += tile) {
    const std::size_t here = std::min(tile, total - first);
    const std::byte* const sum = driver.sum(first, here);
    std::byte* const to = outputs[0] + first * out_bytes;
    if (finish) {
      kernels_->finish(sum, to, here, divisor);
    } else if (to != sum) {
      std::memcpy(to, sum, here * out_bytes);
    }
    for (std::size_t o = 1; o < outputs.size(); ++o) {
      std::byte* const copy = outputs[o] + first * out_bytes;
      if (copy != to) {
        std::memcpy(copy, to, here * out_bytes);
      }
    }
  }
}

}  // namespace weir::collective
