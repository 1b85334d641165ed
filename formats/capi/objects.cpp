// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions that give access to a decoded message and its objects. They read a handle
/// that does not change, so they may be called concurrently.
#include "capi/failure.hpp"
#include "capi/handles.hpp"

namespace {

using weir::capi::decoded_object;
using weir::capi::guarded;
using weir::capi::outcome;

/// Returns an object, or NULL if there is none with this index.
/// All functions below look up their object here, so none of them can go beyond the end.
const decoded_object* object_at(const tgm_message_t* msg, std::size_t index) noexcept {
  return msg != nullptr && index < msg->objects.size() ? &msg->objects[index] : nullptr;
}

/// Returns a text of an object, or NULL.
/// `member` is one of the texts of an object.
const char* text_at(const tgm_message_t* msg, std::size_t index,
                    std::string decoded_object::*member) noexcept {
  const decoded_object* object = object_at(msg, index);
  return object != nullptr ? (object->*member).c_str() : nullptr;
}

/// Returns the address of an array. It is not NULL for an empty array, so that callers
/// can distinguish that from an absent object.
template <class T>
const T* address_of(const std::vector<T>& values) noexcept {
  // The address is valid forever and must not be read.
  static const T nothing{};
  return values.empty() ? &nothing : values.data();
}

}  // namespace

extern "C" {

/// There is only one version that this library decodes.
uint64_t tgm_message_version(const tgm_message_t* msg) {
  return msg != nullptr ? TGM_WIRE_VERSION : 0;
}

/// NULL has no objects.
size_t tgm_message_num_objects(const tgm_message_t* msg) {
  return msg != nullptr ? msg->objects.size() : 0;
}

/// All objects of a handle are decoded.
size_t tgm_message_num_decoded(const tgm_message_t* msg) {
  return tgm_message_num_objects(msg);
}

tgm_error tgm_message_metadata(const tgm_message_t* msg, tgm_metadata_t** out) {
  return guarded(weir::capi::given(msg, out), [&]() -> outcome<void> {
    // The metadata are copied, since both handles may be freed in any order.
    *out = new tgm_metadata_t(*msg->metadata);
    return {};
  });
}

/// Frees all that functions below have returned for this message.
void tgm_message_free(tgm_message_t* msg) {
  delete msg;
}

/// A number has no dimensions, and so has an object that does not exist.
uint64_t tgm_object_ndim(const tgm_message_t* msg, size_t index) {
  const decoded_object* object = object_at(msg, index);
  return object != nullptr ? object->shape.size() : 0;
}

/// Points to as many numbers as `tgm_object_ndim` says.
const uint64_t* tgm_object_shape(const tgm_message_t* msg, size_t index) {
  const decoded_object* object = object_at(msg, index);
  return object != nullptr ? address_of(object->shape) : nullptr;
}

const uint64_t* tgm_object_strides(const tgm_message_t* msg, size_t index) {
  const decoded_object* object = object_at(msg, index);
  return object != nullptr ? address_of(object->strides) : nullptr;
}

/// The name is a constant of the library and not part of the handle.
const char* tgm_object_dtype(const tgm_message_t* msg, size_t index) {
  const decoded_object* object = object_at(msg, index);
  return object != nullptr ? object->dtype : nullptr;
}

/// Returns the byte order of the file, whatever order the elements were decoded to.
const char* tgm_object_byte_order(const tgm_message_t* msg, size_t index) {
  const decoded_object* object = object_at(msg, index);
  return object != nullptr ? object->order : nullptr;
}

const char* tgm_object_type(const tgm_message_t* msg, size_t index) {
  return text_at(msg, index, &decoded_object::type);
}

const char* tgm_payload_encoding(const tgm_message_t* msg, size_t index) {
  return text_at(msg, index, &decoded_object::encoding);
}

const char* tgm_object_filter(const tgm_message_t* msg, size_t index) {
  return text_at(msg, index, &decoded_object::filter);
}

const char* tgm_object_compression(const tgm_message_t* msg, size_t index) {
  return text_at(msg, index, &decoded_object::compression);
}

/// True if the object has a digest, whether or not it was verified.
int32_t tgm_payload_has_hash(const tgm_message_t* msg, size_t index) {
  const decoded_object* object = object_at(msg, index);
  return object != nullptr && !object->digest.empty() ? 1 : 0;
}

/// There is one kind of digest.
const char* tgm_object_hash_type(const tgm_message_t* msg, size_t index) {
  return tgm_payload_has_hash(msg, index) != 0 ? "xxh3" : nullptr;
}

const char* tgm_object_hash_value(const tgm_message_t* msg, size_t index) {
  return tgm_payload_has_hash(msg, index) != 0
             ? text_at(msg, index, &decoded_object::digest)
             : nullptr;
}

/// The bytes belong to the message and are valid until it is freed.
const uint8_t* tgm_object_data(const tgm_message_t* msg, size_t decoded_index,
                               size_t* out_len) {
  // The length is optional.
  const decoded_object* object = object_at(msg, decoded_index);
  if (out_len != nullptr) {
    *out_len = object != nullptr ? object->elements.size() : 0;
  }
  return object != nullptr
             ? reinterpret_cast<const std::uint8_t*>(address_of(object->elements))
             : nullptr;
}

}  // extern "C"
