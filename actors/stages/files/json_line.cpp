// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reading and writing of tensors as lines of JSON.
///
/// A line is read by the SAX parser, so that a large array does not become a tree of
/// values first. Numbers go straight into the bytes of the tensor; the handler keeps the
/// number of elements on each level of arrays and compares the arrays of one level with
/// each other.
///
/// Example: `{"t": 3, "x": [[1, 2], [3, 4]]}` with the field `x` gives the attribute t =
/// 3 and elements 1 2 3 4 of shape [2, 2].
#include "stages/files/json_line.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "weir/base/text.hpp"

namespace weir::actors {
namespace {

/// Calls a function with a value of the C++ type of the elements. Returns false if the
/// elements are no numbers.
/// The switch is the list of types that JSON stages accept.
template <class Function>
bool with_number(dtype type, Function&& use) {
  switch (type) {
    // A value of each type stands for the type.
    case dtype::fp32: return use(float{}), true;
    case dtype::fp64: return use(double{}), true;
    case dtype::int8: return use(std::int8_t{}), true;
    case dtype::int16: return use(std::int16_t{}), true;
    case dtype::int32: return use(std::int32_t{}), true;
    case dtype::int64: return use(std::int64_t{}), true;
    case dtype::uint8: return use(std::uint8_t{}), true;
    case dtype::uint16: return use(std::uint16_t{}), true;
    case dtype::uint32: return use(std::uint32_t{}), true;
    case dtype::uint64: return use(std::uint64_t{}), true;
    default: return false;
  }
}

/// Errors name neither line nor file; the stage adds them.
error bad_line(std::string_view expected, std::string_view found) {
  return error(
      errc::corrupt,
      fmt::format("cannot read a line of JSON: expected {}, found {}", expected, found));
}

/// Takes the events of the parser. A function that returns false stops it.
/// The state is the place in the line: `skipped_` counts open brackets that do not
/// matter, `depth_` those of the tensor. Values outside of the field become attributes.
class line_handler {
 public:
  line_handler(const flow::port_type& type, std::string_view field)
      : type_(*type.element), field_(field) {}

  /// JSON has no NaN, so `null` stands for it.
  bool null() {
    // Values that are skipped, or other members, are no part of the tensor.
    if (!wanted()) {
      return true;
    }
    if (type_ != dtype::fp32 && type_ != dtype::fp64) {
      return fail("numbers", "null");
    }
    // NaN exists in both types.
    return add(std::numeric_limits<double>::quiet_NaN());
  }
  bool boolean(bool value) {
    return wanted() ? fail("numbers", "a boolean") : note(std::uint64_t{value});
  }
  bool number_integer(std::int64_t value) { return wanted() ? add(value) : note(value); }
  bool number_unsigned(std::uint64_t value) {
    return wanted() ? add(value) : note(value);
  }
  // Integers that do not fit into 64 bits arrive here as well.
  bool number_float(double value, const std::string& /*text*/) {
    return wanted() ? add(value) : note(value);
  }
  bool string(std::string& value) {
    return wanted() ? fail("numbers", "a text") : note(value);
  }
  bool binary(nlohmann::json::binary_t& /*value*/) {
    return fail("a line of text", "binary data");
  }
  /// One object may stand around the numbers. Any other object is skipped with its
  /// content.
  bool start_object(std::size_t /*size*/) {
    if (wanted()) {
      return depth_ == 0 ? open_object() : fail("numbers", "an object");
    }
    ++skipped_;
    return true;
  }
  /// Only names of the outermost object count.
  bool key(std::string& name) {
    // Names inside a skipped object do not count.
    if (skipped_ == 0) {
      key_ = name;
      in_field_ = name == field_;
      if (in_field_ && std::exchange(found_, true)) {
        return fail(fmt::format("the field \"{}\" once", field_), "it twice");
      }
    }
    return true;
  }
  // Nothing to do for the outermost object, whose brackets are not counted.
  bool end_object() {
    skipped_ -= skipped_ == 0 ? 0 : 1;
    return true;
  }
  /// Opens one more dimension. An array on a level that had numbers before is an error.
  bool start_array(std::size_t /*size*/) {
    if (!wanted()) {
      ++skipped_;
      return true;
    }
    found_ = true;
    // An item has at most as many dimensions as a tensor.
    if (depth_ == runtime::max_dims) {
      return fail(fmt::format("at most {} dimensions", runtime::max_dims), "more");
    }
    // This array is an element of the array around it.
    if (depth_ != 0) {
      ++counts_[depth_ - 1];
    }
    // The first array of its depth: the tensor has at least this many dimensions.
    if (depth_ == counts_.size()) {
      if (leaf_depth_ && depth_ >= *leaf_depth_) {
        return fail("numbers", "an array");
      }
      counts_.push_back(0);
      extents_.emplace_back();
    }
    // Counting begins anew for each array.
    counts_[depth_++] = 0;
    return true;
  }
  /// All arrays of one depth must have the same number of elements.
  bool end_array() {
    if (skipped_ != 0) {
      --skipped_;
      return true;
    }
    --depth_;
    // The first array of a depth sets the number, the others are compared.
    auto& known = extents_[depth_];
    if (known && *known != counts_[depth_]) {
      return fail(fmt::format("arrays of {} elements", *known),
                  fmt::format("one of {}", counts_[depth_]));
    }
    known = counts_[depth_];
    return true;
  }
  /// `position` counts bytes from the beginning of the line.
  bool parse_error(std::size_t position, const std::string& last,
                   const nlohmann::detail::exception& /*cause*/) {
    return fail("JSON", fmt::format("\"{}\" at byte {} of the line", last.substr(0, 40),
                                    position));
  }

