// SPDX-License-Identifier: Apache-2.0
/// @file
/// Building graphs from the calls of a program.
///
/// Mistakes of a program are collected and not reported at once: the first one is
/// returned by `check`, so that a pipeline can be written without a test behind each
/// call.
#include "weir/pipeline.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace weir {

/// Names a port of the node.
node node::operator[](std::string_view port) const {
  return {*owner_, stage_, std::string(port)};
}

/// Sets the window of edges that end at the node; applied in `apply_windows`.
node& node::window(std::uint32_t items, std::int64_t bytes) {
  // The edges may not exist yet.
  owner_->windows_.push_back({stage_, port_, items, bytes});
  return *this;
}

/// The ports for failed items are added to the description at once, so that they can be
/// connected.
node& node::failing(flow::failure_policy policy, std::uint64_t max_failures) {
  flow::graph_stage& stage = owner_->graph_.stages[stage_];
  stage.on_failure = policy;
  stage.max_failures = max_failures;
  if (policy == flow::failure_policy::dead_letter) {
    flow::add_dead_letters(stage.info);
  }
  return *this;
}

node& node::host(flow::host_kind kind) {
  owner_->graph_.stages[stage_].host = kind;
  return *this;
}

node& node::defined_at(std::string place) {
  owner_->graph_.stages[stage_].place = std::move(place);
  return *this;
}

/// Connects two nodes and returns the second one, so that calls can be chained.
node operator>>(node from, node to) {
  // A mistake is kept for `check`.
  from.owner_->connect(from.stage_, from.port_, to.stage_, to.port_);
  return to;
}

/// A loop without a delay would wait for itself.
void node::feed_back(node to, std::uint32_t delay) const {
  if (delay == 0) {
    owner_->mistake(error(errc::invalid_argument,
                          "cannot add a feedback edge: expected a delay of at least 1, "
                          "found 0"));
    return;
  }
  owner_->connect(stage_, port_, to.stage_, to.port_, delay);
}

// The graph and the objects grow together, with equal numbers.
pipeline::pipeline(std::string name) {
  graph_.name = std::move(name);
}
pipeline::~pipeline() = default;

/// Keeps the first mistake; later ones often follow from it.
void pipeline::mistake(error e) {
  if (!mistake_) {
    mistake_ = std::move(e);
  }
}

/// Adds a stage of the catalog.
node pipeline::add(std::string name, std::string_view stage,
                   const given_settings& settings) {
  return add_maker(std::move(name), [use = std::string(stage), settings] {
    return flow::stages().make(use, settings);
  });
}

/// Adds a stage that `make` makes, now and again after a restart.
node pipeline::add_maker(std::string name,
                         std::function<result<flow::described_stage>()> make) {
  // The first object; the function is kept for a restart.
  auto made = make();
  return add_made(std::move(name), std::move(made), std::move(make));
}

/// Adds a made stage. A stage that could not be made stays as an empty entry, so that the
/// numbers of later stages are right.
node pipeline::add_made(std::string name, result<flow::described_stage> stage,
                        std::function<result<flow::described_stage>()> make) {
  flow::graph_stage added;
  added.name = std::move(name);
  if (stage) {
    added.info = std::move(stage->info);
    added.origin = std::move(stage->origin);
    objects_.push_back(std::move(stage->object));
  } else {
    // The code tells whether the name, the settings or the stage were wrong.
    const errc code = stage.error().code();
    mistake(error(code, fmt::format("cannot add the stage \"{}\"", added.name))
                .because(std::move(stage.error())));
    objects_.push_back(nullptr);
  }
  graph_.stages.push_back(std::move(added));
  makers_.push_back(std::move(make));
  return {*this, static_cast<std::uint32_t>(graph_.stages.size() - 1)};
}

