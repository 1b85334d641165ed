// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reading and printing of port types.
///
/// Grammar: `any`, or ELEMENT `[` extents `]`, where an extent is a number, a letter, or
/// `?`. Blanks are allowed around extents.
#include "weir/pipeline/port_type.hpp"

#include <fmt/core.h>

#include <array>
#include <charconv>

#include "weir/base/bytes.hpp"
#include "weir/runtime/tensor.hpp"

namespace weir::flow {
namespace {

/// An element type and its name in texts.
struct element_name {
  dtype type;
  std::string_view text;
};

/// The order is that of messages and documentation.
constexpr std::array<element_name, 17> element_names{{
    {dtype::fp16, "f16"},
    {dtype::bf16, "bf16"},
    {dtype::fp32, "f32"},
    {dtype::fp64, "f64"},
    {dtype::int8, "i8"},
    {dtype::int16, "i16"},
    {dtype::int32, "i32"},
    {dtype::int64, "i64"},
    {dtype::uint8, "u8"},
    {dtype::uint16, "u16"},
    {dtype::uint32, "u32"},
    {dtype::uint64, "u64"},
    {dtype::boolean, "bool"},
    {dtype::complex64, "c64"},
    {dtype::complex128, "c128"},
    {dtype::fp8_e4m3, "e4m3"},
    {dtype::fp8_e5m2, "e5m2"},
}};

/// Text of a type about which nothing is known.
constexpr std::string_view any_text = "any";

/// ASCII alone, whatever the locale.
constexpr bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

/// Reads the text of a type from left to right. `next_` is the offset of the first
/// character that is not read yet.
/// The first mistake ends the reading.
class type_reader {
 public:
  explicit type_reader(std::string_view text) : text_(text) {}

  /// @pre Called once.
  result<port_type> read() {
    // Nothing is known about `any`.
    port_type type;
    if (text_ == any_text) {
      return type;
    }
    // Element and shape, and nothing behind them.
    WEIR_CHECK(read_element(type));
    WEIR_CHECK(read_shape(type));
    if (next_ != text_.size()) {
      return refusal("the end");
    }
    // A fixed type must have a size, because pools are made from it.
    const bool fixed = std::ranges::all_of(
        type.shape, [](const extent& e) { return e.is == extent::kind::fixed; });
    if (fixed && !type.bytes()) {
      return error(errc::invalid_argument,
                   fmt::format("cannot read the type \"{}\": expected fewer than 2^63 "
                               "bytes, found more",
                               text_));
    }
    return type;
  }

 private:
  /// The name ends at the bracket.
  result<void> read_element(port_type& type) {
    // Without a bracket, the name is the whole text.
    const std::string_view name = text_.substr(0, text_.find('['));
    // The name is compared as a whole, so that a prefix of a name is not taken for it.
    for (const auto& row : element_names) {
      if (row.text == name) {
        type.element = row.type;
        next_ = name.size();
        return next_ < text_.size() ? result<void>() : refusal("\"[\"");
      }
    }
    return refusal("an element type such as f32, or any");
  }

  /// Reads the extents and the closing bracket.
  result<void> read_shape(port_type& type) {
    ++next_;  // the bracket, which `read_element` has seen
    skip_blanks();
    // A shape without extents is that of a single element.
    if (take(']')) {
      return {};
    }
    while (true) {
      // Before the extent is read, so the message has its place.
      if (type.shape.size() == runtime::max_dims) {
        return refusal(fmt::format("at most {} extents", runtime::max_dims));
      }
      // Extents are separated by commas; blanks may stand on both sides.
      WEIR_TRY(const extent e, read_extent());
      type.shape.push_back(e);
      skip_blanks();
      if (take(']')) {
        return {};
      }
      if (!take(',')) {
        return refusal("\",\" or \"]\"");
      }
      // Blanks in front of the next extent.
      skip_blanks();
    }
  }

