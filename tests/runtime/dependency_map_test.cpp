// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the dependency map against a linear scan, and with inputs that lose entries in
/// simpler maps.
#include "map/dependency_map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <stdexcept>

#include "random_views.hpp"

namespace weir::runtime {
namespace {

using test::dice;
using test::i64s;

/// Returns the bytes from `lo` up to `hi`.
footprint span_of(std::uint32_t storage, std::int64_t lo, std::int64_t hi) {
  return or_throw(footprint::of_view({storage, 1}, lo, i64s{hi - lo}, i64s{1}, 1));
}

/// Returns the tasks whose accesses conflict with a query.
std::set<task_id> tasks_in(dependency_map& map, const footprint& query, bool writers) {
  std::set<task_id> out;
  map.conflicts(query, writers, [&](access_ref, const dependency_map::entry& e) {
    EXPECT_TRUE(out.insert(e.task).second) << "the map reported a task twice";
  });
  return out;
}

/// Returns a span of one byte up to the whole storage, so that all levels of the grid are
/// used.
footprint random_span(dice& d, std::uint32_t storage, std::int64_t size) {
  const std::int64_t length = std::min(size, d.in(1, std::int64_t{1} << d.in(0, 20)));
  const std::int64_t lo = d.in(0, size - length);
  if (length >= 8 && d.one_in(3)) {  // strided: every second byte
    return or_throw(footprint::of_view({storage, 1}, lo, i64s{length / 2}, i64s{2}, 1));
  }
  return span_of(storage, lo, lo + length);
}

// Inserts, prunes and retires at random, while the map fills up and empties in turn. Each
// query must find what a scan over all live accesses finds.
TEST(DependencyMap, EqualsALinearScanUnderInsertPruneAndRetire) {
  const std::uint64_t seed = 77;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  dice d(seed);
  constexpr std::int64_t size = 1 << 20;
  constexpr std::uint32_t storages = 3;
  dependency_map map(1 << 16);
  map.add_storage(storages - 1);
  struct known {
    footprint bytes;
    bool writer;
    access_ref ref;
    bool pruned;
  };
  std::map<task_id, known> live;  // each task has one access
  task_id next = 1;
  for (int step = 0; step < 60'000; ++step) {
    const bool growing = (step / 3000) % 2 == 0;  // the map fills up and empties in turn
    if (live.empty() || d.in(1, 10) <= (growing ? 8 : 2)) {
      const auto storage = static_cast<std::uint32_t>(d.in(0, storages - 1));
      const footprint f = random_span(d, storage, size);
      const bool writer = d.one_in(2);
      live[next] = {f, writer, map.insert(f, writer, next), false};
      ++next;
    } else {
      auto victim = live.begin();  // mostly the oldest, as tasks retire
      if (d.one_in(8) && !victim->second.pruned) {
        map.prune(victim->second.ref);
        victim->second.pruned = true;
      } else {
        map.retire(1, 0);
        live.erase(victim);
      }
    }
    if (step % 8 == 0) {
      const auto storage = static_cast<std::uint32_t>(d.in(0, storages - 1));
      const footprint query = random_span(d, storage, size);
      const bool writers = d.one_in(2);
      std::set<task_id> expected;
      for (const auto& [task, k] : live) {
        if (!k.pruned && k.writer == writers &&
            decide_overlap(query, k.bytes) != overlap::no) {
          expected.insert(task);
        }
      }
      ASSERT_EQ(tasks_in(map, query, writers), expected) << "step " << step;
    }
  }
}

TEST(DependencyMap, KeepsEveryProducerHoweverManyThereAre) {  // T1, T5
  dependency_map map(1 << 14);
  map.add_storage(0);
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    map.insert(span_of(0, i * 64, i * 64 + 64), true, i + 1);
  }
  EXPECT_EQ(tasks_in(map, span_of(0, 0, 640'000), true).size(), 10'000U);
  EXPECT_EQ(tasks_in(map, span_of(0, 32, 96), true), (std::set<task_id>{1, 2}));
}

TEST(DependencyMap, KnowsIdsBeyond32Bits) {  // T2
  dependency_map map(1 << 14);
  map.add_storage(0);
  const task_id wrap = task_id{1} << 32;
  map.insert(span_of(0, 0, 8), true, wrap - 1);
  map.insert(span_of(0, 8, 16), true, wrap + 1);
  EXPECT_EQ(tasks_in(map, span_of(0, 0, 16), true),
            (std::set<task_id>{wrap - 1, wrap + 1}));
}

/// Returns the number of accesses that `tasks_in` finds; their lists must end.
std::size_t found_in(dependency_map& map, const footprint& query, std::size_t max_size) {
  std::size_t out = 0;
  map.conflicts(query, true, [&](access_ref, const dependency_map::entry&) {
    if (++out > max_size) {
      throw std::runtime_error("a list of accesses goes round in circles");
    }
  });
  return out;
}

// References have 31 bits. One that is left over must not be taken for an access whose
// number has the same low 31 bits.
TEST(DependencyMap, TakesNoReferenceForThatOfAnAccess31BitsLater) {  // T2
  constexpr std::uint32_t tiles = 64;
  constexpr std::uint64_t numbers = std::uint64_t{1} << 31;
  for (const std::uint64_t late : {0U, 1U, 30U, 63U}) {
    dependency_map map(1 << 14);
    map.add_storage(0);
    task_id next = 1;
    const auto fill = [&] {
      for (std::int64_t i = 0; i < tiles; ++i) {
        map.insert(span_of(0, i * 64, i * 64 + 64), true, next++);
      }
    };
    fill();
    map.retire(tiles, 0);
    const std::uint64_t gap = numbers - tiles + late;
    for (std::uint64_t passed = 0; passed < gap;) {
      const std::uint64_t step = std::min(gap - passed, std::uint64_t{1} << 20);
      map.skip(step);
      passed += step;
    }
    fill();
    EXPECT_NO_THROW(EXPECT_EQ(found_in(map, span_of(0, 0, tiles * 64), 1000), tiles));
    for (std::int64_t i = 0; i < tiles; ++i) {
      const footprint tile = span_of(0, i * 64, i * 64 + 64);
      EXPECT_NO_THROW(EXPECT_EQ(found_in(map, tile, 1000), 1U)) << i;
    }
  }
}

// The grid grows while some of its references name places that other accesses use now.
// The counts of each tile must stay those of a simple model.
TEST(DependencyMap, LosesNoneWhenItsCellsBecomeMoreWhereAccessesHaveGone) {
  constexpr std::uint32_t others = 200;
  constexpr task_id live = 900;
  constexpr std::int64_t tiles = 400;
  dependency_map map(1 << 14);
  map.add_storage(others);
  std::array<std::size_t, tiles> expected{};
  task_id next = 1;
  const auto add_tile = [&] {
    const auto tile = static_cast<std::int64_t>(next) % tiles;
    map.insert(span_of(0, tile * 64, tile * 64 + 64), true, next++);
    ++expected[static_cast<std::size_t>(tile)];
  };
  // Accesses to other storages advance the ring, so accesses of the grid reuse places of
  // earlier ones.
  while (next < 4000) {
    add_tile();
    map.insert(span_of(1 + static_cast<std::uint32_t>(next) % others, 0, 64), true, next);
    ++next;
    for (; map.max_size() - map.space() > live; map.retire(1, 0)) {
      const task_id oldest = next - (map.max_size() - map.space());
      expected[oldest % tiles] -= oldest % 2;
    }
  }
  // From here on the accesses are too many for the cells.
  while (next < 6000) {
    add_tile();
    const auto tile = static_cast<std::int64_t>(next * 7) % tiles;
    ASSERT_NO_THROW(ASSERT_EQ(found_in(map, span_of(0, tile * 64, tile * 64 + 64), 1000),
                              expected[static_cast<std::size_t>(tile)]));
  }
}

TEST(DependencyMap, TakesFromAnEntryWhatAWriteCoversAndNothingElse) {
  constexpr std::int64_t size = 300;
  dice d(2026);
  const storage s{{0, 1}, nullptr, size};
  int shorter = 0;
  for (int round = 0; round < 1000; ++round) {
    dependency_map map(1 << 9);
    map.add_storage(0);
    const int live = round % 2 == 0 ? 4 : 12;  // few accesses, or enough for the grid
    std::vector<test::byte_set> own(static_cast<std::size_t>(live));
    std::vector<test::byte_set> left(static_cast<std::size_t>(live));
    const auto next_view = [&] {
      const auto kind = test::all_view_classes[static_cast<std::size_t>(d.in(0, 4))];
      return test::random_view(d, s, kind).bytes();
    };
    for (int i = 0; i < live; ++i) {
      const footprint f = next_view();
      if (!f.empty()) {
        own[static_cast<std::size_t>(i)] = test::bytes_in(f);
        map.insert(f, false, static_cast<task_id>(i) + 1);
      }
    }
    left = own;
    for (int w = 0; w < 4; ++w) {
      const footprint write = next_view();
      if (write.empty()) {
        continue;
      }
      map.conflicts(write, false, [&](access_ref, dependency_map::entry& e) {
        return map.take(write, e);
      });
      for (auto& one : left) {
        one &= ~test::bytes_in(write);
      }
    }
    std::vector<test::byte_set> found(static_cast<std::size_t>(live));
    for (std::int64_t byte = 0; byte < size; ++byte) {
      for (const task_id id : tasks_in(map, span_of(0, byte, byte + 1), false)) {
        found[id - 1][static_cast<std::size_t>(byte)] = true;
      }
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_TRUE((left[i] & ~found[i]).none())
          << "round " << round << ": the map has lost bytes";
      ASSERT_TRUE((found[i] & ~own[i]).none())
          << "round " << round << ": the map has bytes that no task accessed";
      shorter += static_cast<int>(found[i].any() && found[i] != own[i]);
    }
  }
  EXPECT_GT(shorter, 300);
}

// Two writes together cover the bytes of a reader. After the first, the reader must still
// be found, because some of its bytes are left; after the second, it must be gone.
TEST(DependencyMap, ForgetsAReaderThatTwoWritesCoverTogether) {
  const auto every_second = [](std::int64_t from, std::int64_t count) {
    return or_throw(footprint::of_view({0, 1}, from * 8, i64s{count}, i64s{16}, 8));
  };
  const auto rows = [](std::int64_t from,
                       std::int64_t count) {  // the first half of each row
    return or_throw(
        footprint::of_view({0, 1}, from * 256, i64s{count, 16}, i64s{256, 8}, 8));
  };
  const std::vector<std::array<footprint, 3>> cases = {
      {span_of(0, 0, 64), span_of(0, 0, 40), span_of(0, 40, 64)},
      {span_of(0, 0, 64), span_of(0, 32, 99), span_of(0, 0, 32)},
      {every_second(2, 9), every_second(0, 9), every_second(18, 9)},
      {every_second(2, 9), span_of(0, 72, 999), span_of(0, 0, 72)},
      {rows(2, 9), rows(0, 8), rows(8, 8)},
  };
  for (const auto& [reader, first, second] : cases) {
    dependency_map map(1 << 9);
    map.add_storage(0);
    map.insert(reader, false, 1);
    for (const footprint& write : {first, second}) {
      EXPECT_EQ(tasks_in(map, reader, false).size(), 1U);
      map.conflicts(write, false, [&](access_ref, dependency_map::entry& e) {
        return map.take(write, e);
      });
    }
    EXPECT_TRUE(tasks_in(map, reader, false).empty());
  }
}

/// The access of a commuting task must not be shortened. A shortened one would look like
/// a member of the group to tasks that are in another group.
TEST(DependencyMap, LeavesTasksThatCommuteInAnyOrderTheirBytes) {
  dependency_map map(1 << 9);
  map.add_storage(0);
  map.insert(span_of(0, 0, 64), true, 1, true);
  const auto take = [&](const footprint& write) {
    map.conflicts(write, true, [&](access_ref, dependency_map::entry& e) {
      return map.take(write, e);
    });
  };
  take(span_of(0, 0, 32));
  EXPECT_EQ(tasks_in(map, span_of(0, 0, 8), true), std::set<task_id>{1});
  take(span_of(0, 0, 64));
  EXPECT_TRUE(tasks_in(map, span_of(0, 0, 64), true).empty());
}

TEST(DependencyMap, GivesBackExactlyTheEntriesOfOneTask) {  // T4
  dependency_map map(1 << 14);
  map.add_storage(1);
  for (int i = 0; i < 20; ++i) {
    map.insert(span_of(static_cast<std::uint32_t>(i % 2), i * 8, i * 8 + 8), i % 3 == 0,
               1);
  }
  map.insert(span_of(0, 0, 8), true, 2);
  map.retire(20, 0);
  EXPECT_EQ(tasks_in(map, span_of(0, 0, 1000), true), std::set<task_id>{2});
  EXPECT_TRUE(tasks_in(map, span_of(0, 0, 1000), false).empty());
  EXPECT_TRUE(tasks_in(map, span_of(1, 0, 1000), true).empty());
}

TEST(DependencyMap, FindsRegionsOfDifferentSizesAndFarOffsets) {  // T6, T7
  dependency_map map(1 << 14);
  map.add_storage(0);
  map.insert(span_of(0, 0, 256), true, 1);
  map.insert(span_of(0, 2147483600, 2147487696), true, 2);
  EXPECT_EQ(tasks_in(map, span_of(0, 128, 256), true), std::set<task_id>{1});
  EXPECT_EQ(tasks_in(map, span_of(0, 2147483650, 2147483651), true),
            std::set<task_id>{2});
}

TEST(DependencyMap, RemembersWhatFailedTasksWroteUntilItIsForgotten) {
  dependency_map map(1 << 14);
  map.add_storage(1);
  map.insert(span_of(0, 0, 8), true, 7);
  map.insert(span_of(1, 0, 8), true, 7);
  map.insert(span_of(0, 64, 72), false, 7);
  map.retire(3, 5);
  EXPECT_EQ(map.failure_in(span_of(0, 4, 100)), 5U);
  // A failed task's reads do not count.
  EXPECT_EQ(map.failure_in(span_of(0, 8, 100)), 0U);
  EXPECT_EQ(map.failure_in(span_of(1, 0, 8)), 5U);
  map.add_failed(span_of(0, 0, 4), 9);
  EXPECT_EQ(map.failure_in(span_of(0, 0, 100)), 5U);  // the oldest failure
  map.remove_storage(1);
  EXPECT_EQ(map.failure_in(span_of(1, 0, 8)), 0U);
  map.forget_failures();
  EXPECT_EQ(map.failure_in(span_of(0, 4, 100)), 0U);
  EXPECT_TRUE(map.empty());
}

}  // namespace
}  // namespace weir::runtime
