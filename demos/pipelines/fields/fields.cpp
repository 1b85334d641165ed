// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds heat waves in hourly fields of temperature: fields FOLDER [FILE POINTS]. Kill it
/// and start it again, and FOLDER/waves.tgm ends with the same bytes.
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "stages.hpp"

/// Makes the input: 30 days of temperatures on 24 circles of latitude with 48 points. It
/// is warm at the equator and in the afternoon, and a heat wave begins on day 20.
struct weather {
  using cursor = std::int64_t;
  static constexpr std::int64_t rows = 24, columns = 48, hours = 720;
  weir::out<float, 1> x;
  std::int64_t hour = 0;
  static void describe(weir::stage_spec<weather>& s) {
    s.name("demo.weather", "made-up temperatures").port("x", &weather::x, "1152");
  }
  static double temperature(std::int64_t row, std::int64_t column, std::int64_t hour) {
    const auto clock = static_cast<double>((hour + column / 2) % 24);
    const auto from_equator = std::abs(static_cast<double>(row) - 11.5);
    const auto from_wave = std::abs(row - 8) + std::abs(column - hour / 16);
    const auto wave = hour >= 480 && hour < 600 && from_wave < 12 ? 12 - from_wave : 0;
    return 306 - 2.5 * from_equator - std::abs(clock - 15) / 2 +
           static_cast<double>(wave);
  }
  weir::result<bool> next(weir::pull& p) {
    if (hour == hours)
      return false;
    WEIR_TRY(auto field, p.fill(x, rows * columns));
    const weir::philox random(2026, static_cast<std::uint64_t>(hour));
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const float noise = random.uniform(static_cast<std::uint64_t>(i));
      field[i] = static_cast<float>(temperature(i / columns, i % columns, hour)) + noise;
    }
    p.emitted()["hour"] = hour++;
    p.emitted()["param"] = "2t";
    return true;
  }
  cursor position() const { return hour; }
  weir::result<void> seek(cursor c) { return hour = c, weir::result<void>(); }
};

/// Begins or continues a run and prints how it ended. `resume` begins a run if the folder
/// holds none.
void finish(weir::pipeline& p, const std::string& folder, const std::string& run) {
  std::filesystem::create_directories(folder + run);
  const auto report = weir::or_throw(weir::resume(
      p, {.folder = folder + run, .files = folder, .workers = 2, .every_items = 24}));
  const std::string begin = std::to_string(report.resumed_item);
  const std::string end = std::to_string(report.resumed_item + report.items);
  std::printf("%s: %s, began at field %s, ended at field %s\n", p.built().name.c_str(),
              report.ended.c_str(), begin.c_str(), end.c_str());
}

int main(int argc, char** argv) try {
  if (argc != 2 && argc != 4)
    return std::fputs("usage: fields FOLDER [FILE POINTS]\n", stderr), 2;
  weir::add_standard_stages();
  const std::string folder = argv[1];
  std::string file = "weather.tgm";
  std::uint64_t points = weather::rows * weather::columns;
  if (argc == 4) {
    file = std::filesystem::absolute(argv[2]);
    points = std::stoull(argv[3]);
  } else {
    weir::pipeline make("weather");
    make.add<weather>("weather") >> make.add("write", "tgm.write", {{"path", file}});
    finish(make, folder, "/run-weather");
  }
  weir::pipeline find("fields");
  demo::connect(find, file, points);
  finish(find, folder, "/run-fields");
  return 0;
} catch (const std::exception& e) {
  return std::fprintf(stderr, "fields: %s\n", e.what()), 1;
}
