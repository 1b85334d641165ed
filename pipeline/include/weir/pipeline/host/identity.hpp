// SPDX-License-Identifier: Apache-2.0
/// @file
/// The identity of a pipeline: a checkpoint continues only the pipeline that made it.
/// @threads{safe to call concurrently}
#pragma once

#include <string>
#include <string_view>

#include "weir/pipeline/graph.hpp"
#include "weir/pipeline/host/image.hpp"

namespace weir::flow {

/// Name of the section that holds the identity.
inline constexpr std::string_view identity_section = "PIPELINE";

/// Returns stages, settings that may not change, edges and delays as text, a line each.
/// Windows are not part of it, because they change no bit of the output.
[[nodiscard]] std::string identity_of(const graph& g);
/// Compares the identity in an image.
/// @error{config_mismatch, they differ; the message shows the first differing line}
[[nodiscard]] result<void> same_pipeline(const image& from, std::string_view identity);

}  // namespace weir::flow
