// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes the stages and edges of a file.
///
/// All stages are made first, because edges may lead to later stages. Edges that the file
/// leaves out are added by two rules: a stage without `from` and `inlets` follows the
/// stage above it, and an outlet for failed items that nothing takes gets a sink that
/// writes them to a file. Errors of the catalog are given the place in the file to which
/// they belong.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "file.hpp"
#include "stage_keys.hpp"
#include "weir/base/text.hpp"

namespace weir::tools {

namespace {

/// An end of an edge: a stage and the name of one of its ports.
struct edge_end {
  std::uint32_t stage = 0;
  std::string port;
};

/// Builds one pipeline. `from_` and `known_` outlive it.
class builder {
 public:
  builder(const written_pipeline& from, const flow::catalog& known)
      : from_(from),
        known_(known),
        made_(std::make_unique<pipeline>(from.settings.name)) {}

  result<std::unique_ptr<pipeline>> build() {
    // In the order of the file, which is also that of their numbers.
    for (const written_stage& stage : from_.stages) {
      WEIR_CHECK(add(stage));
    }
    // Stage by stage: the edges of the file, then the one that follows from its order.
    for (std::uint32_t i = 0; i < from_.stages.size(); ++i) {
      for (const written_edge& edge : from_.stages[i].edges) {
        WEIR_CHECK(connect(edge, i));
      }
      WEIR_CHECK(connect_to_stage_above(i));
    }
    // Edges of the file may take outlets for failed items too, so all are made before.
    for (std::uint32_t i = 0; i < from_.stages.size(); ++i) {
      add_dead_letter_files(i);
    }
    return std::move(made_);
  }

 private:
  // Makes a stage and adds it with its window, host and policy. The function that is
  // added with it makes the stage again when a run goes back to a checkpoint.
  result<void> add(const written_stage& stage) {
    // Settings are passed on as they are, and the catalog checks them.
    given_settings given;
    for (const config_entry& entry : stage.settings) {
      given.emplace(entry.key, given_value(entry.value));
    }
    auto made = known_.make(stage.use, given);
    if (!made) {
      return located(std::move(made.error()), stage);
    }
    node added = made_->add_made(
        stage.name, std::move(made),
        // The catalog outlives the pipeline; name and settings are copied.
        [&known = known_, use = stage.use, given] { return known.make(use, given); });
    // The place is used in messages about the plan.
    added.defined_at(stage.where);
    // A window may name one kind of limit; the other is the default.
    if (stage.window.items || stage.window.bytes) {
      added.window(static_cast<std::uint32_t>(
                       stage.window.items.value_or(flow::default_window_items)),
                   static_cast<std::int64_t>(stage.window.bytes.value_or(
                       static_cast<std::uint64_t>(flow::default_window_bytes))));
    }
    added.host(stage.host);
    added.failing(stage.on_failure, stage.max_failures);
    return {};
  }

  /// Adds a sink for each outlet for failed items that no edge of the file names.
  void add_dead_letter_files(std::uint32_t stage) {
    // A copy, since adding a stage moves the list of stages.
    const std::vector<flow::port_info> ports = made_->built().stages[stage].info.ports;
    for (std::uint32_t i = 0; i < ports.size(); ++i) {
      const std::vector<flow::graph_edge>& edges = made_->built().edges;
      // An edge of the file may already take the failed items.
      const bool named = std::ranges::any_of(edges, [&](const flow::graph_edge& e) {
        return e.from == stage && e.outlet == i;
      });
      if (!ports[i].dead_letter || named) {
        continue;
      }
      // Port and file are named after the stage, such as "parse.failed" and
      // "parse.failed.tgm".
      const std::string name = from_.stages[stage].name + "." + ports[i].name;
      const auto added = static_cast<std::uint32_t>(made_->built().stages.size());
      // The path is relative, so the file gets into the folder of the pipeline.
      const given_settings path{{"path", name + ".tgm"}};
      made_
          ->add_made(name, known_.make("tgm.write", path),
                     [&known = known_, path] { return known.make("tgm.write", path); })
          .defined_at(from_.stages[stage].where);
      // The sink has one inlet, named "x".
      made_->connect(stage, ports[i].name, added, "x", 0, from_.stages[stage].where);
    }
  }

