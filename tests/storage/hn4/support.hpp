// SPDX-License-Identifier: Apache-2.0
/// @file
/// Helpers for the tests of volumes: small volumes in memory, damage, SHA-256 and packed
/// images.
#pragma once

#include <gtest/gtest.h>
#include <zstd.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weir/base/file.hpp"
#include "weir/base/philox.hpp"
#include "weir/storage/hn4.hpp"
#include "weir/storage/hn4_check.hpp"

namespace weir::storage::test {

inline constexpr std::uint64_t small_capacity = std::uint64_t{128} << 20;

/// Returns how often a random test tries: the number in the environment variable, else
/// `usual`, and fewer in instrumented builds, which are many times slower.
inline std::uint64_t number_of_tries(const char* variable, std::uint64_t usual) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  usual = 1 + usual / 10;
#endif
#endif
  const char* asked = std::getenv(variable);
  return asked != nullptr ? std::strtoull(asked, nullptr, 10) : usual;
}

/// Returns reproducible bytes.
inline byte_vector noise(std::size_t count, std::uint64_t seed) {
  byte_vector bytes(count);
  const philox random(seed, 1);
  for (std::size_t i = 0; i < count; i += 8) {
    const std::uint64_t word = random.bits(i / 8);
    std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, count - i));
  }
  return bytes;
}

inline hn4_format_options fixed_format(std::uint32_t sector = 512) {
  hn4_format_options options;
  options.label = "test";
  options.sector = sector;
  options.uuid_seed = 7;
  options.time_ns = 1'700'000'000'000'000'000;
  return options;
}

inline hn4_put_options fixed_put(std::uint32_t shards = 0) {
  hn4_put_options options;
  options.shards = shards;
  options.time_ns = 1'700'000'001'000'000'000;
  return options;
}

inline std::unique_ptr<memory_device> formatted(std::uint32_t sector = 512) {
  auto device = std::make_unique<memory_device>(small_capacity, "vol.img");
  or_throw(hn4_format(*device, fixed_format(sector)));
  return device;
}

/// Makes a volume of the smallest size, so that copies and checks take little time.
inline std::unique_ptr<memory_device> formatted_small() {
  auto device = std::make_unique<memory_device>(std::uint64_t{2} << 20, "vol.img");
  hn4_format_options options = fixed_format();
  options.profile = hn4_profile::pico;
  or_throw(hn4_format(*device, options));
  return device;
}

/// Size of a sector. Devices write whole sectors, so crashes keep and damage destroys
/// whole ones.
inline constexpr std::uint64_t sector_bytes = 512;

/// Passes all calls on to a device that outlives it, so that the test can use that device
/// later.
class borrowed_device : public block_device {
 public:
  explicit borrowed_device(block_device& to) : to_(to) {}
  result<void> read(std::uint64_t offset, mutable_bytes to) override {
    return to_.read(offset, to);
  }
  result<void> write(std::uint64_t offset, bytes_view from) override {
    return to_.write(offset, from);
  }
  result<void> sync() override { return to_.sync(); }
  [[nodiscard]] std::uint64_t size() const noexcept override { return to_.size(); }
  result<extent> next_data(std::uint64_t offset, std::uint64_t end) override {
    return to_.next_data(offset, end);
  }
  [[nodiscard]] const std::string& name() const noexcept override { return to_.name(); }

 private:
  block_device& to_;
};

inline result<hn4_volume> open_on(block_device& device,
                                  device_mode mode = device_mode::read_only) {
  return hn4_volume::open(std::make_unique<borrowed_device>(device), mode);
}

inline hn4_check_report checked(block_device& device) {
  return or_throw(hn4_check(std::make_unique<borrowed_device>(device)));
}

/// Returns the findings of a check, one line each.
inline std::string all_of(const std::vector<hn4_finding>& list) {
  std::string text;
  for (const hn4_finding& f : list) {
    text += f.kind + " " + std::to_string(f.offset) + ": " + f.text + "\n";
  }
  return text;
}

