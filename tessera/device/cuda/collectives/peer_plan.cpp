// SPDX-License-Identifier: Apache-2.0
/// @file
/// Collectives as copies between devices and launches of reduction kernels.
///
/// The owner of a piece gets the piece of every other rank by copies, reduces it with its
/// own, and copies the result to whoever needs it. The order of arithmetic is that of the
/// kernels, so neither the pieces nor the order of the copies show in the bits.
///
/// Three phases follow each other: copies to the owners, reductions, copies of the
/// results. Moves without a reduction need the first phase alone.
#include "device/cuda/collectives/peer_plan.hpp"

#include <algorithm>
#include <span>

namespace weir::tessera::cuda {
namespace {

using collective::collective_call;
using collective::collective_kind;
using collective::reduction_op;

/// Shape of the launches.
constexpr std::size_t block_threads = 256;
constexpr std::size_t max_blocks = 1024;

/// Bytes of a whole buffer of one rank.
std::size_t buffer_bytes(const collective_call& call) noexcept {
  return call.count * static_cast<std::size_t>(info_of(call.type).size);
}

/// Returns the number of the type that the kernels take, and of their elements in one.
///
/// Sums of complex numbers are sums of their parts. The number 0 stands for float32 with
/// wider sums.
std::pair<std::int32_t, std::size_t> kernel_type(const collective_call& call) noexcept {
  const bool adds = call.op == reduction_op::sum || call.op == reduction_op::average;
  const auto number = static_cast<std::int32_t>(call.type);
  if (adds && call.type == dtype::complex64) {
    return {static_cast<std::int32_t>(dtype::fp32), 2};
  }
  if (adds && call.type == dtype::complex128) {
    return {static_cast<std::int32_t>(dtype::fp64), 2};
  }
  return {call.wide && call.level < 2 && call.type == dtype::fp32 ? 0 : number, 1};
}

/// Returns true if sums are exact before they are rounded.
bool adds_exactly(const collective_call& call) noexcept {
  const bool adds = call.op == reduction_op::sum || call.op == reduction_op::average;
  // Integers are exact in any order.
  const bool floats = call.type <= dtype::fp64 || call.type >= dtype::complex64;
  return call.level == 2 && adds && floats;
}

}  // namespace

/// Allocates the scratch and describes all work; nothing runs yet.
result<std::shared_ptr<peer_run>> peer_run::plan(device_backend& backend,
                                                 peer_request request) {
  std::shared_ptr<peer_run> made(new peer_run(backend, std::move(request)));
  made->phases_.resize(3);
  const collective_call& call = made->request_.call;
  // One rank has nothing to reduce.
  if (collective::reduces(call.kind) && made->request_.buffers.size() == 1) {
    const rank_buffers& only = made->request_.buffers[0];
    made->copy(0, 0, only.output, 0, only.input, buffer_bytes(call));
  } else if (collective::reduces(call.kind)) {
    WEIR_CHECK(made->plan_reduction());
  } else if (!nccl_runs(call, made->request_.buffers)) {
    // An exchange in place needs copies of the inputs first.
    WEIR_CHECK(made->plan_exchange_in_place());
  } else {
    WEIR_CHECK(made->plan_moves());
  }
  return made;
}

peer_run::~peer_run() {
  free_scratch();
}

/// Called when no work uses the memory any more.
void peer_run::free_scratch() {
  for (const scratch& s : scratch_) {
    (void)backend_.free(s.device, s.address);
  }
  scratch_.clear();
}

/// Memory on the device of a rank, freed with the run.
result<std::byte*> peer_run::allocate(std::size_t rank, std::size_t bytes) {
  WEIR_TRY(std::byte* const address, backend_.allocate(request_.devices[rank], bytes));
  scratch_.push_back({request_.devices[rank], address});
  return address;
}

/// Copies without bytes, and copies to themselves, are left out.
void peer_run::copy(std::size_t phase, std::size_t to_rank, std::byte* to,
                    std::size_t from_rank, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) {
    phases_[phase].emplace_back(copy_work{copy_kind::device_to_device, to, from, bytes,
                                          request_.devices[to_rank],
                                          request_.devices[from_rank]});
  }
}

