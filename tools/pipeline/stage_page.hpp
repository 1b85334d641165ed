// SPDX-License-Identifier: Apache-2.0
/// @file
/// The reference of stages, generated from their descriptions alone.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "weir/pipeline/stage_info.hpp"

namespace weir::tools {

/// Returns the description of a stage with the ports, the state and the numbers of items
/// in a call that it has in its example. They may depend on settings that have no
/// default. A stage without an example keeps its description.
/// @error{invalid_argument, unknown_key: the example is refused, or lacks the stage}
[[nodiscard]] result<flow::stage_info> as_in_example(flow::stage_info info);

/// Returns the page docs/stages.md, with a section for each stage.
/// Also returns the errors of `as_in_example`.
[[nodiscard]] result<std::string> stages_page(std::span<const flow::stage_info> stages);

}  // namespace weir::tools
