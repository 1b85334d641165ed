// SPDX-License-Identifier: Apache-2.0
#include <weir/actors/pipelines.hpp>

int main() {
  weir::add_standard_stages();
  weir::pipeline p("doubles");
  auto numbers = p.add("numbers", "generator", {{"count", 1000}});
  auto twice = p.add("twice", "elementwise",
                     {{"type", "f32[1]"}, {"op", "multiply"}, {"operand", 2}});
  auto file = p.add("file", "tgm.write", {{"path", "doubles.tgm"}});
  numbers >> twice >> file;
  weir::or_throw(weir::run(p, {.folder = "runs/doubles"}));
}
