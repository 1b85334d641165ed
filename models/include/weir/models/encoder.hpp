// SPDX-License-Identifier: Apache-2.0
/// @file
/// The interface of models that turn runs of tokens into vectors.
///
/// An encoder may hold some of the layers of a model only. Several of them, one after
/// another, are a pipeline: each takes the rows that the one before it returned. The bits
/// of a run's rows depend on its tokens alone: not on other runs of a call, on the number
/// of workers, or on how the layers are shared out.
#pragma once

#include <cstdint>
#include <span>

#include "weir/base/error.hpp"
#include "weir/models/step_model.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::models {

/// The tokens of one text, with the special tokens of the model.
struct token_run {
  std::span<const std::uint32_t> tokens;  ///< at least one
};

/// Fixed properties of an encoder.
struct encoder_facts {
  std::uint32_t vocab = 0;       ///< number of token ids
  std::uint32_t width = 0;       ///< features of a row
  std::uint32_t max_tokens = 0;  ///< tokens of the longest run
  std::uint32_t max_rows = 0;    ///< tokens of all runs of a call
  bool takes_rows = false;       ///< its first layer is not the first of the model
  bool returns_runs = false;     ///< it returns one row for each run
  /// Name of the instruction set of the kernels, one of `instruction_sets`.
  std::string_view instruction_set;
};

/// A model, or a part of one, that turns runs of tokens into vectors.
/// @threads{thread-compatible: belongs to the engine's submitter}
class encoder {
 public:
  virtual ~encoder() = default;

  /// Largest number of calls that are submitted and not finished.
  static constexpr std::uint32_t max_in_flight = 4;

  /// Returns the fixed properties.
  [[nodiscard]] virtual const encoder_facts& facts() const noexcept = 0;
  /// Submits the tasks for some runs.
  /// @param runs  At least one; the model copies the tokens.
  /// @param rows  Empty, or, if `takes_rows`, the rows that the part before this one
  /// returned for these runs; the model copies them.
  /// @shape{rows: [tokens of all runs][width]}
  /// @error{invalid_argument, no runs; a run without tokens or with more than
  /// `max_tokens`; a token that is not below `vocab`; more tokens than `max_rows`; `rows`
  /// of another length; `max_in_flight` calls are not finished}
  [[nodiscard]] virtual result<step_ticket> submit(std::span<const token_run> runs,
                                                   std::span<const float> rows = {}) = 0;
  /// Returns the task that ends when the rows of a call are there; 0 if there is no such
  /// call.
  [[nodiscard]] virtual runtime::task_id last_task(step_ticket ticket) const noexcept = 0;
  /// Returns true if `rows` would not wait.
  [[nodiscard]] virtual bool ended(step_ticket ticket) const noexcept = 0;
  /// Waits for a call and returns its rows, which are valid until it is finished: one for
  /// each run if `returns_runs`, else one for each token.
  /// @shape{[runs or tokens][width]}
  /// @error{not_found, no such call}
  [[nodiscard]] virtual result<std::span<const float>> rows(step_ticket ticket) = 0;
  /// Waits for a call and gives up its rows. Each call must be finished once.
  /// @error{not_found, no such call}
  [[nodiscard]] virtual result<void> finish(step_ticket ticket) = 0;
};

}  // namespace weir::models
