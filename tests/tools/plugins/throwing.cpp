// SPDX-License-Identifier: Apache-2.0
// A plug-in that throws while it adds its stages.
#include <stdexcept>

#include <weir/plugin.hpp>

namespace {

struct throwing {
  weir::in<float, 1> x;
  static void describe(weir::stage_spec<throwing>& /*s*/) {
    throw std::runtime_error("no licence server");
  }
  static weir::result<void> on_item(weir::step& /*s*/) { return {}; }
};

}  // namespace

WEIR_STAGES(throwing);
