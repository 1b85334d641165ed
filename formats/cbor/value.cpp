// SPDX-License-Identifier: Apache-2.0
/// @file
/// The tree of CBOR values: order of keys, look-ups, comparisons.
///
/// A map is a vector of entries in canonical order: it takes less memory than a tree,
/// keeps the order that the encoder needs, and is searched by halving.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "weir/formats/cbor.hpp"

namespace weir::formats {

namespace {

/// Major type of the encoding: the first thing that decides the order of keys.
/// The values are those of RFC 8949, 3.1.
int major_type(const cbor_value& v) noexcept {
  switch (v.kind()) {
    case cbor_kind::integer: return v.integer()->negative ? 1 : 0;
    case cbor_kind::bytes: return 2;
    case cbor_kind::text: return 3;
    case cbor_kind::array: return 4;
    case cbor_kind::map: return 5;
    case cbor_kind::tag: return 6;
    // Reals, booleans, null and other simple values.
    default: return 7;
  }
}

/// Compares two texts by the bytes of their encodings. The head of a text begins with its
/// length, so the shorter text comes first.
bool text_before(std::string_view a, std::string_view b) noexcept {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

/// Compares a key of any kind with a text without making a value of the text. Kinds with
/// a smaller major type than text (3) come before all texts.
bool before_text(const cbor_value& key, std::string_view text) noexcept {
  const std::string* own = key.text();
  // Keys of a larger major type come behind all texts.
  return own != nullptr ? text_before(*own, text) : major_type(key) < 3;
}

/// Returns whether a key is this text.
bool is_text(const cbor_value& key, std::string_view text) noexcept {
  return key.text() != nullptr && *key.text() == text;
}

/// Returns the bits of a real, with one value for all NaNs.
std::uint64_t comparable_bits(double value) noexcept {
  return std::bit_cast<std::uint64_t>(
      // NaN has many patterns of bits, and a comparison should not see the difference.
      std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value);
}

}  // namespace

/// Orders keys as canonical form does: by the bytes of their encoding (RFC 8949, 4.2.1).
/// Integers and texts, the usual keys, are compared without encoding them.
bool cbor_key_before(const cbor_value& a, const cbor_value& b) {
  const int major_a = major_type(a);
  const int major_b = major_type(b);
  if (major_a != major_b) {
    return major_a < major_b;
  }
  // The head of an integer grows with its bits, for negative ones too (-1 is 0).
  if (major_a <= 1) {
    return a.integer()->bits < b.integer()->bits;
  }
  if (major_a == 3) {
    return text_before(*a.text(), *b.text());
  }
  // Rare kinds of keys are encoded. Their bytes decide by definition.
  const byte_vector left = encode_cbor(a);
  const byte_vector right = encode_cbor(b);
  return std::lexicographical_compare(left.begin(), left.end(), right.begin(),
                                      right.end());
}

cbor_map::cbor_map() noexcept = default;
cbor_map::cbor_map(const cbor_map& other) = default;
cbor_map::cbor_map(cbor_map&& other) noexcept = default;
cbor_map& cbor_map::operator=(const cbor_map& other) = default;
cbor_map& cbor_map::operator=(cbor_map&& other) noexcept = default;
cbor_map::~cbor_map() = default;

cbor_map::cbor_map(
    std::initializer_list<std::pair<std::string_view, cbor_value>> entries) {
  // Sets each entry, so the order of the list does not matter.
  for (const auto& [key, value] : entries) {
    set(cbor_value(key), value);
  }
}

/// Equal or unsorted keys would make look-ups miss, so only sorted ones may come here.
cbor_map cbor_map::from_sorted(std::vector<cbor_entry> entries) noexcept {
  cbor_map map;
  map.entries_ = std::move(entries);
  return map;
}

/// Sorts only if need be. The sort is stable, so that the last of several equal keys in
/// the input is the last of its run and is the one that stays.
cbor_map cbor_map::from_entries(std::vector<cbor_entry> entries) {
  const auto before = [](const cbor_entry& a, const cbor_entry& b) {
    return cbor_key_before(a.key, b.key);
  };
  // True also for equal keys, which must not stay side by side.
  const auto not_before = [&](const cbor_entry& a, const cbor_entry& b) {
    return !before(a, b);
  };
  // Decoded messages are sorted already, so this is the usual case.
  if (std::adjacent_find(entries.begin(), entries.end(), not_before) == entries.end()) {
    return from_sorted(std::move(entries));
  }
  std::stable_sort(entries.begin(), entries.end(), before);
  // Equal keys stand side by side in the order of the file: keep the last of each run.
  std::size_t unique = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    // A key that comes again further behind is dropped here.
    if (i + 1 < entries.size() && !before(entries[i], entries[i + 1])) {
      continue;
    }
    if (unique != i) {
      // An element must not be moved to itself.
      entries[unique] = std::move(entries[i]);
    }
    ++unique;
  }
  entries.resize(unique);
  return from_sorted(std::move(entries));
}

/// Entries, not keys: no key occurs twice.
std::size_t cbor_map::size() const noexcept {
  return entries_.size();
}
/// Entries are in one array, so a pointer serves as an iterator.
const cbor_entry* cbor_map::begin() const noexcept {
  return entries_.data();
}
const cbor_entry* cbor_map::end() const noexcept {
  return entries_.data() + entries_.size();
}

/// Finds a value by its key. The entries are sorted, so half of the rest is excluded in
/// each step.
const cbor_value* cbor_map::find(std::string_view key) const noexcept {
  const auto entry = std::lower_bound(
      entries_.begin(), entries_.end(), key,
      [](const cbor_entry& e, std::string_view k) { return before_text(e.key, k); });
  // The place at which the key would stand may hold another one.
  return entry != entries_.end() && is_text(entry->key, key) ? &entry->value : nullptr;
}

cbor_value* cbor_map::find(std::string_view key) noexcept {
  // One search serves both. The entry belongs to this map, which is not constant.
  return const_cast<cbor_value*>(std::as_const(*this).find(key));
}

/// Keeps the entries sorted; an existing key gets the new value. Returns whether it
/// existed.
bool cbor_map::set(cbor_value key, cbor_value value) {
  const auto entry = std::lower_bound(
      entries_.begin(), entries_.end(), key,
      [](const cbor_entry& e, const cbor_value& k) { return cbor_key_before(e.key, k); });
  // Neither is before the other, so they are equal.
  if (entry != entries_.end() && !cbor_key_before(key, entry->key)) {
    entry->value = std::move(value);
    return true;
  }
  entries_.insert(entry, cbor_entry{std::move(key), std::move(value)});
  return false;
}

/// Removes the entry with the key. Returns false if there is none.
bool cbor_map::erase(std::string_view key) {
  const auto entry =
      std::find_if(entries_.begin(), entries_.end(),
                   [&](const cbor_entry& e) { return is_text(e.key, key); });
  if (entry == entries_.end()) {
    return false;
  }
  entries_.erase(entry);
  return true;
}

/// Both maps are in canonical order, so equal maps have equal entries at equal places.
bool operator==(const cbor_map& a, const cbor_map& b) {
  return a.entries_ == b.entries_;
}

bool operator==(const cbor_tag& a, const cbor_tag& b) {
  return a.number == b.number && a.content == b.content;
}

/// Compares two values. Two reals are equal if their bits are, with all NaN alike as
/// `comparable_bits` defines it; so a value is always equal to its copy, also if it
/// contains a NaN.
bool operator==(const cbor_value& a, const cbor_value& b) {
  // All other kinds are compared as they are.
  if (a.kind() == cbor_kind::real && b.kind() == cbor_kind::real) {
    return comparable_bits(*a.real()) == comparable_bits(*b.real());
  }
  return a.data_ == b.data_;
}

std::optional<bool> cbor_value::boolean() const noexcept {
  const bool* value = std::get_if<bool>(&data_);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

/// The value is bits, or -1 - bits if negative, so 2^63 - 1 is the limit of both.
std::optional<std::int64_t> cbor_value::int64() const noexcept {
  const cbor_integer* value = integer();
  // Larger numbers exist in CBOR, but not in this type.
  if (value == nullptr || value->bits > 0x7FFF'FFFF'FFFF'FFFFu) {
    return std::nullopt;
  }
  const auto bits = static_cast<std::int64_t>(value->bits);
  return value->negative ? -1 - bits : bits;
}

std::optional<std::uint64_t> cbor_value::uint64() const noexcept {
  // Negative numbers do not fit, whatever their size.
  const cbor_integer* value = integer();
  return value != nullptr && !value->negative ? std::optional(value->bits) : std::nullopt;
}

std::optional<double> cbor_value::real() const noexcept {
  // Integers are no reals here, so that kinds stay apart.
  const double* value = std::get_if<double>(&data_);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

const cbor_integer* cbor_value::integer() const noexcept {
  // The functions below give null for values of another kind.
  return std::get_if<cbor_integer>(&data_);
}
const std::string* cbor_value::text() const noexcept {
  return std::get_if<std::string>(&data_);
}
const byte_vector* cbor_value::bytes() const noexcept {
  return std::get_if<byte_vector>(&data_);
}
const cbor_array* cbor_value::array() const noexcept {
  return std::get_if<cbor_array>(&data_);
}
cbor_array* cbor_value::array() noexcept {
  return std::get_if<cbor_array>(&data_);
}
const cbor_map* cbor_value::map() const noexcept {
  return std::get_if<cbor_map>(&data_);
}
cbor_map* cbor_value::map() noexcept {
  return std::get_if<cbor_map>(&data_);
}
const cbor_tag* cbor_value::tag() const noexcept {
  return std::get_if<cbor_tag>(&data_);
}

/// The order of the names is that of the enumerators.
std::string_view name_of(cbor_kind kind) noexcept {
  constexpr std::array<std::string_view, 9> names{
      "null", "boolean", "integer", "real", "text", "bytes", "array", "map", "tag"};
  return names[static_cast<std::size_t>(kind)];
}

/// Returns how deep containers are nested; keys count as well as values.
std::size_t depth_of(const cbor_map& map) noexcept {
  std::size_t inner = 0;
  for (const cbor_entry& entry : map) {
    // Keys may be containers, too.
    inner = std::max({inner, depth_of(entry.key), depth_of(entry.value)});
  }
  // The map itself counts as one level.
  return inner + 1;
}

/// Scalars have depth 0. The recursion is bounded by the depth that decoding allows.
std::size_t depth_of(const cbor_value& value) noexcept {
  std::size_t inner = 0;
  if (const cbor_array* array = value.array()) {
    for (const cbor_value& item : *array) {
      inner = std::max(inner, depth_of(item));
    }
  } else if (const cbor_map* map = value.map()) {
    // Maps count their own level.
    return depth_of(*map);
  } else if (const cbor_tag* tag = value.tag()) {
    for (const cbor_value& item : tag->content) {
      inner = std::max(inner, depth_of(item));
    }
  } else {
    return 0;
  }
  return inner + 1;
}

}  // namespace weir::formats
