// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the ring of fresh memory against a list of the bytes in use.
#include "scopes/heap_ring.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "random_views.hpp"

namespace weir::runtime {
namespace {

constexpr std::uint64_t ring_unit = heap_ring::alignment;

/// The units of a ring that are in use, computed by brute force.
struct unit_map {
  explicit unit_map(const heap_ring& ring) : used(ring.capacity() / ring_unit) {
    for (const heap_ring::block& b : ring.blocks()) {
      mark((b.begin % ring.capacity()) / ring_unit, (b.end - b.begin) / ring_unit);
    }
  }
  void mark(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = first; i < first + count; ++i) {
      ASSERT_LT(i, used.size()) << "a block reaches beyond the end of the ring";
      ASSERT_FALSE(used[i]) << "two blocks share unit " << i;
      used[i] = true;
    }
  }
  std::vector<bool> used;
};

TEST(HeapRing, GivesNoByteTwice) {  // T10, T13
  test::dice d(20260201);
  for (int round = 0; round < 200; ++round) {
    heap_ring ring(static_cast<std::uint64_t>(d.in(1, 40)) * ring_unit);
    for (std::uint32_t i = 1; i < 300; ++i) {
      const std::uint64_t bytes =
          static_cast<std::uint64_t>(
              d.in(1, static_cast<std::int64_t>(ring.capacity() / ring_unit))) *
          ring_unit;
      const std::size_t in_the_way = ring.in_the_way(bytes);
      ASSERT_LE(in_the_way, ring.blocks().size());
      for (std::size_t k = 0; k < in_the_way; ++k) {
        ASSERT_NE(ring.in_the_way(bytes), 0U)
            << "the ring counted more blocks than must go";
        ring.pop();
      }
      ASSERT_EQ(ring.in_the_way(bytes), 0U);
      const std::uint64_t place = ring.next(bytes);
      ring.add(bytes, {i, 1});
      ASSERT_EQ(ring.blocks().back().begin % ring.capacity(), place);
      unit_map all(ring);
      while (!ring.blocks().empty() && d.one_in(3)) {
        ring.pop();
      }
    }
  }
}

TEST(HeapRing, CountsOnlyTheBlocksThatAreInTheWay) {  // T11
  heap_ring ring(10 * ring_unit);
  ring.add(4 * ring_unit, {1, 1});
  ring.add(4 * ring_unit, {2, 1});
  EXPECT_EQ(ring.in_the_way(2 * ring_unit), 0U);
  EXPECT_EQ(ring.in_the_way(3 * ring_unit), 1U);  // continues at the start
  EXPECT_EQ(ring.in_the_way(5 * ring_unit), 2U);
  ring.pop();
  EXPECT_EQ(ring.next(3 * ring_unit), 0U);
  ring.pop();
  EXPECT_EQ(ring.in_the_way(10 * ring_unit), 0U);  // empty, so all memory is one piece
  EXPECT_EQ(ring.next(10 * ring_unit), 0U);
}

TEST(HeapRing, ReportsTheCapacityThatWouldHaveSufficed) {
  test::dice d(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint64_t> sizes;
    heap_ring small(static_cast<std::uint64_t>(d.in(4, 20)) * ring_unit);
    std::uint64_t next = 0;
    do {
      next = static_cast<std::uint64_t>(
                 d.in(1, static_cast<std::int64_t>(small.capacity() / ring_unit))) *
             ring_unit;
      sizes.push_back(next);
      if (small.in_the_way(next) != 0) {
        break;
      }
      small.add(next, {static_cast<std::uint32_t>(sizes.size()), 1});
    } while (true);
    heap_ring enough(small.enough(0, next));
    for (const std::uint64_t bytes : sizes) {
      ASSERT_EQ(enough.in_the_way(bytes), 0U);
      enough.add(bytes, {1, 1});
    }
  }
}

}  // namespace
}  // namespace weir::runtime