/// Each kind is a set of copies that do not depend on each other.
result<void> peer_run::plan_moves() {
  const collective_call& call = request_.call;
  const auto& buffers = request_.buffers;
  const std::size_t ranks = buffers.size();
  const std::size_t whole = buffer_bytes(call);
  const std::size_t shard = whole / ranks;
  const auto root = static_cast<std::size_t>(call.root);
  for (std::size_t r = 0; r < ranks; ++r) {
    // Place of the own shard in the buffer of the rank.
    const std::size_t own = call.packed_shards ? 0 : r * shard;
    switch (call.kind) {
      case collective_kind::broadcast:
        copy(0, r, buffers[r].output, root, buffers[root].input, whole);
        break;
      case collective_kind::scatter:
        copy(0, r, buffers[r].output + own, root, buffers[root].input + r * shard, shard);
        break;
      case collective_kind::gather:
        copy(0, root, buffers[root].output + r * shard, r, buffers[r].input + own, shard);
        break;
      case collective_kind::all_gather:
        for (std::size_t to = 0; to < ranks; ++to) {
          copy(0, to, buffers[to].output + r * shard, r, buffers[r].input + own, shard);
        }
        break;
      case collective_kind::all_to_all:
        for (std::size_t to = 0; to < ranks; ++to) {
          copy(0, to, buffers[to].output + r * shard, r, buffers[r].input + to * shard,
               shard);
        }
        break;
      default: break;
    }
  }
  if (call.kind == collective_kind::send) {
    const auto peer = static_cast<std::size_t>(call.peer);
    copy(0, peer, buffers[peer].output, root, buffers[root].input, whole);
  }
  return {};
}

/// Every rank keeps a copy of its input; then the shards are written over the buffers.
result<void> peer_run::plan_exchange_in_place() {
  const auto& buffers = request_.buffers;
  const std::size_t ranks = buffers.size();
  const std::size_t whole = buffer_bytes(request_.call);
  const std::size_t shard = whole / ranks;
  for (std::size_t r = 0; r < ranks; ++r) {
    WEIR_TRY(std::byte* const kept, allocate(r, whole));
    copy(0, r, kept, r, buffers[r].input, whole);
    for (std::size_t to = 0; to < ranks; ++to) {
      copy(1, to, buffers[to].output + r * shard, r, kept + to * shard, shard);
    }
  }
  return {};
}

/// Who reduces which part: the root all of it, or each rank its share.
std::vector<peer_run::piece> peer_run::pieces() const {
  const collective_call& call = request_.call;
  const auto& buffers = request_.buffers;
  const std::size_t ranks = buffers.size();
  const auto size = static_cast<std::size_t>(info_of(call.type).size);
  if (call.kind == collective_kind::reduce) {
    const auto root = static_cast<std::size_t>(call.root);
    return {{root, 0, buffer_bytes(call), buffers[root].output}};
  }
  std::vector<piece> made;
  for (std::size_t r = 0; r < ranks; ++r) {
    // The first ranks get one element more if the number does not divide.
    const std::size_t first = call.count / ranks * r + std::min(r, call.count % ranks);
    const std::size_t length = call.count / ranks + (r < call.count % ranks ? 1 : 0);
    const bool packed =
        call.kind == collective_kind::reduce_scatter && call.packed_shards;
    made.push_back({r, first * size, length * size,
                    buffers[r].output + (packed ? 0 : first * size)});
  }
  return made;
}

/// For `all_reduce`, the owner gives its piece to all others.
result<void> peer_run::plan_reduction() {
  const bool everywhere = request_.call.kind == collective_kind::all_reduce;
  for (const piece& p : pieces()) {
    if (p.bytes == 0) {
      continue;
    }
    WEIR_CHECK(reduce_piece(p));
    for (std::size_t r = 0; everywhere && r < request_.buffers.size(); ++r) {
      if (r != p.owner) {
        copy(2, r, request_.buffers[r].output + p.first, p.owner, p.to, p.bytes);
      }
    }
  }
  return {};
}

