// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pipelines run by actors: results, checkpoints on durable_items, stops, failures.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "pipeline/support/number_stages.hpp"
#include "support/case_count.hpp"
#include "support/temp_folder.hpp"
#include "weir/actors/pipelines.hpp"
#include "weir/base/file.hpp"

namespace weir::test {
namespace {

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

/// A source that has `count` items and then none for ever.
struct quiet_source {
  using cursor = std::uint64_t;
  out<std::uint64_t, 1> x;
  cursor at = 0;
  static void describe(stage_spec<quiet_source>& s) {
    s.name("test.quiet", "falls silent").port("x", &quiet_source::x, "3");
  }
  result<bool> next(pull& p) {
    if (at == 5) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      p.nothing_yet();
      return true;
    }
    WEIR_TRY(auto v, p.fill(x, width));
    std::fill(v.begin(), v.end(), at++);
    return true;
  }
  [[nodiscard]] cursor position() const { return at; }
  result<void> seek(cursor c) {
    at = c;
    return {};
  }
};

void build(pipeline& p, durable_items& d, fragile::settings fragile_settings = {},
           std::uint64_t count = 500) {
  auto source = p.add<number_source>("source", {.count = count, .seed = 5});
  auto first = p.add<scaled>("first", {.factor = 3});
  auto middle = p.add<fragile>("middle", fragile_settings);
  auto sum = p.add<running_sum>("sum");
  auto late = p.add<late_filter>("late");
  auto sink = p.add<number_sink>("sink", sink_of(d));
  source >> first >> middle >> sum >> late >> sink;
}

durable_items whole_run() {
  durable_items d;
  pipeline p("numbers");
  build(p, d);
  const auto report = run(p, {});
  EXPECT_TRUE(report) << report.error().message();
  return d;
}

TEST(PipelineRun, EqualsItselfWithAnyWorkersAndCheckpoints) {
  const durable_items expected = whole_run();
  ASSERT_GT(expected.items.size(), 100U);
  for (const std::uint64_t every : {1U, 7U, 100U}) {
    temp_folder folder;
    durable_items d;
    pipeline p("numbers");
    build(p, d);
    run_options options;
    options.folder = folder.path() + "/run";
    options.workers = 2;
    options.every_items = every;
    const auto report = run(p, options);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->ended, "finished");
    EXPECT_EQ(report->items, 500U);
    EXPECT_GE(report->epochs, 500 / every);
    EXPECT_EQ(report->generation, report->epochs);
    EXPECT_EQ(d.items, expected.items);
    EXPECT_LE(report->item_bytes, report->memory_bound);
    pipeline again("numbers");
    build(again, d);
    const auto second = resume(again, options);
    ASSERT_TRUE(second) << second.error().message();
    EXPECT_EQ(second->items, 0U);
    EXPECT_EQ(d.items, expected.items);
    pipeline third("numbers");
    build(third, d);
    const auto refused = run(third, options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::already_exists);
  }
}

TEST(PipelineRun, KeepsItsLastCheckpointWhenATaskFailsAndContinuesFromIt) {
  const durable_items expected = whole_run();
  for (const bool throws : {false, true}) {
    temp_folder folder;
    durable_items d;
    run_options options;
    options.folder = folder.path();
    options.every_items = 50;
    {
      pipeline p("numbers");
      build(p, d, {.fails_at = 333, .throws = throws});
      const auto report = run(p, options);
      ASSERT_FALSE(report);
      const std::string text = report.error().message();
      EXPECT_NE(text.find("item 333 in stage \"middle\""), std::string::npos) << text;
      EXPECT_NE(text.find(throws ? "thrown by the test" : "planted failure"),
                std::string::npos)
          << text;
    }
    pipeline p("numbers");
    build(p, d);
    const auto report = resume(p, options);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_GE(report->resumed_item, 200U);
    EXPECT_EQ(report->resumed_item % 50, 0U);
    EXPECT_EQ(d.items, expected.items);
  }
}

