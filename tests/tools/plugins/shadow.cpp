// SPDX-License-Identifier: Apache-2.0
// A plug-in whose stage has the name of one that comes with Weir.
#include <weir/plugin.hpp>

namespace {

struct other_generator {
  weir::in<float, 1> x;
  static void describe(weir::stage_spec<other_generator>& s) {
    s.name("generator", "is another one").port("x", &other_generator::x, "n");
  }
  static weir::result<void> on_item(weir::step& /*s*/) { return {}; }
};

}  // namespace

WEIR_STAGES(other_generator);
