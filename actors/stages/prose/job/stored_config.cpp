// SPDX-License-Identifier: Apache-2.0
/// @file
/// Conversion of settings to the lines of a stored configuration, and back.
///
/// The text has a line `KEY = VALUE` per setting that may not change freely. Two
/// configurations are the same run if their texts are the same, so each value must have
/// exactly one form: numbers with all digits and words as numbers. Settings with their
/// defaults are left out unless the first version wrote them, so that a new setting does
/// not change old texts.
#include "stages/prose/job/stored_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "stages/prose/job/resume/changes.hpp"
#include "stages/prose/job/settings.hpp"
#include "weir/base/settings.hpp"
#include "weir/base/text.hpp"

namespace weir::actors {

namespace {

/// Line with the version of the model's equations.
constexpr const char* equations_key = "model.equations";
/// Begin of the keys of the model.
constexpr std::string_view model_prefix = "model.";

/// Returns a line. Values have no line breaks; see `stored_text`.
std::string line_of(std::string_view key, const std::string& value) {
  return fmt::format("{} = {}\n", key, value);
}

/// The version changes when the model computes other numbers from the same settings.
std::string equations_line() {
  return line_of(equations_key, fmt::to_string(models::prose_equations));
}

/// Returns the number for which a word of an integer setting stands.
/// @pre The word is one of the range.
std::uint64_t number_of_word(const integer_range& range, const std::string& word) {
  const auto found =
      std::find_if(range.words.begin(), range.words.end(),
                   [&](const integer_range::word& w) { return w.text == word; });
  WEIR_EXPECT(found != range.words.end());
  return found->number;
}

/// Converts a value to its stored text: numbers with all digits, words as numbers, texts
/// as they are unless they have a line break, and lists with separators.
struct stored_text {
  const setting_info& info;

