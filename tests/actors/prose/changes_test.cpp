// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that a run which is resumed with a change goes on like one that had the change
/// from the beginning, that its checkpoints record the change, and that a change which is
/// refused leaves the folder as it was.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "actors/prose/small_run.hpp"
#include "weir/actors/run.hpp"
#include "weir/base/file.hpp"

namespace weir::actors {
namespace {

using changes = std::vector<storage::run_change>;

/// Returns the content of all files below a folder.
std::map<std::string, byte_vector> content_of(const std::string& folder) {
  std::map<std::string, byte_vector> all;
  for (const auto& one : std::filesystem::recursive_directory_iterator(folder)) {
    if (one.is_regular_file()) {
      const std::string path = one.path().string();
      all[path] = or_throw(read_file(posix_file_system(), path));
    }
  }
  return all;
}

/// Runs over two files, whose tokens include end-of-text.
class changed_run : public ::testing::Test {
 protected:
  changed_run() { test::write_text(other_, test::some_text(900, 2)); }

  [[nodiscard]] run_config config(const std::string& name) const {
    run_config c = runs_.config(name);
    c.source.paths = {runs_.corpus(), other_};
    c.phase.build.tokens = 1024;
    c.phase.test.tokens = 256;
    c.every_tokens = 256;
    c.keep = 20;
    return c;
  }
  run_report done(const run_config& c) const { return or_throw(run(c)); }
  /// Resumes a run and expects it to end with the state of another run.
  static void expect_state(const run_config& resumed, const run_report& whole,
                           std::uint64_t generation = 0) {
    const auto r = resume(resumed, {}, generation);
    ASSERT_TRUE(r) << r.error().message();
    EXPECT_EQ(r->ended, "finished");
    EXPECT_EQ(r->state_hash, whole.state_hash);
    EXPECT_EQ(r->tokens, whole.tokens);
    const auto again = resume(resumed);  // the history stays, and nothing is added to it
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(again->history, r->history);
    EXPECT_EQ(again->state_hash, whole.state_hash);
  }
  /// Resumes a run and expects a refusal that changes nothing.
  static void expect_refusal(const run_config& resumed, const std::string& text,
                             const std::string& hint) {
    const auto before = content_of(resumed.folder);
    run_callbacks callbacks;
    callbacks.changed = [](const std::vector<storage::run_change>&) {
      ADD_FAILURE() << "a change was accepted before it was refused";
    };
    const auto r = resume(resumed, callbacks, 2);
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().text(), text);
    EXPECT_EQ(r.error().hint(), hint);
    EXPECT_EQ(content_of(resumed.folder), before);
  }