/// Opens a volume and reads a tag completely.
inline result<byte_vector> read_tag(block_device& device, std::string_view tag,
                                    const hn4_stream_options& options = {}) {
  WEIR_TRY(const hn4_volume volume, open_on(device));
  WEIR_TRY(const hn4_stream stream, volume.stream(tag, options));
  return stream.read_all();
}

/// Changes one byte of a device until it is destroyed.
class flipped_byte {
 public:
  flipped_byte(block_device& device, std::uint64_t offset, unsigned mask)
      : device_(device), offset_(offset) {
    or_throw(device_.read(offset_, before_));
    const std::array<std::byte, 1> after{before_[0] ^ static_cast<std::byte>(mask)};
    or_throw(device_.write(offset_, after));
  }
  flipped_byte(const flipped_byte&) = delete;
  flipped_byte& operator=(const flipped_byte&) = delete;
  ~flipped_byte() { or_throw(device_.write(offset_, before_)); }

 private:
  block_device& device_;
  std::uint64_t offset_;
  std::array<std::byte, 1> before_{};
};

/// Returns the SHA-256 as 64 hexadecimal digits. @source{FIPS 180-4}
class sha256 {
 public:
  static std::string of(bytes_view bytes) {
    sha256 s;
    byte_vector tail(bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 64 * 64),
                     bytes.end());
    for (std::size_t i = 0; i + 64 <= bytes.size(); i += 64) {
      s.block(bytes.data() + i);
    }
    tail.push_back(std::byte{0x80});
    while (tail.size() % 64 != 56) {
      tail.push_back(std::byte{0});
    }
    tail.resize(tail.size() + 8);
    store_be(tail.data() + tail.size() - 8, std::uint64_t{bytes.size()} * 8);
    for (std::size_t i = 0; i < tail.size(); i += 64) {
      s.block(tail.data() + i);
    }
    std::string text;
    for (const std::uint32_t word : s.state_) {
      for (int shift = 28; shift >= 0; shift -= 4) {
        text += "0123456789abcdef"[word >> shift & 15U];
      }
    }
    return text;
  }

 private:
  void block(const std::byte* p) {
    static constexpr std::array<std::uint32_t, 64> k{
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
        0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
        0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
        0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
        0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
        0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
        0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
        0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
        0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 16; ++i) {
      w[i] = load_be<std::uint32_t>(p + 4 * i);
    }
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    auto s = state_;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t e = s[4], a = s[0];
      const std::uint32_t t1 = s[7] +
                               (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                               ((e & s[5]) ^ (~e & s[6])) + k[i] + w[i];
      const std::uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) +
                               ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
      s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
    }
    for (std::size_t i = 0; i < 8; ++i) {
      state_[i] += s[i];
    }
  }

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

/// Unpacks a zstd file and passes its content on piece by piece.
inline void unpack(const std::string& path, const std::function<void(bytes_view)>& sink) {
  const byte_vector packed = or_throw(read_file(posix_file_system(), path));
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(
      ZSTD_createDStream(), ZSTD_freeDStream);
  byte_vector out(memory_device::page_bytes);
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  for (bool more = true; more;) {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t code = ZSTD_decompressStream(stream.get(), &to, &in);
    ASSERT_FALSE(ZSTD_isError(code)) << path << ": " << ZSTD_getErrorName(code);
    sink(bytes_view(out).first(to.pos));
    more = in.pos < in.size || to.pos == to.size;
  }
}

inline bool all_zero(bytes_view bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} &&
          std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

/// Unpacks an image into a sparse device.
inline std::unique_ptr<memory_device> unpack_image(const std::string& path,
                                                   std::uint64_t size) {
  auto device = std::make_unique<memory_device>(size, path);
  std::uint64_t at = 0;
  unpack(path, [&](bytes_view piece) {
    if (!all_zero(piece)) {
      or_throw(device->write(at, piece));
    }
    at += piece.size();
  });
  EXPECT_EQ(at, size) << path;
  return device;
}

}  // namespace weir::storage::test
