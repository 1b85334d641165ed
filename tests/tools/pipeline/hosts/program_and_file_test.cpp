// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pipeline that a program builds, with stages of its own, and the same one as a file
/// write the same bytes.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "actors/runs/hosts/host_processes.hpp"
#include "actors/runs/hosts/weighted_stage.hpp"
#include "actors/runs/hosts/weights_volume.hpp"
#include "pipeline/file.hpp"
#include "pipeline/support/random_pipeline.hpp"
#include "tools/pipeline/demo_stages.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::test {
namespace {

using flow::host_kind;

constexpr const char* two_models = R"(name = "two-models"
[checkpoint]
every = "10 items"
[[stage]]
name = "read"
use = "tgm.read"
path = "in.tgm"
[[stage]]
name = "first"
use = "test.weighted"
tensor = "layer.w"
[[stage]]
name = "scale"
use = "elementwise"
type = "u64[n]"
op = "multiply"
operand = 3
[[stage]]
name = "sum"
use = "test.running_sum"
[[stage]]
name = "second"
use = "test.weighted"
file = "v.hn4"
[[stage]]
name = "write"
use = "tgm.write"
path = "out.tgm"
object = "y"
)";

/// Names of the stages, in the order of the pipeline.
constexpr std::array stage_names{"read", "first", "scale", "sum", "second", "write"};

/// What must not change the output of a run.
struct surroundings {
  unsigned workers = 1;
  std::uint32_t window = 8;
  std::array<host_kind, stage_names.size()> on{};  ///< hosts of the stages
};

/// Adds a stage of a class, which a child process has to know by name.
template <class S>
node add_on(pipeline& p, const std::string& name, host_kind on,
            flow::settings_of<S> settings = {}) {
  return on == host_kind::process ? add_named<S>(p, name, settings)
                                  : p.add<S>(name, settings);
}

class ProgramAndFile : public testing::Test {
 protected:
  ProgramAndFile() {
    add_standard_stages();
    add_demo_stages();
    // Another test of this process may have added it.
    if (const auto added = flow::stages().add<weighted>(); !added) {
      EXPECT_EQ(added.error().code(), errc::already_exists);
    }
    write_volume(folder_ / "w.hn4", 5);
    write_volume(folder_ / "v.hn4", 8);
    std::ofstream(file()) << two_models;
    pipeline input("input");
    input.add<number_source>("source", {.count = 30, .seed = 6}) >>
        input.add("file", "tgm.write", {{"path", folder_ / "in.tgm"}});
    or_throw(run(input, {}));
  }
  [[nodiscard]] std::string file() const { return folder_ / "two.toml"; }

  /// Runs a pipeline in a new run folder, and returns and removes its output.
  std::string output_of(pipeline& p, run_options options) {
    options.folder = folder_ / fmt::format("run{}", ++runs_);
    const auto end = run(p, options);
    EXPECT_TRUE(end) << end.error().message();
    const std::string bytes = pipeline_folder::read(folder_ / "out.tgm");
    std::filesystem::remove(folder_ / "out.tgm");
    return bytes;
  }
  /// Returns the output of the pipeline that this program builds.
  std::string output_of_program(const surroundings& with) {
    pipeline p("two-models");
    // A function has no name by which a child process could make it.
    const host_kind scales =
        with.on[2] == host_kind::process ? host_kind::own : with.on[2];
    std::array stages{
        p.add("read", "tgm.read", {{"path", "in.tgm"}}),
        add_on<weighted>(p, "first", with.on[1], {.tensor = "layer.w"}),
        p.map("scale", "u64[n]", "u64[n]",
              [](view<const std::uint64_t, 1> from, view<std::uint64_t, 1> to) {
                for (std::size_t i = 0; i < elements; ++i) {
                  to[i] = 3 * from[i];
                }
              }),
        add_on<running_sum>(p, "sum", with.on[3]),
        add_on<weighted>(p, "second", with.on[4], {.file = "v.hn4"}),
        p.add("write", "tgm.write", {{"path", "out.tgm"}, {"object", "y"}})};
    for (std::size_t i = 0; i < stages.size(); ++i) {
      stages[i].window(with.window).host(i == 2 ? scales : with.on[i]);
    }
    stages[0] >> stages[1] >> stages[2] >> stages[3] >> stages[4] >> stages[5];
    run_options options;
    options.files = folder_.path();
    options.workers = with.workers;
    options.every_items = 10;
    return output_of(p, options);
  }
  /// Returns the output of the pipeline of the file.
  std::string output_of_file(const surroundings& with) {
    tools::file_overrides overrides;
    overrides.sets.push_back(fmt::format("run.workers={}", with.workers));
    for (std::size_t i = 0; i < stage_names.size(); ++i) {
      if (i != 0) {
        overrides.sets.push_back(
            fmt::format("{}.window={} items", stage_names[i], with.window));
      }
      if (with.on[i] != host_kind::automatic) {
        overrides.sets.push_back(
            fmt::format("{}.host={}", stage_names[i], name_of(with.on[i])));
      }
    }
    auto loaded = or_throw(tools::load_pipeline(file(), overrides));
    return output_of(*loaded.stages, loaded.options);
  }

  temp_folder folder_;
  int runs_ = 0;
};

TEST_F(ProgramAndFile, WriteTheSameBytesWithAnyWorkersWindowsAndHosts) {
  const scoped_variable program("WEIR_STAGE_HOST", WEIR_NUMBER_HOST_PROGRAM);
  const std::string expected = output_of_program({});
  ASSERT_FALSE(expected.empty());
  constexpr std::array kinds{host_kind::automatic, host_kind::own, host_kind::process};
  for (const unsigned workers : {1U, 2U}) {
    for (const std::uint32_t window : {1U, 2U, 64U}) {
      // Each stage is on each kind of host, beside stages on the others.
      for (std::size_t shift = 0; shift < kinds.size(); ++shift) {
        surroundings with{workers, window};
        for (std::size_t i = 0; i < with.on.size(); ++i) {
          with.on[i] = kinds[(i + shift) % kinds.size()];
        }
        SCOPED_TRACE(
            fmt::format("workers {}, window {}, shift {}", workers, window, shift));
        EXPECT_EQ(output_of_program(with), expected);
        EXPECT_EQ(output_of_file(with), expected);
      }
    }
  }
  EXPECT_EQ(children(), std::vector<pid_t>());
}

}  // namespace
}  // namespace weir::test
