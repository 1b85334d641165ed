// SPDX-License-Identifier: Apache-2.0
/// @file
/// A message that is written object by object, for encoders with and without tasks.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "capi/arguments.hpp"
#include "capi/json.hpp"

namespace weir::capi {

/// Destination of the bytes of a stream.
class stream_target {
 public:
  virtual ~stream_target() = default;
  /// Writes the next bytes.
  [[nodiscard]] virtual result<void> put(bytes_view bytes) = 0;
  /// Overwrites bytes that were written before. `offset` counts from the first byte.
  [[nodiscard]] virtual result<void> patch(std::uint64_t offset, bytes_view bytes) = 0;
  /// Returns whether `patch` may be called.
  [[nodiscard]] virtual bool can_patch() const noexcept = 0;
  /// Completes all writes and closes the target.
  [[nodiscard]] virtual result<void> close() = 0;
};

/// Opens a file for a stream; empties or creates it. @error{TGM_ERROR_IO}
[[nodiscard]] outcome<std::shared_ptr<stream_target>> open_stream_file(
    const std::string& path);

/// One object as a caller describes it. `data` must stay valid until it is written.
struct stream_object {
  formats::object_descriptor descriptor;  ///< how the object is stored
  bytes_view data;                        ///< elements, or a stored payload
  bool stored = false;                    ///< the data are the output of their pipeline
};

/// A writer together with the preceder that still lacks its object.
/// @threads{thread-compatible}
class message_stream {
 public:
  /// Writes the beginning of the message.
  [[nodiscard]] static outcome<message_stream> open(std::shared_ptr<stream_target> target,
                                                    json_message message,
                                                    formats::message_options options);

  /// Keeps the metadata for the next object. @error{TGM_ERROR_FRAMING, an earlier
  /// preceder lacks its object}
  [[nodiscard]] outcome<void> write_preceder(formats::cbor_map metadata);
  /// Writes an object, with the preceder that was given before it.
  [[nodiscard]] outcome<void> write(const stream_object& object);
  /// Writes the end of the message; with `backfill`, also writes its length into the
  /// preamble. @pre the target can patch, if `backfill` @error{TGM_ERROR_FRAMING, a
  /// preceder lacks its object; TGM_ERROR_METADATA, the beginning announced more objects}
  [[nodiscard]] outcome<void> finish(bool backfill);

  /// Returns whether the end was written; further calls are refused then.
  [[nodiscard]] bool finished() const noexcept { return finished_; }
  /// Returns whether the length can be written into the preamble.
  [[nodiscard]] bool can_patch() const noexcept { return target_->can_patch(); }
  /// Returns the number of written objects.
  [[nodiscard]] std::size_t object_count() const noexcept {
    return writer_.object_count();
  }
  /// Returns the number of written bytes, from the start of the message.
  [[nodiscard]] std::uint64_t bytes_written() const noexcept {
    return writer_.bytes_written();
  }

 private:
  message_stream(std::shared_ptr<stream_target> target, formats::stream_writer writer,
                 std::size_t announced)
      : target_(std::move(target)), writer_(std::move(writer)), announced_(announced) {}

  std::shared_ptr<stream_target> target_;      ///< receives the bytes
  formats::stream_writer writer_;              ///< writes the frames
  std::size_t announced_;                      ///< entries of "base" in the beginning
  std::optional<formats::cbor_map> preceder_;  ///< metadata of the next object
  bool finished_ = false;                      ///< the end was written
};

}  // namespace weir::capi
