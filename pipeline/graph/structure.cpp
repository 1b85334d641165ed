// SPDX-License-Identifier: Apache-2.0
/// @file
/// The form of a graph: names, ports, edges, and the order of the stages.
///
/// The first steps of the check work on the graph alone: what each stage says about
/// itself, that names are unique, and that edges end at ports. The later ones fill in the
/// plan: the edges of each stage and an order in which every edge without a delay leads
/// forward.
#include "graph/structure.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <queue>

#include "graph/names.hpp"
#include "weir/base/text.hpp"

namespace weir::flow {
namespace {

/// Letters and digits of ASCII, because names do not depend on a locale.
bool is_alphanumeric(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Returns the mistake in a name, in words; empty if the name can be used.
/// @param punctuation  Characters that a name may have beside letters and digits.
/// Bytes are counted, because the limit is one of bytes.
std::string mistake_in(std::string_view name, std::string_view punctuation) {
  // An empty name has no character that could be shown.
  if (name.empty()) {
    return "no character";
  }
  if (name.size() > max_name_bytes) {
    return fmt::format("{} bytes", name.size());
  }
  for (const char c : name) {
    if (!is_alphanumeric(c) && punctuation.find(c) == std::string_view::npos) {
      return fmt::format("\"{}\"", c);
    }
  }
  return {};
}

// A name of a port has no dot, so that the last dot of "stage.port" is the separator.
result<void> check_port_names(const graph& g, std::uint32_t stage) {
  const std::vector<port_info>& ports = g.stages[stage].info.ports;
  // Port by port; the first mistake is reported.
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const std::string mistake = mistake_in(ports[i].name, "_-");
    if (!mistake.empty()) {
      return refused_stage(g, stage,
                           "names of ports with 1 to 64 letters, digits, \"_\" or \"-\"",
                           fmt::format("{} in \"{}\"", mistake, ports[i].name));
    }
    // `find_port` returns the first port of the name, so a second one is found here.
    if (g.stages[stage].info.find_port(ports[i].name) != static_cast<int>(i)) {
      return error(errc::invalid_argument,
                   fmt::format("cannot use the stage {} ({}): expected unique names of "
                               "ports, found two ports \"{}\"",
                               stage_name(g, stage), g.stages[stage].info.name,
                               ports[i].name))
          .located(g.stages[stage].place);
    }
  }
  return {};
}

/// Checks the number of ports against the face.
result<void> check_port_counts(const graph& g, std::uint32_t stage) {
  const stage_info& info = g.stages[stage].info;
  const std::size_t inlets = info.inlets();
  const std::size_t outlets = info.outlets();
  // All of these errors name the stage.
  const auto refused = [&](std::string_view expected, std::size_t count,
                           const char* noun) {
    return refused_stage(g, stage, expected, counted(count, noun));
  };
  // A source begins a pipeline; every other stage needs something to work on.
  if (info.face == face::source && inlets > 0) {
    return refused("a source without inlets", inlets, "inlet");
  }
  if (info.face == face::source && outlets == 0) {
    return refused("a source with an outlet", outlets, "outlet");
  }
  if (info.face != face::source && inlets == 0) {
    return refused("at least 1 inlet", inlets, "inlet");
  }
  // A sink ends a branch: nothing can come behind it.
  if (info.face == face::sink && outlets > 0) {
    return refused("a sink without outlets", outlets, "outlet");
  }
  // Without an outlet it would be a sink.
  if (info.face == face::blocking && outlets == 0) {
    return refused("a blocking stage with an outlet", outlets, "outlet");
  }
  // Ports of an item stand in arrays of fixed size during a run.
  if (inlets > max_ports) {
    return refused(fmt::format("at most {} inlets", max_ports), inlets, "inlet");
  }
  if (outlets > max_ports) {
    return refused(fmt::format("at most {} outlets", max_ports), outlets, "outlet");
  }
  return {};
}

/// Checks how many items a stage takes, gives and keeps back.
result<void> check_rates(const graph& g, std::uint32_t stage) {
  const stage_info& info = g.stages[stage].info;
  // The largest counts are those of windows, because an edge must be able to hold them.
  for (const auto& [verb, count] :
       {std::pair{"takes", info.takes}, {"gives", info.gives}}) {
    if (count < 1 || count > max_window_items) {
      return refused_stage(
          g, stage, fmt::format("a stage that {} 1 to {} items", verb, max_window_items),
          fmt::format("one that {} {}", verb, count));
    }
  }
  // A stage that keeps items back needs credits for them in the window in front of it.
  if (info.holds >= max_window_items) {
    return refused_stage(
        g, stage,
        fmt::format("a stage that keeps back fewer than {} items", max_window_items),
        fmt::format("one that keeps back {}", info.holds));
  }
  // The exchange of a blocking stage has one item to be filled for each item that it
  // takes.
  if (info.face == face::blocking && (info.own_numbering || info.forwards)) {
    return refused_stage(g, stage, "a blocking stage that fills 1 item for each item",
                         info.forwards ? "one that hands on the tensor of an inlet"
                                       : "one whose items have numbers of their own");
  }
  // Each step of a loop belongs to one item.
  if (info.face == face::looping && info.takes != 1) {
    return refused_stage(g, stage, "a step loop that takes 1 item",
                         fmt::format("one that takes {}", info.takes));
  }
  // Without numbers of its own, item n of an outlet belongs to item n of the inlets.
  const bool passes = info.inlets() > 0 && info.outlets() > 0;
  if (passes && !info.own_numbering && (info.takes != 1 || info.gives != 1)) {
    return refused_stage(
        g, stage, "a stage that gives 1 item for each item",
        fmt::format("one that takes {} and gives {}, and whose items have "
                    "no numbers of their own",
                    info.takes, info.gives));
  }
  return {};
}

// A failed task poisons the tensors that it would have written. The next item would read
// them if they were state. A task stage hands the item of a call on when its tasks have
// ended, and remembers one item.
result<void> check_failure_policy(const graph& g, std::uint32_t stage) {
  const graph_stage& s = g.stages[stage];
  if (s.on_failure == failure_policy::stop) {
    return {};
  }
  // What contradicts the policy, in words. A state is named, because the author may not
  // know that it counts.
  std::string found;
  if (!s.info.state.empty()) {
    found = fmt::format("the state \"{}\"", s.info.state.front().name);
  } else if (!s.info.stateless) {
    found = "one that is not declared stateless";
  }
  if (!found.empty()) {
    return refused_stage(g, stage,
                         "a stage without state, since failed items are skipped", found)
        .hint("let a failed item stop the run");
  }
  // The failed item leaves under its number, which such a stage does not keep.
  if (s.on_failure == failure_policy::dead_letter && s.info.own_numbering) {
    return refused_stage(g, stage,
                         "a stage whose items keep their numbers, since failed items "
                         "leave it under their numbers",
                         "one whose items have numbers of their own");
  }
  // A late stage and a stage with one item per call emit only after the tasks have ended,
  // so the item of a failed call was not handed on.
  const bool loops = s.info.face == face::looping && s.info.own_numbering;
  if (s.info.face == face::late || (s.info.gives == 1 && !loops)) {
    return {};
  }
  return refused_stage(g, stage,
                       "a stage that makes at most 1 item of a call, since failed items "
                       "are skipped",
                       fmt::format("one that makes up to {}", s.info.gives))
      .hint("let a failed item stop the run");
}

/// Checks the host of a stage: the one that was asked for, or what its face needs.
result<void> check_host(const graph& g, std::uint32_t stage) {
  const graph_stage& s = g.stages[stage];
  const host_kind host = host_of(s);
  // Stages that may wait for something outside.
  const bool outside = s.info.face == face::source || s.info.face == face::sink ||
                       s.info.face == face::blocking;
  // A stage that waits would keep the engine's thread from all other stages.
  if (host == host_kind::engine && outside) {
    return refused_stage(g, stage, "the host \"own\" or \"process\", because it waits",
                         "the host \"engine\"");
  }
  // Only a process can run another program, such as the interpreter of Python.
  if (host != host_kind::process && !s.origin.home.command.empty()) {
    return refused_stage(g, stage,
                         fmt::format("the host \"process\", because it comes from \"{}\"",
                                     s.origin.home.file),
                         fmt::format("the host \"{}\"", name_of(host)));
  }
  // Objects of this program cannot be moved to another process.
  if (host == host_kind::process && s.origin.use.empty()) {
    return refused_stage(g, stage, "a stage that its child process can make by its name",
                         "one of a class of this program")
        .hint("add the class to a plug-in, and the stage by its name");
  }
  return {};
}

/// Checks everything that a stage says about itself.
result<void> check_stage(const graph& g, std::uint32_t stage) {
  const graph_stage& s = g.stages[stage];
  // Names of stages may have dots, as parts of other names.
  const std::string mistake = mistake_in(s.name, "_-.");
  if (!mistake.empty()) {
    return refused_stage(
        g, stage, "a name of 1 to 64 letters, digits, \"_\", \"-\" or \".\"", mistake);
  }
  // In the order from the form to the behaviour.
  WEIR_CHECK(check_port_names(g, stage));
  WEIR_CHECK(check_port_counts(g, stage));
  WEIR_CHECK(check_rates(g, stage));
  WEIR_CHECK(check_host(g, stage));
  return check_failure_policy(g, stage);
}

/// Names of stages are compared in the order of the graph; the later one is reported.
result<void> check_unique_names(const graph& g) {
  std::map<std::string_view, std::uint32_t> seen;
  for (std::uint32_t i = 0; i < g.stages.size(); ++i) {
    // The map keeps the first stage of each name.
    const auto [first, is_new] = seen.try_emplace(g.stages[i].name, i);
    if (is_new) {
      continue;
    }
    // Both places are part of the error.
    error refused(errc::invalid_argument,
                  fmt::format("cannot add the stage {}: expected a unique name, found a "
                              "stage with this name",
                              stage_name(g, i)));
    const std::string& place = g.stages[first->second].place;
    return std::move(refused)
        .hint(place.empty() ? "" : fmt::format("it is defined at {}", place))
        .located(g.stages[i].place);
  }
  return {};
}

/// Checks one end of an edge: stage, port and direction. @param inlet  The end, and not
/// the begin.
result<void> check_end(const graph& g, std::size_t edge, bool inlet) {
  const graph_edge& e = g.edges[edge];
  // The end decides which of the numbers is looked at.
  const std::uint32_t stage = inlet ? e.to : e.from;
  const std::uint32_t port = inlet ? e.inlet : e.outlet;
  // Graphs may be made by programs, so even the numbers of stages and ports are checked.
  if (stage >= g.stages.size()) {
    return error(errc::invalid_argument,
                 fmt::format(
                     "cannot use edge {}: expected a stage below {}, found stage {}",
                     edge, g.stages.size(), stage))
        .located(e.place);
  }
  const std::vector<port_info>& ports = g.stages[stage].info.ports;
  if (port >= ports.size()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot use edge {}: expected a port of {} below {}, found "
                             "port {}",
                             edge, stage_name(g, stage), ports.size(), port))
        .located(e.place);
  }
  // The direction of the port decides which end of an edge it can be.
  if (ports[port].inlet != inlet) {
    return error(errc::invalid_argument,
                 fmt::format("cannot {} an edge at {}: expected an {}, found an {}",
                             inlet ? "end" : "begin", full_name(g, stage, port),
                             inlet ? "inlet" : "outlet", inlet ? "outlet" : "inlet"))
        .located(e.place);
  }
  return {};
}

