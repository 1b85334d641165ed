// SPDX-License-Identifier: Apache-2.0
/// @file
/// CBOR as a value tree: canonical encoder, tolerant or canonical decoder, rendering as
/// JSON.
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
using cbor_array = std::vector<cbor_value>;

/// Containers (arrays, maps, tags) that may be nested, the outermost included.
inline constexpr std::size_t cbor_depth_limit = 256;

/// A map in canonical order: by the bytes of the encoded key, so text keys by length,
/// then bytewise.
/// @source{RFC 8949, 4.2.1}
/// @threads{a value}
class cbor_map {
 public:
  cbor_map() noexcept;
  cbor_map(std::initializer_list<std::pair<std::string_view, cbor_value>> entries);
  cbor_map(const cbor_map& other);
  cbor_map(cbor_map&& other) noexcept;
  cbor_map& operator=(const cbor_map& other);
  cbor_map& operator=(cbor_map&& other) noexcept;
  ~cbor_map();

  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] const cbor_entry* begin() const noexcept;
  [[nodiscard]] const cbor_entry* end() const noexcept;

  /// Value under a text key, or nullptr.
  [[nodiscard]] const cbor_value* find(std::string_view key) const noexcept;
  [[nodiscard]] cbor_value* find(std::string_view key) noexcept;
  /// Sets or replaces. Returns whether the key was there before.
  bool set(cbor_value key, cbor_value value);
  /// Removes a text key. Returns whether it was there.
  bool erase(std::string_view key);

  /// A map of entries in any order; of equal keys the last stays. Faster than many set().
  [[nodiscard]] static cbor_map from_entries(std::vector<cbor_entry> entries);
  /// The same of entries that are in canonical order, each key once.
  /// @pre they are
  [[nodiscard]] static cbor_map from_sorted(std::vector<cbor_entry> entries) noexcept;

  friend bool operator==(const cbor_map& a, const cbor_map& b);

 private:
  std::vector<cbor_entry> entries_;
};

/// An integer of CBOR: `bits`, or -1 - `bits` if negative; so from -2^64 to 2^64 - 1.
struct cbor_integer {
  bool negative = false;
  std::uint64_t bits = 0;
  friend bool operator==(const cbor_integer&, const cbor_integer&) = default;
};

/// A tagged item. `content` holds exactly one value.
struct cbor_tag {
  std::uint64_t number = 0;
  cbor_array content;
  friend bool operator==(const cbor_tag& a, const cbor_tag& b);
};

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

/// One CBOR item. Accessors never convert between kinds: a wrong kind gives nothing.
/// @threads{a value}
class cbor_value {
 public:
  cbor_value() noexcept {}  // not defaulted: that would zero all its bytes first
  cbor_value(std::nullptr_t) noexcept {}               // NOLINT: implicit
  cbor_value(bool value) noexcept : data_(value) {}    // NOLINT
  cbor_value(double value) noexcept : data_(value) {}  // NOLINT
  cbor_value(float value) noexcept : data_(static_cast<double>(value)) {}  // NOLINT
  cbor_value(cbor_integer value) noexcept : data_(value) {}                // NOLINT
  cbor_value(std::string value) noexcept : data_(std::move(value)) {}      // NOLINT
  cbor_value(std::string_view value) : data_(std::string(value)) {}        // NOLINT
  cbor_value(const char* value) : data_(std::string(value)) {}             // NOLINT
  cbor_value(byte_vector value) noexcept : data_(std::move(value)) {}      // NOLINT
  cbor_value(cbor_array value) noexcept : data_(std::move(value)) {}       // NOLINT
  cbor_value(cbor_map value) noexcept : data_(std::move(value)) {}         // NOLINT
  cbor_value(cbor_tag value) noexcept : data_(std::move(value)) {}         // NOLINT
  template <std::integral T>
  requires(!std::same_as<T, bool>) cbor_value(T value)
  noexcept : data_(to_integer(value)) {}  // NOLINT

  [[nodiscard]] cbor_kind kind() const noexcept {
    return static_cast<cbor_kind>(data_.index());
  }
  [[nodiscard]] bool is_null() const noexcept { return kind() == cbor_kind::null; }
  [[nodiscard]] std::optional<bool> boolean() const noexcept;
  /// Nothing too if the integer does not fit.
  [[nodiscard]] std::optional<std::int64_t> int64() const noexcept;
  [[nodiscard]] std::optional<std::uint64_t> uint64() const noexcept;
  [[nodiscard]] const cbor_integer* integer() const noexcept;
  [[nodiscard]] std::optional<double> real() const noexcept;
  [[nodiscard]] const std::string* text() const noexcept;
  [[nodiscard]] const byte_vector* bytes() const noexcept;
  [[nodiscard]] const cbor_array* array() const noexcept;
  [[nodiscard]] cbor_array* array() noexcept;
  [[nodiscard]] const cbor_map* map() const noexcept;
  [[nodiscard]] cbor_map* map() noexcept;
  [[nodiscard]] const cbor_tag* tag() const noexcept;

  /// A `T` (one of those that the constructors take) made of `from` in place.
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

struct cbor_entry {
  cbor_value key;
  cbor_value value;
  friend bool operator==(const cbor_entry&, const cbor_entry&) = default;
};

/// Whether the encoding of `a` sorts before that of `b`.
[[nodiscard]] bool cbor_key_before(const cbor_value& a, const cbor_value& b);
/// Name of a kind, for messages.
[[nodiscard]] std::string_view name_of(cbor_kind kind) noexcept;
/// Containers nested in a value, itself included; 0 for a scalar.
[[nodiscard]] std::size_t depth_of(const cbor_value& value) noexcept;
[[nodiscard]] std::size_t depth_of(const cbor_map& map) noexcept;

/// Appends the canonical encoding: definite lengths, shortest integers and floats, sorted
/// maps.
/// @source{RFC 8949, 4.2.1}
void encode_cbor(const cbor_value& value, byte_vector& to);
[[nodiscard]] byte_vector encode_cbor(const cbor_value& value);
/// Bytes of an unsigned integer, or of the head of a string, array or map of that length.
[[nodiscard]] std::size_t cbor_head_size(std::uint64_t value) noexcept;
/// Bytes of a float in its shortest form.
[[nodiscard]] std::size_t cbor_real_size(double value) noexcept;

enum class cbor_rules : std::uint8_t {
  tolerant,   ///< any width, order and definiteness; the last of duplicate keys wins
  canonical,  ///< only what `encode_cbor` writes, and nothing after it
};

/// What `decode_cbor` found.
struct cbor_item {
  cbor_value value;
  std::size_t used = 0;   ///< bytes of the item; fewer than given if something follows
  std::string deviation;  ///< first departure from canonical form, empty if there is none
};

/// Decodes the first item. Never recurses and never allocates by a length it has not seen
/// the bytes of. `undefined` becomes null; bignum tags that fit in 64 bits become
/// integers; other tags stay.
/// @error{corrupt, cut short, malformed, text that is not UTF-8, unassigned simple value,
///   more than cbor_depth_limit containers, under `canonical` any deviation}
[[nodiscard]] result<cbor_item> decode_cbor(bytes_view from,
                                            cbor_rules rules = cbor_rules::tolerant);

/// JSON text. Byte strings become hexadecimal text, tags are dropped, NaN and infinities
/// become null, integers outside 64-bit range text; a key that is a container becomes the
/// hexadecimal text of its encoding. `indent` > 0 breaks lines.
[[nodiscard]] std::string to_json(const cbor_value& value, int indent = 0);

}  // namespace weir::formats
