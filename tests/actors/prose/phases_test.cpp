// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests of runs whose phases repeat, and whose phases read sources of their own.
#include <gtest/gtest.h>

#include "actors/prose/small_run.hpp"
#include "weir/actors/run.hpp"

namespace weir::actors {
namespace {

class phased_run : public ::testing::Test {
 protected:
  phased_run() { test::write_text(other_, test::some_text(3000, 7)); }

  [[nodiscard]] run_config config(const std::string& name) const {
    run_config c = runs_.config(name);
    c.phase.build.tokens = 512;
    c.phase.test.tokens = 256;
    c.every_tokens = 128;
    c.keep = 100;
    c.sources["other"].paths = {other_};
    return c;
  }
  /// Runs, and expects the same state behind a resume from each of some checkpoints.
  [[nodiscard]] static run_report checked(const run_config& c) {
    const run_report whole = or_throw(run(c));
    for (const std::uint64_t generation : {9U, 5U, 2U}) {
      const auto r = resume(c, {}, generation);
      EXPECT_TRUE(r) << r.error().message();
      EXPECT_EQ(r ? r->state_hash : 0, whole.state_hash) << generation;
      EXPECT_EQ(r ? r->tokens : 0, whole.tokens);
    }
    return whole;
  }

  test::small_runs runs_{6000};
  test::temp_folder folder_;
  std::string other_ = folder_ / "other";
};

TEST_F(phased_run, repeats_phases_in_any_order) {
  auto c = config("r");
  c.phase.order = {"test", "build", "test", "build"};
  const auto r = checked(c);
  EXPECT_EQ(r.ended, "finished");
  EXPECT_EQ(r.build_tokens, 1024U);
  EXPECT_EQ(r.test_tokens, 512U);
  EXPECT_EQ(r.curve.back().tokens, 1024U);
}

TEST_F(phased_run, tests_on_a_text_of_its_own) {
  auto c = config("r");
  c.phase.order = {"build", "test", "build"};
  c.phase.test_source = "other";
  const auto r = checked(c);
  EXPECT_EQ(r.test_tokens, 256U);
  // The stream of the run goes on as if there were no test between.
  auto plain = config("plain");
  plain.phase.build.tokens = 1024;
  plain.phase.test.tokens = 0;
  EXPECT_EQ(r.history_hash, or_throw(run(plain)).history_hash);
  // With the text of the run, Test reads other tokens.
  auto same = config("same");
  same.phase.order = c.phase.order;
  EXPECT_NE(or_throw(run(same)).bits_test, r.bits_test);
}

TEST_F(phased_run, goes_on_with_another_source_when_one_has_ended) {
  auto c = config("r");
  c.phase.build.tokens = 10'000;
  c.phase.test_source = "other";
  const auto r = checked(c);
  EXPECT_EQ(r.ended, "end of stream");
  EXPECT_EQ(r.build_tokens, 6000U);
  EXPECT_EQ(r.test_tokens, 256U);
}

TEST_F(phased_run, goes_on_with_the_next_source_of_a_chain_and_says_so) {
  auto c = config("r");
  c.stream.end = storage::end_policy::chain;
  c.chain = {"other"};
  c.phase.build.tokens = 8000;
  c.phase.test.tokens = 0;
  run_callbacks callbacks;
  std::vector<std::string> begun;
  callbacks.next_source = [&](const std::string& name, std::uint64_t token) {
    begun.push_back(name + " " + std::to_string(token));
  };
  const auto whole = or_throw(run(c, callbacks));
  EXPECT_EQ(begun, std::vector<std::string>{"other 6001"});
  EXPECT_EQ(whole.build_tokens, 8000U);
  EXPECT_EQ(whole.corpus_tokens, 9001U);
  for (const std::uint64_t generation : {55U, 40U}) {
    begun.clear();
    EXPECT_EQ(or_throw(resume(c, callbacks, generation)).state_hash, whole.state_hash);
    EXPECT_EQ(begun.size(), generation == 40 ? 1U : 0U);
  }
  c.chain = {"nobody"};
  EXPECT_EQ(run(c).error().text(),
            "cannot use setting \"stream.chain\" of the run: expected names of sources, "
            "found \"nobody\"");
}

TEST_F(phased_run, may_get_phases_and_sources_at_a_resume) {
  auto c = config("r");
  or_throw(run(c));
  c.phase.order = {"build", "test", "stream", "test"};
  c.phase.stream.tokens = 256;
  c.phase.stream_source = "other";
  const auto once = or_throw(resume(c));
  EXPECT_EQ(once.test_tokens, 512U);
  EXPECT_EQ(once.stream_tokens, 256U);
  EXPECT_EQ(once.history.size(), 3U);
  c.phase.order = {"test", "build"};
  const auto refused = resume(c);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text(),
            "resuming the run failed for phase.order: expected build as phase 1, because "
            "it was begun, found test");
  EXPECT_EQ(refused.error().hint(),
            "phase.order may change behind the phases that the run has begun");
}

TEST_F(phased_run, needs_a_description_of_each_source) {
  auto c = config("r");
  c.phase.test_source = "others";
  const auto r = run(c);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().text(),
            "cannot use setting \"phase.test.source\" of the run: expected the name of a "
            "source, found \"others\"");
}

}  // namespace
}  // namespace weir::actors
