// SPDX-License-Identifier: Apache-2.0
/// @file
/// Converts TOML to values of settings and back, with toml++. Only this source and that
/// of `weir module` include the library, because it takes long to compile.
///
/// Trees keep the place of every value, for messages. toml++ sorts the keys of a table,
/// so the order of the file is restored by sorting by place.
#include "values.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "config/toml_library.hpp"

namespace weir::tools {

namespace {

// Returns a place as "file:line:column", or the file alone if the position is unknown.
std::string place(const std::string& name, const toml::source_region& region) {
  return region.begin.line == 0
             ? name
             : fmt::format("{}:{}:{}", name, region.begin.line, region.begin.column);
}

/// Names a kind of value that no setting accepts, for messages.
std::string kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::date: return "a date";
    case toml::node_type::time: return "a time";
    case toml::node_type::date_time: return "a date and time";
    default: return "something else";
  }
}

// Converts a TOML value. Dates, times and tables, which no setting accepts, become
// foreign.
setting_value convert(const toml::node& node) {
  // The order of the questions does not matter, since a node has one kind.
  if (const auto* integer = node.as_integer()) {
    return {integer->get()};
  }
  if (const auto* real = node.as_floating_point()) {
    return {real->get()};
  }
  if (const auto* boolean = node.as_boolean()) {
    return {boolean->get()};
  }
  if (const auto* text = node.as_string()) {
    return {text->get()};
  }
  if (const auto* array = node.as_array()) {
    setting_value::list items;
    // Elements may have different kinds. The setting decides whether it accepts that.
    for (const toml::node& item : *array) {
      items.push_back(convert(item));
    }
    return {std::move(items)};
  }
  return {setting_value::foreign{kind_of(node)}};
}

// Sorts by the place in the text; toml++ sorts tables by their keys.
struct placed_item {
  toml::source_position position;
  toml_item item;
};

// Depth of tables that is looked at. No key lies deeper, so a deeper table is refused
// whatever is in it.
constexpr int max_nesting = 32;

/// Returns a node and all below it.
toml_item tree_of(const toml::node& node, std::string key, const std::string& name,
                  int depth = 0) {
  // A table has no value of its own; `convert` gives it a foreign one.
  toml_item out{std::move(key), convert(node), place(name, node.source()),
                node.source().begin.line};
  if (const auto* table = node.as_table()) {
    out.table = true;
    if (depth == max_nesting) {
      return out;
    }
    std::vector<placed_item> children;
    for (const auto& [inner, child] : *table) {
      // The place of the key, not of the value, decides about the order.
      children.push_back({inner.source().begin,
                          tree_of(child, std::string(inner.str()), name, depth + 1)});
    }
    // Keys at equal places, as those of a dotted key, keep their order.
    std::stable_sort(children.begin(), children.end(), [](const auto& a, const auto& b) {
      return a.position < b.position;
    });
    for (placed_item& child : children) {
      out.items.push_back(std::move(child.item));
    }
  } else if (node.is_array_of_tables()) {
    // An array with values that are not tables is an ordinary value.
    out.list_of_tables = true;
    for (const toml::node& child : *node.as_array()) {
      out.items.push_back(tree_of(child, "", name, depth + 1));
    }
  }
  return out;
}

// Returns line and column of a place such as "file:12:9", to sort by; toml++ sorts tables
// by their keys.
std::pair<std::size_t, std::size_t> line_and_column(const std::string& where) {
  // The name may contain colons, so the search begins at the end.
  const std::size_t second = where.rfind(':');
  const std::size_t first =
      second == std::string::npos ? second : where.rfind(':', second - 1);
  if (first == std::string::npos) {
    return {0, 0};
  }
  // Reads up to the next colon.
  return {std::strtoull(where.c_str() + first + 1, nullptr, 10),
          std::strtoull(where.c_str() + second + 1, nullptr, 10)};
}

/// Returns a text as a TOML basic string, quotes included. Unlike JSON, TOML forbids the
/// control character 0x7F, too.
std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    // The two characters that end or change a string.
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7F) {
      // All control characters become escapes, also those that have short ones.
      out += fmt::format("\\u{:04X}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// Writes each kind of value as TOML.
struct toml_writer {
  std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
  std::string operator()(double v) const {
    const std::string text = fmt::format("{}", v);
    // A real must have a point or an exponent, or it would be read back as an integer.
    // "nan" and "inf" have letters.
    const bool is_integer = text.find_first_not_of("-0123456789") == std::string::npos;
    return is_integer ? text + ".0" : text;
  }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(const std::string& v) const { return quote(v); }
  std::string operator()(const setting_value::list& v) const {
    std::string out = "[";
    for (const setting_value& item : v) {
      out += out.size() == 1 ? "" : ", ";
      out += std::visit(*this, item.data);
    }
    return out + "]";
  }
  // No file can hold such a value; this is for messages.
  std::string operator()(const setting_value::foreign& v) const {
    return quote(v.description);
  }
};

}  // namespace

result<toml_item> parse_toml_tree(std::string_view text, const std::string& name) {
  WEIR_CHECK(check_key_depth(text, name));
  // The library reports problems by its result, as it is built without exceptions.
  const toml::parse_result parsed = toml::parse(text, name);
  if (!parsed) {
    const toml::parse_error& problem = parsed.error();
    return error(errc::invalid_argument,
                 fmt::format(
                     "cannot read configuration \"{}\": expected TOML, found \"{}\"",
                     name, std::string(problem.description())))
        .located(place(name, problem.source()));
  }
  return tree_of(parsed.table(), "", name);
}

// The recursion is as deep as the tables are nested.
void add_entries(const toml_item& table, const std::string& prefix,
                 std::vector<config_entry>& to) {
  for (const toml_item& item : table.items) {
    if (item.table) {
      add_entries(item, prefix + item.key + ".", to);
    } else {
      to.push_back({prefix + item.key, item.value, item.where});
    }
  }
}

/// Reads a TOML file as a flat list of keys, in the order of the file, which the parser
/// does not keep. So the first mistake in the file is the one that is reported.
result<std::vector<config_entry>> parse_toml(std::string_view text,
                                             const std::string& name) {
  WEIR_TRY(const toml_item root, parse_toml_tree(text, name));
  std::vector<config_entry> out;
  // A flat list, in which dotted keys and tables look the same.
  add_entries(root, "", out);
  // Tables may be interleaved in the file, so the flat list is sorted once more.
  std::stable_sort(out.begin(), out.end(),
                   [](const config_entry& a, const config_entry& b) {
                     return line_and_column(a.where) < line_and_column(b.where);
                   });
  return out;
}

/// Reads key=value. The value is TOML if it can be read as such, and otherwise a string,
/// so that simple texts need no quotes in a shell.
result<config_entry> parse_assignment(std::string_view assignment) {
  // The first sign separates. Further ones belong to the value.
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
  // A text such as "./a/./b" has many points and is no TOML, so it is a string.
  if (!check_key_depth(text, where)) {
    return config_entry{key, {text}, where};
  }
  // The text is read as the value of a key, as it would stand in a file.
  const toml::parse_result parsed = toml::parse("value = " + text);
  // A text with line breaks can parse as more than one key; it is then taken as a string.
  if (parsed && parsed.table().size() == 1 && parsed.table().contains("value")) {
    return config_entry{key, convert(*parsed.table().get("value")), where};
  }
  return config_entry{key, {text}, where};
}

std::string toml_text(const setting_value& value) {
  return std::visit(toml_writer{}, value.data);
}

}  // namespace weir::tools
