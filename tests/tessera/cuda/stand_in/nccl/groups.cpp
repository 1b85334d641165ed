// SPDX-License-Identifier: Apache-2.0
/// @file
/// Groups of the stand-in for NCCL: the checks of their calls, and what they compute.
///
/// The calls of a group run as one operation, when the streams of all ranks have reached
/// it. A reduction is computed along the canonical tree by the oracle of collectives, so
/// its bits are those of level 1; a real library gives other bits for sums of floats.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include <fmt/core.h>

#include "runtime/collective/oracle.hpp"
#include "tessera/cuda/stand_in/nccl/state.hpp"

namespace weir::tessera::stand_in {
namespace {

using collective::reduction_op;
using cuda::nccl_operation;
using cuda::nccl_type;
using cuda::status;

bool is_pair(const group_call& c) {
  return c.name == "ncclSend" || c.name == "ncclRecv";
}
std::size_t ranks_of(const group_call& c) {
  return static_cast<std::size_t>(c.from->clique->ranks);
}

dtype our_type(nccl_type type) {
  switch (type) {
    case nccl_type::int32: return dtype::int32;
    case nccl_type::int64: return dtype::int64;
    case nccl_type::float16: return dtype::fp16;
    case nccl_type::float32: return dtype::fp32;
    case nccl_type::float64: return dtype::fp64;
    case nccl_type::bfloat16: return dtype::bf16;
    case nccl_type::float8e4m3: return dtype::fp8_e4m3;
    case nccl_type::float8e5m2: return dtype::fp8_e5m2;
    default: return dtype::int8;
  }
}
reduction_op our_operation(nccl_operation op) {
  switch (op) {
    case nccl_operation::sum: return reduction_op::sum;
    case nccl_operation::product: return reduction_op::product;
    case nccl_operation::max: return reduction_op::max;
    case nccl_operation::min: return reduction_op::min;
    case nccl_operation::average: return reduction_op::average;
  }
  return reduction_op::sum;
}

/// Reduces one element of all ranks.
void reduce_one(const group_call& c, const std::vector<const std::byte*>& elements,
                std::byte* to) {
  if (c.type == nccl_type::uint8) {
    std::byte best = *elements[0];
    for (const std::byte* const e : elements) {
      best = c.operation == nccl_operation::max ? std::max(best, *e) : std::min(best, *e);
    }
    *to = best;
    return;
  }
  collective::test::reduce_element({our_type(c.type), our_operation(c.operation), 1},
                                   elements, to);
}

/// Computes a collective, of which `calls` are the calls of all ranks by rank.
void compute(const std::vector<const group_call*>& calls) {
  const group_call& first = *calls[0];
  const std::size_t size = size_of(first.type);
  const std::size_t bytes = first.count * size;
  const std::size_t ranks = calls.size();
  const auto root = static_cast<std::size_t>(first.peer);
  if (first.name == "ncclBroadcast") {
    const std::vector<std::byte> kept(calls[root]->input, calls[root]->input + bytes);
    for (const group_call* const c : calls) {
      std::copy(kept.begin(), kept.end(), c->output);
    }
    return;
  }
  if (first.name == "ncclAllGather") {
    for (const group_call* const c : calls) {
      for (std::size_t r = 0; r < ranks; ++r) {
        std::memmove(c->output + r * bytes, calls[r]->input, bytes);
      }
    }
    return;
  }
  const std::size_t whole = first.name == "ncclReduceScatter" ? bytes * ranks : bytes;
  std::vector<std::byte> reduced(whole);
  for (std::size_t i = 0; i < whole; i += size) {
    std::vector<const std::byte*> elements;
    for (const group_call* const c : calls) {
      elements.push_back(c->input + i);
    }
    reduce_one(first, elements, reduced.data() + i);
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::size_t begin = first.name == "ncclReduceScatter" ? r * bytes : 0;
    if (first.name != "ncclReduce" || r == root) {
      std::memcpy(calls[r]->output, reduced.data() + begin, bytes);
    }
  }
}

/// Computes all calls of a group: collectives in their order, then sends.
void compute_group(const std::vector<group_call>& calls) {
  std::map<communicator_state*, std::vector<const group_call*>> collectives;
  std::vector<const group_call*> sends;
  std::vector<const group_call*> receives;
  for (const group_call& c : calls) {
    if (is_pair(c)) {
      (c.name == "ncclSend" ? sends : receives).push_back(&c);
    } else {
      collectives[c.from].push_back(&c);
    }
  }
  const std::size_t rounds = collectives.empty() ? 0 : collectives.begin()->second.size();
  for (std::size_t i = 0; i < rounds; ++i) {
    std::vector<const group_call*> of_ranks(collectives.size());
    for (const auto& [communicator, list] : collectives) {
      of_ranks[static_cast<std::size_t>(communicator->rank)] = list[i];
    }
    compute(of_ranks);
  }
  for (const group_call* const s : sends) {
    for (auto& r : receives) {
      if (r != nullptr && r->from->rank == s->peer && r->peer == s->from->rank) {
        std::memcpy(r->output, s->input, s->count * size_of(s->type));
        r = nullptr;
        break;
      }
    }
  }
}

/// Reports calls of ranks that do not form one collective.
bool check_collectives(
    const std::map<communicator_state*, std::vector<const group_call*>>& collectives) {
  if (collectives.empty()) {
    return true;
  }
  const auto& first = collectives.begin()->second;
  const auto ranks = static_cast<std::size_t>(collectives.begin()->first->clique->ranks);
  bool whole = collectives.size() == ranks;
  for (const auto& [communicator, list] : collectives) {
    whole = whole && list.size() == first.size();
  }
  if (!whole) {
    report("nccl_every_rank",
           fmt::format("ncclGroupEnd got {} of {} ranks, or different numbers of calls",
                       collectives.size(), ranks));
    return false;
  }
  for (const auto& [communicator, list] : collectives) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const group_call& a = *first[i];
      const group_call& b = *list[i];
      if (a.name != b.name || a.count != b.count || a.type != b.type ||
          a.peer != b.peer || a.operation != b.operation) {
        report("nccl_same_call",
               fmt::format("{} of {} elements and {} of {} elements meet", a.name,
                           a.count, b.name, b.count));
        return false;
      }
    }
  }
  return true;
}

