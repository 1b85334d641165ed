// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compares the picture of the demo fields with its graph. WEIR_DRAW=1 writes the
/// picture.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "demo_stages.hpp"
#include "demos/pipelines/fields/stages.hpp"
#include "pipeline/picture.hpp"
#include "support/folders.hpp"

namespace weir::test {
namespace {

TEST(DemoPicture, OfFieldsShowsTheGraphThatRuns) {
  add_standard_stages();
  pipeline p("fields");
  demo::connect(p, "weather.tgm", 1152);
  const auto plan = p.check();
  ASSERT_TRUE(plan) << plan.error().message();
  const std::string drawn =
      tools::picture_svg(tools::picture_of(tools::plan_facts(*plan)));
  const std::string path = source_folder() + "/demos/pipelines/fields/fields.svg";
  if (std::getenv("WEIR_DRAW") != nullptr) {
    std::ofstream(path) << drawn;
  }
  EXPECT_EQ(pipeline_folder::read(path), drawn)
      << "the graph or the drawing has changed: run this test with WEIR_DRAW=1, look at "
         "the picture, and commit it";
}

}  // namespace
}  // namespace weir::test
