// SPDX-License-Identifier: Apache-2.0
/// @file
/// Choice of the algorithm of a collective: a hint of the schedule, then a measurement,
/// then a safe default; with the source of the decision.
/// @threads{values; the functions are safe to call concurrently if `tuner` is}
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "weir/base/error.hpp"
#include "weir/collective/call.hpp"

namespace weir::collective {

/// A proposal for collectives of a kind, type and range of sizes.
struct collective_hint {
  collective_kind kind = collective_kind::all_reduce;    ///< kind of the collectives
  int type = 0;                                          ///< id of a dtype, 0: any
  std::size_t least_bytes = 0;                           ///< smallest size in bytes
  std::size_t max_bytes = static_cast<std::size_t>(-1);  ///< largest size in bytes
  algorithm how = algorithm::direct;                     ///< proposed algorithm
  std::size_t chunk_bytes = 0;            ///< bytes of a piece; 0: chosen by the plan
  wire_format wire = wire_format::plain;  ///< form between ranks
};

/// Source of a decision.
enum class decided_by : std::uint8_t { caller, hint, tuner, fallback };
/// Returns the name of a source.
[[nodiscard]] std::string_view name_of(decided_by level) noexcept;

/// A decision and its source.
struct collective_choice {
  algorithm how = algorithm::direct;        ///< algorithm
  std::size_t chunk_bytes = 0;              ///< bytes of a piece; 0: chosen by the plan
  wire_format wire = wire_format::plain;    ///< form between ranks
  decided_by level = decided_by::fallback;  ///< source of the decision
};

/// A function that returns a measured choice, or nothing if nothing was measured. Its
/// errors are those of the choice.
using tuner_lookup = std::function<result<std::optional<collective_hint>>(
    const collective_call&, int ranks, const topology&)>;

/// Proposals for one decision.
struct choice_sources {
  /// Algorithm that the caller asks for; it counts before all proposals.
  std::optional<algorithm> forced;
  std::span<const collective_hint> hints;  ///< the first that fits and is legal counts
  tuner_lookup tuner;                      ///< measured choices; may be empty
  /// True if the policy allows numbers to be rounded on their way between ranks.
  bool wire_allowed = false;
};

/// Returns true if this algorithm exists for the call: gather, scatter, all-to-all, send
/// and barrier have `direct` alone; `hierarchical` needs several domains of several ranks
/// each.
[[nodiscard]] bool is_legal(algorithm how, const collective_call& call, int ranks,
                            const topology& shape) noexcept;

/// Chooses an algorithm. A proposal that is not legal for the call is skipped. At levels
/// 1 and 2 every algorithm gives the same bits, so none is skipped for its bits.
///
/// The default: `direct` at level 1 and 2, and where ranks read each other's memory;
/// elsewhere at level 0 a tree below 8 MiB, above it a ring, or `hierarchical` where
/// there are several domains of several ranks.
/// @error{invalid_argument; `forced` is not legal for the call}
[[nodiscard]] result<collective_choice> choose_algorithm(const collective_call& call,
                                                         int ranks, const topology& shape,
                                                         const choice_sources& sources);

}  // namespace weir::collective
