// SPDX-License-Identifier: Apache-2.0
/// @file
/// SHA-256, for comparing with the digests of fixture manifests. @source{FIPS 180-4}
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include "weir/base/bytes.hpp"

namespace weir::test {

class sha256 {
 public:
  static std::string hex(bytes_view bytes) {
    sha256 state;
    for (std::size_t at = 0; at + 64 <= bytes.size(); at += 64) {
      state.block(bytes.data() + at);
    }
    const bytes_view rest = bytes.last(bytes.size() % 64);
    std::array<std::byte, 128> end{};
    std::copy(rest.begin(), rest.end(), end.begin());
    end[rest.size()] = std::byte{0x80};
    const std::size_t size = rest.size() < 56 ? 64 : 128;
    store_be<std::uint64_t>(end.data() + size - 8, std::uint64_t{bytes.size()} * 8);
    for (std::size_t at = 0; at < size; at += 64) {
      state.block(end.data() + at);
    }
    return state.text();
  }

 private:
  /// First 32 bits of the fraction of the root of the n-th prime: integer arithmetic
  /// only.
  static constexpr std::uint32_t root_fraction(std::uint32_t prime, int degree) {
    // Largest r with r^degree <= prime * 2^(32 * degree), less the whole part.
    std::uint64_t r = 0;
    for (int bit = 36; bit >= 0; --bit) {
      const std::uint64_t next = r | std::uint64_t{1} << bit;
      if (power_fits(next, degree, prime)) {
        r = next;
      }
    }
    return static_cast<std::uint32_t>(r);
  }
  /// Whether r^degree <= prime * 2^(32 * degree), in 32-bit limbs.
  static constexpr bool power_fits(std::uint64_t r, int degree, std::uint32_t prime) {
    std::array<std::uint64_t, 6> product{1, 0, 0, 0, 0, 0};
    for (int d = 0; d < degree; ++d) {
      std::array<std::uint64_t, 6> next{};
      for (int half = 0; half < 2; ++half) {
        const std::uint64_t factor = half == 0 ? r & 0xFFFF'FFFF : r >> 32;
        std::uint64_t carry = 0;
        for (int i = 0; i + half < 6; ++i) {
          auto& limb = next[static_cast<std::size_t>(i + half)];
          const std::uint64_t sum =
              limb + product[static_cast<std::size_t>(i)] * factor + carry;
          limb = sum & 0xFFFF'FFFF;
          carry = sum >> 32;
        }
      }
      product = next;
    }
    const auto top = static_cast<std::size_t>(degree);
    for (std::size_t i = 5; i > top; --i) {
      if (product[i] != 0) {
        return false;
      }
    }
    if (product[top] != prime) {
      return product[top] < prime;
    }
    for (std::size_t i = 0; i < top; ++i) {
      if (product[i] != 0) {
        return false;
      }
    }
    return true;
  }
  template <std::size_t N>
  static constexpr std::array<std::uint32_t, N> constants(int degree) {
    std::array<std::uint32_t, N> out{};
    std::size_t count = 0;
    for (std::uint32_t p = 2; count < N; ++p) {
      bool prime = true;
      for (std::uint32_t q = 2; q * q <= p; ++q) {
        prime = prime && p % q != 0;
      }
      if (prime) {
        out[count++] = root_fraction(p, degree);
      }
    }
    return out;
  }

  void block(const std::byte* from) {
    static const auto k = constants<64>(3);
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 16; ++i) {
      w[i] = load_be<std::uint32_t>(from + 4 * i);
    }
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t a = w[i - 15];
      const std::uint32_t b = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
    }
    auto s = h_;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t t1 =
          s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) +
          ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
      const std::uint32_t t2 =
          (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) +
          ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
    }
    for (std::size_t i = 0; i < 8; ++i) {
      h_[i] += s[i];
    }
  }
  std::string text() const {
    std::string out;
    for (const std::uint32_t word : h_) {
      for (int shift = 28; shift >= 0; shift -= 4) {
        out += "0123456789abcdef"[(word >> shift) & 15u];
      }
    }
    return out;
  }

  std::array<std::uint32_t, 8> h_ = constants<8>(2);
};

}  // namespace weir::test
