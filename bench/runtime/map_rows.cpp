// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about the dependency map and the exact overlap decision.
#include <vector>

#include "clean.hpp"
#include "map/dependency_map.hpp"
#include "rows.hpp"
#include "runtime/random_views.hpp"

namespace weir::bench {
namespace {

using namespace weir::runtime;
using test::i64s;

constexpr std::int64_t tile = 1024;
constexpr std::size_t repeats = 15;

footprint view(std::int64_t offset, const i64s& shape, const i64s& strides,
               std::int64_t size) {
  return or_throw(footprint::of_view({0, 1}, offset, shape, strides, size));
}

/// Returns the nanoseconds per operation of a run over `count` of them: the median of the
/// processor time of quiet samples.
template <class F>
double median_ns(std::int64_t count, F&& run) {
  return quiet_median(1, repeats, [&] { return thread_seconds_of(run); }) * 1e9 /
         static_cast<double>(count);
}

/// A map that contains `live` written tiles of one tensor.
struct live_tiles {
  explicit live_tiles(std::uint32_t live) : map(live * 2) {
    map.add_storage(0);
    for (std::uint32_t i = 0; i < live; ++i) {
      map.insert(region(i), true, i + 1);
    }
  }
  /// Returns tile i. Only two numbers change from tile to tile, as for a submitter that
  /// has a footprint at hand.
  const footprint& region(std::uint32_t i) {
    now.lo = i * tile;
    now.hi = now.lo + tile;
    return now;
  }
  dependency_map map;
  footprint now = view(0, {tile}, {1}, 1);
};

/// Returns the cost of one look-up with one hit, while going through the tiles in steps.
double lookup_ns(std::uint32_t live, std::uint32_t step) {
  live_tiles t(live);
  constexpr std::int64_t count = 20'000;
  task_id sum = 0;
  const double ns = median_ns(count, [&] {
    std::uint32_t index = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      index = (index + step) & (live - 1);
      t.map.conflicts(t.region(index), true,
                      [&](access_ref, const dependency_map::entry& e) { sum += e.task; });
    }
  });
  keep(sum);
  return ns;
}

/// Returns the times for adding, and for retiring, 512 accesses of one task each beside
/// 1024 live ones.
std::pair<double, double> insert_and_retire_ns() {
  constexpr std::uint32_t live = 1024;
  constexpr std::uint32_t batch = 512;
  live_tiles t(live);
  double insert = 1e30;
  double retire = 1e30;
  std::uint32_t next = live;
  for (int i = 0; i < 1000; ++i) {
    if (i % 100 == 0) {
      wait_until_clean(1);
    }
    insert = std::min(insert, seconds_of([&] {
                        for (std::uint32_t k = 0; k < batch; ++k) {
                          t.map.insert(t.region((next + k) % (4 * live)), true, next + k);
                        }
                      }));
    next += batch;
    retire = std::min(retire, seconds_of([&] {
                        for (std::uint32_t k = 0; k < batch; ++k) {
                          t.map.retire(1, 0);
                        }
                      }));
  }
  return {insert * 1e9 / batch, retire * 1e9 / batch};
}

/// Returns the nanoseconds per overlap decision over all pairs of some views.
double exact_ns(const std::vector<footprint>& views) {
  constexpr std::int64_t rounds = 200;
  std::uint64_t found = 0;
  const double ns =
      median_ns(rounds * static_cast<std::int64_t>(views.size() * views.size()), [&] {
        for (std::int64_t r = 0; r < rounds; ++r) {
          for (const footprint& a : views) {
            for (const footprint& b : views) {
              found += static_cast<std::uint64_t>(decide_overlap(a, b));
            }
          }
        }
      });
  keep(found);
  return ns;
}

/// Returns column tiles of one matrix, which all interleave.
std::vector<footprint> same_pitch() {
  std::vector<footprint> out;
  for (std::int64_t i = 0; i < 16; ++i) {
    out.push_back(view(i % 4 * 4096 + i * 64, {16, 16}, {4096, 4}, 4));
  }
  return out;
}

/// Returns strided rows whose pitches have little in common.
std::vector<footprint> other_pitch() {
  std::vector<footprint> out;
  for (std::int64_t i = 0; i < 16; ++i) {
    out.push_back(view(i * 52, {100 + i}, {4096 - i * 116}, 8));
  }
  return out;
}

/// Counts wrong answers on random views, compared with sets of bytes. The answer "maybe"
/// is not wrong.
double false_answers() {
  test::dice d(20260130);
  std::int64_t wrong = 0;
  for (int round = 0; round < 500; ++round) {
    const storage s{{0, 1}, nullptr, d.in(100, 700)};
    std::vector<footprint> views;
    std::vector<test::byte_set> sets;
    for (int i = 0; i < 50; ++i) {
      const auto kind = test::all_view_classes[static_cast<std::size_t>(round % 5)];
      const tensor t = test::random_view(d, s, kind);
      views.push_back(t.bytes());
      sets.push_back(test::bytes_in(t));
    }
    for (std::size_t i = 0; i < views.size(); ++i) {
      for (std::size_t k = 0; k < views.size(); ++k) {
        const overlap answer = decide_overlap(views[i], views[k]);
        const bool meet = (sets[i] & sets[k]).any();
        wrong += (answer == overlap::yes && !meet) || (answer == overlap::no && meet);
      }
    }
  }
  return static_cast<double>(wrong);
}

}  // namespace

void add_map_rows(program& bench) {
  bench.add("insert_ns", "ns", at_most(6), [] { return insert_and_retire_ns().first; });
  bench.add("retire_ns", "ns", at_most(3), [] { return insert_and_retire_ns().second; });
  bench.add("lookup_8_ns", "ns", at_most(6), [] { return lookup_ns(8, 3); });
  bench.add("lookup_1k_ns", "ns", at_most(25), [] { return lookup_ns(1024, 389); });
  bench.add("lookup_64k_ns", "ns", at_most(25), [] { return lookup_ns(65536, 1); });
  bench.add("lookup_64k_scattered_ns", "ns", no_bar,
            [] { return lookup_ns(65536, 25173); });
  bench.add("exact_same_ns", "ns", at_most(10), [] { return exact_ns(same_pitch()); });
  bench.add("exact_other_ns", "ns", at_most(70), [] { return exact_ns(other_pitch()); });
  bench.add("overlap_false", "answers", at_most(0), [] { return false_answers(); });
}

}  // namespace weir::bench
