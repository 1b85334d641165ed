// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random graphs that the check accepts, unless a loop waits for itself.
#include "random_graph.hpp"

#include <random>

namespace weir::test {
namespace {

using flow::face;

class generator {
 public:
  explicit generator(std::uint64_t seed) : random_(seed) {}

  graph_builder make() {
    for (std::uint64_t n = 1 + below(2); n > 0; --n) {
      b_.source(next_name("read"), "y:f32[2]").info.gives = one_to(3);
      numberings_.push_back(0);
    }
    for (std::uint64_t n = 1 + below(9); n > 0; --n) {
      add_stage();
    }
    for (std::uint64_t n = 1 + below(3); n > 0; --n) {
      flow::graph_stage& sink = b_.sink(next_name("write"), inlets());
      sink.info.takes = one_to(3);
      numberings_.push_back(connect());
    }
    for (std::uint64_t n = below(4); n > 0; --n) {
      add_delayed_edge();
    }
    for (flow::graph_edge& e : b_.g.edges) {
      e.window_items = one_to(4);
    }
    return std::move(b_);
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  std::uint32_t one_to(std::uint32_t high) {
    return static_cast<std::uint32_t>(1 + below(high));
  }
  std::string next_name(const std::string& kind) {
    return kind + std::to_string(b_.g.stages.size());
  }
  std::string inlets() {
    std::string out;
    const std::uint64_t count = 1 + below(3);
    for (std::uint64_t i = 0; i < count; ++i) {
      out += "x" + std::to_string(i) + ":f32[2] ";
    }
    return out;
  }

  void add_stage() {
    flow::graph_stage& s = b_.task(next_name("stage"), inlets() + "-> y:f32[2]");
    s.info.holds = below(3) == 0 ? one_to(4) : 0;
    s.info.face = below(4) == 0 ? face::late : face::task;
    s.info.stateless = true;
    s.on_failure =
        below(5) == 0 ? flow::failure_policy::skip : flow::failure_policy::stop;
    if (below(4) == 0) {
      s.info.own_numbering = true;
      s.info.takes = one_to(4);
      s.info.gives = one_to(3);
      if (s.info.face == face::task && s.info.gives > 1) {
        s.on_failure = flow::failure_policy::stop;
      }
    } else {
      s.info.forwards = below(3) == 0;
    }
    const bool opens = s.info.own_numbering;
    const std::uint32_t numbering = connect();
    numberings_.push_back(opens ? ++last_numbering_ : numbering);
  }

  /// Connects the inlets of the newest stage to outlets of one numbering, and returns it.
  std::uint32_t connect() {
    const std::size_t newest = b_.g.stages.size() - 1;
    const std::size_t first = pick(newest);
    for (std::size_t i = 0; i < b_.g.stages[newest].info.inlets(); ++i) {
      std::size_t from = first;
      if (i > 0) {
        do {
          from = pick(newest);
        } while (numberings_[from] != numberings_[first]);
      }
      b_.link(b_.g.stages[from].name + ".y",
              b_.g.stages[newest].name + ".x" + std::to_string(i));
    }
    return numberings_[first];
  }

  /// Returns a stage with an outlet among the first ones.
  std::size_t pick(std::size_t count) {
    std::size_t stage = below(count);
    while (b_.g.stages[stage].info.outlets() == 0) {
      stage = below(count);
    }
    return stage;
  }

  // Stages that form cycles do not forward: then the plan counts each edge, and the game
  // would not know an oldest item.
  void add_delayed_edge() {
    const std::size_t head = below(b_.g.stages.size());
    const std::size_t tail = pick(b_.g.stages.size());
    flow::stage_info& info = b_.g.stages[head].info;
    if (info.face == face::source || info.forwards ||
        numberings_[b_.g.edges[first_edge_into(head)].from] != numberings_[tail]) {
      return;
    }
    const std::string name = "back" + std::to_string(info.ports.size());
    info.ports.push_back({name, or_throw(flow::port_type::parse("f32[2]")), true});
    b_.link(b_.g.stages[tail].name + ".y", b_.g.stages[head].name + "." + name).delay =
        one_to(5);
  }

  [[nodiscard]] std::size_t first_edge_into(std::size_t stage) const {
    std::size_t e = 0;
    while (b_.g.edges[e].to != stage) {
      ++e;
    }
    return e;
  }

  std::mt19937_64 random_;
  graph_builder b_;
  std::vector<std::uint32_t> numberings_;  ///< of the items of each stage
  std::uint32_t last_numbering_ = 0;
};

}  // namespace

graph_builder random_graph(std::uint64_t seed) {
  return generator(seed).make();
}

}  // namespace weir::test
