// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the keys of one stage.
///
/// A table of reserved keys has one function for each key that every stage may have. All
/// other keys are settings of the stage itself: they are only collected here, and the
/// catalog of stages checks them when the stage is made. The same functions serve the
/// tables of a file and the assignments of a command line, so a later value of a key
/// replaces an earlier one.
#include "stage_keys.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace weir::tools {

namespace {

/// Returns the found value in words. A list of tables has no value of its own.
std::string found_in(const toml_item& item) {
  // A description names kind and value.
  return item.list_of_tables ? "a list of tables" : item.value.describe();
}

/// Returns the error of a key whose value is refused. It names the place in the file.
error refused(const toml_item& item, std::string_view expected) {
  return error(errc::invalid_argument,
               fmt::format("cannot use key \"{}\" of a stage: expected {}, found {}",
                           item.key, expected, found_in(item)))
      .located(item.where);
}

/// Returns the text of a key, which must not be empty.
result<std::string> text_of(const toml_item& item, std::string_view expected) {
  const auto* text = std::get_if<std::string>(&item.value.data);
  if (text == nullptr || text->empty()) {
    return refused(item, expected);
  }
  return *text;
}

/// Sets `name`. That names are unique is checked when the pipeline is made.
result<void> set_name(written_stage& stage, const toml_item& item) {
  WEIR_TRY(stage.name, text_of(item, "the name of the stage as a string"));
  return {};
}

/// Sets `use`. Its place is kept apart, because a misspelt name is reported there.
result<void> set_use(written_stage& stage, const toml_item& item) {
  WEIR_TRY(stage.use, text_of(item, "a stage of `weir stages` as a string"));
  stage.where_used = item.where;
  return {};
}

// An edge replaces an earlier one that ends at the same inlet.
// So an assignment can lead an inlet to another stage.
void add_edge(written_stage& stage, written_edge edge) {
  // An inlet has one edge, so the new one takes the place of the old.
  std::erase_if(stage.edges,
                [&](const written_edge& other) { return other.inlet == edge.inlet; });
  stage.edges.push_back(std::move(edge));
}

/// What the messages about edges say was expected.
constexpr std::string_view outlet_words =
    "a stage and its outlet, such as \"first.y\", or a stage with one outlet";

/// Sets `from`: one edge whose inlet has no name. It ends at the only inlet that no other
/// edge of the stage names.
result<void> set_from(written_stage& stage, const toml_item& item) {
  WEIR_TRY(std::string from, text_of(item, outlet_words));
  // An empty name means the inlet that is left.
  add_edge(stage, {"", std::move(from), 0, item.where});
  stage.has_from = true;
  return {};
}

/// Sets `inlets`: one edge for each key of the table, which is the name of an inlet.
result<void> set_inlets(written_stage& stage, const toml_item& item) {
  // An empty table would say nothing.
  if (!item.table || item.items.empty()) {
    return refused(item, "a table such as { a = \"first.y\", b = \"second\" }");
  }
  for (const toml_item& one : item.items) {
    // The place of an edge is that of its own key.
    WEIR_TRY(std::string from, text_of(one, outlet_words));
    add_edge(stage, {one.key, std::move(from), 0, one.where});
  }
  stage.has_inlets = true;
  return {};
}

/// Returns the delay of feedback edges. An edge with a delay of 0 is not a feedback edge.
result<std::uint32_t> delay_of(const toml_item& item) {
  const auto* number = std::get_if<std::int64_t>(&item.value.data);
  // A delay of zero would close a circle without any item in it.
  if (number == nullptr || *number < 1 ||
      *number > std::numeric_limits<std::uint32_t>::max()) {
    return refused(item, "a delay of 1 item or more as an integer");
  }
  return static_cast<std::uint32_t>(*number);
}

/// Sets `loop`: feedback edges, which all have the delay of the table. The delay may
/// stand before or behind the edges, so it is set on them at the end.
result<void> set_loop(written_stage& stage, const toml_item& item) {
  constexpr std::string_view expected =
      "a table with an inlet and a delay, such as { token = \"sample\", delay = 1 }";
  if (!item.table) {
    return refused(item, expected);
  }
  // The delay has this default, which is the most common loop.
  std::uint32_t delay = 1;
  std::vector<written_edge> edges;
  for (const toml_item& one : item.items) {
    // The name `delay` is reserved here, so an inlet of this name cannot be in a loop.
    if (one.key == "delay") {
      WEIR_TRY(delay, delay_of(one));
    } else {
      WEIR_TRY(std::string from, text_of(one, outlet_words));
      edges.push_back({one.key, std::move(from), 0, one.where});
    }
  }
  // A delay alone makes no loop.
  if (edges.empty()) {
    return refused(item, expected);
  }
  for (written_edge& edge : edges) {
    edge.delay = delay;
    add_edge(stage, std::move(edge));
  }
  return {};
}

/// Sets `window`. The limits are those of the types in which a plan holds them.
result<void> set_window(written_stage& stage, const toml_item& item) {
  const auto* text = std::get_if<std::string>(&item.value.data);
  // A value of another kind is refused like a text of another form.
  const auto window = text != nullptr ? parse_limits(*text) : std::nullopt;
  constexpr std::uint64_t max_items = std::numeric_limits<std::uint32_t>::max();
  constexpr std::uint64_t max_bytes = std::numeric_limits<std::int64_t>::max();
  // A window cannot be a time.
  if (!window || window->seconds || window->items.value_or(1) > max_items ||
      window->bytes.value_or(1) > max_bytes) {
    return refused(item, "items or bytes, such as \"8 items, 64 MiB\"");
  }
  stage.window = *window;
  return {};
}

/// Sets `on_error`. Whether the stage may skip items is checked when it is planned.
result<void> set_on_error(written_stage& stage, const toml_item& item) {
  // Words, not numbers, so that a file can be read without the documentation.
  const auto* text = std::get_if<std::string>(&item.value.data);
  if (text != nullptr && *text == "stop") {
    stage.on_failure = flow::failure_policy::stop;
  } else if (text != nullptr && *text == "skip") {
    stage.on_failure = flow::failure_policy::skip;
  } else if (text != nullptr && *text == "dead_letter") {
    stage.on_failure = flow::failure_policy::dead_letter;
  } else {
    return refused(item, "\"stop\", \"skip\" or \"dead_letter\"");
  }
  return {};
}

/// Sets `max_failures`, the failed items after which the run ends.
result<void> set_max_failures(written_stage& stage, const toml_item& item) {
  const auto* number = std::get_if<std::int64_t>(&item.value.data);
  if (number == nullptr || *number < 0) {
    return refused(item, "a number of items from 0 on");
  }
  stage.max_failures = static_cast<std::uint64_t>(*number);
  return {};
}

/// Sets `host`. Hosts on other machines have a syntax already, but no implementation.
result<void> set_host(written_stage& stage, const toml_item& item) {
  const auto* text = std::get_if<std::string>(&item.value.data);
  if (text != nullptr && text->starts_with("node:")) {
    return error(errc::unsupported,
                 fmt::format("cannot use key \"{}\" of a stage: expected a host of this "
                             "machine, found \"{}\", which is reserved for a later "
                             "version",
                             item.key, *text))
        .located(item.where);
  }
  // The hosts of this machine that a file may choose. The fourth kind is chosen by
  // itself.
  for (const auto kind :
       {flow::host_kind::engine, flow::host_kind::own, flow::host_kind::process}) {
    if (text != nullptr && *text == flow::name_of(kind)) {
      stage.host = kind;
      return {};
    }
  }
  return refused(item, "\"engine\", \"own\" or \"process\"");
}

/// Refuses a key that is reserved, so that files which use it do not change their meaning
/// in a later version.
result<void> refuse_key(written_stage& /*stage*/, const toml_item& item) {
  return error(errc::unsupported,
               fmt::format("cannot use key \"{}\" of a stage: expected a key of this "
                           "version, found one that is reserved for a later version",
                           // The key itself is known, so it is not reported as unknown.
                           item.key))
      .located(item.where);
}

/// Sets a key of a stage from its value.
using setter = result<void> (*)(written_stage&, const toml_item&);
/// The order is that in which `keys_of_every_stage` lists the keys.
constexpr std::array<std::pair<std::string_view, setter>, 10> reserved{
    {{"name", set_name},
     {"use", set_use},
     {"from", set_from},
     {"inlets", set_inlets},
     {"loop", set_loop},
     {"window", set_window},
     {"on_error", set_on_error},
     {"max_failures", set_max_failures},
     {"host", set_host},
     {"initial", refuse_key}}};

/// Adds a setting, or replaces its value. Settings keep the order of the file.
void set_setting(written_stage& stage, config_entry entry) {
  const auto known = std::ranges::find(stage.settings, entry.key, &config_entry::key);
  if (known == stage.settings.end()) {
    stage.settings.push_back(std::move(entry));
  } else {
    *known = std::move(entry);
  }
}

}  // namespace

