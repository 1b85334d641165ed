// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests sums of likelihoods, and the records of a run that a checkpoint stores.
#include "stages/prose/accounts.hpp"

#include <gtest/gtest.h>

namespace weir::actors {
namespace {

/// Returns a record in which most fields differ from their defaults.
conductor_record a_record() {
  conductor_record r;
  r.pulses = 7;
  r.tokens = 448;
  r.total_updates = 99;
  r.used[0] = {400, 6};
  r.used[1] = {48, 1};
  r.reset_due = {0, 1, 1, 0};
  return r;
}

/// Returns accounts in which most fields differ from their defaults, with two points of a
/// curve.
run_accounts some_accounts() {
  run_accounts a;
  a.build = {1, 2, 3};
  a.test = {4, 5, 6};
  a.stream = {7, 8, 9};
  a.build_ns = 123456789;
  a.kernel_ns = -1;
  a.resumed = 3;
  a.curve = {{64, {1, 1, 64}}, {128, {2, 2, 64}}};
  return a;
}

TEST(conductor_record, survives_storing) {
  const auto back = decode_conductor(encode(a_record()));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, a_record());
}

TEST(run_accounts, survives_storing) {
  const auto back = decode_accounts(encode(some_accounts()));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, some_accounts());
}

TEST(run_accounts, of_version_1_have_no_sum_of_the_stream_phase) {
  byte_vector bytes = encode(some_accounts());
  bytes[0] = std::byte{1};
  constexpr std::ptrdiff_t at = 8 + 4 * 24;  // behind the version and four sums
  bytes.erase(bytes.begin() + at, bytes.begin() + at + 24);
  const auto back = decode_accounts(bytes);
  ASSERT_TRUE(back) << back.error().message();
  run_accounts expected = some_accounts();
  expected.stream = {};
  EXPECT_EQ(*back, expected);
}

TEST(conductor_record, is_refused_when_cut_or_longer) {
  byte_vector bytes = encode(a_record());
  for (std::size_t n = 8; n < bytes.size(); ++n) {
    const auto r = decode_conductor(bytes_view(bytes).first(n));
    ASSERT_FALSE(r) << n;
    EXPECT_EQ(r.error().code(), errc::corrupt);
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_conductor(bytes));
  EXPECT_FALSE(decode_conductor({}));
}

TEST(stored_number, is_refused_when_cut_or_longer) {
  const byte_vector nine(9, std::byte{1});
  for (const std::size_t n : {0U, 1U, 7U, 9U}) {
    const auto r = decode_number(bytes_view(nine).first(n), "BUDGET");
    ASSERT_FALSE(r) << n;
    EXPECT_EQ(r.error().code(), errc::corrupt);
    EXPECT_EQ(
        r.error().text(),
        "reading section BUDGET failed: expected 8 bytes, found " + std::to_string(n));
  }
  EXPECT_EQ(*decode_number(bytes_view(nine).first(8), "BUDGET"), 0x0101010101010101U);
}

TEST(run_accounts, is_refused_when_its_count_is_larger_than_the_bytes) {
  byte_vector bytes = encode(some_accounts());
  const std::size_t count_at = bytes.size() - 2 * 4 * 8 - 8;
  store_le(bytes.data() + count_at, ~std::uint64_t{0});
  const auto r = decode_accounts(bytes);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::corrupt);
}

TEST(run_accounts, of_a_later_version_is_refused_by_name) {
  byte_vector bytes = encode(some_accounts());
  bytes[0] = std::byte{9};
  const auto r = decode_accounts(bytes);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::unsupported_version);
  EXPECT_NE(r.error().text().find("METRICS"), std::string::npos);
}

TEST(nat_sum, carries_from_fractions_to_whole_nats) {
  nat_sum s;
  for (int i = 0; i < 4; ++i) {
    s.add(std::uint64_t{3} << 30, 1);
  }
  EXPECT_EQ(s, (nat_sum{3, 0, 4}));
}

TEST(nat_sum, is_the_same_however_it_is_grouped) {
  nat_sum all, left, right;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const std::uint64_t x = i * 0x9E3779B97F4A7C15ULL >> 20;
    all.add(x, 1);
    (i % 3 == 0 ? left : right).add(x, 1);
  }
  left.add(right);
  EXPECT_EQ(left, all);
}

TEST(nat_sum, has_no_bits_without_addends) {
  EXPECT_EQ(nat_sum{}.bits_per_byte(), 0.0);
}

}  // namespace
}  // namespace weir::actors
