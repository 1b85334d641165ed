// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions that write messages as streams.
#include "capi/handles.hpp"

namespace weir::formats {

result<object_to_write> parse_object(const char* json, bytes_view data,
                                     const char* preceder, bool stored) {
  object_to_write one;
  WEIR_TRY(one.descriptor, parse_json_descriptor(json));
  if (preceder != nullptr) {
    WEIR_TRY(one.metadata, parse_json_map(preceder));
  }
  one.data = data;
  one.stored = stored;
  return one;
}

result<stream_writer> open_stream(const char* json, tgm_sink sink, void* context,
                                  const tgm_encode_options* options) {
  WEIR_TRY(const json_message message, parse_message(json));
  WEIR_TRY(message_options how, options_of(options));
  how.extra = message.extra;
  const auto put = [sink, context](bytes_view bytes) -> result<void> {
    if (sink(context, reinterpret_cast<const std::uint8_t*>(bytes.data()),
             bytes.size()) != 0) {
      return error(errc::io,
                   "cannot write stream: expected the sink to take its bytes, found it "
                   "refuse");
    }
    return {};
  };
  return stream_writer::open(put, how, message.base);
}

result<void> write_object(stream_writer& writer, const object_to_write& one) {
  const auto done = writer.write(one);
  return done ? done : refused(done.error(), {&one, 1});
}

result<void> finish_stream(stream_writer& writer, tgm_patch patch, void* context) {
  if (patch == nullptr) {
    return writer.finish();
  }
  return writer.finish([&](std::uint64_t at, bytes_view bytes) -> result<void> {
    const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
    if (patch(context, at, first, bytes.size()) != 0) {
      return error(errc::io,
                   "cannot finish stream: expected the length to be written at its "
                   "start, found it refused");
    }
    return {};
  });
}

namespace {

/// Writes one object; with `stored` its payload went through its pipeline before.
tgm_error write_json(tgm_stream* stream, const char* json, const void* data,
                     std::size_t length, const char* preceder, bool stored) {
  const bool complete = given(stream, json) && held(data, length);
  return guarded(complete, [&]() -> result<void> {
    WEIR_TRY(const object_to_write one,
             parse_object(json, view_of(data, length), preceder, stored));
    return write_object(*stream->writer, one);
  });
}

}  // namespace

}  // namespace weir::formats

using namespace weir::formats;  // NOLINT: the functions below are C

extern "C" {

tgm_error tgm_stream_open(const char* json, tgm_sink sink, void* context,
                          const tgm_encode_options* options, tgm_stream** out) {
  return guarded(given(json, sink, out), [&]() -> weir::result<void> {
    auto made = std::make_unique<tgm_stream>();
    WEIR_TRY(stream_writer writer, open_stream(json, sink, context, options));
    made->writer.emplace(std::move(writer));
    *out = made.release();
    return {};
  });
}
tgm_error tgm_stream_write(tgm_stream* stream, const char* json, const void* data,
                           size_t length, const char* preceder) {
  return write_json(stream, json, data, length, preceder, false);
}
tgm_error tgm_stream_write_pre_encoded(tgm_stream* stream, const char* json,
                                       const void* data, size_t length,
                                       const char* preceder) {
  return write_json(stream, json, data, length, preceder, true);
}
tgm_error tgm_stream_finish(tgm_stream* stream) {
  return guarded(given(stream),
                 [&] { return finish_stream(*stream->writer, nullptr, nullptr); });
}
tgm_error tgm_stream_finish_backfill(tgm_stream* stream, tgm_patch patch, void* context) {
  return guarded(given(stream),
                 [&] { return finish_stream(*stream->writer, patch, context); });
}
size_t tgm_stream_object_count(const tgm_stream* stream) {
  return stream->writer->object_count();
}
uint64_t tgm_stream_bytes_written(const tgm_stream* stream) {
  return stream->writer->bytes_written();
}
void tgm_stream_free(tgm_stream* stream) {
  delete stream;
}

}  // extern "C"
