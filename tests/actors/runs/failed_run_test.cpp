// SPDX-License-Identifier: Apache-2.0
/// @file
/// Failures of tasks, sources and checkpoints: what is durable afterwards, and how a run
/// continues.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "actors/runs/numbers_pipeline.hpp"
#include "support/temp_folder.hpp"

namespace weir::test {
namespace {

TEST(PipelineRun, KeepsItsLastCheckpointWhenATaskFailsAndContinuesFromIt) {
  const durable_items expected = whole_run();
  for (const bool throws : {false, true}) {
    temp_folder folder;
    durable_items d;
    const run_options options = saving(folder, 50);
    {
      const auto report = run_numbers(d, options, {.fails_at = 333, .throws = throws});
      ASSERT_FALSE(report);
      const std::string text = report.error().message();
      EXPECT_NE(text.find("item 333 in stage \"middle\""), std::string::npos) << text;
      EXPECT_NE(text.find(throws ? "thrown by the test" : "planted failure"),
                std::string::npos)
          << text;
    }
    const auto report = resume_numbers(d, options);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->resumed_item, 333U) << "all items before were finished";
    EXPECT_EQ(d.items, expected.items);
  }
}

TEST(PipelineRun, KeepsWhatWasFinishedBeforeAFailedItem) {
  const durable_items expected = whole_run();
  for (const std::uint64_t every : {20U, 50U}) {
    for (const std::uint64_t item : {0U, 101U, 333U}) {
      temp_folder folder;
      durable_items d;
      const run_options options = saving(folder, every);
      const auto failed = run_numbers(d, options, {.fails_at = item});
      ASSERT_FALSE(failed);
      const std::string hint = "before number " + std::to_string(item) + ";";
      const std::string text = failed.error().message();
      EXPECT_EQ(text.find(hint) != std::string::npos, item != 0) << text;
      // It fails again where it has failed before, and nothing gets lost.
      const auto again = resume_numbers(d, options, {.fails_at = item});
      ASSERT_FALSE(again);
      EXPECT_EQ(again.error().message().find(hint) != std::string::npos, item != 0);
      const auto report = resume_numbers(d, options);
      ASSERT_TRUE(report) << report.error().message();
      EXPECT_EQ(report->resumed_item, item);
      EXPECT_EQ(d.items, expected.items);
    }
  }
}

/// Hands items on. Each attempt fails at the next of some items.
struct fails_elsewhere {
  struct settings {
    std::uint64_t count = 0;
  };
  static inline std::vector<std::uint64_t> items;
  std::uint64_t item = 0;
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<fails_elsewhere>& s) {
    s.name("test.fails_elsewhere", "fails at another item in each attempt").stateless();
    s.port("x", &fails_elsewhere::x, "n").port("y", &fails_elsewhere::y, "n");
    s.set("count", &settings::count, "not used");
  }
  result<void> open(opening&, const settings&) {
    item = items.front();
    items.erase(items.begin());
    return {};
  }
  result<void> on_item(step& s) {
    if (s.seq() == item) {
      return error(errc::corrupt, "planted failure");
    }
    s.forward(x, y);
    return s.emit();
  }
};

TEST(PipelineRun, AFailureThatComesAgainEndsTheRunWithTheFirstOne) {
  struct attempts {
    std::vector<std::uint64_t> items;  ///< at which they fail
    std::uint64_t kept = 0;            ///< items that a checkpoint holds in the end
  };
  constexpr std::uint64_t never = 1000;
  add_standard_stages();
  // The last attempt is that of the repaired run.
  for (const attempts& one :
       {attempts{{100, 100, never}, 100}, attempts{{100, 60, 60, never}, 60},
        attempts{{100, 60, 30, never}, 0}}) {
    temp_folder folder;
    fails_elsewhere::items = one.items;
    const run_options options = saving(folder, 0);
    const auto attempt = [&] {
      pipeline p("elsewhere");
      auto source = p.add<number_source>("source", {.count = 200, .seed = 5});
      auto stage = p.add<fails_elsewhere>("stage");
      auto sink = p.add("sink", "null");
      source >> stage >> sink;
      return resume(p, options);
    };
    const auto failed = attempt();
    ASSERT_FALSE(failed);
    const std::string text = failed.error().message();
    EXPECT_NE(text.find("item 100 in stage \"stage\""), std::string::npos) << text;
    const auto end = attempt();
    ASSERT_TRUE(end) << end.error().message();
    EXPECT_EQ(end->resumed_item, one.kept);
    EXPECT_EQ(end->items, 200 - one.kept);
    EXPECT_TRUE(fails_elsewhere::items.empty());
  }
}

