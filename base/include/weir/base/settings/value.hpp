// SPDX-License-Identifier: Apache-2.0
/// @file
/// Values and ranges of settings, and the description of one setting without the member
/// that holds it. `weir/base/settings.hpp` builds tables of settings from them.
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
  /// Items of an array.
  using list = std::vector<setting_value>;
  /// A value that no setting accepts, such as a date, and its description for messages.
  struct foreign {
    /// Kind and text of the value, for messages.
    std::string description;
    friend bool operator==(const foreign&, const foreign&) = default;
  };
  /// The value, as the alternative that matches its kind.
  std::variant<std::int64_t, double, bool, std::string, list, foreign> data;

  /// Returns the value with its kind for messages: "integer 7", "number 0.5", "boolean
  /// true", "string \"abc\"", "array [1, 2]". Long texts and arrays are shortened.
  [[nodiscard]] std::string describe() const;
  friend bool operator==(const setting_value&, const setting_value&) = default;
};

/// Integers from `low` to `high`, both included, that are multiples of `step`.
struct integer_range {
  /// A word that may stand in place of a number, and the number that it stands for, which
  /// lies outside of the range.
  struct word {
    /// Text that stands in place of a number.
    std::string text;
    /// Number that the text stands for.
    std::uint64_t number = 0;
  };
  /// Smallest value.
  std::int64_t low = 0;
  /// Largest value.
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  /// Divisor of all values in the range.
  std::int64_t step = 1;
  /// Words that are accepted in place of numbers.
  std::vector<word> words;
};
/// Finite numbers from `low` to `high`, both included. An integer is accepted as well.
struct real_range {
  /// Smallest value.
  double low = std::numeric_limits<double>::lowest();
  /// Largest value.
  double high = std::numeric_limits<double>::max();
};
/// `true` or `false`.
struct boolean_range {};
/// Any text.
struct text_range {};
/// One of several words.
struct word_range {
  /// Words that are accepted.
  std::vector<std::string> words;
};
/// A list of `shortest` to `longest` items, both included, all of one range.
struct list_range {
  /// Range of each item.
  std::variant<integer_range, real_range, text_range> items;
  /// Smallest number of items.
  std::size_t shortest = 0;
  /// Largest number of items.
  std::size_t longest = std::numeric_limits<std::size_t>::max();
  bool single = false;  ///< one item may stand without a list around it
};
/// The range of a setting.
using setting_range = std::variant<integer_range, real_range, boolean_range, text_range,
                                   word_range, list_range>;

/// The use that the owner of a setting makes of the files that its texts name.
enum class path_use : std::uint8_t {
  none,   ///< the texts are no paths
  input,  ///< it reads them, so that they must exist
  output  ///< it writes them, so that nobody else may
};

/// The description of a setting, without the member that holds its value.
struct setting_info {
  std::string name;           ///< unique in its table; dots make groups
  std::string documentation;  ///< one line for the people who set it
  std::string unit;           ///< unit of its numbers; may be empty
  /// Values that the setting accepts.
  setting_range range;
  /// A condition on values in the range, as a function and in words; may be absent.
  std::function<bool(const setting_value&)> rule;
  /// The rule in words, for messages; empty if there is no rule.
  std::string rule_text;
  bool may_change = false;  ///< a stored run or model may continue with another value
  bool required = false;    ///< the default is unusable; a value must be given
  path_use path = path_use::none;  ///< use of the files, if its texts are paths

  /// Returns whether a value is in the range and fulfils the rule.
  [[nodiscard]] bool accepts(const setting_value& value) const;
  /// Returns the accepted values in words: "an integer from 1 to 64".
  [[nodiscard]] std::string expected() const;
};

/// Returns the error for a setting of a structure that holds a refused value. It has the
/// code `invalid_argument` and names the setting, the expected values and the value
/// found.
/// @param owner  Name of the owner, such as "the run".
[[nodiscard]] error refused_setting(std::string_view owner, const setting_info& info,
                                    const setting_value& found);
/// Returns the error for a refused value that was read under the name of a setting. It
/// has the code `invalid_argument`.
[[nodiscard]] error refused_value(const setting_info& info, const setting_value& found);
/// Returns the error for a name that no setting has. It has the code `unknown_key` and
/// suggests the nearest known name.
/// @param known  The names of all settings.
[[nodiscard]] error unknown_setting(std::string_view name,
                                    std::span<const std::string> known);

}  // namespace weir
