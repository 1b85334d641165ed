// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tables that describe settings.
///
/// Every owner of settings (a run, a model, a stream, a stage) is a plain structure with
/// one table that describes its members. All code that handles settings iterates over the
/// table: the reader of configuration files, the check, the stored configuration, the
/// help and the reference pages. The table is the only place that knows the range of a
/// setting. A value is checked when it is read; the owner checks the whole structure
/// again, against the same table, before it uses it, because programs can also fill it
/// without a file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/base/settings/value.hpp"

namespace weir {

/// A setting and the member of its owner that holds its value.
template <class Owner>
struct setting : setting_info {
  /// Returns the value that an owner holds; `setting_value::foreign` for a value that no
  /// configuration can express.
  std::function<setting_value(const Owner&)> get;
  /// Stores a value in an owner. @pre `accepts(value)`
  std::function<void(Owner&, const setting_value&)> set;
};

namespace settings_detail {

/// The type of the items of a vector; any other type is its own item.
template <class T>
struct item_of {
  using type = T;                         ///< type of an item
  static constexpr bool in_list = false;  ///< true for vectors
};
/// The item type of a vector.
template <class T>
struct item_of<std::vector<T>> {
  using type = T;                        ///< type of an item
  static constexpr bool in_list = true;  ///< true for vectors
};

/// Returns the range of all values of a member's type. Integers of settings are at most
/// 2^63-1, also if the member is a std::uint64_t.
template <class T>
[[nodiscard]] setting_range whole_range() {
  if constexpr (std::is_same_v<T, bool>) {
    return boolean_range{};
  } else if constexpr (std::is_integral_v<T>) {
    integer_range all;
    all.low = std::is_signed_v<T> ? std::int64_t{std::numeric_limits<T>::min()} : 0;
    if constexpr (sizeof(T) < 8 || std::is_signed_v<T>) {
      all.high = std::int64_t{std::numeric_limits<T>::max()};
    }
    return all;
  } else if constexpr (std::is_floating_point_v<T>) {
    return real_range{double{std::numeric_limits<T>::lowest()},
                      double{std::numeric_limits<T>::max()}};
  } else if constexpr (item_of<T>::in_list) {
    using item = typename item_of<T>::type;
    using item_range = std::conditional_t<
        std::is_integral_v<item>, integer_range,
        std::conditional_t<std::is_floating_point_v<item>, real_range, text_range>>;
    list_range all;
    all.items = std::get<item_range>(whole_range<item>());
    return all;
  } else {
    static_assert(std::is_same_v<T, std::string>, "no setting has this type");
    return text_range{};
  }
}

/// Returns the foreign value for a number above 2^63-1.
[[nodiscard]] setting_value too_large(std::uint64_t number);

/// Returns the value of a member.
template <class T>
[[nodiscard]] setting_value to_value(const T& member) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
    return {member};
  } else if constexpr (std::is_integral_v<T>) {
    const auto number = static_cast<std::int64_t>(member);
    return std::is_unsigned_v<T> && number < 0
               ? too_large(static_cast<std::uint64_t>(member))
               : setting_value{number};
  } else if constexpr (std::is_floating_point_v<T>) {
    return {double{member}};
  } else {
    setting_value::list items;
    for (const auto& item : member) {
      items.push_back(to_value(item));
    }
    return {std::move(items)};
  }
}

/// Returns a value as a member's type. The value must be in the range of the type.
template <class T>
[[nodiscard]] T from_value(const setting_value& value) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
    return std::get<T>(value.data);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(std::get<std::int64_t>(value.data));
  } else if constexpr (std::is_floating_point_v<T>) {
    const auto* whole = std::get_if<std::int64_t>(&value.data);
    return static_cast<T>(whole ? static_cast<double>(*whole)
                                : std::get<double>(value.data));
  } else if (const auto* list = std::get_if<setting_value::list>(&value.data)) {
    T items;
    for (const setting_value& item : *list) {
      items.push_back(from_value<typename T::value_type>(item));
    }
    return items;
  } else {
    return T{from_value<typename T::value_type>(value)};
  }
}

/// Reduces the integer range of `narrowed` to the part that `other` accepts too.
void intersect(setting_info& narrowed, const setting_info& other);

}  // namespace settings_detail