  // The message quotes the setting that was refused. Other mistakes belong to the stage.
  [[nodiscard]] error located(error e, const written_stage& stage) const {
    const auto in_stage = [&](error refused, const std::string& where) {
      return std::move(refused).located(
          fmt::format("{} (stage \"{}\")", where, stage.name));
    };
    // An unknown stage is reported at the key `use`.
    if (std::ranges::count(known_.names(), stage.use) == 0) {
      return in_stage(pointing_to_stages(std::move(e)), stage.where_used);
    }
    // Messages of the catalog quote the setting that they refuse.
    for (const config_entry& entry : stage.settings) {
      if (e.text().find(fmt::format("\"{}\"", entry.key)) != std::string::npos) {
        return in_stage(
            e.code() == errc::unknown_key ? unknown_key(entry, stage) : std::move(e),
            entry.where);
      }
    }
    // Other mistakes, such as a missing setting, belong to the stage as a whole.
    return in_stage(std::move(e), stage.where);
  }

  /// Returns the error of a key of a stage that is neither one of its settings nor one
  /// that every stage has.
  [[nodiscard]] error unknown_key(const config_entry& entry,
                                  const written_stage& stage) const {
    std::vector<std::string> names = keys_of_every_stage();
    // Without a description, only the keys of all stages can be suggested.
    if (const auto info = known_.describe(stage.use)) {
      for (const setting_info& one : info->settings) {
        names.push_back(one.name);
      }
    }
    return unknown_setting(entry.key, names);
  }

  /// Returns the names of ports. Outlets for failed items count only if they are wanted.
  [[nodiscard]] std::vector<std::string> ports_of(std::uint32_t stage, bool inlet,
                                                  bool dead_letters = false) const {
    std::vector<std::string> names;
    for (const flow::port_info& p : made_->built().stages[stage].info.ports) {
      if (p.inlet == inlet && (dead_letters || !p.dead_letter)) {
        names.push_back(p.name);
      }
    }
    return names;
  }

  /// Returns the inlets that no edge of the file names.
  [[nodiscard]] std::vector<std::string> open_inlets(std::uint32_t stage) const {
    std::vector<std::string> names = ports_of(stage, true);
    for (const written_edge& edge : from_.stages[stage].edges) {
      // An edge without a name of an inlet erases nothing.
      std::erase(names, edge.inlet);
    }
    return names;
  }

  // Applies the first rule. A stage whose inlets are all taken needs no edge.
  result<void> connect_to_stage_above(std::uint32_t stage) {
    const written_stage& to = from_.stages[stage];
    // The first stage has none above it.
    if (stage == 0 || to.has_from || to.has_inlets || open_inlets(stage).empty()) {
      return {};
    }
    const std::string& above = from_.stages[stage - 1].name;
    // The edge has no name of an outlet or inlet, so both must be clear.
    auto done = connect_ends({"", above, 0, to.where}, {stage - 1, ""}, stage);
    if (!done) {
      // The hint explains where an edge comes from that is not in the file.
      const std::string more = done.error().hint();
      return std::move(done.error())
          .hint(fmt::format("\"{0}\" has no key `from`, so it follows \"{1}\", the stage "
                            "above{2}{3}",
                            to.name, above, more.empty() ? "" : "; ", more));
    }
    return {};
  }

  // Makes an edge of the file.
  result<void> connect(const written_edge& edge, std::uint32_t to) {
    WEIR_TRY(const edge_end begin, find_stage(edge, to));
    return connect_ends(edge, begin, to);
  }

  // Makes an edge whose stage at the beginning is known.
  result<void> connect_ends(const written_edge& edge, const edge_end& begin,
                            std::uint32_t to) {
    WEIR_TRY(const std::string outlet, choose_outlet(edge, begin, to));
    WEIR_TRY(const std::string inlet, choose_inlet(edge, to));
    // The place of the edge in the file is kept for messages about the plan.
    made_->connect(begin.stage, outlet, to, inlet, edge.delay, edge.where);
    return {};
  }

  /// Finds the stage that a text such as "first" or "first.y" names. Names of stages may
  /// have dots, names of ports have none.
  result<edge_end> find_stage(const written_edge& edge, std::uint32_t to) const {
    const auto find = [&](std::string_view name) {
      return std::ranges::find(from_.stages, name, &written_stage::name);
    };
    const auto index = [&](auto found) {
      return static_cast<std::uint32_t>(found - from_.stages.begin());
    };
    // A stage of the whole name comes first, even if it has a dot.
    if (const auto whole = find(edge.from); whole != from_.stages.end()) {
      return edge_end{index(whole), ""};
    }
    // The last point divides, as names of ports have none.
    const std::size_t dot = edge.from.rfind('.');
    const std::string name = edge.from.substr(0, dot);
    // A name without a point has been looked for already.
    if (const auto found = find(name);
        found != from_.stages.end() && dot != std::string::npos) {
      return edge_end{index(found), edge.from.substr(dot + 1)};
    }
    std::vector<std::string> names;
    for (const written_stage& stage : from_.stages) {
      names.push_back(stage.name);
    }
    // The hint says where the nearest stage is defined.
    const auto nearest = nearest_name(name, names);
    return refused(errc::unknown_key, edge, to, "the name of a stage",
                   fmt::format("\"{}\"", name))
        .hint(nearest ? fmt::format("did you mean \"{}\" ({})?", *nearest,
                                    find(*nearest)->where)
                      : "");
  }