/// Without a name the stage must have exactly one port in that direction, apart from
/// outlets for failed items.
/// Returns nothing after a mistake.
std::optional<std::uint32_t> pipeline::port_of(std::uint32_t stage, std::string_view port,
                                               bool inlet) {
  const flow::graph_stage& s = graph_.stages[stage];
  std::optional<std::uint32_t> found;
  // Names are collected for the message.
  std::string names;
  std::uint32_t matches = 0;
  for (std::uint32_t i = 0; i < s.info.ports.size(); ++i) {
    const flow::port_info& p = s.info.ports[i];
    // Ports of the other direction may have the same name.
    if (p.inlet != inlet) {
      continue;
    }
    names += (names.empty() ? "" : ", ") + p.name;
    if (port.empty() ? !p.dead_letter : p.name == port) {
      found = i;
      ++matches;
    }
  }
  // Several ports without a name are a mistake as well.
  if (matches == 1) {
    return found;
  }
  if (objects_[stage]) {  // otherwise the stage itself is the mistake
    mistake(error(errc::unknown_key,
                  fmt::format("cannot connect the {} \"{}.{}\": expected one of {}, "
                              "found {}",
                              inlet ? "inlet" : "outlet", s.name, port,
                              names.empty() ? std::string("none") : names,
                              port.empty() ? "no name" : "another name")));
  }
  return std::nullopt;
}

/// Adds an edge, unless one of its ends is a mistake.
void pipeline::connect(std::uint32_t from, std::string_view outlet, std::uint32_t to,
                       std::string_view inlet, std::uint32_t delay, std::string place) {
  const auto begin = port_of(from, outlet, false);
  const auto end = port_of(to, inlet, true);
  if (begin && end) {
    flow::graph_edge e;
    e.from = from;
    e.outlet = *begin;
    e.to = to;
    e.inlet = *end;
    e.delay = delay;
    e.place = std::move(place);
    graph_.edges.push_back(std::move(e));
  }
}

/// Sets the windows of all edges. This comes last, because a window may be set before its
/// edge exists.
void pipeline::apply_windows(flow::graph& g) const {
  for (const window_setting& w : windows_) {
    for (flow::graph_edge& e : g.edges) {
      // A window for a stage holds for all of its inlets, one for a port for that port
      // alone.
      const std::string& inlet = g.stages[e.to].info.ports[e.inlet].name;
      if (e.to == w.stage && (w.port.empty() || w.port == inlet)) {
        e.window_items = w.items;
        e.window_bytes = w.bytes;
      }
    }
  }
}

/// Checks a copy of the graph, so a program can go on building and check again.
result<flow::plan> pipeline::check() const {
  if (mistake_) {
    return *mistake_;
  }
  // The copy can be changed by the check.
  flow::graph g = graph_;
  apply_windows(g);
  return flow::check(std::move(g));
}

/// Gives the objects away; they have state and serve one run.
result<std::vector<std::unique_ptr<flow::stage_object>>> pipeline::take_stages() {
  if (mistake_) {
    return *mistake_;
  }
  // Their state is that of a run that has begun.
  if (taken_) {
    return error(errc::invalid_argument,
                 fmt::format("cannot run the pipeline \"{}\" again: expected stages that "
                             "have not run, found used ones",
                             graph_.name))
        .hint("build the pipeline again for each run");
  }
  taken_ = true;
  return std::move(objects_);
}

/// Makes all stages anew. A stage that the program has made itself cannot be repeated.
result<std::vector<std::unique_ptr<flow::stage_object>>> pipeline::remake_stages() const {
  // Stages are made in the order in which they were added.
  std::vector<std::unique_ptr<flow::stage_object>> all;
  for (std::size_t i = 0; i < makers_.size(); ++i) {
    if (!makers_[i]) {
      return error(errc::unsupported,
                   fmt::format("cannot make the stage \"{}\" again: expected a stage of "
                               "a class or of a catalog, found one that the program has "
                               "made itself",
                               graph_.stages[i].name))
          .hint("add it with `add`, or with `add_maker` and a function that makes it");
    }
    // A maker may fail now although it did not before.
    WEIR_TRY(flow::described_stage made, makers_[i]());
    all.push_back(std::move(made.object));
  }
  return all;
}

}  // namespace weir
