// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests conversations with a tiny model whose tasks fail.
#include "texts/conversation.hpp"

#include <gtest/gtest.h>

#include "actors/stages/text_models.hpp"
#include "support/temp_folder.hpp"
#include "texts/load.hpp"

namespace weir::tools {
namespace {

/// Submits tasks that fail in place of writing the beginning of each memory of an engine.
void fail_writes(runtime::engine& engine) {
  constexpr std::int64_t bytes = 8;
  for (std::uint32_t index = 0; index < 1000; ++index) {
    const runtime::storage memory{{index, 1}, nullptr, bytes};
    const auto view = or_throw(runtime::tensor::over(memory, dtype::uint8, {&bytes, 1}));
    const runtime::access one = runtime::writes(view);
    // There is no memory of most of the numbers.
    static_cast<void>(engine.submit("planted", {&one, 1},
                                    [](const runtime::task_context&) -> result<void> {
                                      return error(errc::corrupt, "a planted failure");
                                    }));
  }
}

TEST(Conversation, FinishesAStepWhoseLogitsFail) {
  const test::temp_folder folder;
  test::link_text_models(folder / "v.hn4");
  const auto loaded = or_throw(load_decoder(folder / "v.hn4", "decoder", 1));
  models::llama_options options;
  options.context_tokens = 64;
  const auto model = or_throw(decoder_of(*loaded, options));
  conversation::rules rules;
  rules.capacity = 12;
  rules.max_tokens = 1;
  conversation talk(*model, loaded->tokens,
                    or_throw(chat_form::of_template("", "none", {}, loaded->tokens)),
                    rules);
  const auto ignore = [](std::string_view) { return true; };
  // More often than there may be unfinished steps.
  for (std::uint32_t i = 0; i <= models::step_model::max_in_flight; ++i) {
    fail_writes(*loaded->engine);
    const auto failed = talk.say("a", ignore);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code(), errc::upstream_failed) << failed.error().message();
    EXPECT_FALSE(loaded->engine->wait_all());
    or_throw(talk.forget());
  }
  const auto answered = talk.say("a", ignore);
  EXPECT_TRUE(answered) << answered.error().message();
}

}  // namespace
}  // namespace weir::tools
