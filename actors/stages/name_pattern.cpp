// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reading of patterns, and the names that they give.
///
/// A pattern is a list of parts: text, the number of the item, or an attribute. Example:
/// `a/{item:3}-{kind}` gives `a/007-x` for item 7 with the attribute kind = x.
#include "stages/name_pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "weir/base/text.hpp"

namespace weir::actors {
namespace {

/// Name of the number of the item.
constexpr std::string_view item_name = "item";
constexpr std::size_t max_digits = 20;  // of a number of 64 bits

/// @param expected  Continues "expected ".
error bad_pattern(std::string_view text, std::string_view expected) {
  return error(errc::invalid_argument,
               fmt::format("cannot use the pattern \"{}\": expected {}", text, expected));
}

/// Returns whether the name of a file or folder at the end of a path is empty or consists
/// of points.
bool ends_in_points(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const std::string_view name =
      slash == std::string_view::npos ? path : path.substr(slash + 1);
  return name.find_first_not_of('.') == std::string_view::npos;
}

/// Returns a value as it may stand in the path of a file.
/// @param before  The path in front of the value.
std::string file_part(std::string value, const std::string& before) {
  // The system would cut the path at a NUL, so that different values name one file.
  std::replace_if(
      value.begin(), value.end(), [](char c) { return c == '/' || c == '\0'; }, '_');
  if (value.starts_with('.')) {
    value.front() = '_';
  }
  // A path that begins with a slash would be an absolute one, and "." and ".." are
  // folders that exist.
  if (value.empty() && ends_in_points(before)) {
    return "_";
  }
  return value;
}

}  // namespace

/// Reads a pattern. Braces cannot be nested and cannot stand for themselves.
result<name_pattern> name_pattern::parse(std::string_view text) {
  name_pattern out;
  if (text.find('\0') != std::string_view::npos) {
    return bad_pattern(text, "text without NUL");
  }
  for (std::size_t at = 0; at < text.size();) {
    // The next brace, or the end.
    const std::size_t brace = std::min(text.find_first_of("{}", at), text.size());
    // Text up to the next brace.
    if (brace != at) {
      out.parts_.push_back({std::string(text.substr(at, brace - at))});
      at = brace;
      continue;
    }
    // A name ends at the next brace, which must close it.
    const std::size_t end = text.find_first_of("{}", at + 1);
    // A closing brace without an opening one, an unclosed one, or an empty name.
    if (text[at] == '}' || end == std::string_view::npos || text[end] == '{' ||
        end == at + 1) {
      return bad_pattern(text, "a name between each pair of braces");
    }
    const std::string_view name = text.substr(at + 1, end - at - 1);
    at = end + 1;
    part one{std::string(name), true};
    // The number of the item has at least one digit; other names have 0 digits.
    if (name == item_name) {
      one.digits = 1;
    } else if (name.starts_with("item:")) {
      // The digits behind the colon.
      const char* const first = name.data() + item_name.size() + 1;
      const char* const last = name.data() + name.size();
      const auto [rest, code] = std::from_chars(first, last, one.digits);
      if (code != std::errc() || rest != last || one.digits == 0 ||
          one.digits > max_digits) {
        return bad_pattern(text, "1 to 20 digits behind \"item:\"");
      }
    }
    out.parts_.push_back(std::move(one));
  }
  return out;
}

/// Values are not checked: they may hold any text.
result<std::string> name_pattern::name_of(std::uint64_t item,
                                          const attributes& about) const {
  return replaced(item, about, false);
}

/// Only values are changed; the text of the pattern is that of the user.
result<std::string> name_pattern::file_of(std::uint64_t item,
                                          const attributes& about) const {
  return replaced(item, about, true);
}

/// Puts the facts of an item into the pattern. An attribute that the item lacks is an
/// error with the most similar name.
result<std::string> name_pattern::replaced(std::uint64_t item, const attributes& about,
                                           bool for_file) const {
  std::string out;
  for (const part& one : parts_) {
    if (!one.in_braces) {
      out += one.text;
    } else if (one.digits != 0) {
      // Leading zeros fill up to the number of digits.
      out += fmt::format("{:0{}}", item, one.digits);
    } else if (const auto found = about.find(one.text); found != about.end()) {
      std::string value =
          std::visit([](const auto& one_value) { return fmt::format("{}", one_value); },
                     found->second);
      out += for_file ? file_part(std::move(value), out) : value;
    } else {
      // The names of all attributes, for the suggestion.
      std::vector<std::string> known;
      for (const auto& [name, value] : about) {
        known.push_back(name);
      }
      return error(
          errc::not_found,
          fmt::format("cannot name item {}: expected the attribute \"{}\", found "
                      "none of that name{}",
                      item, one.text, did_you_mean(one.text, known)));
    }
  }
  return out;
}

/// Names with the number differ from item to item, unless attributes make them equal.
bool name_pattern::has_number() const noexcept {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const part& one) { return one.digits != 0; });
}

/// A constant pattern gives every item the same name.
bool name_pattern::is_constant() const noexcept {
  return std::none_of(parts_.begin(), parts_.end(),
                      [](const part& one) { return one.in_braces; });
}

/// Only the number, without attributes, makes sure that no two items have one name.
bool name_pattern::is_unique() const noexcept {
  return has_number() && std::none_of(parts_.begin(), parts_.end(), [](const part& one) {
           return one.in_braces && one.digits == 0;
         });
}

}  // namespace weir::actors
