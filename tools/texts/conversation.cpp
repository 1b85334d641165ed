// SPDX-License-Identifier: Apache-2.0
/// @file
/// Draws answers token by token.
///
/// The history is the whole sequence of tokens, and `submitted_` of them were computed by
/// the model. Drawing a token submits the rest in steps of at most `max_rows` tokens and
/// asks for the logits of the last one. The new token joins the history and is submitted
/// with the next draw. A turn is therefore computed once, when the first token of its
/// answer is drawn.
///
///   history  [ begin | turn 1 | answer 1 | turn 2 | answer 2 ... ]
///                                  submitted_ ^        ^ next token
#include "texts/conversation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "texts/answer_text.hpp"

namespace weir::tools {

conversation::~conversation() {
  if (context_.value != 0) {
    (void)model_.close_context(context_);  // it is open
  }
}

// The next `say` opens a new context. `drawn_` goes on, so that the same question has
// another answer than before.
result<void> conversation::forget() {
  if (context_.value != 0) {
    WEIR_CHECK(model_.close_context(context_));
  }
  context_ = {};
  history_.clear();
  submitted_ = 0;
  return {};
}

/// Appends a turn of the user, in a new conversation after its beginning.
result<void> conversation::append_turn(std::string_view text) {
  const bool is_first = history_.empty();
  if (is_first) {
    WEIR_CHECK(form_.append_begin(rules_.system, history_));
  }
  return form_.append_turn(text, is_first, history_);
}

/// Adds a turn of the user to the history, which keeps its length if that fails.
/// At least one token of the capacity must stay free for the answer, and a turn without a
/// token could not be answered.
result<void> conversation::enter(std::string_view text) {
  const std::size_t before = history_.size();
  if (auto appended = append_turn(text); !appended) {
    history_.resize(before);
    return appended;
  }
  const std::size_t found = history_.size();
  if (found == before) {
    return error(errc::out_of_range,
                 "cannot add the text to the conversation: expected at least one token, "
                 "found a text without a token");
  }
  if (found >= rules_.capacity) {
    history_.resize(before);
    return error(
               errc::out_of_range,
               fmt::format("cannot add the text to the conversation: expected a "
                           "conversation of at most {} tokens, found {} tokens with the "
                           "text",
                           rules_.capacity - 1, found))
        .hint(fmt::format("one of the {} tokens that --context-tokens, --kv-memory and "
                          "the model allow is kept for the answer",
                          rules_.capacity));
  }
  return {};
}

// Submits what the model has not computed yet, and returns the token that follows the
// history. Only the last step wants logits, because the other rows only fill the context.
result<std::uint32_t> conversation::draw() {
  for (;;) {
    const std::size_t rows =
        std::min<std::size_t>(model_.facts().max_rows, history_.size() - submitted_);
    // The history does not change while a step is in flight: each is finished in this
    // round.
    const models::row_group group{context_, std::span(history_).subspan(submitted_, rows),
                                  submitted_ + rows == history_.size()};
    WEIR_TRY(const auto ticket, model_.submit({&group, 1}));
    submitted_ += rows;
    if (!group.wants_logits) {
      WEIR_CHECK(model_.finish(ticket));
      continue;
    }
    auto logits = model_.logits(ticket, 0);
    // The step is finished even if no token can be drawn: unfinished steps are few.
    if (!logits) {
      static_cast<void>(model_.finish(ticket));  // its failure is that of the logits
      return std::move(logits).error();
    }
    // A model may have more ids than its tokenizer, so that its size is a round number.
    const auto known =
        logits->first(std::min<std::size_t>(logits->size(), tokens_.vocabulary_size()));
    auto id = models::draw_token(known, history_, rules_.sampling, drawn_++);
    WEIR_CHECK(model_.finish(ticket));
    return id;
  }
}

// The context is opened late, because its memory is needed from the first turn on only.
// The token that ends the answer is not added to the history; the form writes the end of
// an answer itself. Bytes of an unfinished character are given to the receiver last.
result<answer_end> conversation::say(std::string_view text, const receiver& on_text) {
  if (context_.value == 0) {
    WEIR_TRY(context_, model_.open_context(rules_.capacity));
  }
  WEIR_CHECK(enter(text));
  const std::size_t begin = history_.size();
  const std::size_t end = static_cast<std::size_t>(
      std::min<std::uint64_t>(rules_.capacity, begin + rules_.max_tokens));
  answer_text answer(tokens_);
  answer_end why = answer_end::length;
  while (history_.size() < end) {
    WEIR_TRY(const std::uint32_t id, draw());
    if (rules_.end_token == id || form_.ends_answer(id)) {
      why = answer_end::stop;
      break;
    }
    history_.push_back(id);
    WEIR_TRY(const std::string piece, answer.add(id));
    if (!on_text(piece)) {
      why = answer_end::stopped;
      break;
    }
  }
  WEIR_TRY(const std::string rest, answer.end());
  if (!rest.empty()) {
    (void)on_text(rest);
  }
  return why;
}

}  // namespace weir::tools
