// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes facts about pipelines as JSON.
///
/// The facts of a plan, of a stage and of a run share the functions for their parts, so
/// that one program can read all of them. Keys keep the order in which they are added.
/// metrics.json has the facts of a run; `picture.cpp` and `report.cpp` read them again
/// and expect that any key may be missing.
#include "facts.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <numeric>

#include "config/values.hpp"

namespace weir::tools {

namespace {

/// Returns a policy as the key `on_error` spells it.
std::string failure_word(flow::failure_policy policy) {
  switch (policy) {
    case flow::failure_policy::stop: return "stop";
    case flow::failure_policy::skip: return "skip";
    case flow::failure_policy::dead_letter: return "dead_letter";
  }
  // For a number of a newer version.
  return "unknown";
}

/// Returns a port as files name it: stage and port with a dot between them.
std::string end_name(const flow::graph_stage& stage, std::uint32_t index) {
  // Names of stages may contain dots; the last one divides, since ports have none.
  return fmt::format("{}.{}", stage.name, stage.info.ports[index].name);
}

/// Returns what a plan says about a stage: its types are at the edges.
facts planned_stage_facts(const flow::plan& p, std::size_t index) {
  const flow::graph_stage& stage = p.source.stages[index];
  const flow::planned_stage& planned = p.stages[index];
  facts one;
  one["name"] = stage.name;
  one["use"] = stage.info.name;
  one["face"] = face_word(stage.info.face);
  // The place in the file, for messages of other programs.
  one["place"] = stage.place;
  one["numbering"] = planned.numbering;
  one["slots"] = planned.slots;
  // The sum over the outlets, each of which has slots of its own.
  one["memory_bytes"] =
      std::accumulate(planned.bytes.begin(), planned.bytes.end(), std::int64_t{0});
  // Hosts and limits that were not chosen are left out.
  if (stage.host != flow::host_kind::automatic) {
    one["host"] = flow::name_of(stage.host);
  }
  one["on_error"] = failure_word(stage.on_failure);
  if (stage.max_failures != flow::unlimited_failures) {
    one["max_failures"] = stage.max_failures;
  }
  return one;
}

/// Returns what a plan says about an edge, with the type that the outlet has settled on.
facts planned_edge_facts(const flow::plan& p, const flow::graph_edge& edge) {
  facts one;
  one["from"] = end_name(p.source.stages[edge.from], edge.outlet);
  one["to"] = end_name(p.source.stages[edge.to], edge.inlet);
  // Types are known for all ports after the plan. Both ends have the same one.
  one["type"] = p.stages[edge.from].types[edge.outlet].text();
  one["delay"] = edge.delay;
  one["window_items"] = edge.window_items;
  one["window_bytes"] = edge.window_bytes;
  return one;
}

/// Adds the smallest and the largest number of a range to the facts of a setting.
struct bounds_writer {
  facts& to;

