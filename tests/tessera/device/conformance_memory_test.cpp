// SPDX-License-Identifier: Apache-2.0
/// @file
/// Conformance of backends: devices, memory, copies and fills.
#include <algorithm>
#include <limits>
#include <numeric>
#include <thread>

#include "conformance.hpp"

namespace weir::tessera::conformance {

TEST_P(Backend, EveryDeviceSaysWhatItIs) {
  ASSERT_EQ(backend().device_count(), tested().devices());
  for (std::int32_t d = 0; d < tested().devices(); ++d) {
    auto p = backend().properties(d);
    ASSERT_TRUE(p.has_value());
    EXPECT_EQ(p->ordinal, d);
    EXPECT_EQ(p->backend, backend().name());
    EXPECT_FALSE(p->name.empty());
    EXPECT_FALSE(p->arch.empty());
    EXPECT_EQ(p->memory, memory_bytes);
    EXPECT_GE(p->alignment, 256U);
    EXPECT_GE(p->limits.threads, 128);
  }
}

TEST_P(Backend, ThereAreNoOtherDevices) {
  for (const std::int32_t d :
       {-1, tested().devices(), std::numeric_limits<std::int32_t>::max()}) {
    EXPECT_EQ(code_of(backend().properties(d)), code_of(errc::out_of_range));
    EXPECT_EQ(code_of(backend().allocate(d, 1)), code_of(errc::out_of_range));
    EXPECT_EQ(code_of(backend().free(d, nullptr)), code_of(errc::out_of_range));
    EXPECT_EQ(backend().memory(d).capacity, 0U);
    grid_launch launch;
    launch.code = tested().kernel("write_indices");
    launch.device = d;
    EXPECT_EQ(code_of(backend().check(launch, false)), code_of(errc::out_of_range));
  }
}

TEST_P(Backend, AllocationsAreAlignedAndDisjoint) {
  const std::size_t alignment = backend().properties(second())->alignment;
  std::vector<std::pair<std::byte*, std::size_t>> made;
  for (const std::size_t bytes :
       {1UL, 7UL, 255UL, 256UL, 257UL, 4096UL, 65'537UL, 300'000UL}) {
    made.emplace_back(allocate(second(), bytes), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.back().first) % alignment, 0U);
  }
  std::sort(made.begin(), made.end());
  for (std::size_t i = 1; i < made.size(); ++i) {
    EXPECT_LE(made[i - 1].first + made[i - 1].second, made[i].first);
  }
  EXPECT_EQ(backend().memory(second()).live, made.size());
  EXPECT_EQ(backend().memory(0).live, second() == 0 ? made.size() : 0U);
  for (const auto& [address, bytes] : made) {
    free(second(), address);
  }
  EXPECT_EQ(backend().memory(second()).in_use, 0U);
}

TEST_P(Backend, NoBytesAreANullPointer) {
  EXPECT_EQ(allocate(0, 0), nullptr);
  free(0, nullptr);
  EXPECT_EQ(backend().memory(0).allocated, 0U);
}

TEST_P(Backend, MemoryEndsAtTheCapacity) {
  std::byte* half = allocate(0, memory_bytes / 2);
  for (const std::size_t bytes :
       {memory_bytes / 2 + 1, memory_bytes, std::numeric_limits<std::size_t>::max() - 300,
        std::numeric_limits<std::size_t>::max() - 1,
        std::numeric_limits<std::size_t>::max()}) {
    EXPECT_EQ(code_of(backend().allocate(0, bytes)), code_of(errc::out_of_memory))
        << bytes;
  }
  std::byte* other_half = allocate(0, memory_bytes / 2);
  EXPECT_EQ(code_of(backend().allocate(0, 1)), code_of(errc::out_of_memory));
  // Each device has its own capacity.
  std::byte* elsewhere = second() == 0 ? nullptr : allocate(second(), memory_bytes);
  const memory_use use = backend().memory(0);
  EXPECT_EQ(use.capacity, memory_bytes);
  EXPECT_EQ(use.in_use, memory_bytes);
  EXPECT_EQ(use.refused, 6U);
  free(0, half);
  free(0, other_half);
  free(second(), elsewhere);
  EXPECT_EQ(backend().memory(0).in_use, 0U);
  EXPECT_EQ(backend().memory(0).peak, memory_bytes);
  EXPECT_EQ(backend().memory(0).allocated, 2U);
}

