// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests Llama models with random weights: values against a plain evaluation, and equal
/// bits for every schedule, number of workers and instruction set.
#include "weir/models/llama.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "models/transformers/plain_models.hpp"
#include "models/transformers/schedules.hpp"
#include "models/transformers/some_model.hpp"
#include "support/case_count.hpp"
#include "weir/base/system/memory.hpp"
#include "weir/models/instruction_sets.hpp"

namespace weir::models {
namespace {

using test::copy_logits;
using test::engine_with;
using test::llama_weights_of;
using test::logits_one_by_one;
using test::release_last;
using test::rows;
using test::same_bits;
using test::small_llama;
using test::some_source;
using test::some_token_ids;

TEST(Llama, LogitsAreThoseOfAPlainEvaluation) {
  for (const weight_type type :
       {weight_type::f32, weight_type::q8_0, weight_type::q4_1}) {
    llama_config config = small_llama();
    config.tied = type != weight_type::q8_0;
    const some_source weights = llama_weights_of(config, type);
    const auto tokens = some_token_ids(70, config.vocab, 1);
    const auto expected = test::plain_llama(config, weights, tokens);
    const auto engine = engine_with(1);
    const auto model = or_throw(make_llama(*engine, config, weights));
    const rows found = logits_one_by_one(*model, tokens);
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      for (std::size_t i = 0; i < config.vocab; ++i) {
        ASSERT_NEAR(static_cast<double>(found[t][i]), expected[t][i], 2e-4)
            << name_of(type) << " token " << t;
      }
    }
  }
}

TEST(Llama, BitsDoNotDependOnScheduleWorkersOrInstructionSet) {
  const auto cases = test::case_count("WEIR_LLAMA_CASES", 8);
  const test::schedule_counts counts = test::run_schedules(cases, 1);
  RecordProperty("schedules", std::to_string(counts.schedules));
  RecordProperty("compared", std::to_string(counts.compared));
  EXPECT_GE(counts.schedules, 24U);
  EXPECT_GT(counts.reused, 0U);
  EXPECT_GE(counts.max_sequences, 8U);
}

TEST(Llama, ForksContinueLikeTheirSource) {
  const llama_config config = small_llama();
  const some_source weights = llama_weights_of(config, weight_type::f32);
  const auto engine = engine_with(2);
  const auto model = or_throw(make_llama(*engine, config, weights));
  const auto tokens = some_token_ids(200, config.vocab, 5);
  const rows expected = logits_one_by_one(*model, tokens);
  const context_id source = or_throw(model->open_context(300));
  const std::span<const std::uint32_t> all(tokens);
  const auto feed = [&](context_id context, std::size_t first, std::size_t last) {
    const row_group group{context, all.subspan(first, last - first), true};
    const step_ticket ticket = or_throw(model->submit({&group, 1}));
    auto logits = copy_logits(*model, ticket, 0);
    or_throw(model->finish(ticket));
    return logits;
  };
  feed(source, 0, 100);
  feed(source, 100, 150);
  for (const std::size_t at : {0U, 10U, 64U, 100U, 128U, 150U}) {
    const context_id fork = or_throw(model->fork_context(source, at));
    EXPECT_EQ(or_throw(model->tokens_in(fork)), at);
    EXPECT_TRUE(same_bits(feed(fork, at, std::min<std::size_t>(at + 60, 200)),
                          expected[std::min<std::size_t>(at + 60, 200) - 1]))
        << at;
    or_throw(model->close_context(fork));
  }
  EXPECT_TRUE(same_bits(feed(source, 150, 200), expected[199]));
}

TEST(Llama, KnownPrefixesAreReusedWithoutAChangeOfBits) {
  const llama_config config = small_llama();
  const some_source weights = llama_weights_of(config, weight_type::f32);
  const auto engine = engine_with(2);
  // Memory for 7 pages: those of closed contexts are taken when new ones need them.
  const auto model = or_throw(make_llama(*engine, config, weights, {"auto", 448, 256}));
  const auto tokens = some_token_ids(200, config.vocab, 5);
  const rows expected = logits_one_by_one(*model, tokens);
  const std::span<const std::uint32_t> all(tokens);
  const auto rest_of = [&](context_id context, std::size_t known, std::size_t last) {
    const row_group group{context, all.subspan(known, last - known), true};
    const step_ticket ticket = or_throw(model->submit({&group, 1}));
    const bool same = same_bits(copy_logits(*model, ticket, 0), expected[last - 1]);
    or_throw(model->finish(ticket));
    return same;
  };
  // One token is always left.
  for (const std::size_t last : {200U, 192U, 129U, 128U, 64U}) {
    const context_id context = or_throw(model->open_context(200));
    const std::uint64_t known = or_throw(model->reuse_prefix(context, all.first(last)));
    EXPECT_EQ(known, (last - 1) / 64 * 64);
    EXPECT_EQ(or_throw(model->tokens_in(context)), known);
    EXPECT_TRUE(rest_of(context, known, last)) << last;
    EXPECT_EQ(model->reuse_prefix(context, all).error().code(), errc::invalid_argument);
    or_throw(model->close_context(context));
  }
  // Another sequence with the same second page knows nothing.
  auto other = tokens;
  other[0] = (other[0] + 1) % config.vocab;
  const context_id context = or_throw(model->open_context(200));
  EXPECT_EQ(or_throw(model->reuse_prefix(context, other)), 0U);
  or_throw(model->close_context(context));
  // A context that needs all memory makes the model forget, and it computes again.
  const context_id large = or_throw(model->open_context(448));
  or_throw(model->close_context(large));
  const context_id again = or_throw(model->open_context(200));
  EXPECT_EQ(or_throw(model->reuse_prefix(again, all)), 0U);
  EXPECT_TRUE(rest_of(again, 0, 200));
}

TEST(Llama, MemoryIsReservedOrRefusedAtOnce) {
  const llama_config config = small_llama();
  const some_source weights = llama_weights_of(config, weight_type::f32);
  const auto engine = engine_with(1);
  const auto model = or_throw(make_llama(*engine, config, weights, {"auto", 640, 128}));
  EXPECT_EQ(model->facts().context_tokens, 640U);
  EXPECT_EQ(model->facts().bytes_per_token, 2U * 2 * 2 * 16 * 4);
  const context_id first = or_throw(model->open_context(512));
  const auto refused = model->open_context(129);
  EXPECT_EQ(refused.error().code(), errc::out_of_memory);
  EXPECT_NE(refused.error().message().find("expected 3 free pages of 64 tokens, found 2"),
            std::string::npos);
  const context_id second = or_throw(model->open_context(128));
  or_throw(model->close_context(first));
  or_throw(model->close_context(second));
  EXPECT_TRUE(model->open_context(512));
  EXPECT_EQ(model->open_context(513).error().code(), errc::invalid_argument);
  EXPECT_EQ(model->open_context(0).error().code(), errc::invalid_argument);
  EXPECT_EQ(model->close_context(first).error().code(), errc::not_found);
}

TEST(Llama, MemoryOfKeysAndValuesIsCountedInTokens) {
  const llama_config config = small_llama();
  const some_source weights = llama_weights_of(config, weight_type::f32);
  const auto engine = engine_with(1);
  constexpr std::uint64_t bytes_per_token = 2 * 2 * 2 * 16 * 4;
  const auto tokens = [&](std::uint64_t bytes) {
    const auto model = make_llama(*engine, config, weights, {"auto", 0, 128, bytes});
    return model ? (*model)->facts().context_tokens : 0;
  };
  EXPECT_EQ(tokens(64 * bytes_per_token), 64U);
  EXPECT_EQ(tokens(191 * bytes_per_token), 128U);
  // More than 64 of the longest contexts are of no use.
  EXPECT_EQ(tokens(std::uint64_t{1} << 40), 64U * config.max_context);
  const auto refused =
      make_llama(*engine, config, weights, {"auto", 0, 128, 64 * bytes_per_token - 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::out_of_memory);
  EXPECT_NE(refused.error().message().find("expected at least 32768 bytes, which 64 "
                                           "tokens take, found 32767"),
            std::string::npos)
      << refused.error().message();
  EXPECT_GT(tokens(0), 0U);
  // A caller with one context needs memory for one.
  llama_options options{"auto", 0, 128, std::uint64_t{1} << 40};
  options.max_contexts = 1;
  EXPECT_EQ(
      or_throw(make_llama(*engine, config, weights, options))->facts().context_tokens,
      config.max_context);
  options.max_contexts = 0;
  EXPECT_EQ(make_llama(*engine, config, weights, options).error().code(),
            errc::invalid_argument);
}

TEST(Llama, MemoryOfKeysAndValuesIsAQuarterOfWhatIsAvailable) {
  constexpr std::uint64_t gib = std::uint64_t{1} << 30;
  EXPECT_EQ(default_kv_memory(0), 0U);
  EXPECT_EQ(default_kv_memory(gib), gib / 4);
  EXPECT_EQ(default_kv_memory(16 * gib - 4), 4 * gib - 1);
  EXPECT_EQ(default_kv_memory(16 * gib), 4 * gib);
  EXPECT_EQ(default_kv_memory(1024 * gib), 4 * gib);
  // Other programs take and free memory between two looks, so a look lies between those
  // before and behind it only if nothing else happens.
  bool seen = false;
  for (int i = 0; i < 1000 && !seen; ++i) {
    const std::uint64_t before = default_kv_memory(memory_of_machine().available);
    const std::uint64_t found = default_kv_memory();
    const std::uint64_t behind = default_kv_memory(memory_of_machine().available);
    seen = found >= std::min(before, behind) && found <= std::max(before, behind);
  }
  EXPECT_TRUE(seen);
}

TEST(Llama, AForcedInstructionSetIsTheOneInUse) {
  const llama_config config = small_llama();
  const some_source weights = llama_weights_of(config, weight_type::f32);
  const auto engine = engine_with(1);
  const auto used = [&](std::string_view kernels) {
    return or_throw(make_llama(*engine, config, weights, {kernels, 64, 8}))
        ->facts()
        .instruction_set;
  };
  for (const std::string_view name : instruction_sets_here()) {
    EXPECT_EQ(used(name), name);
  }
  EXPECT_EQ(used("auto"), instruction_sets_here().back());
  EXPECT_EQ(make_llama(*engine, config, weights, {"avx1024", 64, 8}).error().code(),
            errc::invalid_argument);
}

TEST(Llama, StepsThatDoNotFitAreRefused) {
  const llama_config config = small_llama();
  const some_source weights = llama_weights_of(config, weight_type::f32);
  const auto engine = engine_with(1);
  const auto model = or_throw(make_llama(*engine, config, weights, {"auto", 512, 8}));
  const context_id context = or_throw(model->open_context(10));
  const auto tokens = some_token_ids(20, config.vocab, 1);
  const std::span<const std::uint32_t> all(tokens);
  const auto code = [&](std::vector<row_group> groups) {
    const auto ticket = model->submit(groups);
    return ticket ? errc::internal : ticket.error().code();
  };
  const std::uint32_t unknown = config.vocab;
  EXPECT_EQ(code({}), errc::invalid_argument);
  EXPECT_EQ(code({{context, {}, true}}), errc::invalid_argument);
  EXPECT_EQ(code({{context, all.first(9), true}}), errc::invalid_argument);
  EXPECT_EQ(code({{context, all.first(11), true}}), errc::invalid_argument);
  EXPECT_EQ(code({{context, {&unknown, 1}, true}}), errc::invalid_argument);
  EXPECT_EQ(code({{context, all.first(1), true}, {context, all.first(1), true}}),
            errc::invalid_argument);
  EXPECT_EQ(code({{context_id{99}, all.first(1), true}}), errc::not_found);
  for (std::uint32_t i = 0; i < step_model::max_in_flight; ++i) {
    EXPECT_EQ(code({{context, all.first(1), false}}), errc::internal);
  }
  EXPECT_EQ(code({{context, all.first(1), true}}), errc::invalid_argument);
  EXPECT_EQ(model->logits({1}, 0).error().code(), errc::not_found);
  EXPECT_TRUE(model->finish({1}));
  EXPECT_EQ(model->finish({1}).error().code(), errc::not_found);
}

TEST(Llama, StepsThatTheEngineRefusesLeaveNothingBehind) {
  const llama_config config = small_llama();
  const some_source weights = llama_weights_of(config, weight_type::f32);
  const auto tokens = some_token_ids(200, config.vocab, 5);
  const std::span<const std::uint32_t> all(tokens);
  rows expected;
  {
    const auto engine = engine_with(1);
    const auto model = or_throw(make_llama(*engine, config, weights));
    expected = logits_one_by_one(*model, tokens);
  }
  const auto engine = engine_with(2);
  const auto model = or_throw(make_llama(*engine, config, weights, {"auto", 1024, 256}));
  // The logits of the step that is used first: tasks that write them are refused.
  ASSERT_TRUE(release_last(*engine));
  const context_id context = or_throw(model->open_context(200));
  const auto submit = [&](std::size_t first, std::size_t last, bool wants_logits) {
    const row_group group{context, all.subspan(first, last - first), wants_logits};
    return model->submit({&group, 1});
  };
  // More refusals than there may be steps in flight: each gives its step back.
  for (std::uint32_t i = 0; i <= step_model::max_in_flight; ++i) {
    const auto refused = submit(0, 192, true);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::not_found);
    EXPECT_EQ(or_throw(model->tokens_in(context)), 0U);
  }
  const context_id other = or_throw(model->open_context(200));
  EXPECT_EQ(or_throw(model->reuse_prefix(other, all)), 0U);
  const step_ticket filled = or_throw(submit(0, 100, false));
  // Another step is used now.
  const step_ticket ticket = or_throw(submit(100, 128, true));
  EXPECT_TRUE(same_bits(copy_logits(*model, ticket, 0), expected[127]));
  or_throw(model->finish(filled));
  or_throw(model->finish(ticket));
}

/// Releases the storage of an engine that was made first.
bool release_first(runtime::engine& engine) {
  for (std::uint32_t index = 0; index < 1000; ++index) {
    if (engine.release({index, 1})) {
      return true;
    }
  }
  return false;
}

TEST(Llama, AForkWhosePagesCannotBeCopiedTakesNoPages) {
  const llama_config config = small_llama();
  const some_source weights = llama_weights_of(config, weight_type::f32);
  const auto tokens = some_token_ids(70, config.vocab, 5);
  const auto engine = engine_with(1);
  // Memory for two contexts of two pages.
  const auto model = or_throw(make_llama(*engine, config, weights, {"auto", 256, 128}));
  const context_id source = or_throw(model->open_context(128));
  const row_group group{source, tokens, false};
  or_throw(model->finish(or_throw(model->submit({&group, 1}))));
  // The pages: tasks that copy them are refused.
  ASSERT_TRUE(release_first(*engine));
  for (int i = 0; i < 4; ++i) {
    const auto fork = model->fork_context(source, 70);
    ASSERT_FALSE(fork);
    EXPECT_EQ(fork.error().code(), errc::not_found) << fork.error().message();
    // The pages of the fork are free again.
    const auto other = model->open_context(128);
    ASSERT_TRUE(other) << other.error().message();
    or_throw(model->close_context(*other));
  }
}

TEST(Llama, WeightsAndConfigurationsAreChecked) {
  const auto engine = engine_with(1);
  const llama_config config = small_llama();
  const auto code = [&](const llama_config& c, const some_source& weights) {
    const auto model = make_llama(*engine, c, weights);
    return model ? errc::internal : model.error().code();
  };
  some_source weights = llama_weights_of(config, weight_type::f32);
  EXPECT_EQ(code(config, weights), errc::internal);
  llama_config other = config;
  other.hidden = 112;
  EXPECT_EQ(code(other, weights), errc::config_mismatch);
  other = config;
  other.heads = 3;
  EXPECT_EQ(code(other, weights), errc::invalid_argument);
  other = config;
  other.rope_base = 0;
  EXPECT_EQ(code(other, weights), errc::invalid_argument);
  weights.remove("model.layers.1.mlp.up_proj.weight");
  EXPECT_EQ(code(config, weights), errc::not_found);
}

}  // namespace
}  // namespace weir::models
