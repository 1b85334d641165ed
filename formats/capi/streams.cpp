// SPDX-License-Identifier: Apache-2.0
/// @file
/// C functions that write a message object by object.
///
///   tgm_streaming_encoder_t -> message_stream -> stream_writer -> stream_target
///                              preceder, state    the format       a file, or functions
///
/// `message_stream` adds to the writer of the format what the C interface needs: a
/// preceder that waits for its object, and the end after which calls are refused.
/// async/streams.cpp uses it for tasks.
#include "capi/streams.hpp"

#include <fmt/core.h>

#include "weir/base/file.hpp"

namespace weir::capi {

using namespace weir::formats;  // NOLINT: this file translates between the two

namespace {

/// Writes to a file. Small pieces are collected in memory, so that the several parts of a
/// small object do not need a system call each. Pieces above the limit are written
/// directly.
class stream_file final : public stream_target {
 public:
  explicit stream_file(std::unique_ptr<file> f) : file_(std::move(f)) {}
  /// Writes collected bytes even if the stream was not finished; errors cannot be
  /// reported.
  ~stream_file() override { (void)flush(); }

  /// Appends bytes. What was collected is written first whenever the new bytes do not fit
  /// behind it, so that the order of the bytes in the file is kept.
  result<void> put(bytes_view bytes) override {
    // More than the limit would be collected together.
    if (gathered_.size() + bytes.size() > gathered_limit) {
      WEIR_CHECK(flush());
    }
    if (bytes.size() <= gathered_limit) {
      append(gathered_, bytes);
      return {};
    }
    WEIR_CHECK(write_all(*file_, written_, bytes));
    written_ += bytes.size();
    return {};
  }
  /// Overwrites bytes that were put before. They may still be in memory, so all of them
  /// are written first.
  result<void> patch(std::uint64_t offset, bytes_view bytes) override {
    WEIR_CHECK(flush());
    // What was written may lie before any offset, so the position is not needed.
    return write_all(*file_, offset, bytes);
  }
  bool can_patch() const noexcept override { return true; }
  // Afterwards the destructor finds nothing to write.
  result<void> close() override {
    WEIR_CHECK(flush());
    // Closing the file releases its descriptor.
    file_.reset();
    return {};
  }

 private:
  static constexpr std::size_t gathered_limit = 64 * 1024;

  /// Writes what was collected. On failure the bytes stay collected, and the next call
  /// tries again.
  result<void> flush() {
    if (file_ != nullptr && !gathered_.empty()) {
      // The offset is kept here: the file has no position.
      WEIR_CHECK(write_all(*file_, written_, gathered_));
      written_ += gathered_.size();
      gathered_.clear();
    }
    return {};
  }

  std::unique_ptr<file> file_;  ///< null after close()
  std::uint64_t written_ = 0;   ///< bytes that are in the file
  byte_vector gathered_;        ///< bytes that follow them
};

/// Passes bytes to functions of the caller.
/// The functions are called on the thread that calls the encoder.
class stream_functions final : public stream_target {
 public:
  stream_functions(tgm_x_sink sink, tgm_x_patch patcher, void* context)
      : sink_(sink), patch_(patcher), context_(context) {}

  // The functions get the context that the caller has given with them.
  result<void> put(bytes_view bytes) override {
    return taken(sink_(context_, address_of(bytes), bytes.size()));
  }
  result<void> patch(std::uint64_t offset, bytes_view bytes) override {
    return taken(patch_(context_, offset, address_of(bytes), bytes.size()));
  }
  bool can_patch() const noexcept override { return patch_ != nullptr; }
  // There is nothing to close. The caller knows when the stream has ended.
  result<void> close() override { return {}; }

 private:
  static const std::uint8_t* address_of(bytes_view bytes) noexcept {
    return reinterpret_cast<const std::uint8_t*>(bytes.data());
  }
  /// Returns an error unless the caller's function returned 0.
  static result<void> taken(int answer) {
    if (answer != 0) {
      return error(errc::io,
                   "cannot write stream: expected the caller's function to take the "
                   "bytes, found it return " +
                       std::to_string(answer));
    }
    return {};
  }