/// Checks both ends and the numbers of an edge.
result<void> check_edge(const graph& g, std::size_t edge) {
  WEIR_CHECK(check_end(g, edge, false));
  WEIR_CHECK(check_end(g, edge, true));
  const graph_edge& e = g.edges[edge];
  // Windows are enlarged later, but never beyond the largest one.
  if (e.window_items < 1 || e.window_items > max_window_items) {
    return refused_edge(g, e, fmt::format("a window of 1 to {} items", max_window_items),
                        std::to_string(e.window_items));
  }
  // A window of fewer bytes than an item is enlarged later.
  if (e.window_bytes < 1) {
    return refused_edge(g, e, "a window of at least 1 byte",
                        std::to_string(e.window_bytes));
  }
  // A delay needs as many items in the window.
  if (e.delay >= max_window_items) {
    return refused_edge(g, e, fmt::format("a delay below {} items", max_window_items),
                        std::to_string(e.delay));
  }
  return {};
}

/// Finds the edge of each inlet; there must be exactly one.
result<void> connect_inlets(plan& p) {
  const graph& g = p.source;
  // Key: stage and port. Value: the edge that ends there.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> edge_of;
  for (std::uint32_t i = 0; i < g.edges.size(); ++i) {
    // The first edge of an inlet is kept.
    const graph_edge& e = g.edges[i];
    const auto [first, is_new] = edge_of.try_emplace({e.to, e.inlet}, i);
    if (!is_new) {
      return error(
                 errc::invalid_argument,
                 fmt::format("cannot connect {} to {}: expected one edge, found another "
                             "from {}",
                             outlet_name(g, e), inlet_name(g, e),
                             outlet_name(g, g.edges[first->second])))
          .hint("join the items with a stage")
          .located(place_of(g, e));
    }
  }
  // Edges of a stage are in the order of its inlets.
  for (std::uint32_t s = 0; s < g.stages.size(); ++s) {
    for (std::uint32_t port = 0; port < g.stages[s].info.ports.size(); ++port) {
      if (!g.stages[s].info.ports[port].inlet) {
        continue;
      }
      // Every inlet is named, also those of stages that no edge reaches.
      const auto found = edge_of.find({s, port});
      if (found == edge_of.end()) {
        return error(
                   errc::invalid_argument,
                   fmt::format("cannot leave the inlet {} open: expected one edge, found "
                               "none",
                               full_name(g, s, port)))
            .located(g.stages[s].place);
      }
      p.stages[s].in.push_back(found->second);
    }
  }
  return {};
}

