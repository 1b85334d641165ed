// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random pipelines of the stages of number_stages.hpp, with what a serial interpreter
/// computes for their sinks.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/support/number_stages.hpp"

namespace weir::test {

/// All items of an edge, by number; nothing for a gap.
using sequence = std::vector<std::optional<numbers>>;

/// An outlet that has no edge yet.
struct loose_end {
  std::uint32_t stage = 0;
  std::string port;
  int numbering = 0;
  sequence items;
};

/// Adds a stage of a class, with the name by which a child process makes it.
template <class S>
node add_named(pipeline& p, const std::string& name, flow::settings_of<S> settings) {
  return p.add_maker(name, [settings]() -> result<flow::described_stage> {
    WEIR_TRY(auto made, flow::make_stage<S>(settings));
    stage_spec<S> spec;
    S::describe(spec);
    made.origin.use = made.info.name;
    for (const auto& one : spec.table().entries()) {
      made.origin.settings.emplace_back(one.name, one.get(settings));
    }
    return made;
  });
}

/// Adds the stages of random pipelines to a catalog.
inline void add_number_stages(flow::catalog& to) {
  or_throw(to.add<number_source>());
  or_throw(to.add<scaled>());
  or_throw(to.add<running_sum>());
  or_throw(to.add<late_filter>());
  or_throw(to.add<early_filter>());
  or_throw(to.add<joined>());
  or_throw(to.add<selected>());
  or_throw(to.add<merged>());
  or_throw(to.add<batched>());
  or_throw(to.add<doubled>());
  or_throw(to.add<outside_sum>());
  or_throw(to.add<iterated>());
  or_throw(to.add<unrolled>());
  or_throw(to.add<loop_head>());
}

/// A random pipeline and what its sinks must receive.
class random_pipeline {
 public:
  explicit random_pipeline(std::uint64_t seed) : random_(seed), seed_(seed) {
    const std::uint64_t count = below(40);
    add_source(count);
    if (below(3) == 0) {
      add_source(below(2) == 0 ? count : below(40));
    }
    const std::size_t stages = 1 + below(10);
    for (std::size_t i = 0; i < stages; ++i) {
      grow();
    }
    while (!ends_.empty()) {
      add_sink(take_end());
    }
  }

  /// Builds the pipeline. `shape` varies windows and hosts, which must not change any
  /// result. @param others  Hosts of half of the stages, apart from sinks, whose items
  /// are in the memory of this process.
  void build(pipeline& p, std::uint64_t shape, std::vector<durable_items>& disks,
             const std::vector<flow::host_kind>& others = {}) const {
    std::mt19937_64 windows(shape);
    const sink_adder make_sink = [&](pipeline& to, const std::string& name,
                                     std::size_t number) {
      return to.add<number_sink>(name, sink_of(disks[number]));
    };
    std::vector<node> nodes;
    for (const auto& add : add_) {
      nodes.push_back(add(p, make_sink));
      nodes.back().window(static_cast<std::uint32_t>(1 + windows() % 5));
      const std::string& name = p.built().stages.back().name;
      if (!others.empty() && windows() % 2 == 0 && !name.starts_with("sink")) {
        nodes.back().host(others[windows() % others.size()]);
      }
    }
    connect_all(nodes);
  }
  /// Adds sink `number` with a name to a pipeline.
  using sink_adder = std::function<node(pipeline&, const std::string&, std::size_t)>;
  /// Builds the pipeline with all stages on one kind of host, and with other sinks, which
  /// work there as well. `shape` varies windows.
  void build_on(pipeline& p, std::uint64_t shape, flow::host_kind host,
                const sink_adder& make_sink) const {
    std::mt19937_64 windows(shape);
    std::vector<node> nodes;
    for (const auto& add : add_) {
      nodes.push_back(add(p, make_sink).host(host));
      nodes.back().window(static_cast<std::uint32_t>(1 + windows() % 5));
    }
    connect_all(nodes);
  }
  /// Returns for each sink its items.
  [[nodiscard]] const std::vector<durable_items>& expected() const { return expected_; }
  /// Returns a description for messages.
  [[nodiscard]] std::string text() const {
    std::string all = "seed " + std::to_string(seed_) + ":";
    for (const std::string& s : names_) {
      all += " " + s;
    }
    return all;
  }

