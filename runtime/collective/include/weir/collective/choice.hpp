// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which algorithm a collective takes: a hint of the schedule, then what was measured,
/// then a safe default; and a record of who decided.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "weir/base/error.hpp"
#include "weir/collective/call.hpp"

namespace weir::collective {

/// What somebody proposes for collectives of a kind, type and range of sizes.
struct collective_hint {
  collective_kind kind = collective_kind::all_reduce;
  int type = 0;  ///< id of a dtype, 0: any
  std::size_t least_bytes = 0;
  std::size_t most_bytes = static_cast<std::size_t>(-1);  ///< inclusive
  algorithm how = algorithm::direct;
  std::size_t chunk_bytes = 0;  ///< 0: the plan's own choice
  wire_format wire = wire_format::plain;
};

/// Who decided.
enum class decided_by : std::uint8_t { caller, hint, tuner, fallback };
[[nodiscard]] std::string_view name_of(decided_by level) noexcept;

struct collective_choice {
  algorithm how = algorithm::direct;
  std::size_t chunk_bytes = 0;
  wire_format wire = wire_format::plain;
  decided_by level = decided_by::fallback;
};

/// Looks a measured choice up; gives nothing where nothing was measured. An error is that
/// of the choice.
using tuner_lookup = std::function<result<std::optional<collective_hint>>(
    const collective_call&, int ranks, const topology&)>;

struct choice_sources {
  /// What the caller asks for, before all others.
  std::optional<algorithm> forced;
  std::span<const collective_hint> hints;  ///< the first that fits and is legal counts
  tuner_lookup tuner;
  /// Whether the policy allows numbers to be rounded on their way between ranks.
  bool wire_allowed = false;
};

/// True if this algorithm exists for the call: gather, scatter, all-to-all, send and
/// barrier have `direct` alone; `hierarchical` needs several domains of several ranks
/// each.
[[nodiscard]] bool is_legal(algorithm how, const collective_call& call, int ranks,
                            const topology& shape) noexcept;

/// Decides. A proposal that is not legal here is passed over, never an error; at level 1
/// and 2 every algorithm gives the same bits, so none is passed over for that.
///
/// The default: `direct` at level 1 and 2, and where ranks read each other's memory;
/// elsewhere at level 0 a tree below 8 MiB, above it a ring, or `hierarchical` where
/// there are several domains of several ranks.
/// @error{invalid_argument, `forced` is not legal for the call}
[[nodiscard]] result<collective_choice> choose_algorithm(const collective_call& call,
                                                         int ranks, const topology& shape,
                                                         const choice_sources& sources);

}  // namespace weir::collective