/// Collects the edges of each stage by outlet. An outlet without edges is a note and no
/// mistake.
void connect_outlets(plan& p) {
  // An outlet may have any number of edges.
  const graph& g = p.source;
  for (std::uint32_t i = 0; i < g.edges.size(); ++i) {
    p.stages[g.edges[i].from].out.push_back(i);
  }
  for (std::uint32_t s = 0; s < g.stages.size(); ++s) {
    std::vector<std::uint32_t>& out = p.stages[s].out;
    // A stable order: edges of one outlet stay in the order in which they were added.
    std::ranges::stable_sort(out, {}, [&](std::uint32_t e) { return g.edges[e].outlet; });
    // Each outlet without an edge gives a note.
    for (std::uint32_t port = 0; port < g.stages[s].info.ports.size(); ++port) {
      const auto leaves = [&](std::uint32_t e) { return g.edges[e].outlet == port; };
      if (!g.stages[s].info.ports[port].inlet && std::ranges::none_of(out, leaves)) {
        p.notes.push_back(fmt::format("outlet {} has no edge: its items are dropped",
                                      full_name(g, s, port)));
      }
    }
  }
}

/// A stage whose failed items leave it needs a place where they go.
result<void> check_dead_letters(const plan& p) {
  const graph& g = p.source;
  for (std::uint32_t s = 0; s < g.stages.size(); ++s) {
    const std::vector<port_info>& ports = g.stages[s].info.ports;
    // True for an edge that begins at an outlet for failed items.
    const auto leads = [&](std::uint32_t e) {
      return ports[g.edges[e].outlet].dead_letter;
    };
    if (g.stages[s].on_failure == failure_policy::dead_letter &&
        std::ranges::none_of(p.stages[s].out, leads)) {
      return refused_stage(g, s,
                           fmt::format("an edge from the outlet \"{}\" to a sink, since "
                                       "failed items leave the stage there",
                                       ports.back().name),
                           "none");
    }
  }
  return {};
}