  void operator()(const integer_range& range) const {
    to["min"] = range.low;
    to["max"] = range.high;
    // Most ranges have no step.
    if (range.step != 1) {
      to["step"] = range.step;
    }
    // Words stand for numbers outside of the range.
    for (const integer_range::word& one : range.words) {
      to["words"].push_back(one.text);
    }
  }
  void operator()(const real_range& range) const {
    // The ends of a range of all numbers are no bounds.
    const real_range all;
    if (range.low != all.low) {
      to["min"] = range.low;
    }
    if (range.high != all.high) {
      to["max"] = range.high;
    }
  }
  void operator()(const word_range& range) const { to["words"] = range.words; }
  void operator()(const list_range& range) const {
    to["shortest"] = range.shortest;
    // Most lists have no largest number of items.
    if (range.longest != list_range().longest) {
      to["longest"] = range.longest;
    }
    facts items = facts::object();
    std::visit(bounds_writer{items}, range.items);
    // Items that are texts have no bounds.
    if (!items.empty()) {
      to["items"] = std::move(items);
    }
  }
  // Nothing is known beyond the words of `takes`.
  void operator()(const boolean_range& /*range*/) const {}
  void operator()(const text_range& /*range*/) const {}
};

/// Returns a setting as `weir inspect --json` shows it. The default is text in TOML, as a
/// file would write it.
facts setting_facts(const flow::stage_info& info, std::size_t index) {
  const setting_info& setting = info.settings[index];
  // The default of a setting that must be given has no meaning.
  const bool has_default = index < info.defaults.size() && !setting.required;
  facts one;
  one["name"] = setting.name;
  one["documentation"] = setting.documentation;
  one["takes"] = setting.expected();
  // Programs need the numbers of the range and not its words.
  std::visit(bounds_writer{one}, setting.range);
  one["unit"] = setting.unit;
  // Null tells a missing default from an empty text.
  one["default"] = has_default ? facts(toml_text(info.defaults[index])) : facts();
  one["required"] = setting.required;
  one["may_change"] = setting.may_change;
  return one;
}

/// Adds the counters of a stage. Times are in nanoseconds in the counters.
void add_counters(facts& to, const flow::stage_counters& c) {
  // `report.cpp` and `picture.cpp` read these keys again.
  to["items"] = c.items;
  to["emitted"] = c.emitted;
  to["skipped"] = c.skipped;
  to["failed"] = c.failed;
  to["blocked_input"] = c.blocked_input;
  to["blocked_output"] = c.blocked_output;
  // Busy time is the sum over all workers.
  to["busy_seconds"] = static_cast<double>(c.busy_ns) * 1e-9;
}

/// Adds the counters of an edge; `deepest` is the largest number of items alive at once.
void add_counters(facts& to, const flow::edge_counters& c) {
  to["items"] = c.items;
  to["gaps"] = c.gaps;
  to["bytes"] = c.bytes;
  to["deepest"] = c.deepest;
}

/// Adds the figures that a stage has reported.
void add_figures(facts& to, const figures& from) {
  if (from.empty()) {
    return;
  }
  facts values = facts::object();
  // A stage may tell the same name only once.
  for (const auto& [name, value] : from.values()) {
    // A figure is a number or a text; both become the JSON value of their kind.
    std::visit([&, &key = name](const auto& v) { values[key] = v; }, value);
  }
  to["figures"] = std::move(values);
  // What the stage could not compute, as texts.
  to["problems"] = from.problems();
  facts curves = facts::array();
  for (const figures::curve& one : from.curves()) {
    // The points are pairs of x and y.
    curves.push_back(
        {{"title", one.title}, {"x", one.x}, {"y", one.y}, {"points", one.points}});
  }
  to["curves"] = std::move(curves);
}

/// Returns the latencies of a sink: two quantiles, the largest, and the counts by powers
/// of two from which the quantiles are taken.
facts latency_facts(const flow::latency_counts& c) {
  // Quantiles are upper ends of classes, so they are exact to a factor of two.
  return {{"p50_ns", c.quantile_ns(0.5)},
          {"p99_ns", c.quantile_ns(0.99)},
          {"largest_ns", c.largest_ns},
          {"log2_counts", c.items}};
}

/// Returns the stage that limited the rate most often, with its share of all
/// observations; null if there were none.
facts bottleneck_facts(const std::map<std::string, std::uint64_t>& limiting) {
  std::uint64_t total = 0;
  const std::pair<const std::string, std::uint64_t>* most = nullptr;
  // The map is sorted by names, which makes the result the same in every run.
  for (const auto& one : limiting) {
    total += one.second;
    // The first of several stages with equal counts, in the order of their names.
    most = most == nullptr || one.second > most->second ? &one : most;
  }
  if (most == nullptr) {
    return {};
  }
  return {{"stage", most->first},
          {"share", static_cast<double>(most->second) / static_cast<double>(total)}};
}

}  // namespace

// Paths of files need not be UTF-8, but JSON is.
// Bytes that are not UTF-8 are replaced.
std::string facts_text(const facts& value) {
  // Two spaces of indentation, and a line feed at the end.
  return value.dump(2, ' ', false, facts::error_handler_t::replace) + "\n";
}

/// The words are those of docs/pipelines.md.
std::string face_word(flow::face face) {
  switch (face) {
    case flow::face::task: return "task";
    case flow::face::late: return "late";
    case flow::face::looping: return "step loop";
    case flow::face::source: return "source";
    case flow::face::sink: return "sink";
    case flow::face::blocking: return "blocking";
  }
  return "unknown";
}

/// The order of the enumeration is from weak to strong.
std::string guarantee_words(flow::guarantee promise) {
  switch (promise) {
    case flow::guarantee::none: return "none";
    case flow::guarantee::at_least_once: return "at least once";
    case flow::guarantee::exactly_once: return "exactly once";
  }
  return "unknown";
}

facts plan_facts(const flow::plan& p) {
  // The keys of the whole come first, then stages and edges.
  facts out;
  out["pipeline"] = p.source.name;
  out["memory_bound_bytes"] = p.memory_bound;
  out["guarantee"] = guarantee_words(p.promise);
  // null if every stage has the strongest guarantee.
  out["weakest"] = p.weakest.empty() ? facts() : facts(p.weakest);
  out["notes"] = p.notes;
  out["stages"] = facts::array();
  for (std::size_t i = 0; i < p.stages.size(); ++i) {
    out["stages"].push_back(planned_stage_facts(p, i));
  }
  out["edges"] = facts::array();
  for (const flow::graph_edge& edge : p.source.edges) {
    out["edges"].push_back(planned_edge_facts(p, edge));
  }
  return out;
}

facts stage_facts(const flow::stage_info& info) {
  facts out;
  // The description as the stage has written it.
  out["name"] = info.name;
  out["documentation"] = info.documentation;
  out["details"] = info.details;
  out["example"] = info.example;
  out["face"] =
      // null if the description has neither ports nor an example, because the face is
      // then only known when the stage is made.
      info.ports.empty() && info.example.empty() ? facts() : facts(face_word(info.face));
  out["ports"] = facts::array();
  for (const flow::port_info& p : info.ports) {
    out["ports"].push_back({{"name", p.name},
                            // "in" and "out" are seen from the stage.
                            {"direction", p.inlet ? "in" : "out"},
                            {"type", p.type.text()}});
  }
  out["settings"] = facts::array();
  for (std::size_t i = 0; i < info.settings.size(); ++i) {
    out["settings"].push_back(setting_facts(info, i));
  }
  out["state"] = facts::array();
  for (const flow::state_info& one : info.state) {
    out["state"].push_back(
        {{"name", one.name}, {"kind", one.tensor ? "tensor" : "value"}});
  }
  // Numbers for stages whose items have a numbering of their own.
  out["takes"] = info.takes;
  out["gives"] = info.gives;
  out["holds"] = info.holds;
  out["own_numbering"] = info.own_numbering;
  out["stateless"] = info.stateless;
  out["accepts_gaps"] = info.gaps == flow::gap_policy::pass;
  out["forwards"] = info.forwards;
  out["guarantee"] = guarantee_words(info.promise);
  return out;
}

facts run_facts(const pipeline_report& report,
                const std::map<std::string, std::uint64_t>& limiting) {
  // The counters are added to the facts of the plan, stage by stage.
  facts out = plan_facts(report.planned);
  // The head comes first in the file, so that people find it.
  facts head;
  head["kind"] = "pipeline";
  head["pipeline"] = report.planned.source.name;
  head["ended"] = report.ended;
  head["items"] = report.items;
  head["resumed_item"] = report.resumed_item;
  head["seconds"] = report.seconds;
  head["items_per_second"] =
      // The mean over the whole run, without the time before the first item.
      report.seconds > 0 ? static_cast<double>(report.items) / report.seconds : 0;
  head["checkpoints"] = report.epochs;
  head["restarts"] = report.restarts;
  head["generation"] = report.generation;
  head["item_bytes"] = report.item_bytes;
  head["peak_item_bytes"] = report.peak_item_bytes;
  head["bottleneck"] = bottleneck_facts(limiting);
  // Counters may be missing, if the run ended before the stages were opened.
  for (std::size_t i = 0; i < out["stages"].size(); ++i) {
    if (i < report.counters.stages.size()) {
      add_counters(out["stages"][i], report.counters.stages[i]);
    }
  }
  // Figures exist for stages that were opened.
  for (std::size_t i = 0; i < out["stages"].size() && i < report.stages.size(); ++i) {
    add_figures(out["stages"][i], report.stages[i]);
  }
  // The latencies are those of the sinks, in the order of the stages.
  std::size_t sink = 0;
  for (facts& stage : out["stages"]) {
    if (stage["face"] == "sink" && sink < report.counters.latencies.size()) {
      stage["latency"] = latency_facts(report.counters.latencies[sink++]);
    }
  }
  for (std::size_t i = 0; i < out["edges"].size(); ++i) {
    if (i < report.counters.edges.size()) {
      add_counters(out["edges"][i], report.counters.edges[i]);
    }
  }
  // The head takes over all keys of the plan. "pipeline" has the same value in both.
  head.update(out);
  return head;
}

}  // namespace weir::tools
