// SPDX-License-Identifier: Apache-2.0
/// @file
/// Builds graphs of made-up stages from short texts, for tests.
#pragma once

#include <sstream>
#include <string>
#include <string_view>

#include "weir/pipeline/graph.hpp"

namespace weir::test {

/// A graph under construction. References to stages and edges are valid until the next
/// one is added.
struct graph_builder {
  flow::graph g{.name = "tested", .stages = {}, .edges = {}};

  /// Adds a stage whose ports are written as `x:f32[n] z:any -> y:f32[n]`.
  flow::graph_stage& add(const std::string& name, flow::face face,
                         const std::string& ports) {
    flow::graph_stage& s = g.stages.emplace_back();
    s.name = name;
    s.info.name = "demo." + name;
    s.info.face = face;
    std::istringstream words(ports);
    bool inlet = true;
    for (std::string word; words >> word;) {
      if (word == "->") {
        inlet = false;
        continue;
      }
      const std::size_t colon = word.find(':');
      s.info.ports.push_back({word.substr(0, colon),
                              or_throw(flow::port_type::parse(word.substr(colon + 1))),
                              inlet});
    }
    return s;
  }
  flow::graph_stage& source(const std::string& name, const std::string& outlets) {
    return add(name, flow::face::source, "-> " + outlets);
  }
  flow::graph_stage& task(const std::string& name, const std::string& ports) {
    return add(name, flow::face::task, ports);
  }
  flow::graph_stage& sink(const std::string& name, const std::string& inlets) {
    return add(name, flow::face::sink, inlets);
  }

  /// Adds an edge from `stage.port` to `stage.port`.
  flow::graph_edge& link(std::string_view outlet, std::string_view inlet) {
    flow::graph_edge& e = g.edges.emplace_back();
    find(outlet, e.from, e.outlet);
    find(inlet, e.to, e.inlet);
    return e;
  }

  /// Returns the message of the check, or "accepted".
  [[nodiscard]] std::string refusal() const {
    const auto p = flow::check(g);
    return p ? "accepted" : p.error().message();
  }

 private:
  void find(std::string_view text, std::uint32_t& stage, std::uint32_t& port) const {
    const std::size_t dot = text.rfind('.');
    while (g.stages.at(stage).name != text.substr(0, dot)) {
      ++stage;
    }
    const int found = g.stages[stage].info.find_port(text.substr(dot + 1));
    WEIR_EXPECT(found >= 0);
    port = static_cast<std::uint32_t>(found);
  }
};

}  // namespace weir::test
