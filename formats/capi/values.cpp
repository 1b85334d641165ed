// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions that look at objects and metadata.
#include <cstring>

#include "capi/handles.hpp"
#include "weir/base/hash.hpp"

using namespace weir::formats;  // NOLINT: the functions below are C

namespace {

const tgm_value* handle(const cbor_value* value) noexcept {
  return reinterpret_cast<const tgm_value*>(value);
}
const cbor_value& value_of(const tgm_value* handle) noexcept {
  return *reinterpret_cast<const cbor_value*>(handle);
}

bool there(const tgm_message* message, std::size_t object) noexcept {
  return object < message->elements.size();
}
const object_descriptor& descriptor(const tgm_message* message, std::size_t object) {
  return message->reader->descriptor(object);
}
tgm_error absent() {
  return keep_error(TGM_OBJECT, "no such object in the message");
}

template <class T>
int give(const std::optional<T>& value, T* out) noexcept {
  if (value) {
    *out = *value;
  }
  return value ? 1 : 0;
}

}  // namespace

extern "C" {

tgm_error tgm_object_data(const tgm_message* message, size_t object, const uint8_t** data,
                          size_t* length) {
  if (!given(message, data, length)) {
    return missing_pointer();
  }
  if (!there(message, object) || !message->elements[object]) {
    return absent();
  }
  *data = reinterpret_cast<const std::uint8_t*>(message->elements[object]->data());
  *length = message->elements[object]->size();
  return TGM_OK;
}
tgm_error tgm_object_shape(const tgm_message* message, size_t object,
                           const int64_t** shape, size_t* ndim) {
  if (!given(message, shape, ndim)) {
    return missing_pointer();
  }
  if (!there(message, object)) {
    return absent();
  }
  *shape = descriptor(message, object).shape.data();
  *ndim = descriptor(message, object).shape.size();
  return TGM_OK;
}
tgm_error tgm_object_strides(const tgm_message* message, size_t object,
                             const uint64_t** strides, size_t* ndim) {
  if (!given(message, strides, ndim)) {
    return missing_pointer();
  }
  if (!there(message, object)) {
    return absent();
  }
  *strides = descriptor(message, object).strides.data();
  *ndim = descriptor(message, object).strides.size();
  return TGM_OK;
}
const char* tgm_object_dtype(const tgm_message* message, size_t object) {
  // The names of the table end in zeros: they are literals.
  return there(message, object)
             ? weir::info_of(descriptor(message, object).type).tensogram.data()
             : nullptr;
}
const char* tgm_object_type(const tgm_message* message, size_t object) {
  return there(message, object) ? descriptor(message, object).object_type.c_str()
                                : nullptr;
}
const char* tgm_object_byte_order(const tgm_message* message, size_t object) {
  if (!there(message, object)) {
    return nullptr;
  }
  return descriptor(message, object).order == byte_order::big ? "big" : "little";
}
const char* tgm_object_encoding(const tgm_message* message, size_t object) {
  return there(message, object) ? descriptor(message, object).encoding.c_str() : nullptr;
}
const char* tgm_object_filter(const tgm_message* message, size_t object) {
  return there(message, object) ? descriptor(message, object).filter.c_str() : nullptr;
}
const char* tgm_object_compression(const tgm_message* message, size_t object) {
  return there(message, object) ? descriptor(message, object).compression.c_str()
                                : nullptr;
}
tgm_error tgm_object_hash(const tgm_message* message, size_t object, char digits[17]) {
  if (!given(message, digits)) {
    return missing_pointer();
  }
  std::size_t i = 0;
  for (const frame_info& frame : message->reader->frames()) {
    if (frame.type != 9 || i++ != object) {
      continue;
    }
    if ((frame.flags & 2) == 0) {
      return keep_error(TGM_MISSING_HASH, "the frame of the object has no digest");
    }
    std::memcpy(digits, weir::hex64(frame.digest).c_str(), 17);
    return TGM_OK;
  }
  return absent();
}

const tgm_value* tgm_metadata_get(const tgm_message* message, const char* path) {
  return handle(find_path(message->reader->metadata(), path));
}
const tgm_value* tgm_metadata_get_at(const tgm_message* message, size_t object,
                                     const char* path) {
  return there(message, object)
             ? handle(find_path(message->reader->metadata(object), path))
             : nullptr;
}

tgm_value_type tgm_value_kind(const tgm_value* value) {
  return static_cast<tgm_value_type>(value_of(value).kind());
}
int tgm_value_as_bool(const tgm_value* value, int* out) {
  const auto found = value_of(value).boolean();
  *out = found.value_or(false) ? 1 : 0;
  return found ? 1 : 0;
}
int tgm_value_as_i64(const tgm_value* value, int64_t* out) {
  return give(value_of(value).int64(), out);
}
int tgm_value_as_u64(const tgm_value* value, uint64_t* out) {
  return give(value_of(value).uint64(), out);
}
int tgm_value_as_f64(const tgm_value* value, double* out) {
  return give(value_of(value).real(), out);
}
int tgm_value_as_string(const tgm_value* value, const char** text, size_t* length) {
  const std::string* found = value_of(value).text();
  if (found != nullptr) {
    *text = found->c_str();
    *length = found->size();
  }
  return found != nullptr ? 1 : 0;
}
int tgm_value_as_bytes(const tgm_value* value, const uint8_t** bytes, size_t* length) {
  const weir::byte_vector* found = value_of(value).bytes();
  if (found != nullptr) {
    *bytes = reinterpret_cast<const std::uint8_t*>(found->data());
    *length = found->size();
  }
  return found != nullptr ? 1 : 0;
}
size_t tgm_value_size(const tgm_value* value) {
  const cbor_value& v = value_of(value);
  if (v.array() != nullptr) {
    return v.array()->size();
  }
  return v.map() != nullptr ? v.map()->size() : 0;
}
const tgm_value* tgm_value_item(const tgm_value* array, size_t index) {
  const cbor_array* items = value_of(array).array();
  return items != nullptr && index < items->size() ? handle(&(*items)[index]) : nullptr;
}
const tgm_value* tgm_value_entry(const tgm_value* map, size_t index,
                                 const tgm_value** key) {
  const cbor_map* entries = value_of(map).map();
  if (entries == nullptr || index >= entries->size()) {
    return nullptr;
  }
  const cbor_entry& entry = entries->begin()[index];
  *key = handle(&entry.key);
  return handle(&entry.value);
}
const tgm_value* tgm_value_find(const tgm_value* map, const char* key) {
  const cbor_map* entries = value_of(map).map();
  return entries != nullptr ? handle(entries->find(key)) : nullptr;
}

}  // extern "C"
