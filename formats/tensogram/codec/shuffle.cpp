// SPDX-License-Identifier: Apache-2.0
/// @file
/// Transposition of the bytes and bits of items. Items are handled in groups whose bytes
/// stay in the first-level cache while they are read once per byte of an item.
///
/// With n items of s bytes, byte k of item i moves from i s + k to k n + i.
#include "tensogram/codec/shuffle.hpp"

#include <algorithm>
#include <cstring>

#include "tensogram/codec/parallel.hpp"

namespace weir::formats {

namespace {

/// Number of items in a group, which is also what one thread takes at a time.
constexpr std::size_t block_items = 1024;

/// Copies byte k of each item in `[first, last)` to plane k. `Size` 0 means that `size`
/// holds the size of an item; otherwise `Size` does, and the inner loop is unrolled.
template <std::size_t Size>
void spread(const std::byte* from, std::size_t size, std::size_t count, std::size_t first,
            std::size_t last, std::byte* to) noexcept {
  const std::size_t width = Size == 0 ? size : Size;
  for (std::size_t k = 0; k < width; ++k) {
    std::byte* plane = to + k * count;
    for (std::size_t i = first; i < last; ++i) {
      plane[i] = from[i * width + k];
    }
  }
}

/// Reverses spread(), whose parameters it has.
template <std::size_t Size>
void gather(const std::byte* from, std::size_t size, std::size_t count, std::size_t first,
            std::size_t last, std::byte* to) noexcept {
  const std::size_t width = Size == 0 ? size : Size;
  for (std::size_t k = 0; k < width; ++k) {
    const std::byte* plane = from + k * count;
    for (std::size_t i = first; i < last; ++i) {
      to[i * width + k] = plane[i];
    }
  }
}

/// The signature of both: from, size of an item, number of items, first item, last item,
/// to.
using transposition = void (*)(const std::byte*, std::size_t, std::size_t, std::size_t,
                               std::size_t, std::byte*) noexcept;

/// Runs one direction over all items and copies the bytes behind the last whole item.
/// Groups write to different places of `to`, so threads need not wait for each other.
void run(transposition step, bytes_view from, std::size_t size, mutable_bytes to,
         unsigned threads) {
  const std::size_t count = from.size() / size;
  for_each_piece(worth_threads(threads, from.size()),
                 (count + block_items - 1) / block_items, [&](std::size_t k) {
                   step(from.data(), size, count, k * block_items,
                        std::min(count, (k + 1) * block_items), to.data());
                 });
  if (const std::size_t rest = from.size() - count * size; rest > 0) {
    std::memcpy(to.data() + count * size, from.data() + count * size, rest);
  }
}

/// The functions of one direction: one for any size of items, and those that are
/// specialised for common sizes.
struct direction {
  transposition any;
  transposition for_2;
  transposition for_3;
  transposition for_4;
  transposition for_8;

  /// Returns the function for items of `size` bytes.
  [[nodiscard]] transposition for_size(std::size_t size) const noexcept {
    switch (size) {
      case 2: return for_2;
      case 3: return for_3;
      case 4: return for_4;
      case 8: return for_8;
      default: return any;
    }
  }
};
/// Items of one byte need no specialisation: the loop then copies.
constexpr direction spreading{spread<0>, spread<2>, spread<3>, spread<4>, spread<8>};
constexpr direction gathering{gather<0>, gather<2>, gather<3>, gather<4>, gather<8>};

}  // namespace

void shuffle_bytes(bytes_view from, std::size_t size, mutable_bytes to,
                   unsigned threads) {
  run(spreading.for_size(size), from, size, to, threads);
}

void unshuffle_bytes(bytes_view from, std::size_t size, mutable_bytes to,
                     unsigned threads) {
  run(gathering.for_size(size), from, size, to, threads);
}

/// Only reading is needed: this build never writes bit-shuffled data. It goes over the
/// input once per bit plane.
void unshuffle_bits(bytes_view from, std::size_t size, mutable_bytes to) noexcept {
  // A row has one bit of each item; groups of 8 items fill its bytes.
  const std::size_t count = from.size() / size / 8 * 8;
  const std::size_t row = count / 8;
  // Items behind the last group stay as they are.
  std::memcpy(to.data(), from.data(), from.size());
  std::fill_n(to.begin(), count * size, std::byte{});
  for (std::size_t k = 0; k < size; ++k) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const std::byte* bits = from.data() + (k * 8 + bit) * row;
      for (std::size_t i = 0; i < count; ++i) {
        const auto value = std::to_integer<unsigned>(bits[i / 8]) >> (i % 8) & 1u;
        to[i * size + k] |= static_cast<std::byte>(value << bit);
      }
    }
  }
}

}  // namespace weir::formats
