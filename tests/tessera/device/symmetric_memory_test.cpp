// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests symmetric memory: its table of addresses against a linear search, the lifetime
/// of allocations, and lookups that run while other threads change the table.
#include "weir/tessera/device/symmetric_memory.hpp"

#include <atomic>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "device/cpu.hpp"
#include "device/cpu/sanitizers.hpp"

namespace weir::tessera {
namespace {

/// A backend with eight devices, and symmetric memory that records reports of damage.
class SymmetricMemory : public testing::Test {
 protected:
  static std::shared_ptr<device_backend> make_backend(std::int32_t devices,
                                                      std::size_t memory) {
    cpu_options options;
    options.devices = devices;
    options.memory = memory;
    return or_throw(make_cpu_backend(options));
  }
  std::size_t in_use() const {
    std::size_t sum = 0;
    for (std::int32_t d = 0; d < backend_->device_count(); ++d) {
      sum += backend_->memory(d).in_use;
    }
    return sum;
  }

  std::shared_ptr<device_backend> backend_ = make_backend(8, std::size_t{1} << 20);
  std::vector<std::string> damage_;
  symmetric_memory memory_{backend_,
                           [this](const error& e) { damage_.push_back(e.text()); }};
};

/// Returns the code of a failure, or a zero code for success.
template <class T>
errc code_of_failure(const result<T>& r) {
  return r ? errc{} : r.error().code();
}

TEST_F(SymmetricMemory, EveryRankHasAnInstanceOnItsDevice) {
  const std::vector<std::int32_t> devices{3, 0, 7};
  auto made = or_throw(memory_.allocate(devices, 1000, 9));
  EXPECT_EQ(made->kind(), memory_kind::device);
  EXPECT_EQ(made->bytes(), 1000U);
  EXPECT_EQ(made->owner(), 9U);
  EXPECT_TRUE(std::equal(devices.begin(), devices.end(), made->devices().begin()));
  ASSERT_EQ(made->instances().size(), 3U);
  EXPECT_EQ(made->data(), made->instances()[0]);
  for (const std::int32_t d : {0, 3, 7}) {
    EXPECT_EQ(backend_->memory(d).live, 1U);
  }
  EXPECT_EQ(backend_->memory(1).live, 0U);
  for (std::int32_t r = 0; r < 3; ++r) {
    const auto place = memory_.find(made->instances()[static_cast<std::size_t>(r)] + 999);
    ASSERT_TRUE(place.has_value());
    EXPECT_EQ(place->rank, r);
    EXPECT_EQ(place->device(), devices[static_cast<std::size_t>(r)]);
    EXPECT_EQ(place->offset, 999U);
    EXPECT_EQ(place->bytes_left(), 1U);
  }
}

// An address of instance 0 stands for each rank's own instance. The address of another
// instance, and any address outside, must come back unchanged.
TEST_F(SymmetricMemory, OnlyAddressesOfInstanceZeroAreTranslated) {
  const std::vector<std::int32_t> devices{0, 1, 2, 3};
  auto made = or_throw(memory_.allocate(devices, 512));
  for (std::int32_t r = 0; r < 4; ++r) {
    std::byte* instance = made->instances()[static_cast<std::size_t>(r)];
    for (const std::ptrdiff_t offset : {0, 1, 511}) {
      EXPECT_EQ(memory_.translate(made->data() + offset, r), instance + offset);
      EXPECT_EQ(memory_.find(made->data() + offset)->on_rank(r), instance + offset);
      for (std::int32_t other = 1; other < 4; ++other) {
        std::byte* own = made->instances()[static_cast<std::size_t>(other)] + offset;
        EXPECT_EQ(memory_.translate(own, r), own)
            << "an address in the rank's own instance is returned unchanged";
        EXPECT_EQ(memory_.find(own)->on_rank(r), own);
      }
    }
    EXPECT_EQ(memory_.translate(made->data() + 512, r), made->data() + 512);
    EXPECT_EQ(memory_.translate(made->data() - 1, r), made->data() - 1);
    EXPECT_EQ(memory_.translate(nullptr, r), nullptr);
    EXPECT_EQ(memory_.translate(&damage_, r), reinterpret_cast<std::byte*>(&damage_));
  }
  for (const std::int32_t rank : {-1, 4, std::numeric_limits<std::int32_t>::max()}) {
    EXPECT_EQ(memory_.translate(made->data(), rank), made->data());
    EXPECT_EQ(memory_.find(made->data())->on_rank(rank), made->data());
  }
}

// A lookup holds a reference. After the allocation was removed from the table, the memory
// must stay until that reference is released, too.
TEST_F(SymmetricMemory, MemoryIsFreedWithItsLastReference) {
  const std::vector<std::int32_t> devices{0, 1};
  auto first = or_throw(memory_.allocate(devices, 300));
  std::byte* const address = first->data();
  auto place = memory_.find(address + 5);
  first.reset();
  auto removed = or_throw(memory_.remove(address, memory_kind::device));
  EXPECT_FALSE(memory_.find(address).has_value());
  EXPECT_EQ(memory_.translate(address, 1), address);
  removed.reset();
  EXPECT_EQ(in_use(), 1024U) << "a place that was found keeps the memory";
  EXPECT_EQ(place->on_rank(1) - 5, place->memory->instances()[1]);
  place.reset();
  EXPECT_EQ(in_use(), 0U);
}

TEST_F(SymmetricMemory, OnlyStartsOfTheRightKindAndOwnerAreRemoved) {
  const std::vector<std::int32_t> devices{0, 1};
  auto made = or_throw(memory_.allocate(devices, 300, 1));
  const auto code = [&](const void* address, memory_kind kind, std::uint64_t owner) {
    return code_of_failure(memory_.remove(address, kind, owner));
  };
  EXPECT_EQ(code(made->data() + 1, memory_kind::device, 1), errc::invalid_argument);
  EXPECT_EQ(code(made->instances()[1], memory_kind::device, 1), errc::invalid_argument);
  EXPECT_EQ(code(made->data(), memory_kind::host, 1), errc::invalid_argument);
  EXPECT_EQ(code(made->data(), memory_kind::imported, 1), errc::invalid_argument);
  EXPECT_EQ(code(made->data(), memory_kind::device, 2), errc::invalid_argument);
  EXPECT_EQ(code(nullptr, memory_kind::device, 1), errc::invalid_argument);
  EXPECT_EQ(code(&devices, memory_kind::device, 1), errc::invalid_argument);
  EXPECT_EQ(memory_.size(), 1U);
  EXPECT_EQ(code(made->data(), memory_kind::device, 1), errc{});
  EXPECT_EQ(code(made->data(), memory_kind::device, 1), errc::invalid_argument);
}

// The third of four devices is full. The instances that were already allocated on the
// first two must be freed again.
TEST_F(SymmetricMemory, AnAllocationThatDoesNotFitEverywhereLeavesNothing) {
  std::byte* taken = or_throw(backend_->allocate(5, std::size_t{1} << 20));
  const std::vector<std::int32_t> devices{0, 4, 5, 6};
  EXPECT_EQ(code_of_failure(memory_.allocate(devices, 4096)), errc::out_of_memory);
  EXPECT_EQ(in_use(), std::size_t{1} << 20);
  EXPECT_EQ(memory_.size(), 0U);
  or_throw(backend_->free(5, taken));
  EXPECT_EQ(code_of_failure(memory_.allocate(devices, 4096)), errc{});
  EXPECT_EQ(
      code_of_failure(memory_.allocate(devices, std::numeric_limits<size_t>::max())),
      errc::out_of_memory);
  const std::vector<std::int32_t> foreign{0, 8};
  EXPECT_EQ(code_of_failure(memory_.allocate(foreign, 16)), errc::out_of_range);
  EXPECT_EQ(code_of_failure(memory_.allocate({}, 16)), errc::invalid_argument);
  EXPECT_EQ(or_throw(memory_.allocate(devices, 0)), nullptr);
  EXPECT_EQ(or_throw(memory_.allocate_host(0)), nullptr);
}

TEST_F(SymmetricMemory, OwnersLoseEverythingAtOnce) {
  const std::vector<std::int32_t> devices{0, 1, 2};
  std::vector<std::byte> own(100);
  for (std::uint64_t owner = 0; owner < 30; ++owner) {
    (void)or_throw(memory_.allocate(devices, 64, owner % 3));
  }
  (void)or_throw(memory_.register_host(own.data(), own.size(), 1));
  int released = 0;
  (void)or_throw(memory_.adopt(
      own.data() + 10, 5, allocation::host_device, [&] { ++released; }, 1));
  EXPECT_EQ(memory_.size(), 32U);
  auto removed = memory_.remove_all(1);
  EXPECT_EQ(removed.size(), 12U);
  EXPECT_EQ(memory_.size(), 20U);
  EXPECT_EQ(released, 0);
  removed.clear();
  EXPECT_EQ(released, 1);
  EXPECT_EQ(in_use(), 20U * 3 * 256);
  EXPECT_TRUE(memory_.remove_all(1).empty());
}

TEST_F(SymmetricMemory, HostMemoryIsTheSameForAllRanks) {
  auto host = or_throw(memory_.allocate_host(5000));
  std::vector<std::byte> own(300);
  auto registered = or_throw(memory_.register_host(own.data(), own.size()));
  EXPECT_EQ(host->kind(), memory_kind::host);
  EXPECT_EQ(registered->kind(), memory_kind::registered);
  for (const auto& m : {host, registered}) {
    EXPECT_EQ(memory_.translate(m->data() + 7, 1), m->data() + 7);
    const auto place = memory_.find(m->data() + 7);
    ASSERT_TRUE(place.has_value());
    EXPECT_EQ(place->device(), allocation::host_device);
    EXPECT_EQ(place->offset, 7U);
    EXPECT_EQ(place->on_rank(1), m->data() + 7);
  }
  EXPECT_FALSE(memory_.find(own.data() + own.size()).has_value());
  EXPECT_EQ(code_of_failure(memory_.remove(own.data(), memory_kind::registered)), errc{});
  EXPECT_FALSE(memory_.find(own.data()).has_value());
}

TEST_F(SymmetricMemory, RegistrationsMustNotOverlap) {
  std::vector<std::byte> own(1000);
  std::byte* const address = own.data() + 100;
  auto registered = or_throw(memory_.register_host(address, 100));
  const auto code = [&](std::ptrdiff_t offset, std::size_t bytes) {
    return code_of_failure(memory_.register_host(address + offset, bytes));
  };
  EXPECT_EQ(code(0, 100), errc::already_exists);
  EXPECT_EQ(code(50, 10), errc::already_exists);
  EXPECT_EQ(code(-10, 11), errc::already_exists);
  EXPECT_EQ(code(99, 10), errc::already_exists);
  EXPECT_EQ(code(-50, 300), errc::already_exists);
  EXPECT_EQ(code(-10, 10), errc{});
  EXPECT_EQ(code(100, 10), errc{});
  EXPECT_EQ(code_of_failure(memory_.register_host(nullptr, 4)), errc::invalid_argument);
  EXPECT_EQ(code(300, 0), errc::invalid_argument);
  EXPECT_EQ(code(300, std::numeric_limits<std::size_t>::max()), errc::invalid_argument);
  EXPECT_EQ(memory_.size(), 3U);
}

// Each adoption has its own release function. It must be called exactly once, when the
// entry is removed and the last reference is gone, and never for an adoption that was
// refused.
TEST_F(SymmetricMemory, ForeignMemoryIsReleasedOnceByTheLastHolder) {
  std::vector<std::byte> foreign(64);
  int released = 0;
  const auto release = [&] { ++released; };
  auto adopted = or_throw(memory_.adopt(foreign.data(), 64, 2, release));
  EXPECT_EQ(adopted->devices()[0], 2);
  EXPECT_EQ(adopted->kind(), memory_kind::imported);
  auto again = or_throw(memory_.adopt(foreign.data() + 8, 8, 2, release));
  EXPECT_EQ(memory_.find(foreign.data() + 8)->memory, adopted);
  auto failed = memory_.adopt(foreign.data() + 60, 10, 2, [&] { released += 100; });
  EXPECT_EQ(code_of_failure(failed), errc::already_exists);
  EXPECT_EQ(released, 0) << "a refused registration must not release the caller's memory";
  (void)or_throw(memory_.remove(foreign.data(), memory_kind::imported));
  EXPECT_EQ(released, 0);
  adopted.reset();
  EXPECT_EQ(released, 1);
  again.reset();
  EXPECT_EQ(released, 1);
  (void)or_throw(memory_.remove(foreign.data() + 8, memory_kind::imported));
  EXPECT_EQ(released, 2);
  EXPECT_EQ(memory_.size(), 0U);
}

// Removing one of two entries for the same range must not hide the other.
TEST_F(SymmetricMemory, ForeignMemoryAdoptedTwiceIsKnownUntilBothAreRemoved) {
  std::vector<std::byte> foreign(64);
  int released = 0;
  const auto release = [&] { ++released; };
  (void)or_throw(memory_.adopt(foreign.data(), 64, 2, release));
  (void)or_throw(memory_.adopt(foreign.data(), 64, 2, release));
  (void)or_throw(memory_.remove(foreign.data(), memory_kind::imported));
  EXPECT_EQ(released, 1);
  EXPECT_TRUE(memory_.find(foreign.data() + 8).has_value());
  (void)or_throw(memory_.remove(foreign.data(), memory_kind::imported));
  EXPECT_EQ(released, 2);
  EXPECT_FALSE(memory_.find(foreign.data() + 8).has_value());
}

#if !defined(WEIR_ASAN)
TEST_F(SymmetricMemory, WritesBeyondTheEndAreReported) {
  const std::vector<std::int32_t> devices{2, 6};
  auto made = or_throw(memory_.allocate(devices, 100));
  made->instances()[1][100] = std::byte{1};
  (void)or_throw(memory_.remove(made->data(), memory_kind::device));
  made.reset();
  ASSERT_EQ(damage_.size(), 1U);
  EXPECT_NE(damage_[0].find("device 6"), std::string::npos) << damage_[0];
}
#endif

// Allocates, registers and removes memory at random. After each step, lookups of
// random addresses (often near the ends of an allocation) must agree with a linear
// search.
TEST_F(SymmetricMemory, TheTableAgreesWithASearchOfAllThereIs) {
  std::mt19937 random(4242);
  std::vector<std::byte> ground(40'000);  // its parts are registered
  std::vector<allocation_ptr> model;
  std::vector<std::int32_t> devices{0, 1, 2, 3, 4, 5, 6, 7};
  const auto place_of = [&](const std::byte* address) {
    memory_place p;
    for (const auto& m : model) {
      for (std::size_t r = 0; r < m->instances().size(); ++r) {
        const std::byte* base = m->instances()[r];
        if (address >= base && address < base + m->bytes()) {
          p = {m, static_cast<std::size_t>(address - base), static_cast<std::int32_t>(r)};
        }
      }
    }
    return p;
  };
  for (int step = 0; step < (sanitized ? 600 : 4000); ++step) {
    const auto kind = random() % 5;
    if (kind == 0) {
      std::shuffle(devices.begin(), devices.end(), random);
      auto made = memory_.allocate(std::span(devices).first(1 + random() % 8),
                                   1 + random() % 600);
      if (made) {
        model.push_back(*made);
      }
    } else if (kind == 1) {
      std::byte* address = ground.data() + random() % 39'000;
      const std::size_t bytes = 1 + random() % 500;
      bool overlaps = false;
      for (const auto& m : model) {
        overlaps =
            overlaps || (m->kind() == memory_kind::registered &&
                         address < m->data() + m->bytes() && m->data() < address + bytes);
      }
      auto made = memory_.register_host(address, bytes);
      ASSERT_EQ(made.has_value(), !overlaps) << "step " << step;
      if (made) {
        model.push_back(*made);
      }
    } else if (kind == 2 && !model.empty()) {
      std::swap(model[random() % model.size()], model.back());
      auto removed = memory_.remove(model.back()->data(), model.back()->kind());
      ASSERT_TRUE(removed.has_value()) << "step " << step;
      ASSERT_EQ(*removed, model.back());
      model.pop_back();
    }
    ASSERT_EQ(memory_.size(), model.size());
    for (int probe = 0; probe < 5; ++probe) {
      std::byte* address = ground.data() + random() % ground.size();
      if (!model.empty() && random() % 2 == 0) {
        const auto& m = model[random() % model.size()];
        address = m->instances()[random() % m->instances().size()] +
                  static_cast<std::ptrdiff_t>(random() % (m->bytes() + 20)) - 10;
      }
      const memory_place expected = place_of(address);
      const auto found = memory_.find(address);
      ASSERT_EQ(found.has_value(), expected.memory != nullptr) << "step " << step;
      const auto rank = static_cast<std::int32_t>(random() % 9);
      if (found) {
        ASSERT_EQ(found->memory, expected.memory);
        ASSERT_EQ(found->offset, expected.offset);
        ASSERT_EQ(found->rank, expected.rank);
        ASSERT_EQ(memory_.translate(address, rank), expected.on_rank(rank));
      } else {
        ASSERT_EQ(memory_.translate(address, rank), address);
      }
    }
  }
}

// Two threads look up an allocation that stays while the main thread adds and removes
// others, which moves entries of the table. Each lookup must find the same allocation.
TEST_F(SymmetricMemory, ReadersSeeWholeEntriesWhileOthersChangeThem) {
  const std::vector<std::int32_t> devices{0, 1, 2, 3};
  auto memory = or_throw(memory_.allocate(devices, 256));
  std::atomic<bool> stop{false};
  std::atomic<std::int64_t> wrong{0};
  std::atomic<std::int64_t> looked{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        for (std::int32_t r = 0; r < 4; ++r) {
          std::byte* expected = memory->instances()[static_cast<std::size_t>(r)] + 17;
          wrong += memory_.translate(memory->data() + 17, r) == expected ? 0 : 1;
          wrong += memory_.find(memory->data() + 17)->on_rank(r) == expected ? 0 : 1;
        }
        ++looked;
      }
    });
  }
  std::mt19937 random(5);
  std::vector<allocation_ptr> live;
  for (int i = 0; i < (sanitized ? 500 : 5000) || looked < 10; ++i) {
    if (live.size() < 150 && random() % 5 < 3) {
      live.push_back(or_throw(memory_.allocate(std::span(devices).first(1 + random() % 4),
                                               64 + random() % 64)));
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      (void)or_throw(memory_.remove(live.back()->data(), memory_kind::device));
      live.pop_back();
    }
  }
  stop = true;
  for (auto& t : threads) {
    t.join();
  }
  EXPECT_EQ(wrong, 0);
}

