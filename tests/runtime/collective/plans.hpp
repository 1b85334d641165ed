// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs plans on test buffers in random legal orders, and computes what a collective must
/// leave in every buffer.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "oracle.hpp"
#include "weir/collective/plan.hpp"

namespace weir::collective::test {

inline constexpr std::array<collective_kind, 10> all_kinds = {
    collective_kind::all_reduce, collective_kind::reduce_scatter,
    collective_kind::all_gather, collective_kind::broadcast,
    collective_kind::reduce,     collective_kind::gather,
    collective_kind::scatter,    collective_kind::all_to_all,
    collective_kind::send,       collective_kind::barrier};

/// Returns the calls of a kind with these levels, one for each operation that the type
/// has. Kinds that only move data need a single call.
inline std::vector<collective_call> calls_of(collective_kind kind, dtype type,
                                             std::initializer_list<int> levels) {
  std::vector<collective_call> calls;
  for (const reduction_op op : all_ops) {
    for (const int level : levels) {
      const bool once = op == reduction_op::sum && level == 1;
      if ((reduces(kind) || once) && check_reduction({type, op, level})) {
        collective_call call;
        call.kind = kind;
        call.type = type;
        call.op = op;
        call.level = level;
        calls.push_back(call);
      }
    }
  }
  return calls;
}

inline std::string text_of(const collective_call& c, int ranks) {
  return std::string(name_of(c.kind)) + " " + std::string(info_of(c.type).tessera) + " " +
         std::string(name_of(c.op)) + " level " + std::to_string(c.level) + ", " +
         std::to_string(ranks) + " ranks, " + std::to_string(c.count) +
         " elements, root " + std::to_string(c.root) + " peer " + std::to_string(c.peer) +
         (c.packed_shards ? " packed" : "");
}
inline std::string text_of(const plan_options& o, const topology& t) {
  return std::string(name_of(o.how)) + " chunk " + std::to_string(o.chunk_bytes) + ", " +
         std::to_string(t.domains) + " domains, " + std::to_string(t.workers) +
         " workers" + (t.shared_memory ? "" : ", nothing shared");
}

/// Returns whether each input buffer holds only the rank's shard.
inline bool packs_inputs(const collective_call& c) {
  return c.packed_shards &&
         (c.kind == collective_kind::all_gather || c.kind == collective_kind::gather);
}
/// Returns whether each output buffer holds only the rank's shard.
inline bool packs_outputs(const collective_call& c) {
  return c.packed_shards && (c.kind == collective_kind::reduce_scatter ||
                             c.kind == collective_kind::scatter);
}
/// Returns the number of bytes of each rank's input buffer.
inline std::size_t input_bytes(const collective_call& c, int ranks) {
  const std::size_t all = c.count * info_of(c.type).size;
  return packs_inputs(c) ? all / static_cast<std::size_t>(ranks) : all;
}
/// Returns the number of bytes of each rank's output buffer.
inline std::size_t output_bytes(const collective_call& c, int ranks) {
  const std::size_t all = c.count * info_of(c.type).size;
  return packs_outputs(c) ? all / static_cast<std::size_t>(ranks) : all;
}

/// Returns the contents of the output buffers after the call, if they held `outputs`
/// before. With a single rank, the bits of the input are copied unchanged.
inline std::vector<bytes> expected_outputs(const collective_call& c,
                                           const std::vector<bytes>& inputs,
                                           std::vector<bytes> outputs) {
  const std::size_t ranks = inputs.size();
  const std::size_t shard = c.count * info_of(c.type).size / ranks;
  const auto root = static_cast<std::size_t>(c.root);
  const auto paste = [](bytes& to, std::size_t offset, const bytes& from,
                        std::size_t first, std::size_t count) {
    std::copy_n(from.begin() + std::ptrdiff_t(first), count,
                to.begin() + std::ptrdiff_t(offset));
  };
  bytes sum;
  if (reduces(c.kind) && c.count > 0) {
    sum = ranks == 1 ? inputs[0] : reduced({c.type, c.op, c.level, c.wide}, inputs);
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    bytes& out = outputs[r];
    const std::size_t in_at = packs_inputs(c) ? 0 : 1;
    const std::size_t out_at = packs_outputs(c) ? 0 : r * shard;
    switch (c.kind) {
      case collective_kind::all_reduce: out = sum; break;
      case collective_kind::reduce_scatter:
        paste(out, out_at, sum, r * shard, shard);
        break;
      case collective_kind::reduce: out = r == root ? sum : out; break;
      case collective_kind::broadcast: out = inputs[root]; break;
      case collective_kind::send:
        out = r == static_cast<std::size_t>(c.peer) ? inputs[root] : out;
        break;
      case collective_kind::scatter:
        paste(out, out_at, inputs[root], r * shard, shard);
        break;
      case collective_kind::gather:
      case collective_kind::all_gather:
        for (std::size_t s = 0; s < ranks; ++s) {
          if (c.kind == collective_kind::all_gather || r == root) {
            paste(out, s * shard, inputs[s], in_at * s * shard, shard);
          }
        }
        break;
      case collective_kind::all_to_all:
        for (std::size_t s = 0; s < ranks; ++s) {
          paste(out, s * shard, inputs[s], r * shard, shard);
        }
        break;
      case collective_kind::barrier: break;
    }
  }
  return outputs;
}

/// Runs the steps in a random order that respects their dependencies.
inline void run_in_random_order(const collective_plan& plan,
                                const collective_buffers& buffers,
                                std::mt19937_64& dice) {
  const auto steps = plan.steps();
  std::vector<std::size_t> missing(steps.size());
  std::vector<std::vector<std::size_t>> next(steps.size());
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    missing[i] = plan.after(steps[i]).size();
    for (const std::uint32_t before : plan.after(steps[i])) {
      next[before].push_back(i);
    }
    if (missing[i] == 0) {
      ready.push_back(i);
    }
  }
  while (!ready.empty()) {
    std::swap(ready[dice() % ready.size()], ready.back());
    const std::size_t now = ready.back();
    ready.pop_back();
    or_throw(run_step(plan, now, buffers));
    for (const std::size_t n : next[now]) {
      if (--missing[n] == 0) {
        ready.push_back(n);
      }
    }
  }
}

