// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory of the items of a pipeline.
///
/// The number of slots of an outlet is the number of its items that can be alive at the
/// same time: those that are being made, those on the edges behind it, and those that
/// stages behind it have forwarded without a copy. The last ones are found by
/// `forwarded`, once counted in items and once in bytes.
#include "graph/memory.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "graph/names.hpp"
#include "weir/base/bytes.hpp"
#include "weir/pipeline/host/shared_layout.hpp"

namespace weir::flow {
namespace {

// The product of bytes and slots has up to 95 bits.
__extension__ using wide = unsigned __int128;

/// The bound is stored as a signed number.
constexpr wide max_bytes = std::numeric_limits<std::int64_t>::max();

/// Returns whether a stage hands on tensors of its inlets. A stage outside of the
/// engine's thread makes copies instead.
bool hands_on(const graph_stage& s) {
  return s.info.forwards && host_of(s) == host_kind::engine;
}

/// Slots begin at multiples of the alignment.
constexpr wide aligned(std::int64_t bytes) noexcept {
  return align_up<std::uint64_t>(static_cast<std::uint64_t>(bytes), slot_alignment);
}

/// What is alive behind each stage because the stage forwards tensors. The unit is an
/// item or a byte, as the edges are weighted.
/// A tensor that is forwarded holds the slot of its maker until the last stage has let
/// go.
class forwarded {
 public:
  using weight = std::int64_t (*)(const plan& p, const graph_edge& edge);

  forwarded(const plan& p, weight w)
      : plan_(p), weight_(w), states_(p.stages.size()), behind_(p.stages.size(), 0) {
    for (std::uint32_t s = 0; s < p.stages.size(); ++s) {
      has_cycle_ = !visit(s) || has_cycle_;
    }
  }

  /// Returns the sum that an edge and the stages behind it keep alive.
  [[nodiscard]] wide along(const graph_edge& edge) const {
    return static_cast<wide>(weight_(plan_, edge)) + behind(edge.to);
  }

 private:
  /// State of a depth-first search.
  enum class state : std::uint8_t { fresh, open, done };

  /// A stage with outlets for failed items forwards its inputs there.
  [[nodiscard]] bool forwards(std::uint32_t stage) const {
    const graph_stage& s = plan_.source.stages[stage];
    return hands_on(s) || s.info.dead_letters() != 0;
  }
  /// Returns whether an edge may carry a tensor that its first stage has forwarded.
  [[nodiscard]] bool carries_forwarded(const graph_edge& edge) const {
    const graph_stage& s = plan_.source.stages[edge.from];
    return hands_on(s) || s.info.ports[edge.outlet].dead_letter;
  }

  /// Computes what is alive behind a stage and behind the stages that it leads to.
  /// @returns False if stages that forward form a cycle.
  bool visit(std::uint32_t stage) {
    if (!forwards(stage) || states_[stage] == state::done) {
      return true;
    }
    // A stage that is being visited was reached again: there is a cycle.
    if (states_[stage] == state::open) {
      return false;
    }
    // Visited before its successors, so that a cycle is found.
    states_[stage] = state::open;
    bool without_cycle = true;
    for (const std::uint32_t e : plan_.stages[stage].out) {
      // Edges that carry new tensors hold slots of this stage and not of earlier ones.
      const graph_edge& edge = plan_.source.edges[e];
      if (!carries_forwarded(edge)) {
        continue;
      }
      without_cycle = visit(edge.to) && without_cycle;
      // The path with the largest sum decides, because a tensor takes one of them at a
      // time.
      behind_[stage] = std::max(
          behind_[stage], static_cast<wide>(weight_(plan_, edge)) + behind_[edge.to]);
    }
    states_[stage] = state::done;
    return without_cycle;
  }

