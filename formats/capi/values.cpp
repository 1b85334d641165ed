// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions that read single values of metadata.
///
/// A function for another type than that of the value answers false or NULL and leaves
/// the output as it is. Values are never converted, except integers to floats.
#include "capi/values.hpp"

#include <tensogram/tensogram_x.h>
#include <limits>

namespace weir::capi {

using namespace weir::formats;  // NOLINT: this file translates between the two

/// Tags may be nested; each has exactly one value.
const cbor_value& without_tags(const cbor_value& value) noexcept {
  const cbor_value* out = &value;
  // A tag without a value cannot come from decoding.
  while (out->tag() != nullptr) {
    out = &out->tag()->content.front();
  }
  return *out;
}

/// Integers beyond 64 bits are -1 - bits with bits of 2^63 or more.
std::optional<double> widened(const cbor_value& value) noexcept {
  if (value.integer() == nullptr) {
    // Reals are returned as they are, other kinds not at all.
    return value.real();
  }
  if (value.int64()) {
    return static_cast<double>(*value.int64());
  }
  // Beyond 2^53 the nearest float is returned.
  const auto bits = static_cast<double>(value.integer()->bits);
  return value.integer()->negative ? -1.0 - bits : bits;
}

/// Returns the decimal digits of an integer, also of one that fits no 64-bit type.
std::string digits_of(const cbor_integer& value) {
  if (!value.negative) {
    return std::to_string(value.bits);
  }
  // The number is -1 - bits, whose digits are those of bits + 1.
  const bool fits = value.bits != std::numeric_limits<std::uint64_t>::max();
  std::string out = "-";
  // The largest number of bits plus one does not fit, so its digits are written out.
  out += fits ? std::to_string(value.bits + 1) : "18446744073709551616";
  return out;
}

}  // namespace weir::capi

using namespace weir::formats;  // NOLINT: the functions below are C
using weir::capi::handle_of;

namespace {

/// Returns the value behind a handle, without tags; a null value for NULL.
/// The handle is the address of the value (values.hpp).
const cbor_value& value_of(const tgm_value_t* v) noexcept {
  static const cbor_value null;
  // Tags have no meaning for these functions.
  return v != nullptr ? weir::capi::without_tags(*reinterpret_cast<const cbor_value*>(v))
                      : null;
}

/// Stores a value for the caller. Returns false if there is none.
template <class T>
bool give(const std::optional<T>& value, T* out) noexcept {
  // The output is not touched if there is no value.
  if (!value || out == nullptr) {
    return false;
  }
  *out = *value;
  return true;
}

/// Returns the address of a text or of bytes and stores their length; NULL and 0 if there
/// are none.
template <class Content>
auto give_content(const Content* found, std::size_t* out_length) noexcept {
  // The length is optional.
  if (out_length != nullptr) {
    *out_length = found != nullptr ? found->size() : 0;
  }
  return found != nullptr ? found->data() : nullptr;
}

/// Returns an entry of a map, or NULL.
/// Maps are ordered by their keys, so the index of an entry does not change.
const cbor_entry* entry_at(const tgm_value_t* v, std::size_t index) noexcept {
  const cbor_map* map = value_of(v).map();
  // The entries are one array, so the index is enough.
  return map != nullptr && index < map->size() ? map->begin() + index : nullptr;
}

}  // namespace

extern "C" {

tgm_value_type tgm_value_get_type(const tgm_value_t* v) {
  // The type is that of the value within all tags.
  switch (value_of(v).kind()) {
    case cbor_kind::boolean: return TGM_VALUE_TYPE_BOOL;
    case cbor_kind::integer: return TGM_VALUE_TYPE_INT;
    case cbor_kind::real: return TGM_VALUE_TYPE_FLOAT;
    case cbor_kind::text: return TGM_VALUE_TYPE_STRING;
    case cbor_kind::bytes: return TGM_VALUE_TYPE_BYTES;
    case cbor_kind::array: return TGM_VALUE_TYPE_ARRAY;
    case cbor_kind::map: return TGM_VALUE_TYPE_MAP;
    // null, and a NULL handle.
    default: return TGM_VALUE_TYPE_NULL;
  }
}

bool tgm_value_as_bool(const tgm_value_t* v, bool* out) {
  return give(value_of(v).boolean(), out);
}

bool tgm_value_as_i64(const tgm_value_t* v, int64_t* out) {
  // False for numbers beyond the type.
  return give(value_of(v).int64(), out);
}

bool tgm_value_as_u64(const tgm_value_t* v, uint64_t* out) {
  return give(value_of(v).uint64(), out);
}

bool tgm_value_as_f64(const tgm_value_t* v, double* out) {
  // Also true for integers, which are the only conversion.
  return give(weir::capi::widened(value_of(v)), out);
}

const char* tgm_value_as_string(const tgm_value_t* v, size_t* len_out) {
  // Texts may contain zeros, hence the length.
  return give_content(value_of(v).text(), len_out);
}

const uint8_t* tgm_value_as_bytes(const tgm_value_t* v, size_t* len_out) {
  // Empty bytes have an address too, so that they differ from a value of another type.
  static const std::uint8_t nothing = 0;
  const weir::byte_vector* found = value_of(v).bytes();
  const auto* data = reinterpret_cast<const std::uint8_t*>(give_content(found, len_out));
  return found != nullptr && data == nullptr ? &nothing : data;
}

size_t tgm_value_array_len(const tgm_value_t* v) {
  // Zero for values that are no arrays.
  const cbor_array* array = value_of(v).array();
  return array != nullptr ? array->size() : 0;
}

const tgm_value_t* tgm_value_array_get(const tgm_value_t* v, size_t index) {
  // The comparison covers values of other types, whose length is 0.
  return index < tgm_value_array_len(v) ? handle_of(&(*value_of(v).array())[index])
                                        : nullptr;
}

size_t tgm_value_map_len(const tgm_value_t* v) {
  // Zero for values that are no maps.
  const cbor_map* map = value_of(v).map();
  return map != nullptr ? map->size() : 0;
}

const char* tgm_value_map_key_at(const tgm_value_t* v, size_t index, size_t* len_out) {
  const cbor_entry* entry = entry_at(v, index);
  // Keys need not be texts; the others have no key in C.
  return give_content(entry != nullptr ? entry->key.text() : nullptr, len_out);
}

const tgm_value_t* tgm_value_map_value_at(const tgm_value_t* v, size_t index) {
  const cbor_entry* entry = entry_at(v, index);
  // The handle is valid as long as the metadata is.
  return entry != nullptr ? handle_of(&entry->value) : nullptr;
}

const tgm_value_t* tgm_value_map_get(const tgm_value_t* v, const char* key) {
  const cbor_map* map = value_of(v).map();
  // Only keys that are texts can be found by name.
  return map != nullptr && key != nullptr ? handle_of(map->find(key)) : nullptr;
}

/// The only function that looks at a tag itself.
bool tgm_x_value_tag(const tgm_value_t* v, uint64_t* out) {
  const auto* value = reinterpret_cast<const cbor_value*>(v);
  if (value == nullptr || value->tag() == nullptr || out == nullptr) {
    return false;
  }
  *out = value->tag()->number;
  return true;
}

}  // extern "C"