  // Finds the outlet: the only one if the edge names none. Outlets for failed items must
  // be named.
  result<std::string> choose_outlet(const written_edge& edge, const edge_end& begin,
                                    std::uint32_t to) const {
    const written_stage& stage = from_.stages[begin.stage];
    const std::vector<std::string> outlets = ports_of(begin.stage, false);
    // The usual case: a stage with a single outlet.
    if (begin.port.empty() && outlets.size() == 1) {
      return outlets.front();
    }
    // Here, outlets for failed items count as well.
    if (std::ranges::count(ports_of(begin.stage, false, true), begin.port) == 1) {
      return begin.port;
    }
    return no_port(edge, to, begin.port, outlets, "outlet", stage);
  }

  // Finds the inlet: the only open one if the edge names none.
  result<std::string> choose_inlet(const written_edge& edge, std::uint32_t to) const {
    const std::vector<std::string> all = ports_of(to, true);
    // A name must be one of all inlets, whether open or not. The plan finds inlets with
    // two edges.
    if (std::ranges::count(all, edge.inlet) == 1) {
      return edge.inlet;
    }
    // For an error, the message lists what could have been meant.
    const std::vector<std::string> open = edge.inlet.empty() ? open_inlets(to) : all;
    if (edge.inlet.empty() && open.size() == 1) {
      return open.front();
    }
    return no_port(edge, to, edge.inlet, open, "inlet", from_.stages[to]);
  }

  // Returns the error of a missing or unclear port. The hint shows how to name it.
  [[nodiscard]] error no_port(const written_edge& edge, std::uint32_t to,
                              const std::string& name,
                              const std::vector<std::string>& ports, const char* kind,
                              const written_stage& stage) const {
    // Nothing can be suggested if there is none.
    if (ports.empty()) {
      return refused(errc::invalid_argument, edge, to,
                     fmt::format("an {} of \"{}\" ({})", kind, stage.name, stage.use),
                     "none that is open");
    }
    const std::string expected =
        fmt::format("an {} of \"{}\" ({})", kind, stage.name, fmt::join(ports, ", "));
    if (name.empty()) {
      return refused(errc::invalid_argument, edge, to, expected, "no name")
          // An outlet is named behind its stage, an inlet as a key of a table.
          .hint(std::string_view(kind) == "outlet"
                    ? fmt::format("name it: \"{}.{}\"", stage.name, ports.front())
                    : fmt::format("name it: inlets = {{ {} = \"{}\" }}", ports.front(),
                                  edge.from));
    }
    // A misspelt name gets the nearest one and the place of the stage.
    const auto nearest = nearest_name(name, ports);
    const std::string place =
        fmt::format("\"{}\" is defined at {}", stage.name, stage.where);
    return refused(errc::unknown_key, edge, to, expected, fmt::format("\"{}\"", name))
        .hint(nearest ? fmt::format("did you mean \"{}\"? {}", *nearest, place) : place);
  }

  // Returns the error of an edge, at its place in the file.
  [[nodiscard]] error refused(errc code, const written_edge& edge, std::uint32_t to,
                              std::string_view expected, std::string_view found) const {
    // An edge of `from` names no inlet.
    const std::string inlet = edge.inlet.empty() ? "" : "." + edge.inlet;
    return error(code,
                 fmt::format("cannot connect \"{}\" to \"{}{}\": expected {}, "
                             "found {}",
                             edge.from, from_.stages[to].name, inlet, expected, found))
        .located(edge.where);
  }

  const written_pipeline& from_;
  const flow::catalog& known_;
  std::unique_ptr<pipeline> made_;
};

}  // namespace

/// Errors that suggest a name, or have a hint, need no second one.
error pointing_to_stages(error e) {
  // The hint is useful only if nothing better is known.
  return e.text().find("did you mean") == std::string::npos && e.hint().empty()
             ? std::move(e).hint("`weir stages` lists them")
             : std::move(e);
}

result<std::unique_ptr<weir::pipeline>> make_pipeline(const written_pipeline& from,
                                                      const flow::catalog& known) {
  return builder(from, known).build();
}

}  // namespace weir::tools
