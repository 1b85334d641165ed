// SPDX-License-Identifier: Apache-2.0
/// @file
/// Constants of stages, and stages that wait for each other, on each kind of host.
#include <gtest/gtest.h>

#include "actors/runs/hosts/every_host.hpp"
#include "actors/runs/hosts/host_processes.hpp"
#include "actors/runs/hosts/weighted_stage.hpp"
#include "actors/runs/hosts/weights_volume.hpp"

namespace weir::test {
namespace {

class EveryHostToo : public every_host_fixture {
 protected:
  /// Returns a pipeline of which one stage takes a constant from `w.hn4`.
  /// @param on_engine  Whether all stages are on their usual hosts, whatever the test is.
  static builder weighing(std::uint32_t window, bool on_engine = false) {
    return [=](pipeline& p) {
      auto from = add_named<number_source>(p, "source", {40, 3});
      auto middle = add_named<weighted>(p, "weighted", {});
      auto to = p.add("out", "tgm.write", {{"path", "out.tgm"}});
      for (node* one : {&from, &middle, &to}) {
        one->window(window);
        if (!on_engine) {
          place(*one, one != &middle);
        }
      }
      from >> middle >> to;
    };
  }
};

TEST_P(EveryHostToo, TakesConstantsFromAVolumeThatMustNotChange) {
  run_options engine = options_in("engine");
  engine.every_items = 10;
  write_volume(join_path(engine.files, "w.hn4"), 5);
  ASSERT_TRUE(run_once(weighing(8, true), engine));
  const std::string expected = bytes_in(engine, "out.tgm");
  ASSERT_EQ(number_of_messages(expected), 40U);
  for (const std::uint32_t window : {1U, 2U, 64U}) {
    run_options options = options_in("window" + std::to_string(window));
    options.every_items = 10;
    write_volume(join_path(options.files, "w.hn4"), 5);
    const auto end = run_once(weighing(window), options);
    ASSERT_TRUE(end) << end.error().message();
    EXPECT_EQ(bytes_in(options, "out.tgm"), expected) << "window " << window;
    // The digest of the constant in a checkpoint does not depend on the host.
    for (run_options* from : {&options, &engine}) {
      from->generation = 1;
      write_volume(join_path(from->files, "w.hn4"), 6);
      const auto refused = resume_once(weighing(window), *from);
      for (const char* part : {"\"weighted\"", "\"layer.w\"", "w.hn4", "u64[1,3]"}) {
        expect_failure(refused, errc::history_mismatch, part);
      }
      write_volume(join_path(from->files, "w.hn4"), 5);
      const auto again = resume_once(weighing(window), *from);
      ASSERT_TRUE(again) << again.error().message();
      EXPECT_EQ(bytes_in(*from, "out.tgm"), expected) << "window " << window;
    }
  }
}

// The check does not know the size of the items, so it cannot see that a window of bytes
// has no room for four of them.
TEST_P(EveryHostToo, EndsWithATimeoutThatNamesTheStagesThatWaitForEachOther) {
  run_options options = options_in("ring");
  options.stall_s = 1;
  const auto end = run_once(
      [](pipeline& p) {
        source(p, 20) >> middle<of_any_size>(p, "sized") >>
            middle<first_of_four>(p, "four").window(8, 2 * sizeof(numbers)) >> sink(p);
      },
      options);
  expect_failure(end, errc::timeout,
                 "\"sized\" waits for \"four\" to let go of an item; \"four\" waits for "
                 "an item of \"sized\"");
  EXPECT_EQ(children(), std::vector<pid_t>());
}

INSTANTIATE_TEST_SUITE_P(Pipelines, EveryHostToo, all_hosts(), name_of_hosts);

}  // namespace
}  // namespace weir::test
