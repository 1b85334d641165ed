// SPDX-License-Identifier: Apache-2.0
/// @file
/// The reference of stages, generated from their descriptions alone.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "weir/pipeline/stage_info.hpp"

namespace weir::tools {

/// Returns the ports that a stage has with the settings of its example. They may depend
/// on settings that have no default. Empty if the example does not use the stage.
/// @error{invalid_argument, unknown_key: the example is refused}
[[nodiscard]] result<std::vector<flow::port_info>> ports_of_example(
    const flow::stage_info& info);

/// Returns the page docs/stages.md, with a section for each stage.
/// Also returns the errors of `ports_of_example`.
[[nodiscard]] result<std::string> stages_page(std::span<const flow::stage_info> stages);

}  // namespace weir::tools