  /// Returns what was read, for a type.
  /// The handler cannot be used afterwards.
  result<json_item> take(const flow::port_type& type) {
    if (failure_) {
      return std::move(*failure_);
    }
    // A line without the field makes no item.
    if (!found_) {
      return error(errc::not_found,
                   fmt::format("cannot read a line of JSON: expected the field \"{}\", "
                               "found an object without it",
                               field_));
    }
    // A dimension without any array, behind an empty one, has the extent 0.
    json_item out;
    for (const auto& one : extents_) {
      out.shape.push_back(one.value_or(0));
    }
    // The type of the outlet decides about the shape at last.
    WEIR_CHECK(fit(type, out.shape));
    out.elements = std::move(elements_);
    out.about = std::move(about_);
    return out;
  }

 private:
  /// Returns whether values at this place belong to the tensor.
  [[nodiscard]] bool wanted() const {
    return skipped_ == 0 && (!in_object_ || in_field_);
  }
  /// Enters the object around the numbers.
  bool open_object() {
    if (in_object_) {
      return fail("numbers", "an object");
    }
    in_object_ = true;
    return true;
  }
  /// Keeps the error, and stops the parser by its result.
  bool fail(std::string_view expected, std::string_view found) {
    failure_ = bad_line(expected, found);
    return false;
  }
  /// Adds an attribute, unless the value lies deeper in the line.
  template <class T>
  bool note(const T& value) {
    if (skipped_ == 0) {
      about_[key_] = value;
    }
    return true;
  }
  /// Adds a number to the tensor. All numbers must have the same depth.
  template <class From>
  bool add(From value) {
    // The first number sets the depth of all.
    if (!leaf_depth_) {
      leaf_depth_ = depth_;
    }
    if (*leaf_depth_ != depth_ || depth_ != counts_.size()) {
      return fail("numbers of one depth", "a number beside an array");
    }
    found_ = true;
    // The number is an element of the innermost array.
    if (depth_ != 0) {
      ++counts_[depth_ - 1];
    }
    bool fits = false;
    // The type was checked when the stage was made, so one of the cases applies.
    with_number(type_, [&](auto zero) { fits = put<decltype(zero)>(value); });
    return fits || fail(fmt::format("numbers of the type {}", flow::port_text(type_)),
                        fmt::format("{}", value));
  }
  /// Converts a number to the element type; false if it does not fit. A fraction never
  /// becomes an integer, and a finite number never becomes infinite.
  template <class To, class From>
  bool put(From value) {
    To element{};
    if constexpr (std::is_floating_point_v<To>) {
      element = static_cast<To>(value);
      // A finite number that becomes infinite does not fit the type.
      if (std::isinf(element)) {
        return false;
      }
    } else if constexpr (std::is_floating_point_v<From>) {
      return false;
    } else if (!std::in_range<To>(value)) {
      return false;
    } else {
      element = static_cast<To>(value);
    }
    const std::size_t at = elements_.size();
    elements_.resize(at + sizeof element);
    std::memcpy(elements_.data() + at, &element, sizeof element);
    return true;
  }
  /// Numbers of one flat array fill a type of several fixed extents.
  /// @pre The extents are fixed, or the number of dimensions fits.
  static result<void> fit(const flow::port_type& type, std::vector<std::int64_t>& shape) {
    // The numbers of dimensions agree; extents are compared later.
    if (shape.size() == type.shape.size()) {
      return {};
    }
    const auto bytes = type.bytes();
    if (shape.size() == 1 && bytes &&
        shape[0] * std::int64_t{info_of(*type.element).size} == *bytes) {
      shape.clear();
      for (const flow::extent& one : type.shape) {
        shape.push_back(one.number);
      }
      return {};
    }
    return bad_line(fmt::format("numbers for {}", type.text()),
                    fmt::format("the shape [{}]", fmt::join(shape, ",")));
  }

