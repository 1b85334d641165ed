// SPDX-License-Identifier: Apache-2.0
/// @file
/// The ledger of valid copies against one number per byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "random_views.hpp"
#include "support/case_count.hpp"
#include "weir/runtime/copy_ledger.hpp"

namespace weir::runtime {
namespace {

using test::byte_set;
using test::dice;

constexpr std::int64_t ledger_size = 200;
constexpr storage_id ledger_storage{0, 1};

/// Holders that tests ask for: a few with small numbers and some far away.
constexpr std::array<holder_id, 7> asked_holders{0,
                                                 1,
                                                 2,
                                                 3,
                                                 copy_ledger::max_holders - 3,
                                                 copy_ledger::max_holders - 2,
                                                 copy_ledger::max_holders - 1};

/// Returns the mask of the asked holders from `first` to `last`.
std::uint64_t mask_of(holder_id first, holder_id last) {
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < asked_holders.size(); ++i) {
    if (first <= asked_holders.at(i) && asked_holders.at(i) <= last) {
      mask |= std::uint64_t{1} << i;
    }
  }
  return mask;
}

/// The holders of one byte, and which of them wrote it.
struct byte_state {
  std::uint64_t holders = mask_of(0, 0);
  holder_id writer = 0;
  friend bool operator==(const byte_state&, const byte_state&) = default;
};
using state_of_bytes = std::array<byte_state, ledger_size>;

/// Returns a dense footprint.
footprint block(std::int64_t lo, std::int64_t hi) {
  return or_throw(footprint::of_view(ledger_storage, lo,
                                     std::array<std::int64_t, 1>{hi - lo},
                                     std::array<std::int64_t, 1>{1}, 1));
}

/// Returns `rows` blocks of `run` bytes at distances of `stride`.
footprint rows_of(std::int64_t lo, std::int64_t rows, std::int64_t stride,
                  std::int64_t run) {
  return or_throw(footprint::of_view(ledger_storage, lo,
                                     std::array<std::int64_t, 1>{rows},
                                     std::array<std::int64_t, 1>{stride}, run));
}

/// Number of segments that the bytes need.
std::size_t segments_in(const state_of_bytes& all) {
  std::size_t count = 1;
  for (std::size_t i = 1; i < all.size(); ++i) {
    count += all[i] != all[i - 1] ? 1 : 0;
  }
  return count;
}

/// Compares the pieces that a holder lacks with the bytes that it lacks.
void check_missing(const copy_ledger& ledger, const state_of_bytes& all,
                   const footprint& bytes, holder_id holder) {
  std::vector<missing_piece> pieces;
  ledger.find_missing(bytes, holder, pieces);
  byte_set expected;
  for (std::size_t i = 0; i < all.size(); ++i) {
    expected[i] =
        test::bytes_in(bytes)[i] && (all[i].holders & mask_of(holder, holder)) == 0;
  }
  byte_set found;
  for (const missing_piece& piece : pieces) {
    const byte_set one = test::bytes_in(piece.bytes);
    EXPECT_TRUE((found & one).none());
    found |= one;
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_TRUE(!one[i] || all[i].writer == piece.from);
    }
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(ledger.holds(bytes, holder), expected.none());
}

/// Returns a holder, mostly one with a small number.
holder_id any_holder(dice& d) {
  return asked_holders.at(
      static_cast<std::size_t>(d.one_in(9) ? d.in(4, 6) : d.in(0, 3)));
}

/// Changes ledgers and the state of bytes in the same way.
void change_at_random(dice& d, const footprint& bytes,
                      const std::vector<copy_ledger*>& ledgers, state_of_bytes& all) {
  const holder_id first = any_holder(d);
  // Between these two are no holders that are not asked for, by which segments could
  // differ.
  const holder_id last = d.one_in(4) && first < 4
                             ? std::max(first, static_cast<holder_id>(d.in(0, 3)))
                             : first;
  const bool writes = first == last && d.one_in(2);
  for (copy_ledger* const one : ledgers) {
    writes ? one->wrote(bytes, first) : one->copied(bytes, first, last);
  }
  const byte_set changed = test::bytes_in(bytes);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (changed[i]) {
      all[i].holders = (writes ? 0 : all[i].holders) | mask_of(first, last);
      all[i].writer = writes ? first : all[i].writer;
    }
  }
  if (d.one_in(20)) {
    for (copy_ledger* const one : ledgers) {
      one->forget_copies();
    }
    for (byte_state& one : all) {
      one.holders = mask_of(one.writer, one.writer);
    }
  }
}

TEST(CopyLedger, EqualsOneNumberPerByte) {
  dice d(71);
  const storage s{ledger_storage, nullptr, ledger_size};
  for (std::uint64_t program = 0; program < test::case_count("WEIR_TEST_PLACED", 150);
       ++program) {
    copy_ledger ledger(ledger_size, 0);
    state_of_bytes all;
    for (int step = 0; step < 40; ++step) {
      const auto kind = test::all_view_classes[static_cast<std::size_t>(d.in(0, 4))];
      const footprint bytes = test::random_view(d, s, kind).bytes();
      check_missing(ledger, all, bytes, any_holder(d));
      change_at_random(d, bytes, {&ledger}, all);
      ASSERT_EQ(ledger.segments(), segments_in(all));
      ASSERT_FALSE(testing::Test::HasFailure()) << "program " << program;
    }
  }
}

