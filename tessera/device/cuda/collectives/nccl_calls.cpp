// SPDX-License-Identifier: Apache-2.0
/// @file
/// Translation of collectives into calls of NCCL.
///
/// NCCL has no gather, scatter, exchange or send of one rank to another as collectives
/// of its own; these are groups of sends and receives.
#include "device/cuda/collectives/nccl_calls.hpp"

#include <array>

namespace weir::tessera::cuda {
namespace {

using collective::collective_call;
using collective::collective_kind;
using collective::reduction_op;

/// How reductions of one of our types are reductions of NCCL. `least` is the oldest
/// version of the library, `capability` the lowest of a device.
///
/// Types that are missing are reduced by our own kernels.
struct nccl_type_row {
  dtype ours;
  nccl_type theirs;
  std::size_t per_element;
  int least = least_nccl_version;
  int capability = 0;
};
// int16 is missing: NCCL has no such type. NCCL reduces fp8 on devices from 9.0 on.
constexpr std::array nccl_type_rows{
    nccl_type_row{dtype::fp8_e4m3, nccl_type::float8e4m3, 1, fp8_nccl_version, 90},
    nccl_type_row{dtype::fp8_e5m2, nccl_type::float8e5m2, 1, fp8_nccl_version, 90},
    nccl_type_row{dtype::fp16, nccl_type::float16, 1},
    nccl_type_row{dtype::bf16, nccl_type::bfloat16, 1},
    nccl_type_row{dtype::fp32, nccl_type::float32, 1},
    nccl_type_row{dtype::fp64, nccl_type::float64, 1},
    nccl_type_row{dtype::int8, nccl_type::int8, 1},
    nccl_type_row{dtype::int32, nccl_type::int32, 1},
    nccl_type_row{dtype::int64, nccl_type::int64, 1},
    nccl_type_row{dtype::boolean, nccl_type::uint8, 1},
    nccl_type_row{dtype::complex64, nccl_type::float32, 2},
    nccl_type_row{dtype::complex128, nccl_type::float64, 2}};

/// The names differ, the operations do not.
nccl_operation plain_operation(reduction_op op) noexcept {
  switch (op) {
    case reduction_op::sum: return nccl_operation::sum;
    case reduction_op::max: return nccl_operation::max;
    case reduction_op::min: return nccl_operation::min;
    case reduction_op::product: return nccl_operation::product;
    case reduction_op::average: return nccl_operation::average;
  }
  return nccl_operation::sum;
}

/// Returns the operation of NCCL, or nothing. Averages of integers are left out, because
/// they divide in another way than ours.
std::optional<nccl_operation> operation_of(dtype type, reduction_op op) noexcept {
  switch (type) {
    // A Boolean is a byte of 0 or 1: a sum is the logical or, a product the logical and.
    case dtype::boolean:
      if (op == reduction_op::average) {
        return std::nullopt;
      }
      return op == reduction_op::sum || op == reduction_op::max ? nccl_operation::max
                                                                : nccl_operation::min;
    // The sum of complex numbers is the sum of their parts; products and orders are not.
    case dtype::complex64:
    case dtype::complex128:
      return op == reduction_op::sum || op == reduction_op::average
                 ? std::optional(plain_operation(op))
                 : std::nullopt;
    // NCCL rounds averages of integers in another way.
    case dtype::int8:
    case dtype::int32:
    case dtype::int64:
      return op == reduction_op::average ? std::nullopt
                                         : std::optional(plain_operation(op));
    default: return plain_operation(op);
  }
}

/// Counts and places of one rank's buffers.
///
/// Lives for one call.
struct shard_view {
  const nccl_api& api;
  const nccl_elements& as;
  const nccl_place& at;
  std::size_t shard;        ///< elements of NCCL in a shard
  std::size_t shard_bytes;  ///< bytes of a shard
  nccl_status outcome = nccl_status::success;