  test::small_runs runs_{6000};
  test::temp_folder folder_;
  std::string other_ = folder_ / "other";
};

TEST_F(changed_run, may_have_a_larger_budget_and_a_further_phase) {
  auto whole = config("whole");
  whole.phase.test.tokens = 700;
  whole.phase.stream.tokens = 1000;
  const auto expected = done(whole);
  auto c = config("r");
  done(c);
  c.phase.test.tokens = 700;
  c.phase.stream.tokens = 1000;
  expect_state(c, expected);
  const auto last = or_throw(resume(c));
  EXPECT_EQ(last.history, (changes{{20, 1280, "phase.test.tokens", "256", "700"},
                                   {20, 1280, "phase.stream.tokens", "0", "1000"}}));
  EXPECT_NE(metrics_json(last).find("\"key\": \"phase.stream.tokens\""),
            std::string::npos);
}

TEST_F(changed_run, builds_on_after_it_has_finished) {
  auto c = config("r");
  done(c);
  c.phase.build.tokens = 2048;
  auto twice = config("twice");
  done(twice);
  twice.phase.build.tokens = 2048;
  const auto once = or_throw(resume(c));
  EXPECT_EQ(once.build_tokens, 2048U);
  EXPECT_EQ(once.test_tokens, 256U);
  const auto middle = or_throw(resume(twice));
  // Back to a checkpoint behind the change, which must not be made a second time.
  expect_state(twice, once, middle.generation - 4);
}

TEST_F(changed_run, may_read_text_that_was_added_to_the_end) {
  const std::string added = test::some_text(2000, 3);
  const std::string before = test::some_text(900, 2);
  auto c = config("r");
  c.phase.stream.tokens = 1984;
  done(c);
  test::write_text(other_, before + added);
  c.phase.stream.tokens = 7000;
  auto whole = c;
  whole.folder = runs_.path("whole");
  const auto expected = done(whole);
  expect_refusal(c,
                 "cannot resume on another corpus: expected file 1 \"other\" of 900 "
                 "bytes, found \"other\" of 2900 bytes",
                 "only text behind the end was added: resume.text = \"grown\" goes on "
                 "with it");
  c.resume_text = text_policy::grown;
  expect_state(c, expected);
  const auto last = or_throw(resume(c));
  ASSERT_EQ(last.history.size(), 2U);
  EXPECT_EQ(last.history[1],
            (storage::run_change{51, 3264, "stream.tokens", "6901", "8901"}));
}

TEST_F(changed_run, may_read_a_further_file) {
  const std::string third = folder_ / "third";
  test::write_text(third, test::some_text(1500, 4));
  auto c = config("r");
  done(c);
  c.source.paths.push_back(third);
  c.phase.stream.tokens = 6500;
  auto whole = c;
  whole.folder = runs_.path("whole");
  const auto expected = done(whole);
  expect_refusal(c, "cannot resume on another corpus: expected 2 files, found 3 files",
                 "only text behind the end was added: resume.text = \"grown\" goes on "
                 "with it");
  c.resume_text = text_policy::grown;
  expect_state(c, expected);
}

TEST_F(changed_run, refuses_end_of_text_tokens_that_its_model_does_not_know) {
  auto c = config("r");
  c.source.paths = {runs_.corpus()};
  done(c);
  c.source.paths.push_back(other_);
  c.resume_text = text_policy::grown;
  expect_refusal(c,
                 "resuming the run failed for stream.path: expected a text without "
                 "end-of-text tokens, because the model knows 256 tokens, found 2 files",
                 "stream.eot = false joins the files to one text");
  c.source.eot = false;
  EXPECT_TRUE(resume(c));
}

TEST_F(changed_run, finds_its_text_under_another_path_and_name) {
  auto c = config("r");
  c.phase.stream.tokens = 1000;
  done(c);
  std::filesystem::create_directory(folder_ / "moved");
  std::filesystem::copy_file(runs_.corpus(), folder_ / "moved/a");
  std::filesystem::rename(other_, folder_ / "moved/b");
  c.source.paths = {folder_ / "moved"};
  auto whole = c;
  whole.folder = runs_.path("whole");
  const auto expected = done(whole);
  expect_state(c, expected, 3);
  EXPECT_EQ(or_throw(resume(c)).history.front().key, "stream.path");
}

TEST_F(changed_run, may_leave_ranges_out_by_hand) {
  auto c = config("r");
  c.phase.stream.tokens = 2000;
  done(c);
  auto twice = c;
  twice.folder = runs_.path("twice");
  done(twice);
  // Checkpoint 5 stands at token 1280 of the text.
  const std::string skip = runs_.corpus() + ":2000-3000";
  c.source.skip = {skip};
  const auto once = or_throw(resume(c, {}, 5));
  EXPECT_EQ(once.history, (changes{{20, 1280, "stream.skip", "", skip}}));
  EXPECT_EQ(once.tokens, 3280U);
  twice.source.skip = {skip};
  const auto middle = or_throw(resume(twice, {}, 5));
  EXPECT_EQ(middle.state_hash, once.state_hash);
  // The cursor holds the range, so that a later resume needs no setting.
  twice.source.skip.clear();
  const auto without = or_throw(resume(twice, {}, 18));
  EXPECT_EQ(without.state_hash, once.state_hash);
  EXPECT_EQ(without.history.size(), 2U);
  twice.source.skip = {skip, runs_.corpus() + ":100-200"};
  const auto before = content_of(twice.folder);
  const auto late = resume(twice, {}, 18);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), errc::config_mismatch);
  EXPECT_EQ(late.error().text(),
            "cannot leave 100 bytes out of \"" + runs_.corpus() +
                "\": expected a range behind the place at which the run goes on, found "
                "one of which tokens were consumed");
  EXPECT_EQ(content_of(twice.folder), before);
}

