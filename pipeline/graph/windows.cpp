// SPDX-License-Identifier: Apache-2.0
/// @file
/// Windows that are large enough for the stages at their ends.
///
/// Section 1: time. A stage v that holds h(v) items makes its item n when it has taken
/// item n + h(v). Over an edge from u to v with delay d, item n of the inlet is item n -
/// d of u. Let v take item n at the time n + c(v), and let o(v) = c(v) + h(v) be the lag
/// of its items, but 0 for a source. Then c(v) is the largest o(u) - d over the inlets of
/// v. The stages of a loop wait for themselves exactly if the sum of h(u) - d along the
/// loop is 0 or more. A stage joins items of one numbering, which one stage or the
/// sources have opened, so that the lags at its inlets have one origin.
///
/// Section 2: credits. Before u gives g items from number n on, the consumer must have
/// released item n + g - 1 - w + d, where w is the window. A consumer that takes k items
/// at a time and holds h(v) releases item i when it takes item i + k - 1 + h(v) at the
/// latest. The run cannot stall if the release is due earlier than the items are given:
///
///     w >= d + g + (k - 1) + h(v) + (c(v) - o(u))
///
/// Events of equal time are ordered along the edges. The lags are therefore computed in
/// units of 1 / (stages + 1), and each edge adds one unit.
#include "graph/windows.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "graph/names.hpp"
#include "graph/structure.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/text.hpp"

namespace weir::flow {
namespace {

/// Lags of the items of a pipeline; see section 1.
/// Lags are kept in parts of `unit_`, so that every edge can add one part without
/// reaching the next whole item.
class lag_table {
 public:
  explicit lag_table(const plan& p)
      : plan_(p),
        unit_(static_cast<std::int64_t>(p.stages.size()) + 1),
        taken_(p.stages.size(), 0),
        cause_(p.stages.size(), 0) {}

  /// Computes all lags.
  // Works like the search for longest paths by Bellman and Ford: a lag only grows, and
  // each round looks at all edges.
  result<void> compute() {
    // Sources have no inlets and no cause.
    for (const std::uint32_t s : plan_.order) {
      cause_[s] = plan_.stages[s].in.empty() ? 0 : plan_.stages[s].in.front();
    }
    // The longest path has fewer edges than the graph has stages, so that a lag which
    // still grows after as many rounds belongs to a loop that adds to it.
    for (std::size_t round = 0; round <= plan_.stages.size(); ++round) {
      std::uint32_t grown = 0;
      // Nothing has grown in this round: the lags are final.
      if (!relax(grown)) {
        return {};
      }
      if (round == plan_.stages.size()) {
        return loop_error(grown);
      }
    }
    return {};
  }

  /// Returns the lag at which a stage takes items.
  [[nodiscard]] std::int64_t taken(std::uint32_t stage) const {
    return taken_[stage] / unit_;
  }
  /// Returns the lag of the items that a stage makes.
  [[nodiscard]] std::int64_t made(std::uint32_t stage) const {
    return fine_made(stage) / unit_;
  }

 private:
  /// The lag of made items in parts of `unit_`; see o(v) in section 1.
  [[nodiscard]] std::int64_t fine_made(std::uint32_t stage) const {
    const graph_stage& s = plan_.source.stages[stage];
    return s.info.face == face::source ? 0 : taken_[stage] + unit_ * s.info.holds;
  }

  /// Looks at all edges once. Returns whether a lag has grown; `grown` is the last stage.
  bool relax(std::uint32_t& grown) {
    bool changed = false;
    for (const std::uint32_t s : plan_.order) {
      for (const std::uint32_t e : plan_.stages[s].in) {
        // Lag at the inlet: that of the maker, less the delay, and one part for the edge.
        const graph_edge& edge = plan_.source.edges[e];
        const std::int64_t lag = fine_made(edge.from) - unit_ * edge.delay + 1;
        if (lag > taken_[s]) {
          taken_[s] = lag;
          cause_[s] = e;
          grown = s;
          changed = true;
        }
      }
    }
    return changed;
  }

  /// Error of a loop that waits for itself. `stage` lies behind the loop, or in it.
  [[nodiscard]] error loop_error(std::uint32_t stage) const {
    const graph& g = plan_.source;
    // Following the causes from a stage that grows leads into the loop after as many
    // steps as there are stages.
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
      stage = g.edges[cause_[stage]].from;  // ends inside the loop
    }
    std::vector<std::uint32_t> ring;
    std::uint64_t holds = 0;
    std::uint64_t delay = 0;
    std::string place;
    // Walks around the loop against the direction of the edges.
    for (std::uint32_t s = stage; ring.empty() || s != stage;) {
      const graph_edge& edge = g.edges[cause_[s]];
      ring.push_back(s);
      holds += g.stages[s].info.holds;
      delay += edge.delay;
      // The place of an edge with a delay is where the user can change it.
      place = edge.delay > 0 ? place_of(g, edge) : place;
      s = edge.from;
    }
    std::ranges::reverse(ring);
    rotate_to_first(ring);
    return error(errc::invalid_argument,
                 fmt::format("loop {} waits for itself: expected stages that keep back "
                             "fewer items than its delay of {}, found {} kept back",
                             ring_name(g, ring), delay, counted(holds, "item")))
        .hint(fmt::format("give the loop a delay of {} or more",
                          counted(holds + 1, "item")))
        .located(place);
  }

  const plan& plan_;
  std::int64_t unit_;
  std::vector<std::int64_t> taken_;   ///< c of each stage in parts of `unit_`
  std::vector<std::uint32_t> cause_;  ///< edge that sets the lag of each stage
};

/// The size that an edge needs, and the reasons for what exceeds one item.
struct window_need {
  std::int64_t items = 1;
  std::string reasons;

