// SPDX-License-Identifier: Apache-2.0
/// @file
/// CBOR as a tree of values: canonical encoder, tolerant or canonical decoder, output as
/// JSON.
/// @source{RFC 8949}
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::formats {

class cbor_value;
struct cbor_entry;
/// A sequence of values.
using cbor_array = std::vector<cbor_value>;

/// Largest depth of nested containers (arrays, maps, tags), the outermost included.
inline constexpr std::size_t cbor_depth_limit = 256;

/// A map in canonical order: by the bytes of the encoded keys. Text keys are thus ordered
/// by length, then by their bytes.
/// @source{RFC 8949, 4.2.1}
/// @threads{a value}
class cbor_map {
 public:
  /// Makes an empty map.
  cbor_map() noexcept;
  /// Makes a map of these entries; the last of equal keys stays.
  cbor_map(std::initializer_list<std::pair<std::string_view, cbor_value>> entries);
  /// Copies a map.
  cbor_map(const cbor_map& other);
  /// Takes over the entries of a map.
  cbor_map(cbor_map&& other) noexcept;
  /// Copies a map.
  cbor_map& operator=(const cbor_map& other);
  /// Takes over the entries of a map.
  cbor_map& operator=(cbor_map&& other) noexcept;
  ~cbor_map();

  /// Returns the number of entries.
  [[nodiscard]] std::size_t size() const noexcept;
  /// Returns true if there is no entry.
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// Returns the first entry in canonical order.
  [[nodiscard]] const cbor_entry* begin() const noexcept;
  /// Returns the place behind the last entry.
  [[nodiscard]] const cbor_entry* end() const noexcept;

  /// Returns the value of a text key, or nullptr.
  [[nodiscard]] const cbor_value* find(std::string_view key) const noexcept;
  /// Returns the value of a text key, which may be changed, or nullptr.
  [[nodiscard]] cbor_value* find(std::string_view key) noexcept;
  /// Sets the value of a key. Returns true if it replaced a value.
  bool set(cbor_value key, cbor_value value);
  /// Removes a text key. Returns true if it existed.
  bool erase(std::string_view key);

  /// Makes a map of entries in any order; the last of equal keys stays. Faster than many
  /// calls of set().
  [[nodiscard]] static cbor_map from_entries(std::vector<cbor_entry> entries);
  /// Makes a map of entries that are in canonical order and have different keys.
  /// @pre The order and the keys are not checked.
  [[nodiscard]] static cbor_map from_sorted(std::vector<cbor_entry> entries) noexcept;

  friend bool operator==(const cbor_map& a, const cbor_map& b);

 private:
  std::vector<cbor_entry> entries_;
};

/// An integer from -2^64 to 2^64 - 1: `bits`, or -1 - `bits` if negative.
struct cbor_integer {
  bool negative = false;   ///< true for integers below 0
  std::uint64_t bits = 0;  ///< value, or -1 - value
  friend bool operator==(const cbor_integer&, const cbor_integer&) = default;
};

/// A tagged value.
struct cbor_tag {
  std::uint64_t number = 0;  ///< number of the tag
  cbor_array content;        ///< the value, exactly one
  friend bool operator==(const cbor_tag& a, const cbor_tag& b);
};

/// Kinds of values.
enum class cbor_kind : std::uint8_t {
  null,
  boolean,
  integer,
  real,
  text,
  bytes,
  array,
  map,
  tag,
};

/// One CBOR value. Accessors do not convert between kinds: of a value of another kind
/// they return nothing or nullptr.
/// @threads{a value}
class cbor_value {
 public:
  /// Makes a null.
  cbor_value() noexcept {}  // not defaulted: that would zero all its bytes first
  /// Makes a null.
  cbor_value(std::nullptr_t) noexcept {}  // NOLINT: implicit
  /// Makes a boolean.
  cbor_value(bool value) noexcept : data_(value) {}  // NOLINT
  /// Makes a real.
  cbor_value(double value) noexcept : data_(value) {}  // NOLINT
  /// Makes a real.
  cbor_value(float value) noexcept : data_(static_cast<double>(value)) {}  // NOLINT
  /// Makes an integer.
  cbor_value(cbor_integer value) noexcept : data_(value) {}  // NOLINT
  /// Makes a text, which is UTF-8.
  cbor_value(std::string value) noexcept : data_(std::move(value)) {}  // NOLINT
  /// Makes a text, which is UTF-8.
  cbor_value(std::string_view value) : data_(std::string(value)) {}  // NOLINT
  /// Makes a text, which is UTF-8.
  cbor_value(const char* value) : data_(std::string(value)) {}  // NOLINT
  /// Makes a byte string.
  cbor_value(byte_vector value) noexcept : data_(std::move(value)) {}  // NOLINT
  /// Makes an array.
  cbor_value(cbor_array value) noexcept : data_(std::move(value)) {}  // NOLINT
  /// Makes a map.
  cbor_value(cbor_map value) noexcept : data_(std::move(value)) {}  // NOLINT
  /// Makes a tagged value.
  cbor_value(cbor_tag value) noexcept : data_(std::move(value)) {}  // NOLINT
  /// Makes an integer.
  template <std::integral T>
  requires(!std::same_as<T, bool>) cbor_value(T value)
  noexcept : data_(to_integer(value)) {}  // NOLINT

  /// Returns the kind.
  [[nodiscard]] cbor_kind kind() const noexcept {
    return static_cast<cbor_kind>(data_.index());
  }
  /// Returns true for a null.
  [[nodiscard]] bool is_null() const noexcept { return kind() == cbor_kind::null; }
  /// Returns the value of a boolean.
  [[nodiscard]] std::optional<bool> boolean() const noexcept;
  /// Returns an integer that fits into 64 bits with a sign.
  [[nodiscard]] std::optional<std::int64_t> int64() const noexcept;
  /// Returns an integer that fits into 64 bits without a sign.
  [[nodiscard]] std::optional<std::uint64_t> uint64() const noexcept;
  /// Returns an integer of any size.
  [[nodiscard]] const cbor_integer* integer() const noexcept;
  /// Returns a real.
  [[nodiscard]] std::optional<double> real() const noexcept;
  /// Returns a text.
  [[nodiscard]] const std::string* text() const noexcept;
  /// Returns a byte string.
  [[nodiscard]] const byte_vector* bytes() const noexcept;
  /// Returns an array.
  [[nodiscard]] const cbor_array* array() const noexcept;
  /// Returns an array, which may be changed.
  [[nodiscard]] cbor_array* array() noexcept;
  /// Returns a map.
  [[nodiscard]] const cbor_map* map() const noexcept;
  /// Returns a map, which may be changed.
  [[nodiscard]] cbor_map* map() noexcept;
  /// Returns a tagged value.
  [[nodiscard]] const cbor_tag* tag() const noexcept;

  /// Makes a `T`, one of the types of the other constructors, in place.
  template <class T, class... From>
  explicit cbor_value(std::in_place_type_t<T> kind, From&&... from)
      : data_(kind, std::forward<From>(from)...) {}

  /// Equal kind and content; reals by their bits after all NaNs became one.
  friend bool operator==(const cbor_value& a, const cbor_value& b);

 private:
  template <std::integral T>
  static cbor_integer to_integer(T value) noexcept {
    if constexpr (std::signed_integral<T>) {
      if (value < 0) {
        return {true, static_cast<std::uint64_t>(-1 - static_cast<std::int64_t>(value))};
      }
    }
    return {false, static_cast<std::uint64_t>(value)};
  }

  std::variant<std::monostate, bool, cbor_integer, double, std::string, byte_vector,
               cbor_array, cbor_map, cbor_tag>
      data_;
};

/// An entry of a map.
struct cbor_entry {
  cbor_value key;    ///< key of the entry
  cbor_value value;  ///< value of the entry
  friend bool operator==(const cbor_entry&, const cbor_entry&) = default;
};

/// Returns true if the encoding of `a` comes before that of `b` in canonical order.
[[nodiscard]] bool cbor_key_before(const cbor_value& a, const cbor_value& b);
/// Returns the name of a kind, for messages.
[[nodiscard]] std::string_view name_of(cbor_kind kind) noexcept;
/// Returns the depth of nested containers of a value, itself included; 0 for a scalar.
[[nodiscard]] std::size_t depth_of(const cbor_value& value) noexcept;
/// Returns the depth of nested containers of a map, itself included.
[[nodiscard]] std::size_t depth_of(const cbor_map& map) noexcept;

/// Appends the canonical encoding of a value: definite lengths, shortest integers and
/// floats, sorted maps.
/// @source{RFC 8949, 4.2.1}
void encode_cbor(const cbor_value& value, byte_vector& to);
/// Returns the canonical encoding of a value. @source{RFC 8949, 4.2.1}
[[nodiscard]] byte_vector encode_cbor(const cbor_value& value);
/// Returns the encoded size of an unsigned integer, or of the head of a string, array or
/// map of that length. @units{bytes}
[[nodiscard]] std::size_t cbor_head_size(std::uint64_t value) noexcept;
/// Returns the size of the shortest encoding of a float. @units{bytes}
[[nodiscard]] std::size_t cbor_real_size(double value) noexcept;

/// Strictness of the decoder.
enum class cbor_rules : std::uint8_t {
  tolerant,   ///< any width, order and definiteness; the last of duplicate keys wins
  canonical,  ///< only what `encode_cbor` writes, and nothing after it
};

/// Result of `decode_cbor`.
struct cbor_item {
  cbor_value value;       ///< decoded value
  std::size_t used = 0;   ///< bytes of the item; more may follow
  std::string deviation;  ///< first deviation from canonical form; empty: none
};

/// Decodes the first item. It does not recurse, and allocates memory only for bytes that
/// exist. `undefined` becomes null; bignum tags that fit into 64 bits become integers;
/// other tags stay. @threads{safe to call concurrently}
/// @error{corrupt; truncated, malformed, text that is not UTF-8, an unassigned simple
/// value, more than cbor_depth_limit containers, or, under `canonical`, any deviation}
[[nodiscard]] result<cbor_item> decode_cbor(bytes_view from,
                                            cbor_rules rules = cbor_rules::tolerant);

/// Returns a value as JSON. Byte strings become hexadecimal text, tags are dropped, NaN
/// and infinities become null, integers beyond 64 bits become text; a key that is a
/// container becomes the hexadecimal text of its encoding. `indent` > 0 breaks lines.
[[nodiscard]] std::string to_json(const cbor_value& value, int indent = 0);

}  // namespace weir::formats
