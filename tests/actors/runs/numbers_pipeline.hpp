// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pipeline of numbers with a stage that can fail, for tests of runs.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>

#include "pipeline/support/number_stages.hpp"
#include "support/temp_folder.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::test {

/// Adds one to each element. The task or the call of one item fails.
struct fragile {
  struct settings {
    std::uint64_t fails_at = ~std::uint64_t{0} >> 1;
    bool throws = false;
  };
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  settings with;
  static void describe(stage_spec<fragile>& s) {
    s.name("test.fragile", "fails at one item").stateless();
    s.port("x", &fragile::x, "n").port("y", &fragile::y, "n");
    s.set("fails_at", &settings::fails_at, "number of the item").may_change();
    s.set("throws", &settings::throws, "throw in on_item instead").may_change();
  }
  result<void> open(opening&, const settings& s) {
    with = s;
    return {};
  }
  result<void> on_item(step& s) {
    if (with.throws && s.seq() == with.fails_at) {
      throw std::runtime_error("thrown by the test");
    }
    WEIR_TRY(auto to, s.make(y, width));
    s.submit(
        "fragile",
        [fails = s.seq() == with.fails_at](auto from, auto out) -> result<void> {
          if (fails) {
            return error(errc::corrupt, "planted failure");
          }
          for (std::size_t i = 0; i < elements; ++i) {
            out[i] = from[i] + 1;
          }
          return {};
        },
        read(s[x]), write(to));
    return s.emit();
  }
};

/// Adds the stages of the pipeline: a source, four stages in the middle, and a sink that
/// writes to `d`.
inline void build(pipeline& p, durable_items& d, fragile::settings fragile_settings = {},
                  std::uint64_t count = 500) {
  auto source = p.add<number_source>("source", {.count = count, .seed = 5});
  auto first = p.add<scaled>("first", {.factor = 3});
  auto middle = p.add<fragile>("middle", fragile_settings);
  auto sum = p.add<running_sum>("sum");
  auto late = p.add<late_filter>("late");
  auto sink = p.add<number_sink>("sink", sink_of(d));
  source >> first >> middle >> sum >> late >> sink;
}

/// Runs the pipeline from its first item.
inline auto run_numbers(durable_items& d, const run_options& options,
                        fragile::settings fragile_settings = {}) {
  pipeline p("numbers");
  build(p, d, fragile_settings);
  return run(p, options);
}
/// Continues the pipeline from its checkpoint.
inline auto resume_numbers(durable_items& d, const run_options& options,
                           fragile::settings fragile_settings = {},
                           std::uint64_t count = 500) {
  pipeline p("numbers");
  build(p, d, fragile_settings, count);
  return resume(p, options);
}

/// Returns options of a run that saves its state behind every so many items.
inline run_options saving(const temp_folder& folder, std::uint64_t every_items) {
  run_options options;
  options.folder = folder.path();
  options.every_items = every_items;
  return options;
}

/// Returns the items of a run that nothing interrupts.
inline durable_items whole_run() {
  durable_items d;
  const auto report = run_numbers(d, {});
  EXPECT_TRUE(report) << report.error().message();
  return d;
}

}  // namespace weir::test
