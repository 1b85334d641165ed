// SPDX-License-Identifier: Apache-2.0
/// @file
/// Conversion of samples of 1 to 4 bytes to numbers and back. The width and the byte
/// order are template parameters, so that the inner loops contain no branches.
///
/// The decoder and the encoder work on numbers of 32 bits, whatever the width of a sample
/// is.
#include <bit>

#include "tensogram/codec/aec/aec.hpp"

namespace weir::formats {

namespace {

/// Reads one sample of `Bytes` bytes.
template <unsigned Bytes, bool Big>
std::uint32_t load_sample(const std::byte* from) noexcept {
  std::uint32_t out = 0;
  for (unsigned k = 0; k < Bytes; ++k) {
    const unsigned shift = 8 * (Big ? Bytes - 1 - k : k);
    out |= std::to_integer<std::uint32_t>(from[k]) << shift;
  }
  return out;
}

/// Reads samples of a fixed number of bytes. The mask removes the bits above the width of
/// a sample, which carry no data.
template <unsigned Bytes, bool Big>
void load_all(const std::byte* from, std::size_t count, std::uint32_t mask,
              std::uint32_t* to) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = load_sample<Bytes, Big>(from + i * Bytes) & mask;
  }
}

/// Writes the low bytes of each number.
template <unsigned Bytes, bool Big>
void store_all(const std::uint32_t* from, std::size_t count, std::byte* to) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    for (unsigned k = 0; k < Bytes; ++k) {
      const unsigned shift = 8 * (Big ? Bytes - 1 - k : k);
      to[i * Bytes + k] = static_cast<std::byte>(from[i] >> shift & 0xFF);
    }
  }
}

/// Chooses the loop for the size of the samples, so that the compiler can unroll it.
template <bool Big>
void load_any(bytes_view from, unsigned bytes, std::uint32_t mask,
              std::uint32_t* to) noexcept {
  const std::size_t count = from.size() / bytes;
  switch (bytes) {
    case 1: return load_all<1, Big>(from.data(), count, mask, to);
    case 2: return load_all<2, Big>(from.data(), count, mask, to);
    case 3: return load_all<3, Big>(from.data(), count, mask, to);
    default: return load_all<4, Big>(from.data(), count, mask, to);
  }
}

/// Chooses the loop for the size of the samples, like `load_any`.
template <bool Big>
void store_any(const std::uint32_t* from, unsigned bytes, mutable_bytes to) noexcept {
  const std::size_t count = to.size() / bytes;
  switch (bytes) {
    case 1: return store_all<1, Big>(from, count, to.data());
    case 2: return store_all<2, Big>(from, count, to.data());
    case 3: return store_all<3, Big>(from, count, to.data());
    default: return store_all<4, Big>(from, count, to.data());
  }
}

}  // namespace

void load_samples(bytes_view from, const aec_parameters& p, std::uint32_t* to) noexcept {
  const std::uint32_t mask = ~std::uint32_t{0} >> (32 - p.bits);
  p.big_endian ? load_any<true>(from, p.sample_bytes, mask, to)
               : load_any<false>(from, p.sample_bytes, mask, to);
}

void store_samples(const std::uint32_t* from, const aec_parameters& p,
                   mutable_bytes to) noexcept {
  p.big_endian ? store_any<true>(from, p.sample_bytes, to)
               : store_any<false>(from, p.sample_bytes, to);
}

}  // namespace weir::formats