  std::string operator()(std::int64_t v) const { return fmt::to_string(v); }
  std::string operator()(double v) const { return fmt::format("{}", v); }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(const std::string& v) const {
    const auto* range = std::get_if<integer_range>(&info.range);
    if (range != nullptr) {
      return fmt::to_string(number_of_word(*range, v));
    }
    // A line break would end the line of the setting.
    return v.find('\n') == std::string::npos ? v : json_quote(v);
  }
  std::string operator()(const setting_value::list& v) const {
    std::vector<std::string> items;
    for (const setting_value& item : v) {
      items.push_back(std::visit(*this, item.data));
    }
    const auto& range = std::get<list_range>(info.range);
    const bool texts = std::holds_alternative<text_range>(range.items);
    return fmt::format("{}", fmt::join(items, texts ? " | " : " "));
  }
  std::string operator()(const setting_value::foreign& v) const { return v.description; }
};

/// Returns the stored text of a setting's value.
template <class Owner>
std::string text_in(const Owner& owner, const setting<Owner>& s) {
  return std::visit(stored_text{s}, s.get(owner).data);
}

/// Settings that every version has stored. Settings that came later are stored if they
/// differ from their defaults, so that a checkpoint of an older version says the same.
constexpr std::string_view first_keys[] = {"seed",
                                           "stream.path",
                                           "stream.eot",
                                           "stream.chunk",
                                           "stream.lanes",
                                           "stream.lane_block",
                                           "stream.end",
                                           "stream.boundary",
                                           "phase.build.tokens",
                                           "phase.build.pulses",
                                           "phase.test.tokens",
                                           "phase.test.pulses",
                                           "phase.stream.tokens",
                                           "phase.stream.pulses"};

/// Settings of the model are stored always, because a model can be opened from the text
/// alone.
bool stored_always(std::string_view key) {
  return key.starts_with(model_prefix) ||
         std::ranges::find(first_keys, key) != std::end(first_keys);
}

/// A setting whose change a resumed run refuses or records.
struct fixed_setting {
  std::string key;
  std::string value;   ///< stored text
  std::string preset;  ///< stored text of the default
  bool always = true;  ///< stored even if it has its default
};

/// Returns all settings that are stored, those of named sources last.
std::vector<fixed_setting> fixed_settings(const run_config& config) {
  std::vector<fixed_setting> all;
  for (const auto& s : run_settings().entries()) {
    if (!s.may_change) {
      all.push_back(
          {s.name, text_in(config, s), text_in(run_config(), s), stored_always(s.name)});
    }
  }
  for (const auto& [name, source] : config.sources) {
    for (const auto& s : source_table().entries()) {
      if (!s.may_change) {
        all.push_back({fmt::format("{}{}.{}", source_prefix, name, s.name),
                       text_in(source, s), text_in(source_settings(), s), false});
      }
    }
  }
  return all;
}

/// Reads a number that takes the whole text.
template <class T>
bool parse(std::string_view text, T& number) {
  const auto [end, problem] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size();
}

/// Returns the number that a stored text contains. A text that is not a number stays a
/// text, which the ranges of numbers then refuse.
template <class T>
setting_value number_or_text(std::string_view text) {
  T number{};
  return parse(text, number) ? setting_value{number} : setting_value{std::string(text)};
}

/// Returns the value that a stored text means. All settings of a model are numbers or
/// lists of integers.
setting_value value_from_text(const setting_info& info, std::string_view text) {
  if (std::holds_alternative<real_range>(info.range)) {
    return number_or_text<double>(text);
  }
  if (!std::holds_alternative<list_range>(info.range)) {
    return number_or_text<std::int64_t>(text);
  }
  // The items of a list are separated by single spaces.
  setting_value::list items;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    items.push_back(number_or_text<std::int64_t>(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {std::move(items)};
}

/// Returns the entry of a setting of the model in `derived_settings`, or null.
/// Such a setting is stored under the key of the run's setting.
const derived_setting* derivation_of(const setting_info& model_setting) {
  const auto* const found = std::find_if(
      std::begin(derived_settings), std::end(derived_settings),
      [&](const derived_setting& d) { return d.name == model_setting.name; });
  return found == std::end(derived_settings) ? nullptr : found;
}

/// Returns the key under which a setting of the model is stored.
std::string key_of(const setting_info& model_setting) {
  const derived_setting* derived = derivation_of(model_setting);
  return derived != nullptr ? derived->key
                            : std::string(model_prefix) + model_setting.name;
}

/// Checks the version of the equations under which a model was stored. With another
/// version the model would silently compute other numbers than before.
result<void> check_equations(std::string_view text) {
  const auto stored = value_in(text, equations_key);
  // A text without the line is of the first version.
  const std::string found = stored ? *stored : "1";  // version 1 did not store this line
  if (found != fmt::to_string(models::prose_equations)) {
    return error(
               errc::config_mismatch,
               fmt::format("using the stored model failed for {}: expected {}, found {}",
                           equations_key, models::prose_equations, found))
        .hint(
            "the equations of the model have changed since it was stored: learn it "
            "anew, or use the version of weir that has stored it");
  }
  return {};
}

/// Returns a stored text for people.
/// Numbers that stand for a word are shown as the word.
std::string shown(std::string_view key, const std::string& stored) {
  const auto* info = run_settings().find(key);
  const auto* range = info ? std::get_if<integer_range>(&info->range) : nullptr;
  if (range != nullptr) {
    for (const integer_range::word& one : range->words) {
      if (stored == fmt::to_string(one.number)) {
        return one.text;
      }
    }
  }
  return stored;
}

/// Returns the keys of the lines about named sources.
/// Sources that the configuration no longer has are only found here.
std::vector<std::string> keys_of_sources(std::string_view text) {
  std::vector<std::string> keys;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with(source_prefix)) {
      keys.emplace_back(line.substr(0, line.find(" = ")));
    }
  }
  return keys;
}

/// Returns whether a key is one of a named source that the stored run did not have.
/// The settings of a new source are no changes of fixed settings.
bool is_of_new_source(std::string_view key, const std::vector<std::string>& known) {
  if (!key.starts_with(source_prefix)) {
    return false;
  }
  const std::string_view prefix = key.substr(0, key.find('.', source_prefix.size()) + 1);
  return std::ranges::none_of(
      known, [&](const std::string& one) { return one.starts_with(prefix); });
}

}  // namespace

/// Writes the settings that a resumed run compares with its own, one per line. The
/// line with the version of the equations stands before the settings of the model.
// `model.vocab` comes last; it is no setting.
std::string config_text(const run_config& config, std::uint32_t vocab) {
  std::string text;
  bool in_model = false;
  for (const fixed_setting& s : fixed_settings(config)) {
    if (!in_model && s.key.starts_with(model_prefix)) {
      in_model = true;
      text += equations_line();
    }
    if (s.always || s.value != s.preset) {
      text += line_of(s.key, s.value);
    }
  }
  return text + line_of("model.vocab", fmt::to_string(vocab));
}

/// Finds the value of a key in such a text. The texts are short and seldom read, so a
/// search from the beginning is good enough.
// The first line of the key counts.
result<std::string> value_in(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto split = line.find(" = ");
    if (split != std::string_view::npos && line.substr(0, split) == key) {
      return std::string(line.substr(split + 3));
    }
  }
  return error(
      errc::corrupt,
      fmt::format("reading stored key {} failed: expected a line, found none", key));
}

