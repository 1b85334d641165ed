// SPDX-License-Identifier: Apache-2.0
/// @file
/// Run lengths of bits, and functions on bit lists.
///
/// The code is one byte with the first bit (0 or 1), then the length of each run in
/// LEB128, where runs of zeros and ones alternate. An empty list has an empty code.
#include <algorithm>

#include "tensogram/codec/bits/bits.hpp"

namespace weir::formats {

/// Compares whole bytes where the run covers one, and single bits at its ends.
std::uint64_t run_end(bytes_view bits, std::uint64_t from, std::uint64_t count) noexcept {
  // An empty list has no first bit.
  if (from >= count) {
    return count;
  }
  // `whole` is a byte of eight equal bits.
  const bool value = bit_at(bits, from);
  const std::byte whole = value ? std::byte{0xFF} : std::byte{0};
  std::uint64_t bit = from;
  while (bit < count) {
    // A whole byte at a time where the run covers one.
    if (bit % 8 == 0 && bits[bit / 8] == whole) {
      bit += 8;
    } else if (bit_at(bits, bit) == value) {
      ++bit;
    } else {
      break;
    }
  }
  // The last byte may have unused bits, which can prolong a run.
  return std::min(bit, count);
}

/// Sets single bits up to a byte boundary, then whole bytes, then the remaining bits.
void set_bits(mutable_bytes bits, std::uint64_t first, std::uint64_t last) noexcept {
  // Afterwards `first` is at a byte boundary, or the range is done.
  while (first < last && first % 8 != 0) {
    set_bit(bits, first++);
  }
  const std::uint64_t whole = (last - first) / 8;
  std::fill_n(bits.begin() + static_cast<std::ptrdiff_t>(first / 8), whole,
              std::byte{0xFF});
  for (first += whole * 8; first < last; ++first) {
    set_bit(bits, first);
  }
}

/// The first byte is the first bit; runs then alternate, so no run has length zero.
byte_vector rle_encode(bytes_view bits, std::uint64_t count) {
  byte_vector out;
  if (count == 0) {
    return out;
  }
  out.push_back(bit_at(bits, 0) ? std::byte{1} : std::byte{0});
  for (std::uint64_t first = 0; first < count;) {
    const std::uint64_t end = run_end(bits, first, count);
    std::uint64_t run = end - first;
    // Seven bits in each byte, the lowest first. The highest bit says that more follow.
    for (; run >= 0x80; run >>= 7) {
      out.push_back(static_cast<std::byte>(0x80 | (run & 0x7F)));
    }
    out.push_back(static_cast<std::byte>(run));
    first = end;
  }
  return out;
}

/// A length has at most nine bytes of LEB128, so the shift cannot overflow. Each run is
/// compared with the bits that are left before it is written.
result<void> rle_decode(bytes_view from, std::uint64_t count, const decode_target& to) {
  // Every kind of damage has the same text: a wrong run cannot be told from a wrong
  // total.
  const auto damaged = [] {
    return error(errc::corrupt,
                 "cannot decode runs of bits: expected runs that fill the bit list "
                 "exactly, found others");
  };
  // Without memory there are no bits, and only the runs are checked.
  const mutable_bytes bits = to.bytes();
  std::fill(bits.begin(), bits.end(), std::byte{});
  if (from.empty() || count == 0) {
    return from.empty() && count == 0 ? result<void>() : result<void>(damaged());
  }
  bool value = from[0] == std::byte{1};
  // Any other first byte is no code.
  if (!value && from[0] != std::byte{}) {
    return damaged();
  }
  // The runs must fill the list exactly; an incomplete last length is damage too.
  std::uint64_t done = 0;
  std::size_t offset = 1;
  while (offset < from.size()) {
    std::uint64_t run = 0;
    unsigned shift = 0;
    bool more = true;
    while (more) {
      if (offset == from.size() || shift > 56) {
        return damaged();
      }
      const auto byte = std::to_integer<std::uint64_t>(from[offset++]);
      run |= (byte & 0x7F) << shift;
      shift += 7;
      more = (byte & 0x80) != 0;
    }
    if (run == 0 || run > count - done) {
      return damaged();
    }
    // Runs of zeros need nothing, as the list was cleared.
    if (value && to.has_memory()) {
      set_bits(bits, done, done + run);
    }
    done += run;
    // Runs alternate, so their values need not be stored.
    value = !value;
  }
  return done == count ? result<void>() : result<void>(damaged());
}

}  // namespace weir::formats
