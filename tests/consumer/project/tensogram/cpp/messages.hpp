// SPDX-License-Identifier: Apache-2.0
/// @file
/// Values, metadata and messages; encoding and decoding.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "handles.hpp"

namespace wrapped {

/// A view of a value; it lives as long as its metadata.
class value {
 public:
  explicit value(const tgm_value_t* raw) : raw_(raw) {}
  explicit operator bool() const noexcept { return raw_ != nullptr; }
  tgm_value_type type() const { return tgm_value_get_type(raw_); }
  std::optional<bool> as_bool() const { return as(tgm_value_as_bool); }
  std::optional<std::int64_t> as_i64() const { return as(tgm_value_as_i64); }
  std::optional<std::uint64_t> as_u64() const { return as(tgm_value_as_u64); }
  std::optional<double> as_f64() const { return as(tgm_value_as_f64); }
  std::optional<std::string_view> as_string() const {
    std::size_t length = 0;
    const char* text = tgm_value_as_string(raw_, &length);
    return text != nullptr ? std::optional(std::string_view(text, length)) : std::nullopt;
  }
  std::optional<std::vector<std::uint8_t>> as_bytes() const {
    std::size_t length = 0;
    const std::uint8_t* data = tgm_value_as_bytes(raw_, &length);
    return data != nullptr ? std::optional(std::vector(data, data + length))
                           : std::nullopt;
  }
  std::vector<value> items() const {
    std::vector<value> out;
    for (std::size_t i = 0; i < tgm_value_array_len(raw_); ++i) {
      out.emplace_back(tgm_value_array_get(raw_, i));
    }
    return out;
  }
  std::vector<std::pair<std::string, value>> entries() const {
    std::vector<std::pair<std::string, value>> out;
    for (std::size_t i = 0; i < tgm_value_map_len(raw_); ++i) {
      std::size_t length = 0;
      const char* key = tgm_value_map_key_at(raw_, i, &length);
      out.emplace_back(std::string(key, length), tgm_value_map_value_at(raw_, i));
    }
    return out;
  }
  value operator[](const char* key) const { return value(tgm_value_map_get(raw_, key)); }

 private:
  template <class T>
  std::optional<T> as(bool (*get)(const tgm_value_t*, T*)) const {
    T out{};
    return get(raw_, &out) ? std::optional<T>(out) : std::nullopt;
  }
  const tgm_value_t* raw_;
};

/// Metadata of a message.
class metadata {
 public:
  using handle = owner<tgm_metadata_t, tgm_metadata_free>;
  explicit metadata(handle h) : h_(std::move(h)) {}
  std::uint64_t version() const { return tgm_metadata_version(h_.get()); }
  std::size_t objects() const { return tgm_metadata_num_objects(h_.get()); }
  value get(const char* path) const { return value(tgm_metadata_get(h_.get(), path)); }
  value get(std::size_t object, const char* path) const {
    return value(tgm_metadata_get_at(h_.get(), object, path));
  }
  bool has(const char* path) const { return tgm_metadata_has(h_.get(), path); }
  bool has(std::size_t object, const char* path) const {
    return tgm_metadata_has_at(h_.get(), object, path);
  }
  value object(std::size_t i) const { return value(tgm_metadata_object(h_.get(), i)); }
  value extra() const { return value(tgm_metadata_extra(h_.get())); }
  value reserved() const { return value(tgm_metadata_reserved(h_.get())); }
  std::string text(const char* key) const {
    return or_none(tgm_metadata_get_string(h_.get(), key));
  }
  std::string text(std::size_t object, const char* key) const {
    return or_none(tgm_metadata_get_string_at(h_.get(), object, key));
  }
  std::int64_t integer(const char* key, std::int64_t otherwise) const {
    return tgm_metadata_get_int(h_.get(), key, otherwise);
  }
  std::int64_t integer(std::size_t object, const char* key,
                       std::int64_t otherwise) const {
    return tgm_metadata_get_int_at(h_.get(), object, key, otherwise);
  }
  double number(const char* key, double otherwise) const {
    return tgm_metadata_get_float(h_.get(), key, otherwise);
  }
  double number(std::size_t object, const char* key, double otherwise) const {
    return tgm_metadata_get_float_at(h_.get(), object, key, otherwise);
  }
  std::string json() const { return or_none(tgm_metadata_to_json(h_.get())); }
  std::string json(std::size_t object) const {
    return or_none(tgm_metadata_object_to_json(h_.get(), object));
  }

 private:
  static std::string or_none(const char* text) {
    return text != nullptr ? text : "(none)";
  }
  handle h_;
};

/// A view of one object of a message.
struct object {
  std::vector<std::uint64_t> shape, strides;
  std::string dtype, type, byte_order, encoding, filter, compression, hash_type, hash;
  std::string_view data;
};

/// A decoded message.
class message {
 public:
  using handle = owner<tgm_message_t, tgm_message_free>;
  explicit message(handle h) : h_(std::move(h)) {}
  std::uint64_t version() const { return tgm_message_version(h_.get()); }
  std::size_t size() const {
    return tgm_message_num_decoded(h_.get()) == tgm_message_num_objects(h_.get())
               ? tgm_message_num_objects(h_.get())
               : 0;
  }
  metadata meta() const {
    return metadata(made_by<metadata::handle>(tgm_message_metadata, h_.get()));
  }
  object at(std::size_t i) const {
    const tgm_message_t* m = h_.get();
    std::size_t length = 0;
    const std::uint8_t* data = tgm_object_data(m, i, &length);
    if (data == nullptr) {
      throw std::out_of_range("no such object");
    }
    const std::uint64_t ndim = tgm_object_ndim(m, i);
    const std::uint64_t* shape = tgm_object_shape(m, i);
    const std::uint64_t* strides = tgm_object_strides(m, i);
    object out{{shape, shape + ndim},
               {strides, strides + ndim},
               tgm_object_dtype(m, i),
               tgm_object_type(m, i),
               tgm_object_byte_order(m, i),
               tgm_payload_encoding(m, i),
               tgm_object_filter(m, i),
               tgm_object_compression(m, i),
               "",
               "",
               {reinterpret_cast<const char*>(data), length}};
    if (tgm_payload_has_hash(m, i) != 0) {
      out.hash_type = tgm_object_hash_type(m, i);
      out.hash = tgm_object_hash_value(m, i);
    }
    return out;
  }

