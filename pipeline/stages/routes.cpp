// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages that hand tensors on without looking at them: `select`, `split`, `merge` and
/// `zip`.
///
/// Nothing is copied: the item that goes on names the slot of the item that came.
#include <algorithm>

#include <fmt/format.h>

#include "stages/factories.hpp"

namespace weir::flow {
namespace {

/// Describes a stage that forwards tensors and keeps nothing.
/// Such stages may skip failed items and run in any order.
stage_info forwarding(std::string name, std::string documentation) {
  stage_info info;
  info.name = std::move(name);
  info.documentation = std::move(documentation);
  info.stateless = true;
  info.forwards = true;
  return info;
}

/// See the table.
struct select_settings {
  std::uint32_t modulo = 0;
  std::string attribute;
  std::vector<std::string> values;
};

/// The two ways exclude each other; see `check_select`.
settings_table<select_settings> select_table() {
  settings_table<select_settings> table("the stage select");
  table
      .add("modulo", &select_settings::modulo,
           "item n leaves through the outlet n modulo this number; 0: by attribute")
      .range(0, max_ports);
  table.add("attribute", &select_settings::attribute,
            "name of the attribute whose value chooses the outlet");
  table
      .add("values", &select_settings::values,
           "value of the attribute for each outlet; other items leave through rest")
      // Values of numbers are compared as text, see the reference.
      .count(0, max_ports - 1)
      .single();
  return table;
}

/// Attributes are compared as texts.
std::string text_of_attribute(const attribute& value) {
  // Numbers in their shortest form.
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

/// Has no state.
class select_stage final : public stage_object {
 public:
  explicit select_stage(select_settings settings) : settings_(std::move(settings)) {}

  /// Hands the item on through its outlet.
  result<void> on_item(step& s) override {
    // The slot is handed on, and nothing is copied.
    s.forward(any_in{0}, any_out{outlet_for(s)});
    return s.emit();
  }

 private:
  /// Returns the number of the outlet.
  [[nodiscard]] int outlet_for(const step& s) const {
    // The number of the item decides, so the order of items does not matter.
    if (settings_.modulo != 0) {
      return static_cast<int>(s.seq() % settings_.modulo);
    }
    const auto& values = settings_.values;
    const auto found = s.about().find(settings_.attribute);
    // An item without the attribute goes to `rest`.
    const auto place =
        found == s.about().end()
            ? values.end()
            : std::find(values.begin(), values.end(), text_of_attribute(found->second));
    return static_cast<int>(place - values.begin());  // the last outlet is `rest`
  }

  select_settings settings_;
};

/// One of the two ways to select must be chosen, and completely.
/// By number: `modulo` alone. By attribute: its name and the values.
result<void> check_select(const select_settings& s) {
  // The modulo 0 stands for the other way.
  const bool by_number = s.modulo != 0;
  const bool by_attribute = !s.attribute.empty() && !s.values.empty();
  // Settings of the other way must be absent, because they would be ignored.
  const bool clear = by_number ? s.attribute.empty() && s.values.empty() : by_attribute;
  if (!clear) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot make the stage select: expected modulo, or attribute "
                    "and values, found modulo = {}, attribute = \"{}\" and {} "
                    "values",
                    s.modulo, s.attribute, s.values.size()));
  }
  return {};
}

/// What happens to an item whose value no outlet has.
enum class other_values : std::uint8_t { error, rest, drop };

/// See the table.
struct split_settings {
  std::string attribute;
  std::vector<std::string> outlets;
  std::vector<std::string> values;
  other_values other = other_values::error;
};

/// One outlet is kept free for `rest`.
settings_table<split_settings> split_table() {
  settings_table<split_settings> table("the stage split");
  table
      .add("attribute", &split_settings::attribute,
           "name of the attribute whose value chooses the outlet")
      .required()
      .rule("that is not empty", [](const std::string& text) { return !text.empty(); });
  // The names become names of ports.
  table.add("outlets", &split_settings::outlets, "names of the outlets, all different")
      .required()
      .count(1, max_ports - 1);
  table
      .add("values", &split_settings::values,
           "value of the attribute for each outlet; none: the names of the outlets")
      .count(0, max_ports - 1);
  // An item that no outlet takes can also be a mistake of the data.
  table.add("other", &split_settings::other,
            {{"error", other_values::error},
             {"rest", other_values::rest},
             {"drop", other_values::drop}},
            "items with another value or without the attribute: error: they fail; rest: "
            "they leave through an outlet rest; drop: they become gaps");
  return table;
}

