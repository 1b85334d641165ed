// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program outside of the project that loads a plug-in by its path and runs a pipeline
/// with a stage of it.
#include <cstdio>

#include <weir/actors/pipelines.hpp>
#include <weir/actors/plugins.hpp>

int main(int, char** argv) {
  weir::add_standard_stages();
  weir::or_throw(weir::load_plugin(weir::flow::stages(), argv[1]));
  weir::pipeline p("means");
  auto numbers = p.add("numbers", "generator", {{"count", 100}});
  auto mean = p.add("mean", "demo.running_mean", {{"length", 1}});
  auto none = p.add("none", "null");
  numbers >> mean >> none;
  std::printf("%d\n", static_cast<int>(weir::or_throw(weir::run(p, {})).items));
}