  // In a cycle, an old tensor may be alive beside new ones. Then each edge counts.
  // The bound is then larger than necessary.
  [[nodiscard]] wide behind(std::uint32_t stage) const {
    if (!has_cycle_) {
      return behind_[stage];
    }
    // Walks through all stages that a tensor can reach without a copy.
    std::vector<std::uint32_t> reached{stage};
    wide sum = 0;
    for (std::size_t i = 0; i < reached.size(); ++i) {
      if (!forwards(reached[i])) {
        continue;
      }
      for (const std::uint32_t e : plan_.stages[reached[i]].out) {
        const graph_edge& edge = plan_.source.edges[e];
        if (!carries_forwarded(edge)) {
          continue;
        }
        sum += static_cast<wide>(weight_(plan_, edge));
        if (std::ranges::find(reached, edge.to) == reached.end()) {
          reached.push_back(edge.to);
        }
      }
    }
    return sum;
  }

  const plan& plan_;
  weight weight_;
  std::vector<state> states_;
  std::vector<wide> behind_;  ///< of each stage, valid if there is no cycle
  bool has_cycle_ = false;
};

/// Weight of an edge in bytes.
std::int64_t window_bytes(const plan& /*p*/, const graph_edge& edge) {
  return edge.window_bytes;
}

/// Returns the largest value of a function over edges; 0 if there are none.
template <class Edges, class Value>
wide largest(const plan& p, const Edges& edges, Value value) {
  wide out = 0;
  for (const std::uint32_t e : edges) {
    out = std::max(out, static_cast<wide>(value(p.source.edges[e])));
  }
  return out;
}

/// Returns the bytes of the largest item of an outlet, if they are known.
/// An extent with a declared limit counts with that limit.
std::optional<std::int64_t> largest_item(const plan& p, std::uint32_t stage,
                                         std::uint32_t port) {
  port_type type = p.stages[stage].types[port];
  const std::int64_t longest = p.source.stages[stage].info.ports[port].longest;
  // A declared limit counts only for an extent that is open.
  if (longest != 0 && !type.shape.empty() &&
      type.shape.front().is != extent::kind::fixed) {
    type.shape.front() = {extent::kind::fixed, longest, '?'};
  }
  return type.bytes();
}

/// Computes slots and bytes of the stages of a plan.
// The results are written into the plan.
class memory_sizer {
 public:
  explicit memory_sizer(plan& p)
      : plan_(p), items_(p, max_alive), bytes_(p, window_bytes) {}

  result<void> run() {
    // Slots first, because the other sizes are multiples of them.
    for (std::uint32_t s = 0; s < plan_.stages.size(); ++s) {
      plan_.stages[s].slots = static_cast<std::uint32_t>(slots_of(s));
      WEIR_CHECK(size_scratch(s));
      WEIR_CHECK(size_ports(s));
      total_ += host_bytes(plan_, s);
    }
    // The first items of feedback edges have slots of their own.
    for (const graph_edge& e : plan_.source.edges) {
      const auto item = plan_.stages[e.to].types[e.inlet].bytes();
      if (e.delay > 0 && item) {
        total_ += aligned(*item) * e.delay;
      }
      total_ += held_bytes(e);
    }
    if (total_ > max_bytes) {
      return error(
          errc::out_of_range,
          fmt::format("cannot size the memory of the pipeline \"{}\": expected at "
                      "most 2^63-1 bytes, found more",
                      plan_.source.name));
    }
    plan_.memory_bound = static_cast<std::int64_t>(total_);
    return {};
  }

 private:
  /// Returns the bytes of the items of an incomplete call, which a resumed run holds
  /// beside the slots of the stage that has made them. Those of varying size hold credits
  /// of the edge.
  [[nodiscard]] wide held_bytes(const graph_edge& e) const {
    const std::uint32_t takes = plan_.source.stages[e.to].info.takes;
    // Complete calls have their items in slots of the makers.
    if (takes == 1) {
      return 0;
    }
    if (const auto item = largest_item(plan_, e.from, e.outlet)) {
      return aligned(*item) * (takes - 1);
    }
    const wide one_item = largest(plan_, plan_.stages[e.from].out,
                                  [](const graph_edge& o) { return o.window_bytes; });
    return static_cast<wide>(e.window_bytes) + one_item;
  }

