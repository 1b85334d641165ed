// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests crashes during writes to a volume: every state that unordered, torn writes
/// between two syncs may leave, and failures of single calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "storage/hn4/support.hpp"
#include "weir/storage/hn4_check.hpp"

namespace weir::storage::test {
namespace {

/// A sector that was written.
struct written {
  std::uint64_t offset = 0;
  byte_vector bytes;
};

/// The sectors that were written between two syncs. The device may have made any subset
/// of them durable.
using period = std::vector<written>;

/// Records the sectors of every write, and begins a new period at every sync.
class recording_device final : public borrowed_device {
 public:
  using borrowed_device::borrowed_device;

  result<void> write(std::uint64_t offset, bytes_view from) override {
    for (std::uint64_t start = offset; start < offset + from.size();) {
      const std::uint64_t end =
          std::min(offset + from.size(), align_down(start, sector_bytes) + sector_bytes);
      const bytes_view piece = from.subspan(static_cast<std::size_t>(start - offset),
                                            static_cast<std::size_t>(end - start));
      periods->back().push_back({start, byte_vector(piece.begin(), piece.end())});
      start = end;
    }
    return borrowed_device::write(offset, from);
  }
  result<void> sync() override {
    periods->emplace_back();
    return {};
  }

  std::vector<period>* periods = nullptr;
};

/// Fails one call, counted down from a number. A failed write moves half of its sectors.
class failing_device final : public borrowed_device {
 public:
  failing_device(block_device& to, int& calls_left)
      : borrowed_device(to), calls_left_(calls_left) {}

  result<void> write(std::uint64_t offset, bytes_view from) override {
    if (calls_left_-- == 0) {
      // The first half arrives, in whole sectors, as on real devices.
      const std::uint64_t half = align_down(offset + from.size() / 2, sector_bytes);
      const std::uint64_t end = std::max(offset, half);
      WEIR_CHECK(borrowed_device::write(
          offset, from.first(static_cast<std::size_t>(end - offset))));
      return error(errc::io, "injected failure of a write");
    }
    return borrowed_device::write(offset, from);
  }
  result<void> sync() override {
    if (calls_left_-- == 0) {
      return error(errc::io, "injected failure of a sync");
    }
    return {};
  }