/// Has no state.
class split_stage final : public stage_object {
 public:
  explicit split_stage(split_settings settings) : settings_(std::move(settings)) {}

  /// Hands the item on, makes a gap of it, or fails.
  result<void> on_item(step& s) override {
    const auto& values = settings_.values;
    // The attributes are those of the item that came.
    const auto found = s.about().find(settings_.attribute);
    // An attribute of any type is compared as its text.
    const std::string value =
        found == s.about().end() ? "" : text_of_attribute(found->second);
    const auto place = found == s.about().end()
                           ? values.end()
                           : std::find(values.begin(), values.end(), value);
    // The number of the item becomes a gap, so that joins behind still fit.
    if (place == values.end() && settings_.other == other_values::drop) {
      s.skip();
      return {};
    }
    if (place == values.end() && settings_.other == other_values::error) {
      return error(errc::not_found,
                   fmt::format(
                       "cannot split: expected the attribute \"{}\" to be one of "
                       "{}, found {}",
                       settings_.attribute, fmt::join(values, ", "),
                       found == s.about().end() ? "none" : fmt::format("\"{}\"", value)))
          .hint("set other to rest or drop");
    }
    // Only `other = "rest"` comes here without a match; the place is then that of the
    // outlet `rest`.
    s.forward(any_in{0}, any_out{static_cast<int>(place - values.begin())});
    return s.emit();
  }

 private:
  split_settings settings_;
};

/// Outlets have names of their own, and each has one value. Sets the values, if there are
/// none.
result<void> check_split(split_settings& s) {
  // The names serve as values if no others are given.
  if (s.values.empty()) {
    s.values = s.outlets;
  }
  // A copy that is sorted for the comparison.
  std::vector<std::string> names = s.outlets;
  // Names that the stage itself uses count as taken.
  names.emplace_back("rest");
  names.emplace_back("x");
  // Equal names stand side by side after sorting.
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end() || names.front().empty()) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot make the stage split: expected outlets with names of "
                    "their own other than x and rest, found \"{}\"",
                    twice == names.end() ? "" : *twice));
  }
  if (s.values.size() != s.outlets.size()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot make the stage split: expected a value for each of "
                             "{} outlets, found {}",
                             s.outlets.size(), s.values.size()));
  }
  return {};
}

/// See the table.
struct merge_settings {
  std::uint32_t count = 2;
};

/// Only the number of inlets.
settings_table<merge_settings> merge_table() {
  settings_table<merge_settings> table("the stage merge");
  table.add("count", &merge_settings::count, "number of inlets, named a, b, ...")
      .range(2, max_ports);
  return table;
}

/// Joins branches that a `select` has divided: of each number, one inlet has the item.
class merge_stage final : public stage_object {
 public:
  explicit merge_stage(std::uint32_t inlets) : inlets_(inlets) {}

  /// Hands on the one item of the number.
  result<void> on_item(step& s) override {
    // The inlet that has the item.
    int found = -1;
    for (int i = 0; i < static_cast<int>(inlets_); ++i) {
      // A gap at this inlet.
      if (!s.has(i)) {
        continue;
      }
      // Two items of one number cannot be one item.
      if (found >= 0) {
        return error(errc::invalid_argument,
                     fmt::format("cannot merge item {}: expected it at one inlet, found "
                                 "it at \"{}\" and \"{}\"",
                                 s.seq(), static_cast<char>('a' + found),
                                 static_cast<char>('a' + i)))
            .hint("merge the outlets of one select");
      }
      found = i;
    }
    // A number that no inlet has does not come here.
    s.forward(any_in{found}, any_out{0});
    return s.emit();
  }