// The end of the stream and barriers reach a stage over edges without a delay.
result<void> check_undelayed_inlets(const plan& p) {
  const graph& g = p.source;
  for (std::uint32_t s = 0; s < g.stages.size(); ++s) {
    // Every stage but a source has inlets; a stage whose inlets are all fed back would
    // never see the end.
    const std::vector<std::uint32_t>& in = p.stages[s].in;
    const auto is_delayed = [&](std::uint32_t e) { return g.edges[e].delay > 0; };
    if (!in.empty() && std::ranges::all_of(in, is_delayed)) {
      return refused_stage(
          g, s, "an inlet whose edge has no delay",
          fmt::format("a delay of {} at {}", counted(g.edges[in.front()].delay, "item"),
                      inlet_name(g, g.edges[in.front()])));
    }
  }
  return {};
}

/// Returns the error for a graph in which some stages have never become ready.
/// @param waits  For each stage the number of edges without a delay whose first end has
/// not been ordered.
error cycle_error(const plan& p, const std::vector<std::size_t>& waits) {
  const graph& g = p.source;
  // Each stage that waits has a predecessor that waits, so walking back finds a cycle.
  // The first edge in front of a stage whose maker waits as well.
  const auto predecessor = [&](std::uint32_t s) {
    // Such a stage exists, because the stage itself waits.
    const auto waiting = [&](std::uint32_t e) {
      return g.edges[e].delay == 0 && waits[g.edges[e].from] > 0;
    };
    return g.edges[*std::ranges::find_if(p.stages[s].in, waiting)].from;
  };
  // Begins at any stage that was never ready.
  std::vector<std::uint32_t> walk;
  auto s = static_cast<std::uint32_t>(
      std::ranges::find_if(waits, [](std::size_t n) { return n > 0; }) - waits.begin());
  auto again = walk.end();
  // The walk ends, because it repeats a stage after as many steps as there are stages.
  while (again == walk.end()) {
    walk.push_back(s);
    s = predecessor(s);
    again = std::ranges::find(walk, s);
  }
  // The part of the walk behind the repeated stage is the cycle, backwards.
  // Begins at the stage that was met again.
  std::vector<std::uint32_t> ring(again, walk.end());
  std::ranges::reverse(ring);
  rotate_to_first(ring);
  return error(errc::invalid_argument,
               fmt::format("cycle without a delay: {}", ring_name(g, ring)))
      .hint("give an edge of the cycle a delay of 1 item or more")
      .located(g.stages[ring.front()].place);
}

}  // namespace

