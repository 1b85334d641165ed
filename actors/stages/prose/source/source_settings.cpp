// SPDX-License-Identifier: Apache-2.0
/// @file
/// The table of a source's settings, the keys of named sources, and the check of a
/// source.
#include "weir/actors/source_settings.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "stages/prose/source/open_mix.hpp"
#include "weir/base/settings.hpp"

namespace weir::actors {
namespace {

bool can_be_paths(const std::vector<std::string>& paths) {
  return std::all_of(paths.begin(), paths.end(), [](const std::string& path) {
    return !path.empty() && path.find('\0') == std::string::npos;
  });
}

bool is_source_name(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_';
  };
  return !name.empty() && name.size() <= 100 &&
         std::all_of(name.begin(), name.end(), is_plain);
}

error missing_setting(std::string_view prefix, std::string_view key) {
  setting_info info = *source_table().find(key);
  info.name = std::string(prefix) + info.name;
  return refused_setting("the run", info, {setting_value::foreign{"none"}});
}

}  // namespace

const settings_table<source_settings>& source_table() {
  static const settings_table<source_settings> all = [] {
    using s = source_settings;
    settings_table<s> t("the source");
    t.add("path", &s::paths,
          "Files, folders and patterns in the order of reading; \"-\" is standard input")
        .single()
        .rule("none of them empty", can_be_paths);
    t.add("eot", &s::eot, "Put an end-of-text token between files");
    t.include("mix.", &s::mix, mix_table());
    t.include("shuffle.", &s::shuffle, shuffle_table());
    t.include("sample.", &s::sample, sample_table());
    return t;
  }();
  return all;
}

const settings_table<example_source>& source_reference() {
  static const settings_table<example_source> all = [] {
    settings_table<example_source> t("a named source");
    t.include(std::string(source_prefix) + "NAME.", &example_source::source,
              source_table());
    return t;
  }();
  return all;
}

result<source_key> parse_source_key(std::string_view key) {
  WEIR_EXPECT(key.starts_with(source_prefix));
  const std::string_view rest = key.substr(source_prefix.size());
  const std::size_t dot = std::min(rest.find('.'), rest.size());
  const std::string_view name = rest.substr(0, dot);
  if (!is_source_name(name)) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot set key \"{}\": expected the name of a source with 1 "
                    "to 100 letters, digits, \"-\" and \"_\", found \"{}\"",
                    key, name));
  }
  const std::string_view inner = rest.substr(std::min(dot + 1, rest.size()));
  source_key found{std::string(name), source_table().find(inner)};
  if (found.info == nullptr) {
    std::vector<std::string> known;
    for (const auto& one : source_table().entries()) {
      known.push_back(fmt::format("{}{}.{}", source_prefix, name, one.name));
    }
    return unknown_setting(key, known);
  }
  return found;
}

result<void> assign_source(named_sources& sources, std::string_view key,
                           const setting_value& value) {
  WEIR_TRY(const source_key found, parse_source_key(key));
  if (!found.info->accepts(value)) {
    setting_info info = *found.info;
    info.name = std::string(key);
    return refused_value(info, value);
  }
  found.info->set(sources[found.name], value);
  return {};
}

void replace_paths(source_settings& source,
                   const std::function<std::string(const std::string&)>& replace) {
  for (std::string& path : source.paths) {
    if (path != "-") {
      path = replace(path);
    }
  }
}

result<void> check_source(std::string_view prefix, const source_settings& source) {
  WEIR_CHECK(source_table().check(source));
  return source.paths.empty() && source.mix.sources.empty()
             ? result<void>(missing_setting(prefix, "path"))
             : result<void>();
}

result<void> check_sources(const source_settings& stream, const named_sources& named) {
  WEIR_CHECK(check_source("stream.", stream));
  WEIR_CHECK(check_mix("stream.", stream, named));
  for (const auto& [name, source] : named) {
    WEIR_CHECK(check_source(fmt::format("{}{}.", source_prefix, name), source));
    WEIR_CHECK(check_mix(fmt::format("{}{}.", source_prefix, name), source, named));
  }
  return {};
}

}  // namespace weir::actors