TEST(PipelineRun, AFailedSourceLeavesACheckpointOfAllItemsBefore) {
  for (const std::uint64_t damaged : {0U, 1U, 31U, 100U, 199U}) {
    temp_folder folder;
    durable_items d;
    const run_options options = saving(folder, 50);
    const auto attempt = [&](damaged_source::settings with) {
      pipeline p("damaged");
      auto source = p.add<damaged_source>("source", with);
      auto sum = p.add<running_sum>("sum");
      auto sink = p.add<number_sink>("sink", sink_of(d));
      source >> sum >> sink;
      return resume(p, options);
    };
    const auto failed = attempt({.count = 200, .damaged = damaged});
    ASSERT_FALSE(failed);
    const std::string text = failed.error().message();
    EXPECT_NE(text.find("item " + std::to_string(damaged) + " in stage \"source\""),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("before number " + std::to_string(damaged)), std::string::npos)
        << text;
    EXPECT_EQ(d.items.size(), damaged);
    const auto repaired = attempt({.count = 200});
    ASSERT_TRUE(repaired) << repaired.error().message();
    EXPECT_EQ(repaired->resumed_item, damaged);
    EXPECT_EQ(repaired->items, 200 - damaged);
    EXPECT_EQ(d.items.size(), 200U);
  }
}

TEST(PipelineRun, GoesOnWithoutACheckpointThatCannotBeWritten) {
  temp_folder folder;
  durable_items d;
  run_options options;
  options.folder = folder.path() + "/run";
  options.every_items = 20;
  std::string warned;
  const std::string checkpoints = options.folder + "/checkpoint";
  const std::string away = folder.path() + "/away";
  bool moved = false;
  options.warning = [&](const std::string& text) {
    warned += text;
    if (moved) {
      std::filesystem::rename(away, checkpoints);
      moved = false;
    }
  };
  struct slow {
    in<std::uint64_t, 1> x;
    out<std::uint64_t, 1> y;
    static void describe(stage_spec<slow>& s) {
      s.name("test.slow", "takes a millisecond").stateless();
      s.port("x", &slow::x, "n").port("y", &slow::y, "n");
    }
    result<void> on_item(step& s) {
      WEIR_TRY(auto to, s.make(y, width));
      s.submit(
          "wait",
          [](auto from, auto out) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            std::copy(from.begin(), from.end(), out.begin());
          },
          read(s[x]), write(to));
      return s.emit();
    }
  };
  pipeline p("numbers");
  auto source = p.add<number_source>("source", {.count = 500, .seed = 5});
  auto first = p.add<scaled>("first", {.factor = 3});
  auto middle = p.add<slow>("middle");
  auto sink = p.add<number_sink>("sink", sink_of(d));
  source >> first >> middle >> sink;
  bool once = false;
  options.progress = [&](const pipeline_progress& progress) {
    if (!once && progress.epochs > 0) {
      std::filesystem::rename(checkpoints, away);
      once = moved = true;
    }
  };
  const auto report = run(p, options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(once);
  EXPECT_FALSE(moved);
  EXPECT_NE(warned.find("checkpoint"), std::string::npos) << warned;
  EXPECT_EQ(d.items.size(), 500U);
  EXPECT_LT(report->epochs, 26U);
}

}  // namespace
}  // namespace weir::test