/// Checks stages and edges one by one. @pre Nothing is known about the graph.
result<void> check_form(const graph& g) {
  // Stages first, because edges refer to them.
  for (std::uint32_t i = 0; i < g.stages.size(); ++i) {
    WEIR_CHECK(check_stage(g, i));
  }
  WEIR_CHECK(check_unique_names(g));
  // A pipeline without a source would have nothing to do.
  const auto is_source = [](const graph_stage& s) { return s.info.face == face::source; };
  if (std::ranges::none_of(g.stages, is_source)) {
    return error(
               errc::invalid_argument,
               fmt::format("cannot use the pipeline \"{}\": expected at least one source "
                           "among its {}, found none",
                           g.name, counted(g.stages.size(), "stage")))
        .hint("begin with a stage that makes items")
        .located(g.stages.empty() ? std::string() : g.stages.front().place);
  }
  for (std::size_t i = 0; i < g.edges.size(); ++i) {
    WEIR_CHECK(check_edge(g, i));
  }
  return {};
}

/// Fills in the edges of each stage. @pre `check_form` has succeeded.
// Needs the numbers of stages and ports to be right.
result<void> connect_stages(plan& p) {
  WEIR_CHECK(connect_inlets(p));
  connect_outlets(p);
  WEIR_CHECK(check_dead_letters(p));
  return check_undelayed_inlets(p);
}

/// Orders the stages (Kahn's algorithm). Of several that are ready, the one with the
/// smallest number comes first, so the order is the same every time.
result<void> order_stages(plan& p) {
  const graph& g = p.source;
  // Number of edges without a delay in front of each stage.
  std::vector<std::size_t> waits(g.stages.size(), 0);
  for (const graph_edge& e : g.edges) {
    waits[e.to] += e.delay == 0 ? 1 : 0;
  }
  // The smallest number is on top.
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::uint32_t s = 0; s < waits.size(); ++s) {
    if (waits[s] == 0) {
      ready.push(s);
    }
  }
  // A stage is ready when all stages in front of it are ordered.
  while (!ready.empty()) {
    const std::uint32_t s = ready.top();
    ready.pop();
    // The order is used by every turn.
    p.order.push_back(s);
    for (const std::uint32_t e : p.stages[s].out) {
      const std::uint32_t next = g.edges[e].to;
      if (g.edges[e].delay == 0 && --waits[next] == 0) {
        ready.push(next);
      }
    }
  }
  // Stages that are left over wait for each other.
  return p.order.size() == g.stages.size() ? result<void>() : cycle_error(p, waits);
}

}  // namespace weir::flow