/// Returns the pieces of a holder, without those that do not concern the viewer.
std::vector<missing_piece> pieces_seen(const copy_ledger& ledger, const footprint& bytes,
                                       holder_id holder, holder_id viewer) {
  std::vector<missing_piece> pieces;
  ledger.find_missing(bytes, holder, pieces);
  if (holder != viewer) {
    std::erase_if(pieces, [&](const missing_piece& one) { return one.from != viewer; });
  }
  return pieces;
}

TEST(CopyLedger, AViewerFindsTheSamePiecesWithFewerSegments) {
  dice d(72);
  const storage s{ledger_storage, nullptr, ledger_size};
  std::size_t segments = 0;
  std::size_t segments_of_viewer = 0;
  for (std::uint64_t program = 0; program < test::case_count("WEIR_TEST_PLACED", 150);
       ++program) {
    const holder_id viewer = any_holder(d);
    copy_ledger whole(ledger_size, 0);
    copy_ledger own(ledger_size, 0, viewer);
    state_of_bytes all;
    for (int step = 0; step < 40; ++step) {
      const auto kind = test::all_view_classes[static_cast<std::size_t>(d.in(0, 4))];
      const footprint bytes = test::random_view(d, s, kind).bytes();
      const holder_id holder = d.one_in(2) ? viewer : any_holder(d);
      const auto expected = pieces_seen(whole, bytes, holder, viewer);
      std::vector<missing_piece> found;
      own.find_missing(bytes, holder, found);
      ASSERT_EQ(found.size(), expected.size()) << "program " << program;
      for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i].bytes, expected[i].bytes);
        ASSERT_EQ(found[i].from, expected[i].from);
      }
      ASSERT_TRUE(found.empty() || own.may_lack(bytes.lo, bytes.hi, holder));
      change_at_random(d, bytes, {&whole, &own}, all);
      segments += whole.segments();
      segments_of_viewer += own.segments();
    }
  }
  EXPECT_LT(segments_of_viewer, segments);
}

TEST(CopyLedger, AWriteOfTheOnlyHolderChangesNothing) {
  for (const bool has_viewer : {false, true}) {
    copy_ledger ledger =
        has_viewer ? copy_ledger(ledger_size, 0, 7) : copy_ledger(ledger_size, 0);
    ledger.wrote(block(0, 100), 5);
    EXPECT_TRUE(ledger.has_only(10, 90, 5));
    EXPECT_FALSE(ledger.has_only(10, 90, 6));
    EXPECT_FALSE(ledger.has_only(90, 110, 5));  // rank 0 has the others
    ledger.copied(block(20, 30), 6);            // which the viewer need not know
    EXPECT_EQ(ledger.has_only(10, 90, 5), has_viewer);
    ledger.copied(block(40, 50), 7);
    EXPECT_FALSE(ledger.has_only(10, 90, 5));
    EXPECT_TRUE(ledger.has_only(50, 90, 5));
    EXPECT_FALSE(ledger.may_lack(0, 100, 5));
    EXPECT_EQ(ledger.may_lack(0, 100, 6), !has_viewer);
    EXPECT_TRUE(ledger.may_lack(0, 100, 7));
    EXPECT_FALSE(ledger.may_lack(40, 50, 7));
  }
}

TEST(CopyLedger, GathersMissingBlocksAtEqualDistances) {
  copy_ledger ledger(ledger_size, 0);
  ledger.copied(block(0, 100), 1);
  std::vector<missing_piece> pieces;
  ledger.find_missing(rows_of(0, 10, 20, 4), 1, pieces);  // the upper half is missing
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0].bytes, rows_of(100, 5, 20, 4));
}

/// Returns 2 x 2 x 2 bytes, with gaps of three lengths between them.
footprint cube_of_bytes() {
  return or_throw(footprint::of_view(ledger_storage, 2,
                                     std::array<std::int64_t, 3>{2, 2, 2},
                                     std::array<std::int64_t, 3>{100, 20, 4}, 1));
}

TEST(CopyLedger, PiecesDoNotDependOnTheBytesBetweenBlocks) {
  std::vector<missing_piece> pieces;
  const copy_ledger whole(ledger_size, 0);
  whole.find_missing(cube_of_bytes(), 1, pieces);
  ASSERT_EQ(pieces.size(), 1U);
  for (std::int64_t gap = 0; gap < ledger_size; ++gap) {
    if (test::bytes_in(cube_of_bytes())[static_cast<std::size_t>(gap)]) {
      continue;
    }
    copy_ledger changed(ledger_size, 0);
    changed.wrote(block(gap, gap + 1), 3);
    std::vector<missing_piece> found;
    changed.find_missing(cube_of_bytes(), 1, found);
    ASSERT_EQ(found.size(), 1U) << "byte " << gap;
    EXPECT_EQ(found[0].bytes, pieces[0].bytes);
    EXPECT_EQ(found[0].from, 0U);
  }
}

TEST(CopyLedger, TakesEachPieceFromItsWriter) {
  copy_ledger ledger(ledger_size, 0);
  ledger.wrote(block(50, 60), 2);
  ledger.copied(block(40, 70), 0);  // also a holder, with a lower number
  std::vector<missing_piece> pieces;
  ledger.find_missing(block(40, 70), 1, pieces);
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].bytes, rows_of(40, 2, 20, 10));
  EXPECT_EQ(pieces[0].from, 0U);
  EXPECT_EQ(pieces[1].bytes, block(50, 60));
  EXPECT_EQ(pieces[1].from, 2U);
}

}  // namespace
}  // namespace weir::runtime