/// Describes a setting further; `settings_table::add` returns it. Valid until the next
/// setting is added to the table.
///
/// Each function returns the object itself, so that calls can be chained.
/// @threads{thread-compatible}
template <class Owner, class Access>
class setting_options {
 public:
  /// Type of the member.
  using type = std::remove_cvref_t<std::invoke_result_t<Access, Owner&>>;
  /// True for integers and lists of integers, which have limits of type `std::int64_t`;
  /// other numbers have limits of type `double`.
  static constexpr bool integral =
      std::is_integral_v<typename settings_detail::item_of<type>::type>;
  /// Type of the limits of a number.
  using number = std::conditional_t<integral, std::int64_t, double>;
  /// Range of the numbers of the member.
  using number_range = std::conditional_t<integral, integer_range, real_range>;

  /// @param described  The setting of the table.
  /// @param member     Gives access to the member of an owner that holds its value.
  setting_options(setting<Owner>& described, Access member)
      : setting_(described), member_(member) {}

  /// Limits numbers, or the numbers in a list, to a part of their range so far, from
  /// `low` to `high`, both included.
  setting_options& range(number low, number high) {
    auto* list = std::get_if<list_range>(&setting_.range);
    auto& limits = list != nullptr ? std::get<number_range>(list->items)
                                   : std::get<number_range>(setting_.range);
    WEIR_EXPECT(limits.low <= low && low <= high && high <= limits.high);
    limits.low = low;
    limits.high = high;
    return *this;
  }
  /// Accepts only multiples of `step`, which is greater than 0.
  setting_options& multiple_of(std::int64_t step) {
    std::get<integer_range>(setting_.range).step = step;
    return *this;
  }
  /// Accepts a word, too, which stands for a number outside of the range.
  setting_options& word(const std::string& text, type constant) {
    std::get<integer_range>(setting_.range)
        .words.push_back({text, static_cast<std::uint64_t>(constant)});
    setting_.get = [get = setting_.get, member = member_, text,
                    constant](const Owner& owner) {
      return std::invoke(member, owner) == constant ? setting_value{text} : get(owner);
    };
    setting_.set = [set = setting_.set, member = member_, text, constant](
                       Owner& owner, const setting_value& value) {
      if (value == setting_value{text}) {
        std::invoke(member, owner) = constant;
      } else {
        set(owner, value);
      }
    };
    return *this;
  }
  /// Limits the number of items of a list.
  setting_options& count(std::size_t shortest, std::size_t longest) {
    auto& list = std::get<list_range>(setting_.range);
    list.shortest = shortest;
    list.longest = longest;
    return *this;
  }
  /// Accepts one item without a list around it, too.
  setting_options& single() {
    std::get<list_range>(setting_.range).single = true;
    return *this;
  }
  /// Adds a condition that values in the range must fulfil.
  /// @param text  The condition in words that continue the text of the range, such as "an
  /// even one" behind "an integer from 1 to 64".
  setting_options& rule(std::string text, std::function<bool(const type&)> holds) {
    setting_.rule_text = std::move(text);
    setting_.rule = [holds = std::move(holds)](const setting_value& value) {
      return holds(settings_detail::from_value<type>(value));
    };
    return *this;
  }
  /// Names the unit of the numbers, such as "tokens" or "s".
  setting_options& unit(std::string name) {
    setting_.unit = std::move(name);
    return *this;
  }
  /// Allows another value when a stored run or model is continued. Settings are fixed by
  /// default.
  setting_options& may_change() {
    setting_.may_change = true;
    return *this;
  }
  /// Declares that the texts are paths of files or folders.
  setting_options& path(path_use use) { return setting_.path = use, *this; }
  /// Declares the default unusable: the check refuses an owner that still has it.
  setting_options& required() {
    setting_.required = true;
    return *this;
  }

 private:
  setting<Owner>& setting_;
  Access member_;
};

/// The settings of an owner, in the order in which they are read and written.
///
/// A member is a pointer to a data member, or a callable that takes an owner, const or
/// not, and returns a reference to the member. Defaults are those of `Owner{}`.
/// @threads{building: thread-compatible; once built: safe to call concurrently}
template <class Owner>
class settings_table {
 public:
  /// @param owner  Name of the owner for error messages, such as "the run".
  explicit settings_table(std::string owner) : owner_(std::move(owner)) {}

  /// Adds a setting that holds a boolean, a number, a text, or a vector of numbers or
  /// texts. It accepts every value of its type unless the returned options restrict it.
  /// @param name           Unique in the table; dots make groups.
  /// @param documentation  One line for the people who set it.
  template <class Access>
  setting_options<Owner, Access> add(std::string name, Access member,
                                     std::string documentation) {
    using type = typename setting_options<Owner, Access>::type;
    setting<Owner>& s = append(std::move(name), std::move(documentation));
    s.range = settings_detail::whole_range<type>();
    s.get = [member](const Owner& owner) {
      return settings_detail::to_value<type>(std::invoke(member, owner));
    };
    s.set = [member](Owner& owner, const setting_value& value) {
      std::invoke(member, owner) = settings_detail::from_value<type>(value);
    };
    return {s, member};
  }

