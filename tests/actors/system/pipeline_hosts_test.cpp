// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pipelines on the deterministic scheduler: a thousand interleavings, and faults of
/// hosts and of the disk, end in the bytes of an undisturbed run.
#include <gtest/gtest.h>

#include "actors/system/stepped_pipeline.hpp"
#include "pipeline/support/number_stages.hpp"
#include "support/case_count.hpp"
#include "support/faulty_files.hpp"
#include "support/temp_folder.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::test {
namespace {

/// A source that has no item at two of three calls, as if it were live.
struct slow_source {
  using cursor = std::uint64_t;
  out<std::uint64_t, 1> x;
  cursor at = 0;
  int calls = 0;
  static void describe(stage_spec<slow_source>& s) {
    s.name("test.slow", "is quiet now and then").port("x", &slow_source::x, "3");
  }
  result<bool> next(pull& p) {
    if (at == 24) {
      return false;
    }
    if (++calls % 3 != 0) {
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

/// Two sources that meet, a blocking stage, a late stage and a sink.
void build(pipeline& p, durable_items& d, std::uint32_t window) {
  auto one = p.add<number_source>("one", {.count = 24, .seed = 5});
  auto two = p.add<slow_source>("two");
  auto first = p.add<scaled>("first", {.factor = 3});
  auto join = p.add<joined>("join");
  auto sum = p.add<outside_sum>("sum");
  auto late = p.add<late_filter>("late");
  auto sink = p.add<number_sink>("sink", sink_of(d));
  for (auto* s : {&first, &join, &sum, &late, &sink}) {
    s->window(window);
  }
  one >> first >> join["a"];
  two >> join["b"];
  join >> sum >> late >> sink;
}

durable_items undisturbed() {
  durable_items d;
  pipeline p("hosts");
  build(p, d, 4);
  const auto report = flow::run_here(p, {});
  EXPECT_TRUE(report) << report.error().message();
  return d;
}

/// A folder of checkpoints in memory; its lock is on the real disk.
struct checkpoints {
  std::shared_ptr<actors::epoch_store> open() {
    return std::make_shared<actors::epoch_store>(
        or_throw(actors::epoch_store::open(fs, folder.path(), "")));
  }
  temp_folder folder;
  faulty_files fs;
};

stepped_options options_of(std::uint32_t seed) {
  stepped_options o;
  o.seed = seed;
  const std::array<std::uint64_t, 5> every{0, 1, 3, 7, 100};
  o.run.every_items = every[seed % 5];
  o.run.every_seconds = seed % 3 == 0 ? 0.2 : 0;
  o.proxies = seed % 2 == 1;
  o.twice = seed % 4 == 3;
  return o;
}

// At every step, the credits of an edge that are free, wait or are held are its window;
// at rest all are free.
TEST(SteppedPipeline, AThousandInterleavingsGiveOneOutputAndLoseNoCredit) {
  const durable_items expected = undisturbed();
  ASSERT_GT(expected.items.size(), 8U);
  const std::uint64_t seeds = case_count("WEIR_TEST_INTERLEAVINGS", 1000);
  int repeated = 0;
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    checkpoints files;
    durable_items d;
    bool finished = false;
    for (std::uint32_t part = 0; !finished && part < 40; ++part) {
      stepped_options o = options_of(seed + part * 1000);
      if (part < seed % 4) {
        o.stop_at = static_cast<int>((seed * 13 + part * 29) % 150);
      }
      pipeline p("hosts");
      build(p, d, 1 + (seed + part) % 5);
      stepped_pipeline run(p, files.open(), o);
      const auto& end = run.run();
      ASSERT_TRUE(end) << "the run does not end";
      ASSERT_TRUE(*end) << end->error().message();
      ASSERT_FALSE(run.lost_credits());
      if (!o.stop_at) {  // a run that is stopped at once has no answers
        ASSERT_EQ(run.repeated() != 0, o.twice);
      }
      repeated += run.repeated();
      finished = (*end)->ended == "finished";
      if (finished) {
        ASSERT_TRUE(run.all_credits_free());
      }
    }
    ASSERT_TRUE(finished);
    ASSERT_EQ(d.items, expected.items);
  }
  RecordProperty("second_answers", repeated);
}

/// Resumes a run, and expects the items of an undisturbed one.
void expect_the_rest(checkpoints& files, durable_items& d, const durable_items& expected,
                     std::uint32_t seed) {
  pipeline p("hosts");
  build(p, d, 4);
  auto store = files.open();
  bool finished = false;
  if (or_throw(store->empty())) {
    d.items.clear();  // a sink in memory does not begin anew by itself
  } else {
    finished = or_throw(actors::epoch_in(or_throw(store->read(0)))).state.finished;
  }
  if (!finished) {
    stepped_pipeline again(p, std::move(store), options_of(seed));
    const auto& end = again.run();
    ASSERT_TRUE(end && *end);
    EXPECT_EQ((*end)->ended, "finished");
  }
  EXPECT_EQ(d.items, expected.items);
}

/// Runs the pipeline with a wrong answer, looks at its end, and resumes it. Returns the
/// number of wrong answers: a run may have fewer answers than the number of the fault.
template <class Look>
int after_a_wrong_answer(const stepped_options& o, const durable_items& expected,
                         const Look& look) {
  checkpoints files;
  durable_items d;
  int faults = 0;
  {
    pipeline p("hosts");
    build(p, d, 1 + o.seed % 5);
    stepped_pipeline run(p, files.open(), o);
    const auto& end = run.run();
    faults = run.faults();
    if (faults != 0) {
      look(end);
    }
  }
  expect_the_rest(files, d, expected, o.seed);
  return faults;
}

// The sink says that it has written an item less than it has. Nobody gives back the
// credit of that item.
TEST(SteppedPipeline, ALostCreditEndsTheRunWithATimeoutThatNamesTheStage) {
  const durable_items expected = undisturbed();
  const std::uint64_t seeds = case_count("WEIR_TEST_FAULTS", 8);
  int faults = 0;
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    stepped_options o = options_of(seed);
    o.proxies = true;
    o.answers = answer_fault::loses_credit;
    o.answers_of = "sink";
    o.answer_at = static_cast<int>(seed % 4);
    o.stall_ns = 200'000'000;
    o.rest = std::chrono::milliseconds(3);
    faults += after_a_wrong_answer(o, expected, [](const auto& end) {
      ASSERT_TRUE(end) << "the run does not end";
      ASSERT_FALSE(*end);
      EXPECT_EQ(end->error().code(), errc::timeout);
      const std::string text = end->error().message();
      EXPECT_NE(text.find("makes no progress"), std::string::npos) << text;
      EXPECT_NE(text.find("\"sink\" waits for"), std::string::npos) << text;
    });
  }
  EXPECT_GE(faults, static_cast<int>(seeds / 2));
}

// A host that has not answered may be reading a quiet source, so the run waits for it
// without a deadline. A run that is ended from outside then goes on without a loss.
TEST(SteppedPipeline, AnAnswerThatNeverComesIsWaitedForAndAResumeLosesNothing) {
  const durable_items expected = undisturbed();
  const std::array<const char*, 4> stages{"one", "two", "sum", "sink"};
  const std::uint64_t seeds = case_count("WEIR_TEST_FAULTS", 8);
  int faults = 0;
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    stepped_options o = options_of(seed);
    o.proxies = true;
    o.answers = answer_fault::kept;
    o.answers_of = stages.at(seed % stages.size());
    o.answer_at = static_cast<int>(seed / 4 % 7) * 2;
    o.stall_ns = 200'000'000;
    o.rest = std::chrono::milliseconds(2);  // 0.4 s until the test gives up
    faults += after_a_wrong_answer(
        o, expected, [](const auto& end) { EXPECT_FALSE(end) << "the run has ended"; });
  }
  EXPECT_GE(faults, static_cast<int>(seeds / 2));
}

TEST(SteppedPipeline, AHostOfASinkThatDiesAroundItsSyncLosesNothing) {
  const durable_items expected = undisturbed();
  std::uint64_t failures = 0;
  const std::uint64_t seeds = case_count("WEIR_TEST_FAULTS", 120);
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    checkpoints files;
    durable_items d;
    {
      stepped_options o = options_of(seed);
      o.proxies = true;
      o.fault = seed % 2 == 0 ? flush_fault::dies_before : flush_fault::dies_after;
      o.fault_at = static_cast<int>(seed / 2 % 5);
      pipeline p("hosts");
      build(p, d, 1 + seed % 5);
      stepped_pipeline run(p, files.open(), o);
      const auto& end = run.run();
      ASSERT_TRUE(end) << "the run does not end";
      if (!*end) {
        ++failures;
        EXPECT_NE(end->error().message().find("sink"), std::string::npos)
            << end->error().message();
      }
    }
    expect_the_rest(files, d, expected, seed);
  }
  EXPECT_GE(failures, seeds / 2);
}

