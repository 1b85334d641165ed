// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the specification's TensorMap requirement by requirement. Where the
/// specification claims too much, the test states the safe answer and the reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "conformant/producer_map.hpp"
#include "map/dependency_map.hpp"
#include "random_views.hpp"

namespace weir::runtime {
namespace {

using test::dice;
using test::i64s;

std::byte memory[1 << 16];
std::byte other_memory[1 << 16];

/// Returns a region of a storage, at `memory` unless another base is given.
map_region region(std::int64_t offset, std::int64_t size, const void* base = memory) {
  return {base, offset, size, 0};
}
/// Returns an empty map with the better hash.
tensor_map basic(std::uint32_t buckets = 64, std::uint32_t entries = 1024) {
  return or_throw(tensor_map::create({buckets, entries, base_hash::fibonacci}));
}
/// Returns an empty map of tensors with views.
tensor_map_ex extended(std::uint32_t entries = 1024) {
  return or_throw(tensor_map_ex::create({64, entries, base_hash::fibonacci}));
}
/// Returns all producers that the map finds.
template <class Map, class Key>
std::vector<task_id> all(Map& map, const Key& key) {
  std::vector<task_id> out;
  map.lookup_all(key, out);
  return out;
}
using ids = std::vector<task_id>;

static_assert(producer_finder<tensor_map, map_region>);
static_assert(producer_finder<tensor_map_ex, logical_tensor>);

TEST(TensorMap, FindsTheProducerOfARegion) {  // R1, R8-R10, R27
  tensor_map map = basic();
  ASSERT_TRUE(map.insert(region(0, 64), 5));
  EXPECT_EQ(map.lookup(region(32, 4)), 5U);
  EXPECT_EQ(map.lookup(region(63, 1)), 5U);
  EXPECT_EQ(map.lookup(region(64, 1)), std::nullopt);  // ranges are half open
  EXPECT_EQ(map.lookup(region(0, 64, other_memory)), std::nullopt);
}

TEST(TensorMap, RejectsBucketsThatAreNoPowerOfTwo) {  // R4
  for (const std::uint32_t buckets : {0U, 3U, 100U}) {
    EXPECT_EQ(tensor_map::create({buckets, 8, base_hash::fibonacci}).error().code(),
              errc::invalid_argument);
  }
  EXPECT_FALSE(tensor_map::create({8, 0, base_hash::fibonacci}));
  EXPECT_TRUE(tensor_map::create());  // the default size is accepted
}

TEST(TensorMap, ComparesTilesOfDifferentGridsByTheirBytes) {  // R10; T6
  tensor_map map = basic();
  const map_region written = or_throw(map_region::in_tile(memory, 0, 256, 0, 256));
  const map_region read = or_throw(map_region::in_tile(memory, 1, 128, 0, 128));
  ASSERT_TRUE(map.insert(written, 3));
  // Comparing the numbers of tiles would miss the bytes 128 to 255.
  EXPECT_EQ(map.lookup(read), 3U);
  EXPECT_EQ(map.lookup(or_throw(map_region::in_tile(memory, 1, 256, 0, 8))),
            std::nullopt);
}

TEST(TensorMap, HandlesOffsetsBeyond32Bits) {  // R10; T7
  tensor_map map = basic();
  ASSERT_TRUE(map.insert(region(2'147'483'600, 4096), 1));
  EXPECT_EQ(map.lookup(region(2'147'483'700, 4)), 1U);
  EXPECT_EQ(map_region::in_tile(memory, INT64_MAX / 2, 4, 0, 8).error().code(),
            errc::out_of_range);
  EXPECT_FALSE(map_region::in_tile(memory, 0, 4, -1, 8));
}

TEST(TensorMap, HashesTheBaseAlone) {  // R16
  const tensor_map map = basic(1024);
  const logical_tensor whole = or_throw(logical_tensor::raw(memory, i64s{64}, 4));
  const logical_tensor part = or_throw(whole.view(i64s{32}, i64s{8}));
  EXPECT_EQ(map.bucket_of(whole.base()), map.bucket_of(part.base()));
}

TEST(TensorMap, OffersTheSeedsHashAndABetterOne) {  // R17; 3.f
  const auto used = [](base_hash hash) {
    const tensor_map map = or_throw(tensor_map::create({1024, 8, hash}));
    std::set<std::uint32_t> buckets;
    for (std::uintptr_t i = 0; i < 1024; ++i) {
      buckets.insert(map.bucket_of(reinterpret_cast<const void*>(i * 1024)));
    }
    return buckets.size();
  };
  // With the specification's hash, 1024 storages that lie 1 KiB apart share a few of the
  // buckets.
  EXPECT_LE(used(base_hash::seed), 32U);
  EXPECT_GE(used(base_hash::fibonacci), 600U);
}

TEST(TensorMap, ForgetsTasksBelowTheThreshold) {  // R7, R23
  tensor_map map = basic();
  ASSERT_TRUE(map.insert(region(0, 8), 1));
  ASSERT_TRUE(map.insert(region(0, 8), 2));
  map.retire_before(2);
  EXPECT_EQ(map.lookup(region(0, 8)), 2U);
  map.retire_before(1);  // the threshold never decreases
  map.retire_before(3);
  EXPECT_EQ(map.lookup(region(0, 8)), std::nullopt);
}

TEST(TensorMap, CutsTheDeadTailOfAChain) {  // R24, R25
  tensor_map map = basic();
  for (task_id id = 1; id <= 10; ++id) {
    ASSERT_TRUE(map.insert(region(static_cast<std::int64_t>(id) * 8, 8), id));
  }
  map.retire_before(8);
  EXPECT_EQ(map.linked(), 10U);  // entries are removed lazily
  // This lookup reaches the dead tail.
  EXPECT_EQ(map.lookup(region(2 * 8, 8)), std::nullopt);
  EXPECT_EQ(map.linked(), 3U);
  EXPECT_EQ(map.lookup(region(9 * 8, 8)), 9U);
}

TEST(TensorMap, CleansUpRetiredTasksOnRequest) {  // R6, R30
  tensor_map map = basic(1, 16);
  for (task_id id = 1; id <= 12; ++id) {
    ASSERT_TRUE(map.insert(region(static_cast<std::int64_t>(id) * 8, 8), id));
    ASSERT_TRUE(map.insert(region(4096 + static_cast<std::int64_t>(id) * 8, 8), id));
    map.retire_before(id > 5 ? id - 5 : 0);
    map.clean_up();
    EXPECT_EQ(map.linked(), 2 * std::min<task_id>(id, 6));
  }
}

TEST(TensorMap, ReturnsTheNewestProducer) {  // R26
  tensor_map map = basic();
  ASSERT_TRUE(map.insert(region(0, 64), 1));
  ASSERT_TRUE(map.insert(region(0, 64), 2));
  EXPECT_EQ(map.lookup(region(0, 4)), 2U);
}

TEST(TensorMap, ReturnsAllProducersOfATornRead) {  // R28; T1, T5
  tensor_map map = basic(64, 4096);
  for (task_id id = 1; id <= 100; ++id) {
    ASSERT_TRUE(map.insert(region(static_cast<std::int64_t>(id - 1) * 8, 8), id));
    ASSERT_TRUE(map.insert(region(static_cast<std::int64_t>(id - 1) * 8, 4), id));
  }
  // The newest producer alone would miss 99 edges; a limit of 16 would miss 84.
  EXPECT_EQ(map.lookup(region(0, 800)), 100U);
  const ids found = all(map, region(0, 800));
  EXPECT_EQ(found.size(), 100U);
  EXPECT_TRUE(std::is_sorted(found.rbegin(), found.rend()));
}

TEST(TensorMap, RefusesToOverwriteALiveEntry) {  // R5, R29; T3
  tensor_map map = basic(64, 4);
  for (task_id id = 0; id < 4; ++id) {
    ASSERT_TRUE(map.insert(region(static_cast<std::int64_t>(id) * 8, 8), id));
  }
  EXPECT_EQ(map.insert(region(32, 8), 4).error().code(), errc::out_of_memory);
  EXPECT_EQ(map.lookup(region(0, 8)), 0U);  // the specification's ring would have lost it
  map.retire_before(1);
  ASSERT_TRUE(map.insert(region(32, 8), 4));  // reuses the place of a dead entry
  EXPECT_EQ(map.lookup(region(0, 8)), std::nullopt);
  EXPECT_EQ(map.lookup(region(32, 8)), 4U);
}

TEST(TensorMap, KeepsIdsBeyond32BitsInOrder) {  // 3.c; T2
  tensor_map map = basic();
  const task_id wrap = task_id{1} << 32;
  ASSERT_TRUE(map.insert(region(0, 8), wrap - 1));
  ASSERT_TRUE(map.insert(region(8, 8), wrap));
  EXPECT_EQ(all(map, region(0, 16)), (ids{wrap, wrap - 1}));
  // With an older id at the head of a chain, truncation would lose live entries.
  EXPECT_EQ(map.insert(region(0, 8), 7).error().code(), errc::invalid_argument);
}

TEST(TensorMap, SeesOneStorageBehindInteriorPointers) {  // 3.f; T8
  address_registry storages;
  ASSERT_TRUE(storages.add(memory, 4096));
  const auto region_of = [&](const std::byte* p, std::int64_t size) {
    const address_registry::place found = storages.find(p);
    return region(found.offset, size, found.base);
  };
  tensor_map map = basic();
  ASSERT_TRUE(map.insert(region_of(memory, 1024), 1));
  EXPECT_EQ(map.lookup(region_of(memory + 256, 64)), 1U);
  EXPECT_EQ(storages.add(memory + 100, 10).error().code(), errc::already_exists);
  EXPECT_EQ(storages.add(memory + 4000, 200).error().code(), errc::already_exists);
  EXPECT_FALSE(storages.add(memory, 0));
  // After it was released, the address belongs to another storage.
  const auto before = storages.find(memory).generation;
  ASSERT_TRUE(storages.remove(memory));
  EXPECT_FALSE(storages.remove(memory));
  EXPECT_EQ(storages.find(memory).generation, 0U);
  ASSERT_TRUE(storages.add(memory, 64));
  EXPECT_NE(storages.find(memory).generation, before);
  EXPECT_EQ(storages.find(memory + 64).base, nullptr);
}

TEST(LogicalTensor, HasABoxOfItsFirstAndLastByte) {  // R11-R13, R15
  const logical_tensor t = or_throw(logical_tensor::raw(memory, i64s{4, 8}, 4));
  EXPECT_EQ(t.box(), (bounding_box{0, 127}));
  EXPECT_EQ(t.raw_size(), 128);
  // The box includes the last element's bytes, which the specification's examples leave
  // out.
  const logical_tensor strided =
      or_throw(logical_tensor::strided(memory, 64, 0, i64s{4}, i64s{8}, 4));
  EXPECT_EQ(strided.box(), (bounding_box{0, 27}));
  const logical_tensor backwards =
      or_throw(logical_tensor::strided(memory, 64, 24, i64s{4}, i64s{-8}, 4));
  EXPECT_EQ(backwards.box(), strided.box());
  EXPECT_FALSE(logical_tensor::strided(memory, 27, 0, i64s{4}, i64s{8}, 4));
}

TEST(LogicalTensor, OfNoElementsOverlapsNothingAndIsNotKept) {  // R13; CE6
  const logical_tensor empty =
      or_throw(logical_tensor::strided(memory, 64, 16, i64s{0}, i64s{4}, 4));
  const logical_tensor bytes =
      or_throw(logical_tensor::strided(memory, 64, 8, i64s{8}, i64s{1}, 1));
  EXPECT_EQ(empty.box(), std::nullopt);
  EXPECT_FALSE(boxes_overlap(empty, bytes));
  EXPECT_EQ(overlap_hybrid(empty, bytes), overlap::no);
  tensor_map_ex map = extended();
  ASSERT_TRUE(map.insert(empty, 1));
  EXPECT_EQ(map.linked(), 0U);
}

TEST(LogicalTensor, DerivesSixKinds) {  // R18, R19, R21, R22
  const logical_tensor t = or_throw(logical_tensor::raw(memory, i64s{4, 6}, 4));
  EXPECT_EQ(t.kind(), extraction::raw);
  const logical_tensor view = or_throw(t.view(i64s{1, 2}, i64s{2, 3}));
  EXPECT_EQ(view.kind(), extraction::shallow_view);
  EXPECT_EQ(view.storage_offset(), 24 + 8);
  EXPECT_EQ(view.base(), t.base());
  EXPECT_FALSE(view.is_contiguous());
  const logical_tensor turned = or_throw(t.transpose());
  EXPECT_EQ(turned.kind(), extraction::shallow_transpose);
  EXPECT_EQ(turned.shape()[0], 6);
  EXPECT_EQ(turned.strides()[0], 4);
  EXPECT_EQ(turned.storage_offset(), 0);
  EXPECT_EQ(or_throw(t.transpose(std::vector<int>{1, 0})).bytes(), turned.bytes());
  const logical_tensor flat = or_throw(t.reshape(i64s{24}));
  EXPECT_EQ(flat.kind(), extraction::shallow_reshape);
  const logical_tensor copy = or_throw(t.clone(other_memory));
  EXPECT_EQ(copy.kind(), extraction::deep_view);
  EXPECT_TRUE(copy.is_deep_copy());
  EXPECT_EQ(copy.storage_offset(), 0);
  EXPECT_EQ(overlap_hybrid(copy, t), overlap::no);
  const logical_tensor packed = or_throw(view.contiguous(other_memory));
  EXPECT_EQ(packed.kind(), extraction::deep_contiguous);
  EXPECT_TRUE(packed.is_contiguous());
  // The tensor is row-major already, so `contiguous` returns an alias, not a deep copy.
  const logical_tensor alias = or_throw(t.contiguous(other_memory));
  EXPECT_FALSE(alias.is_deep_copy());
  EXPECT_EQ(overlap_hybrid(alias, t), overlap::yes);
}

TEST(LogicalTensor, RefusesImpossibleViews) {  // R19, R20
  const logical_tensor t = or_throw(logical_tensor::raw(memory, i64s{4, 6}, 4));
  EXPECT_FALSE(t.view(i64s{3}, i64s{2}));
  EXPECT_FALSE(t.view(i64s{-1}, i64s{2}));
  EXPECT_FALSE(t.view(i64s{0, 0, 0}, i64s{1, 1, 1}));
  EXPECT_FALSE(t.reshape(i64s{5, 5}));
  EXPECT_FALSE(or_throw(t.transpose()).reshape(i64s{24}));
  EXPECT_FALSE(t.transpose(std::vector<int>{0, 0}));
  EXPECT_FALSE(t.transpose(std::vector<int>{0}));
  EXPECT_FALSE(t.clone(memory));
  EXPECT_FALSE(logical_tensor::raw(memory, i64s{-1}, 4));
  EXPECT_FALSE(logical_tensor::raw(memory, i64s{1, 1, 1, 1, 1, 1, 1, 1, 1}, 4));
  EXPECT_FALSE(logical_tensor::raw(memory, i64s{INT64_MAX, 8}, 4));
}

TEST(LogicalTensor, KeepsTheDimensionsThatAViewDoesNotName) {  // R20
  const logical_tensor t = or_throw(logical_tensor::raw(memory, i64s{4, 6}, 4));
  const logical_tensor rows = or_throw(t.view(i64s{1}, i64s{2}));
  ASSERT_EQ(rows.shape().size(), 2U);
  EXPECT_EQ(rows.shape()[1], 6);
  EXPECT_EQ(rows.box(), (bounding_box{24, 71}));
}

TEST(HybridOverlap, DistinguishesInterleavedElements) {  // R31, R34
  const auto strided = [](std::int64_t offset) {
    return or_throw(logical_tensor::strided(memory, 64, offset, i64s{4}, i64s{8}, 4));
  };
  EXPECT_TRUE(boxes_overlap(strided(0), strided(4)));
  EXPECT_EQ(overlap_hybrid(strided(0), strided(4)), overlap::no);
  // CE3: a part of one element.
  EXPECT_EQ(overlap_hybrid(strided(0), strided(2)), overlap::yes);
}

TEST(HybridOverlap, IsExactWhereTheGcdTestIsNot) {  // R32; CE1, CE2, CE4, CE5, CE7
  const auto one = [](std::int64_t offset, const i64s& shape, const i64s& strides,
                      std::int64_t size) {
    return or_throw(logical_tensor::strided(memory, 4096, offset, shape, strides, size));
  };
  EXPECT_EQ(overlap_hybrid(one(0, {3}, {6}, 1), one(4, {2}, {10}, 1)), overlap::no);
  EXPECT_EQ(overlap_hybrid(one(0, {16, 4}, {64, 4}, 4), one(32, {16, 4}, {64, 4}, 4)),
            overlap::no);
  EXPECT_EQ(overlap_hybrid(one(0, {8}, {4}, 4), one(2, {8}, {4}, 2)), overlap::yes);
  EXPECT_EQ(overlap_hybrid(one(0, {8}, {8}, 8), one(4, {8}, {8}, 4)), overlap::yes);
  EXPECT_EQ(overlap_hybrid(one(36, {7}, {28}, 4), one(60, {5}, {8}, 4)), overlap::yes);
}

TEST(HybridOverlap, TakesATransposedDenseTensorAsSimple) {  // 3.a
  const logical_tensor t = or_throw(logical_tensor::raw(memory, i64s{4, 6}, 4));
  EXPECT_TRUE(or_throw(t.transpose()).is_simple());
  EXPECT_FALSE(or_throw(t.transpose()).is_contiguous());
}

TEST(TensorMapEx, FindsProducersThroughViews) {  // R2, R3, R33, R36, R37
  tensor_map_ex map = extended();
  const logical_tensor output = or_throw(logical_tensor::raw(memory, i64s{16, 16}, 4));
  ASSERT_TRUE(map.insert(output, 7));
  EXPECT_EQ(map.lookup(or_throw(output.view(i64s{4, 4}, i64s{8, 8}))), 7U);
  EXPECT_EQ(map.lookup(or_throw(output.transpose())), 7U);
  EXPECT_EQ(map.lookup(or_throw(output.reshape(i64s{256}))), 7U);
  EXPECT_EQ(map.lookup(or_throw(output.clone(other_memory))), std::nullopt);
}

/// The engine's index behind the interface of the specification's map.
class indexed_map {
 public:
  explicit indexed_map(std::uint32_t max_accesses) : map_(max_accesses) {
    map_.add_storage(0);
  }
  result<void> insert(const logical_tensor& key, task_id task) {
    if (!key.bytes().empty()) {
      map_.insert(key.bytes(), true, task);
      tasks_.push_back(task);
    }
    return {};
  }
  void lookup_all(const logical_tensor& key, std::vector<task_id>& out) {
    const auto first = static_cast<std::ptrdiff_t>(out.size());
    if (!key.bytes().empty()) {
      map_.conflicts(key.bytes(), true,
                     [&](access_ref, const access_entry& e) { out.push_back(e.task); });
    }
    std::sort(out.begin() + first, out.end(), std::greater<>());
    out.erase(std::unique(out.begin() + first, out.end()), out.end());
  }
  void retire_before(task_id task) {
    while (gone_ < tasks_.size() && tasks_[gone_] < task) {
      map_.retire(1, 0);
      ++gone_;
    }
  }

 private:
  dependency_map map_;
  std::vector<task_id> tasks_;
  std::size_t gone_ = 0;
};
static_assert(producer_finder<indexed_map, logical_tensor>);

/// Tests that both maps have to pass.
template <class Map>
class ProducerFinder : public testing::Test {
 public:
  static Map make() {
    if constexpr (std::is_same_v<Map, indexed_map>) {
      return indexed_map(8192);
    } else {
      return or_throw(Map::create({64, 8192, base_hash::fibonacci}));
    }
  }
};
using finders = testing::Types<tensor_map_ex, indexed_map>;
TYPED_TEST_SUITE(ProducerFinder, finders);

TYPED_TEST(ProducerFinder, EqualsBruteForceOverRandomViews) {
  const std::uint64_t seed = 41;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  dice d(seed);
  TypeParam map = TestFixture::make();
  struct known {
    task_id task;
    test::byte_set bytes;
  };
  std::vector<known> live;
  const storage s{{0, 1}, nullptr, 600};
  task_id next = 1;
  for (int step = 0; step < 6000; ++step) {
    const tensor t = test::random_view(
        d, s, test::all_view_classes[static_cast<std::size_t>(step % 5)]);
    const logical_tensor key = or_throw(
        logical_tensor::strided(memory, s.size, t.offset(), t.shape(), t.strides(),
                                static_cast<std::int64_t>(info_of(t.type()).size)));
    const test::byte_set bytes = test::bytes_in(t);
    if (d.one_in(2)) {
      ASSERT_TRUE(map.insert(key, next));
      live.push_back({next++, bytes});
      if (live.size() > 60) {
        map.retire_before(live[5].task);
        live.erase(live.begin(), live.begin() + 5);
      }
      continue;
    }
    ids expected;
    for (std::size_t i = live.size(); i-- > 0;) {
      if ((live[i].bytes & bytes).any()) {
        expected.push_back(live[i].task);
      }
    }
    ids found;
    map.lookup_all(key, found);
    ASSERT_EQ(found, expected) << "step " << step;
  }
}

}  // namespace
}  // namespace weir::runtime
