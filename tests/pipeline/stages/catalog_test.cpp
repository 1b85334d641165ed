// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the stages of plug-ins in a catalog.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "basic_catalog.hpp"

namespace weir::test {
namespace {

/// Returns a catalog as a plug-in fills it.
flow::catalog filled_with(const std::vector<std::string>& names) {
  flow::catalog filled;
  for (const std::string& name : names) {
    or_throw(filled.add(name, [](flow::described_stage&, const given_settings&) {
      return result<void>(error(errc::unsupported, "made for a test"));
    }));
  }
  return filled;
}

TEST(Catalog, GetsAllStagesOfAPlugInAndKnowsItsFile) {
  flow::catalog all;
  or_throw(flow::add_basic_stages(all));
  const std::size_t before = all.names().size();
  or_throw(all.add_plugin(filled_with({"demo.a", "demo.b"}), "/p/demo.so"));
  EXPECT_EQ(all.names().size(), before + 2);
  EXPECT_EQ(or_throw(all.home_of("demo.b")).file, "/p/demo.so");
  EXPECT_EQ(or_throw(all.home_of("generator")).file, "");
  EXPECT_TRUE(all.has_plugin("/p/demo.so"));
  EXPECT_FALSE(all.has_plugin("/p/other.so"));
  EXPECT_FALSE(all.has_plugin(""));
}

TEST(Catalog, GetsNoStageOfAPlugInThatHasAKnownName) {
  flow::catalog all;
  or_throw(flow::add_basic_stages(all));
  or_throw(all.add_plugin(filled_with({"demo.m"}), "/p/first.so"));
  const std::vector<std::string> before = all.names();
  const auto of_program = all.add_plugin(filled_with({"demo.a", "generator"}), "/p/b.so");
  ASSERT_FALSE(of_program);
  EXPECT_EQ(of_program.error().code(), errc::already_exists);
  EXPECT_EQ(of_program.error().message(),
            "cannot add the stages of the plug-in \"/p/b.so\": expected new names, found "
            "the stage \"generator\" and one of the program of that name");
  const auto of_plugin = all.add_plugin(filled_with({"demo.a", "demo.m"}), "/p/c.so");
  ASSERT_FALSE(of_plugin);
  EXPECT_NE(of_plugin.error().message().find("and one of \"/p/first.so\""),
            std::string::npos)
      << of_plugin.error().message();
  EXPECT_EQ(all.names(), before);
  EXPECT_FALSE(all.has_plugin("/p/c.so"));
}

}  // namespace
}  // namespace weir::test
