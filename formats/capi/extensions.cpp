// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions for parts of a message that the reference's interface does not give access
/// to: masks of non-finite values, and elements without a copy.
#include <tensogram/tensogram_x.h>

#include "capi/decode.hpp"

using namespace weir::capi;  // NOLINT: the functions below are C

namespace {

/// Opens the message at the start of a buffer and applies `read` to its reader. Errors of
/// both become failures of reading.
/// The type of the result is that of `read`, as an outcome.
auto read_object(weir::bytes_view bytes, const weir::formats::read_options& options,
                 const auto& read)
    -> outcome<typename decltype(read(
        std::declval<const weir::formats::message_reader&>()))::value_type> {
  // Opening reads the structure and the metadata.
  const auto reader = weir::formats::message_reader::open(bytes, options);
  if (!reader) {
    return cannot_read(reader.error(), bytes);
  }
  auto found = read(*reader);
  if (!found) {
    return cannot_read(found.error(), bytes);
  }
  return std::move(*found);
}

}  // namespace

extern "C" {

tgm_error tgm_x_decode_masks(const uint8_t* buf, size_t buf_len, size_t object_index,
                             tgm_x_masks_t* out) {
  return guarded(given(buf, out), [&]() -> outcome<void> {
    WEIR_TRY(const weir::formats::value_masks masks,
             read_object(view_of(buf, buf_len), decode_arguments(true, 0, false),
                         [&](const auto& reader) { return reader.masks(object_index); }));
    // Three copies are made before any is handed out, so that a failure leaks none.
    WEIR_TRY(owned_bytes nan, owned_bytes::copy_of(masks.nan));
    WEIR_TRY(owned_bytes positive, owned_bytes::copy_of(masks.positive_infinity));
    WEIR_TRY(owned_bytes negative, owned_bytes::copy_of(masks.negative_infinity));
    *out = {nan.release(), positive.release(), negative.release()};
    return {};
  });
}

void tgm_x_masks_free(tgm_x_masks_t masks) {
  tgm_bytes_free(masks.nan);
  tgm_bytes_free(masks.positive_infinity);
  tgm_bytes_free(masks.negative_infinity);
}

tgm_error tgm_x_object_view(const uint8_t* buf, size_t buf_len, size_t object_index,
                            const uint8_t** out_data, size_t* out_len) {
  return guarded(given(buf, out_data, out_len), [&]() -> outcome<void> {
    // The view is only possible for raw elements in memory; otherwise the call fails.
    WEIR_TRY(const weir::bytes_view elements,
             read_object(view_of(buf, buf_len), decode_arguments(true, 0, false),
                         [&](const auto& reader) { return reader.view(object_index); }));
    *out_data = reinterpret_cast<const std::uint8_t*>(elements.data());
    *out_len = elements.size();
    return {};
  });
}

}  // extern "C"
