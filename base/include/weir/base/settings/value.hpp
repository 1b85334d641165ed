// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a setting takes: values, ranges, and all that is known of a setting but the
/// member that holds it. `weir/base/settings.hpp` makes tables of them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weir/base/error.hpp"

namespace weir {

/// A value of a setting, as a configuration file, a command line or a program gives it.
/// @threads{a value}
struct setting_value {
  using list = std::vector<setting_value>;
  /// A value that no setting takes, such as a date; holds the words that describe it.
  struct foreign {
    std::string description;
    friend bool operator==(const foreign&, const foreign&) = default;
  };
  std::variant<std::int64_t, double, bool, std::string, list, foreign> data;

  /// "integer 7", "number 0.5", "boolean true", "string \"abc\"", "array [1, 2]": the
  /// value with its kind, for messages. Long texts and arrays are cut.
  [[nodiscard]] std::string describe() const;
  friend bool operator==(const setting_value&, const setting_value&) = default;
};

/// Integers from `low` to `high`, both included, that are multiples of `step`.
struct integer_range {
  /// A word that a configuration may give instead of a number, and the number that the
  /// owner then holds; that number lies outside of the range.
  struct word {
    std::string text;
    std::uint64_t number = 0;
  };
  std::int64_t low = 0;
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  std::int64_t step = 1;
  std::vector<word> words;
};
/// Finite numbers from `low` to `high`, both included; integers are numbers.
struct real_range {
  double low = std::numeric_limits<double>::lowest();
  double high = std::numeric_limits<double>::max();
};
/// `true` or `false`.
struct boolean_range {};
/// Any text.
struct text_range {};
/// One of a few words.
struct word_range {
  std::vector<std::string> words;
};
/// From `shortest` to `longest` items of one range.
struct list_range {
  std::variant<integer_range, real_range, text_range> items;
  std::size_t shortest = 0;
  std::size_t longest = std::numeric_limits<std::size_t>::max();
  bool single = false;  ///< one item may stand without a list around it
};
using setting_range = std::variant<integer_range, real_range, boolean_range, text_range,
                                   word_range, list_range>;

/// All that is known of a setting but where it is stored.
struct setting_info {
  std::string name;           ///< unique in its table; dots make groups
  std::string documentation;  ///< one line, for people who set it
  std::string unit;           ///< of its numbers; may be empty
  setting_range range;
  /// What a value has to fulfil besides its range, as a test and in words; may be absent.
  std::function<bool(const setting_value&)> rule;
  std::string rule_text;
  bool may_change = false;  ///< what has begun may go on with another value
  bool required = false;    ///< the default is no usable value: one has to be given

  /// True if a value is in the range and fulfils the rule.
  [[nodiscard]] bool accepts(const setting_value& value) const;
  /// What `accepts` takes, in words: "an integer from 1 to 64".
  [[nodiscard]] std::string expected() const;
};

/// Errors of the tables. `owner` says whose setting it is: "the run".
/// @error{invalid_argument, names the setting, what it expects and what was found}
[[nodiscard]] error refused_setting(std::string_view owner, const setting_info& info,
                                    const setting_value& found);
/// As `refused_setting`, for a value that was read under the setting's name.
[[nodiscard]] error refused_value(const setting_info& info, const setting_value& found);
/// For a name that no setting has; names the nearest one.
/// @error{unknown_key}
[[nodiscard]] error unknown_setting(std::string_view name,
                                    std::span<const std::string> known);

}  // namespace weir