 private:
  void connect_all(std::vector<node>& nodes) const {
    for (const auto& e : edges_) {
      if (e.delay == 0) {
        static_cast<void>(nodes[e.from][e.outlet] >> nodes[e.to][e.inlet]);
      } else {
        nodes[e.from][e.outlet].feed_back(nodes[e.to][e.inlet], e.delay);
      }
    }
  }
  struct planned_edge {
    std::uint32_t from;
    std::string outlet;
    std::uint32_t to;
    std::string inlet;
    std::uint32_t delay;
  };
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  template <class S>
  std::uint32_t add(const std::string& kind, flow::settings_of<S> settings = {}) {
    const auto index = static_cast<std::uint32_t>(add_.size());
    const std::string name = kind + std::to_string(index);
    names_.push_back(name);
    add_.push_back([name, settings](pipeline& p, const sink_adder&) {
      return add_named<S>(p, name, settings);
    });
    return index;
  }
  void connect(const loose_end& from, std::uint32_t to, const std::string& inlet) {
    edges_.push_back({from.stage, from.port, to, inlet, 0});
  }
  loose_end take_end() {
    const std::size_t i = below(ends_.size());
    loose_end one = ends_[i];
    if (below(5) != 0 || ends_.size() > 4) {  // otherwise the outlet gets several edges
      ends_.erase(ends_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return one;
  }

  void add_source(std::uint64_t count) {
    const std::uint64_t seed = below(1000);
    loose_end e{add<number_source>("source", {.count = count, .seed = seed}), "x", 0, {}};
    for (std::uint64_t n = 0; n < count; ++n) {
      e.items.emplace_back(number_source::make(seed, n));
    }
    ends_.push_back(std::move(e));
  }
  void add_sink(const loose_end& from) {
    const auto index = static_cast<std::uint32_t>(add_.size());
    const std::string name = "sink" + std::to_string(index);
    const std::size_t number = expected_.size();
    names_.push_back(name);
    add_.push_back([name, number](pipeline& p, const sink_adder& make_sink) {
      return make_sink(p, name, number);
    });
    connect(from, index, "x");
    durable_items d;
    for (std::uint64_t n = 0; n < from.items.size(); ++n) {
      if (from.items[n]) {
        d.items.emplace_back(n, *from.items[n]);
      }
    }
    expected_.push_back(std::move(d));
  }

  /// Adds a stage with one inlet and one outlet of the same numbering.
  template <class S, class Function>
  void add_simple(const std::string& kind, const Function& make,
                  flow::settings_of<S> settings = {}) {
    loose_end from = take_end();
    const std::uint32_t stage = add<S>(kind, settings);
    connect(from, stage, "x");
    loose_end to{stage, "y", from.numbering, {}};
    for (std::uint64_t n = 0; n < from.items.size(); ++n) {
      to.items.push_back(from.items[n] ? make(*from.items[n], n) : std::nullopt);
    }
    ends_.push_back(std::move(to));
  }

  void grow() {
    using maybe = std::optional<numbers>;
    switch (below(12)) {
      case 0: {
        const std::uint64_t factor = below(100);
        add_simple<scaled>(
            "scaled",
            [&](numbers x, std::uint64_t n) { return maybe(scaled::make(x, factor, n)); },
            {.factor = factor});
        break;
      }
      case 1: {
        numbers total{};
        std::uint64_t calls = 0;
        add_simple<running_sum>("sum", [&](numbers x, std::uint64_t) {
          ++calls;
          for (std::size_t i = 0; i < elements; ++i) {
            total[i] += x[i];
            x[i] = total[i] * calls;
          }
          return maybe(x);
        });
        break;
      }
      case 2:
        add_simple<late_filter>("late", [](const numbers& x, std::uint64_t) {
          return late_filter::keeps(x) ? maybe(x) : std::nullopt;
        });
        break;
      case 3:
        add_simple<early_filter>("early", [](const numbers& x, std::uint64_t n) {
          return early_filter::keeps(n) ? maybe(x) : std::nullopt;
        });
        break;
      case 4: grow_join(); break;
      case 5: grow_branch(); break;
      case 6: grow_batch(); break;
      case 7: grow_double(); break;
      case 8: grow_outside(); break;
      case 9: grow_iterated(); break;
      case 10: grow_unrolled(); break;
      default: grow_loop();
    }
  }

  void grow_outside() {
    numbers total{};
    std::uint64_t calls = 0;
    add_simple<outside_sum>("outside",
                            [&](numbers x, std::uint64_t) -> std::optional<numbers> {
                              if (!outside_sum::keeps(x)) {
                                return std::nullopt;
                              }
                              ++calls;
                              for (std::size_t i = 0; i < elements; ++i) {
                                total[i] += x[i];
                                x[i] = total[i] * calls;
                              }
                              return x;
                            });
  }

  void grow_iterated() {
    std::uint64_t total = 0;
    add_simple<iterated>("iterated", [&](const numbers& x, std::uint64_t) {
      return std::optional(iterated::make(x, total));
    });
  }

  void grow_unrolled() {
    const loose_end from = take_end();
    const std::uint32_t stage = add<unrolled>("unrolled");
    connect(from, stage, "x");
    loose_end to{stage, "y", ++numberings_, {}};
    for (const auto& x : from.items) {
      for (std::uint64_t n = 1; x && n <= unrolled::count(*x); ++n) {
        to.items.emplace_back(numbers{(*x)[0] + n, (*x)[1] + n, (*x)[2] + n});
      }
    }
    ends_.push_back(std::move(to));
  }

  void grow_join() {
    const loose_end a = take_end();
    const auto same = std::find_if(ends_.begin(), ends_.end(), [&](const loose_end& e) {
      return e.numbering == a.numbering;
    });
    if (same == ends_.end()) {
      ends_.push_back(a);
      return;
    }
    const loose_end b = *same;
    ends_.erase(same);
    const std::uint32_t stage = add<joined>("joined");
    connect(a, stage, "a");
    connect(b, stage, "b");
    loose_end to{stage, "y", a.numbering, {}};
    for (std::size_t n = 0; n < std::max(a.items.size(), b.items.size()); ++n) {
      const bool both =
          n < a.items.size() && n < b.items.size() && a.items[n] && b.items[n];
      to.items.push_back(both ? std::optional(joined::make(*a.items[n], *b.items[n]))
                              : std::nullopt);
    }
    ends_.push_back(std::move(to));
  }

  /// Adds two branches, for items of odd and of even number, and a stage that merges
  /// them. The odd branch changes its items.
  void grow_branch() {
    const loose_end from = take_end();
    const std::uint32_t fork = add<selected>("selected");
    const std::uint32_t odd = add<scaled>("odd", {.factor = 5});
    const std::uint32_t join = add<merged>("merged");
    connect(from, fork, "x");
    edges_.push_back({fork, "odd", odd, "x", 0});
    edges_.push_back({odd, "y", join, "a", 0});
    edges_.push_back({fork, "even", join, "b", 0});
    loose_end to{join, "y", from.numbering, {}};
    for (std::uint64_t n = 0; n < from.items.size(); ++n) {
      const auto& x = from.items[n];
      to.items.push_back(x && n % 2 == 1 ? std::optional(scaled::make(*x, 5, n)) : x);
    }
    ends_.push_back(std::move(to));
  }

  void grow_batch() {
    const loose_end from = take_end();
    const std::uint32_t stage = add<batched>("batched");
    connect(from, stage, "x");
    loose_end to{stage, "y", ++numberings_, {}};
    std::size_t inside = 0;
    for (const auto& x : from.items) {
      if (!x) {
        continue;
      }
      if (inside == 0) {
        to.items.emplace_back(numbers{});
      }
      for (std::size_t i = 0; i < elements; ++i) {
        (*to.items.back())[i] += (*x)[i] * (inside + 1);
      }
      inside = (inside + 1) % batched::size;
    }
    ends_.push_back(std::move(to));
  }

  void grow_double() {
    const loose_end from = take_end();
    const std::uint32_t stage = add<doubled>("doubled");
    connect(from, stage, "x");
    loose_end to{stage, "y", ++numberings_, {}};
    for (const auto& x : from.items) {
      for (std::uint64_t n = 0; x && n < 2; ++n) {
        to.items.emplace_back(numbers{(*x)[0] + n, (*x)[1] + n, (*x)[2] + n});
      }
    }
    ends_.push_back(std::move(to));
  }

  /// Adds a loop: its head adds to each item the item that its tail made `delay` items
  /// before. A gap of the tail causes a gap of the head `delay` items later.
  void grow_loop() {
    const loose_end from = take_end();
    const std::uint32_t head = add<loop_head>("head");
    const std::uint32_t tail = add<scaled>("tail", {.factor = 3});
    const auto delay = static_cast<std::uint32_t>(1 + below(3));
    connect(from, head, "x");
    edges_.push_back({head, "y", tail, "x", 0});
    edges_.push_back({tail, "y", head, "token", delay});
    loose_end to{tail, "y", from.numbering, {}};
    for (std::uint64_t n = 0; n < from.items.size(); ++n) {
      const auto token = n < delay ? std::optional(numbers{}) : to.items[n - delay];
      const auto& x = from.items[n];
      to.items.push_back(
          x && token ? std::optional(scaled::make(loop_head::make(*x, *token), 3, n))
                     : std::nullopt);
    }
    ends_.push_back(std::move(to));
  }

  std::mt19937_64 random_;
  std::uint64_t seed_;
  int numberings_ = 0;
  std::vector<std::function<node(pipeline&, const sink_adder&)>> add_;
  std::vector<std::string> names_;
  std::vector<planned_edge> edges_;
  std::vector<loose_end> ends_;
  std::vector<durable_items> expected_;
};

}  // namespace weir::test