TEST(SteppedPipeline, ASaveThatFailsIsAWarningUnlessItIsTheLast) {
  const durable_items expected = undisturbed();
  const std::uint64_t seeds = case_count("WEIR_TEST_FAULTS", 60);
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    checkpoints files;
    durable_items d;
    stepped_options o = options_of(seed);
    o.run.every_items = 3;
    int syncs = 0;
    const bool last_fails = seed % 2 == 1;
    files.fs.fail = [&](std::size_t, op_kind kind) -> std::optional<error> {
      const bool fails = kind == op_kind::sync && (last_fails || ++syncs == 2);
      return fails ? std::optional<error>(error(errc::no_space, "the disk is full"))
                   : std::nullopt;
    };
    {
      pipeline p("hosts");
      build(p, d, 4);
      stepped_pipeline run(p, files.open(), o);
      const auto& end = run.run();
      ASSERT_TRUE(end) << "the run does not end";
      EXPECT_EQ(end->has_value(), !last_fails);
      ASSERT_FALSE(run.warnings().empty());
      EXPECT_NE(run.warnings()[0].find("the disk is full"), std::string::npos);
      if (last_fails) {
        EXPECT_EQ(end->error().code(), errc::no_space);
      } else {
        EXPECT_EQ(run.warnings().size(), 1U);
        EXPECT_EQ(d.items, expected.items);
        continue;
      }
    }
    files.fs.fail = nullptr;
    d.items.clear();  // no checkpoint was made, so that the run begins anew
    pipeline p("hosts");
    build(p, d, 4);
    stepped_pipeline again(p, files.open(), o);
    const auto& end = again.run();
    ASSERT_TRUE(end && *end);
    EXPECT_EQ(d.items, expected.items);
  }
}

