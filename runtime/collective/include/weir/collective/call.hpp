// SPDX-License-Identifier: Apache-2.0
/// @file
/// Description of a collective: the call, the algorithm and the topology.
/// @threads{values; the functions are safe to call concurrently}
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "weir/base/dtype.hpp"
#include "weir/base/error.hpp"
#include "weir/collective/reduction.hpp"

namespace weir::collective {

/// Kinds of collectives.
enum class collective_kind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  send,  ///< from `root` to `peer`
  barrier,
};
/// Returns the name of a kind.
[[nodiscard]] std::string_view name_of(collective_kind kind) noexcept;
/// Returns true for kinds that combine the buffers of ranks.
[[nodiscard]] constexpr bool reduces(collective_kind kind) noexcept {
  return kind == collective_kind::all_reduce || kind == collective_kind::reduce_scatter ||
         kind == collective_kind::reduce;
}

/// Way of bytes and sums between ranks. `direct`: the owner of a piece reads all ranks'
/// inputs and writes all outputs. `ring`: pieces go round from neighbour to neighbour.
/// `tree`: halves of a binomial tree with rank 0 at its root. `hierarchical`: within each
/// domain, then between domains, then back.
enum class algorithm : std::uint8_t { direct, ring, tree, hierarchical };
/// Returns the name of an algorithm.
[[nodiscard]] std::string_view name_of(algorithm how) noexcept;
/// Returns the algorithm of this name. @error{unknown_key; no such algorithm}
[[nodiscard]] result<algorithm> algorithm_named(std::string_view name);

/// Form of elements between ranks: unchanged, or rounded to a narrower type; fp8 comes
/// with one fp32 scale per `wire_block` elements.
enum class wire_format : std::uint8_t { plain, bf16, fp8_e4m3, fp8_e5m2 };
/// Number of elements that share a scale.
inline constexpr std::size_t wire_block = 128;
/// Returns the name of a form.
[[nodiscard]] std::string_view name_of(wire_format wire) noexcept;

/// One collective over R ranks, each with an input and an output of `count` elements,
/// which may be the same buffer.
///
/// `count` is that of the full buffer for every kind. Where it is cut into shards, shard
/// r is `[r * count / R, (r + 1) * count / R)` and stands at its own offset, unless
/// `packed_shards` says that a buffer of one shard holds it at its beginning.
/// | kind | reads | writes |
/// | all_reduce | all | all, everywhere |
/// | reduce_scatter | all | shard r at rank r |
/// | all_gather | shard r of rank r | all, everywhere |
/// | broadcast | all of the root | all, everywhere |
/// | reduce | all | all at the root |
/// | gather | shard r of rank r | all at the root |
/// | scatter | all of the root | shard r at rank r |
/// | all_to_all | all | shard s of rank r is shard r of rank s's input |
/// | send | all of the root | all at the peer |
/// In place, other parts of a buffer than those named keep their bytes.
struct collective_call {
  collective_kind kind = collective_kind::all_reduce;  ///< kind
  dtype type = dtype::fp32;                            ///< type of the elements
  std::size_t count = 0;                               ///< elements of the full buffer
  reduction_op op = reduction_op::sum;                 ///< operation of kinds that reduce
  int level = 1;                                       ///< see `reduction`
  bool wide = false;                                   ///< see `reduction`
  int root = 0;                                        ///< rank in the group
  int peer = 0;                                        ///< rank that receives from `send`
  /// all_gather and gather: inputs have one shard each; reduce_scatter and scatter:
  /// outputs have.
  bool packed_shards = false;
};

/// Facts about the machine that a plan may use.
struct topology {
  int domains = 1;  ///< ranks are cut evenly, consecutive ones together
  int workers = 1;  ///< threads that run steps at the same time
  /// Ranks read each other's buffers. Without it every byte of another rank comes through
  /// the transport first.
  bool shared_memory = true;
};
/// Reads "domainsXranks", e.g. "2x4", or one number of domains.
/// @error{invalid_argument; another text}
[[nodiscard]] result<topology> parse_topology(std::string_view text);

/// Checks that a call is well formed for a number of ranks.
/// @error{invalid_argument; ranks outside [1, max_ranks], root or peer outside the ranks,
/// a count of shards that the ranks do not divide, a level outside 0..2, a type that is
/// not one of the 13, or a byte size above 2^63-1}
/// @error{unsupported; an operation that the type does not have}
[[nodiscard]] result<void> check_call(const collective_call& call, int ranks);

/// Checks that a call can send its numbers in this form: sums and averages of fp32,
/// fp16 and bf16 at level 0, all_gather and broadcast of these types, and only to a
/// narrower type.
/// @error{unsupported; any other call}
[[nodiscard]] result<void> check_wire(const collective_call& call, wire_format wire);

/// Returns 64 bits that are equal for equal calls. Ranks compare them before they start.
[[nodiscard]] std::uint64_t digest_of(const collective_call& call) noexcept;

}  // namespace weir::collective
