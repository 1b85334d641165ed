// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests CRC-32 in all its forms and XXH3-64 against published values and against each
/// other.
#include "weir/base/hash.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "weir/base/copy_crc32.hpp"

using namespace weir;

TEST(Crc32, EqualsThePublishedCheckValue) {
  EXPECT_EQ(crc32(0, as_view("123456789")), 0xCBF43926U);
  EXPECT_EQ(crc32_portable(0, as_view("123456789")), 0xCBF43926U);
}

// Lengths up to 700 bytes reach every form of the code: tables, one SIMD accumulator,
// four of them, and registers of 512 bits. The tables are the oracle.
TEST(Crc32, FoldedFormEqualsTheTablesForEveryLengthAndAlignment) {
  std::mt19937 random(7);
  byte_vector data(5000);
  for (auto& b : data) {
    b = static_cast<std::byte>(random());
  }
  for (std::size_t start = 0; start < 17; ++start) {
    for (std::size_t n = 0; n < 700; ++n) {
      const bytes_view part = bytes_view(data).subspan(start, n);
      ASSERT_EQ(crc32(0x1234567, part), crc32_portable(0x1234567, part))
          << start << " " << n;
    }
  }
  EXPECT_EQ(crc32(0, data), crc32_portable(0, data));
}

TEST(Crc32, CopyingGivesTheSameValueAndTheSameBytesAndNoMore) {
  std::mt19937 random(8);
  byte_vector data(1000);
  for (auto& b : data) {
    b = static_cast<std::byte>(random());
  }
  for (std::size_t start = 0; start < 17; ++start) {
    for (std::size_t n = 0; n < 700; ++n) {
      const bytes_view part = bytes_view(data).subspan(start, n);
      byte_vector to(n + 2, std::byte{0x5A});  // one guard byte at each end
      ASSERT_EQ(copy_crc32(0x1234567, part, to.data() + 1),
                crc32_portable(0x1234567, part));
      byte_vector expected(n + 2, std::byte{0x5A});
      std::copy(part.begin(), part.end(), expected.begin() + 1);
      ASSERT_EQ(to, expected) << start << " " << n;
    }
  }
}

TEST(Crc32, ContinuesFromAnEarlierPart) {
  byte_vector data(1000, std::byte{0x5A});
  const bytes_view all(data);
  EXPECT_EQ(crc32(crc32(0, all.first(333)), all.subspan(333)), crc32(0, all));
}

TEST(Xxh3, StreamEqualsTheWholeForEverySplit) {
  byte_vector data(600);
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>(i * 31);
  }
  for (std::size_t cut = 0; cut <= data.size(); ++cut) {
    xxh3_stream stream;
    stream.update(bytes_view(data).first(cut));
    stream.update(bytes_view(data).subspan(cut));
    ASSERT_EQ(stream.digest(), xxh3_64(data));
  }
}

TEST(Xxh3, EmptyInputHasThePublishedDigest) {
  EXPECT_EQ(xxh3_64({}), 0x2D06800538D394C2U);  // XXH3_64bits("", 0)
}