  void add(std::int64_t more, const std::string& reason) {
    if (more > 0) {
      items += more;
      reasons += (reasons.empty() ? "" : " and ") + reason;
    }
  }
};

/// Returns the inlet of a stage whose items have the largest lag.
const graph_edge& latest_inlet(const plan& p, const lag_table& lags,
                               std::uint32_t stage) {
  const auto lag = [&](std::uint32_t e) {
    const graph_edge& edge = p.source.edges[e];
    return lags.made(edge.from) - std::int64_t{edge.delay};
  };
  return p.source.edges[*std::ranges::max_element(p.stages[stage].in, {}, lag)];
}

/// Returns the window that an edge needs by section 2: one item, and each term of the sum
/// with its reason.
window_need need_of(const plan& p, const lag_table& lags, const graph_edge& edge) {
  const graph& g = p.source;
  const stage_info& giver = g.stages[edge.from].info;
  const stage_info& taker = g.stages[edge.to].info;
  const auto items = [](std::int64_t count) {
    return counted(static_cast<std::uint64_t>(count), "item");
  };
  window_need need;
  // The terms d and g - 1 come first; the item itself is counted already.
  need.add(edge.delay, fmt::format("it has a delay of {}", items(edge.delay)));
  need.add(
      std::int64_t{giver.gives} - 1,
      fmt::format("{} gives {} at a time", stage_name(g, edge.from), items(giver.gives)));
  // The term k - 1 is for a consumer that takes several items at a time.
  need.add(
      std::int64_t{taker.takes} - 1,
      fmt::format("{} takes {} at a time", stage_name(g, edge.to), items(taker.takes)));
  // The term h(v) is for items that the consumer keeps back.
  need.add(taker.holds,
           fmt::format("{} keeps back {}", stage_name(g, edge.to), items(taker.holds)));
  // The lag between both ends is the last term.
  const std::int64_t behind = lags.taken(edge.to) - lags.made(edge.from);
  need.add(behind,
           fmt::format("the items of {} come {} later",
                       inlet_name(g, latest_inlet(p, lags, edge.to)), items(behind)));
  return need;
}

/// Sets a larger window and notes the reason. A window that is large enough stays.
result<void> enlarge_items(plan& p, graph_edge& edge, const window_need& need) {
  if (need.items <= std::int64_t{edge.window_items}) {
    return {};
  }
  // A window cannot be larger than the largest one.
  if (need.items > std::int64_t{max_window_items}) {
    return refused_edge(
        p.source, edge,
        fmt::format("a window of at most {} items to suffice", max_window_items),
        fmt::format("that it needs {}, because {}", need.items, need.reasons));
  }
  // The user is told, because memory grows with the window.
  p.notes.push_back(fmt::format(
      "{}: window of {} enlarged to {}, because {}", edge_name(p.source, edge),
      counted(edge.window_items, "item"), need.items, need.reasons));
  edge.window_items = static_cast<std::uint32_t>(need.items);
  return {};
}

// A single item may exceed the bytes of its window alone. Several that are needed at the
// same time may not.
// Items of varying size have no size that could be compared.
result<void> enlarge_bytes(plan& p, graph_edge& edge, const window_need& need) {
  // One item alone is always allowed.
  const auto item = p.stages[edge.from].types[edge.outlet].bytes();
  if (need.items == 1 || !item) {
    return {};
  }
  std::int64_t bytes = 0;
  if (!checked_mul(*item, need.items, bytes)) {
    return error(errc::out_of_range,
                 fmt::format("cannot size the window of the {}: expected fewer than 2^63 "
                             "bytes, found {} items of {} bytes",
                             edge_name(p.source, edge), need.items, *item))
        .located(place_of(p.source, edge));
  }
  if (bytes > edge.window_bytes) {
    p.notes.push_back(fmt::format(
        "{}: window of {} bytes enlarged to {}, because {} of {} bytes must fit",
        edge_name(p.source, edge), edge.window_bytes, bytes,
        counted(static_cast<std::uint64_t>(need.items), "item"), *item));
    edge.window_bytes = bytes;
  }
  return {};
}

// The first items of an edge with a delay are zeros, whose size must be known.
result<void> check_initial_items(const plan& p, const graph_edge& edge) {
  const graph_stage& head = p.source.stages[edge.to];
  const port_type& type = p.stages[edge.to].types[edge.inlet];
  // A stage that accepts gaps gets gaps instead of zeros.
  if (edge.delay == 0 || type.bytes() || head.info.gaps == gap_policy::pass) {
    return {};
  }
  return refused_edge(p.source, edge,
                      fmt::format("a fixed type for its first {}, which are zeros",
                                  counted(edge.delay, "item")),
                      type.text())
      .hint(fmt::format("fix the extents, or let {} accept gaps (gap policy \"pass\")",
                        stage_name(p.source, edge.to)));
}

}  // namespace

/// The windows of edges are changed in the plan; lags do not depend on them.
result<void> size_windows(plan& p) {
  lag_table lags(p);
  WEIR_CHECK(lags.compute());
  for (graph_edge& edge : p.source.edges) {
    WEIR_CHECK(check_initial_items(p, edge));
    const window_need need = need_of(p, lags, edge);
    WEIR_CHECK(enlarge_items(p, edge, need));
    WEIR_CHECK(enlarge_bytes(p, edge, need));
  }
  return {};
}

}  // namespace weir::flow
