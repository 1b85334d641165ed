// SPDX-License-Identifier: Apache-2.0
/// @file
/// The choice of an algorithm: by the caller, a hint, the tuner or the fallback, in this
/// order; and the schedules that the tuner measures.
///
/// Each level may only propose: a proposal that the call cannot use is passed over, so a
/// module's hints for one mesh do no harm on another. Only a caller that forces an
/// algorithm gets an error.
#include "weir/collective/choice.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include <fmt/core.h>

#include "weir/collective/tuner.hpp"

namespace weir::collective {
namespace {

/// Calls of this size or more are limited by the traffic of the links; for smaller ones
/// the number of hops counts more.
constexpr std::size_t large_bytes = std::size_t{8} << 20;

/// Returns the size of one rank's buffer.
std::size_t bytes_of(const collective_call& call) noexcept {
  return call.kind == collective_kind::barrier ? 0 : call.count * info_of(call.type).size;
}

/// Returns true if hierarchical schedules differ from others.
bool has_real_domains(int ranks, const topology& shape) noexcept {
  return shape.domains > 1 && ranks % shape.domains == 0 && ranks / shape.domains > 1;
}

/// Returns true if a hint is for calls like this one.
bool fits(const collective_hint& hint, const collective_call& call) noexcept {
  const std::size_t bytes = bytes_of(call);
  return hint.kind == call.kind &&
         (hint.type == 0 || hint.type == static_cast<int>(call.type)) &&
         hint.least_bytes <= bytes && bytes <= hint.max_bytes;
}

bool wire_is_legal(wire_format wire, const collective_call& call,
                   const choice_sources& sources) noexcept {
  return wire == wire_format::plain ||
         (sources.wire_allowed && check_wire(call, wire).has_value());
}

/// Returns the algorithm without hints and measurements. Sums in a fixed order, and ranks
/// in shared memory, read all inputs directly. Otherwise small calls use the tree, which
/// has few hops, and large calls the ring or domains, which have little traffic on each
/// link.
algorithm fallback_for(const collective_call& call, int ranks, const topology& shape) {
  const bool ordered = reduces(call.kind) && call.level >= 1;
  if (ordered || shape.shared_memory || !is_legal(algorithm::tree, call, ranks, shape)) {
    return algorithm::direct;
  }
  if (bytes_of(call) < large_bytes) {
    return algorithm::tree;
  }
  return has_real_domains(ranks, shape) ? algorithm::hierarchical : algorithm::ring;
}

}  // namespace

std::string_view name_of(decided_by level) noexcept {
  constexpr std::array<std::string_view, 4> names = {"caller", "hint", "tuner",
                                                     "fallback"};
  return names[static_cast<std::size_t>(level)];
}

// The direct algorithm can do every call. The others exist for calls whose data may be
// passed on or added on the way; without several real domains, the hierarchical one is
// the same as others and is not allowed.
bool is_legal(algorithm how, const collective_call& call, int ranks,
              const topology& shape) noexcept {
  switch (how) {
    case algorithm::direct: return true;
    case algorithm::hierarchical:
      if (!has_real_domains(ranks, shape)) {
        return false;
      }
      [[fallthrough]];
    case algorithm::ring:
    case algorithm::tree: break;
  }
  return reduces(call.kind) || call.kind == collective_kind::all_gather ||
         call.kind == collective_kind::broadcast;
}

// A hint or measurement that cannot do the call is skipped. A forced algorithm is not.
result<collective_choice> choose_algorithm(const collective_call& call, int ranks,
                                           const topology& shape,
                                           const choice_sources& sources) {
  if (sources.forced) {
    if (!is_legal(*sources.forced, call, ranks, shape)) {
      return error(errc::invalid_argument,
                   fmt::format("cannot run {} over {} ranks in {} domains: expected an "
                               "algorithm that it has, found {}",
                               name_of(call.kind), ranks, shape.domains,
                               name_of(*sources.forced)));
    }
    return collective_choice{*sources.forced, 0, wire_format::plain, decided_by::caller};
  }
  // A proposal must be for this call, possible, and within the policy.
  const auto accepts = [&](const collective_hint& hint) {
    return fits(hint, call) && is_legal(hint.how, call, ranks, shape) &&
           wire_is_legal(hint.wire, call, sources);
  };
  for (const collective_hint& hint : sources.hints) {
    if (accepts(hint)) {
      return collective_choice{hint.how, hint.chunk_bytes, hint.wire, decided_by::hint};
    }
  }
  if (sources.tuner) {
    WEIR_TRY(const auto found, sources.tuner(call, ranks, shape));
    if (found && accepts(*found)) {
      return collective_choice{found->how, found->chunk_bytes, found->wire,
                               decided_by::tuner};
    }
  }
  return collective_choice{fallback_for(call, ranks, shape), 0, wire_format::plain,
                           decided_by::fallback};
}

// Fields that do not influence a call's time are left at their defaults, so that calls
// that differ only in these share their measurements.
tuning_key tuning_key::of_call(const collective_call& call, int ranks,
                               const topology& shape) noexcept {
  tuning_key out;
  out.kind = call.kind;
  out.type = call.type;
  if (reduces(call.kind)) {
    out.op = call.op;
    out.level = call.level;
    out.wide = call.wide;
  }
  out.ranks = ranks;
  out.domains = shape.domains;
  out.workers = shape.workers;
  const std::size_t size = info_of(call.type).size;
  out.size_class = static_cast<int>(std::bit_width(call.count * size));
  return out;
}

namespace {

/// Returns the schedules that are worth comparing: none if all would be the same, as with
/// a single rank or without elements.
std::vector<algorithm> schedules_of(const collective_call& call, int ranks,
                                    const topology& shape) {
  std::vector<algorithm> out;
  if (ranks < 2 || call.count == 0 || call.kind == collective_kind::barrier ||
      !is_legal(algorithm::tree, call, ranks, shape)) {
    return out;
  }
  for (const algorithm how :
       {algorithm::direct, algorithm::ring, algorithm::tree, algorithm::hierarchical}) {
    if (is_legal(how, call, ranks, shape)) {
      out.push_back(how);
    }
  }
  return out;
}

}  // namespace

// Returns nothing while measurements are incomplete or if only one schedule exists.
result<std::optional<algorithm>> collective_tuner::fastest(const collective_call& call,
                                                           int ranks,
                                                           const topology& shape) {
  return known_.fastest(tuning_key::of_call(call, ranks, shape),
                        [&] { return schedules_of(call, ranks, shape); });
}

std::optional<tuning_trial> collective_tuner::next(const collective_call& call, int ranks,
                                                   const topology& shape) {
  const tuning_key key = tuning_key::of_call(call, ranks, shape);
  const auto how = known_.next(key, [&] { return schedules_of(call, ranks, shape); });
  return how ? std::optional(tuning_trial{key, *how}) : std::nullopt;
}

}  // namespace weir::collective
