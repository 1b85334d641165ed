// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks and digests of collective calls, and the names of kinds, algorithms and
/// formats.
///
/// A call is a value without buffers. Ranks of a group compare its digest to find out
/// whether all of them have called the same.
#include "weir/collective/call.hpp"

#include <array>
#include <charconv>
#include <cstring>

#include <fmt/core.h>

#include "weir/base/hash.hpp"

namespace weir::collective {
namespace {

/// Names in the order of the enumerations.
constexpr std::array<std::string_view, 10> kind_names = {
    "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
    "gather",     "scatter",        "all_to_all", "send",      "barrier"};
constexpr std::array<std::string_view, 4> algorithm_names = {"direct", "ring", "tree",
                                                             "hierarchical"};
constexpr std::array<std::string_view, 4> wire_names = {"plain", "bf16", "fp8_e4m3",
                                                        "fp8_e5m2"};

/// Returns true if the buffers of the kind consist of one shard for each rank.
bool has_shards(collective_kind kind) noexcept {
  return kind == collective_kind::reduce_scatter || kind == collective_kind::all_gather ||
         kind == collective_kind::gather || kind == collective_kind::scatter ||
         kind == collective_kind::all_to_all;
}

/// Returns true if a single rank has a special role.
bool has_root(collective_kind kind) noexcept {
  return kind == collective_kind::broadcast || kind == collective_kind::reduce ||
         kind == collective_kind::gather || kind == collective_kind::scatter ||
         kind == collective_kind::send;
}

/// Checks a rank that has a role in the call.
result<void> check_rank(const collective_call& call, std::string_view role, int rank,
                        int ranks) {
  if (rank < 0 || rank >= ranks) {
    return error(errc::invalid_argument,
                 fmt::format("cannot plan {}: expected {} in [0, {}), found {}",
                             name_of(call.kind), role, ranks, rank));
  }
  return {};
}

/// Reads a number from 1 on. `whole` is the text for messages.
result<int> positive_number(std::string_view text, std::string_view whole) {
  int value = 0;
  const auto [end, problem] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < 1) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot read topology \"{}\": expected DOMAINSxRANKS", whole));
  }
  return value;
}

}  // namespace

std::string_view name_of(collective_kind kind) noexcept {
  return kind_names[static_cast<std::size_t>(kind)];
}
std::string_view name_of(algorithm how) noexcept {
  return algorithm_names[static_cast<std::size_t>(how)];
}
std::string_view name_of(wire_format wire) noexcept {
  return wire_names[static_cast<std::size_t>(wire)];
}

// Returns the algorithm of a name, as settings and programs write it.
result<algorithm> algorithm_named(std::string_view name) {
  for (std::size_t i = 0; i < algorithm_names.size(); ++i) {
    if (algorithm_names[i] == name) {
      return static_cast<algorithm>(i);
    }
  }
  return error(errc::unknown_key,
               fmt::format("no collective algorithm \"{}\": expected direct, ring, tree "
                           "or hierarchical",
                           name));
}

// The number of ranks in a domain is checked but not kept: it follows from the mesh.
result<topology> parse_topology(std::string_view text) {
  topology shape;
  const std::size_t cross = text.find('x');
  WEIR_TRY(shape.domains, positive_number(text.substr(0, cross), text));
  if (cross != std::string_view::npos) {
    WEIR_CHECK(positive_number(text.substr(cross + 1), text));
  }
  return shape;
}

// Checks everything that does not depend on buffers. The limit of the count keeps sizes
// in bytes within half of the address space.
result<void> check_call(const collective_call& call, int ranks) {
  if (ranks < 1 || ranks > max_ranks) {
    return error(errc::invalid_argument,
                 fmt::format("cannot plan {}: expected 1 to {} ranks, found {}",
                             name_of(call.kind), max_ranks, ranks));
  }
  if (call.kind == collective_kind::barrier) {
    return {};
  }
  // For calls without arithmetic, only the type is checked: every type has a sum at level
  // 1.
  if (reduces(call.kind)) {
    WEIR_CHECK(check_reduction({call.type, call.op, call.level, call.wide}));
  } else {
    WEIR_CHECK(check_reduction({call.type, reduction_op::sum, 1, false}));
  }
  if (has_root(call.kind)) {
    WEIR_CHECK(check_rank(call, "root", call.root, ranks));
  }
  if (call.kind == collective_kind::send) {
    WEIR_CHECK(check_rank(call, "peer", call.peer, ranks));
  }
  if (has_shards(call.kind) && call.count % static_cast<std::size_t>(ranks) != 0) {
    return error(errc::invalid_argument,
                 fmt::format("cannot plan {}: expected a count that {} ranks divide, "
                             "found {}",
                             name_of(call.kind), ranks, call.count));
  }
  const std::size_t max_count =
      static_cast<std::size_t>(-1) / 2 / info_of(call.type).size;
  if (call.count > max_count) {
    return error(errc::invalid_argument,
                 fmt::format("cannot plan {}: expected at most {} elements, found {}",
                             name_of(call.kind), max_count, call.count));
  }
  return {};
}

// A wire format rounds numbers. It is allowed where they are only moved, or added at
// level 0, and only if it is narrower than the type.
result<void> check_wire(const collective_call& call, wire_format wire) {
  if (wire == wire_format::plain) {
    return {};
  }
  const bool moves =
      call.kind == collective_kind::all_gather || call.kind == collective_kind::broadcast;
  const bool adds = (call.kind == collective_kind::all_reduce ||
                     call.kind == collective_kind::reduce_scatter) &&
                    (call.op == reduction_op::sum || call.op == reduction_op::average) &&
                    call.level == 0;
  const bool narrower = call.type == dtype::fp32 ||
                        (wire != wire_format::bf16 &&
                         (call.type == dtype::fp16 || call.type == dtype::bf16));
  if ((!moves && !adds) || !narrower) {
    return error(errc::unsupported,
                 fmt::format("cannot round {} of {} at level {} to {} on the wire",
                             name_of(call.kind), info_of(call.type).tessera, call.level,
                             name_of(wire)));
  }
  return {};
}

std::uint64_t digest_of(const collective_call& call) noexcept {
  // Only fields that the kind uses are part of the digest, so that other fields may have
  // any values.
  const bool reducing = reduces(call.kind);
  const std::array<std::uint64_t, 7> words = {
      static_cast<std::uint64_t>(call.kind),
      call.kind == collective_kind::barrier ? 0 : static_cast<std::uint64_t>(call.type),
      call.kind == collective_kind::barrier ? 0 : call.count,
      reducing ? static_cast<std::uint64_t>(call.op) + 1 : 0,
      has_root(call.kind) ? static_cast<std::uint64_t>(call.root) + 1 : 0,
      call.kind == collective_kind::send ? static_cast<std::uint64_t>(call.peer) + 1 : 0,
      call.packed_shards ? 1U : 0U};
  return xxh3_64(std::as_bytes(std::span(words)));
}

}  // namespace weir::collective
