// SPDX-License-Identifier: Apache-2.0
/// @file
/// A conversation with a model: its tokens, and answers that are drawn one by one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "texts/chat_form.hpp"
#include "weir/models/step_model.hpp"
#include "weir/models/token_sampling.hpp"

namespace weir::tools {

/// The reason for which an answer has ended.
enum class answer_end : std::uint8_t {
  stop,    ///< the model has ended it
  length,  ///< it has the largest number of tokens, or the conversation is full
  stopped  ///< the caller has stopped it
};

/// A conversation. Turns and answers become one sequence of tokens in one context of the
/// model, so no token is computed twice.
/// @threads{thread-compatible; belongs to the submitter of the model's engine}
class conversation {
 public:
  /// Fixed properties of a conversation.
  struct rules {
    std::string system;                      ///< instruction to the model; may be empty
    std::uint64_t max_tokens = 512;          ///< tokens of the longest answer
    std::uint64_t capacity = 4096;           ///< tokens of the conversation
    std::optional<std::uint32_t> end_token;  ///< ends an answer
    models::sampling_options sampling;       ///< how tokens are drawn
  };
  /// Takes a piece of an answer, and returns false to stop it.
  using receiver = std::function<bool(std::string_view)>;

  /// Begins a conversation. `model`, `tokens` and what `form` refers to must outlive it.
  conversation(models::step_model& model, const formats::tokenizer& tokens,
               chat_form form, rules with)
      : model_(model), tokens_(tokens), form_(std::move(form)), rules_(std::move(with)) {}
  ~conversation();
  conversation(const conversation&) = delete;
  conversation& operator=(const conversation&) = delete;

  /// Adds what the user says, and draws the answer. A text that does not fit behind the
  /// conversation changes nothing.
  /// @param on_text  Gets whole characters as soon as they are known.
  /// @error{out_of_range, the conversation has too little space for the text}
  /// Other errors are those of the model and the tokenizer.
  [[nodiscard]] result<answer_end> say(std::string_view text, const receiver& on_text);
  /// Forgets everything that was said.
  [[nodiscard]] result<void> forget();
  /// Returns whether nothing was said yet, or nothing since the last `forget`.
  [[nodiscard]] bool is_new() const noexcept { return history_.empty(); }

 private:
  [[nodiscard]] result<std::uint32_t> draw();
  [[nodiscard]] result<void> append_turn(std::string_view text);
  [[nodiscard]] result<void> enter(std::string_view text);

  models::step_model& model_;
  const formats::tokenizer& tokens_;
  chat_form form_;
  rules rules_;
  models::context_id context_{};        ///< open if its value is not 0
  std::vector<std::uint32_t> history_;  ///< all tokens
  std::size_t submitted_ = 0;           ///< tokens that the model has
  std::uint64_t drawn_ = 0;             ///< tokens that were drawn, also before `forget`
};

}  // namespace weir::tools