TEST_P(Backend, OnlyStartsOfLiveAllocationsAreFreed) {
  std::byte* address = allocate(0, 1000);
  EXPECT_EQ(code_of(backend().free(0, address + 1)), code_of(errc::invalid_argument));
  EXPECT_EQ(code_of(backend().free(0, address + 256)), code_of(errc::invalid_argument));
  if (second() != 0) {
    EXPECT_EQ(code_of(backend().free(second(), address)),
              code_of(errc::invalid_argument));
  }
  EXPECT_EQ(code_of(backend().free_host(address)), code_of(errc::invalid_argument));
  free(0, address);
  EXPECT_EQ(code_of(backend().free(0, address)), code_of(errc::invalid_argument));
}

TEST_P(Backend, HostMemoryCanBeUsedAtOnce) {
  auto memory = backend().allocate_host(100'001);
  ASSERT_TRUE(memory.has_value());
  std::memset(*memory, 5, 100'001);
  EXPECT_EQ((*memory)[100'000], std::byte{5});
  EXPECT_EQ(code_of(backend().free(0, *memory)), code_of(errc::invalid_argument));
  EXPECT_EQ(code_of(backend().free_host(*memory + 64)), code_of(errc::invalid_argument));
  EXPECT_EQ(code_of(backend().free_host(*memory)), 0);
  EXPECT_EQ(code_of(backend().free_host(*memory)), code_of(errc::invalid_argument));
  EXPECT_EQ(code_of(backend().allocate_host(std::numeric_limits<std::size_t>::max())),
            code_of(errc::out_of_memory));
  std::vector<std::byte> own(5000);
  EXPECT_EQ(code_of(backend().pin_host(own.data(), own.size())), 0);
  backend().unpin_host(own.data(), own.size());
}

TEST_P(Backend, CopiesGoThroughDevicesUnchanged) {
  for (const std::size_t count : {1UL, 2UL, 13UL, 4096UL, 100'003UL}) {
    std::vector<std::uint8_t> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<std::uint8_t>(i * 37 + count);
    }
    auto* a = reinterpret_cast<std::uint8_t*>(allocate(0, count));
    auto* b = reinterpret_cast<std::uint8_t*>(allocate(third(), count + 3));
    put(0, a, values);
    const copy_work across{copy_kind::device_to_device,
                           reinterpret_cast<std::byte*>(b + 3),
                           reinterpret_cast<std::byte*>(a),
                           count,
                           third(),
                           0};
    EXPECT_EQ(code_of(perform(across)), 0);
    EXPECT_EQ(get(third(), b + 3, count), values);
    free(0, reinterpret_cast<std::byte*>(a));
    free(third(), reinterpret_cast<std::byte*>(b));
  }
}

TEST_P(Backend, CopiesThatOverlapAreRefused) {
  const std::vector<std::int32_t> values{1, 2, 3, 4, 5, 6, 7, 8};
  auto* address = reinterpret_cast<std::int32_t*>(allocate(0, 32));
  put(0, address, values);
  const auto copy = [&](std::size_t to, std::size_t from, std::size_t bytes) {
    auto* base = reinterpret_cast<std::byte*>(address);
    return code_of(
        perform(copy_work{copy_kind::device_to_device, base + to, base + from, bytes}));
  };
  EXPECT_EQ(copy(4, 0, 5), code_of(errc::invalid_argument));
  EXPECT_EQ(copy(0, 4, 5), code_of(errc::invalid_argument));
  EXPECT_EQ(get(0, address, 8), values);
  EXPECT_EQ(copy(0, 0, 32), 0);  // copying a range onto itself is allowed
  EXPECT_EQ(copy(1, 0, 0), 0);
  EXPECT_EQ(copy(16, 0, 16), 0);
  EXPECT_EQ(get(0, address, 8), (std::vector<std::int32_t>{1, 2, 3, 4, 1, 2, 3, 4}));
  EXPECT_EQ(code_of(perform(copy_work{copy_kind::device_to_device, nullptr,
                                      reinterpret_cast<std::byte*>(address), 1})),
            code_of(errc::invalid_argument));
  EXPECT_EQ(
      code_of(perform(copy_work{copy_kind::device_to_device,
                                reinterpret_cast<std::byte*>(address), nullptr, 1})),
      code_of(errc::invalid_argument));
  EXPECT_EQ(code_of(perform(copy_work{})), 0);
  free(0, reinterpret_cast<std::byte*>(address));
}

TEST_P(Backend, FillsRepeatTheirPattern) {
  constexpr std::size_t total = 100'000;
  std::byte* address = allocate(second(), total);
  for (const std::uint8_t size : std::initializer_list<std::uint8_t>{1, 2, 4, 8, 16}) {
    for (const std::size_t times : {0UL, 1UL, 3UL, 1024UL, 5000UL}) {
      fill_work zero;
      zero.to = address;
      zero.bytes = total;
      zero.device = second();
      ASSERT_EQ(code_of(perform(zero)), 0);
      fill_work work = zero;
      work.to = address + 16;
      work.bytes = size * times;
      work.pattern_bytes = size;
      for (std::size_t i = 0; i < 16; ++i) {
        work.pattern[i] = static_cast<std::byte>(i + 1);
      }
      ASSERT_EQ(code_of(perform(work)), 0);
      const auto found = get(second(), reinterpret_cast<std::uint8_t*>(address), total);
      std::vector<std::uint8_t> expected(total);
      for (std::size_t i = 0; i < work.bytes; ++i) {
        expected[16 + i] = static_cast<std::uint8_t>(i % size + 1);
      }
      EXPECT_EQ(found, expected) << int{size} << " x " << times;
    }
  }
  free(second(), address);
}

TEST_P(Backend, FillsThatMakeNoSenseAreRefused) {
  std::byte* address = allocate(0, 64);
  const auto fill = [&](std::byte* to, std::size_t bytes, std::uint8_t pattern) {
    fill_work w;
    w.to = to;
    w.bytes = bytes;
    w.pattern_bytes = pattern;
    return code_of(perform(w));
  };
  for (const std::uint8_t pattern :
       std::initializer_list<std::uint8_t>{0, 3, 5, 6, 7, 12, 15, 17, 32, 255}) {
    EXPECT_EQ(fill(address, 0, pattern), code_of(errc::invalid_argument)) << int{pattern};
  }
  EXPECT_EQ(fill(address, 9, 2), code_of(errc::invalid_argument));
  EXPECT_EQ(fill(nullptr, 8, 8), code_of(errc::invalid_argument));
  EXPECT_EQ(fill(nullptr, 0, 8), 0);
  free(0, address);
}

TEST_P(Backend, SlicesOfBytesCoverAllOfThem) {
  for (const std::size_t bytes :
       {0UL, 1UL, 100UL, 1UL << 20, (1UL << 20) + 17, 1UL << 33}) {
    for (unsigned workers = 1; workers <= 9; ++workers) {
      const slice_plan plan = backend().plan(bytes, workers);
      EXPECT_EQ(plan.slices == 0, bytes == 0);
      std::int64_t next = 0;
      for (std::int64_t s = 0; s < plan.slices; ++s) {
        EXPECT_EQ(plan.begin(s), next);
        EXPECT_GT(plan.end(s), next);
        EXPECT_EQ(plan.begin(s) % 64, 0) << "two slices must not share a cache line";
        next = plan.end(s);
      }
      EXPECT_EQ(next, static_cast<std::int64_t>(bytes));
    }
  }
}

TEST_P(Backend, ThreadsMayUseDifferentDevicesAtOnce) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(static_cast<std::size_t>(tested().devices()));
  for (std::int32_t d = 0; d < tested().devices(); ++d) {
    threads.emplace_back([&, d] {
      for (std::uint32_t i = 0; i < 200; ++i) {
        auto memory = backend().allocate(d, 4096);
        std::vector<std::uint32_t> values(1024, i);
        auto* raw = reinterpret_cast<std::byte*>(values.data());
        (void)perform(copy_work{copy_kind::host_to_device, *memory, raw, 4096, d, d});
        std::fill(values.begin(), values.end(), 0U);
        (void)perform(copy_work{copy_kind::device_to_host, raw, *memory, 4096, d, d});
        wrong[static_cast<std::size_t>(d)] += static_cast<int>(
            std::count_if(values.begin(), values.end(), [&](auto v) { return v != i; }));
        wrong[static_cast<std::size_t>(d)] += code_of(backend().free(d, *memory));
      }
    });
  }
  for (auto& t : threads) {
    t.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(wrong.size()));
  EXPECT_EQ(backend().memory(0).in_use, 0U);
}

}  // namespace weir::tessera::conformance
