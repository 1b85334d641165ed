// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stages that need nothing but the pipeline itself: they generate, count, route,
/// join, group and compute.
/// @source{docs/stages.md}
#pragma once

#include "weir/pipeline/catalog.hpp"

namespace weir::flow {

/// Adds `generator`, `null`, `select`, `merge`, `zip`, `batch`, `unbatch`, `elementwise`
/// and `concat`. The stages of `concat` are looked up in `to`, which must outlive the
/// pipelines that use it.
/// @error{already_exists, a stage of one of these names is there already}
/// @threads{thread-compatible}
[[nodiscard]] result<void> add_basic_stages(catalog& to);

}  // namespace weir::flow
