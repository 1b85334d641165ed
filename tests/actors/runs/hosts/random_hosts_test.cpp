// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compares random pipelines whose stages work on the engine, on hosts of their own and
/// in child processes with a serial interpreter.
#include <gtest/gtest.h>

#include <cstdlib>

#include "actors/runs/hosts/host_processes.hpp"
#include "actors/runs/hosts/host_stages.hpp"
#include "pipeline/support/random_pipeline.hpp"
#include "support/case_count.hpp"
#include "support/temp_folder.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::test {
namespace {

std::uint64_t random_graphs() {
  return case_count("WEIR_TEST_GRAPHS", 30);
}

TEST(PipelineHosts, RunRandomGraphsAsASerialInterpreter) {
  ::setenv("WEIR_STAGE_HOST", WEIR_NUMBER_HOST_PROGRAM, 1);  // NOLINT
  for (std::uint64_t seed = 0; seed < random_graphs(); ++seed) {
    const random_pipeline g(seed);
    std::vector<durable_items> disks(g.expected().size());
    pipeline p("random");
    g.build(p, seed, disks, {flow::host_kind::own, flow::host_kind::process});
    run_options options;
    options.workers = 1 + static_cast<unsigned>(seed % 2);
    options.every_items = seed % 5;
    const auto end = run(p, options);
    ASSERT_TRUE(end) << g.text() << ": " << end.error().message();
    for (std::size_t i = 0; i < disks.size(); ++i) {
      EXPECT_EQ(g.expected()[i].items, disks[i].items) << g.text() << ", sink " << i;
    }
    if (HasFailure()) {
      break;
    }
  }
  ::unsetenv("WEIR_STAGE_HOST");  // NOLINT
}

/// Runs a random graph with every stage on one kind of host. A child process can make all
/// stages of these graphs by name, apart from `number_sink`, which writes into the memory
/// of this process. A sink of files takes its place, so that no stage is left out.
/// @param variant  Decides the windows, the number of workers and the checkpoints.
void compare_on(flow::host_kind host, std::uint64_t seed, std::uint64_t variant) {
  const temp_folder folder;
  const random_pipeline g(seed);
  const auto file_of = [&](std::size_t number) {
    return folder / ("sink" + std::to_string(number));
  };
  pipeline p("random");
  g.build_on(p, seed + 10'000 * variant, host,
             [&](pipeline& to, const std::string& name, std::size_t number) {
               return add_named<numbered_file>(to, name, {file_of(number)});
             });
  run_options options;
  options.workers = 1 + static_cast<unsigned>((seed + variant) % 2);
  options.every_items = (seed + variant) % 5;
  options.folder = folder / "run";
  const auto end = run(p, options);
  ASSERT_TRUE(end) << g.text() << ", variant " << variant << ": "
                   << end.error().message();
  for (const auto& stage : end->planned.source.stages) {
    ASSERT_EQ(flow::host_of(stage), host) << stage.name << " of " << g.text();
  }
  for (std::size_t i = 0; i < g.expected().size(); ++i) {
    EXPECT_EQ(g.expected()[i].items, items_in(file_of(i)).items)
        << g.text() << ", variant " << variant << ", sink " << i;
  }
  EXPECT_EQ(children(), std::vector<pid_t>()) << g.text();
}

class RandomGraphs : public testing::TestWithParam<flow::host_kind> {};

TEST_P(RandomGraphs, AreRunAsASerialInterpreterWithEveryStageThere) {
  const scoped_variable program("WEIR_STAGE_HOST", WEIR_NUMBER_HOST_PROGRAM);
  const std::uint64_t graphs = case_count("WEIR_TEST_GRAPHS", 12);
  const std::uint64_t variants = case_count("WEIR_TEST_VARIANTS", 1);
  for (std::uint64_t seed = 2000; seed < 2000 + graphs && !HasFailure(); ++seed) {
    for (std::uint64_t variant = 0; variant < variants && !HasFailure(); ++variant) {
      compare_on(GetParam(), seed, variant);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(PipelineHosts, RandomGraphs,
                         testing::Values(flow::host_kind::own, flow::host_kind::process),
                         [](const auto& one) {
                           return std::string(
                               one.param == flow::host_kind::own ? "own" : "children");
                         });

}  // namespace
}  // namespace weir::test
