// SPDX-License-Identifier: Apache-2.0
/// @file
/// Mixtures with parts that cannot seek.
#pragma once

#include "context/mix/plan.hpp"

namespace weir::storage {

/// Makes a mixture that reads its parts forward only. @pre `mix_plan::check` accepts it.
[[nodiscard]] std::unique_ptr<token_source> make_live_mix(std::vector<mix_part> parts,
                                                          const mix_options& options);

}  // namespace weir::storage
