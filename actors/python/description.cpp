// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages of a Python file as values, from JSON.
///
/// The package `weir.describe` prints one object: either `error`, or `stages` with a
/// list. The key names here are those of python/weir/describe.py. The file was written by
/// the user, but the JSON was written by that program, so missing keys are reported as a
/// damaged description and not explained.
#include "python/description.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace weir::actors {
namespace {

/// Keeps the order of keys, which is that of the file.
using described_json = nlohmann::ordered_json;

/// Returns a default or a choice. An integer stays an integer.
/// A list may have values of one of the other types.
setting_value described_value(const described_json& from) {
  if (from.is_boolean()) {
    return {from.get<bool>()};
  }
  if (from.is_number_integer()) {
    return {from.get<std::int64_t>()};
  }
  if (from.is_number()) {
    return {from.get<double>()};
  }
  if (from.is_array()) {
    setting_value::list items;
    for (const described_json& item : from) {
      items.push_back(described_value(item));
    }
    return {std::move(items)};
  }
  return {from.get<std::string>()};
}

/// Returns the range of a number with the limits of the setting.
/// A limit that is absent leaves the range open on that side.
/// A range of reals begins at the lowest number, not at the smallest positive one.
template <class Range, class Number>
Range limited(const described_json& from, Number lowest) {
  Range range;
  range.low = from.contains("low") ? from["low"].get<Number>() : lowest;
  range.high = from.contains("high") ? from["high"].get<Number>() : range.high;
  return range;
}

/// Returns the values that a setting of a type accepts. The types are those of
/// annotations in Python: bool, int, float, str and lists of the last three.
setting_range range_of(const described_json& from, const std::string& type) {
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  if (type == "bool") {
    return boolean_range{};
  }
  if (type == "int") {
    return limited<integer_range>(from, least);
  }
  if (type == "float") {
    return limited<real_range>(from, std::numeric_limits<double>::lowest());
  }
  if (type == "str") {
    // Words with a fixed choice are a range of their own.
    return from.contains("choices")
               ? setting_range(
                     word_range{from["choices"].get<std::vector<std::string>>()})
               : setting_range(text_range{});
  }
  // A list may be given as a single value, which is a list of one.
  list_range list;
  // Other lists are those of texts.
  list.single = true;
  if (type == "list[int]") {
    list.items = limited<integer_range>(from, least);
  } else if (type == "list[float]") {
    list.items = limited<real_range>(from, std::numeric_limits<double>::lowest());
  } else {
    list.items = text_range{};
  }
  return list;
}

/// Adds the condition that a value is one of a few. Words have a range of their own.
/// The text is shown when a value is refused.
void add_choices(setting_info& setting, const described_json& from,
                 const std::string& type) {
  if (!from.contains("choices") || type == "str") {
    return;
  }
  std::vector<setting_value> choices;
  std::string text;
  // The text of the message has the choices as JSON.
  for (const described_json& one : from["choices"]) {
    choices.push_back(described_value(one));
    text += (text.empty() ? "one of " : ", ") + one.dump();
  }
  setting.rule_text = std::move(text);
  // An integer is also compared as a real number: `2` is a choice if `2.0` is one.
  // Equal types first, then as a number.
  const auto is_choice = [choices = std::move(choices)](const setting_value& value) {
    const auto* whole = std::get_if<std::int64_t>(&value.data);
    const setting_value number{whole == nullptr ? 0.0 : static_cast<double>(*whole)};
    return std::ranges::count(choices, value) > 0 ||
           (whole != nullptr && std::ranges::count(choices, number) > 0);
  };
  setting.rule = [is_choice](const setting_value& value) {
    // Of a list, every item must be one of the choices.
    const auto* list = std::get_if<setting_value::list>(&value.data);
    return list == nullptr ? is_choice(value) : std::ranges::all_of(*list, is_choice);
  };
}

/// Adds a setting and its default. A required setting has no default; a value of a
/// foreign type stands in its place, so that the lists have the same length.
void add_setting(flow::stage_info& info, const described_json& from) {
  setting_info setting;
  // Keys that the program always writes are read with `at`.
  setting.name = from.at("name").get<std::string>();
  setting.documentation = from.value("doc", "");
  const auto type = from.at("type").get<std::string>();
  setting.range = range_of(from, type);
  add_choices(setting, from, type);
  setting.required = from.at("required").get<bool>();
  setting.may_change = from.value("may_change", false);
  // A setting can name a file, which the run then checks before it starts.
  const std::string path = from.value("path", "");
  setting.path = path == "input"    ? path_use::input
                 : path == "output" ? path_use::output
                                    : path_use::none;
  // The default is stored for the documentation and for settings that are not given.
  info.defaults.push_back(setting.required ? setting_value{setting_value::foreign{"none"}}
                                           : described_value(from.at("default")));
  info.settings.push_back(std::move(setting));
}

/// Returns the facts of a stage. Stages in Python run on threads of their own, so a face
/// that is neither source nor sink is a blocking stage.
result<flow::stage_info> stage_of(const described_json& from) {
  flow::stage_info info;
  info.name = from.at("name").get<std::string>();
  info.documentation = from.at("doc").get<std::string>();
  // Other words are stages that take and give items.
  const auto face = from.at("face").get<std::string>();
  info.face = face == "source" ? flow::face::source
              : face == "sink" ? flow::face::sink
                               : flow::face::blocking;
  info.stateless = from.at("stateless").get<bool>();
  for (const described_json& one : from.at("ports")) {
    // The text of a type is the same as in pipelines.
    WEIR_TRY(flow::port_type type,
             flow::port_type::parse(one.at("type").get<std::string>()));
    flow::port_info port;
    port.name = one.at("name").get<std::string>();
    port.type = std::move(type);
    port.inlet = one.at("inlet").get<bool>();
    info.ports.push_back(std::move(port));
  }
  // `state` lists the members that a checkpoint holds, and whether each is an array.
  // Settings are in the order of the parameters of the class.
  for (const described_json& one : from.at("settings")) {
    add_setting(info, one);
  }
  for (const described_json& one : from.at("state")) {
    info.state.push_back(
        {one.at("name").get<std::string>(), one.at("array").get<bool>()});
  }
  return info;
}

/// Returns the code of a name that the description uses.
errc code_of(const std::string& name) {
  // Codes that Python files can cause.
  for (const errc code : {errc::unsupported, errc::already_exists, errc::not_found,
                          errc::unknown_key, errc::corrupt}) {
    if (name_of(code) == name) {
      return code;
    }
  }
  // Any other mistake is one of the file.
  return errc::invalid_argument;
}

/// Returns the mistake in a file of the user, at its line if that is known.
error mistake_of(const described_json& from, const std::string& file) {
  const errc code = code_of(from.at("code").get<std::string>());
  error mistake(code, fmt::format("cannot load \"{}\": {}", file,
                                  from.at("message").get<std::string>()));
  // The traceback is the cause, so that the message itself stays short.
  if (from.contains("traceback")) {
    static_cast<void>(
        std::move(mistake).because(error(code, from["traceback"].get<std::string>())));
  }
  // A syntax error has a line, an error of a module may have none.
  if (from.contains("line") && from["line"].is_number_integer()) {
    static_cast<void>(std::move(mistake).located(
        fmt::format("{}:{}", file, from["line"].get<std::int64_t>())));
  }
  return mistake;
}

/// The description of one stage can still be refused here, for example because of a type
/// of a port that does not exist.
result<std::vector<flow::stage_info>> stages_of(const described_json& all,
                                                const std::string& file) {
  // The program could not load the file.
  if (all.contains("error")) {
    return mistake_of(all["error"], file);
  }
  std::vector<flow::stage_info> stages;
  for (const described_json& one : all.at("stages")) {
    auto info = stage_of(one);
    // The error of a stage says what is wrong, and this one in which file.
    if (!info) {
      return error(info.error().code(), fmt::format("cannot load \"{}\"", file))
          .because(std::move(info.error()));
    }
    stages.push_back(std::move(*info));
  }
  return stages;
}

}  // namespace

// JSON exceptions are caught at one place: everything above may throw them.
result<std::vector<flow::stage_info>> read_description(std::string_view text,
                                                       const std::string& file) {
  std::string problem;
  try {
    // Parsing throws, too.
    return stages_of(described_json::parse(text), file);
  } catch (const described_json::exception& e) {
    problem = e.what();
  }
  // An interpreter that died has printed nothing.
  return error(errc::corrupt,
               fmt::format("cannot load \"{}\": expected the description of its stages "
                           "as JSON, found {}",
                           file, text.empty() ? std::string("nothing") : problem));
}

}  // namespace weir::actors
