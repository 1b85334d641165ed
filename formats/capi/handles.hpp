// SPDX-License-Identifier: Apache-2.0
/// @file
/// What stands behind the handles of <weir/tgm.h>.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weir/base/file.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/tgm.h"

struct tgm_message {
  weir::byte_vector bytes;  ///< its own, so that the caller's may go
  std::optional<weir::formats::message_reader> reader;
  std::vector<std::optional<weir::byte_vector>> elements;
};

struct tgm_file {
  std::string path;
  std::shared_ptr<const weir::formats::byte_source> source;
  std::vector<weir::formats::message_span> spans;
};

struct tgm_iterator {
  std::shared_ptr<const weir::formats::byte_source> source;
  std::vector<weir::formats::message_span> spans;
  std::size_t next = 0;
};

struct tgm_stream {
  std::optional<weir::formats::stream_writer> writer;
};

namespace weir::formats {

/// Keeps the text of a failure for tgm_last_error and returns its code.
tgm_error keep_error(const error& e);
tgm_error keep_error(tgm_error code, std::string text);

/// Whether none of the pointers that a function needs is NULL.
template <class... Pointers>
[[nodiscard]] bool given(Pointers... pointers) noexcept {
  return (... && (pointers != nullptr));
}
/// Bytes may be NULL where there are none.
[[nodiscard]] inline bool held(const void* data, std::size_t length) noexcept {
  return data != nullptr || length == 0;
}
/// TGM_INVALID_ARG.
tgm_error missing_pointer();

/// Runs what returns a result, if all it needs is there, and lets no exception out.
template <class Run>
tgm_error guarded(bool complete, const Run& run) {
  if (!complete) {
    return missing_pointer();
  }
  try {
    const auto done = run();
    return done ? TGM_OK : keep_error(done.error());
  } catch (const std::exception& failure) {
    return keep_error(TGM_INVALID_ARG, failure.what());
  }
}

[[nodiscard]] inline bytes_view view_of(const void* data, std::size_t length) noexcept {
  return {static_cast<const std::byte*>(data), data == nullptr ? 0 : length};
}
/// Moves a result to where a caller wants it.
template <class T>
result<void> give(result<T> from, T* to) {
  WEIR_TRY(*to, std::move(from));
  return {};
}
template <class T>
result<void> give(result<std::unique_ptr<T>> from, T** to) {
  WEIR_TRY(auto made, std::move(from));
  *to = made.release();
  return {};
}
/// The bytes of a message.
[[nodiscard]] result<byte_vector> read_span(const byte_source& source, message_span span);

/// Objects and message-level keys out of JSON.
struct json_message {
  std::vector<cbor_map> base;
  cbor_map extra;
  std::vector<object_descriptor> descriptors;
};
/// @error{unknown_key}
[[nodiscard]] result<json_message> parse_message(const char* json);
[[nodiscard]] result<object_descriptor> parse_json_descriptor(const char* json);
[[nodiscard]] result<cbor_map> parse_json_map(const char* json);

/// An object of a stream; `data` must stay where it is until it is written.
[[nodiscard]] result<object_to_write> parse_object(const char* json, bytes_view data,
                                                   const char* preceder, bool stored);
[[nodiscard]] result<stream_writer> open_stream(const char* json, tgm_sink sink,
                                                void* context,
                                                const tgm_encode_options* options);
/// @error{those of the writer, told apart by refused()}
[[nodiscard]] result<void> write_object(stream_writer& writer,
                                        const object_to_write& one);
/// Without `patch` lengths stay 0.
[[nodiscard]] result<void> finish_stream(stream_writer& writer, tgm_patch patch,
                                         void* context);

[[nodiscard]] result<message_options> options_of(const tgm_encode_options* options);
[[nodiscard]] read_options options_of(const tgm_decode_options* options);
/// @error{out_of_memory}
[[nodiscard]] result<tgm_bytes> hand_out(bytes_view bytes);
/// The same failure of another kind.
[[nodiscard]] error with_kind(errc kind, const error& e);
/// The failure of writing `objects`: unknown_key (TGM_METADATA) where one is wrong before
/// its elements are looked at.
[[nodiscard]] error refused(const error& e, std::span<const object_to_write> objects);
/// The failure of reading `message`, its code telling the kinds of the reference apart:
/// damaged frames stay corrupt (TGM_FRAMING), damaged CBOR in sound frames and parameters
/// that are missing become unknown_key (TGM_METADATA), a payload that cannot be decoded
/// in a sound message invalid_argument (TGM_ENCODING).
[[nodiscard]] error of_kind(const error& e, bytes_view message);
/// A message on its own bytes, decoded if `elements`.
[[nodiscard]] result<std::unique_ptr<tgm_message>> make_message(
    byte_vector bytes, const read_options& options, bool elements);

}  // namespace weir::formats
