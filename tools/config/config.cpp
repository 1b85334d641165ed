// SPDX-License-Identifier: Apache-2.0
/// @file
/// Applies values of a file and of the command line to a configuration. Every error names
/// the key and the place of its value.
#include "config.hpp"

#include <fmt/core.h>

#include <filesystem>

#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"
#include "weir/base/settings.hpp"

namespace weir::tools {

namespace {

using actors::run_config;

// Returns a path as an absolute one; "-" stands for standard input and stays.
std::string absolute_path(const std::string& path, const std::string& base_folder) {
  if (path == "-") {
    return path;
  }
  return (std::filesystem::path(base_folder) / path).lexically_normal().string();
}

std::string working_folder() {
  std::error_code ignored;
  return std::filesystem::current_path(ignored).string();
}

result<void> apply_all(run_config& config, std::span<const config_entry> entries,
                       const std::string& base_folder) {
  for (const config_entry& entry : entries) {
    WEIR_CHECK(apply_entry(config, entry, base_folder));
  }
  return {};
}

result<std::vector<config_entry>> parse_assignments(std::span<const std::string> sets) {
  std::vector<config_entry> out;
  for (const std::string& set : sets) {
    WEIR_TRY(config_entry entry, parse_assignment(set));
    out.push_back(std::move(entry));
  }
  return out;
}

result<run_config> read_config(const std::string& path) {
  WEIR_TRY(const byte_vector content, read_file(posix_file_system(), path));
  WEIR_TRY(const auto entries, parse_toml(as_text(content), path));
  std::error_code ignored;
  const auto full = std::filesystem::absolute(path, ignored);
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
  if (auto set = actors::run_settings().assign(config, entry.key, entry.value); !set) {
    return std::move(set).error().located(entry.where);
  }
  if (entry.key == "stream.path") {
    for (std::string& path : config.paths) {
      path = absolute_path(path, base_folder);
    }
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
  WEIR_TRY(run_config config, read_config(join_path(folder, "config.toml")));
  WEIR_TRY(const auto assignments, parse_assignments(sets));
  for (const config_entry& entry : assignments) {
    const run_config before = config;
    WEIR_CHECK(apply_entry(config, entry, working_folder()));
    const auto* key = actors::run_settings().find(entry.key);
    const setting_value was = key->get(before), now = key->get(config);
    if (!key->may_change && was != now) {
      return error(errc::config_mismatch,
                   fmt::format("cannot change key \"{}\" of a run that has begun: "
                               "expected {}, found {}",
                               key->name, toml_text(was), toml_text(now)))
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
    if (group != table) {
      out += fmt::format("\n[{}]\n", group);
      table = group;
    }
    out += fmt::format("# {}{}\n{} = {}\n", key.documentation,
                       key.may_change ? " (may change at a resume)" : "",
                       dot == std::string::npos ? key.name : key.name.substr(dot + 1),
                       toml_text(key.get(config)));
  }
  return out;
}

}  // namespace weir::tools
