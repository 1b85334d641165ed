// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests of values against ranges, and descriptions of values and ranges for messages.
///
/// Ranges are a variant, and so are values: `range_words` describes a range, `range_test`
/// compares a value with it, `value_text` prints a value. A new kind of range needs one
/// function in each.
#include "weir/base/settings.hpp"

#include <fmt/format.h>

#include <cmath>

#include "weir/base/text.hpp"

namespace weir {

namespace {

/// Longest text or array in a message, in bytes.
constexpr std::size_t longest_text = 60;

/// Shortens a text. A character may be cut; `json_quote` then writes it as U+FFFD.
std::string cut(std::string text) {
  if (text.size() > longest_text) {
    text.resize(longest_text - 3);
    text += "...";
  }
  return text;
}

/// The ends of 64 bits are written as powers.
/// Both ends mostly mean that there is no limit.
std::string in_words(std::int64_t bound) {
  return bound == std::numeric_limits<std::int64_t>::max()   ? "2^63-1"
         : bound == std::numeric_limits<std::int64_t>::min() ? "-2^63"
                                                             : fmt::to_string(bound);
}

/// Describes a range by a noun: "an integer from 1 to 64", or "integers from 1 to 64" if
/// `several`.
struct range_words {
  // Members of lists are described in the plural.
  bool several = false;

  std::string operator()(const integer_range& range) const {
    std::string out = several ? "integers" : "an integer";
    // A step replaces the noun.
    if (range.step != 1) {
      out = fmt::format("{} of {}", several ? "multiples" : "a multiple", range.step);
    }
    out += fmt::format(" from {} to {}", in_words(range.low), in_words(range.high));
    for (const integer_range::word& word : range.words) {
      out += fmt::format(" or \"{}\"", word.text);
    }
    return out;
  }
  std::string operator()(const real_range& range) const {
    const std::string out = several ? "numbers" : "a number";
    // A range of all numbers is not worth naming.
    const real_range all;
    return range.low == all.low && range.high == all.high
               ? out
               : fmt::format("{} from {} to {}", out, range.low, range.high);
  }
  std::string operator()(const boolean_range&) const { return "true or false"; }
  std::string operator()(const text_range&) const {
    return several ? "strings" : "a string";
  }
  // Words are alternatives, so the plural does not change the text.
  std::string operator()(const word_range& range) const {
    std::string out = "one of";
    for (const std::string& word : range.words) {
      out += fmt::format(" \"{}\"", word);
    }
    return out;
  }
  std::string operator()(const list_range& range) const {
    // The greatest length stands for no limit.
    constexpr std::size_t any = std::numeric_limits<std::size_t>::max();
    std::string out = range.single
                          ? std::visit(range_words{}, range.items) + " or an array"
                          : "an array";
    out += " of";
    // With an upper limit, both ends are named.
    if (range.longest != any) {
      out += fmt::format(" {} to {}", range.shortest, range.longest);
    } else if (range.shortest != 0) {
      out += fmt::format(" at least {}", range.shortest);
    }
    return out + " " + std::visit(range_words{true}, range.items);
  }
};

/// Tests whether a range holds a value.
/// The functions return false for a value of another kind.
struct range_test {
  const setting_value& value;