 private:
  handle h_;
};

/// Payloads to encode, as the arrays of pointers and lengths that the interface takes.
struct payloads {
  std::vector<const std::uint8_t*> data;
  std::vector<std::size_t> lengths;
  template <class T>
  payloads& add(const std::vector<T>& values) {
    data.push_back(reinterpret_cast<const std::uint8_t*>(values.data()));
    lengths.push_back(values.size() * sizeof(T));
    return *this;
  }
  /// Returns the leading arguments of every function that encodes.
  auto arguments(const char* json, const char* hash) const {
    return std::tuple(json, data.data(), lengths.data(), data.size(), hash,
                      std::uint32_t{0});
  }
};

using mask_options = TgmEncodeMaskOptions;

/// Encodes a message.
inline bytes encode(const char* json, const payloads& p, const char* hash = "xxh3") {
  return std::apply([](auto... all) { return bytes_by(tgm_encode, all...); },
                    p.arguments(json, hash));
}
/// Encodes a message whose values may be infinite or NaN.
inline bytes encode(const char* json, const payloads& p, const mask_options& masks,
                    const char* hash = "xxh3") {
  return std::apply(
      [&](auto... all) { return bytes_by(tgm_encode_with_options, all..., &masks); },
      p.arguments(json, hash));
}
/// Encodes a message of payloads that were encoded before.
inline bytes encode_stored(const char* json, const payloads& p,
                           const char* hash = "xxh3") {
  return std::apply([](auto... all) { return bytes_by(tgm_encode_pre_encoded, all...); },
                    p.arguments(json, hash));
}
/// Returns the digest of bytes as text.
inline bytes digest(std::string_view of) {
  return bytes_by(tgm_compute_hash, reinterpret_cast<const std::uint8_t*>(of.data()),
                  of.size(), "xxh3");
}
/// Returns reference value and binary scale for packing values into so many bits.
inline std::pair<double, std::int32_t> packing(const std::vector<double>& values,
                                               std::uint32_t bits) {
  std::pair<double, std::int32_t> out;
  check(tgm_simple_packing_compute_params(values.data(), values.size(), bits, 0,
                                          &out.first, &out.second));
  return out;
}

/// Decodes a message; `verify` requires digests.
inline message decode(const bytes& from, bool verify = true) {
  return message(made_by<message::handle>(tgm_decode, from.data(), from.size(), 1, 0u,
                                          verify ? 1 : 0));
}
/// Decodes a message, with or without the values of its masks.
inline message decode(const bytes& from, const TgmDecodeMaskOptions& options) {
  return message(made_by<message::handle>(tgm_decode_with_options, from.data(),
                                          from.size(), 1, 0u, 0, &options));
}
/// Decodes the metadata of a message alone.
inline metadata decode_metadata(const bytes& from) {
  return metadata(
      made_by<metadata::handle>(tgm_decode_metadata, from.data(), from.size()));
}
/// Decodes one object of a message.
inline message decode_object(const bytes& from, std::size_t index) {
  return message(made_by<message::handle>(tgm_decode_object, from.data(), from.size(),
                                          index, 1, 0u, 1));
}
/// Returns one buffer for each range of (offset, count), or a single one if `join`.
inline std::vector<bytes> decode_ranges(
    const bytes& from, std::size_t index,
    const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges,
    bool join = false) {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> counts;
  for (const auto& [offset, count] : ranges) {
    offsets.push_back(offset);
    counts.push_back(count);
  }
  std::vector<tgm_bytes_t> parts(join ? 1 : ranges.size());
  std::size_t found = 0;
  check(tgm_decode_range(from.data(), from.size(), index, offsets.data(), counts.data(),
                         ranges.size(), 1, 0, join ? 1 : 0, parts.data(), &found));
  std::vector<bytes> out;
  for (std::size_t i = 0; i < found; ++i) {
    out.emplace_back(parts[i]);
  }
  return out;
}
/// Returns the places of the messages in a buffer.
inline std::vector<tgm_scan_entry_t> scan(const bytes& from) {
  const auto found = made_by<owner<tgm_scan_result_t, tgm_scan_free>>(
      tgm_scan, from.data(), from.size());
  std::vector<tgm_scan_entry_t> out;
  for (std::size_t i = 0; i < tgm_scan_count(found.get()); ++i) {
    out.push_back(tgm_scan_entry(found.get(), i));
  }
  return out;
}
/// Returns the report on a message, or on a file.
inline bytes validate(const bytes& from, const char* level = nullptr) {
  return bytes_by(tgm_validate, from.data(), from.size(), level, 0);
}
inline bytes validate(const std::string& path, const char* level = nullptr) {
  return bytes_by(tgm_validate_file, path.c_str(), level, 0);
}
/// Returns the report of the library on itself.
inline bytes doctor() {
  return bytes_by(tgm_doctor_to_json);
}

}  // namespace wrapped
