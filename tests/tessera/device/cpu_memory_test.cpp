// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the memory of the processor's devices: exact bounds, the detection of writes out
/// of bounds, and the accounting against a capacity.
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "device/cpu/arena.hpp"
#include "device/cpu/sanitizers.hpp"

namespace weir::tessera {
namespace {

/// Returns the options of an arena with this capacity.
cpu_arena::options arena_options(std::size_t capacity, bool pinned = false,
                                 std::size_t shift = 0) {
  return {"device 4", capacity, pinned, shift, {}};
}

TEST(CpuArena, EveryByteAskedForIsUsable) {
  for (const bool pinned : {false, true}) {
    for (const std::size_t shift : {0UL, 512UL, 3584UL}) {
      cpu_arena arena(arena_options(std::size_t{64} << 20, pinned, shift));
      for (const std::size_t bytes :
           {1UL, 63UL, 64UL, 65UL, 255UL, 257UL, 4095UL, 65'535UL, 65'536UL, 70'001UL,
            (2UL << 20) - 300, (2UL << 20) - 1, 2UL << 20, (5UL << 20) + 13}) {
        std::byte* address = or_throw(arena.allocate(bytes));
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % cpu_arena::alignment, 0U);
        std::memset(address, 0x5A, bytes);
        EXPECT_TRUE(arena.free(address).has_value()) << bytes;
      }
    }
  }
}

#if defined(WEIR_ASAN)
TEST(CpuArena, NoByteBeyondTheEndIsUsable) {
  cpu_arena arena(arena_options(std::size_t{1} << 20));
  for (const std::size_t bytes : {1UL, 7UL, 8UL, 13UL, 100UL, 255UL, 256UL, 70'001UL}) {
    std::byte* address = or_throw(arena.allocate(bytes));
    EXPECT_TRUE(__asan_address_is_poisoned(address - 1));
    EXPECT_FALSE(__asan_address_is_poisoned(address));
    EXPECT_FALSE(__asan_address_is_poisoned(address + bytes - 1));
    EXPECT_TRUE(__asan_address_is_poisoned(address + bytes));
    EXPECT_TRUE(__asan_address_is_poisoned(address + (bytes + 255) / 256 * 256));
    EXPECT_TRUE(arena.free(address).has_value());
  }
}
#else
#if !defined(WEIR_TSAN)
TEST(CpuArena, WhatTheSystemDoesNotHaveIsRefusedToo) {
  cpu_arena arena(arena_options(std::size_t{1} << 62));
  auto refused = arena.allocate(std::size_t{1} << 60);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), errc::out_of_memory);
  EXPECT_EQ(arena.use().in_use, 0U);
  EXPECT_EQ(arena.use().refused, 1U);
}
#endif

// Writes before and behind allocations. Freeing must report the distance of the damage,
// and must free the memory all the same.
TEST(CpuArena, AWriteBeyondTheEndIsDetected) {
  cpu_arena arena(arena_options(std::size_t{8} << 20));
  for (const std::size_t bytes : {1UL, 13UL, 256UL, 70'001UL, 3UL << 20}) {
    for (const std::ptrdiff_t offset : {0, 1, 63}) {
      std::byte* address = or_throw(arena.allocate(bytes));
      address[static_cast<std::ptrdiff_t>(bytes) + offset] = std::byte{0};
      auto freed = arena.free(address);
      ASSERT_FALSE(freed.has_value()) << bytes << " + " << offset;
      EXPECT_EQ(freed.error().code(), errc::corrupt);
      EXPECT_NE(freed.error().text().find(std::to_string(offset + 1) +
                                          " bytes behind the last"),
                std::string::npos)
          << freed.error().text();

      address = or_throw(arena.allocate(bytes));
      address[-1 - offset] = std::byte{0};
      freed = arena.free(address);
      ASSERT_FALSE(freed.has_value()) << bytes << " - " << offset;
      EXPECT_NE(freed.error().text().find(std::to_string(offset + 1) +
                                          " bytes before the first"),
                std::string::npos)
          << freed.error().text();
    }
  }
  EXPECT_EQ(arena.use().in_use, 0U) << "damaged memory is given back as well";
}
#endif

// Allocates and frees in random order and compares all counters with a model after each
// step. The seed is fixed.
TEST(CpuArena, CountsAddUpWhateverTheOrder) {
  std::mt19937 random(77);
  constexpr std::size_t capacity = 200'000;
  cpu_arena arena(arena_options(capacity));
  std::vector<std::pair<std::byte*, std::size_t>> live;
  std::size_t in_use = 0;
  std::size_t peak = 0;
  std::uint64_t allocated = 0;
  std::uint64_t refused = 0;
  for (int step = 0; step < 5000; ++step) {
    if (random() % 5 < 3) {
      const std::size_t bytes = 1 + random() % 9000;
      const std::size_t charged = (bytes + 255) / 256 * 256;
      auto memory = arena.allocate(bytes);
      ASSERT_EQ(memory.has_value(), in_use + charged <= capacity) << "step " << step;
      if (memory) {
        std::memset(*memory, static_cast<int>(step), bytes);
        live.emplace_back(*memory, bytes);
        in_use += charged;
        ++allocated;
      } else {
        ++refused;
      }
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(arena.free(live.back().first).has_value());
      in_use -= (live.back().second + 255) / 256 * 256;
      live.pop_back();
    }
    peak = std::max(peak, in_use);
    const memory_use use = arena.use();
    ASSERT_EQ(use.in_use, in_use);
    ASSERT_EQ(use.peak, peak);
    ASSERT_EQ(use.live, live.size());
    ASSERT_EQ(use.allocated, allocated);
    ASSERT_EQ(use.refused, refused);
  }
  EXPECT_GT(refused, 0U);  // the arena's destructor frees the allocations still live
}

TEST(CpuArena, ARefusalSaysWhatIsLeft) {
  cpu_arena arena(arena_options(1024));
  (void)or_throw(arena.allocate(300));
  auto refused = arena.allocate(1000);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().text(),
            "allocate memory of device 4: expected 1000 bytes free, found 512 of 1024");
}

}  // namespace
}  // namespace weir::tessera