  bool operator()(const integer_range& range) const {
    // A word stands for a number outside of the range.
    if (const auto* text = std::get_if<std::string>(&value.data)) {
      return std::any_of(
          range.words.begin(), range.words.end(),
          [&](const integer_range::word& word) { return word.text == *text; });
    }
    // An integer out of range is refused like a value of another kind.
    const auto* number = std::get_if<std::int64_t>(&value.data);
    return number != nullptr && *number >= range.low && *number <= range.high &&
           *number % range.step == 0;
  }
  bool operator()(const real_range& range) const {
    const auto* whole = std::get_if<std::int64_t>(&value.data);
    const auto* real = std::get_if<double>(&value.data);
    if (whole == nullptr && real == nullptr) {
      return false;
    }
    // An integer is accepted where a number is expected.
    const double number = whole != nullptr ? static_cast<double>(*whole) : *real;
    // NaN and infinities are never in a range.
    return std::isfinite(number) && number >= range.low && number <= range.high;
  }
  bool operator()(const boolean_range&) const {
    return std::holds_alternative<bool>(value.data);
  }
  bool operator()(const text_range&) const {
    return std::holds_alternative<std::string>(value.data);
  }
  bool operator()(const word_range& range) const {
    const auto* text = std::get_if<std::string>(&value.data);
    return text != nullptr &&
           std::find(range.words.begin(), range.words.end(), *text) != range.words.end();
  }
  bool operator()(const list_range& range) const {
    // Each element is tested against the range of the elements, whose kind may be any.
    const auto holds = [&](const setting_value& item) {
      return std::visit(range_test{item}, range.items);
    };
    if (const auto* items = std::get_if<setting_value::list>(&value.data)) {
      return items->size() >= range.shortest && items->size() <= range.longest &&
             std::all_of(items->begin(), items->end(), holds);
    }
    // One item may stand for a list of one.
    return range.single && holds(value);
  }
};

/// Prints a value without its kind: 7, 0.5, "abc", [1, 2].
/// Texts and lists are cut, because a message is one line.
struct value_text {
  std::string operator()(std::int64_t v) const { return fmt::to_string(v); }
  std::string operator()(double v) const { return fmt::format("{}", v); }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(const std::string& v) const { return json_quote(cut(v)); }
  std::string operator()(const setting_value::foreign& v) const { return v.description; }
  std::string operator()(const setting_value::list& v) const {
    std::string out = "[";
    for (const setting_value& item : v) {
      // A long list is cut in the middle of an item.
      if (out.size() > longest_text) {
        return cut(std::move(out)) + "]";
      }
      out += out.size() == 1 ? "" : ", ";
      out += std::visit(value_text{}, item.data);
    }
    return out + "]";
  }
};

}  // namespace

std::string setting_value::describe() const {
  // The names of kinds that messages use. A foreign value describes itself.
  struct kind_word {
    const char* operator()(std::int64_t) const { return "integer "; }
    const char* operator()(double) const { return "number "; }
    const char* operator()(bool) const { return "boolean "; }
    const char* operator()(const std::string&) const { return "string "; }
    const char* operator()(const list&) const { return "array "; }
    const char* operator()(const foreign&) const { return ""; }
  };
  return std::visit(kind_word{}, data) + std::visit(value_text{}, data);
}

/// The rule sees only values that are in the range.
bool setting_info::accepts(const setting_value& value) const {
  // A word stands for a number outside of the range, which the rule is not about.
  const bool is_word = std::holds_alternative<integer_range>(range) &&
                       std::holds_alternative<std::string>(value.data);
  return std::visit(range_test{value}, range) && (is_word || !rule || rule(value));
}

std::string setting_info::expected() const {
  // The rule is explained by words of its own, behind the range.
  const std::string out = std::visit(range_words{}, range);
  return rule_text.empty() ? out : out + ", " + rule_text;
}

/// The message names the owner, since it checks a whole structure.
error refused_setting(std::string_view owner, const setting_info& info,
                      const setting_value& found) {
  return {errc::invalid_argument,
          fmt::format("cannot use setting \"{}\" of {}: expected {}, found {}", info.name,
                      owner, info.expected(), found.describe())};
}

/// The message for a single key that was given.
error refused_value(const setting_info& info, const setting_value& found) {
  return {errc::invalid_argument,
          fmt::format("cannot set key \"{}\": expected {}, found {}", info.name,
                      info.expected(), found.describe())};
}

error unknown_setting(std::string_view name, std::span<const std::string> known) {
  // The last part of a name alone, such as "chunk", is most likely meant for the setting
  // that ends with it ("stream.chunk"), although the edit distance between them is large.
  const auto ends_with_name = [&](const std::string& full) {
    return full.size() > name.size() && full.ends_with(name) &&
           full[full.size() - name.size() - 1] == '.';
  };
  const auto full = std::find_if(known.begin(), known.end(), ends_with_name);
  const std::string suggestion = full == known.end()
                                     // Without such a setting, the nearest name is
                                     // suggested.
                                     ? did_you_mean(name, known)
                                     : fmt::format("; did you mean \"{}\"?", *full);
  return {errc::unknown_key,
          fmt::format(
              "cannot set key \"{}\": expected a known key, found none of that name{}",
              name, suggestion)};
}

namespace settings_detail {

/// The value fits no integer of settings, and so no range.
/// Kept as a foreign value, so that messages can still show it.
setting_value too_large(std::uint64_t number) {
  return {setting_value::foreign{fmt::format("integer {}", number)}};
}

/// Both are ranges of integers; steps and words stay as they are.
void intersect(setting_info& narrowed, const setting_info& other) {
  auto& range = std::get<integer_range>(narrowed.range);
  const auto& more = std::get<integer_range>(other.range);
  range.low = std::max(range.low, more.low);
  range.high = std::min(range.high, more.high);
}

}  // namespace settings_detail

}  // namespace weir