  /// Adds a setting that holds one of a few constants, each of which has a word.
  template <class Access>
  setting_options<Owner, Access> add(
      std::string name, Access member,
      std::vector<std::pair<const char*, typename setting_options<Owner, Access>::type>>
          words,
      std::string documentation) {
    setting<Owner>& s = append(std::move(name), std::move(documentation));
    word_range range;
    for (const auto& [word, ignored] : words) {
      range.words.emplace_back(word);
    }
    s.range = std::move(range);
    s.get = [member, words](const Owner& owner) -> setting_value {
      for (const auto& [word, constant] : words) {
        if (std::invoke(member, owner) == constant) {
          return {std::string(word)};
        }
      }
      return {setting_value::foreign{"a constant that has no word"}};
    };
    s.set = [member, words](Owner& owner, const setting_value& value) {
      for (const auto& [word, constant] : words) {
        if (std::get<std::string>(value.data) == word) {
          std::invoke(member, owner) = constant;
        }
      }
    };
    return {s, member};
  }

  /// Adds the settings of a structure that is a member of the owner.
  /// @param prefix    Put before the name of each setting.
  /// @param left_out  Names of settings that the owner computes itself.
  template <class Part>
  void include(const std::string& prefix, Part Owner::*part,
               const settings_table<Part>& table,
               const std::vector<std::string_view>& left_out = {}) {
    for (const setting<Part>& inner : table.entries()) {
      if (std::find(left_out.begin(), left_out.end(), inner.name) != left_out.end()) {
        continue;
      }
      setting<Owner>& s = append(prefix + inner.name, inner.documentation);
      const std::string name = s.name;
      static_cast<setting_info&>(s) = inner;
      s.name = name;
      s.get = [part, get = inner.get](const Owner& owner) { return get(owner.*part); };
      s.set = [part, set = inner.set](Owner& owner, const setting_value& value) {
        set(owner.*part, value);
      };
    }
  }

  /// Limits an integer setting to the range of another one, to which the owner passes its
  /// value on.
  void narrow(std::string_view name, const setting_info& other) {
    const auto found =
        std::find_if(entries_.begin(), entries_.end(),
                     [&](const setting<Owner>& s) { return s.name == name; });
    WEIR_EXPECT(found != entries_.end());
    settings_detail::intersect(*found, other);
  }

  /// Returns all settings, in the order in which they were added.
  [[nodiscard]] const std::vector<setting<Owner>>& entries() const noexcept {
    return entries_;
  }
  /// Returns the setting of a name, or a null pointer.
  [[nodiscard]] const setting<Owner>* find(std::string_view name) const noexcept {
    for (const setting<Owner>& s : entries_) {
      if (s.name == name) {
        return &s;
      }
    }
    return nullptr;
  }

  /// Sets one setting by its name.
  /// @error{unknown_key, no setting has this name; the message suggests the nearest one}
  /// @error{invalid_argument, the setting does not accept this value}
  [[nodiscard]] result<void> assign(Owner& owner, std::string_view name,
                                    const setting_value& value) const {
    const setting<Owner>* s = find(name);
    if (s == nullptr) {
      return unknown_setting(name, names());
    }
    if (!s->accepts(value)) {
      return refused_value(*s, value);
    }
    s->set(owner, value);
    return {};
  }

  /// Checks every setting of an owner. A required setting must differ from its default.
  /// @error{invalid_argument, a value is refused; the message names the first such
  /// setting}
  [[nodiscard]] result<void> check(const Owner& owner) const {
    const Owner untouched{};
    for (const setting<Owner>& s : entries_) {
      const setting_value value = s.get(owner);
      if (s.required && value == s.get(untouched)) {
        return refused_setting(owner_, s, {setting_value::foreign{"none"}});
      }
      if (!s.accepts(value)) {
        return refused_setting(owner_, s, value);
      }
    }
    return {};
  }

 private:
  setting<Owner>& append(std::string name, std::string documentation) {
    WEIR_EXPECT(find(name) == nullptr);
    setting<Owner>& s = entries_.emplace_back();
    s.name = std::move(name);
    s.documentation = std::move(documentation);
    return s;
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const setting<Owner>& s : entries_) {
      all.push_back(s.name);
    }
    return all;
  }

  std::string owner_;
  std::vector<setting<Owner>> entries_;
};

}  // namespace weir