// Two threads remove the same allocation at the same time. If both succeeded, the memory
// would be freed twice.
TEST_F(SymmetricMemory, OfTwoThatRemoveTheSameOneSucceeds) {
  const std::vector<std::int32_t> devices{0};
  for (int trial = 0; trial < 200; ++trial) {
    std::byte* address = or_throw(memory_.allocate(devices, 8))->data();
    std::atomic<int> removed{0};
    std::thread other(
        [&] { removed += memory_.remove(address, memory_kind::device) ? 1 : 0; });
    removed += memory_.remove(address, memory_kind::device) ? 1 : 0;
    other.join();
    ASSERT_EQ(removed, 1);
  }
  EXPECT_EQ(in_use(), 0U);
}

TEST(SymmetricMemoryLife, AllocationsThatAreReferencedOutliveTheTable) {
  cpu_options options;
  options.devices = 2;
  allocation_ptr survivor;
  {
    symmetric_memory memory(or_throw(make_cpu_backend(options)));
    const std::vector<std::int32_t> devices{0, 1};
    survivor = or_throw(memory.allocate(devices, 64));
  }
  survivor->instances()[1][63] = std::byte{1};
  EXPECT_EQ(survivor->instances()[1][63], std::byte{1});
}

}  // namespace
}  // namespace weir::tessera