/// Reports sends without their receives.
bool check_pairs(const std::vector<group_call>& calls) {
  // The key: sender, receiver. The value: sizes that were sent, and received.
  std::map<std::pair<int, int>, std::array<std::vector<std::size_t>, 2>> pairs;
  for (const group_call& c : calls) {
    const std::size_t bytes = c.count * size_of(c.type);
    if (c.name == "ncclSend") {
      pairs[{c.from->rank, c.peer}][0].push_back(bytes);
    } else if (c.name == "ncclRecv") {
      pairs[{c.peer, c.from->rank}][1].push_back(bytes);
    }
  }
  for (const auto& [key, sizes] : pairs) {
    if (sizes[0] != sizes[1]) {
      report("nccl_pairs", fmt::format("rank {} sends to rank {} what that does not "
                                       "receive",
                                       key.first, key.second));
      return false;
    }
  }
  return true;
}

}  // namespace

std::size_t size_of(nccl_type type) noexcept {
  return type == nccl_type::uint8    ? 1
         : type == nccl_type::uint32 ? 4
         : type == nccl_type::uint64
             ? 8
             : static_cast<std::size_t>(info_of(our_type(type)).size);
}

std::vector<touched_range> ranges_of(const group_call& c) {
  const std::size_t bytes = c.count * size_of(c.type);
  const std::size_t all = bytes * ranks_of(c);
  const auto in = reinterpret_cast<std::uintptr_t>(c.input);
  const auto out = reinterpret_cast<std::uintptr_t>(c.output);
  std::vector<touched_range> made;
  if (c.name != "ncclRecv" && (c.name != "ncclBroadcast" || c.from->rank == c.peer)) {
    made.push_back({in, c.name == "ncclReduceScatter" ? all : bytes, false});
  }
  if (c.name != "ncclSend" && (c.name != "ncclReduce" || c.from->rank == c.peer)) {
    made.push_back({out, c.name == "ncclAllGather" ? all : bytes, true});
  }
  return made;
}

bool check_group(const std::vector<group_call>& calls) {
  std::map<communicator_state*, std::vector<const group_call*>> collectives;
  for (const group_call& c : calls) {
    if (!is_pair(c)) {
      collectives[c.from].push_back(&c);
    }
  }
  return check_collectives(collectives) && check_pairs(calls);
}

void post_group(const std::shared_ptr<fused_group>& group) {
  struct meeting {
    std::size_t expected = 0;
    std::size_t arrived = 0;
    std::once_flag once;
  };
  auto together = std::make_shared<meeting>();
  std::map<communicator_state*, std::shared_ptr<stream_state>> streams;
  for (const group_call& c : group->calls) {
    streams[c.from] = c.stream;
  }
  together->expected = streams.size();
  vector_clock all;
  for (const auto& [communicator, stream] : streams) {
    queued arrival;
    arrival.name = "begin of a group of NCCL";
    arrival.run = [together] {
      const std::lock_guard lock(the_world().mutex);
      ++together->arrived;
      return status::success;
    };
    enqueue(stream, std::move(arrival));
    join(all, stream->clock);
  }
  const bool endless = the_world().shown.nccl_stuck == stuck::run;
  for (const auto& [communicator, stream] : streams) {
    join(stream->clock, all);
    queued op;
    op.name = "group of NCCL";
    for (const group_call& c : group->calls) {
      if (c.from == communicator) {
        op.name = c.name;
        const auto ranges = ranges_of(c);
        op.ranges.insert(op.ranges.end(), ranges.begin(), ranges.end());
      }
    }
    op.ready = [together, endless, aborted = communicator->aborted] {
      return aborted->load() || (!endless && together->arrived == together->expected);
    };
    op.run = [together, group, aborted = communicator->aborted] {
      if (!aborted->load()) {
        std::call_once(together->once, [&] { compute_group(group->calls); });
      }
      return status::success;
    };
    enqueue(stream, std::move(op));
    communicator->work.emplace_back(stream, stream->given);
  }
}

}  // namespace weir::tessera::stand_in
