// SPDX-License-Identifier: Apache-2.0
/// @file
/// Applies values of a file and of the command line to a configuration. Every error names
/// the key and the place of its value.
///
/// A configuration begins with the defaults of its table of settings. The file changes
/// them first, then the assignments of the command line in their order. Both become lists
/// of keys and values, so one function applies either.
#include "config.hpp"

#include <fmt/core.h>

#include <filesystem>

#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"
#include "weir/base/settings.hpp"

namespace weir::tools {

namespace {

using actors::run_config;

/// Returns a path as seen from a folder. A path that is absolute already stays.
std::string absolute_path(const std::string& path, const std::string& base_folder) {
  return (std::filesystem::path(base_folder) / path).lexically_normal().string();
}

/// An empty text, if the folder has been removed, makes paths stay relative.
std::string working_folder() {
  std::error_code ignored;
  return std::filesystem::current_path(ignored).string();
}

/// Returns the end of a setting's comment.
const char* change_note(std::string_view key) {
  switch (actors::rule_of_change(key)) {
    case actors::change_rule::free: return " (may change at a resume)";
    case actors::change_rule::recorded: return " (may change at a resume, is recorded)";
    case actors::change_rule::fixed: break;
  }
  return "";
}

/// @param full  Key with its table, @param key without it.
std::string line_of(const std::string& full, const setting_info& info,
                    const std::string& key, const setting_value& value) {
  // Documentation is a single line, so it fits behind one mark of a comment.
  return fmt::format("# {}{}\n{} = {}\n", info.documentation, change_note(full), key,
                     toml_text(value));
}

/// Applies entries in their order and stops at the first that is refused.
result<void> apply_all(run_config& config, std::span<const config_entry> entries,
                       const std::string& base_folder) {
  for (const config_entry& entry : entries) {
    WEIR_CHECK(apply_entry(config, entry, base_folder));
  }
  return {};
}

/// Parses all assignments before any of them is applied.
result<std::vector<config_entry>> parse_assignments(std::span<const std::string> sets) {
  std::vector<config_entry> out;
  for (const std::string& set : sets) {
    WEIR_TRY(config_entry entry, parse_assignment(set));
    out.push_back(std::move(entry));
  }
  return out;
}

/// The values of a setting before and after an assignment.
struct setting_change {
  setting_value was;
  setting_value now;
  bool allowed = false;  ///< a resumed run may have another value
};

/// Returns what an assignment has changed. A source that is new has had its defaults
/// before. Settings of the run have a rule here; those of a named source are compared
/// with the stored ones when the run is resumed.
result<setting_change> change_of(const std::string& key, const run_config& before,
                                 const run_config& after) {
  if (!key.starts_with(actors::source_prefix)) {
    const auto* found = actors::run_settings().find(key);
    // The key exists, since the assignment has been accepted.
    const bool fixed = actors::rule_of_change(key) == actors::change_rule::fixed;
    return setting_change{found->get(before), found->get(after), !fixed};
  }
  WEIR_TRY(const auto found, actors::parse_source_key(key));
  const auto was = before.sources.find(found.name);
  return setting_change{
      found.info->get(was == before.sources.end() ? actors::source_settings()
                                                  : was->second),
      // The source exists here, because the assignment has made it if it was new.
      found.info->get(after.sources.at(found.name)), true};
}

/// Reads a file without assignments of the command line.
result<run_config> read_config(const std::string& path) {
  WEIR_TRY(const byte_vector content, read_file(posix_file_system(), path));
  WEIR_TRY(const auto entries, parse_toml(as_text(content), path));
  std::error_code ignored;
  const auto full = std::filesystem::absolute(path, ignored);
  // Everything that the file does not name keeps its default.
  run_config config;
  WEIR_CHECK(apply_all(config, entries, full.parent_path().string()));
  return config;
}

}  // namespace

/// Sets one key. Relative paths count from the folder of the file in which they stand, or
/// from the working folder for those of the command line, and are stored as absolute
/// ones, so that a resumed run finds them from anywhere.
result<void> apply_entry(run_config& config, const config_entry& entry,
                         const std::string& base_folder) {
  // The table of settings knows the key but not its place, so the place is added here.
  if (auto set = actors::assign_setting(config, entry.key, entry.value); !set) {
    return std::move(set).error().located(entry.where);
  }
  const auto absolute = [&](const std::string& path) {
    return absolute_path(path, base_folder);
  };
  // The key may be another one than that of the path, and then the path is absolute
  // already and does not change.
  if (entry.key.starts_with("stream.")) {
    actors::replace_paths(config.source, absolute);
  } else if (entry.key.starts_with(actors::source_prefix)) {
    // Keys of named sources have the name in their middle.
    WEIR_TRY(const auto key, actors::parse_source_key(entry.key));
    actors::replace_paths(config.sources[key.name], absolute);
  }
  return {};
}

result<run_config> load_config(const std::string& path,
                               std::span<const std::string> sets) {
  WEIR_TRY(run_config config, read_config(path));
  WEIR_TRY(const auto assignments, parse_assignments(sets));
  WEIR_CHECK(apply_all(config, assignments, working_folder()));
  return config;
}

/// Reads the configuration of a run that has begun. A setting that is part of the run's
/// identity may be given again, but only with the same value.
result<run_config> load_resume_config(const std::string& folder,
                                      std::span<const std::string> sets) {
  // The file has the values with which the run began, and those of its recorded changes.
  WEIR_TRY(run_config config, read_config(join_path(folder, "config.toml")));
  WEIR_TRY(const auto assignments, parse_assignments(sets));
  for (const config_entry& entry : assignments) {
    // A copy is needed for the comparison. A configuration is small.
    const run_config before = config;
    WEIR_CHECK(apply_entry(config, entry, working_folder()));
    WEIR_TRY(const setting_change change, change_of(entry.key, before, config));
    // The same value once more is no change, whatever the rule.
    if (!change.allowed && change.was != change.now) {
      return error(errc::config_mismatch,
                   fmt::format("cannot change key \"{}\" of a run that has begun: "
                               "expected {}, found {}",
                               entry.key, toml_text(change.was), toml_text(change.now)))
          .located(entry.where)
          .hint("begin another run with `weir run`");
    }
  }
  return config;
}

/// Writes the configuration as TOML, with the documentation of each key as a comment.
std::string to_toml(const run_config& config) {
  std::string out;
  std::string table;
  for (const auto& key : actors::run_settings().entries()) {
    const std::size_t dot = key.name.find('.');
    const std::string group = dot == std::string::npos ? "" : key.name.substr(0, dot);
    // Keys of one table follow each other in the list, so each table is opened once.
    if (group != table) {
      out += fmt::format("\n[{}]\n", group);
      table = group;
    }
    const std::string inner =
        // In a table, the key has no longer its first part.
        dot == std::string::npos ? key.name : key.name.substr(dot + 1);
    out += line_of(key.name, key, inner, key.get(config));
  }
  const actors::source_settings untouched{};
  for (const auto& [name, source] : config.sources) {
    out += fmt::format("\n[{}{}]\n", actors::source_prefix, name);
    for (const auto& key : actors::source_table().entries()) {
      // Named sources write only what differs from the defaults, since there may be many.
      if (key.get(source) != key.get(untouched)) {
        const std::string full = fmt::format("{}{}.", actors::source_prefix, name);
        out += line_of(full + key.name, key, key.name, key.get(source));
      }
    }
  }
  return out;
}

}  // namespace weir::tools