// The kernel reads the owner's own piece where it is: it reads all inputs of an element
// before it writes it, so the output may be the same memory.
result<void> peer_run::reduce_piece(const piece& p) {
  const collective_call& call = request_.call;
  const std::size_t ranks = request_.buffers.size();
  // Pieces begin at multiples of 256 bytes, as memory of the device does.
  const std::size_t step = (p.bytes + 255) / 256 * 256;
  WEIR_TRY(std::byte* const kept,
           allocate(p.owner, step * (ranks - 1) + ranks * sizeof(std::uint64_t)));
  // The table of addresses must stay until it has been copied, so it is a member.
  std::vector<std::uint64_t>& table = tables_.emplace_back();
  std::byte* next = kept;
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::byte* at = request_.buffers[r].input + p.first;
    // Pieces of other ranks are copied, the own one is read in place.
    if (r != p.owner) {
      copy(0, p.owner, next, r, at, p.bytes);
      at = next;
      next += step;
    }
    table.push_back(reinterpret_cast<std::uintptr_t>(at));
  }
  const std::int32_t device = request_.devices[p.owner];
  // The kernel reads the addresses from memory of the device.
  phases_[0].emplace_back(copy_work{copy_kind::host_to_device, next,
                                    reinterpret_cast<const std::byte*>(table.data()),
                                    ranks * sizeof(std::uint64_t), device, device});
  const auto [type, parts] = kernel_type(call);
  const std::size_t count =
      // Elements as the kernel counts them.
      p.bytes / static_cast<std::size_t>(info_of(call.type).size) * parts;
  reduction_arguments& args = arguments_.emplace_back();
  args.inputs = reinterpret_cast<std::uintptr_t>(next);
  args.ranks = static_cast<std::int32_t>(ranks);
  args.out = reinterpret_cast<std::uintptr_t>(p.to);
  args.count = static_cast<std::int64_t>(count);
  args.type = type;
  args.operation = static_cast<std::int32_t>(call.op);
  grid_launch launch;
  launch.code = adds_exactly(call) ? request_.exact : request_.tree;
  launch.device = device;
  // Few elements need no whole block.
  const std::size_t threads = std::min(count, block_threads);
  const std::size_t blocks = std::min((count + threads - 1) / threads, max_blocks);
  launch.grid = {static_cast<std::int32_t>(blocks), 1, 1};
  launch.block = {static_cast<std::int32_t>(threads), 1, 1};
  launch.args = std::as_bytes(std::span(&args, 1));
  phases_[1].emplace_back(grid_work{launch, 0, launch.blocks()});
  return {};
}

/// The run keeps itself alive by its parts.
void peer_run::start(completion done) {
  done_ = std::move(done);
  run_phase();
}

// A part may end on this thread at once. The count is one too high until all parts have
// been submitted, so that the phase does not end before.
void peer_run::run_phase() {
  std::size_t phase = 0;
  {
    const std::lock_guard lock(mutex_);
    phase = phase_;
    left_ = phases_[phase].size() + 1;
  }
  for (const device_work& work : phases_[phase]) {
    // A part that cannot be submitted has failed; the others must end before the run
    // does, because they use its buffers.
    try {
      backend_.submit(work, [self = shared_from_this()](result<void> outcome) {
        self->part_ended(std::move(outcome));
      });
    } catch (const std::bad_alloc&) {
      part_ended(error(errc::out_of_memory,
                       "cannot submit a part of a collective: expected memory for it, "
                       "found none"));
    }
  }
  // The one that was counted too many.
  part_ended({});
}

/// Called by any thread of the backend, once per part.
void peer_run::part_ended(result<void> outcome) {
  bool over = false;
  {
    const std::lock_guard lock(mutex_);
    // The first failure counts; parts that were submitted still end.
    if (!outcome && !failure_) {
      failure_ = std::move(outcome.error());
    }
    if (--left_ > 0) {
      return;
    }
    ++phase_;
    // After a failure the next phase does not begin.
    over = failure_.has_value() || phase_ == phases_.size();
  }
  // The last part of a phase begins the next one.
  if (!over) {
    run_phase();
    return;
  }
  free_scratch();
  // The completion is called last, when the scratch is free.
  const completion done = std::exchange(done_, {});
  if (done) {
    done(failure_ ? result<void>(*failure_) : result<void>());
  }
}

}  // namespace weir::tessera::cuda
