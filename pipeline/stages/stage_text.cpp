// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads a stage with its settings from one line of text.
///
/// The form is that of `concat` and `mix`: a name, and settings as name=value. Texts may
/// stand in quotes, which have no escapes.
#include "stages/stage_text.hpp"

#include <charconv>

#include <fmt/format.h>

namespace weir::flow {
namespace {

/// Error of the whole line.
error bad_line(std::string_view line, std::string_view expected, std::string_view found) {
  return error(errc::invalid_argument,
               fmt::format("cannot read the stage \"{}\": expected {}, found {}", line,
                           expected, found));
}

/// Only blanks separate settings.
void skip_spaces(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
}

/// Takes the characters before the first of `ends`, or all.
std::string_view take_until(std::string_view& rest, std::string_view ends) {
  const std::string_view word = rest.substr(0, rest.find_first_of(ends));
  rest.remove_prefix(word.size());
  return word;
}

/// Returns the value of a word without quotes.
/// The first form that takes the whole word counts: truth value, integer, number, text.
setting_value value_of(std::string_view word) {
  if (word == "true" || word == "false") {
    return {word == "true"};
  }
  // The order of the attempts matters: "1" is an integer and no real number.
  const char* end = word.data() + word.size();
  std::int64_t integer = 0;
  if (const auto read = std::from_chars(word.data(), end, integer);
      read.ec == std::errc() && read.ptr == end) {
    return {integer};
  }
  double number = 0;
  if (const auto read = std::from_chars(word.data(), end, number);
      read.ec == std::errc() && read.ptr == end) {
    return {number};
  }
  return {std::string(word)};
}

/// Takes a value. In quotes it is always a text.
result<setting_value> take_value(std::string_view& rest, std::string_view line) {
  // Without quotes, a value ends at the next blank.
  if (!rest.starts_with('"')) {
    const std::string_view word = take_until(rest, " ");
    if (word.empty()) {
      return bad_line(line, "a value behind each \"=\"", "none");
    }
    return value_of(word);
  }
  // The text in quotes has no escapes, so the next quote ends it.
  const std::size_t end = rest.find('"', 1);
  if (end == std::string_view::npos) {
    return bad_line(line, "a quote at the end of a value", "none");
  }
  setting_value value{std::string(rest.substr(1, end - 1))};
  rest.remove_prefix(end + 1);
  if (!rest.empty() && !rest.starts_with(' ')) {
    return bad_line(line, "a blank behind each text in quotes",
                    fmt::format("\"{}\"", rest.substr(0, 1)));
  }
  return value;
}

}  // namespace

/// Reads a line. A setting may occur once.
result<stage_text> parse_stage_text(std::string_view line) {
  std::string_view rest = line;
  stage_text out;
  skip_spaces(rest);
  out.name = take_until(rest, " ");
  if (out.name.empty()) {
    return bad_line(line, "the name of a stage", "no text");
  }
  for (skip_spaces(rest); !rest.empty(); skip_spaces(rest)) {
    // A key ends at the sign of equality.
    const std::string key(take_until(rest, " ="));
    if (key.empty() || !rest.starts_with('=')) {
      return bad_line(line, "settings of the form name=value",
                      fmt::format("\"{}\"", key));
    }
    rest.remove_prefix(1);
    WEIR_TRY(setting_value value, take_value(rest, line));
    // A setting that occurs twice would hide one of its values.
    if (!out.settings.emplace(key, std::move(value)).second) {
      return error(
          errc::already_exists,
          fmt::format("cannot read the stage \"{}\": expected each setting once, "
                      "found \"{}\" twice",
                      line, key));
    }
  }
  return out;
}

}  // namespace weir::flow
