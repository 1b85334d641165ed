// SPDX-License-Identifier: Apache-2.0
/// @file
/// The interface of models that continue sequences of tokens step by step.
///
/// A *context* is one sequence. A *step* adds rows, i.e. tokens, to several contexts at
/// once and computes the logits behind the last row of those that want them. The bits of
/// the logits depend on the tokens of their context alone: not on other contexts of a
/// step, on how a sequence is cut into steps, or on the number of workers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "weir/base/error.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::models {

/// Names an open context of one model.
struct context_id {
  std::uint64_t value = 0;  ///< 0 names no context
  friend bool operator==(context_id, context_id) = default;
};

/// Names a submitted step until it is finished.
struct step_ticket {
  std::uint64_t serial = 0;  ///< number of the step
};

/// The rows that a step adds to one context.
struct row_group {
  context_id context;                     ///< an open context
  std::span<const std::uint32_t> tokens;  ///< at least one; the model copies them
  bool wants_logits = true;               ///< compute the logits behind the last token
};

/// Fixed properties of a model.
struct model_facts {
  std::uint32_t vocab = 0;            ///< number of token ids
  std::uint64_t max_context = 0;      ///< tokens of the longest context
  std::uint64_t bytes_per_token = 0;  ///< memory that a token of a context takes
  std::uint64_t context_tokens = 0;   ///< tokens of all contexts for which memory exists
  std::uint32_t max_rows = 0;         ///< rows of the largest step
  /// Name of the order of arithmetic. Models with equal orders, weights and tokens give
  /// equal bits.
  std::string_view order;
  /// Name of the instruction set of the kernels, one of `instruction_sets`.
  std::string_view instruction_set;
};

/// A model that continues sequences of tokens.
/// @threads{thread-compatible: belongs to the engine's submitter}
class step_model {
 public:
  virtual ~step_model() = default;

  /// Largest number of steps that are submitted and not finished.
  static constexpr std::uint32_t max_in_flight = 4;

  /// Returns the fixed properties.
  [[nodiscard]] virtual const model_facts& facts() const noexcept = 0;

  /// Opens an empty context and reserves the memory of its tokens. Does not wait.
  /// @param reserve_tokens  Largest number of tokens of the context; at least 1.
  /// @error{invalid_argument, no tokens, or more than `model_facts::max_context`}
  /// @error{out_of_memory, the memory of other contexts leaves too little; the message
  /// has both numbers}
  [[nodiscard]] virtual result<context_id> open_context(std::uint64_t reserve_tokens) = 0;
  /// Opens a context with the first `tokens` tokens of another one and as much reserved
  /// memory. Memory is shared where no token will be added.
  /// @error{not_found, no such context}
  /// @error{invalid_argument, the context has fewer tokens}
  /// @error{out_of_memory, as for `open_context`}
  [[nodiscard]] virtual result<context_id> fork_context(context_id context,
                                                        std::uint64_t tokens) = 0;
  /// Gives an empty context the memory of earlier tokens, if other contexts began with
  /// the tokens of a sequence. Those tokens need not be submitted; at least the last one
  /// of the sequence must be. The bits of later logits do not change.
  /// @returns The number of tokens that the context has now.
  /// @error{not_found, no such context}
  /// @error{invalid_argument, the context is not empty}
  [[nodiscard]] virtual result<std::uint64_t> reuse_prefix(
      context_id context, std::span<const std::uint32_t> tokens) = 0;
  /// Closes a context. Steps that were submitted still use its memory until they end.
  /// @error{not_found, no such context}
  [[nodiscard]] virtual result<void> close_context(context_id context) = 0;
  /// Returns the number of tokens of a context after the steps submitted so far.
  /// @error{not_found, no such context}
  [[nodiscard]] virtual result<std::uint64_t> tokens_in(context_id context) const = 0;

  /// Submits the tasks of a step.
  /// @param groups  At least one; each context at most once.
  /// @error{not_found, no such context}
  /// @error{invalid_argument, no groups; a group without tokens; a context twice; a token
  /// that is not below `vocab`; more rows than `max_rows`; more tokens than the context
  /// reserved; `max_in_flight` steps are not finished}
  [[nodiscard]] virtual result<step_ticket> submit(std::span<const row_group> groups) = 0;
  /// Returns the task that ends when the logits of a step are there; 0 if there is no
  /// such step.
  [[nodiscard]] virtual runtime::task_id last_task(step_ticket ticket) const noexcept = 0;
  /// Returns true if `logits` would not wait.
  [[nodiscard]] virtual bool ended(step_ticket ticket) const noexcept = 0;
  /// Waits for a step and returns the logits behind the last token of a group, which are
  /// valid until the step is finished.
  /// @shape{[vocab]}
  /// @error{not_found, no such step, or the group did not want logits}
  [[nodiscard]] virtual result<std::span<const float>> logits(step_ticket ticket,
                                                              std::size_t group) = 0;
  /// Waits for a step and gives up its logits. Each step must be finished once.
  /// @error{not_found, no such step}
  [[nodiscard]] virtual result<void> finish(step_ticket ticket) = 0;
};

}  // namespace weir::models
