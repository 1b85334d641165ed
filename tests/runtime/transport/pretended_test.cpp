// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ranks that are pretended for measurements: a world over them submits and replays,
/// calls no kernels and waits for nobody.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "support/temp_folder.hpp"
#include "weir/runtime/transport.hpp"
#include "weir/world.hpp"

namespace weir {
namespace {

using runtime::make_pretended_ranks;
using runtime::pretended_ranks_of_environment;

TEST(PretendedRanks, LetOneRankRunAlone) {
  const auto link = or_throw(make_pretended_ranks(5000, 10'000));
  runtime::engine_options o;
  o.window = 128;
  engine e(o);
  world w(e, link);
  EXPECT_EQ(w.base().rank(), 5000U);
  EXPECT_EQ(w.base().ranks(), 10'000U);
  EXPECT_TRUE(w.base().is_pretended());
  const auto a = w.make<double>(rows(1), 40'000, 8);
  const auto b = w.make<double>(rows(1), 40'000, 8);
  bool called = false;
  for (const auto& one : {a, b}) {
    w.submit_tiles(
        "fill", [&called](view<double, 2>) { called = true; }, one.range(),
        write(one.each()));
  }
  w.repeat(50, [&](std::int64_t step) {
    const auto& in = step % 2 == 0 ? a : b;
    const auto& out = step % 2 == 0 ? b : a;
    w.submit_tiles(
        "sweep", [](view<const double, 2>, view<double, 2>) {}, out.range(),
        read(in.each(1)), write(out.each()));
  });
  or_throw(w.wait());
  EXPECT_FALSE(called);
  EXPECT_FALSE(w.stopped());
  const runtime::world_counters& counters = w.base().counters();
  EXPECT_EQ(counters.own_tasks, 52U * 4);
  EXPECT_EQ(counters.foreign_tasks, 52U * 39'996);
  EXPECT_EQ(counters.pieces_sent, 2U * 50);  // one to each neighbour in each step
  EXPECT_EQ(counters.bytes_sent, 64 * 2 * 50);
  EXPECT_GT(e.base().counters().replayed, 40U * 4);
}

TEST(PretendedRanks, WriteNoCheckpoints) {
  const test::temp_folder folder;
  const auto link = or_throw(make_pretended_ranks(1, 4));
  engine e(1);
  world w(e, link);
  auto a = w.make<double>(rows(1), 8);
  EXPECT_THROW(w.checkpoint(folder.path() + "/state", {.every = 1}, a),
               std::runtime_error);
}

TEST(PretendedRanks, AreNotRankZeroNorAlone) {
  for (const auto& [rank, ranks] :
       std::vector<std::pair<runtime::rank_id, runtime::rank_id>>{
           {0, 4}, {4, 4}, {0, 1}, {1, 1}, {1, 70'000}}) {
    const auto refused = make_pretended_ranks(rank, ranks);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::out_of_range);
  }
}

TEST(PretendedRanks, AreAskedForByTheEnvironment) {
  ::unsetenv("WEIR_PRETEND");
  EXPECT_EQ(or_throw(pretended_ranks_of_environment()), nullptr);
  ::setenv("WEIR_PRETEND", "512/1024", 1);
  const auto link = or_throw(pretended_ranks_of_environment());
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->rank(), 512U);
  EXPECT_EQ(link->ranks(), 1024U);
  for (const char* const text :
       {"", "512", "512/", "/1024", "512/1024 ", "-1/4", "a/b"}) {
    ::setenv("WEIR_PRETEND", text, 1);
    const auto refused = pretended_ranks_of_environment();
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code(), errc::invalid_argument) << text;
    EXPECT_NE(refused.error().text().find("found \"" + std::string(text) + "\""),
              std::string::npos);
  }
  ::unsetenv("WEIR_PRETEND");
}

TEST(PretendedRanks, SendZerosAtOnceAndTakeEverything) {
  const auto link = or_throw(make_pretended_ranks(1, 3));
  const std::uint32_t channel = link->open_channel();
  std::vector<std::byte> bytes(4, std::byte{7});
  const auto sent = or_throw(link->send(2, {channel, 0}, bytes));
  const auto received = or_throw(link->receive(0, {channel, 0}, bytes));
  EXPECT_EQ(bytes, std::vector<std::byte>(4));
  std::vector<runtime::transfer_end> ended;
  link->poll(channel, ended);
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].id, sent);
  EXPECT_EQ(ended[1].id, received);
  EXPECT_TRUE(ended[0].outcome && ended[1].outcome);
  EXPECT_EQ(link->send(3, {channel, 1}, bytes).error().code(), errc::out_of_range);
  link->close_channel(channel);
  EXPECT_EQ(link->send(2, {channel, 1}, bytes).error().code(), errc::stopping);
}

}  // namespace
}  // namespace weir
