// SPDX-License-Identifier: Apache-2.0
/// @file
/// Views of streams verify each block once.
#include <gtest/gtest.h>

#include "support.hpp"

namespace weir::storage::test {
namespace {

/// A device whose bytes lie in one piece of memory and can be changed by the test.
class resident_device : public borrowed_device {
 public:
  resident_device(block_device& from, byte_vector& bytes)
      : borrowed_device(from), bytes_(bytes) {}
  result<void> read(std::uint64_t offset, mutable_bytes to) override {
    const auto from = bytes_.begin() + static_cast<std::ptrdiff_t>(offset);
    std::copy(from, from + static_cast<std::ptrdiff_t>(to.size()), to.begin());
    return {};
  }
  [[nodiscard]] bytes_view view(std::uint64_t offset,
                                std::size_t count) const noexcept override {
    return bytes_view(bytes_).subspan(static_cast<std::size_t>(offset), count);
  }

 private:
  byte_vector& bytes_;
};

TEST(Hn4Views, VerifyEachBlockOncePerStream) {
  const auto device = formatted_small();
  const byte_vector content = noise(1200, 4);
  {
    hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
    or_throw(volume.put("a", content, fixed_put()));
  }
  byte_vector bytes(static_cast<std::size_t>(device->size()));
  or_throw(device->read(0, bytes));
  const hn4_volume volume = or_throw(hn4_volume::open(
      std::make_unique<resident_device>(*device, bytes), device_mode::read_only));
  const hn4_stream stream = or_throw(volume.stream("a"));
  const std::uint64_t payload = stream.payload();
  const auto first = or_throw(stream.view(10, 100));
  ASSERT_EQ(first.bytes.size(), 100U);
  EXPECT_TRUE(std::equal(first.bytes.begin(), first.bytes.end(), content.begin() + 10));
  // The checksum of the first block is wrong from now on: whoever computes it finds that.
  const auto place = static_cast<std::size_t>(stream.extents()[0].device_offset);
  bytes[place + 48 + 200] ^= std::byte{1};
  bytes[place + stream.payload() + 48 + 48 + 9] ^= std::byte{1};
  EXPECT_EQ(or_throw(stream.view(120, 50)).bytes.size(), 50U);
  const hn4_stream copy = stream;
  EXPECT_EQ(or_throw(copy.view(0, 10)).bytes.size(), 10U);
  // The second block was damaged before its first view.
  EXPECT_TRUE(or_throw(stream.view(payload + 1, 5)).bytes.empty());
  EXPECT_TRUE(or_throw(stream.view(payload + 1, 5)).bytes.empty());
  byte_vector part(5);
  EXPECT_EQ(stream.read(payload + 1, part).error().code(), errc::corrupt);
  // Another stream has verified nothing yet.
  const hn4_stream other = or_throw(volume.stream("a"));
  EXPECT_TRUE(or_throw(other.view(120, 50)).bytes.empty());
  EXPECT_EQ(other.read(120, part).error().code(), errc::corrupt);
}

}  // namespace
}  // namespace weir::storage::test