  // Keeps the first failure; "in progress" is no failure.
  void note(nccl_status s) noexcept {
    // A failure stays, whatever comes later.
    if (outcome == nccl_status::success || outcome == nccl_status::in_progress) {
      outcome = s == nccl_status::success ? outcome : s;
    }
  }
  void send(const std::byte* from, std::size_t count, int peer) noexcept {
    note(api.send(from, count, as.type, peer, at.communicator, at.stream));
  }
  void receive(std::byte* to, std::size_t count, int peer) noexcept {
    note(api.receive(to, count, as.type, peer, at.communicator, at.stream));
  }
  // Place of the shard of a rank in a whole buffer.
  [[nodiscard]] std::size_t offset(int rank) const noexcept {
    return static_cast<std::size_t>(rank) * shard_bytes;
  }
};

/// Every rank sends its shard to the root, which receives all.
///
/// NCCL runs the messages of a group at the same time.
void call_gather(shard_view& v, const collective_call& call, const rank_buffers& b) {
  const std::byte* const mine =
      call.packed_shards ? b.input : b.input + v.offset(v.at.rank);
  const bool root = v.at.rank == call.root;
  // The root's own shard may be where it belongs already.
  if (!root || mine != b.output + v.offset(v.at.rank)) {
    v.send(mine, v.shard, call.root);
  }
  // The root receives in the order of the ranks.
  for (int r = 0; root && r < v.at.ranks; ++r) {
    if (r != call.root || mine != b.output + v.offset(r)) {
      v.receive(b.output + v.offset(r), v.shard, r);
    }
  }
}

/// The root sends every rank its shard.
void call_scatter(shard_view& v, const collective_call& call, const rank_buffers& b) {
  std::byte* const mine = call.packed_shards ? b.output : b.output + v.offset(v.at.rank);
  const bool root = v.at.rank == call.root;
  for (int r = 0; root && r < v.at.ranks; ++r) {
    if (r != call.root || mine != b.input + v.offset(r)) {
      v.send(b.input + v.offset(r), v.shard, r);
    }
  }
  // A shard that is in its place already is not received.
  if (!root || mine != b.input + v.offset(v.at.rank)) {
    v.receive(mine, v.shard, call.root);
  }
}

/// An exchange of all with all, or one message.
void call_pairs(shard_view& v, const collective_call& call, const rank_buffers& b,
                std::size_t count) {
  if (call.kind == collective_kind::all_to_all) {
    // Also to itself, which NCCL copies.
    for (int r = 0; r < v.at.ranks; ++r) {
      v.send(b.input + v.offset(r), v.shard, r);
      v.receive(b.output + v.offset(r), v.shard, r);
    }
    return;
  }
  // A message of a rank to itself in the same memory.
  if (call.root == call.peer && b.input == b.output) {
    return;
  }
  if (v.at.rank == call.root) {
    v.send(b.input, count, call.peer);
  }
  if (v.at.rank == call.peer) {
    v.receive(b.output, count, call.root);
  }
}

}  // namespace

/// Without a reduction, any type is moved as bytes.
std::optional<nccl_elements> nccl_elements_of(const collective_call& call, int version,
                                              int capability) noexcept {
  // Bytes have a type that every version knows.
  if (!collective::reduces(call.kind)) {
    return nccl_elements{nccl_type::uint8,
                         static_cast<std::size_t>(info_of(call.type).size),
                         nccl_operation::sum};
  }
  for (const nccl_type_row& row : nccl_type_rows) {
    if (row.ours == call.type) {
      const auto operation = operation_of(call.type, call.op);
      // Version of the library and capability of the devices.
      const bool known = version >= row.least && capability >= row.capability;
      // NCCL has no nodes that are wider than the elements.
      if (!operation || !known || (call.wide && call.type == dtype::fp32)) {
        return std::nullopt;
      }
      return nccl_elements{row.theirs, row.per_element, *operation};
    }
  }
  return std::nullopt;
}

/// NCCL needs two buffers for an exchange.
bool nccl_runs(const collective_call& call,
               const std::vector<rank_buffers>& buffers) noexcept {
  if (call.kind != collective_kind::all_to_all) {
    return call.kind != collective_kind::barrier;
  }
  // One buffer in place is enough to refuse all, as ranks must decide alike.
  for (const rank_buffers& b : buffers) {
    if (b.input == b.output) {
      return false;
    }
  }
  return true;
}

/// Makes the calls of one rank. The caller has begun a group, so nothing runs yet.
nccl_status call_nccl(const nccl_api& api, const collective_call& call,
                      const nccl_elements& as, const rank_buffers& buffers,
                      const nccl_place& at) {
  const auto ranks = static_cast<std::size_t>(at.ranks);
  // Elements as NCCL counts them; a complex number is two.
  const std::size_t count = call.count * as.per_element;
  const std::size_t bytes =
      call.count * static_cast<std::size_t>(info_of(call.type).size);
  shard_view v{api, as, at, count / ranks, bytes / ranks};
  // Null for a rank without a buffer.
  const auto* const in = buffers.input;
  auto* const out = buffers.output;
  // Place of the own shard, unless shards are packed.
  const std::size_t mine = call.packed_shards ? 0 : v.offset(at.rank);
  switch (call.kind) {
    case collective_kind::all_reduce:
      v.note(api.all_reduce(in, out, count, as.type, as.operation, at.communicator,
                            at.stream));
      break;
    case collective_kind::reduce_scatter:
      v.note(api.reduce_scatter(in, out + mine, v.shard, as.type, as.operation,
                                at.communicator, at.stream));
      break;
    case collective_kind::all_gather:
      v.note(
          api.all_gather(in + mine, out, v.shard, as.type, at.communicator, at.stream));
      break;
    case collective_kind::broadcast:
      v.note(
          api.broadcast(in, out, count, as.type, call.root, at.communicator, at.stream));
      break;
    case collective_kind::reduce:
      v.note(api.reduce(in, out, count, as.type, as.operation, call.root, at.communicator,
                        at.stream));
      break;
    case collective_kind::gather: call_gather(v, call, buffers); break;
    case collective_kind::scatter: call_scatter(v, call, buffers); break;
    case collective_kind::all_to_all:
    case collective_kind::send: call_pairs(v, call, buffers, count); break;
    case collective_kind::barrier: break;
  }
  return v.outcome;
}

}  // namespace weir::tessera::cuda
