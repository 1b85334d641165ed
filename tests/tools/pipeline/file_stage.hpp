// SPDX-License-Identifier: Apache-2.0
/// @file
/// Small stages that files of tests use by name.
#pragma once

#include <fstream>
#include <string>

#include "pipeline/support/number_stages.hpp"
#include "weir/pipeline.hpp"

namespace weir::test {

/// A task stage for floats, with a setting that has a range.
struct brighter {
  struct settings {
    double by = 1;
    std::string mode = "all";
  };
  in<float, 2> image;
  out<float, 2> bright;
  static void describe(stage_spec<brighter>& s) {
    s.name("demo.brighter", "adds a number to each element").stateless();
    s.port("image", &brighter::image, "h,w").port("bright", &brighter::bright, "h,w");
    s.set("by", &settings::by, "number that is added").range(-10, 10);
    s.set("mode", &settings::mode, "elements that change").may_change();
  }
  result<void> on_item(step& s) {
    WEIR_TRY(auto to, s.make(bright, s[image].extent(0), s[image].extent(1)));
    s.submit(
        "copy", [](auto from, auto out) { out(0, 0) = from(0, 0); }, read(s[image]),
        write(to));
    return s.emit();
  }
};

/// A sink that writes a line of numbers for each item.
struct line_file {
  struct settings {
    std::string path;
  };
  struct offset {
    std::uint64_t bytes;
  };
  in<std::uint64_t, 1> x;
  std::ofstream to;
  static void describe(stage_spec<line_file>& s) {
    s.name("demo.lines", "writes a line for each item").port("x", &line_file::x, "3");
    s.set("path", &settings::path, "file to write").required();
  }
  result<void> open(opening& o, const settings& s) {
    to.open(o.path(s.path));
    return {};
  }
  result<void> put(taken& t) {
    for (const std::uint64_t one : t[x]) {
      to << one << ' ';
    }
    to << '\n';
    return {};
  }
  result<offset> settle() {
    to.flush();
    return offset{static_cast<std::uint64_t>(to.tellp())};
  }
  result<void> rewind(offset /*o*/) { return {}; }
};

/// Makes a stage that keeps two items back, as far as the check is concerned.
inline result<void> make_held(flow::described_stage& made,
                              const given_settings& /*settings*/) {
  WEIR_TRY(made, flow::make_stage<scaled>({}));
  made.info.name = "demo.held";
  made.info.holds = 2;
  made.info.settings.clear();
  return {};
}

/// Makes the stages of tests known by name. Further calls do nothing.
inline void add_demo_stages() {
  flow::catalog& all = flow::stages();
  for (const auto& added :
       {all.add<number_source>(), all.add<scaled>(), all.add<running_sum>(),
        all.add<joined>(), all.add<selected>(), all.add<merged>(), all.add<batched>(),
        all.add<loop_head>(), all.add<brighter>(), all.add<line_file>(),
        all.add("demo.held", &make_held)}) {
    if (!added && added.error().code() != errc::already_exists) {
      throw_failure(added.error());
    }
  }
}

}  // namespace weir::test