 private:
  std::uint32_t inlets_;
};

/// What happens to a number that only one inlet has.
enum class zip_gaps : std::uint8_t { skip, pass };

/// See the table.
struct zip_settings {
  std::string first = "any";
  std::string second = "any";
  zip_gaps gaps = zip_gaps::skip;
};

/// Types may have letters in common.
settings_table<zip_settings> zip_table() {
  settings_table<zip_settings> table("the stage zip");
  // Any type of a port, also one with letters.
  const auto is_type = [](const std::string& text) {
    return port_type::parse(text).has_value();
  };
  table.add("first", &zip_settings::first, "type of the first tensor, such as f32[n,4]")
      .rule("that is a type of a port", is_type);
  table.add("second", &zip_settings::second, "type of the second tensor")
      .rule("that is a type of a port", is_type);
  table.add(
      "gaps", &zip_settings::gaps, {{"skip", zip_gaps::skip}, {"pass", zip_gaps::pass}},
      "skip: a number that one inlet lacks has no item; pass: it has the other one");
  return table;
}

/// Has no state and no settings at run time.
class zip_stage final : public stage_object {
 public:
  // With gaps passed on, one inlet may lack the number.
  result<void> on_item(step& s) override {
    // Inlet 0 goes to outlet 0, and 1 to 1.
    for (int i = 0; i < 2; ++i) {
      if (s.has(i)) {
        s.forward(any_in{i}, any_out{i});
      }
    }
    return s.emit();
  }
};

/// Further paragraphs of the reference of `select`.
constexpr std::string_view select_details =
    R"(Items have any type.

Give `modulo`, or `attribute` and `values`. The outlets are `y0`, `y1` and so on, one
for each remainder or value. By attribute there is a further outlet `rest` for items
without the attribute or with another value. Numbers are compared as text: -2 is "-2".
Items that leave through an outlet without an edge are dropped.)";

/// A small pipeline with `select`.
constexpr std::string_view select_example = R"([[stage]]
name = "read"
use = "tgm.read"
path = "in.tgm"

[[stage]]
name = "by_level"
use = "select"
attribute = "level"
values = ["850", "500"]

[[stage]]
name = "low"
use = "tgm.write"
path = "low.tgm"
from = "by_level.y0"

[[stage]]
name = "high"
use = "tgm.write"
path = "high.tgm"
from = "by_level.y1"
)";

/// Further paragraphs of the reference of `split`.
constexpr std::string_view split_details =
    R"(Inlet `x` has items of any type. The outlets have the names of the setting.
Numbers are compared as text: -2 is "-2". Items that leave through an outlet without an
edge are dropped. `select` does the same with numbered outlets, or by the number of the
item.)";

/// A small pipeline with `split`.
constexpr std::string_view split_example = R"([[stage]]
name = "read"
use = "tgm.read"
path = "in.tgm"

[[stage]]
name = "by_level"
use = "split"
attribute = "level"
outlets = ["low", "high"]
values = ["850", "500"]
other = "rest"

[[stage]]
name = "low_file"
use = "tgm.write"
path = "low.tgm"
from = "by_level.low"

[[stage]]
name = "high_file"
use = "tgm.write"
path = "high.tgm"
from = "by_level.high"
)";

/// Further paragraphs of the reference of `merge`.
constexpr std::string_view merge_details =
    R"(Two items of one number are an error; a number that no inlet has is a gap. Items
have any type.)";

/// A small pipeline with `merge`.
constexpr std::string_view merge_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 6
shape = [4]

[[stage]]
name = "parity"
use = "select"
modulo = 2

[[stage]]
name = "halved"
use = "elementwise"
type = "f32[4]"
op = "multiply"
operand = 0.5
from = "parity.y1"

[[stage]]
name = "together"
use = "merge"
inlets = { a = "parity.y0", b = "halved.y" }

[[stage]]
name = "sink"
use = "tgm.write"
path = "out.tgm"
)";

/// Further paragraphs of the reference of `zip`.
constexpr std::string_view zip_details =
    R"(Two branches without a stated type must have the same type. A letter means the
same extent in both types.)";