/// Returns scratch memory inside `memory`, aligned to 64 bytes and filled with garbage.
inline std::byte* aligned_scratch(bytes& memory, std::size_t size) {
  memory.assign(size + 64, std::byte{0xEE});
  const auto number = reinterpret_cast<std::uintptr_t>(memory.data());
  return memory.data() + (64 - number % 64) % 64;
}

/// Runs a plan once. In place, each output buffer starts with the rank's input.
inline std::vector<bytes> run_plan(const collective_plan& plan,
                                   const std::vector<bytes>& inputs,
                                   std::vector<bytes> outputs, bool in_place,
                                   std::mt19937_64& dice) {
  if (in_place) {
    outputs = inputs;
  }
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    to.push_back(outputs[r].data());
    from.push_back(in_place ? outputs[r].data() : inputs[r].data());
  }
  bytes memory;
  std::byte* const scratch = aligned_scratch(memory, plan.scratch_bytes());
  run_in_random_order(plan, {from, to, scratch, nullptr}, dice);
  return outputs;
}

/// Returns a buffer of random elements for each rank.
inline std::vector<bytes> random_buffers(std::mt19937_64& dice, dtype type, int ranks,
                                         std::size_t size, flavour kind) {
  std::vector<bytes> all;
  for (int r = 0; r < ranks; ++r) {
    all.push_back(random_elements(dice, type, size / info_of(type).size, kind));
  }
  return all;
}

/// Returns the first rank whose buffer differs, or -1.
inline int first_difference(const std::vector<bytes>& a, const std::vector<bytes>& b) {
  const auto difference = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return difference.first == a.end() ? -1
                                     : static_cast<int>(difference.first - a.begin());
}

}  // namespace weir::collective::test