  tgm_x_sink sink_;    ///< takes bytes
  tgm_x_patch patch_;  ///< overwrites bytes; may be null
  void* context_;      ///< passed to both
};

}  // namespace

/// Opens a file for a stream of messages. An earlier content is discarded.
outcome<std::shared_ptr<stream_target>> open_stream_file(const std::string& path) {
  auto file = posix_file_system().open(path, open_mode::create_or_open);
  if (!file) {
    return cannot_open(file.error());
  }
  // The content of an earlier file does not stay behind a shorter stream.
  WEIR_CHECK((*file)->resize(0));
  return std::make_shared<stream_file>(std::move(*file));
}

/// Keeps the target alive for as long as the writer may call it.
outcome<message_stream> message_stream::open(std::shared_ptr<stream_target> target,
                                             json_message message,
                                             message_options options) {
  // The writer takes the keys; a copy is needed to find the code of a failure.
  options.extra = std::move(message.extra);
  const cbor_map extra = options.extra;
  // Entries of "base" announce objects, which must all be written.
  const std::size_t announced = message.base.size();
  auto writer =
      // The function owns the target together with this object.
      stream_writer::open([target](bytes_view bytes) { return target->put(bytes); },
                          std::move(options), std::move(message.base));
  if (!writer) {
    // The failure may be due to the keys of the message.
    return cannot_write(writer.error(), {}, extra);
  }
  return message_stream(std::move(target), std::move(*writer), announced);
}

/// Only one preceder may wait, because a preceder belongs to the next object.
outcome<void> message_stream::write_preceder(cbor_map metadata) {
  if (preceder_) {
    return failure(TGM_ERROR_FRAMING,
                   "cannot write preceder: expected the object of the one before, found "
                   "another preceder");
  }
  preceder_ = std::move(metadata);
  return {};
}

/// The preceder is dropped only after success, so a failed write can be repeated.
outcome<void> message_stream::write(const stream_object& object) {
  // An object without a preceder has no metadata.
  const object_to_write one{object.descriptor, preceder_.value_or(cbor_map()),
                            object.data, object.stored};
  // The object decides which code a failure has.
  if (const auto done = writer_.write(one); !done) {
    return cannot_write(done.error(), {&one, 1}, {});
  }
  preceder_.reset();
  return {};
}

/// Faults of the caller are found before anything is written, so the stream stays usable.
outcome<void> message_stream::finish(bool backfill) {
  if (preceder_) {
    return failure(TGM_ERROR_FRAMING,
                   "cannot finish stream: expected the object of the preceder, found "
                   "none");
  }
  // The header has announced entries for objects that are not there.
  if (announced_ > object_count()) {
    return invalid_metadata(
        fmt::format("cannot finish stream: expected {} objects as \"base\" announced, "
                    "found {}",
                    announced_, object_count()));
  }
  // With backfill, the length gets into the preamble at the end.
  WEIR_CHECK(backfill ? writer_.finish([this](std::uint64_t offset, bytes_view bytes) {
    return target_->patch(offset, bytes);
  })
                      : writer_.finish());
  // The message is complete even if closing fails.
  finished_ = true;
  WEIR_CHECK(target_->close());
  return {};
}

}  // namespace weir::capi

using namespace weir::capi;  // NOLINT: the functions below are C

/// The handle of a stream.
struct tgm_streaming_encoder_t {
  message_stream stream;
};

namespace {

/// The failure of every call after the end.
failure already_finished() {
  return invalid_argument(
      "cannot write stream: expected one that is open, found it finished");
}

/// Calls `use` with the stream of an encoder, unless it is finished.
tgm_error with_stream(tgm_streaming_encoder_t* enc, bool complete, const auto& use) {
  return guarded(enc != nullptr && complete, [&]() -> outcome<void> {
    // All functions below answer the same way after the end.
    if (enc->stream.finished()) {
      return already_finished();
    }
    return use(enc->stream);
  });
}

/// Writes an object whose descriptor is JSON.
tgm_error write_object(tgm_streaming_encoder_t* enc, const char* descriptor,
                       const std::uint8_t* data, std::size_t length, bool stored) {
  return with_stream(
      enc, given(descriptor, data), [&](message_stream& stream) -> outcome<void> {
        // The JSON is parsed before anything is written.
        WEIR_TRY(auto parsed, parse_descriptor(descriptor));
        return stream.write({std::move(parsed), view_of(data, length), stored});
      });
}

/// Checks the options of a stream. It has no header for a digest list, because digests
/// are not known yet, and its payloads are not aligned.
outcome<void> check_stream_options(const weir::formats::message_options& options) {
  using weir::formats::hash_list;
  if (options.payload_alignment != 0 || options.list == hash_list::header ||
      options.list == hash_list::both) {
    return failure(TGM_ERROR_ENCODING,
                   "cannot open stream: expected digests in the footer and payloads "
                   "without alignment, found other options");
  }
  return {};
}

}  // namespace

