// SPDX-License-Identifier: Apache-2.0
/// @file
/// Three stages with state that find heat waves in hourly fields of temperature, and the
/// pipeline that connects them.
#pragma once

#include <weir/actors/pipelines.hpp>

namespace demo {

/// Settings of the stages whose state has an element for each point of the grid.
struct grid {
  std::uint64_t points = 1;
  double weight = 1.0 / 16;  // of the newest field in `smoothing`
};

/// y = x minus the mean of all fields so far. A checkpoint holds what `describe` calls
/// state: here a tensor, which tasks update, and a number, which `on_item` updates.
struct anomaly {
  using settings = grid;
  weir::in<float, 1> x;
  weir::out<float, 1> y;
  weir::tensor<double, 1> mean;
  std::uint64_t count = 0;
  static void describe(weir::stage_spec<anomaly>& s) {
    s.name("demo.anomaly", "subtracts the mean of all fields so far");
    s.port("x", &anomaly::x, "n").port("y", &anomaly::y, "n");
    s.set("points", &grid::points, "points of the grid").range(1, 100'000'000);
    s.state("mean", &anomaly::mean).state("count", &anomaly::count);
  }
  weir::result<void> open(weir::opening& o, const settings& s) {
    return mean = o.host().make<double>(s.points), weir::result<void>();
  }
  // The task runs later, perhaps when `count` has grown, so it captures the value.
  weir::result<void> on_item(weir::step& s) {
    WEIR_TRY(auto to, s.make(y, s[x].extent(0)));
    const auto n = static_cast<double>(++count);
    s.submit(
        "anomaly",
        [n](auto from, auto average, auto out) {
          for (std::int64_t i = 0; i < from.extent(0); ++i) {
            average[i] += (from[i] - average[i]) / n;
            out[i] = static_cast<float>(from[i] - average[i]);
          }
        },
        weir::read(s[x]), weir::update(mean), weir::write(to));
    return s.emit();
  }
};

/// y moves towards x by a part of the distance, which damps the difference of day and
/// night. The state is a tensor alone.
struct smoothing {
  using settings = grid;
  weir::in<float, 1> x;
  weir::out<float, 1> y;
  weir::tensor<double, 1> level;
  double weight = 0;
  static void describe(weir::stage_spec<smoothing>& s) {
    s.name("demo.smoothing", "smooths exponentially in time");
    s.port("x", &smoothing::x, "n").port("y", &smoothing::y, "n");
    s.set("points", &grid::points, "points of the grid").range(1, 100'000'000);
    s.set("weight", &grid::weight, "weight of the newest field").range(0, 1);
    s.state("level", &smoothing::level);
  }
  weir::result<void> open(weir::opening& o, const settings& s) {
    level = o.host().make<double>(s.points);
    return weight = s.weight, weir::result<void>();
  }
  weir::result<void> on_item(weir::step& s) {
    WEIR_TRY(auto to, s.make(y, s[x].extent(0)));
    s.submit(
        "smooth",
        [w = weight](auto from, auto now, auto out) {
          for (std::int64_t i = 0; i < from.extent(0); ++i) {
            now[i] += w * (from[i] - now[i]);
            out[i] = static_cast<float>(now[i]);
          }
        },
        weir::read(s[x]), weir::update(level), weir::write(to));
    return s.emit();
  }
};

/// Hands on the fields in which a point exceeds the threshold, with attributes that say
/// where. A task of a late stage puts what it finds into memory of the item, and
/// `on_done` decides once the task has ended. The state is two numbers, which `on_done`
/// updates.
struct waves {
  struct settings {
    double threshold = 4;
  };
  weir::in<float, 1> x;
  weir::out<float, 1> y;
  weir::scratch<double, 1> found;  // largest anomaly, its point, points that exceed
  double threshold = 0;
  std::uint64_t exceedances = 0;
  double record = 0;
  static void describe(weir::stage_spec<waves>& s) {
    s.name("demo.waves", "hands on fields that exceed a threshold").forwards();
    s.port("x", &waves::x, "n").port("y", &waves::y, "n");
    s.memory("found", &waves::found, "3");
    s.set("threshold", &settings::threshold, "anomaly of a heat wave").unit("K");
    s.state("exceedances", &waves::exceedances).state("record", &waves::record);
  }
  weir::result<void> open(weir::opening&, const settings& s) {
    return threshold = s.threshold, weir::result<void>();
  }
  weir::result<void> on_item(weir::step& s) {
    WEIR_TRY(auto to, s.make(found, 3));
    s.submit(
        "find",
        [limit = threshold](auto from, auto out) {
          std::int64_t top = 0, above = 0;
          for (std::int64_t i = 0; i < from.extent(0); ++i) {
            top = from[i] > from[top] ? i : top;
            above += from[i] > limit ? 1 : 0;
          }
          out[0] = from[top];
          out[1] = static_cast<double>(top);
          out[2] = static_cast<double>(above);
        },
        weir::read(s[x]), weir::write(to));
    return {};
  }
  weir::result<void> on_done(weir::step& s) {
    const auto in_field = s.value(found);
    record = std::max(record, in_field[0]);
    if (in_field[2] == 0)
      return s.skip(), weir::result<void>();
    exceedances += static_cast<std::uint64_t>(in_field[2]);
    s.emitted()["largest"] = in_field[0];
    s.emitted()["point"] = static_cast<std::int64_t>(in_field[1]);
    s.emitted()["record"] = record;
    s.emitted()["exceedances"] = exceedances;
    s.forward(x, y);
    return s.emit();
  }
};

/// Connects the stages of the demo. `tgm.read` refuses fields of another type, so each
/// has as many points as the states.
inline void connect(weir::pipeline& p, const std::string& file, std::uint64_t points) {
  const std::string type = "f32[" + std::to_string(points) + "]";
  auto read = p.add("read", "tgm.read", {{"path", file}, {"type", type}});
  auto write = p.add("write", "tgm.write", {{"path", "waves.tgm"}});
  read >> p.add<anomaly>("anomaly", {.points = points}) >>
      p.add<smoothing>("smoothing", {.points = points}) >> p.add<waves>("waves") >> write;
}

}  // namespace demo
