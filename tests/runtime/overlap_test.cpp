// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests footprints, the decision on overlap and containment against brute force over
/// sets of bytes.
#include <gtest/gtest.h>

#include "random_views.hpp"
#include "support/case_count.hpp"
#include "tensor/progression.hpp"
#include "weir/runtime/tensor.hpp"

namespace weir::runtime {
namespace {

using test::bytes_in;
using test::dice;
using test::i64s;

const storage_id id{0, 1};

/// Returns the footprint of a view of the test's storage.
footprint view(std::int64_t offset, const i64s& shape, const i64s& strides,
               std::int64_t size) {
  return or_throw(footprint::of_view(id, offset, shape, strides, size));
}

/// Checks the answers for a pair of views. Counts `maybe` instead of refusing it.
void check_pair(const footprint& a, const footprint& b, bool meet, bool inside,
                int& maybe) {
  const overlap answer = decide_overlap(a, b);
  if (answer == overlap::maybe) {
    ++maybe;
  } else {
    ASSERT_EQ(answer == overlap::yes, meet);
  }
  if (covers(a, b)) {
    ASSERT_TRUE(inside);
  }
}

TEST(Footprint, CoversTheBytesOfItsView) {
  const std::uint64_t seed = 20260101;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  dice d(seed);
  const storage s{id, nullptr, 700};
  for (int i = 0; i < 50'000; ++i) {
    const tensor t =
        test::random_view(d, s, test::all_view_classes[static_cast<std::size_t>(i % 5)]);
    ASSERT_EQ(bytes_in(t.bytes()), bytes_in(t)) << "view " << i;
    const footprint& f = t.bytes();
    for (int k = 1; k < f.depth; ++k) {
      ASSERT_GT(f.steps[static_cast<std::size_t>(k - 1)].stride,
                f.steps[static_cast<std::size_t>(k)].stride);
    }
  }
}

TEST(Footprint, IsTheSameForEveryWayToNameTheSameBytes) {
  const footprint dense = view(0, {4, 8}, {32, 4}, 4);
  EXPECT_TRUE(dense.dense());
  EXPECT_EQ(view(0, {8, 4}, {4, 32}, 4), dense);                   // transposed
  EXPECT_EQ(view(124, {32}, {-4}, 4), dense);                      // reversed
  EXPECT_EQ(view(0, {16}, {8}, 8), dense);                         // another type
  EXPECT_EQ(view(0, {3, 4, 8}, {0, 32, 4}, 4), dense);             // broadcast
  EXPECT_EQ(view(0, {4, 1, 8}, {32, 7777, 4}, 4), dense);          // an extent of 1
  EXPECT_EQ(view(0, {2, 4}, {64, 16}, 4), view(0, {8}, {16}, 4));  // one progression
  EXPECT_EQ(view(16, {0}, {4}, 4), view(0, {4, 0}, {8, 8}, 2));    // nothing
}

TEST(Footprint, RejectsViewsBeyond63Bits) {
  const auto code = [](std::int64_t offset, const i64s& shape, const i64s& strides) {
    const auto r = footprint::of_view(id, offset, shape, strides, 4);
    return r ? errc::internal : r.error().code();
  };
  EXPECT_EQ(code(-1, {1}, {4}), errc::out_of_range);
  EXPECT_EQ(code(8, {4}, {-4}), errc::out_of_range);
  EXPECT_EQ(code(0, {INT64_MAX}, {INT64_MAX}), errc::out_of_range);
  EXPECT_EQ(code(INT64_MAX - 2, {1}, {4}), errc::out_of_range);
  EXPECT_EQ(code(0, {2}, {INT64_MIN}), errc::out_of_range);
  EXPECT_EQ(code(0, {3, 3}, {INT64_MAX / 3, INT64_MAX / 3}), errc::out_of_range);
  EXPECT_EQ(code(INT64_MAX, {2}, {INT64_MIN}), errc::out_of_range);
  EXPECT_EQ(code(20, {3, 3}, {-8, -4}), errc::out_of_range);  // 4 bytes too low
  EXPECT_EQ(code(0, {-1}, {4}), errc::invalid_argument);
  EXPECT_EQ(code(0, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}),
            errc::invalid_argument);
  EXPECT_TRUE(footprint::of_view(id, INT64_MAX - 4, i64s{1}, i64s{4}, 4));
  EXPECT_TRUE(footprint::of_view(id, 24, i64s{3, 3}, i64s{-8, -4}, 4));
  EXPECT_EQ(view(8, {1, 2}, {INT64_MIN, 4}, 4), view(8, {2}, {4}, 4));
  EXPECT_TRUE(view(0, {0, 2}, {INT64_MAX, INT64_MAX}, 4).empty());
}

TEST(Overlap, AnswersCe1IndexBoundsExactly) {
  EXPECT_EQ(decide_overlap(view(0, {3}, {6}, 1), view(4, {2}, {10}, 1)), overlap::no);
}
TEST(Overlap, AnswersCe2ColumnTilesExactly) {
  const footprint left = view(0, {16, 4}, {64, 4}, 4);
  const footprint right = view(32, {16, 4}, {64, 4}, 4);
  EXPECT_EQ(decide_overlap(left, right), overlap::no);
}
TEST(Overlap, AnswersCe3PartialElementsExactly) {
  EXPECT_EQ(decide_overlap(view(0, {4}, {8}, 4), view(2, {4}, {8}, 4)), overlap::yes);
}
TEST(Overlap, AnswersCe4UpperHalvesOfWordsExactly) {
  EXPECT_EQ(decide_overlap(view(0, {8}, {4}, 4), view(2, {8}, {4}, 2)), overlap::yes);
}
TEST(Overlap, AnswersCe5ImaginaryPartsExactly) {
  const footprint whole = view(0, {8}, {8}, 8);
  const footprint imaginary = view(4, {8}, {8}, 4);
  const footprint real = view(0, {8}, {8}, 4);
  EXPECT_EQ(decide_overlap(whole, imaginary), overlap::yes);
  EXPECT_EQ(decide_overlap(real, imaginary), overlap::no);
}
TEST(Overlap, AnswersCe6EmptyTensorsExactly) {
  const footprint empty = view(16, {0}, {4}, 4);
  EXPECT_TRUE(empty.empty());
  EXPECT_EQ(decide_overlap(empty, view(8, {8}, {1}, 1)), overlap::no);
  EXPECT_EQ(decide_overlap(view(0, {64}, {1}, 1), empty), overlap::no);
  EXPECT_EQ(decide_overlap(empty, empty), overlap::no);
}
TEST(Overlap, AnswersCe7OneSharedByteExactly) {
  EXPECT_EQ(decide_overlap(view(36, {7}, {28}, 4), view(60, {5}, {8}, 4)), overlap::yes);
}
TEST(Overlap, AnswersTheWorkedExampleOfInterleavedElements) {
  EXPECT_EQ(decide_overlap(view(0, {4}, {8}, 4), view(4, {4}, {8}, 4)), overlap::no);
}

TEST(Overlap, IsNeverFoundBetweenStoragesOrGenerations) {
  const footprint a = view(0, {64}, {1}, 1);
  footprint b = a;
  b.id.generation = 2;
  EXPECT_EQ(decide_overlap(a, b), overlap::no);
  EXPECT_FALSE(covers(a, b));
}

TEST(Overlap, SaysMaybeOnlyWhenItsBudgetEnds) {
  // Adversarial strides: an exact answer takes more than 200,000 search nodes.
  const footprint hard = view(0, {1049, 1049, 1049}, {36674, 61119, 85569}, 1);
  const footprint byte =
      view(36674LL * 700 + 61119LL * 300 + 85569LL * 10 + 1, {1}, {1}, 1);
  EXPECT_EQ(decide_overlap(hard, byte, 0), overlap::maybe);
  EXPECT_NE(decide_overlap(hard, view(0, {1}, {1}, 1), 0), overlap::no);
  const footprint tile = view(0, {16, 4}, {64, 4}, 4);
  const footprint rows = view(4, {9}, {100}, 4);
  EXPECT_NE(decide_overlap(tile, rows, 1), overlap::maybe);
}

TEST(Overlap, HandlesFootprintsOfNearly63Bits) {
  const std::int64_t far = INT64_MAX / 2;
  const footprint wide = view(0, {2}, {far}, 4);
  EXPECT_EQ(decide_overlap(wide, view(far + 3, {1}, {1}, 1)), overlap::yes);
  EXPECT_EQ(decide_overlap(wide, view(far + 4, {1}, {1}, 1)), overlap::no);
  EXPECT_EQ(decide_overlap(wide, view(5, {2}, {far - 1}, 1)), overlap::no);
  EXPECT_EQ(decide_overlap(wide, view(1, {2, 2}, {far, 7}, 2)), overlap::yes);
  EXPECT_EQ(
      decide_overlap(view(2147483600, {4096}, {1}, 1), view(2147483648, {8}, {1}, 1)),
      overlap::yes);
}

TEST(Overlap, EqualsBruteForceOnAllSmallStridedPairs) {
  struct item {
    footprint f;
    std::uint64_t mask;
  };
  std::vector<item> all;
  for (std::int64_t size : {1, 2, 4, 8}) {
    for (std::int64_t offset = 0; offset < 12; ++offset) {
      for (std::int64_t stride = -6; stride <= 6; ++stride) {
        for (std::int64_t n = 0; n <= 4; ++n) {
          const footprint f = view(offset + 20, {n}, {stride}, size);
          all.push_back({f, bytes_in(f).to_ullong()});
        }
      }
    }
  }
  int maybe = 0;
  for (const item& a : all) {
    for (const item& b : all) {
      check_pair(a.f, b.f, (a.mask & b.mask) != 0, (b.mask & ~a.mask) == 0, maybe);
      if (HasFatalFailure()) {
        return;
      }
    }
  }
  EXPECT_EQ(maybe, 0);
}

/// Returns all slices of a dimension of four elements, as (start, stop, step).
std::vector<std::array<std::int64_t, 3>> all_slices() {
  std::vector<std::array<std::int64_t, 3>> out;
  for (std::int64_t step : {1, 2, 3, -1, -2}) {
    for (std::int64_t start = 0; start < 4; ++start) {
      for (std::int64_t n = 1; n <= 4; ++n) {
        const std::int64_t last = start + (n - 1) * step;
        if (last >= 0 && last < 4) {
          out.push_back({start, step > 0 ? last + 1 : last - 1, step});
        }
      }
    }
  }
  return out;
}

TEST(Overlap, EqualsBruteForceOnAllPairsOfViewsOfASmallMatrix) {
  const storage s{id, nullptr, 64};
  const tensor matrix = or_throw(tensor::over(s, dtype::fp32, i64s{4, 4}));
  struct item {
    footprint f;
    std::uint64_t mask;
  };
  std::vector<item> all;
  const auto add = [&](const tensor& t) {
    const std::uint64_t mask = bytes_in(t).to_ullong();
    for (const item& known : all) {
      if (known.mask == mask) {
        ASSERT_EQ(known.f, t.bytes());  // nested views: canonical form is unique
        return;
      }
    }
    all.push_back({t.bytes(), mask});
  };
  for (const dtype type : {dtype::fp32, dtype::int16}) {
    const tensor whole = or_throw(matrix.reinterpret(type));
    for (const auto& rows : all_slices()) {
      for (const auto& columns : all_slices()) {
        const tensor part = or_throw(or_throw(whole.slice(0, rows[0], rows[1], rows[2]))
                                         .slice(1, columns[0], columns[1], columns[2]));
        add(part);
        add(or_throw(part.transpose()));
        if (HasFatalFailure()) {
          return;
        }
      }
    }
  }
  int maybe = 0;
  for (const item& a : all) {
    for (const item& b : all) {
      check_pair(a.f, b.f, (a.mask & b.mask) != 0, (b.mask & ~a.mask) == 0, maybe);
      if (HasFatalFailure()) {
        return;
      }
    }
  }
  EXPECT_EQ(maybe, 0);
}

/// Views are drawn in groups and compared pairwise, so that the oracle enumerates each
/// view only once.
/// Returns the number of pairs for each class of views; WEIR_TEST_PAIRS overrides it.
std::int64_t random_pairs() {
  return static_cast<std::int64_t>(weir::test::number_or("WEIR_TEST_PAIRS", 210'000));
}

TEST(Overlap, EqualsBruteForceOnRandomPairs) {
  const std::uint64_t seed = weir::test::number_or("WEIR_TEST_SEED", 4242);
  SCOPED_TRACE(testing::Message() << "WEIR_TEST_SEED=" << seed);
  RecordProperty("seed", std::to_string(seed));
  constexpr std::size_t group = 40;
  dice d(seed);
  for (const test::view_class kind : test::all_view_classes) {
    int maybe = 0;
    std::int64_t pairs = 0;
    while (pairs < random_pairs()) {
      const storage s{id, nullptr, d.in(100, 700)};
      std::vector<footprint> views;
      std::vector<test::byte_set> sets;
      for (std::size_t i = 0; i < group; ++i) {
        const tensor t = test::random_view(d, s, kind);
        views.push_back(t.bytes());
        sets.push_back(bytes_in(t));
      }
      for (std::size_t i = 0; i < group; ++i) {
        for (std::size_t k = 0; k < group; ++k) {
          const auto common = sets[i] & sets[k];
          check_pair(views[i], views[k], common.any(), common == sets[k], maybe);
          if (HasFatalFailure()) {
            return;
          }
          ++pairs;
        }
      }
    }
    // Views that no chain of slices produces may exceed the budget occasionally.
    const bool by_hand = kind == test::view_class::as_strided;
    EXPECT_LE(maybe, pairs / (by_hand ? 100'000 : 1'000'000))
        << "class " << static_cast<int>(kind);
  }
}

TEST(Overlap, IsTheSameFromBothSides) {
  dice d(99);
  const storage s{id, nullptr, 2000};
  for (int i = 0; i < 20'000; ++i) {
    const auto kind = test::all_view_classes[static_cast<std::size_t>(i % 5)];
    const tensor a = test::random_view(d, s, kind);
    const tensor b = test::random_view(d, s, kind);
    ASSERT_EQ(decide_overlap(a.bytes(), b.bytes()), decide_overlap(b.bytes(), a.bytes()));
  }
}

TEST(Covers, FindsTilesInsideTilesOfOneParent) {
  const footprint rows = view(64, {3, 16}, {64, 4}, 4);  // whole rows: dense
  const footprint tile = view(64 + 8, {3, 8}, {64, 4}, 4);
  EXPECT_TRUE(covers(rows, tile));
  EXPECT_TRUE(covers(tile, tile));
  EXPECT_FALSE(covers(tile, rows));
  EXPECT_TRUE(covers(tile, view(64 + 8, {8}, {4}, 4)));           // one of its rows
  EXPECT_TRUE(covers(tile, view(64 + 12, {2, 3}, {128, 4}, 4)));  // every second row
  EXPECT_TRUE(covers(tile, view(64 + 12, {3, 3}, {64, 8}, 2)));   // steps inside a row
  EXPECT_FALSE(covers(tile, view(64 + 4, {3, 8}, {64, 4}, 4)));   // one column too far
  EXPECT_FALSE(covers(tile, view(64 + 8, {4, 8}, {64, 4}, 4)));   // one row too many
  EXPECT_FALSE(covers(tile, view(64 + 36, {2, 4}, {64, 4}, 4)));  // across the edge
  EXPECT_TRUE(covers(tile, view(0, {0}, {4}, 4)));
}

TEST(Progression, FindsTheFirstMultipleInAWindow) {
  for (std::int64_t modulus = 1; modulus <= 24; ++modulus) {
    for (std::int64_t step = 0; step < modulus; ++step) {
      for (std::int64_t low = 0; low < modulus; ++low) {
        for (std::int64_t high = low; high < modulus; ++high) {
          std::int64_t expected = -1;
          for (std::int64_t x = 0; x < modulus && expected < 0; ++x) {
            const std::int64_t r = step * x % modulus;
            expected = r >= low && r <= high ? x : -1;
          }
          ASSERT_EQ(first_landing(step, modulus, low, high), expected)
              << step << " mod " << modulus << " in [" << low << ", " << high << "]";
          const std::int64_t max = (low + high) % modulus;
          ASSERT_EQ(first_landing(step, modulus, low, high, max),
                    expected <= max ? expected : -1)
              << step << " mod " << modulus << " in [" << low << ", " << high
              << "] up to " << max;
        }
      }
    }
  }
}

TEST(Progression, FindsTheFirstMultipleWithModuliOf63Bits) {
  dice d(7);
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t modulus = d.in(std::int64_t{1} << 61, INT64_MAX);
    const std::int64_t step = d.in(1, modulus - 1);
    const std::int64_t low = d.in(1, modulus - 1);
    const std::int64_t high =
        low + std::min(modulus - 1 - low, d.in(0, std::int64_t{1} << d.in(0, 60)));
    const std::int64_t x = first_landing(step, modulus, low, high);
    if (x >= 0) {
      __extension__ using wide = __int128;
      const auto r = static_cast<std::int64_t>(static_cast<wide>(step) * x % modulus);
      ASSERT_TRUE(r >= low && r <= high);
    }
  }
}

}  // namespace
}  // namespace weir::runtime
