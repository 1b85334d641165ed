// SPDX-License-Identifier: Apache-2.0
/// @file
/// A plug-in with one stage. It needs the headers of an installed Weir and links nothing
/// of it.
#include <weir/plugin.hpp>

/// y = the mean of all items so far. A checkpoint holds the state that `describe` names.
struct running_mean {
  struct settings {
    std::uint64_t length = 1;
  };
  weir::in<float, 1> x;
  weir::out<float, 1> y;
  weir::tensor<double, 1> mean;
  std::uint64_t count = 0;
  static void describe(weir::stage_spec<running_mean>& s) {
    s.name("demo.running_mean", "gives the mean of all items so far");
    s.port("x", &running_mean::x, "n").port("y", &running_mean::y, "n");
    s.set("length", &settings::length, "elements of an item").range(1, 1'000'000);
    s.state("mean", &running_mean::mean).state("count", &running_mean::count);
  }
  weir::result<void> open(weir::opening& o, const settings& s) {
    return mean = o.host().make<double>(s.length), weir::result<void>();
  }
  weir::result<void> on_item(weir::step& s) {
    if (s[x].extent(0) != mean.extent(0)) {
      return weir::error(weir::errc::invalid_argument,
                         "expected items of the length in the settings");
    }
    WEIR_TRY(auto to, s.make(y, s[x].extent(0)));
    // The task runs later, perhaps when `count` has grown, so it captures the value.
    s.submit(
        "running_mean",
        [n = static_cast<double>(++count)](auto from, auto average, auto out) {
          for (std::int64_t i = 0; i < from.extent(0); ++i) {
            average[i] += (from[i] - average[i]) / n;
            out[i] = static_cast<float>(average[i]);
          }
        },
        weir::read(s[x]), weir::update(mean), weir::write(to));
    return s.emit();
  }
};

WEIR_STAGES(running_mean);
