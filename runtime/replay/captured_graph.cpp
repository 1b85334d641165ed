// SPDX-License-Identifier: Apache-2.0
/// @file
/// Recording of captures, the graph inside a capture, and the edges between two replays.
#include "replay/captured_graph.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include <fmt/core.h>

#include "map/conflict_search.hpp"
#include "replay/reduction.hpp"

namespace weir::runtime {
namespace {

/// Number of earlier graphs whose edges are remembered. When it is reached, all are
/// forgotten and derived again as they are needed.
constexpr std::size_t max_remembered = 64;
constexpr access_ref none = ~ref_mask;

/// Returns the largest index of a storage in the graph; a map is sized by it.
std::uint32_t storages_of(const captured_graph& g) {
  std::uint32_t largest = 0;
  for (const storage_id id : g.storages) {
    largest = std::max(largest, id.index);
  }
  return largest;
}

/// Enters the accesses of a graph into the map of `in`, with ids from `first` on. Calls
/// `visit(index, predecessors)` after each task. `entries`, if not null, gets the
/// reference of every access in the map, or `none` for accesses without bytes or order.
template <class Visit>
void walk(const captured_graph& g, conflict_search& in, task_id first,
          std::vector<access_ref>* entries, Visit&& visit) {
  // Edges that the program asked for are sorted by the later task, so one index is
  // enough.
  std::size_t asked = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const std::uint32_t begin = g.nodes[i].first_access;
    const std::uint32_t end = g.nodes[i + 1].first_access;
    in.start(first + i);
    for (std::uint32_t a = begin; a < end; ++a) {
      // Look-ups of all accesses come before the insertions, so a task never finds
      // itself.
      if (is_ordered(g.accesses[a])) {
        in.look_up(g.accesses[a], true);
      }
    }
    for (; asked < g.asked.size() && g.asked[asked].to == i; ++asked) {
      in.add(first + g.asked[asked].from, g.asked[asked].why);
    }
    for (std::uint32_t a = begin; a < end; ++a) {
      access_ref ref = none;
      if (is_ordered(g.accesses[a])) {
        ref = in.insert(g.accesses[a], first + i);
      }
      if (entries != nullptr) {
        entries->push_back(ref);
      }
    }
    visit(i, in.found());
  }
}

/// Returns a window that is large enough for this many tasks: a power of two.
std::uint32_t window_for(std::size_t tasks) {
  return std::bit_ceil(static_cast<std::uint32_t>(tasks + 1));
}

}  // namespace

/// Records one task. Its captured values are copied, because the program may change them.
void captured_graph::add(node kernel, const void* values,
                         std::span<const access> accesses_of_task,
                         const submit_options& with, bool manual) {
  kernel.first_access = static_cast<std::uint32_t>(accesses.size());
  kernel.urgent = with.urgent;
  kernel.worker = with.worker;
  kernel.though_poisoned = with.though_poisoned;
  const auto index = static_cast<std::uint32_t>(nodes.size());
  for (const task_id before : with.after) {
    if (before >= first_id) {  // older tasks matter to this run alone, not to replays
      asked.push_back({static_cast<std::uint32_t>(before - first_id), index,
                       manual ? hazard::manual : hazard::asked});
    }
  }
  nodes.push_back(kernel);
  max_captured = std::max<std::size_t>(max_captured, kernel.size);
  captures.emplace_back();
  std::memcpy(captures.back().data(), values, kernel.size);
  for (const access& a : accesses_of_task) {
    accesses.push_back({a.bytes, manual ? access_mode::none : a.mode});
  }
}

