// SPDX-License-Identifier: Apache-2.0
/// @file
/// The only file that knows toml++.
#include "values.hpp"

#include <fmt/core.h>

#include <algorithm>

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace weir::tools {

namespace {

std::string place(const std::string& name, const toml::source_region& region) {
  return region.begin.line == 0
             ? name
             : fmt::format("{}:{}:{}", name, region.begin.line, region.begin.column);
}

std::string kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::date: return "a date";
    case toml::node_type::time: return "a time";
    case toml::node_type::date_time: return "a date and time";
    default: return "something else";
  }
}

config_value convert(const toml::node& node, const std::string& name) {
  config_value out{{}, place(name, node.source())};
  if (const auto* integer = node.as_integer()) {
    out.data = integer->get();
  } else if (const auto* real = node.as_floating_point()) {
    out.data = real->get();
  } else if (const auto* boolean = node.as_boolean()) {
    out.data = boolean->get();
  } else if (const auto* text = node.as_string()) {
    out.data = text->get();
  } else if (const auto* array = node.as_array()) {
    config_list items;
    for (const toml::node& item : *array) {
      items.push_back(convert(item, name));
    }
    out.data = std::move(items);
  } else {
    out.data = config_value::other{kind_of(node)};
  }
  return out;
}

// Tables of TOML nest as deep as the parser allows, which is bounded.
void flatten(const toml::table& table, const std::string& prefix, const std::string& name,
             std::vector<config_entry>& out) {
  for (const auto& [key, node] : table) {
    const std::string full = prefix + std::string(key.str());
    const auto* inner = node.as_table();
    if (inner != nullptr && !inner->empty()) {
      flatten(*inner, full + ".", name, out);
    } else if (inner == nullptr) {
      out.emplace_back(full, convert(node, name));
    }
  }
}

// "file:12:9" with the numbers made comparable: the order of the file.
std::pair<std::size_t, std::size_t> line_and_column(const std::string& where) {
  const std::size_t second = where.rfind(':');
  const std::size_t first =
      second == std::string::npos ? second : where.rfind(':', second - 1);
  if (first == std::string::npos) {
    return {0, 0};
  }
  return {std::strtoull(where.c_str() + first + 1, nullptr, 10),
          std::strtoull(where.c_str() + second + 1, nullptr, 10)};
}

}  // namespace

std::string config_value::describe() const {
  struct visitor {
    std::string operator()(std::int64_t v) const { return fmt::format("integer {}", v); }
    std::string operator()(double v) const { return fmt::format("number {}", v); }
    std::string operator()(bool v) const { return fmt::format("boolean {}", v); }
    std::string operator()(const std::string& v) const {
      return fmt::format("string {}",
                         toml_quote(v.size() > 60 ? v.substr(0, 57) + "..." : v));
    }
    std::string operator()(const config_list& v) const {
      return fmt::format("an array of {}", v.size());
    }
    std::string operator()(const other& v) const { return v.kind; }
  };
  return std::visit(visitor{}, data);
}

result<std::vector<config_entry>> parse_toml(std::string_view text,
                                             const std::string& name) {
  const toml::parse_result parsed = toml::parse(text, name);
  if (!parsed) {
    const toml::parse_error& problem = parsed.error();
    return error(errc::invalid_argument,
                 fmt::format("cannot read configuration \"{}\": expected TOML, found {}",
                             name, std::string(problem.description())))
        .at(place(name, problem.source()));
  }
  std::vector<config_entry> out;
  flatten(parsed.table(), "", name, out);
  std::stable_sort(
      out.begin(), out.end(), [](const config_entry& a, const config_entry& b) {
        return line_and_column(a.second.where) < line_and_column(b.second.where);
      });
  return out;
}

result<config_entry> parse_assignment(std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return error(errc::invalid_argument,
                 fmt::format("cannot set \"{}\": expected key=value, found no {}",
                             assignment, equals == 0 ? "key" : "\"=\""))
        .hint("for example --set stream.chunk=128");
  }
  const std::string key(assignment.substr(0, equals));
  const std::string text(assignment.substr(equals + 1));
  const std::string where = fmt::format("--set {}", key);
  const toml::parse_result parsed = toml::parse("value = " + text);
  // A text with line breaks could smuggle in more keys; then it is meant as text.
  if (parsed && parsed.table().size() == 1 && parsed.table().contains("value")) {
    config_value value = convert(*parsed.table().get("value"), where);
    value.where = where;
    return config_entry{key, std::move(value)};
  }
  return config_entry{key, config_value{text, where}};
}

std::string toml_quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\u{:04X}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace weir::tools