  dtype type_;
  std::string_view field_;
  /// Name of the last member of the outermost object.
  std::string key_;
  /// The line has an object around its numbers.
  bool in_object_ = false;
  /// The last name was the field.
  bool in_field_ = false;
  /// Numbers or an array of the field have come.
  bool found_ = false;
  std::size_t skipped_ = 0;  ///< open arrays and objects that are not looked at
  std::size_t depth_ = 0;    ///< open arrays of the tensor
  std::optional<std::size_t> leaf_depth_;  ///< number of arrays around each number
  std::vector<std::int64_t> counts_;       ///< elements of the open arrays so far
  /// Elements of an array on each level; empty as long as no array of it has ended.
  std::vector<std::optional<std::int64_t>> extents_;
  /// Row-major elements of the tensor.
  byte_vector elements_;
  attributes about_;
  /// The first error, after which nothing is read.
  std::optional<error> failure_;
};

/// Takes any value, and notes where the parser has found a mistake.
struct place_of_mistake {
  std::optional<std::size_t> position = {};  ///< bytes read before the mistake

  bool null() { return true; }
  bool boolean(bool /*value*/) { return true; }
  bool number_integer(std::int64_t /*value*/) { return true; }
  bool number_unsigned(std::uint64_t /*value*/) { return true; }
  bool number_float(double /*value*/, const std::string& /*text*/) { return true; }
  bool string(std::string& /*value*/) { return true; }
  bool binary(nlohmann::json::binary_t& /*value*/) { return true; }
  bool start_object(std::size_t /*size*/) { return true; }
  bool key(std::string& /*name*/) { return true; }
  bool end_object() { return true; }
  bool start_array(std::size_t /*size*/) { return true; }
  bool end_array() { return true; }
  bool parse_error(std::size_t at, const std::string& /*token*/,
                   const nlohmann::json::exception& /*cause*/) {
    position = at;
    return false;
  }
};

/// Shortest digits that give the same number again when they are read.
template <class T>
result<void> append_element(std::string& to, T value, const json_form& form) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) {
      if (!form.non_finite_is_null) {
        return error(errc::out_of_range,
                     fmt::format("cannot write a line of JSON: expected finite numbers, "
                                 "found {}",
                                 value))
            .hint("set non_finite to null");
      }
      to += "null";
      return {};
    }
    // Zero keeps its sign only as a real number.
    if (value == T{0} && std::signbit(value)) {
      to += "-0.0";  // "-0" is an integer, which has no sign
      return {};
    }
  }
  fmt::format_to(std::back_inserter(to), "{}", value);
  return {};
}

