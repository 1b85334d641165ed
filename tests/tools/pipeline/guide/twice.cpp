// SPDX-License-Identifier: Apache-2.0
#include <weir/plugin.hpp>

struct twice {
  weir::in<float, 1> x;
  weir::out<float, 1> y;
  static void describe(weir::stage_spec<twice>& s) {
    s.name("demo.twice", "y = 2 x").stateless();
    s.port("x", &twice::x, "n").port("y", &twice::y, "n");
  }
  weir::result<void> on_item(weir::step& s) {
    WEIR_TRY(auto to, s.make(y, s[x].extent(0)));
    s.submit(
        "twice",
        [](auto from, auto out) {
          for (std::int64_t i = 0; i < from.extent(0); ++i) out[i] = 2 * from[i];
        },
        weir::read(s[x]), weir::write(to));
    return s.emit();
  }
};

WEIR_STAGES(twice);
