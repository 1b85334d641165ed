// SPDX-License-Identifier: Apache-2.0
/// @file
/// Applies values to a configuration, with messages that name key and place.
#include "config.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"

namespace weir::tools {

namespace {

using actors::run_config;

const config_key* find_key(std::string_view name) {
  for (const config_key& key : config_keys()) {
    if (key.name == name) {
      return &key;
    }
  }
  return nullptr;
}

// The nearest name; a last part alone ("chunk") means the key that ends with it.
std::string suggestion(std::string_view name) {
  std::vector<std::string> names;
  for (const config_key& key : config_keys()) {
    const std::size_t dot = key.name.rfind('.');
    if (dot != std::string::npos && key.name.substr(dot + 1) == name) {
      return fmt::format("; did you mean \"{}\"?", key.name);
    }
    names.push_back(key.name);
  }
  return did_you_mean(name, names);
}

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

result<void> apply_entry(run_config& config, const config_entry& entry,
                         const std::string& base_folder) {
  const auto& [name, value] = entry;
  const config_key* key = find_key(name);
  if (key == nullptr) {
    return error(errc::unknown_key, fmt::format("cannot set key \"{}\": expected a known "
                                                "key, found none of that name{}",
                                                name, suggestion(name)))
        .at(value.where);
  }
  const bool taken = key->assign(config, value);
  if (!taken) {
    return error(errc::invalid_argument,
                 fmt::format("cannot set key \"{}\": expected {}, found {}", name,
                             key->expected, value.describe()))
        .at(value.where);
  }
  if (name == "stream.path") {
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

result<run_config> load_resume_config(const std::string& folder,
                                      std::span<const std::string> sets) {
  WEIR_TRY(run_config config, read_config(join_path(folder, "config.toml")));
  WEIR_TRY(const auto assignments, parse_assignments(sets));
  for (const config_entry& entry : assignments) {
    const run_config before = config;
    WEIR_CHECK(apply_entry(config, entry, working_folder()));
    const config_key* key = find_key(entry.first);
    if (!key->may_change && key->show(before) != key->show(config)) {
      return error(errc::config_mismatch,
                   fmt::format("cannot change key \"{}\" of a run that has begun: "
                               "expected {}, found {}",
                               key->name, key->show(before), key->show(config)))
          .at(entry.second.where)
          .hint("begin another run with `weir run`");
    }
  }
  return config;
}

std::string to_toml(const run_config& config) {
  std::string out;
  std::string table;
  for (const config_key& key : config_keys()) {
    const std::size_t dot = key.name.find('.');
    const std::string in = dot == std::string::npos ? "" : key.name.substr(0, dot);
    if (in != table) {
      out += fmt::format("\n[{}]\n", in);
      table = in;
    }
    out += fmt::format(
        "# {}{}\n{} = {}\n", key.doc, key.may_change ? " (may change at a resume)" : "",
        dot == std::string::npos ? key.name : key.name.substr(dot + 1), key.show(config));
  }
  return out;
}

}  // namespace weir::tools