TEST_F(changed_run, records_the_growth_of_a_named_source) {
  auto c = config("r");
  c.source.paths = {runs_.corpus()};
  c.sources["held"].paths = {other_};
  c.phase.test_source = "held";
  done(c);
  test::write_text(other_, test::some_text(900, 2) + test::some_text(500, 3));
  c.phase.test.tokens = 1200;
  c.resume_text = text_policy::grown;
  const auto r = or_throw(resume(c));
  EXPECT_EQ(r.test_tokens, 1200U);
  EXPECT_EQ(r.history, (changes{{20, 1280, "phase.test.tokens", "256", "1200"},
                                {20, 1280, "source.held.tokens", "900", "1400"}}));
}

TEST_F(changed_run, goes_on_with_a_child_after_it_has_finished) {
  const std::string lines = folder_ / "lines";
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += "{\"text\": \"" + std::string(90, static_cast<char>('a' + i % 26)) +
            "\"}\n{\"state\": " + std::to_string(2 * i + 2) + "}\n";
  }
  test::write_text(lines, text + "{\"end\": true}\n");
  auto c = config("r");
  c.source.paths.clear();
  c.source.command = {
      "/bin/sh", "-c",
      "echo '{\"hello\": 1}'; read s; s=${s#*: }; s=${s%\\}}; [ \"$s\" = null ] && s=0; "
      "tail -n +$((s + 1)) \"$0\"",
      lines};
  auto whole = c;
  whole.folder = runs_.path("whole");
  whole.phase.stream.tokens = 2000;
  const auto expected = done(whole);
  done(c);
  c.phase.stream.tokens = 2000;
  expect_state(c, expected);
}

TEST_F(changed_run, refuses_another_text_whatever_it_may_change) {
  auto c = config("r");
  done(c);
  std::string text = test::some_text(6000);
  text[text.find('e', 100)] = '#';
  test::write_text(runs_.corpus(), text);
  c.resume_text = text_policy::grown;
  expect_refusal(c,
                 "cannot resume: expected token 101 'e' as consumed, found token 35 '#'",
                 "the data has changed; restore it, or start another run");
}

// Behind the Build phase a context depends on the text of its lane and not on its chunks;
// with one lane that text is the same for every chunk size.
TEST_F(changed_run, may_have_other_chunks) {
  for (const std::uint32_t lanes : {1U, 3U}) {
    const std::string n = std::to_string(lanes);
    auto c = config("r" + n);
    c.stream.lanes = lanes;
    c.phase.build.tokens = 960 * lanes;
    c.phase.test.tokens = 1152;
    c.every_tokens = 192 * lanes;
    const auto before = done(c);
    auto twice = c;
    twice.folder = runs_.path("twice" + n);
    done(twice);
    c.stream.chunk = twice.stream.chunk = 96;
    const auto once = or_throw(resume(c, {}, 5));
    EXPECT_EQ(once.history, (changes{{15, 960 * lanes, "stream.chunk", "64", "96"}}));
    EXPECT_EQ(once.tokens, before.tokens);
    EXPECT_EQ(once.parameter_hash, before.parameter_hash);
    EXPECT_EQ(once.context_hash == before.context_hash, lanes == 1);
    const auto middle = or_throw(resume(twice, {}, 5));
    expect_state(twice, once, middle.generation - 2);
  }
}

TEST_F(changed_run, may_have_other_chunks_and_the_first_ones_again) {
  auto whole = config("whole");
  whole.phase.build.tokens = 0;
  whole.phase.test.tokens = 64 * 6 + 96 * 4 + 64 * 3;
  const auto expected = done(whole);
  auto c = whole;
  c.folder = runs_.path("r");
  c.phase.test.tokens = 64 * 6;
  done(c);
  c.stream.chunk = 96;
  c.phase.test.tokens += 96 * 4;
  EXPECT_TRUE(resume(c));
  c.stream.chunk = 64;
  c.phase.test.tokens += 64 * 3;
  const auto back = or_throw(resume(c));
  EXPECT_EQ(back.tokens, expected.tokens);
  EXPECT_EQ(back.context_hash, expected.context_hash);
  EXPECT_EQ(back.history_hash, expected.history_hash);
  EXPECT_EQ(back.history.size(), 4U);
}