// The check gives the edge room for four items, so the plan is changed behind it.
TEST(SteppedPipeline, StagesThatWaitForEachOtherEndTheRunWithATimeoutThatNamesThem) {
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    checkpoints files;
    durable_items d;
    pipeline p("ring");
    p.add<number_source>("source", {.count = 20, .seed = 5}) >>
        p.add<running_sum>("sum") >> p.add<batched>("four") >>
        p.add<number_sink>("sink", sink_of(d));
    stepped_options o = options_of(seed);
    o.stall_ns = 200'000'000;
    o.rest = std::chrono::milliseconds(3);
    o.edit = [](flow::plan& plan) {
      ASSERT_GE(plan.source.edges.at(1).window_items, 4U);
      plan.source.edges.at(1).window_items = 2;
    };
    stepped_pipeline run(p, files.open(), o);
    const auto& end = run.run();
    ASSERT_TRUE(end) << "the run does not end";
    ASSERT_FALSE(*end);
    EXPECT_EQ(end->error().code(), errc::timeout);
    const std::string text = end->error().message();
    EXPECT_NE(text.find("\"sum\" waits for \"four\" to let go of an item; \"four\" waits "
                        "for an item of \"sum\""),
              std::string::npos)
        << text;
    EXPECT_FALSE(run.lost_credits());
  }
}

}  // namespace
}  // namespace weir::test