/// Appends elements with the brackets of their dimensions.
/// The number of brackets that close behind element i is the number of dimensions that i
/// + 1 completes.
template <class T>
result<void> append_elements(std::string& to, const runtime::tensor& x,
                             const json_form& form) {
  const auto shape = x.shape();
  const std::int64_t count = x.count();
  if (count == 0) {  // no number shows the extents behind an empty one
    to += "[]";
    return {};
  }
  to.append(shape.size(), '[');
  for (std::int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, x.data() + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    WEIR_CHECK(append_element(to, value, form));
    // Counts the dimensions that are complete behind this element.
    std::int64_t rest = i + 1;
    std::size_t closed = 0;
    while (closed < shape.size() && rest % shape[shape.size() - 1 - closed] == 0) {
      rest /= shape[shape.size() - 1 - closed];
      ++closed;
    }
    to.append(closed, ']');
    // The next element opens as many brackets as were closed.
    if (i + 1 != count) {
      to += ',';
      to.append(closed, '[');
    }
  }
  return {};
}

/// Ends with a comma, because the numbers always follow. Infinite numbers become null.
void append_attribute(std::string& to, const std::string& name, const attribute& value) {
  to += json_quote(name) + ":";
  if (const auto* text = std::get_if<std::string>(&value)) {
    to += json_quote(*text);
  } else if (const auto* number = std::get_if<double>(&value)) {
    // JSON has no infinities, and an attribute must not make the line unreadable.
    to += std::isfinite(*number) ? fmt::format("{}", *number) : "null";
  } else {
    to += std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
  }
  to += ",";
}

}  // namespace

/// Used by the rule of the setting `type`.
bool is_json_number(dtype type) noexcept {
  return with_number(type, [](auto /*zero*/) {});
}

/// @param field  Name of the numbers; the caller keeps it until the result is there.
result<json_item> parse_json_line(std::string_view line, const flow::port_type& type,
                                  std::string_view field) {
  line_handler handler(type, field);
  static_cast<void>(nlohmann::json::sax_parse(line.begin(), line.end(), &handler));
  return handler.take(type);
}

/// A table with one column of quoted texts has a JSON string in each line, so strings
/// count only where a stage may have written them.
bool begins_as_json_lines(std::string_view text, bool any_value) {
  for (bool first = true; !text.empty(); first = false) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const bool whole = end != std::string_view::npos;
    text.remove_prefix(whole ? end + 1 : text.size());
    const std::size_t begin = line.find_first_not_of(" \t\r");
    const bool is_blank = begin == std::string_view::npos;
    // The last line may end anywhere.
    if (!first && (!whole || is_blank || line.find('\0') != std::string_view::npos)) {
      continue;
    }
    constexpr std::string_view words = "\"tf";
    if (is_blank || (!any_value && words.find(line[begin]) != std::string_view::npos)) {
      return false;
    }
    place_of_mistake found;
    // A part of a line is accepted if nothing but its end is wrong.
    if (!nlohmann::json::sax_parse(line.begin(), line.end(), &found) &&
        (whole || found.position <= line.size())) {
      return false;
    }
  }
  return true;
}

/// Appends a line with its end. An attribute with the name of the field is left out.
result<void> append_json_line(std::string& to, const runtime::tensor& x,
                              const attributes& about, const json_form& form) {
  if (!form.field.empty()) {
    to += "{";
    for (const auto& [name, value] : about) {
      // The member with the numbers would otherwise exist twice.
      if (name != form.field) {
        append_attribute(to, name, value);
      }
    }
    to += json_quote(form.field) + ":";
  }
  result<void> done;
  const bool number = with_number(
      x.type(), [&](auto zero) { done = append_elements<decltype(zero)>(to, x, form); });
  if (!number) {
    return error(errc::unsupported,
                 fmt::format("cannot write a line of JSON: expected numbers, found "
                             "elements {}",
                             flow::port_text(x.type())));
  }
  WEIR_CHECK(done);
  to += form.field.empty() ? "\n" : "}\n";
  return {};
}

}  // namespace weir::actors
