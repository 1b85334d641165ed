// SPDX-License-Identifier: Apache-2.0
/// @file
/// Numberings of items: which items of a pipeline count together.
///
/// Items that meet at a stage must belong to one numbering, because they are joined by
/// number. All sources share numbering 0; a stage whose items have numbers of their own
/// opens a new one. Every other stage has the numbering of its inlets.
#include "graph/numbering.hpp"

#include <fmt/core.h>

#include "graph/names.hpp"

namespace weir::flow {
namespace {

/// Returns a numbering in words, by the stage that has opened it.
/// @param openers  For each numbering but 0 the stage that has opened it, from index 1.
std::string text_of(const graph& g, const std::vector<std::uint32_t>& openers,
                    std::uint32_t numbering) {
  return numbering == 0 ? "the sources" : stage_name(g, openers[numbering]);
}

/// Checks that all inlets of a stage have one numbering.
result<void> check_inlets(const plan& p, const std::vector<std::uint32_t>& openers,
                          std::uint32_t stage) {
  const graph& g = p.source;
  const std::vector<std::uint32_t>& in = p.stages[stage].in;
  // All inlets are compared with the first one.
  for (const std::uint32_t edge : in) {
    const graph_edge& first = g.edges[in.front()];
    const graph_edge& other = g.edges[edge];
    const std::uint32_t expected = p.stages[first.from].numbering;
    const std::uint32_t found = p.stages[other.from].numbering;
    if (found != expected) {
      return error(errc::invalid_argument,
                   fmt::format("cannot join {} and {}: expected items of one numbering, "
                               "found the numbers of {} and of {}",
                               inlet_name(g, first), inlet_name(g, other),
                               text_of(g, openers, expected), text_of(g, openers, found)))
          .hint("join the items before they get numbers of their own")
          .located(place_of(g, other));
    }
  }
  return {};
}

}  // namespace

/// Sets the numbering of every stage, and then compares those that meet.
result<void> number_items(plan& p) {
  const graph& g = p.source;
  std::vector<std::uint32_t> openers{0};  // numbering 0 has no entry of use
  // Stages that open a numbering get theirs first.
  for (std::uint32_t s = 0; s < g.stages.size(); ++s) {
    const stage_info& info = g.stages[s].info;
    if (info.own_numbering && info.face != face::source && info.outlets() > 0) {
      p.stages[s].numbering = static_cast<std::uint32_t>(openers.size());
      openers.push_back(s);
    }
  }
  // In the order of the pipeline, the stages in front are known.
  for (const std::uint32_t s : p.order) {
    if (p.stages[s].numbering != 0) {
      continue;
    }
    // Numberings of stages behind an edge with a delay are not known yet.
    // Every inlet without a delay has the same numbering, or `check_inlets` finds it.
    for (const std::uint32_t edge : p.stages[s].in) {
      if (g.edges[edge].delay == 0) {
        p.stages[s].numbering = p.stages[g.edges[edge].from].numbering;
      }
    }
  }
  for (const std::uint32_t s : p.order) {
    WEIR_CHECK(check_inlets(p, openers, s));
  }
  return {};
}

}  // namespace weir::flow