/// A small pipeline with `zip`.
constexpr std::string_view zip_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 6
shape = [4]

[[stage]]
name = "negative"
use = "elementwise"
type = "f32[4]"
op = "negate"

[[stage]]
name = "pairs"
use = "zip"
first = "f32[n]"
second = "f32[n]"
inlets = { first = "numbers.x", second = "negative.y" }

[[stage]]
name = "sink"
use = "tgm.write"
path = "out.tgm"
from = "pairs.a"

[[stage]]
name = "other"
use = "null"
from = "pairs.b"
)";

}  // namespace

/// The number of outlets follows from the settings.
result<void> make_select(described_stage& made, const given_settings& given) {
  made.info = forwarding("select",
                         "hands each item on through one of several outlets, "
                         "by its number or by an attribute");
  made.info.details = select_details;
  made.info.example = select_example;
  WEIR_TRY(select_settings settings, read_settings(made.info, select_table(), given));
  WEIR_CHECK(check_select(settings));
  // Any type: the outlets get that of the inlet.
  made.info.ports.push_back({"x", {}, true});
  // By number there is an outlet for each remainder.
  const std::size_t outlets =
      settings.modulo != 0 ? settings.modulo : settings.values.size();
  for (std::size_t i = 0; i < outlets; ++i) {
    made.info.ports.push_back({fmt::format("y{}", i), {}, false});
  }
  // By attribute some items may have no outlet of their own.
  if (settings.modulo == 0) {
    made.info.ports.push_back({"rest", {}, false});
  }
  made.object = std::make_unique<select_stage>(std::move(settings));
  return {};
}

/// The names of the outlets are those of the settings.
result<void> make_split(described_stage& made, const given_settings& given) {
  made.info = forwarding("split",
                         "hands each item on through the outlet that the value of an "
                         "attribute names");
  made.info.details = split_details;
  made.info.example = split_example;
  WEIR_TRY(split_settings settings, read_settings(made.info, split_table(), given));
  WEIR_CHECK(check_split(settings));
  made.info.ports.push_back({"x", {}, true});
  // In the order of the setting.
  for (const std::string& name : settings.outlets) {
    made.info.ports.push_back({name, {}, false});
  }
  if (settings.other == other_values::rest) {
    made.info.ports.push_back({"rest", {}, false});
  }
  made.object = std::make_unique<split_stage>(std::move(settings));
  return {};
}

/// All inlets but one have a gap of each number.
result<void> make_merge(described_stage& made, const given_settings& given) {
  made.info =
      forwarding("merge", "hands on the item of the one inlet that has the number");
  made.info.details = merge_details;
  made.info.example = merge_example;
  WEIR_TRY(const merge_settings settings, read_settings(made.info, merge_table(), given));
  made.info.gaps = gap_policy::pass;
  for (std::uint32_t i = 0; i < settings.count; ++i) {
    // Letters from a on; there are at most as many as ports.
    made.info.ports.push_back({std::string(1, static_cast<char>('a' + i)), {}, true});
  }
  made.info.ports.push_back({"y", {}, false});
  made.object = std::make_unique<merge_stage>(settings.count);
  return {};
}

/// Each inlet has an outlet of the same type.
result<void> make_zip(described_stage& made, const given_settings& given) {
  made.info = forwarding("zip", "joins two branches by the numbers of their items");
  made.info.details = zip_details;
  made.info.example = zip_example;
  WEIR_TRY(const zip_settings settings, read_settings(made.info, zip_table(), given));
  // Letters in both types stand for the same extents.
  WEIR_TRY(port_type first, port_type::parse(settings.first));
  WEIR_TRY(port_type second, port_type::parse(settings.second));
  // The gaps decide whether half of a pair goes on.
  made.info.gaps = settings.gaps == zip_gaps::pass ? gap_policy::pass : gap_policy::skip;
  made.info.ports = {{"first", first, true},
                     {"second", second, true},
                     {"a", std::move(first), false},
                     {"b", std::move(second), false}};
  made.object = std::make_unique<zip_stage>();
  return {};
}

}  // namespace weir::flow
