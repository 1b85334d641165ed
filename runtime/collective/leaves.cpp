// SPDX-License-Identifier: Apache-2.0
/// @file
/// The lower levels of the canonical tree, which get one leaf at a time, and sums in
/// fixed point, which have one exponent for each block and integers below it. Both give
/// the same result for every distribution of the leaves.
#include "weir/collective/leaves.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include <fmt/core.h>

#include "collective/exact_number.hpp"
#include "collective/kernels/default_environment.hpp"
#include "collective/kernels/elements.hpp"

namespace weir::collective {
namespace {

/// An exponent above that of every double, for a block with an infinity or a NaN.
constexpr std::int32_t not_finite = 4000;

/// Load and store an element as a double.
template <class S>
double element(const std::byte* from, std::size_t i) noexcept {
  S x;
  std::memcpy(&x, from + i * sizeof(S), sizeof x);
  return widened<double>(x);
}
template <class S>
void put_element(double sum, std::byte* to, std::size_t i) noexcept {
  const S x = finished<S>(sum, 0);
  std::memcpy(to + i * sizeof(S), &x, sizeof x);
}

/// Calls `f` with a value of the element's type.
template <class F>
void with_type(dtype type, F f) noexcept {
  switch (type) {
    case dtype::fp8_e4m3: return f(e4m3_bits{});
    case dtype::fp8_e5m2: return f(e5m2_bits{});
    case dtype::fp16: return f(half_bits{});
    case dtype::bf16: return f(bfloat_bits{});
    case dtype::fp64: return f(double{});
    default: return f(float{});
  }
}

/// Returns the number of bits of a limb below its sign and the bits for carries.
int limb_bits(std::uint64_t leaves) noexcept {
  int headroom = 0;
  while ((std::uint64_t{1} << headroom) < leaves) {
    ++headroom;
  }
  return 62 - headroom;
}

/// Precision and range of a type, as `exact_number::rounded` takes them.
struct float_limits {
  int precision;
  int least;  ///< exponent of the last bit of a subnormal
};
/// Returns precision and range of a type of elements.
float_limits limits_of(dtype type) noexcept {
  switch (type) {
    case dtype::fp8_e4m3: return {4, -9};
    case dtype::fp8_e5m2: return {3, -16};
    case dtype::fp16: return {11, -24};
    case dtype::bf16: return {8, -133};
    case dtype::fp64: return {53, -1074};
    default: return {24, -149};
  }
}

/// Returns the exponent of a block, raised so that its last limb ends no lower than the
/// last bit of a double.
std::int32_t usable(std::int32_t exponent, int bits, std::size_t limbs) noexcept {
  return std::max(exponent, bits * static_cast<std::int32_t>(limbs) - 1074);
}

/// Returns an exponent e with |x| < 2^e.
std::int32_t exponent_of(double x) noexcept {
  if (!std::isfinite(x)) {
    return not_finite;
  }
  int exponent = fixed_point_sum::no_exponent;
  if (x != 0) {
    std::frexp(x, &exponent);
  }
  return exponent;
}

}  // namespace

// Narrow floats are added in fp32, all other types in themselves.
dtype node_type(dtype type) noexcept {
  switch (type) {
    case dtype::fp8_e4m3:
    case dtype::fp8_e5m2:
    case dtype::fp16:
    case dtype::bf16: return dtype::fp32;
    default: return type;
  }
}

// Averages and exact sums have no tree: an average is divided at the end by the number of
// leaves, which a part does not know, and level 2 has no partial results.
result<leaf_tree> leaf_tree::make(const reduction& operation, std::size_t count) {
  if (operation.op == reduction_op::average || operation.level > 1) {
    return error(errc::unsupported,
                 fmt::format("no tree of leaves for {} at level {}: expected sum, "
                             "product, max or min at level 1",
                             name_of(operation.op), operation.level));
  }
  reduction ordered = operation;
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

// Works like binary addition: `waiting_[level]` is the sum of 2^level leaves that has no
// right neighbour yet. A new pair moves up as long as there is one to join. If memory is
// short, the leaf has not been added.
result<void> leaf_tree::add(const std::byte* leaf) {
  try {
    if (leaves_ % 2 == 0) {  // the first leaf of a pair
      const std::size_t size = count_ * arithmetic_.element_bytes();
      first_.resize(size);
      if (size > 0) {
        std::memcpy(first_.data(), leaf, size);
      }
      ++leaves_;
      return {};
    }
    // The second leaf of a pair. If memory is short here, the tree is unchanged.
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

// With a power of two of leaves, only the top of the tree waits. One leaf is widened.
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

// A fold of a single part only converts it.
result<void> round_nodes(dtype type, const std::byte* nodes, std::size_t count,
                         std::byte* elements) {
  WEIR_TRY(const reducer arithmetic, reducer::make({type, reduction_op::sum, 1}));
  const std::array<reducer::part, 1> alone = {{{nodes, true}}};
  const std::array<std::byte*, 1> to = {elements};
  arithmetic.fold(alone, to, count, true, 1);
  return {};
}

// The limit of leaves leaves enough bits below the carries.
result<void> fixed_point_sum::check() const {
  const bool is_float = type >= dtype::fp8_e4m3 && type <= dtype::fp64;
  if (!is_float) {
    return error(errc::unsupported,
                 fmt::format("no fixed point sums of type {}: expected a real float",
                             static_cast<int>(type)));
  }
  if (leaves < 1 || leaves > (std::uint64_t{1} << 30)) {
    return error(
        errc::invalid_argument,
        fmt::format("no fixed point sums of {} leaves: expected 1 to 2^30", leaves));
  }
  return {};
}

std::size_t fixed_point_sum::blocks() const noexcept {
  return count == 0 ? 0 : (first + count - 1) / block - first / block + 1;
}

std::size_t fixed_point_sum::limbs() const noexcept {
  return type == dtype::fp64 ? 2 : 1;
}

// The first pass over the leaves: the exponent of each block is the largest of all
// leaves. Ranks then agree on the maximum before the second pass.
void fixed_point_sum::note_sizes(const std::byte* leaf,
                                 std::span<std::int32_t> exponents) const noexcept {
  const default_environment environment;
  with_type(type, [&](auto kind) {
    for (std::size_t i = 0; i < count; ++i) {
      std::int32_t& e = exponents[(first + i) / block - first / block];
      e = std::max(e, exponent_of(element<decltype(kind)>(leaf, i)));
    }
  });
}

// The second pass: adds each element as an integer in units of its block, rounded to
// nearest. The second limb of fp64 takes the rest. Integer additions can be done in any
// order.
void fixed_point_sum::add(const std::byte* leaf, std::span<const std::int32_t> exponents,
                          std::span<std::int64_t> sums) const noexcept {
  const default_environment environment;
  const int bits = limb_bits(leaves);
  with_type(type, [&](auto kind) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t e = exponents[(first + i) / block - first / block];
      const double x = element<decltype(kind)>(leaf, i);
      if (e == not_finite || x == 0) {
        continue;
      }
      // Scaling by a power of two is exact. The first limb takes the part above its unit,
      // the second the rest of a double.
      const double scaled = std::ldexp(x, bits - usable(e, bits, limbs()));
      const double whole = std::nearbyint(scaled);
      sums[i * limbs()] += static_cast<std::int64_t>(whole);
      if (limbs() == 2) {
        const double rest = std::nearbyint(std::ldexp(scaled - whole, bits));
        sums[i * 2 + 1] += static_cast<std::int64_t>(rest);
      }
    }
  });
}

// Adds the limbs exactly and rounds once to the type of the elements.
void fixed_point_sum::finish(std::span<const std::int32_t> exponents,
                             std::span<const std::int64_t> sums,
                             std::byte* elements) const noexcept {
  const default_environment environment;
  const int bits = limb_bits(leaves);
  const float_limits target = limits_of(type);
  with_type(type, [&](auto kind) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t e = exponents[(first + i) / block - first / block];
      double sum = std::numeric_limits<double>::quiet_NaN();
      if (e != not_finite) {
        exact_number exact;
        for (std::size_t limb = 0; limb < limbs(); ++limb) {
          const int unit = usable(e, bits, limbs()) - bits * (static_cast<int>(limb) + 1);
          exact.add_scaled(sums[i * limbs() + limb], unit);
        }
        sum = exact.rounded(target.precision, target.least);
      }
      put_element<decltype(kind)>(sum, elements, i);
    }
  });
}

}  // namespace weir::collective
