// SPDX-License-Identifier: Apache-2.0
/// @file
/// A prose model as a step model: each lane of the model is the place of a context.
#pragma once

#include <cstdint>
#include <memory>

#include "weir/base/error.hpp"
#include "weir/models/prose.hpp"
#include "weir/models/step_model.hpp"

namespace weir::models {

/// The face of a prose model that continues sequences.
///
/// A context is a lane: its memories have a constant size, so a context may have any
/// number of tokens, and `model_facts::max_context` and `context_tokens` are the largest
/// 64-bit number. There are as many contexts as lanes. Parameters do not change. No
/// memory of earlier tokens is shared: `reuse_prefix` finds nothing, and `fork_context`
/// computes the tokens of its source again, with equal bits.
///
/// If a step fails, or is refused behind its first pulse, the states of its contexts are
/// undefined. Further steps of them are `upstream_failed`; they can be closed, and forked
/// from their tokens. Other contexts go on.
/// @threads{thread-compatible: belongs to the engine's submitter}
class prose_contexts : public step_model {
 public:
  /// Opens a context that continues a lane as it is, for example behind a checkpoint. Its
  /// tokens so far are not known: `tokens_in` counts those that follow, and it cannot be
  /// forked. It is not emptied when it is
  /// closed, but when the lane is opened again.
  /// @error{lane_mismatch, there is no such lane, or another context has it}
  /// @error{upstream_failed, a step of the lane has failed}
  [[nodiscard]] virtual result<context_id> continue_lane(std::uint32_t lane) = 0;
};

/// Makes a step model of a prose model.
///
/// Its `out_of_memory` means that every lane has a context.
/// @param model  Must outlive the step model. Nobody else submits pulses meanwhile.
/// @threads{belongs to the engine's submitter}
[[nodiscard]] std::unique_ptr<prose_contexts> make_prose_contexts(prose& model);

}  // namespace weir::models
