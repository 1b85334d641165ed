// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions that encode whole messages, and their common core.
///
/// The JSON describes the objects, the arrays hold their data. Pointers stay the
/// caller's: `encode` reads the data in place and returns new bytes, of which the caller
/// gets a copy made by `malloc`.
#include "capi/encode.hpp"

#include <fmt/core.h>

#include "capi/json.hpp"
#include "weir/base/hash.hpp"
#include "weir/formats/tensogram_packing.hpp"

namespace weir::capi {

using namespace weir::formats;  // NOLINT: this file translates between the two

/// Parses the JSON, pairs descriptors with data, and encodes. The errors come in this
/// order: JSON, numbers of entries, pointers, options, objects.
outcome<byte_vector> encode(const object_arguments& from,
                            outcome<message_options> options) {
  // The JSON comes first, because everything else is compared with it.
  WEIR_TRY(json_message message, parse_message(from.json));
  // Each descriptor needs its data and the other way round.
  if (message.descriptors.size() != from.count) {
    return invalid_argument(fmt::format(
        "cannot encode: expected a descriptor for each of {} objects, found {}",
        from.count, message.descriptors.size()));
  }
  // Entries may be missing at the end; such objects have no metadata.
  if (message.base.size() > from.count) {
    return invalid_metadata(fmt::format(
        "cannot encode: expected no more entries in \"base\" than {} objects, found {}",
        from.count, message.base.size()));
  }
  // Pairs each pointer with its length, and refuses NULL with a length.
  WEIR_TRY(const auto data, data_arguments(from.data, from.lengths, from.count));
  // The options come last: their error is reported only if the rest is sound.
  WEIR_TRY(message_options how, std::move(options));
  // Keys of the message travel in the options.
  how.extra = std::move(message.extra);
  std::vector<object_to_write> objects;
  // The missing entries are empty maps.
  message.base.resize(from.count);
  for (std::size_t i = 0; i < from.count; ++i) {
    // The data is referred to, not copied.
    objects.push_back({std::move(message.descriptors[i]), std::move(message.base[i]),
                       data[i], from.stored});
  }
  auto bytes = encode_message(objects, how);
  if (!bytes) {
    // The description of the objects decides the code.
    return cannot_write(bytes.error(), objects, how.extra);
  }
  return std::move(*bytes);
}

}  // namespace weir::capi

using namespace weir::capi;  // NOLINT: the functions below are C

namespace {

/// Encodes a message and hands a copy to the caller. `options` is called inside the
/// guard, so that its errors and exceptions become codes.
tgm_error encode_to(const object_arguments& objects,
                    const auto& options,  // gives outcome<message_options>
                    tgm_bytes_t* out) {
  return guarded(given(objects.json, out), [&]() -> outcome<void> {
    WEIR_TRY(const weir::byte_vector bytes, encode(objects, options()));
    // The caller frees the bytes by `free`, so they must come from `malloc`.
    WEIR_TRY(owned_bytes copy, owned_bytes::copy_of(bytes));
    *out = copy.release();
    return {};
  });
}

}  // namespace

extern "C" {

tgm_error tgm_encode(const char* metadata_json, const uint8_t* const* data_ptrs,
                     const size_t* data_lens, size_t num_objects, const char* hash_algo,
                     uint32_t threads, tgm_bytes_t* out) {
  // NULL for the masks means the defaults.
  return tgm_encode_with_options(metadata_json, data_ptrs, data_lens, num_objects,
                                 hash_algo, threads, nullptr, out);
}

tgm_error tgm_encode_with_options(const char* metadata_json,
                                  const uint8_t* const* data_ptrs,
                                  const size_t* data_lens, size_t num_objects,
                                  const char* hash_algo, uint32_t threads,
                                  const TgmEncodeMaskOptions* mask_options,
                                  tgm_bytes_t* out) {
  return encode_to(
      {metadata_json, data_ptrs, data_lens, num_objects},
      [&] { return encode_arguments(hash_algo, threads, mask_options); }, out);
}

tgm_error tgm_encode_pre_encoded(const char* metadata_json,
                                 const uint8_t* const* data_ptrs, const size_t* data_lens,
                                 size_t num_objects, const char* hash_algo,
                                 uint32_t threads, tgm_bytes_t* out) {
  // True: the data is encoded already.
  return encode_to(
      {metadata_json, data_ptrs, data_lens, num_objects, true},
      [&] { return encode_arguments(hash_algo, threads, nullptr); }, out);
}

tgm_error tgm_x_encode(const char* metadata_json, const uint8_t* const* data_ptrs,
                       const size_t* data_lens, size_t num_objects,
                       const tgm_x_encode_options_t* options, tgm_bytes_t* out) {
  return encode_to(
      {metadata_json, data_ptrs, data_lens, num_objects},
      // The structure of options may be NULL, too.
      [&] { return encode_arguments(options); }, out);
}

tgm_error tgm_compute_hash(const uint8_t* data, size_t data_len, const char* algo,
                           tgm_bytes_t* out) {
  return guarded(given(data, out), [&]() -> outcome<void> {
    // The algorithm is checked, but there is only one.
    WEIR_CHECK(hash_argument(algo));
    const std::string digits = weir::hex64(weir::xxh3_64(view_of(data, data_len)));
    // Sixteen digits without a zero at the end, as the length is given.
    WEIR_TRY(owned_bytes copy, owned_bytes::copy_of(weir::as_view(digits)));
    *out = copy.release();
    return {};
  });
}

tgm_error tgm_simple_packing_compute_params(const double* values, size_t num_values,
                                            uint32_t bits_per_value,
                                            int32_t decimal_scale_factor,
                                            double* out_reference_value,
                                            int32_t* out_binary_scale_factor) {
  return guarded(given(values, out_reference_value, out_binary_scale_factor),
                 [&]() -> outcome<void> {
                   WEIR_TRY(
                       // Bits above 64 are refused by the library.
                       const weir::formats::packing p,
                       weir::formats::compute_packing(
                           {values, num_values}, bits_per_value, decimal_scale_factor));
                   *out_reference_value = p.reference;
                   *out_binary_scale_factor = p.binary;
                   return {};
                 });
}

}  // extern "C"