/// Reads a number under a key of such a text.
result<std::uint64_t> number_in(std::string_view text, std::string_view key) {
  WEIR_TRY(const auto value, value_in(text, key));
  std::uint64_t number = 0;
  if (!parse(value, number)) {
    return error(errc::corrupt,
                 fmt::format("reading stored key {} failed: expected a number, found "
                             "\"{}\"",
                             key, value));
  }
  return number;
}

/// Compares the stored settings with those of a run that is to be resumed. Both are
/// compared as text, which `config_text` writes in one way only. A named source that the
/// run no longer has is found by its stored lines.
result<std::vector<storage::run_change>> compare_config(std::string_view stored,
                                                        const run_config& config) {
  WEIR_CHECK(check_equations(stored));
  std::vector<storage::run_change> changes;
  const auto now = fixed_settings(config);
  const std::vector<std::string> known = keys_of_sources(stored);
  for (const fixed_setting& s : now) {
    // A missing line means the default, which is how an older version has run.
    const std::string before = value_in(stored, s.key).value_or(s.preset);
    if (before == s.value) {
      continue;
    }
    if (rule_of_change(s.key) == change_rule::fixed && !is_of_new_source(s.key, known)) {
      return refused_change(s.key, before, s.value);
    }
    changes.push_back({0, 0, s.key, shown(s.key, before), shown(s.key, s.value)});
  }
  // Sources that were removed.
  for (const std::string& key : known) {
    if (std::ranges::find(now, key, &fixed_setting::key) == now.end()) {
      WEIR_TRY(const auto before, value_in(stored, key));
      changes.push_back({0, 0, key, before, "none"});
    }
  }
  return changes;
}

/// Returns the settings of a model, from which it can be built without a run.
std::string model_text(const models::prose_config& model) {
  const auto& settings = models::prose_settings();
  std::string text = equations_line();
  for (const auto& s : settings.entries()) {
    if (derivation_of(s) == nullptr) {
      text += line_of(key_of(s), text_in(model, s));
    }
  }
  for (const derived_setting& derived : derived_settings) {
    text += line_of(derived.key, text_in(model, *settings.find(derived.name)));
  }
  return text;
}

/// Reads the settings of a model from text. A value that the setting does not accept is
/// damage of the file, not a mistake of the user.
/// Every setting must have a line, also those that are derived from settings of the run.
result<models::prose_config> model_in(std::string_view text) {
  WEIR_CHECK(check_equations(text));
  models::prose_config model;
  for (const auto& s : models::prose_settings().entries()) {
    const std::string key = key_of(s);
    WEIR_TRY(const auto stored, value_in(text, key));
    const setting_value value = value_from_text(s, stored);
    if (!s.accepts(value)) {
      return error(errc::corrupt,
                   fmt::format("reading stored key {} failed: expected {}, found {}", key,
                               s.expected(), value.describe()));
    }
    s.set(model, value);
  }
  return model;
}

}  // namespace weir::actors