 private:
  int& calls_left_;
};

/// A recorded operation: the volume before and after it, the streams, and the writes.
struct story {
  std::unique_ptr<memory_device> before;
  std::unique_ptr<memory_device> after;
  std::string tag;
  byte_vector old_bytes, new_bytes, other;
  std::vector<period> periods{period()};
};

/// Records the store of a tag over an older one; `old_shards` is 0 if there is none.
story record(const std::string& tag, std::uint32_t old_shards, std::uint32_t new_shards) {
  story s;
  s.tag = tag;
  s.before = formatted_small();
  s.other = noise(7000, 1);
  hn4_volume first = or_throw(open_on(*s.before, device_mode::writable));
  or_throw(first.put("other", s.other, fixed_put()));
  if (old_shards != 0) {
    s.old_bytes = noise(30'000, 2);
    or_throw(first.put(tag, s.old_bytes, fixed_put(old_shards)));
  }
  s.new_bytes = noise(25'000, 3);
  s.after = s.before->clone();
  auto recorder = std::make_unique<recording_device>(*s.after);
  recorder->periods = &s.periods;
  hn4_volume second =
      or_throw(hn4_volume::open(std::move(recorder), device_mode::writable));
  or_throw(second.put(tag, s.new_bytes, fixed_put(new_shards)));
  return s;
}

/// Number of crash states by what they hold.
struct tally {
  std::size_t old_ones = 0, new_ones = 0, absent = 0, bad = 0;
};

/// Expects exactly this many tags, no warning, and no finding of a check.
void expect_sound(memory_device& device, std::size_t tags) {
  const hn4_volume volume = or_throw(open_on(device));
  const auto listed = or_throw(volume.tags());
  EXPECT_EQ(listed.size(), tags);
  for (const hn4_tag& tag : listed) {
    EXPECT_TRUE(or_throw(volume.stream(tag.name)).warnings().empty()) << tag.name;
  }
  EXPECT_TRUE(or_throw(volume.damaged_tags()).empty());
  const auto report = or_throw(hn4_check(std::make_unique<borrowed_device>(device)));
  EXPECT_EQ(report.tags, tags);
  for (const hn4_finding& f : report.findings) {
    ADD_FAILURE() << f.kind << " at byte " << f.offset << ": " << f.text;
  }
}

/// Expects that a crash state holds the old or the new stream, the new one if the store
/// was acknowledged, and that the rest of the volume is sound. Counts the state.
void judge(const story& s, memory_device& device, bool acknowledged, tally& t) {
  const auto bytes = read_tag(device, s.tag);
  if (bytes && *bytes == s.new_bytes) {
    t.new_ones += 1;
  } else if (bytes && *bytes == s.old_bytes && !acknowledged) {
    t.old_ones += 1;
  } else if (!bytes && s.old_bytes.empty() && !acknowledged &&
             bytes.error().code() == errc::not_found) {
    t.absent += 1;
  } else {
    t.bad += 1;
    ADD_FAILURE() << (bytes ? "wrong bytes" : bytes.error().message());
  }
  const auto other = read_tag(device, "other");
  EXPECT_TRUE(other && *other == s.other);
  expect_sound(device, bytes ? 2 : 1);
}

/// Expects that the volume is still usable: the tag can be stored again, its neighbour is
/// unchanged, and a further store works.
void go_on(const story& s, memory_device& device) {
  const byte_vector third = noise(41'000, 4);
  hn4_volume volume = or_throw(open_on(device, device_mode::writable));
  or_throw(volume.put(s.tag, third, fixed_put(2)));
  EXPECT_TRUE(or_throw(read_tag(device, s.tag)) == third);
  EXPECT_TRUE(or_throw(read_tag(device, "other")) == s.other);
  EXPECT_TRUE(or_throw(or_throw(open_on(device)).stream(s.tag)).warnings().empty());
  expect_sound(device, 2);
}

/// Writes a recorded sector.
void apply(memory_device& device, const written& w) {
  or_throw(device.write(w.offset, w.bytes));
}

/// The sectors of a period between two syncs: true for each that a crash kept.
using subset = std::vector<bool>;

/// Returns subsets of `n` sectors: none, all, prefixes, all but one, only one, and random
/// ones.
std::vector<subset> subsets(std::size_t n, std::uint64_t seed) {
  std::vector<subset> all{subset(n, false), subset(n, true)};
  for (std::size_t i = 0; i<n; i += n> 40 ? 1 + n / 40 : 1) {
    subset prefix(n, false), without(n, true), alone(n, false);
    std::fill_n(prefix.begin(), i, true);
    without[i] = false;
    alone[i] = true;
    all.insert(all.end(), {prefix, without, alone});
  }
  const philox random(seed, n);
  for (std::uint64_t j = 0; j < 60; ++j) {
    subset some(n, false);
    for (std::size_t i = 0; i < n; ++i) {
      some[i] = (random.bits(j * n + i) & 1) != 0;
    }
    all.push_back(some);
  }
  return all;
}

/// Visits crash states in every period of a store. Every fifth volume is also written
/// again.
tally enumerate(const story& s, std::uint64_t seed) {
  tally t;
  const std::unique_ptr<memory_device> durable = s.before->clone();
  // The third sync makes the live entries durable. From then on only the new stream is
  // right.
  for (std::size_t p = 0; p < s.periods.size(); ++p) {
    std::size_t number = 0;
    for (const subset& some : subsets(s.periods[p].size(), seed)) {
      const auto device = durable->clone();
      for (std::size_t i = 0; i < some.size(); ++i) {
        if (some[i]) {
          apply(*device, s.periods[p][i]);
        }
      }
      judge(s, *device, p >= 3, t);
      if (number++ % 5 == 0) {
        go_on(s, *device);
      }
    }
    for (const written& w : s.periods[p]) {
      apply(*durable, w);
    }
  }
  return t;
}

/// A tag with its number of shards before and after.
struct shape {
  const char* tag;
  std::uint32_t old_shards, new_shards;
};

class Hn4Crash : public testing::TestWithParam<shape> {};

TEST_P(Hn4Crash, LeavesTheOldOrTheNewStream) {
  constexpr std::uint64_t seed = 5;
  RecordProperty("seed", static_cast<int>(seed));
  const shape p = GetParam();
  const story s = record(p.tag, p.old_shards, p.new_shards);
  ASSERT_EQ(s.periods.size(), p.old_shards != 0 ? 6U : 4U)
      << "there is one period per sync and an empty one at the end";
  const tally t = enumerate(s, seed);
  EXPECT_EQ(t.bad, 0U);
  EXPECT_GT(t.new_ones, 0U);
  EXPECT_GT(p.old_shards != 0 ? t.old_ones : t.absent, 100U);
}

TEST_P(Hn4Crash, AFailedCallLeavesTheOldOrTheNewStream) {
  const shape p = GetParam();
  const story s = record(p.tag, p.old_shards, p.new_shards);
  tally t;
  bool finished = false;
  for (int n = 0; !finished; ++n) {
    const auto device = s.before->clone();
    int calls_left = n;
    hn4_volume volume = or_throw(hn4_volume::open(
        std::make_unique<failing_device>(*device, calls_left), device_mode::writable));
    const auto put = volume.put(p.tag, s.new_bytes, fixed_put(p.new_shards));
    finished = put.has_value();
    if (!put) {
      EXPECT_EQ(put.error().code(), errc::io);
      EXPECT_EQ(put.error().root().text().substr(0, 8), "injected");
      EXPECT_FALSE(volume.put("again", s.new_bytes))
          << "writing is refused because the state of the device is unknown";
    }
    judge(s, *device, finished, t);
    go_on(s, *device);
  }
  EXPECT_EQ(t.bad, 0U);
  EXPECT_GT(t.new_ones, 0U);
}

/// Shows a parameter in the names of failures.
void PrintTo(const shape& s, std::ostream* to) {
  *to << s.tag << ": " << s.old_shards << " shards, then " << s.new_shards;
}

INSTANTIATE_TEST_SUITE_P(Shapes, Hn4Crash,
                         testing::Values(shape{"prose", 0, 1}, shape{"prose", 1, 1},
                                         shape{"prose", 2, 3}, shape{"prose", 3, 1},
                                         shape{"a tag whose name does not fit inline", 2,
                                               2}));

/// Records one operation on a volume that holds "other" and `tag`.
story record_operation(const std::string& tag,
                       const std::function<result<void>(hn4_volume&)>& operation) {
  story s;
  s.tag = tag;
  s.before = formatted_small();
  s.other = noise(7000, 1);
  s.old_bytes = noise(30'000, 2);
  hn4_volume first = or_throw(open_on(*s.before, device_mode::writable));
  or_throw(first.put("other", s.other, fixed_put()));
  or_throw(first.put(tag, s.old_bytes, fixed_put(3)));
  s.after = s.before->clone();
  auto recorder = std::make_unique<recording_device>(*s.after);
  recorder->periods = &s.periods;
  hn4_volume second =
      or_throw(hn4_volume::open(std::move(recorder), device_mode::writable));
  or_throw(operation(second));
  return s;
}

/// Visits crash states. `decided` is the number of syncs after which only the new state
/// is right. An empty `now` means that the tag does not exist.
void enumerate_operation(const story& s, std::size_t decided,
                         const std::function<bool(const result<byte_vector>&)>& is_new) {
  const std::unique_ptr<memory_device> durable = s.before->clone();
  std::size_t old_ones = 0, new_ones = 0;
  for (std::size_t p = 0; p < s.periods.size(); ++p) {
    for (const subset& some : subsets(s.periods[p].size(), 5)) {
      const auto device = durable->clone();
      for (std::size_t i = 0; i < some.size(); ++i) {
        if (some[i]) {
          apply(*device, s.periods[p][i]);
        }
      }
      const auto now = read_tag(*device, s.tag);
      const bool is_old = now && *now == s.old_bytes && p < decided;
      ASSERT_TRUE(is_old || is_new(now))
          << "after " << p << " syncs: " << (now ? "wrong bytes" : now.error().message());
      (is_old ? old_ones : new_ones) += 1;
      EXPECT_TRUE(or_throw(read_tag(*device, "other")) == s.other);
      expect_sound(*device, now ? 2 : 1);
    }
    for (const written& w : s.periods[p]) {
      apply(*durable, w);
    }
  }
  EXPECT_GT(old_ones, 5U);
  EXPECT_GT(new_ones, 20U);
}

TEST(Hn4CrashOf, AnAppendLeavesTheOldOrTheLongerStream) {
  const byte_vector more = noise(25'000, 3);
  for (const std::string tag : {"prose", "a tag whose name does not fit inline"}) {
    const story s = record_operation(tag, [&](hn4_volume& v) {
      hn4_put_options put = fixed_put(2);
      put.existing = hn4_existing::append;
      return v.put(tag, more, put);
    });
    byte_vector longer = s.old_bytes;
    append(longer, more);
    enumerate_operation(s, 3, [&](const auto& now) { return now && *now == longer; });
  }
}

TEST(Hn4CrashOf, ARemovalLeavesAllOfATagOrNothing) {
  for (const std::string tag : {"prose", "a tag whose name does not fit inline"}) {
    const story s = record_operation(tag, [&](hn4_volume& v) { return v.remove(tag); });
    enumerate_operation(s, 1, [](const auto& now) {
      return !now && now.error().code() == errc::not_found;
    });
  }
}

}  // namespace
}  // namespace weir::storage::test
