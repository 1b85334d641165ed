// SPDX-License-Identifier: Apache-2.0
/// @file
/// A child process of C++ dies with its run, even while it computes: it does not look at
/// its socket then, so that the kernel must end it.
#include <gtest/gtest.h>
#include <signal.h>  // NOLINT: the functions are those of POSIX
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "actors/runs/hosts/host_processes.hpp"
#include "actors/runs/hosts/host_stages.hpp"
#include "pipeline/support/random_pipeline.hpp"
#include "support/temp_folder.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::test {
namespace {

/// Waits until something is true, and returns whether it became true in a minute.
bool becomes_true(const std::function<bool()>& what) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!what()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

/// Runs a pipeline whose only child process computes until it is killed.
result<pipeline_report> run_long(const std::string& file) {
  add_standard_stages();
  pipeline p("long");
  auto stage = add_named<computes_long>(p, "stage", {file});
  add_named<number_source>(p, "source", {1, 1}) >> stage.host(flow::host_kind::process) >>
      p.add("sink", "null");
  run_options options;
  options.deadline_s = options.stall_s = 3600;
  return run(p, options);
}

TEST(PipelineHosts, KillAChildOfCxxThatComputesWhenTheRunWasKilled) {
  const scoped_variable program("WEIR_STAGE_HOST", WEIR_NUMBER_HOST_PROGRAM);
  const temp_folder folder;
  const std::string file = folder / "process";
  const pid_t whole = ::fork();
  ASSERT_GE(whole, 0);
  if (whole == 0) {
    ::_exit(run_long(file) ? 0 : 1);
  }
  pid_t child = 0;
  const bool computes = becomes_true([&] {
    std::ifstream in(file);
    return static_cast<bool>(in >> child) || !status_of(whole).is_alive();
  });
  const process_status before = status_of(child);
  ::kill(whole, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(whole, &status, 0), whole);
  ASSERT_TRUE(computes) << "the stage has not begun to compute";
  ASSERT_TRUE(WIFSIGNALED(status)) << "the run has ended with status " << status;
  EXPECT_EQ(before.parent, whole);
  EXPECT_TRUE(before.is_alive());
  // An ended process is shown until the process that inherits it has waited for it.
  const bool gone = becomes_true([&] { return !status_of(child).is_alive(); });
  EXPECT_TRUE(gone) << "process " << child << " computes without its run";
  if (!gone) {
    ::kill(child, SIGKILL);
  }
}

}  // namespace
}  // namespace weir::test