  /// The product has more than 64 bits at worst, hence the wide type.
  [[nodiscard]] wide slots_of(std::uint32_t stage) const {
    const graph_stage& s = plan_.source.stages[stage];
    const planned_stage& planned = plan_.stages[stage];
    // Items that one call makes.
    wide slots = s.info.gives;
    // These stages hand an item on only when its tasks have ended. The items before that
    // hold credits of the inlets, so that the windows limit the calls.
    // These calls have items that are made and not handed on.
    if (s.info.face == face::late || s.on_failure != failure_policy::stop) {
      const wide taken = largest(
          plan_, planned.in, [&](const graph_edge& e) { return max_alive(plan_, e); });
      slots += taken / s.info.takes * s.info.gives;
    }
    return slots + largest(plan_, planned.out,
                           [&](const graph_edge& e) { return items_.along(e); });
  }

  /// Scratch must have a fixed size, because it is allocated before the run.
  result<void> size_scratch(std::uint32_t stage) {
    const stage_info& info = plan_.source.stages[stage].info;
    for (std::size_t i = 0; i < info.scratch.size(); ++i) {
      const port_type& type = plan_.stages[stage].scratch[i];
      const auto bytes = type.bytes();
      // A scratch without a size would have to be allocated in the middle of a run.
      if (!bytes) {
        return refused_stage(
            plan_.source, stage,
            fmt::format("a fixed type of the scratch \"{}\"", info.scratch[i].name),
            type.text());
      }
      total_ += aligned(*bytes) * plan_.stages[stage].slots;
    }
    return {};
  }

  /// Adds the bytes of each outlet that has memory of its own.
  result<void> size_ports(std::uint32_t stage) {
    const graph_stage& s = plan_.source.stages[stage];
    planned_stage& planned = plan_.stages[stage];
    for (std::uint32_t port = 0; port < s.info.ports.size(); ++port) {
      const port_info& info = s.info.ports[port];
      // An outlet that only forwards has no memory.
      const bool owns =
          !info.inlet && !info.dead_letter && (info.type.element || !hands_on(s));
      const wide bytes = owns ? outlet_bytes(stage, port) : 0;
      if (bytes > max_bytes) {
        return error(errc::out_of_range,
                     fmt::format("cannot size the memory of {}: expected at most 2^63-1 "
                                 "bytes, found {} items of the type {}",
                                 full_name(plan_.source, stage, port), planned.slots,
                                 planned.types[port].text()))
            .located(s.place);
      }
      planned.bytes.push_back(static_cast<std::int64_t>(bytes));
      total_ += bytes;
    }
    return {};
  }

  /// Of a varying size, the windows in bytes limit the memory.
  [[nodiscard]] wide outlet_bytes(std::uint32_t stage, std::uint32_t port) const {
    const planned_stage& planned = plan_.stages[stage];
    if (const auto item = planned.types[port].bytes()) {
      return aligned(*item) * planned.slots;
    }
    std::vector<std::uint32_t> edges;
    std::ranges::copy_if(planned.out, std::back_inserter(edges), [&](std::uint32_t e) {
      return plan_.source.edges[e].outlet == port;
    });
    // Outlets without edges drop their items, but still make them.
    wide windows = default_window_bytes;
    if (!edges.empty()) {
      // One item may be in the making while the windows are full.
      const wide being_made =
          largest(plan_, edges, [](const graph_edge& e) { return e.window_bytes; });
      windows = being_made + largest(plan_, edges, [&](const graph_edge& e) {
                  return bytes_.along(e);
                });
    }
    const auto item = largest_item(plan_, stage, port);
    return item ? std::min(windows, aligned(*item) * planned.slots) : windows;
  }

  plan& plan_;
  forwarded items_;
  forwarded bytes_;
  wide total_ = 0;
};

}  // namespace

/// Returns the items of an edge that can be alive: its window, or fewer if their bytes do
/// not fit. One item always fits.
std::int64_t max_alive(const plan& p, const graph_edge& edge) {
  const auto item = p.stages[edge.from].types[edge.outlet].bytes();
  if (!item || *item == 0) {
    return edge.window_items;
  }
  // At least one item fits, whatever the window in bytes says.
  const std::int64_t fit = std::max<std::int64_t>(1, edge.window_bytes / *item);
  return std::min<std::int64_t>(edge.window_items, fit);
}

result<void> size_memory(plan& p) {
  return memory_sizer(p).run();
}

}  // namespace weir::flow
