// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests of runs whose phases repeat, whose phases read sources of their own, and whose
/// sources are mixed.
#include <gtest/gtest.h>

#include <filesystem>

#include "actors/prose/small_run.hpp"
#include "weir/actors/run.hpp"
#include "weir/actors/source_settings.hpp"

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

TEST_F(phased_run, keeps_a_phase_for_each_source_that_was_read) {
  auto c = config("r");
  c.phase.test_source = "other";
  or_throw(run(c));
  c.phase.test_source = "";
  c.phase.test.tokens = 512;
  const auto refused = resume(c);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::config_mismatch);
  EXPECT_EQ(
      refused.error().text(),
      "resuming the run failed for the sources of its phases: expected a phase that "
      "reads \"other\", of which 256 tokens were read, found none");
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
  EXPECT_EQ(
      run(c).error().text(),
      "cannot use setting \"stream.chain\" of the run: expected the name of a source, "
      "found \"nobody\"");
}

TEST_F(phased_run, goes_on_behind_a_child_in_a_chain) {
  const std::string lines = runs_.path("lines");
  std::string text;
  for (int i = 0; i < 30; ++i) {
    text += "{\"text\": \"" + std::string(50, static_cast<char>('a' + i % 26)) +
            "\"}\n{\"state\": " + std::to_string(2 * i + 2) + "}\n";
  }
  test::write_text(lines, text + "{\"end\": true}\n");
  auto c = config("chained");
  c.sources["child"].command = {
      "/bin/sh", "-c",
      "echo '{\"hello\": 1}'; read s; s=${s#*: }; s=${s%\\}}; [ \"$s\" = null ] && s=0; "
      "tail -n +$((s + 1)) \"$0\"",
      lines};
  c.stream.end = storage::end_policy::chain;
  c.chain = {"child", "other"};
  c.phase.build.tokens =
      8500;  // 6000 of the text, 1529 of the child, the rest of "other"
  c.phase.test.tokens = 0;
  run_callbacks callbacks;
  std::vector<std::string> begun;
  callbacks.next_source = [&](const std::string& name, std::uint64_t token) {
    begun.push_back(name + " " + std::to_string(token));
  };
  const auto whole = or_throw(run(c, callbacks));
  EXPECT_EQ(whole.build_tokens, 8500U);
  const std::vector<std::string> all{"child 6001", "other 7531"};
  EXPECT_EQ(begun, all);
  for (const std::uint64_t generation : {60U, 52U, 48U, 40U}) {
    begun.clear();
    const auto r = resume(c, callbacks, generation);
    ASSERT_TRUE(r) << r.error().message();
    EXPECT_EQ(r->state_hash, whole.state_hash) << generation;
    // Those that an earlier process has named are not named again.
    EXPECT_TRUE(std::equal(begun.rbegin(), begun.rend(), all.rbegin())) << generation;
    EXPECT_EQ(begun.size(), generation > 52 ? 0U : generation > 46 ? 1U : 2U);
  }
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

class mixed_run : public ::testing::Test {
 protected:
  /// Makes three folders of small documents.
  mixed_run() {
    for (std::uint64_t s = 0; s < 3; ++s) {
      const std::string folder = folder_ / names_[s];
      std::filesystem::create_directory(folder);
      for (std::uint64_t d = 0; d < 12; ++d) {
        test::write_text(folder + "/" + std::to_string(10 + d),
                         test::some_text(60 + 13 * ((d * 5 + s) % 9), 20 * s + d));
      }
    }
  }

  [[nodiscard]] run_config config(const std::string& name) const {
    run_config c = runs_.config(name);
    c.source.paths.clear();
    for (const char* source : names_) {
      c.sources[source].paths = {folder_ / source};
      c.source.mix.sources.emplace_back(source);
    }
    c.source.mix.weights = {3, 2, 1};
    c.sources["b"].shuffle.window = 5;
    c.sources["b"].shuffle.seed = 7;
    c.phase.build.tokens = 4096;
    c.phase.test.tokens = 256;
    c.every_tokens = 512;
    c.keep = 100;
    return c;
  }
  /// Returns the error that the check of the sources gives.
  [[nodiscard]] static std::string refused(const run_config& c) {
    const auto r = check_sources(c.source, c.sources);
    return r ? "" : r.error().text();
  }

  static constexpr const char* names_[] = {"a", "b", "c"};
  test::small_runs runs_{600};
  test::temp_folder folder_;
};

TEST_F(mixed_run, ends_in_the_same_state_behind_every_resume) {
  for (const std::uint64_t unit : {0U, 40U}) {
    auto c = config(unit == 0 ? "documents" : "pieces");
    c.source.mix.unit = unit;
    c.source.mix.curriculum = {"20: 1, 1, 4"};
    if (unit != 0) {
      c.source.mix.mode = storage::mix_mode::random;
      c.sources["c"].sample = {1, 2, 3, 0};
      c.stream.lanes = 2;
    }
    const run_report whole = or_throw(run(c));
    EXPECT_EQ(whole.ended, "finished");
    for (const std::uint64_t generation : {8U, 5U, 3U, 1U}) {
      const auto r = resume(c, {}, generation);
      ASSERT_TRUE(r) << r.error().message();
      EXPECT_EQ(r->state_hash, whole.state_hash) << generation;
      EXPECT_EQ(r->tokens, whole.tokens);
    }
  }
}

TEST_F(mixed_run, ends_with_a_source_that_stops_it) {
  auto c = config("stops");
  c.source.mix.exhausted = {"stop"};
  c.phase.build.tokens = 100'000;
  const auto r = or_throw(run(c));
  EXPECT_EQ(r.ended, "end of stream");
  c.stream.end = storage::end_policy::loop;
  c.folder = runs_.path("loops");
  const auto loops = run(c);
  ASSERT_FALSE(loops);
  EXPECT_EQ(loops.error().code(), errc::invalid_argument);
}

TEST_F(mixed_run, another_seed_is_refused_at_a_resume) {
  auto c = config("seeds");
  const auto whole = run(c);
  ASSERT_TRUE(whole) << whole.error().message();
  c.sources["b"].shuffle.seed = 8;
  EXPECT_FALSE(resume(c, {}, 2));
}

TEST_F(mixed_run, refuses_lists_that_do_not_fit) {
  const auto c = config("r");
  EXPECT_EQ(refused(c), "");
  auto changed = c;
  changed.source.mix.weights = {1, 2};
  EXPECT_EQ(refused(changed),
            "cannot use setting \"stream.mix.weights\" of the run: expected 3 numbers, "
            "as many as sources, found 2");
  changed = c;
  changed.source.mix.sources[1] = "z";
  EXPECT_EQ(refused(changed),
            "cannot use setting \"stream.mix.sources\" of the run: expected names of "
            "tables [source.NAME], found \"z\", which has no table");
  changed = c;
  changed.source.mix.curriculum = {"9: 1, 2, 3", "9: 3, 2, 1"};
  EXPECT_EQ(refused(changed),
            "cannot use setting \"stream.mix.curriculum\" of the run: expected draws "
            "that rise from 1 on, found 9");
  changed.source.mix.curriculum = {"9: 1, 2"};
  EXPECT_EQ(refused(changed),
            "cannot use setting \"stream.mix.curriculum\" of the run: expected \"DRAW: "
            "WEIGHT, ...\" with 3 weights, found \"9: 1, 2\"");
  changed = c;
  changed.source.paths = {"x"};
  EXPECT_EQ(refused(changed),
            "cannot use setting \"stream.mix.sources\" of the run: expected no path "
            "beside a mixture, found one");
  changed = c;
  changed.sources["a"].mix.sources = {"b"};
  changed.sources["a"].paths.clear();
  EXPECT_EQ(refused(changed),
            "cannot use setting \"stream.mix.sources\" of the run: expected sources that "
            "are no mixtures, found \"a\", which is one");
}

}  // namespace
}  // namespace weir::actors
