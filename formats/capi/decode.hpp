// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decoding into the handles of the C interface, for messages in buffers and in files.
#pragma once

#include <span>
#include <stop_token>

#include "capi/arguments.hpp"
#include "capi/handles.hpp"

namespace weir::capi {

using message_handle = std::unique_ptr<tgm_message_t>;

/// Decodes the message at the start of `bytes` with all its objects. If a stop is
/// requested, decoding ends before the next object with TGM_ERROR_CANCELLED.
[[nodiscard]] outcome<message_handle> decode_message(bytes_view bytes,
                                                     const formats::read_options& options,
                                                     const std::stop_token& stop = {});

/// A place from which messages are read: a whole buffer, or a part of a file.
struct message_place {
  std::shared_ptr<const formats::byte_source>
      source;                  ///< shared with other places of the same file
  formats::message_span span;  ///< of the message in the source
  /// Reading is costly, so metadata and single objects are read by the outline of the
  /// message, without a look at the other objects.
  bool by_outline = false;
};
/// Returns the place of a message in memory, at the start of `bytes`.
[[nodiscard]] message_place place_of(bytes_view bytes);

/// A message whose objects are decoded one by one. All its frames are read when it is
/// opened.
class open_message {
 public:
  /// Reads all frames of a message. @error{those of cannot_read}
  [[nodiscard]] static outcome<open_message> open(message_place place,
                                                  const formats::read_options& options);

  /// Returns the number of objects.
  [[nodiscard]] std::size_t object_count() const noexcept { return digests_.size(); }
  /// Decodes one object. The handle has the metadata of the whole message; the payloads
  /// of other objects are not read.
  [[nodiscard]] outcome<message_handle> decode(std::size_t object) const;

 private:
  open_message(message_place place, formats::message_reader reader);

  message_place place_;             ///< where payloads are read
  formats::message_reader reader_;  ///< of the whole message
  std::shared_ptr<const formats::message_metadata>
      metadata_;                        ///< of the whole message, shared by handles
  std::vector<std::uint64_t> digests_;  ///< one per object, 0 where there is none
};

/// Decodes one object of a message, with the metadata of the whole message.
/// @error{TGM_ERROR_OBJECT, the message has no such object}
[[nodiscard]] outcome<message_handle> decode_object(const message_place& message,
                                                    std::size_t object,
                                                    const formats::read_options& options);

/// Ranges of elements of one object: range r has counts[r] elements from offsets[r] on.
struct element_ranges {
  std::size_t object;                      ///< number of the object in the message
  std::span<const std::uint64_t> offsets;  ///< number of the first element of each range
  std::span<const std::uint64_t> counts;   ///< number of elements of each range
};
/// Decodes the ranges, each into a buffer of its own. @error{TGM_ERROR_ENCODING, a range
/// beyond the object; those of cannot_read}
[[nodiscard]] outcome<std::vector<byte_vector>> decode_ranges(
    const message_place& message, const element_ranges& ranges,
    const formats::read_options& options);

/// Returns the concatenation of several buffers.
[[nodiscard]] outcome<owned_bytes> joined_bytes(std::span<const byte_vector> parts);

/// Returns the metadata of the first metadata frame. Reads no frames behind it. For a
/// message that is read by its outline, returns the final metadata instead, without the
/// keys that exist only in preceder frames.
[[nodiscard]] outcome<std::unique_ptr<tgm_metadata_t>> decode_metadata(
    const message_place& message);

}  // namespace weir::capi
