// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests copies of rows and copies from host to host.
#include <chrono>
#include <random>
#include <thread>

#include "support.hpp"

namespace weir::test {
namespace {

/// Returns bytes that count up from `first`.
std::vector<uint8_t> counted(std::size_t bytes, uint8_t first) {
  std::vector<uint8_t> out(bytes);
  std::iota(out.begin(), out.end(), first);
  return out;
}

/// Copies rows one by one; the reference for copies of rows.
void copy_rows(uint8_t* to, std::size_t to_pitch, const uint8_t* from,
               std::size_t from_pitch, std::size_t width, std::size_t height) {
  for (std::size_t row = 0; row < height; ++row) {
    std::copy_n(from + row * from_pitch, width, to + row * to_pitch);
  }
}

TEST(TesseraCopy, OfRowsLeavesWhatIsBetweenThem) {
  std::mt19937 random(7);
  session s(3);
  auto* const x = s.memory<uint8_t>(256);
  auto* const y = s.memory<uint8_t>(256);
  for (int i = 0; i < 60; ++i) {
    const auto pick = [&](std::size_t max) { return 1 + random() % max; };
    const std::size_t width = pick(12);
    const std::size_t height = pick(8);
    const std::size_t to_pitch = width + random() % 12;
    const std::size_t from_pitch = width + random() % 12;
    const std::vector<uint8_t> given = counted(256, static_cast<uint8_t>(i));
    std::vector<uint8_t> expected(256);
    std::vector<uint8_t> back(256);
    copy_rows(expected.data() + 3, to_pitch, given.data() + 5, from_pitch, width, height);
    ASSERT_TESS(tessMemsetAsync(x, 0, 256, s.stream));
    ASSERT_TESS(tessMemsetAsync(y, 0, 256, s.stream));
    ASSERT_TESS(tessMemcpy2DAsync(x + 3, to_pitch, given.data() + 5, from_pitch, width,
                                  height, TESS_COPY_H2D, s.stream));
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_EQ(s.read(x, 256, rank), expected) << i << " on rank " << rank;
    }
    ASSERT_TESS(tessMemcpy2DAsync(y + 3, to_pitch, x + 3, to_pitch, width, height,
                                  TESS_COPY_D2D, s.stream));
    ASSERT_EQ(s.read(y, 256, 2), expected) << i;
    ASSERT_TESS(tessMemcpy2DAsync(back.data() + 5, from_pitch, y + 3, to_pitch, width,
                                  height, TESS_COPY_D2H, s.stream));
    ASSERT_TESS(tessStreamSynchronize(s.stream));
    std::vector<uint8_t> there(256);
    copy_rows(there.data() + 5, from_pitch, given.data() + 5, from_pitch, width, height);
    ASSERT_EQ(back, there) << i;
  }
}

TEST(TesseraCopy, OfRowsWithinAnAllocationMayLieBetweenEachOther) {
  session s(2);
  const std::vector<uint8_t> given = counted(64, 1);
  auto* const x = s.memory<uint8_t>(64);
  ASSERT_TESS(tessMemcpyAsync(x, given.data(), 64, TESS_COPY_H2D, s.stream));
  // Copies the left half of each row to its right half. Rows of source and target
  // alternate in memory but do not overlap.
  ASSERT_TESS(tessMemcpy2DAsync(x + 8, 16, x, 16, 8, 4, TESS_COPY_D2D, s.stream));
  std::vector<uint8_t> expected = given;
  copy_rows(expected.data() + 8, 16, given.data(), 16, 8, 4);
  EXPECT_EQ(s.read(x, 64, 1), expected);
  const auto refused = [&](uint8_t* to, std::size_t to_pitch, const uint8_t* from,
                           std::size_t from_pitch, std::size_t width,
                           std::size_t height) {
    return tessMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, TESS_COPY_D2D,
                             s.stream);
  };
  EXPECT_EQ(refused(x + 7, 16, x, 16, 8, 4), TESS_ERR_INVALID_VALUE)
      << "ranges that overlap are refused";
  EXPECT_EQ(refused(x, 16, x, 17, 8, 3), TESS_ERR_INVALID_VALUE)
      << "ranges that overlap are refused";
  EXPECT_EQ(refused(x + 8, 7, x, 16, 8, 2), TESS_ERR_INVALID_VALUE)
      << "rows that overlap are refused";
  EXPECT_EQ(refused(x + 8, 16, x, 16, 9, 4), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(refused(x + 8, 16, x, 16, 8, 5), TESS_ERR_INVALID_VALUE)
      << "rows beyond the end of the allocation are refused";
  EXPECT_EQ(refused(x + 8, SIZE_MAX / 2, x, 16, 8, 5), TESS_ERR_INVALID_VALUE);
  EXPECT_TESS(refused(x, 16, x, 16, 8, 4));  // copying rows onto themselves is allowed
  EXPECT_TESS(refused(x, 16, x, 16, 0, 4));
  EXPECT_TESS(refused(x, 16, x, 16, 4, 0));
  EXPECT_EQ(s.read(x, 64, 0), expected) << "a refused copy must change nothing";
}

TEST(TesseraCopy, ByADescriptionIsThatOfTheCalls) {
  session s(3);
  const std::vector<uint8_t> given = counted(32, 1);
  auto* const x = s.memory<uint8_t>(32);
  tessCopyDesc d{};
  d.structSize = sizeof d;
  d.kind = TESS_COPY_H2D;
  d.dst = x;
  d.src = given.data();
  d.width = 4;
  d.rank = 1;
  ASSERT_TESS(tessCopyAsync(&d, s.stream));
  EXPECT_EQ(s.read(x, 4, 1), (std::vector<uint8_t>{1, 2, 3, 4}));
  EXPECT_EQ(s.read(x, 4, 0), (std::vector<uint8_t>{0, 0, 0, 0}));
  d.rank = -1;
  d.height = 2;
  d.dstPitch = 8;
  d.srcPitch = 16;
  ASSERT_TESS(tessCopyAsync(&d, s.stream));
  EXPECT_EQ(s.read(x, 12, 2),
            (std::vector<uint8_t>{1, 2, 3, 4, 0, 0, 0, 0, 17, 18, 19, 20}));
  for (const int rank : {-2, 3}) {
    d.rank = rank;
    EXPECT_EQ(tessCopyAsync(&d, s.stream), TESS_ERR_INVALID_VALUE);
  }
  d.rank = -1;
  d.kind = 4;
  EXPECT_EQ(tessCopyAsync(&d, s.stream), TESS_ERR_INVALID_VALUE);
  d.kind = TESS_COPY_H2D;
  d.reserved = 1;
  EXPECT_EQ(tessCopyAsync(&d, s.stream), TESS_ERR_INVALID_VALUE);
}

constexpr auto host_to_host = static_cast<tessCopyKind>(TESS_COPY_H2H);

TEST(TesseraCopy, FromHostToHostIsInTheOrderOfItsStream) {
  session s(4);
  auto* const x = s.memory<uint8_t>(16);
  std::vector<uint8_t> a(16);
  std::vector<uint8_t> b(16);
  std::vector<uint8_t> c(16);
  for (uint8_t round = 1; round < 20; ++round) {
    ASSERT_TESS(tessMemsetAsync(x, round, 16, s.stream));
    ASSERT_TESS(tessMemcpyRankAsync(a.data(), x, 16, TESS_COPY_D2H, 3, s.stream));
    ASSERT_TESS(tessMemcpyAsync(b.data(), a.data(), 16, host_to_host, s.stream));
    ASSERT_TESS(tessMemcpyRankAsync(x, b.data(), 8, TESS_COPY_H2D, 2, s.stream));
    ASSERT_TESS(
        tessMemcpy2DAsync(c.data(), 8, b.data(), 4, 4, 2, host_to_host, s.stream));
    ASSERT_TESS(tessMemcpyAsync(a.data(), c.data(), 8, host_to_host, s.stream));
  }
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_EQ(b, std::vector<uint8_t>(16, 19));
  EXPECT_EQ(
      c, (std::vector<uint8_t>{19, 19, 19, 19, 0, 0, 0, 0, 19, 19, 19, 19, 0, 0, 0, 0}));
  EXPECT_EQ(tessMemcpyAsync(x, a.data(), 8, host_to_host, s.stream),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessMemcpyAsync(a.data(), x, 8, host_to_host, s.stream),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessMemcpyAsync(a.data(), a.data() + 4, 8, host_to_host, s.stream),
            TESS_ERR_INVALID_VALUE);
}

TEST(TesseraStream, ReportsItsProperties) {
  int least = 5;
  int greatest = 5;
  ASSERT_TESS(tessStreamGetPriorityRange(&least, &greatest));
  EXPECT_LT(greatest, least) << "a lower number is a more urgent priority";
  EXPECT_TESS(tessStreamGetPriorityRange(nullptr, nullptr));
  session s(4);
  const auto info_of = [](tessStream_t stream) {
    tessStreamInfo out{};
    out.structSize = sizeof out;
    EXPECT_TESS(tessStreamGetInfo(stream, &out));
    return out;
  };
  const tessStreamInfo own = info_of(s.stream);
  EXPECT_EQ(own.priority, least);
  EXPECT_EQ(own.rank, -1);
  EXPECT_EQ(own.nLanes, 4);
  EXPECT_EQ(own.capturing, 0);
  const tessStreamDesc desc{sizeof desc, -100, 2, 0, 0, -1};
  tessStream_t bound = nullptr;
  ASSERT_TESS(tessStreamCreateEx(s.mesh, &desc, &bound));
  ASSERT_TESS(tessStreamBeginCapture(bound));
  const tessStreamInfo other = info_of(bound);
  EXPECT_EQ(other.priority, greatest);
  EXPECT_EQ(other.rank, 2);
  EXPECT_EQ(other.nLanes, 1);
  EXPECT_EQ(other.capturing, 1);
  EXPECT_NE(other.id, own.id);
}

}  // namespace
}  // namespace weir::test
