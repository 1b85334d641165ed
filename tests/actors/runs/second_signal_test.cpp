// SPDX-License-Identifier: Apache-2.0
/// @file
/// A second SIGINT ends the process at once, at any moment of a run, its end included.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "pipeline/support/number_stages.hpp"
#include "support/temp_folder.hpp"
#include "weir/actors/pipelines.hpp"
#include "weir/base/file.hpp"

namespace weir::test {
namespace {

/// Exit codes of a child.
constexpr int finished = 0;
constexpr int interrupted = 10;
constexpr int failed = 11;

/// Continues the run of a folder, as a program with a terminal does.
/// @param on  Where all stages work.
int continue_run(const std::string& folder, flow::host_kind on) {
  actors::run_control control;
  const actors::signal_scope signals(control);
  pipeline p("signals");
  auto source = p.add<number_source>("source", {.count = 300, .seed = 5});
  auto sum = p.add<running_sum>("sum");
  auto file =
      p.add("file", "tgm.write", {{"path", folder + "/out.tgm"}, {"object", "y"}});
  for (node* stage : {&source, &sum, &file}) {
    stage->host(on);
  }
  source >> sum >> file;
  run_options options;
  options.folder = folder;
  options.every_items = 40;
  options.control = &control;
  const auto report = resume(p, options);
  if (!report) {
    std::fprintf(stderr, "%s\n", report.error().message().c_str());
    return failed;
  }
  return report->ended == "finished" ? finished : interrupted;
}

/// Runs in a child, with a signal after each of the pauses. Returns its exit code.
int run_in_child(const std::string& folder, flow::host_kind on,
                 std::initializer_list<unsigned> pauses_us) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(continue_run(folder, on));
  }
  for (const unsigned pause : pauses_us) {
    ::usleep(pause);
    ::kill(child, SIGINT);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Interrupts runs twice, and continues them until they have ended.
void signal_twice_at_any_moment(flow::host_kind on, int runs) {
  add_standard_stages();
  temp_folder whole;
  ASSERT_EQ(run_in_child(whole.path(), on, {}), finished);
  const auto expected =
      or_throw(read_file(posix_file_system(), whole.path() + "/out.tgm"));
  std::mt19937 random(7);
  int at_once = 0;
  for (int round = 0; round < runs; ++round) {
    temp_folder folder;
    int code = -1;
    for (int tries = 0; code != finished && tries < 200; ++tries) {
      // A child that has not installed its handler yet dies of the signal.
      const auto later = static_cast<unsigned>(500 * tries);
      const unsigned first = static_cast<unsigned>(random() % 3000) + later;
      const unsigned second = static_cast<unsigned>(random() % 3000);
      code = run_in_child(folder.path(), on, {first, second});
      ASSERT_TRUE(code == finished || code == interrupted || code == 130 ||
                  code == -SIGINT)
          << code;
      at_once += code == 130 ? 1 : 0;
    }
    ASSERT_EQ(code, finished);
    EXPECT_EQ(or_throw(read_file(posix_file_system(), folder.path() + "/out.tgm")),
              expected);
  }
  EXPECT_GT(at_once, 0);
}

TEST(SecondSignal, EndsAtOnceAndTheRunContinuesToTheSameBytes) {
  signal_twice_at_any_moment(flow::host_kind::automatic, 10);
}

TEST(SecondSignal, EndsAtOnceWithEveryStageOnAHostOfItsOwn) {
  signal_twice_at_any_moment(flow::host_kind::own, 4);
}

}  // namespace
}  // namespace weir::test