/// A source that cannot read one item until it is repaired.
struct damaged_source {
  struct settings {
    std::uint64_t damaged = ~std::uint64_t{0} >> 1;
  };
  using cursor = std::uint64_t;
  out<std::uint64_t, 1> x;
  cursor at = 0, damaged = 0;
  static void describe(stage_spec<damaged_source>& s) {
    s.name("test.damaged", "fails at one item").port("x", &damaged_source::x, "3");
    s.set("damaged", &settings::damaged, "number of the item").may_change();
  }
  result<void> open(opening&, const settings& s) {
    damaged = s.damaged;
    return {};
  }
  result<bool> next(pull& p) {
    if (at == damaged) {
      return error(errc::corrupt, "planted damage");
    }
    if (at == 200) {
      return false;
    }
    WEIR_TRY(auto v, p.fill(x, width));
    std::fill(v.begin(), v.end(), at++);
    return true;
  }
  [[nodiscard]] cursor position() const { return at; }
  result<void> seek(cursor c) {
    at = c;
    return {};
  }
};

TEST(PipelineRun, AFailedSourceLeavesACheckpointOfAllItemsBefore) {
  for (const std::uint64_t damaged : {0U, 1U, 31U, 100U, 199U}) {
    temp_folder folder;
    durable_items d;
    run_options options;
    options.folder = folder.path();
    options.every_items = 50;
    const auto attempt = [&](damaged_source::settings with) {
      pipeline p("damaged");
      auto source = p.add<damaged_source>("source", with);
      auto sum = p.add<running_sum>("sum");
      auto sink = p.add<number_sink>("sink", sink_of(d));
      source >> sum >> sink;
      return resume(p, options);
    };
    const auto failed = attempt({.damaged = damaged});
    ASSERT_FALSE(failed);
    const std::string text = failed.error().message();
    EXPECT_NE(text.find("item " + std::to_string(damaged) + " in stage \"source\""),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("before number " + std::to_string(damaged)), std::string::npos)
        << text;
    EXPECT_EQ(d.items.size(), damaged);
    const auto repaired = attempt({});
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

TEST(PipelineRun, GoesBackPastItemsThatItThenSkips) {
  temp_folder folder;
  durable_items d;
  run_options options;
  options.folder = folder.path();
  options.every_items = 50;
  options.keep = 8;
  pipeline p("numbers");
  build(p, d);
  ASSERT_TRUE(run(p, options));
  options.generation = 4;  // behind item 199
  options.skip = {{200, 210}};
  pipeline again("numbers");
  build(again, d);
  const auto back = resume(again, options);
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->resumed_item, 200U);
  EXPECT_EQ(back->items, 290U);
  EXPECT_EQ(
      std::count_if(d.items.begin(), d.items.end(),
                    [](const auto& one) { return one.first >= 200 && one.first < 210; }),
      0);
  options.generation = 5;  // the run has gone back behind it, so that it is gone
  pipeline third("numbers");
  build(third, d);
  const auto refused = resume(third, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::not_found);
}

TEST(PipelineRun, ASinkThatRefusesAGenerationLeavesTheNewerOnes) {
  temp_folder folder;
  durable_items d;
  run_options options;
  options.folder = folder.path();
  options.every_items = 50;
  pipeline p("numbers");
  build(p, d);
  const auto report = run(p, options);
  ASSERT_TRUE(report) << report.error().message();
  const durable_items whole = d;
  d.items.clear();
  options.generation = report->generation - 1;
  pipeline again("numbers");
  build(again, d);
  EXPECT_FALSE(resume(again, options));
  d = whole;
  options.generation = 0;
  pipeline third("numbers");
  build(third, d);
  const auto newest = resume(third, options);
  ASSERT_TRUE(newest) << newest.error().message();
  EXPECT_EQ(newest->generation, report->generation);
  EXPECT_TRUE(newest->finished_before);
}

TEST(PipelineRun, ContinuesFromAnOlderGenerationAndRefusesOneThatIsMissing) {
  const durable_items expected = whole_run();
  temp_folder folder;
  durable_items d;
  run_options options;
  options.folder = folder.path();
  options.every_items = 50;
  pipeline p("numbers");
  build(p, d);
  const auto report = run(p, options);
  ASSERT_TRUE(report) << report.error().message();
  options.generation = report->generation - 1;
  pipeline again("numbers");
  build(again, d);
  const auto older = resume(again, options);
  ASSERT_TRUE(older) << older.error().message();
  EXPECT_EQ(older->resumed_item, 500U);
  EXPECT_EQ(d.items, expected.items);
  options.generation = 77;
  pipeline third("numbers");
  build(third, d);
  const auto refused = resume(third, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::not_found);
}

TEST(PipelineRun, RefusesACheckpointOfAnotherPipelineAndASinkThatWasCut) {
  temp_folder folder;
  durable_items d;
  run_options options;
  options.folder = folder.path();
  options.every_items = 100;
  {
    pipeline p("numbers");
    build(p, d, {.fails_at = 450, .throws = true});
    ASSERT_FALSE(run(p, options));
  }
  pipeline other("numbers");
  build(other, d, {}, 501);
  const auto mismatch = resume(other, options);
  ASSERT_FALSE(mismatch);
  EXPECT_EQ(mismatch.error().code(), errc::config_mismatch);
  EXPECT_NE(mismatch.error().message().find("count"), std::string::npos)
      << mismatch.error().message();
  d.items.resize(3);
  pipeline cut("numbers");
  build(cut, d);
  const auto torn = resume(cut, options);
  ASSERT_FALSE(torn);
  EXPECT_EQ(torn.error().code(), errc::torn);
  EXPECT_NE(torn.error().message().find("\"sink\""), std::string::npos);
}

class QuietSource : public testing::TestWithParam<std::uint64_t> {};

// A barrier by number may stand behind the last item of the quiet source.
INSTANTIATE_TEST_SUITE_P(Every, QuietSource, testing::Values(0, 1, 3, 8, 1000));

// Once all items are durable, time alone makes no further checkpoint, and neither does
// the stop.
TEST_P(QuietSource, IsCheckpointedByTimeUntilAllIsDurableAndStopsAtOnce) {
  temp_folder folder;
  durable_items d;
  pipeline p("quiet");
  auto source = p.add<quiet_source>("source");
  auto first = p.add<scaled>("first", {.factor = 3});
  auto sink = p.add<number_sink>("sink", sink_of(d));
  source >> first >> sink;
  actors::run_control control;
  run_options options;
  options.folder = folder.path();
  options.every_seconds = 0.1;
  options.every_items = GetParam();
  options.control = &control;
  std::uint64_t epochs = 0;
  int calls = 0;
  options.progress = [&](const pipeline_progress& progress) {
    if (progress.durable_items != 5) {
      return;
    }
    epochs = calls == 0 ? progress.epochs : epochs;
    if (++calls == 8) {
      control.request_stop();
    }
  };
  const auto start = std::chrono::steady_clock::now();
  const auto report = run(p, options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->ended, "interrupted");
  EXPECT_EQ(d.items.size(), 5U);
  EXPECT_GE(report->epochs, 1U);
  EXPECT_EQ(report->epochs, epochs);
  EXPECT_EQ(report->generation, epochs);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

// Every round is asked to stop a little later, and twice. A round that is asked before it
// has begun makes no progress.
TEST(PipelineRun, AStoppedRunContinuesToTheSameOutput) {
  const durable_items expected = whole_run();
  for (std::uint64_t stop_behind = 1; stop_behind < 400;
       stop_behind += 57 * case_step()) {
    temp_folder folder;
    durable_items d;
    run_options options;
    options.folder = folder.path();
    options.every_items = stop_behind;
    bool finished = false;
    for (int rounds = 0; !finished && rounds < 1000; ++rounds) {
      actors::run_control control;
      options.control = &control;
      pipeline p("numbers");
      build(p, d);
      std::thread user([&control, rounds] {
        for (int i = 0; i < 2; ++i) {
          std::this_thread::sleep_for(std::chrono::microseconds(100) * rounds);
          control.request_stop();
        }
      });
      const auto report = resume(p, options);
      user.join();
      ASSERT_TRUE(report) << report.error().message();
      finished = report->ended == "finished";
    }
    EXPECT_TRUE(finished);
    EXPECT_EQ(d.items, expected.items);
  }
}

// The quiet source has 5 items; the other one has 500 and does not wait for it to read.
TEST_P(QuietSource, ThatMeetsAnotherKeepsNoItemFromACheckpoint) {
  temp_folder folder;
  durable_items d;
  pipeline p("quiet");
  auto quiet = p.add<quiet_source>("quiet");
  auto other = p.add<number_source>("other", {.count = 500, .seed = 5});
  auto first = p.add<scaled>("first", {.factor = 3});
  auto join = p.add<struct joined>("join");
  auto sink = p.add<number_sink>("sink", sink_of(d));
  other >> first >> join["a"];
  quiet >> join["b"];
  join >> sink;
  actors::run_control control;
  run_options options;
  options.folder = folder.path();
  options.every_seconds = 0.1;
  options.every_items = GetParam();
  options.control = &control;
  int calls = 0;
  std::uint64_t durable = 0;
  options.progress = [&](const pipeline_progress& progress) {
    durable = progress.durable_items;
    if (durable == 5 || ++calls == 300) {
      control.request_stop();
    }
  };
  const auto report = run(p, options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->ended, "interrupted");
  EXPECT_EQ(durable, 5U);
  EXPECT_EQ(d.items.size(), 5U);
}

TEST(PipelineRun, StartsAndStopsTwoHundredTimes) {
  for (int i = 0; i < 200; ++i) {
    durable_items d;
    actors::run_control control;
    run_options options;
    options.control = &control;
    options.workers = 1 + static_cast<unsigned>(i % 2);
    options.every_items = static_cast<std::uint64_t>(i % 5);
    if (i % 3 == 0) {
      control.request_stop();
    }
    pipeline p("numbers");
    build(p, d, {}, 20);
    const auto report = run(p, options);
    ASSERT_TRUE(report) << report.error().message();
    ASSERT_EQ(report->ended == "finished", report->items == 20) << i;
  }
}

/// A stage of eight tasks, which may run side by side; the last one takes long.
template <int Number>
struct eight_parts {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<eight_parts>& s) {
    s.name(Number == 1 ? "test.parts1" : "test.parts2", "works in eight parts");
    s.stateless();
    s.port("x", &eight_parts::x, "n").port("y", &eight_parts::y, "n");
  }
  result<void> on_item(step& s) {
    WEIR_TRY(auto to, s.make(y, s[x].extent(0)));
    for (std::int64_t k = 0; k < 8; ++k) {
      s.submit(
          Number == 1 ? "part of stage 1" : "part of stage 2",
          [k](auto from, auto out) {
            std::this_thread::sleep_for(std::chrono::milliseconds(k == 7 ? 300 : 1));
            out[0] = from[0] + 1;
          },
          read(s[x].slice(0, k, k + 1)), write(to.slice(0, k, k + 1)));
    }
    return s.emit();
  }
};

/// A source of one item with eight elements.
struct eight_elements {
  using cursor = std::uint64_t;
  out<std::uint64_t, 1> x;
  cursor at = 0;
  static void describe(stage_spec<eight_elements>& s) {
    s.name("test.eight", "one item").port("x", &eight_elements::x, "8");
  }
  result<bool> next(pull& p) {
    if (at == 1) {
      return false;
    }
    WEIR_TRY(auto v, p.fill(x, 8));
    std::fill(v.begin(), v.end(), at++);
    return true;
  }
  [[nodiscard]] cursor position() const { return at; }
  result<void> seek(cursor c) {
    at = c;
    return {};
  }
};

/// Returns begin and end of all events of a name in a trace, ascending.
/// @units{microseconds}
std::vector<std::pair<double, double>> times_of(const std::string& trace,
                                                const std::string& name) {
  std::vector<std::pair<double, double>> found;
  const auto parsed = nlohmann::json::parse(trace);
  for (const auto& e : parsed.at("traceEvents")) {
    if (e.value("name", "") == name && e.value("ph", "") == "X") {
      const double begin = e.at("ts").get<double>();
      found.emplace_back(begin, begin + e.at("dur").get<double>());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

TEST(PipelineRun, ATaskOfTheSecondStageRunsBeforeTheLastOneOfTheFirstHasEnded) {
  temp_folder folder;
  pipeline p("overlap");
  auto source = p.add<eight_elements>("source");
  auto first = p.add<eight_parts<1>>("first");
  auto second = p.add<eight_parts<2>>("second");
  add_standard_stages();
  auto sink = p.add("sink", "null");
  source >> first >> second >> sink;
  run_options options;
  options.folder = folder.path();
  options.workers = 2;
  options.trace = runtime::trace_mode::all;
  const auto report = run(p, options);
  ASSERT_TRUE(report) << report.error().message();
  const auto bytes =
      or_throw(read_file(posix_file_system(), folder.path() + "/trace.json"));
  const std::string text(as_text(bytes));
  const auto one = times_of(text, "part of stage 1");
  const auto two = times_of(text, "part of stage 2");
  ASSERT_EQ(one.size(), 8U);
  ASSERT_EQ(two.size(), 8U);
  EXPECT_LT(two.front().second, one.back().second);
}

}  // namespace
}  // namespace weir::test
