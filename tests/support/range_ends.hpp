// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks a table of settings at the ends of its ranges: both the reader of a
/// configuration and the owner accept the values at the ends and refuse their neighbours
/// outside.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "weir/base/settings.hpp"

namespace weir::test {

/// Values at the ends of a range, and values next to them that lie outside.
struct range_ends {
  std::vector<setting_value> inside;
  std::vector<setting_value> outside;
};

/// Returns the ends of a range and values that are just outside of it or of another kind.
inline range_ends ends_of(const integer_range& range) {
  range_ends ends{{{range.low}, {range.high}}, {{1.5}, {true}}};
  if (range.low > std::numeric_limits<std::int64_t>::min()) {
    ends.outside.push_back({range.low - 1});
  }
  if (range.high < std::numeric_limits<std::int64_t>::max()) {
    ends.outside.push_back({range.high + 1});
  }
  if (range.step > 1) {
    ends.outside.push_back({range.low + 1});
  }
  for (const integer_range::word& word : range.words) {
    ends.inside.push_back({word.text});
    ends.outside.push_back({word.text + "s"});
  }
  return ends;
}
inline range_ends ends_of(const real_range& range) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return {{{range.low}, {range.high}},
          {{std::nextafter(range.low, -infinity)},
           {std::nextafter(range.high, infinity)},
           {infinity},
           {std::nan("")},
           {std::string("1")}}};
}
inline range_ends ends_of(const boolean_range&) {
  return {{{true}, {false}}, {{std::int64_t{1}}, {std::string("true")}}};
}
inline range_ends ends_of(const text_range&) {
  return {{{std::string("a")}}, {{std::int64_t{1}}}};
}
inline range_ends ends_of(const word_range& range) {
  range_ends ends;
  for (const std::string& word : range.words) {
    ends.inside.push_back({word});
    ends.outside.push_back({word + "s"});
  }
  ends.outside.push_back({std::int64_t{0}});
  return ends;
}
inline range_ends ends_of(const list_range& range) {
  constexpr std::size_t too_many_to_make = 1000;
  const range_ends items =
      std::visit([](const auto& r) { return ends_of(r); }, range.items);
  range_ends ends;
  const auto list = [&](std::size_t count, const setting_value& item) {
    return setting_value{setting_value::list(count, item)};
  };
  for (const setting_value& item : items.inside) {
    ends.inside.push_back(list(std::max<std::size_t>(range.shortest, 1), item));
    if (range.longest < too_many_to_make) {
      ends.inside.push_back(list(range.longest, item));
      ends.outside.push_back(list(range.longest + 1, item));
    }
    (range.single ? ends.inside : ends.outside).push_back(item);
  }
  for (const setting_value& item : items.outside) {
    ends.outside.push_back(list(std::max<std::size_t>(range.shortest, 1), item));
  }
  if (range.shortest > 0) {
    ends.outside.push_back(list(range.shortest - 1, items.inside.front()));
  }
  return ends;
}

/// Returns whether a value has the kind of the values in a range.
inline bool is_of_kind(const setting_range& range, const setting_value& value) {
  if (const auto* list = std::get_if<setting_value::list>(&value.data)) {
    const auto* items = std::get_if<list_range>(&range);
    return items != nullptr &&
           std::all_of(list->begin(), list->end(), [&](const setting_value& item) {
             return std::visit(
                 [&](const auto& r) { return is_of_kind(setting_range{r}, item); },
                 items->items);
           });
  }
  return (std::holds_alternative<integer_range>(range) &&
          std::holds_alternative<std::int64_t>(value.data)) ||
         (std::holds_alternative<real_range>(range) &&
          std::holds_alternative<double>(value.data)) ||
         (std::holds_alternative<text_range>(range) &&
          std::holds_alternative<std::string>(value.data));
}

/// Stores a value that the range refuses, as a program may that fills in a structure
/// itself. Returns false if the member cannot hold the value, for example a negative
/// number in an unsigned member.
template <class Owner>
bool store_anyway(const setting<Owner>& s, Owner& owner, const setting_value& value) {
  if (!is_of_kind(s.range, value)) {
    return false;
  }
  s.set(owner, value);
  const setting_value current = s.get(owner);
  const auto* number = std::get_if<double>(&current.data);
  return current == value || (number != nullptr && std::isnan(*number) &&
                              std::isnan(std::get<double>(value.data)));
}

/// Sets each setting of `good`, which is valid, to the ends of its range and beyond.
/// @param read   Sets a setting of an owner by name, as a reader of configurations does.
/// @param check  The owner's own check of a whole object.
/// @param special  Ends of settings with a rule besides their range, by name.
template <class Owner, class Read, class Check>
void walk_ranges(const settings_table<Owner>& table, const Owner& good, Read read,
                 Check check, const std::map<std::string, range_ends>& special = {}) {
  ASSERT_FALSE(table.entries().empty());
  for (const setting<Owner>& s : table.entries()) {
    const auto found = special.find(s.name);
    const range_ends ends =
        found != special.end()
            ? found->second
            : std::visit([](const auto& r) { return ends_of(r); }, s.range);
    ASSERT_FALSE(ends.inside.empty());
    ASSERT_FALSE(ends.outside.empty());
    for (const setting_value& value : ends.inside) {
      SCOPED_TRACE(s.name + " = " + value.describe());
      Owner owner = good;
      const auto set = read(owner, s.name, value);
      EXPECT_TRUE(set) << set.error().message();
      const auto checked = check(owner);
      EXPECT_TRUE(checked) << checked.error().message();
    }
    for (const setting_value& value : ends.outside) {
      SCOPED_TRACE(s.name + " = " + value.describe());
      Owner owner = good;
      const auto set = read(owner, s.name, value);
      ASSERT_FALSE(set);
      EXPECT_EQ(set.error().code(), errc::invalid_argument);
      EXPECT_NE(set.error().text().find(s.expected()), std::string::npos);
      if (store_anyway(s, owner, value)) {
        const auto checked = check(owner);
        ASSERT_FALSE(checked);
        EXPECT_EQ(checked.error().code(), errc::invalid_argument);
        EXPECT_NE(checked.error().text().find("\"" + s.name + "\""), std::string::npos)
            << checked.error().text();
      }
    }
  }
}

}  // namespace weir::test
