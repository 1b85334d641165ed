// SPDX-License-Identifier: Apache-2.0
/// @file
/// Fills with patterns of 1 to 16 bytes, of which the driver fills 1, 2 and 4 only, and
/// copies of boxes with any steps.
#include "kernels/device.hpp"

namespace weir::device_code {

/// Returns true if all numbers whose bits were combined in `bits` are multiples of
/// `bytes`, which is a power of two.
WEIR_DEVICE bool all_aligned(std::uint64_t bits, std::uint32_t bytes) noexcept {
  return (bits & (bytes - 1)) == 0;
}

/// Copies one element of `bytes` bytes. The addresses and `bytes` are multiples of
/// `sizeof(T)`.
template <class T>
WEIR_DEVICE void copy_element(std::uint8_t* to, const std::uint8_t* from,
                              std::uint32_t bytes) noexcept {
  WEIR_ROLLED
  for (std::uint32_t i = 0; i < bytes / sizeof(T); ++i) {
    store(reinterpret_cast<T*>(to), i, load(reinterpret_cast<const T*>(from), i));
  }
}

}  // namespace weir::device_code

/// Fills `count` patterns of `pattern_bytes` (1, 2, 4, 8 or 16) bytes. `low` holds the
/// first 8 bytes of the pattern and `high` the others, as little-endian numbers.
WEIR_KERNEL weir_fill(std::uint8_t* to, std::int64_t count, std::uint64_t low,
                      std::uint64_t high, std::uint32_t pattern_bytes) {
  using namespace weir::device_code;
  const bool words =
      (reinterpret_cast<std::uintptr_t>(to) & 7U) == 0 && pattern_bytes >= 8;
  const std::int64_t step = block_count() * thread_count();
  WEIR_ROLLED
  for (std::int64_t i = block_number() * thread_count() + thread_number(); i < count;
       i += step) {
    if (words) {
      auto* out = reinterpret_cast<std::uint64_t*>(to);
      const std::int64_t first = pattern_bytes == 16 ? i * 2 : i;
      store(out, first, low);
      if (pattern_bytes == 16) {
        store(out, first + 1, high);
      }
    } else {
      WEIR_ROLLED
      for (std::uint32_t b = 0; b < pattern_bytes; ++b) {
        const std::uint64_t part = b < 8 ? low >> (8 * b) : high >> (8 * (b - 8));
        store(to, i * pattern_bytes + b, static_cast<std::uint8_t>(part));
      }
    }
  }
}

/// Copies a box of up to four dimensions of elements of `element_bytes` bytes. Sizes are
/// at least 1, the last dimension varies fastest; steps are in bytes and may be negative.
WEIR_KERNEL weir_strided_copy(std::uint8_t* to, const std::uint8_t* from,
                              std::uint32_t element_bytes, std::int64_t size0,
                              std::int64_t size1, std::int64_t size2, std::int64_t size3,
                              std::int64_t to0, std::int64_t to1, std::int64_t to2,
                              std::int64_t to3, std::int64_t from0, std::int64_t from1,
                              std::int64_t from2, std::int64_t from3) {
  using namespace weir::device_code;
  const auto bits = static_cast<std::uint64_t>(
      to0 | to1 | to2 | to3 | from0 | from1 | from2 | from3 | element_bytes |
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to)) |
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(from)));
  const std::uint64_t total =
      static_cast<std::uint64_t>(size0) * static_cast<std::uint64_t>(size1) *
      static_cast<std::uint64_t>(size2) * static_cast<std::uint64_t>(size3);
  const auto step = static_cast<std::uint64_t>(block_count() * thread_count());
  WEIR_ROLLED
  for (auto i =
           static_cast<std::uint64_t>(block_number() * thread_count() + thread_number());
       i < total; i += step) {
    const auto i3 = static_cast<std::int64_t>(i % static_cast<std::uint64_t>(size3));
    const std::uint64_t rest3 = i / static_cast<std::uint64_t>(size3);
    const auto i2 = static_cast<std::int64_t>(rest3 % static_cast<std::uint64_t>(size2));
    const std::uint64_t rest2 = rest3 / static_cast<std::uint64_t>(size2);
    const auto i1 = static_cast<std::int64_t>(rest2 % static_cast<std::uint64_t>(size1));
    const auto i0 = static_cast<std::int64_t>(rest2 / static_cast<std::uint64_t>(size1));
    std::uint8_t* write = to + (i0 * to0 + i1 * to1 + i2 * to2 + i3 * to3);
    const std::uint8_t* read = from + (i0 * from0 + i1 * from1 + i2 * from2 + i3 * from3);
    if (all_aligned(bits, 8)) {
      copy_element<std::uint64_t>(write, read, element_bytes);
    } else if (all_aligned(bits, 4)) {
      copy_element<std::uint32_t>(write, read, element_bytes);
    } else {
      copy_element<std::uint8_t>(write, read, element_bytes);
    }
  }
}
