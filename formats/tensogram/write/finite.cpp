// SPDX-License-Identifier: Apache-2.0
/// @file
/// Search for NaN and infinities among floats, a block at a time in vector registers.
///
/// A value is NaN or infinite if all bits of its exponent are one. The search is on the
/// path of every message that is written, so it reads blocks of 4 KiB without branches
/// and looks at single values only where a block has a hit.
#include "tensogram/write/finite.hpp"

#include <algorithm>
#include <cstdint>

namespace weir::formats {

namespace {

/// Returns whether a component is not finite, that is, whether all bits of its exponent
/// are set. Only then does the masked exponent plus one carry into the sign bit. The
/// carries are collected with "or", without a branch, so the compiler vectorises the
/// loop.
template <class T, bool Swap>
[[nodiscard, gnu::always_inline]] inline bool any_set_of(const std::byte* from,
                                                         std::size_t count,
                                                         T exponent) noexcept {
  // The lowest bit of the exponent: adding it to an exponent of ones carries into the
  // sign.
  const T one = static_cast<T>(exponent & (~exponent + 1));
  T seen = 0;
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    if constexpr (Swap) {
      value = byteswap(value);
    }
    seen = static_cast<T>(seen | ((value & exponent) + one));
  }
  // Bit by bit, `seen` says whether any value had a carry.
  return (seen >> (8 * sizeof(T) - 1)) != 0;
}

#if defined(__x86_64__)
/// Compiles the loop once more for AVX2; any_set() chooses at run time.
template <class T, bool Swap>
[[nodiscard, gnu::target("avx2")]] bool any_set_avx2(const std::byte* from,
                                                     std::size_t count,
                                                     T exponent) noexcept {
  return any_set_of<T, Swap>(from, count, exponent);
}
#endif

/// Chooses AVX2 at run time.
template <class T, bool Swap>
[[nodiscard]] bool any_set(const std::byte* from, std::size_t count,
                           T exponent) noexcept {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx2") != 0;
  if (wide) {
    return any_set_avx2<T, Swap>(from, count, exponent);
  }
#endif
  return any_set_of<T, Swap>(from, count, exponent);
}

/// Returns the first component that is not finite. Blocks without one are passed over by
/// any_set(); only in the block that has one are the components examined one by one.
/// A block is small enough to be in the cache when it is read again.
template <class T, bool Swap>
[[nodiscard]] std::optional<non_finite_element> search(bytes_view bytes,
                                                       T exponent) noexcept {
  constexpr std::size_t block = 4096 / sizeof(T);
  const std::size_t count = bytes.size() / sizeof(T);
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t n = std::min(block, count - first);
    if (!any_set<T, Swap>(bytes.data() + first * sizeof(T), n, exponent)) {
      continue;
    }
    for (std::size_t i = first; i < first + n; ++i) {
      const T raw = load<T, std::endian::native>(bytes.data() + i * sizeof(T));
      const T value = Swap ? byteswap(raw) : raw;
      if ((value & exponent) == exponent) {
        // The bits between the exponent and the lowest bit; none of them is set in an
        // infinity.
        const T fraction =
            static_cast<T>(value & (exponent ^ (static_cast<T>(~T{0}) >> 1)) &
                           static_cast<T>(static_cast<T>(~T{0}) >> 1));
        return non_finite_element{i, fraction != 0};
      }
    }
  }
  return std::nullopt;
}

/// Chooses the byte order, and counts elements instead of components.
/// A complex element has two components, but counts as one.
template <class T>
[[nodiscard]] std::optional<non_finite_element> search(bytes_view bytes, byte_order order,
                                                       T exponent,
                                                       std::size_t components) noexcept {
  auto found = order == native_byte_order ? search<T, false>(bytes, exponent)
                                          : search<T, true>(bytes, exponent);
  if (found) {
    found->index /= components;
  }
  return found;
}

}  // namespace

/// Types without non-finite values are not searched.
std::optional<non_finite_element> find_non_finite(bytes_view elements, dtype type,
                                                  byte_order order) noexcept {
  switch (type) {
    case dtype::fp16: return search<std::uint16_t>(elements, order, 0x7C00, 1);
    case dtype::bf16: return search<std::uint16_t>(elements, order, 0x7F80, 1);
    case dtype::fp32: return search<std::uint32_t>(elements, order, 0x7F80'0000, 1);
    case dtype::complex64: return search<std::uint32_t>(elements, order, 0x7F80'0000, 2);
    case dtype::fp64:
      return search<std::uint64_t>(elements, order, 0x7FF0'0000'0000'0000, 1);
    case dtype::complex128:
      return search<std::uint64_t>(elements, order, 0x7FF0'0000'0000'0000, 2);
    default: return std::nullopt;
  }
}

}  // namespace weir::formats
