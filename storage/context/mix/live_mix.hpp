// SPDX-License-Identifier: Apache-2.0
/// @file
/// Mixtures with parts that cannot seek.
#pragma once

#include "context/mix/plan.hpp"

namespace weir::storage {

/// Kinds of random sources in `composed_rng`.
inline constexpr std::uint64_t mix_kind = 1;
inline constexpr std::uint64_t shuffle_kind = 2;
inline constexpr std::uint64_t sample_kind = 3;

/// Makes a mixture that reads its parts forward only. @pre `mix_plan::check` accepts it.
[[nodiscard]] std::unique_ptr<token_source> make_live_mix(std::vector<mix_part> parts,
                                                          const mix_options& options);
/// Returns the shares of the parts at a place.
[[nodiscard]] std::vector<part_share> shares_at(const mix_plan& plan,
                                                const mix_place& place,
                                                std::span<const std::string> names);

}  // namespace weir::storage
