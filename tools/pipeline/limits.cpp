// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads limits in words.
///
/// A text of limits has the form "LIMIT, LIMIT, …", where a limit is a number and a unit,
/// such as "1000 items", "10 min" or "64 MiB". It is parsed without a grammar: the first
/// character that is neither a digit nor a point ends the number, and the unit tells
/// which of the three kinds of limit it is.
#include "limits.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string>
#include <utility>

#include "cli/output.hpp"

namespace weir::tools {

namespace {

/// Returns a text without the spaces and tabs at its ends.
std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Reads a number that covers the whole text.
template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  return problem == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

/// Returns the seconds of a unit of time; 0 for other words.
double seconds_of(std::string_view unit) {
  constexpr std::array<std::pair<std::string_view, double>, 4> units{
      // Minutes are "min", because "m" reads as metres, and sizes begin with a capital
      // "M".
      {{"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}}};
  const auto* const found =
      std::ranges::find(units, unit, &std::pair<std::string_view, double>::first);
  return found == units.end() ? 0 : found->second;
}

/// Stores a limit. @returns False if it is absent, 0, or there was one of its kind.
template <class Number>
bool store_limit(std::optional<Number>& place, std::optional<Number> limit) {
  // A limit of zero would be reached before the first item, and two limits of one kind
  // leave open which of them holds. For a time, `> 0` also refuses NaN.
  if (place || !limit || !(*limit > 0)) {
    return false;
  }
  place = limit;
  return true;
}

/// Reads a time of up to a thousand years.
std::optional<double> parse_seconds(std::string_view number, double unit) {
  // A year has about 3.2e7 seconds.
  constexpr double max_seconds = 3.2e10;
  const auto count = whole_number<double>(number);
  return count && *count * unit <= max_seconds ? std::optional(*count * unit)
                                               : std::nullopt;
}

/// Reads one limit and stores it in the place of its kind.
/// @returns False if the text is no limit, or if its kind has one.
bool add_limit(std::string_view text, limits& to) {
  // The number has no sign and no exponent, so it cannot be negative or infinite.
  const std::size_t end = text.find_first_not_of("0123456789.");
  if (end == std::string_view::npos || end == 0) {
    return false;
  }
  const std::string_view number = text.substr(0, end);
  const std::string_view unit = trimmed(text.substr(end));
  if (unit == "item" || unit == "items") {
    return store_limit(to.items, whole_number<std::uint64_t>(number));
  }
  if (const double seconds = seconds_of(unit); seconds > 0) {
    return store_limit(to.seconds, parse_seconds(number, seconds));
  }
  // Every other unit is left to the parser of sizes, which refuses unknown ones. It
  // expects number and unit without a space between them.
  const auto bytes = parse_size(std::string(number) + std::string(unit));
  return bytes && store_limit(to.bytes, std::optional(*bytes));
}

}  // namespace

std::optional<limits> parse_limits(std::string_view text) {
  limits found;
  // An empty part, as after a comma at the end, is no limit and thereby an error.
  for (;;) {
    const std::size_t comma = text.find(',');
    if (!add_limit(trimmed(text.substr(0, comma)), found)) {
      return std::nullopt;
    }
    if (comma == std::string_view::npos) {
      return found;
    }
    text.remove_prefix(comma + 1);
  }
}

}  // namespace weir::tools
