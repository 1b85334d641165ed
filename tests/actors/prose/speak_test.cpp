// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests storing parameters in volumes, and continuing prompts with models from runs and
/// from volumes.
#include "weir/actors/speak.hpp"

#include <gtest/gtest.h>

#include "actors/prose/small_run.hpp"
#include "weir/base/file.hpp"
#include "weir/models/instruction_sets.hpp"

namespace weir::actors {
namespace {

/// A finished run "a" and a volume with its parameters, which all tests share.
struct speak_tests : testing::Test {
  static void SetUpTestSuite() {
    runs = std::make_unique<test::small_runs>();
    auto r = run(runs->config("a"));
    ASSERT_TRUE(r) << r.error().message();
    report = std::make_unique<run_report>(*r);
    const auto hash = store_parameters(runs->path("a"), runs->path("volume"), "prose");
    ASSERT_TRUE(hash) << hash.error().message();
    EXPECT_EQ(*hash, report->parameter_hash);
  }
  static void TearDownTestSuite() {
    report.reset();
    runs.reset();
  }
  /// Returns a request for 40 tokens from a run or a volume.
  static speak_request request(const std::string& source) {
    speak_request q;
    q.source = runs->path(source);
    q.prompt = "the weir lets ";
    q.tokens = 40;
    return q;
  }
  static std::unique_ptr<test::small_runs> runs;
  static std::unique_ptr<run_report> report;
};
std::unique_ptr<test::small_runs> speak_tests::runs;
std::unique_ptr<run_report> speak_tests::report;

TEST_F(speak_tests, parameters_come_back_from_the_volume_with_their_hash) {
  const auto set = load_parameters(runs->path("volume"), "prose");
  ASSERT_TRUE(set) << set.error().message();
  EXPECT_EQ(set->hash, report->parameter_hash);
  const auto direct = parameters_of_run(runs->path("a"));
  ASSERT_TRUE(direct) << direct.error().message();
  EXPECT_EQ(direct->model, set->model);
  EXPECT_EQ(direct->entries.size(), set->entries.size());
  EXPECT_EQ(*encode_parameters(*direct), *encode_parameters(*set))
      << "both ways of loading give equal bytes";
}

TEST_F(speak_tests, a_flipped_byte_of_the_message_is_an_error) {
  auto message = *encode_parameters(*parameters_of_run(runs->path("a")));
  message[message.size() / 2] ^= std::byte{4};
  const auto set = decode_parameters(message, "here");
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().location(), "here");
}

TEST_F(speak_tests, the_same_seed_gives_the_same_text) {
  const auto one = speak(request("volume"));
  const auto two = speak(request("volume"));
  ASSERT_TRUE(one && two) << one.error().message();
  EXPECT_EQ(one->text, two->text);
  EXPECT_EQ(one->tokens, 40U);
  EXPECT_EQ(one->text.size(), 40U);
  EXPECT_EQ(one->parameter_hash, report->parameter_hash);
  EXPECT_FALSE(one->with_context);
  auto other = request("volume");
  other.seed = 2;
  const auto three = speak(other);
  ASSERT_TRUE(three);
  EXPECT_NE(three->text, one->text);
}

TEST_F(speak_tests, the_instruction_set_changes_no_letter) {
  const auto best = speak(request("volume"));
  ASSERT_TRUE(best) << best.error().message();
  EXPECT_EQ(best->instruction_set, models::instruction_sets_here().back());
  for (const char* source : {"volume", "a"}) {
    auto q = request(source);
    const auto text = speak(q);
    q.kernels = "x86-64";
    const auto forced = speak(q);
    ASSERT_TRUE(text && forced) << source;
    EXPECT_EQ(forced->instruction_set, "x86-64");
    EXPECT_EQ(forced->text, text->text);
    EXPECT_EQ(forced->context_hash, text->context_hash);
    q.kernels = "avx1024";
    EXPECT_EQ(speak(q).error().code(), errc::invalid_argument);
  }
}

TEST_F(speak_tests, temperature_zero_needs_no_seed) {
  auto q = request("a");
  q.temperature = 0;
  const auto one = speak(q);
  q.seed = 99;
  const auto two = speak(q);
  ASSERT_TRUE(one && two) << one.error().message();
  EXPECT_EQ(one->text, two->text);
  EXPECT_TRUE(one->with_context);
}

TEST_F(speak_tests, context_does_not_depend_on_how_the_prompt_is_cut) {
  auto q = request("volume");
  q.temperature = 0;
  q.tokens = 20;
  const auto whole = speak(q);
  ASSERT_TRUE(whole);
  // With the drawn text as a part of the prompt, the model has read the same tokens.
  q.prompt += whole->text;
  q.tokens = 0;
  const auto again = speak(q);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->context_hash, whole->context_hash);
}

TEST_F(speak_tests, hands_out_each_token_and_ends_early_on_request) {
  std::string heard;
  const auto r = speak(request("volume"), [&](std::string_view text) {
    heard += text;
    return heard.size() < 5;
  });
  ASSERT_TRUE(r);
  EXPECT_EQ(heard.size(), 5U);
  EXPECT_EQ(r->text, heard);
}

TEST_F(speak_tests, an_absent_source_or_tag_is_not_found) {
  EXPECT_EQ(speak(request("nowhere")).error().code(), errc::not_found);
  auto q = request("volume");
  q.tag = "prosa";
  const auto r = speak(q);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().root().code(), errc::not_found);
}

TEST_F(speak_tests, refuses_a_model_whose_ids_are_no_bytes) {
  std::string ids;
  for (int i = 0; i < 3000; ++i) {
    ids += {static_cast<char>(i * 7 % 256), static_cast<char>(i % 2)};
  }
  test::write_text(runs->path("ids.bin"), ids);
  auto c = runs->config("tokens");
  c.source.paths = {runs->path("ids.bin")};
  c.source.format = storage::token_format::u16;
  c.source.vocabulary = 512;
  const auto made = run(c);
  ASSERT_TRUE(made) << made.error().message();
  const auto r = speak(request("tokens"));
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::unsupported);
  EXPECT_NE(r.error().text().find("expected a model of bytes, with ids from 0 to 256, "
                                  "found one with ids from 0 to 51"),
            std::string::npos)
      << r.error().text();
}

TEST_F(speak_tests, refuses_a_temperature_below_zero_and_an_empty_prompt) {
  auto q = request("volume");
  q.temperature = -1;
  EXPECT_EQ(speak(q).error().code(), errc::invalid_argument);
  q = request("volume");
  q.prompt.clear();
  EXPECT_EQ(speak(q).error().code(), errc::invalid_argument);
}

}  // namespace
}  // namespace weir::actors
