// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory that a run shares with another process: parts do not overlap, and what comes
/// back is one region again.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "weir/pipeline/host/slot_memory.hpp"

namespace weir::test {
namespace {

alignas(64) std::array<std::byte, 4096> region_bytes;

TEST(SlotMemory, HandsOutPartsThatDoNotOverlap) {
  flow::slot_memory memory(region_bytes.data(), region_bytes.size(), nullptr);
  struct part {
    std::byte* begin;
    std::size_t size;
    std::byte content;
  };
  std::vector<part> parts;
  std::mt19937_64 random(5);
  std::size_t refused = 0;
  for (int step = 0; step < 5000; ++step) {
    if (random() % 2 == 0) {
      const std::size_t size = random() % 700;
      std::byte* const begin = memory.allocate(size);
      if (begin == nullptr) {
        ++refused;
        continue;
      }
      ASSERT_TRUE(memory.holds(begin, size));
      ASSERT_EQ((begin - region_bytes.data()) % 64, 0);
      parts.push_back({begin, size, static_cast<std::byte>(step)});
      std::memset(begin, step, size);
    } else if (!parts.empty()) {
      std::swap(parts[random() % parts.size()], parts.back());
      const part one = parts.back();
      parts.pop_back();
      for (std::size_t i = 0; i < one.size; ++i) {
        ASSERT_EQ(one.begin[i], one.content);
      }
      memory.free(one.begin);
    }
  }
  EXPECT_GT(refused, 0U);
  for (const part& one : parts) {
    memory.free(one.begin);
  }
  EXPECT_EQ(memory.allocate(region_bytes.size()), region_bytes.data());
  EXPECT_EQ(memory.allocate(1), nullptr);
}

TEST(SlotMemory, KnowsWhatLiesInIt) {
  std::byte* const base = region_bytes.data();
  const flow::slot_memory memory(base + 64, 128, nullptr);
  EXPECT_TRUE(memory.holds(base + 64, 128));
  EXPECT_TRUE(memory.holds(base + 191, 1));
  EXPECT_FALSE(memory.holds(base + 191, 2));
  EXPECT_FALSE(memory.holds(base + 63, 1));
  EXPECT_FALSE(memory.holds(base + 64, 129));
}

}  // namespace
}  // namespace weir::test
