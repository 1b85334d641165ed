// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the order in which a supervisor stops its children.
#include <gtest/gtest.h>

#include "supervisor/supervisor.hpp"

namespace weir::actors {
namespace {

using children = std::vector<supervisor_state::child>;

TEST(supervisor_state, stops_sources_before_conductor_before_sinks_before_engine) {
  supervisor_state s;
  const auto engine = s.adopt("engine", stop_group::engine);
  const auto sink = s.adopt("sink", stop_group::sink);
  const auto rank = s.adopt("rank", stop_group::source);
  const auto conductor = s.adopt("conductor", stop_group::conductor);
  const auto hub = s.adopt("hub", stop_group::source);
  EXPECT_EQ(s.stop(), (children{rank, hub}));
  EXPECT_FALSE(s.down(rank));
  EXPECT_FALSE(s.group_ended());
  EXPECT_FALSE(s.down(hub));
  EXPECT_TRUE(s.group_ended());
  EXPECT_EQ(s.next(), (children{conductor}));
  EXPECT_FALSE(s.down(conductor));
  EXPECT_EQ(s.next(), (children{sink}));
  EXPECT_FALSE(s.down(sink));
  EXPECT_EQ(s.next(), (children{engine}));
  EXPECT_FALSE(s.down(engine));
  EXPECT_TRUE(s.next().empty());
  EXPECT_TRUE(s.alive().empty());
}

TEST(supervisor_state, names_the_survivors) {
  supervisor_state s;
  const auto hub = s.adopt("hub", stop_group::source);
  const auto engine = s.adopt("engine", stop_group::engine);
  EXPECT_EQ(s.stop(), (children{hub}));
  EXPECT_EQ(s.next(), (children{engine}))
      << "after the deadline of the hub the engine is stopped";
  EXPECT_FALSE(s.down(engine));
  EXPECT_TRUE(s.next().empty());
  EXPECT_EQ(s.alive(), (survivors{"hub"}));
}

TEST(supervisor_state, notices_a_child_that_ends_unasked) {
  supervisor_state s;
  const auto hub = s.adopt("hub", stop_group::source);
  EXPECT_TRUE(s.down(hub));
  EXPECT_FALSE(s.down(hub)) << "a child that ended is reported only once";
}

TEST(supervisor_state, a_child_that_is_ended_alone_is_no_failure) {
  supervisor_state s;
  const auto reader = s.adopt("reader", stop_group::source);
  const auto sink = s.adopt("sink", stop_group::sink);
  EXPECT_TRUE(s.end(reader));
  EXPECT_FALSE(s.down(reader));
  EXPECT_FALSE(s.end(reader)) << "it has ended before";
  EXPECT_EQ(s.stop(), (children{sink}));
}

TEST(supervisor_state, skips_ranks_without_living_children) {
  supervisor_state s;
  const auto hub = s.adopt("hub", stop_group::source);
  const auto last = s.adopt("last", stop_group::last);
  EXPECT_TRUE(s.down(hub));
  EXPECT_EQ(s.stop(), (children{last}));
}

}  // namespace
}  // namespace weir::actors
