// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes Tensogram v3 messages, whole or as a stream.
/// @source{Tensogram v3; docs/formats/tensogram.md}
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weir/formats/tensogram_object.hpp"

namespace weir::formats {

/// Provenance of a message. By default it has neither time nor uuid, so that equal
/// content gives equal bytes.
struct provenance {
  std::string name = "weir";        ///< name of the program
  std::string version;              ///< empty: the version of this build
  std::optional<std::string> time;  ///< time: YYYY-MM-DDThh:mm:ssZ
  std::optional<std::string> uuid;  ///< unique id of the message
  /// False: the clock and a random v4 uuid are used for members that are not set.
  bool reproducible = true;
};

/// Place of the list of object digests.
enum class hash_list : std::uint8_t {
  automatic,  ///< header of a whole message, footer of a stream
  none,
  header,  ///< not possible in a stream
  footer,
  both,  ///< not possible in a stream
};

/// Treatment of NaN and infinities.
enum class non_finite : std::uint8_t {
  refuse,  ///< a NaN or infinity in a float or complex object is an error
  store,   ///< they are stored; a full validation reports them
};

/// Options of a message that is written.
struct message_options {
  bool hashes = true;                      ///< write a digest into every frame
  hash_list list = hash_list::automatic;   ///< place of the list of digests
  non_finite floats = non_finite::refuse;  ///< treatment of NaN and infinities
  cbor_map extra;                          ///< keys of the message
  provenance writer;                       ///< provenance
  mask_options masks;    ///< non-finite values that are masked and not refused
  unsigned threads = 0;  ///< threads that help; the bytes do not depend on it
  /// Alignment of payloads from the start of the message in bytes, a power of two from 16
  /// to 4096, by a key `padding` in metadata and descriptors; 0: none. Whole messages
  /// only.
  std::uint32_t payload_alignment = 0;
};

/// One object that is written.
struct object_to_write {
  object_descriptor descriptor;  ///< type, shape and pipeline
  cbor_map metadata;             ///< becomes base[i]; without the key `_reserved_`
  bytes_view data;  ///< elements in C order, in the byte order of the descriptor
  /// True if `data` is the output of the pipeline, with the masks of the descriptor
  /// behind it. It is written unchanged. Only parameters and sizes are checked, except
  /// those of a stage that is not built in (sz3).
  bool stored = false;
};

/// Encodes a whole message with known length, and with index and digests in its header.
/// @error{invalid_argument; data that do not fit the shape, `_reserved_` in metadata, a
/// non-finite value, or nesting beyond cbor_depth_limit}
/// @error{unsupported; an encoding, filter, compression or type of elements}
/// @threads{safe to call concurrently}
[[nodiscard]] result<byte_vector> encode_message(std::span<const object_to_write> objects,
                                                 const message_options& options = {});
/// Encodes a whole message into `to`, whose memory is reused. After an error the content
/// of `to` is undefined.
/// @error{invalid_argument; data that do not fit the shape, `_reserved_` in metadata, a
/// non-finite value, or nesting beyond cbor_depth_limit}
/// @error{unsupported; an encoding, filter, compression or type of elements}
[[nodiscard]] result<void> encode_message_into(byte_vector& to,
                                               std::span<const object_to_write> objects,
                                               const message_options& options = {});

/// A function that receives the bytes of a stream in order.
using byte_sink = std::function<result<void>(bytes_view)>;
/// A function that overwrites bytes at an offset from the start of the message.
using byte_patch = std::function<result<void>(std::uint64_t offset, bytes_view bytes)>;

/// Writes a message of unknown length object by object, to a sink that need not seek.
/// After an error the message is unusable and every further call returns that error.
/// @threads{thread-compatible}
class stream_writer {
 public:
  /// Writes the preamble and the header metadata. Entry i of `header_base` is metadata of
  /// object i that is known beforehand, for readers of the first metadata frame alone.
  /// Errors of the sink are returned.
  /// @error{invalid_argument; a hash list in the header, or `_reserved_` in metadata}
  [[nodiscard]] static result<stream_writer> open(byte_sink sink,
                                                  message_options options = {},
                                                  std::vector<cbor_map> header_base = {});
  /// Takes over a message.
  stream_writer(stream_writer&&) noexcept;
  /// Drops the own message and takes over another.
  stream_writer& operator=(stream_writer&&) noexcept;
  ~stream_writer();

  /// Appends an object. Its metadata, if there is any, is written before it as a preceder
  /// frame and into the footer. Errors of the sink are returned.
  /// @error{invalid_argument; see encode_message} @error{unsupported; see encode_message}
  [[nodiscard]] result<void> write(const object_to_write& object);
  /// Writes the footer and the postamble. The length in the preamble stays 0. Also
  /// returns the errors of the sink.
  [[nodiscard]] result<void> finish();
  /// Writes the footer and the postamble, and the length into the postamble and, by
  /// `patch`, into the preamble. Also returns the errors of the sink and of `patch`.
  [[nodiscard]] result<void> finish(const byte_patch& patch);

  /// Returns the number of objects so far.
  [[nodiscard]] std::size_t object_count() const noexcept;
  /// Returns the number of bytes that the sink has got.
  [[nodiscard]] std::uint64_t bytes_written() const noexcept;

 private:
  struct state;
  explicit stream_writer(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace weir::formats
