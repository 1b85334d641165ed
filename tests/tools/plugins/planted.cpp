// SPDX-License-Identifier: Apache-2.0
// A plug-in with stages that break the rules: their output depends on more than their
// input.
#include <chrono>
#include <random>

#include <weir/plugin.hpp>

namespace {

/// Copies items of `f32[n]`, apart from what `Rule` does with item 7 and later ones.
template <class Rule>
struct copying {
  weir::in<float, 1> x;
  weir::out<float, 1> y;
  static void describe(weir::stage_spec<copying>& s) {
    s.name(Rule::name, "copies items").stateless();
    s.port("x", &copying::x, "n").port("y", &copying::y, "n");
  }
  weir::result<void> on_item(weir::step& s) {
    WEIR_TRY(auto to, s.make(y, s[x].extent(0)));
    s.submit(
        "copy",
        [late = s.seq() >= 7](auto from, auto out) {
          for (std::int64_t i = 0; i < from.extent(0); ++i) {
            out[i] = from[i];
          }
          if (late) {
            out[0] = Rule::value(from[0]);
          }
        },
        weir::read(s[x]), weir::write(to));
    return s.emit();
  }
};

struct clock_rule {
  static constexpr const char* name = "planted.clock";
  static float value(float /*right*/) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<float>(now / std::chrono::microseconds(1) % 1'000'003);
  }
};

struct device_rule {
  static constexpr const char* name = "planted.device";
  static float value(float /*right*/) {
    return static_cast<float>(std::random_device()() % 1'000'003);
  }
};

struct honest_rule {
  static constexpr const char* name = "planted.none";
  static float value(float right) { return right; }
};

/// Leaves the last element of each item as it finds it.
struct uninitialised {
  weir::in<float, 1> x;
  weir::out<float, 1> y;
  static void describe(weir::stage_spec<uninitialised>& s) {
    s.name("planted.slot", "copies items without their last element").stateless();
    s.port("x", &uninitialised::x, "n").port("y", &uninitialised::y, "n");
  }
  weir::result<void> on_item(weir::step& s) {
    WEIR_TRY(auto to, s.make(y, s[x].extent(0)));
    s.submit(
        "copy",
        [](auto from, auto out) {
          for (std::int64_t i = 0; i + 1 < from.extent(0); ++i) {
            out[i] = from[i];
          }
        },
        weir::read(s[x]), weir::write(to));
    return s.emit();
  }
};

/// Counts in a member that it does not describe as state.
struct forgetful {
  weir::in<float, 1> x;
  weir::out<float, 1> y;
  std::uint64_t count = 0;
  static void describe(weir::stage_spec<forgetful>& s) {
    s.name("planted.state", "adds the number of calls");
    s.port("x", &forgetful::x, "n").port("y", &forgetful::y, "n");
  }
  weir::result<void> on_item(weir::step& s) {
    WEIR_TRY(auto to, s.make(y, s[x].extent(0)));
    s.submit(
        "add",
        [n = static_cast<float>(++count)](auto from, auto out) {
          for (std::int64_t i = 0; i < from.extent(0); ++i) {
            out[i] = from[i] + n;
          }
        },
        weir::read(s[x]), weir::write(to));
    return s.emit();
  }
};

}  // namespace

WEIR_STAGES(copying<clock_rule>, copying<device_rule>, copying<honest_rule>,
            uninitialised, forgetful);