  /// The text has no sign, so a number cannot be negative.
  result<extent> read_extent() {
    // The three forms of an extent differ in their first character.
    const char c = peek();
    // An open extent.
    if (take('?')) {
      return extent{};
    }
    // A letter stands for the same extent at every port.
    if (c >= 'a' && c <= 'z') {
      ++next_;
      return extent{extent::kind::letter, 0, c};
    }
    if (!is_digit(c)) {
      return refusal("a number, a letter from a to z, or \"?\"");
    }
    extent e{extent::kind::fixed, 0, '?'};
    const char* const begin = text_.data() + next_;
    const auto [end, code] =
        std::from_chars(begin, text_.data() + text_.size(), e.number);
    // The number does not fit.
    if (code != std::errc()) {
      return refusal("a number below 2^63");
    }
    // Leading zeros are refused, so that every type has one text.
    if (c == '0' && end - begin > 1) {
      return refusal("a number without leading zeros");
    }
    next_ += static_cast<std::size_t>(end - begin);
    return e;
  }

  /// The end of the text counts as a zero byte.
  [[nodiscard]] char peek() const { return next_ < text_.size() ? text_[next_] : '\0'; }

  /// Takes a character if it comes next.
  bool take(char c) {
    if (next_ == text_.size() || text_[next_] != c) {
      return false;
    }
    ++next_;
    return true;
  }

  /// Only blanks, no tabs.
  void skip_blanks() {
    while (take(' ')) {
    }
  }

  // Positions in the message begin with 1, as columns do in messages of compilers.
  [[nodiscard]] error refusal(std::string_view expected) const {
    // The message shows everything from the mistake on.
    const std::string found =
        next_ < text_.size() ? fmt::format("\"{}\"", text_.substr(next_)) : "the end";
    return {
        errc::invalid_argument,
        fmt::format("cannot read the type \"{}\": expected {} at position {}, found {}",
                    text_, expected, next_ + 1, found)};
  }

  std::string_view text_;
  std::size_t next_ = 0;
};

/// Text of an extent; the counterpart of `read_extent`.
std::string extent_text(const extent& e) {
  switch (e.is) {
    case extent::kind::fixed: return std::to_string(e.number);
    case extent::kind::letter: return {e.letter};
    case extent::kind::unknown: break;
  }
  return "?";
}

}  // namespace

/// Name of an element type. Types without a name of their own have that of Tensogram.
std::string_view port_text(dtype type) {
  for (const auto& row : element_names) {
    if (row.type == type) {
      return row.text;
    }
  }
  return info_of(type).tensogram;
}

/// @error{invalid_argument, the text is no type}
result<port_type> port_type::parse(std::string_view text) {
  return type_reader(text).read();
}

/// Returns the text from which `parse` makes the same type.
std::string port_type::text() const {
  if (!element) {
    return std::string(any_text);
  }
  std::string out(port_text(*element));
  // The text has no blanks, which makes texts of equal types equal.
  out += '[';
  for (std::size_t i = 0; i < shape.size(); ++i) {
    out += i == 0 ? "" : ",";
    out += extent_text(shape[i]);
  }
  out += ']';
  return out;
}

/// Nothing if an extent is open, or if the product does not fit. A type with an extent 0
/// has 0 bytes, however large the others are.
std::optional<std::int64_t> port_type::bytes() const {
  if (!element) {
    return std::nullopt;
  }
  // An empty shape has one element.
  std::int64_t count = 1;
  bool empty = false;
  bool overflow = false;
  // All extents must be numbers.
  for (const extent& e : shape) {
    if (e.is != extent::kind::fixed) {
      return std::nullopt;
    }
    empty = empty || e.number == 0;
    // All extents are looked at, because a later one may be 0.
    overflow = overflow || !checked_mul<std::int64_t>(count, e.number, count);
  }
  if (empty || overflow) {
    return empty ? std::optional<std::int64_t>(0) : std::nullopt;
  }
  const auto size = byte_size(*element, count);
  return size ? std::optional<std::int64_t>(*size) : std::nullopt;
}

}  // namespace weir::flow