TEST_F(changed_run, may_have_other_lanes_with_the_contexts_that_the_policy_says) {
  std::vector<std::uint64_t> contexts;
  for (const auto policy :
       {context_policy::fresh, context_policy::clone, context_policy::drop}) {
    for (const std::uint32_t lanes : {1U, 3U}) {
      const std::string n = std::to_string(static_cast<unsigned>(policy) * 10 + lanes);
      auto c = config("r" + n);
      c.stream.lanes = 2;
      done(c);
      auto twice = c;
      twice.folder = runs_.path("twice" + n);
      done(twice);
      for (run_config* one : {&c, &twice}) {
        one->stream.lanes = lanes;
        one->resume_contexts = policy;
      }
      const auto once = or_throw(resume(c, {}, 2));
      const std::array names = {"keep", "fresh", "clone", "drop"};
      EXPECT_EQ(once.history,
                (changes{{4, 512, "stream.lanes", "2", std::to_string(lanes)},
                         {4, 512, "resume.contexts", "keep",
                          names.at(static_cast<std::size_t>(policy))}}));
      EXPECT_EQ(once.tokens, 1280U);
      const auto middle = or_throw(resume(twice, {}, 2));
      expect_state(twice, once, middle.generation - 2);
      contexts.push_back(once.context_hash);
    }
  }
  std::sort(contexts.begin(), contexts.end());
  // With one lane, a copy of the first lane's context is the one that is kept.
  EXPECT_EQ(std::unique(contexts.begin(), contexts.end()) - contexts.begin(), 5);
}

TEST_F(changed_run, refuses_lanes_that_are_not_level) {
  auto c = config("r");
  c.stream.lanes = 2;
  c.stream.lane_block = 3;
  done(c);
  c.stream.lanes = 3;
  c.resume_contexts = context_policy::drop;
  expect_refusal(c,
                 "cannot begin an era at token 512: expected 2 lanes that have read the "
                 "same text up to its end, found one ahead of others",
                 "go on from a checkpoint behind whole blocks of all lanes");
}

TEST_F(changed_run, may_learn_at_another_rate) {
  auto c = config("r");
  const auto before = done(c);
  c.model.rate *= 0.5;
  const auto once = or_throw(resume(c, {}, 2));
  EXPECT_NE(once.state_hash, before.state_hash);
  expect_state(c, once, once.generation - 2);
  EXPECT_EQ(once.history, (changes{{8, 512, "model.rate", "0.0015", "0.00075"}}));
}

TEST_F(changed_run, refuses_what_nothing_allows) {
  auto c = config("r");
  done(c);
  const std::string hint =
      "no setting allows this change: begin another run; `weir settings` tells the "
      "settings that a resumed run may change";
  auto other = c;
  other.seed = 9;
  expect_refusal(other, "resuming the run failed for seed: expected 1, found 9", hint);
  other = c;
  other.model.hidden = 64;
  expect_refusal(other, "resuming the run failed for model.hidden: expected 32, found 64",
                 hint);
  other = c;
  other.stream.end = storage::end_policy::loop;
  expect_refusal(
      other, "resuming the run failed for stream.end: expected stop, found loop", hint);
}

TEST_F(changed_run, refuses_other_lanes_without_a_policy_for_contexts) {
  auto c = config("r");
  done(c);
  c.stream.lanes = 2;
  expect_refusal(
      c, "resuming the run failed for stream.lanes: expected 1, found 2",
      "resume.contexts allows it: \"fresh\" empties the contexts of all lanes, "
      "\"clone\" copies those of the lanes before in turn, and \"drop\" keeps "
      "them and empties further ones");
}

}  // namespace
}  // namespace weir::actors
