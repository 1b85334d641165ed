// SPDX-License-Identifier: Apache-2.0
/// @file
/// Helpers for the tests of volumes: small volumes in memory, damage and packed images.
#pragma once

#include <gtest/gtest.h>
#include <zstd.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/case_count.hpp"
#include "weir/base/file.hpp"
#include "weir/base/philox.hpp"
#include "weir/base/system/sanitizers.hpp"
#include "weir/storage/hn4.hpp"
#include "weir/storage/hn4_check.hpp"

namespace weir::storage::test {

using weir::test::number_or;

inline constexpr std::uint64_t small_capacity = std::uint64_t{128} << 20;

/// Returns how often a random test tries: the number in the environment variable, else
/// `usual`, and fewer in instrumented builds, which are many times slower.
inline std::uint64_t number_of_tries(const char* variable, std::uint64_t usual) {
  return number_or(variable, sanitized ? 1 + usual / 10 : usual);
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

/// Returns options with a fixed time and identity, so that equal calls give equal bytes.
inline hn4_format_options fixed_format(std::uint32_t sector = 512) {
  hn4_format_options options;
  options.label = "test";
  options.sector = sector;
  options.uuid_seed = 7;
  options.time_ns = 1'700'000'000'000'000'000;
  return options;
}

/// Returns options with a fixed time.
inline hn4_put_options fixed_put(std::uint32_t shards = 0) {
  hn4_put_options options;
  options.shards = shards;
  options.time_ns = 1'700'000'001'000'000'000;
  return options;
}

/// Makes an empty volume in memory.
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

/// Opens a volume on a device that the test keeps.
inline result<hn4_volume> open_on(block_device& device,
                                  device_mode mode = device_mode::read_only) {
  return hn4_volume::open(std::make_unique<borrowed_device>(device), mode);
}

/// Checks a volume, which must be readable enough for a check.
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

/// Replaces bytes of a device until it is destroyed.
class overlaid_bytes {
 public:
  overlaid_bytes(block_device& device, std::uint64_t offset, bytes_view bytes)
      : device_(device), offset_(offset), before_(bytes.size()) {
    or_throw(device_.read(offset_, before_));
    or_throw(device_.write(offset_, bytes));
  }
  overlaid_bytes(const overlaid_bytes&) = delete;
  overlaid_bytes& operator=(const overlaid_bytes&) = delete;
  ~overlaid_bytes() { or_throw(device_.write(offset_, before_)); }

 private:
  block_device& device_;
  std::uint64_t offset_;
  byte_vector before_;
};

/// Changes one byte of a device until it is destroyed.
class flipped_byte {
 public:
  flipped_byte(block_device& device, std::uint64_t offset, unsigned mask)
      : changed_(device, offset, flipped(device, offset, mask)) {}

 private:
  /// Returns the byte with the bits of the mask inverted.
  static std::array<std::byte, 1> flipped(block_device& device, std::uint64_t offset,
                                          unsigned mask) {
    std::array<std::byte, 1> out{};
    or_throw(device.read(offset, out));
    out[0] ^= static_cast<std::byte>(mask);
    return out;
  }

  overlaid_bytes changed_;
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

/// Returns whether all bytes are zero.
inline bool all_zero(bytes_view bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} &&
          std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

/// Unpacks an image into a sparse device.
inline std::unique_ptr<memory_device> unpack_image(const std::string& path,
                                                   std::uint64_t size) {
  auto device = std::make_unique<memory_device>(size, path);
  std::uint64_t offset = 0;
  unpack(path, [&](bytes_view piece) {
    if (!all_zero(piece)) {
      or_throw(device->write(offset, piece));
    }
    offset += piece.size();
  });
  EXPECT_EQ(offset, size) << path;
  return device;
}

}  // namespace weir::storage::test
