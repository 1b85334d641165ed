// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests ranks, places and groups of every mesh of 1 to 16 devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "meshes.hpp"
#include "weir/collective/mesh.hpp"

namespace weir::collective {
namespace {

TEST(Mesh, RanksAndPlacesAreEachOthersInverseWithTpFastest) {
  for (const mesh_axes& axes : test::all_meshes(16)) {
    const mesh_shape mesh = test::shape_of(axes);
    const auto& size = mesh.sizes();
    int rank = 0;
    for (int ep = 0; ep < size[3]; ++ep) {
      for (int dp = 0; dp < size[2]; ++dp) {
        for (int pp = 0; pp < size[1]; ++pp) {
          for (int tp = 0; tp < size[0]; ++tp, ++rank) {
            const std::array<int, 4> place = {tp, pp, dp, ep};
            ASSERT_EQ(or_throw(mesh.coordinates(rank)), place);
            ASSERT_EQ(or_throw(mesh.rank_at(place)), rank);
          }
        }
      }
    }
    ASSERT_EQ(rank, mesh.ranks());
  }
}

TEST(Mesh, AGroupIsTheRanksThatDifferAlongItsAxesAlone) {
  for (const mesh_axes& axes : test::all_meshes(16)) {
    const mesh_shape mesh = test::shape_of(axes);
    for (axis_set set = 0; set <= whole_mesh; ++set) {
      for (int rank = 0; rank < mesh.ranks(); ++rank) {
        std::vector<int> expected;
        const auto own = or_throw(mesh.coordinates(rank));
        for (int other = 0; other < mesh.ranks(); ++other) {
          const auto place = or_throw(mesh.coordinates(other));
          bool together = true;
          for (std::size_t a = 0; a < axis_count; ++a) {
            together = together && (((set >> a) & 1U) != 0 || place[a] == own[a]);
          }
          if (together) {
            expected.push_back(other);
          }
        }
        ASSERT_EQ(or_throw(mesh.group_of(set, rank)), expected);
        ASSERT_EQ(mesh.group_size(set), static_cast<int>(expected.size()));
      }
      std::multiset<int> members;
      int lowest = -1;
      for (const std::vector<int>& group : mesh.groups(set)) {
        ASSERT_EQ(group, or_throw(mesh.group_of(set, group.back())));
        ASSERT_GT(group.front(), lowest);
        lowest = group.front();
        members.insert(group.begin(), group.end());
      }
      ASSERT_EQ(members.size(), static_cast<std::size_t>(mesh.ranks()));
      ASSERT_EQ(std::set<int>(members.begin(), members.end()).size(), members.size());
    }
  }
}

TEST(Mesh, OfTheSpecificationsExampleHasItsGroups) {
  const mesh_shape mesh = test::shape_of({2, 1, 4, 0});
  EXPECT_EQ(mesh.ranks(), 8);
  const auto tp = mesh.groups(or_throw(parse_axes("tp")));
  EXPECT_EQ(tp, (std::vector<std::vector<int>>{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  const auto dp = mesh.groups(or_throw(parse_axes("dp")));
  EXPECT_EQ(dp, (std::vector<std::vector<int>>{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(mesh.groups(or_throw(parse_axes("ep"))).size(), 8U);
  EXPECT_EQ(mesh.groups(or_throw(parse_axes("tp+dp"))).size(), 1U);
}

TEST(Mesh, AxesAreNamedByText) {
  EXPECT_EQ(or_throw(parse_axes(static_cast<const char*>(nullptr))), whole_mesh);
  EXPECT_EQ(or_throw(parse_axes("")), whole_mesh);
  EXPECT_EQ(or_throw(parse_axes("world")), whole_mesh);
  EXPECT_EQ(or_throw(parse_axes("tp")), 1);
  EXPECT_EQ(or_throw(parse_axes("pp")), 2);
  EXPECT_EQ(or_throw(parse_axes("dp")), 4);
  EXPECT_EQ(or_throw(parse_axes("ep")), 8);
  EXPECT_EQ(or_throw(parse_axes("ep+tp")), 9);
  for (const char* text :
       {"xp", "tp+", "+tp", "tp+tp", "tp dp", "TP", "world+tp", "+", "tp++dp", "t"}) {
    const auto axes = parse_axes(text);
    ASSERT_FALSE(axes) << text;
    EXPECT_EQ(axes.error().code(), errc::invalid_argument) << text;
  }
}

TEST(Mesh, RefusesShapesThatDoNotFit) {
  const auto refused = [](int devices, mesh_axes axes) {
    const auto mesh = mesh_shape::make(devices, axes);
    return !mesh && mesh.error().code() == errc::invalid_argument;
  };
  EXPECT_TRUE(refused(8, {2, 1, 3, 0}));
  EXPECT_TRUE(refused(2, {0, 0, 0, 0}));
  EXPECT_TRUE(refused(0, {0, 0, 0, 0}));
  EXPECT_TRUE(refused(-1, {1, 1, 1, 1}));
  EXPECT_TRUE(refused(4, {-2, -2, 1, 1}));
  EXPECT_TRUE(refused(0, {65536, 65536, 1, 1}));
  EXPECT_TRUE(refused(1, {2147483647, 2147483647, 2147483647, 2147483647}));
  EXPECT_FALSE(refused(1, {0, 0, 0, 0}));
  const auto ids = [](std::vector<int> list) {
    return mesh_shape::make(list, 8, {static_cast<int>(list.size()), 1, 1, 1})
        .has_value();
  };
  EXPECT_TRUE(ids({7, 0, 3}));
  EXPECT_FALSE(ids({1, 1}));
  EXPECT_FALSE(ids({0, 8}));
  EXPECT_FALSE(ids({-1, 0}));
  EXPECT_FALSE(ids({}));
  const mesh_shape mesh = test::shape_of({2, 1, 4, 0});
  EXPECT_FALSE(mesh.coordinates(8));
  EXPECT_FALSE(mesh.coordinates(-1));
  EXPECT_FALSE(mesh.group_of(1, 8));
  EXPECT_FALSE(mesh.rank_at({2, 0, 0, 0}));
  EXPECT_FALSE(mesh.rank_at({0, 0, -1, 0}));
}

}  // namespace
}  // namespace weir::collective