std::vector<std::string> keys_of_every_stage() {
  std::vector<std::string> names;
  // Keys that are always refused are no suggestion for a misspelt key.
  for (const auto& [key, set] : reserved) {
    if (set != refuse_key) {
      names.emplace_back(key);
    }
  }
  return names;
}

result<void> set_stage_key(written_stage& stage, const toml_item& item) {
  // A search through ten names is fast enough.
  for (const auto& [key, set] : reserved) {
    if (item.key == key) {
      return set(stage, item);
    }
  }
  // A table is a group of settings: its keys follow behind a dot.
  std::vector<config_entry> entries;
  if (item.table) {
    // Inner tables add further parts to the key.
    add_entries(item, item.key + ".", entries);
  } else {
    entries.push_back({item.key, item.value, item.where});
  }
  // Later values replace earlier ones, as with assignments.
  for (config_entry& entry : entries) {
    set_setting(stage, std::move(entry));
  }
  return {};
}

result<written_stage> read_stage(const toml_item& table) {
  written_stage stage;
  stage.where = table.where;
  // Errors are those of the first wrong key in the file.
  for (const toml_item& item : table.items) {
    WEIR_CHECK(set_stage_key(stage, item));
  }
  // The two keys without which a stage cannot be added.
  for (const auto& [key, value] : {std::pair{"name", &stage.name}, {"use", &stage.use}}) {
    if (value->empty()) {
      return error(errc::invalid_argument,
                   fmt::format("cannot add {}: expected the key \"{}\", found none",
                               stage.name.empty()
                                   ? std::string("a stage")
                                   : fmt::format("the stage \"{}\"", stage.name),
                               key))
          .located(table.where);
    }
  }
  return stage;
}

}  // namespace weir::tools