extern "C" {

tgm_error tgm_streaming_encoder_create(const char* path, const char* metadata_json,
                                       const char* hash_algo, uint32_t threads,
                                       tgm_streaming_encoder_t** out) {
  // NULL for the masks means the defaults.
  return tgm_streaming_encoder_create_with_options(path, metadata_json, hash_algo,
                                                   threads, nullptr, out);
}

tgm_error tgm_streaming_encoder_create_with_options(
    const char* path, const char* metadata_json, const char* hash_algo, uint32_t threads,
    const TgmEncodeMaskOptions* mask_options, tgm_streaming_encoder_t** out) {
  return guarded(given(path, metadata_json, out), [&]() -> outcome<void> {
    WEIR_TRY(const std::string name, text_argument(path, "the path"));
    // All arguments are checked before the file is emptied.
    WEIR_TRY(json_message message, parse_stream(metadata_json));
    WEIR_TRY(auto options, encode_arguments(hash_algo, threads, mask_options));
    // The file is emptied here, and not before.
    WEIR_TRY(auto target, open_stream_file(name));
    WEIR_TRY(
        message_stream stream,
        message_stream::open(std::move(target), std::move(message), std::move(options)));
    // The caller frees the handle.
    *out = new tgm_streaming_encoder_t{std::move(stream)};
    return {};
  });
}

tgm_error tgm_x_streaming_encoder_create(const char* metadata_json, tgm_x_sink sink,
                                         tgm_x_patch patch, void* context,
                                         const tgm_x_encode_options_t* options,
                                         tgm_streaming_encoder_t** out) {
  return guarded(given(metadata_json, sink, out), [&]() -> outcome<void> {
    // The same order as above, without a file.
    WEIR_TRY(json_message message, parse_stream(metadata_json));
    WEIR_TRY(auto how, encode_arguments(options));
    WEIR_CHECK(check_stream_options(how));
    WEIR_TRY(
        message_stream stream,
        message_stream::open(std::make_shared<stream_functions>(sink, patch, context),
                             std::move(message), std::move(how)));
    *out = new tgm_streaming_encoder_t{std::move(stream)};
    return {};
  });
}

tgm_error tgm_streaming_encoder_write_preceder(tgm_streaming_encoder_t* enc,
                                               const char* metadata_json) {
  return with_stream(enc, given(metadata_json),
                     [&](message_stream& stream) -> outcome<void> {
                       WEIR_TRY(auto metadata, parse_preceder(metadata_json));
                       return stream.write_preceder(std::move(metadata));
                     });
}

tgm_error tgm_streaming_encoder_write(tgm_streaming_encoder_t* enc,
                                      const char* descriptor_json, const uint8_t* data,
                                      size_t data_len) {
  // False: the data is encoded while it is written.
  return write_object(enc, descriptor_json, data, data_len, false);
}

tgm_error tgm_streaming_encoder_write_pre_encoded(tgm_streaming_encoder_t* enc,
                                                  const char* descriptor_json,
                                                  const uint8_t* data, size_t data_len) {
  // True: the data is stored as it is.
  return write_object(enc, descriptor_json, data, data_len, true);
}

size_t tgm_streaming_encoder_count(const tgm_streaming_encoder_t* enc) {
  // A finished stream answers 0.
  return enc != nullptr && !enc->stream.finished() ? enc->stream.object_count() : 0;
}

tgm_error tgm_streaming_encoder_finish(tgm_streaming_encoder_t* enc) {
  return with_stream(enc, true,
                     [](message_stream& stream) { return stream.finish(false); });
}

tgm_error tgm_x_streaming_encoder_finish_backfill(tgm_streaming_encoder_t* enc) {
  return with_stream(enc, true, [](message_stream& stream) -> outcome<void> {
    // A file can always be patched.
    if (!stream.can_patch()) {
      return invalid_argument(
          "cannot write the length of the stream: expected a function that patches, "
          "found a null pointer");
    }
    return stream.finish(true);
  });
}

uint64_t tgm_x_streaming_encoder_bytes_written(const tgm_streaming_encoder_t* enc) {
  // Bytes that have been given to the target.
  return enc != nullptr ? enc->stream.bytes_written() : 0;
}

void tgm_streaming_encoder_free(tgm_streaming_encoder_t* enc) {
  // A stream that was not finished stays incomplete.
  delete enc;
}

}  // extern "C"
