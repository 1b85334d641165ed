// SPDX-License-Identifier: Apache-2.0
/// @file
/// Formats lists of settings as a page, as text and as JSON.
///
/// All forms are made from the same list, so the page in docs, the text in the terminal
/// and the JSON agree. A test compares the page with what is printed here.
#include "reference.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "values.hpp"
#include "weir/actors/run.hpp"

namespace weir::tools {

namespace {

constexpr std::string_view page_head = R"(# Settings of a run

`weir run FILE` takes its settings from a TOML file, and `--set KEY=VALUE` overrides the
file. A table of TOML makes the first part of a key: `heads = 4` under `[model]` sets
`model.heads`. The value of `--set` is read as TOML; what is not TOML is a string.

The `config.toml` in the folder of a run holds the values with which the run began, and
those of recorded changes.
`weir resume DIR --set KEY=VALUE` may change the keys that say so below: for the process
that continues the run, or, if the change is recorded, for the rest of the run.

This page is what `weir settings --markdown` prints. `weir settings KEY` prints one key or
one group of keys. NAME is a name of your choice: a table `[source.NAME]` describes a
source of tokens to which other settings refer.
)";

/// Returns whether a change of a setting at a resume goes into the history of the run.
bool is_recorded(const setting_info& info) {
  return !info.may_change &&
         actors::rule_of_change(info.name) == actors::change_rule::recorded;
}

/// Returns the table of a key. For named sources it has two parts, such as "source.NAME".
std::string group_of(const std::string& name) {
  if (name.starts_with(actors::source_prefix)) {
    return name.substr(0, name.find('.', actors::source_prefix.size()));
  }
  // A key without a point belongs to the run itself.
  const std::size_t dot = name.find('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

/// Returns the default of a setting as TOML, or says that there is none.
std::string preset_of(const listed_setting& s) {
  return s.info->required ? "none, it has to be given" : toml_text(s.preset);
}

/// Returns what a setting accepts, with its unit if it has one.
std::string range_of(const setting_info& info) {
  return info.unit.empty() ? info.expected()
                           : fmt::format("{} ({})", info.expected(), info.unit);
}

}  // namespace

setting_list settings_of_run() {
  setting_list all = list_settings(actors::run_settings());
  // Named sources are no fixed settings. Their reference has NAME in place of a name.
  const setting_list named = list_settings(actors::source_reference());
  all.insert(all.end(), named.begin(), named.end());
  return all;
}

result<setting_list> select_settings(std::span<const listed_setting> all,
                                     std::string_view name) {
  setting_list chosen;
  std::vector<std::string> names;
  for (const listed_setting& s : all) {
    names.push_back(s.info->name);
    // A whole key, or the first parts of several keys.
    if (s.info->name == name || s.info->name.starts_with(std::string(name) + ".")) {
      chosen.push_back(s);
    }
  }
  // The error suggests the nearest of all names.
  if (chosen.empty()) {
    return unknown_setting(name, names);
  }
  return chosen;
}

/// Four lines for each setting, of which only the first is not indented.
std::string settings_text(std::span<const listed_setting> settings) {
  std::string out;
  for (const listed_setting& s : settings) {
    out += fmt::format("{}\n    {}\n    takes {}\n    default: {}{}\n", s.info->name,
                       s.info->documentation, range_of(*s.info), preset_of(s),
                       s.info->may_change     ? "; may change at a resume"
                       : is_recorded(*s.info) ? "; may change at a resume, is recorded"
                                              : "");
  }
  return out;
}

/// The default is text in TOML here, too, because JSON cannot tell 1 from 1.0.
std::string settings_json(std::span<const listed_setting> settings) {
  auto all = nlohmann::ordered_json::array();
  for (const listed_setting& s : settings) {
    nlohmann::ordered_json one;
    one["name"] = s.info->name;
    one["documentation"] = s.info->documentation;
    one["takes"] = s.info->expected();
    one["unit"] = s.info->unit;
    one["default"] = s.info->required ? nlohmann::ordered_json()
                                      : nlohmann::ordered_json(toml_text(s.preset));
    one["required"] = s.info->required;
    one["may_change"] = s.info->may_change || is_recorded(*s.info);
    all.push_back(std::move(one));
  }
  return all.dump(2) + "\n";
}

/// The page has a table for each group, in the order of the list.
std::string settings_page(std::span<const listed_setting> settings) {
  std::string out(page_head);
  // No group has this name, so the first setting begins one.
  std::string group = "none yet";
  for (const listed_setting& s : settings) {
    if (const std::string next = group_of(s.info->name); next != group) {
      group = next;
      out += fmt::format(
          "\n## {}\n\n| key | meaning | takes | default | at a resume |\n"
          "| --- | --- | --- | --- | --- |\n",
          group.empty() ? "The run itself" : "[" + group + "]");
    }
    const std::string preset = preset_of(s);
    out +=
        fmt::format("| `{}` | {} | {} | {} | {} |\n", s.info->name, s.info->documentation,
                    // Values are printed as code, words are not.
                    range_of(*s.info), s.info->required ? preset : "`" + preset + "`",
                    s.info->may_change     ? "may change"
                    : is_recorded(*s.info) ? "may change, is recorded"
                                           : "fixed");
  }
  return out;
}

std::string settings_names(std::span<const listed_setting> settings,
                           bool may_change_only) {
  // Fits into a terminal of 80 columns.
  constexpr std::size_t width = 78;
  std::string out;
  std::string line = " ";
  for (const listed_setting& s : settings) {
    // The help of `weir resume` leaves out what cannot change.
    if (may_change_only && !s.info->may_change && !is_recorded(*s.info)) {
      continue;
    }
    // A name that does not fit begins the next line.
    if (line.size() + 1 + s.info->name.size() > width) {
      out += line + "\n";
      line = " ";
    }
    line += " " + s.info->name;
  }
  return out + line + "\n";
}

}  // namespace weir::tools