/// Derives everything that a replay needs; see the class comment. The last node is a
/// sentinel, so that the accesses of node i end where those of node i + 1 begin.
void captured_graph::finish() {
  static std::atomic<std::uint64_t> last_serial{0};
  serial = ++last_serial;
  nodes.emplace_back();
  nodes.back().first_access = static_cast<std::uint32_t>(accesses.size());
  for (const access& a : accesses) {
    const auto note = [&](std::vector<storage_id>& in) {
      if (!a.bytes.empty() && std::find(in.begin(), in.end(), a.bytes.id) == in.end()) {
        in.push_back(a.bytes.id);
      }
    };
    note(storages);
    if (a.mode == access_mode::none) {
      note(kept_storages);
    }
  }
  // A map of its own: the graph is analysed as if its tasks were alone.
  conflict_search search(static_cast<std::uint32_t>(accesses.size()), window_for(size()));
  search.map().add_storage(storages_of(*this));
  std::vector<access_ref> entries;
  graph_edges found(size());
  walk(*this, search, 1, &entries,
       [&](std::size_t i, predecessor_list::view predecessors) {
         for (const predecessor_list::item p : predecessors) {
           found.add(static_cast<std::uint32_t>(p.id - 1), static_cast<std::uint32_t>(i),
                     p.why);
         }
       });
  // An access that is still linked at the end is not covered by a later write of the
  // graph.
  for (const access_ref ref : entries) {
    stays.push_back(ref != none && search.map().linked(ref) ? 1 : 0);
  }
  found.reduce();
  waits_for.resize(size());
  for (std::uint32_t from = 0; from < size(); ++from) {
    follower_begin.push_back(static_cast<std::uint32_t>(followers.size()));
    for (const graph_edges::edge& e : found.edges_from(from)) {
      followers.emplace_back(e.to, carries_failure(e.why));
      ++waits_for[e.to];
      ++edges[static_cast<std::size_t>(e.why)];
    }
  }
  follower_begin.push_back(static_cast<std::uint32_t>(followers.size()));
  for (std::uint32_t i = 0; i < size(); ++i) {
    if (waits_for[i] == 0) {
      roots.push_back(i);
    }
  }
}

/// Replaces the captured values of a task. The version tells instances of the graph that
/// their copies are out of date.
result<void> captured_graph::rebind(std::size_t index, const void* values,
                                    std::size_t bytes, task::call_fn fn) {
  if (index >= size()) {
    return error(
        errc::invalid_argument,
        fmt::format("captured values not replaced: expected a task below {}, found {}",
                    size(), index));
  }
  // The function knows the type of the captured values, so another one would misread
  // them.
  if (nodes[index].fn != fn) {
    return error(
        errc::invalid_argument,
        fmt::format("captured values not replaced: expected a kernel of the type of task "
                    "{} \"{}\", found another",
                    index, nodes[index].name));
  }
  std::memcpy(captures[index].data(), values, bytes);
  ++version;
  return {};
}

/// Repeats the walk without the reduction, for drawings.
std::vector<outer_edge> captured_graph::all_edges() const {
  conflict_search search(static_cast<std::uint32_t>(accesses.size()), window_for(size()));
  search.map().add_storage(storages_of(*this));
  std::vector<outer_edge> out;
  walk(*this, search, 1, nullptr,
       [&](std::size_t i, predecessor_list::view predecessors) {
         for (const predecessor_list::item p : predecessors) {
           out.push_back({static_cast<std::uint32_t>(i),
                          static_cast<std::uint32_t>(p.id - 1), p.why});
         }
       });
  return out;
}

/// Walks over both graphs with one map, as if the later one had been submitted after the
/// earlier one, and keeps the edges that lead from one graph to the other. The reduction
/// takes both graphs into account, so an edge that the inner edges imply is dropped.
const std::vector<outer_edge>& captured_graph::edges_after(
    const captured_graph& earlier) {
  // A reference to the stored edges stays valid until the next call that forgets them.
  const auto known = after.find(earlier.serial);
  if (known != after.end()) {
    return known->second;
  }
  if (after.size() >= max_remembered) {
    after.clear();
  }
  // The edges are stored when they are complete: without memory for all of them, the next
  // call must not find some.
  std::vector<outer_edge> out;
  conflict_search search(
      static_cast<std::uint32_t>(earlier.accesses.size() + accesses.size()),
      window_for(earlier.size() + size()));
  search.map().add_storage(std::max(storages_of(*this), storages_of(earlier)));
  graph_edges found(earlier.size() + size());
  const auto note = [&](std::size_t to, predecessor_list::view predecessors) {
    for (const predecessor_list::item p : predecessors) {
      found.add(static_cast<std::uint32_t>(p.id - 1), static_cast<std::uint32_t>(to),
                p.why);
    }
  };
  walk(earlier, search, 1, nullptr, note);
  const auto first = static_cast<std::uint32_t>(earlier.size());
  walk(*this, search, 1 + first, nullptr,
       [&](std::size_t i, predecessor_list::view predecessors) {
         note(first + i, predecessors);
       });
  found.reduce();
  for (std::uint32_t from = 0; from < first; ++from) {
    for (const graph_edges::edge& e : found.edges_from(from)) {
      if (e.to >= first) {
        out.push_back({e.to - first, from, e.why});
      }
    }
  }
  return after.emplace(earlier.serial, std::move(out)).first->second;
}

std::size_t capture::size() const noexcept {
  return graph_ == nullptr ? 0 : graph_->size();
}

}  // namespace weir::runtime
