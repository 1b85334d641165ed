// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensogram v3 messages: reads them, and includes the headers that write and find them.
///
/// Of the stages of the format only the compression sz3 is not built; it returns
/// `unsupported`, with its name.
/// @source{Tensogram v3; docs/formats/tensogram.md}
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "weir/formats/byte_source.hpp"
#include "weir/formats/tensogram_object.hpp"
#include "weir/formats/tensogram_scan.hpp"
#include "weir/formats/tensogram_write.hpp"

namespace weir::formats {

/// Returns the metadata of the first metadata frame of the message at the start of
/// `message`. Its digest is verified if it has one. For a streamed message these are the
/// keys that were known beforehand.
/// @error{corrupt; the frame or its CBOR is wrong} @error{torn; it ends early}
/// @error{hash_mismatch; its digest differs} @error{unsupported_version}
/// @threads{safe to call concurrently}
[[nodiscard]] result<message_metadata> read_metadata(bytes_view message);

/// Verification of digests.
enum class hash_check : std::uint8_t {
  none,      ///< no digest is verified
  present,   ///< digests that exist are verified
  required,  ///< and every data object must have a digest
};

/// Largest size of an object that readers, validation and commands decode by default, in
/// bytes of its elements. It bounds the memory that a small compressed message can ask
/// for. Uncompressed objects are bounded by the bytes that exist.
inline constexpr std::uint64_t default_max_object_bytes = std::uint64_t{16} << 30;

/// Options of a reader.
struct read_options {
  hash_check hashes = hash_check::present;  ///< verification of digests
  /// True to let `required` accept digests without the flag that announces them, which
  /// writers 0.17 to 0.20 stored. `present` verifies such digests anyway.
  bool legacy_hashes = false;
  /// False: elements are returned in the byte order of the file.
  bool native_order = true;
  /// Largest size of the elements of an encoded, filtered or compressed object in bytes.
  /// A larger object is `out_of_range` before memory is allocated for it.
  std::uint64_t max_object_bytes = default_max_object_bytes;
  bool restore_non_finite = true;  ///< restore masked values; false: zeros stay
  bool legacy_packing = false;     ///< accept packing keys without `sp_`, as before 0.19
  unsigned threads = 0;            ///< threads that help to decode
};

/// A frame of a message. Offsets count from the start of the message, in bytes.
struct frame_info {
  std::uint16_t type = 0;     ///< 1-3 header, 5-7 footer, 8 preceder, 9 object
  std::uint16_t version = 0;  ///< version of the frame
  std::uint16_t flags = 0;    ///< flags of the frame
  std::uint64_t offset = 0;   ///< begin of the frame
  std::uint64_t length = 0;   ///< length without padding
  std::uint64_t digest = 0;   ///< XXH3-64 as stored
};

/// Returns the name of a frame type: "header metadata", "data object", ...
[[nodiscard]] std::string_view frame_type_name(std::uint16_t type) noexcept;

/// A reader of one message. Opening reads and checks everything except the payloads.
/// @threads{const; safe to call concurrently}
class message_reader {
 public:
  /// Opens the message at the start of `message`. The memory must outlive the reader and
  /// its views.
  /// @error{corrupt; structure, metadata, index or digest list are wrong}
  /// @error{torn; it ends early} @error{hash_mismatch; a digest differs}
  /// @error{unsupported_version}
  [[nodiscard]] static result<message_reader> open(bytes_view message,
                                                   const read_options& options = {});
  /// Opens the message at `span` of a source, which is read in pieces. Errors of the
  /// source are returned.
  /// @error{corrupt; structure, metadata, index or digest list are wrong}
  /// @error{torn; it ends early} @error{hash_mismatch; a digest differs}
  /// @error{unsupported_version}
  [[nodiscard]] static result<message_reader> open(
      std::shared_ptr<const byte_source> source, message_span span,
      const read_options& options = {});
  /// Takes over a message.
  message_reader(message_reader&&) noexcept;
  /// Closes the own message and takes over another.
  message_reader& operator=(message_reader&&) noexcept;
  ~message_reader();

  /// Returns the number of objects.
  [[nodiscard]] std::size_t object_count() const noexcept;
  /// Returns the metadata of the message and of all objects.
  [[nodiscard]] const message_metadata& metadata() const noexcept;
  /// Returns the metadata of object `i`: its keys in base, `_reserved_` included. `i` is
  /// below object_count().
  [[nodiscard]] const cbor_map& metadata(std::size_t i) const;
  /// Returns type, shape and pipeline of object `i`.
  [[nodiscard]] const object_descriptor& descriptor(std::size_t i) const;
  /// Returns the size of object `i` once decoded. @units{bytes}
  [[nodiscard]] std::uint64_t object_bytes(std::size_t i) const;
  /// Returns the size of object `i` as stored, without masks. @units{bytes}
  [[nodiscard]] std::uint64_t stored_bytes(std::size_t i) const;
  /// Returns the index of the object whose base entry has `name` under the key "name".
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;

  /// Decodes the elements of object `i`, in C order. @shape{descriptor(i).shape}
  /// @error{not_found; no such object} @error{unsupported; a stage of its pipeline}
  /// @error{hash_mismatch; its digest differs} @error{missing_hash; it has none}
  /// @error{corrupt; its payload does not decode} @error{out_of_range; it is too large}
  [[nodiscard]] result<byte_vector> decode(std::size_t i) const;
  /// Decodes object `i` into memory of exactly object_bytes(i) bytes.
  /// @error{invalid_argument; memory of another size}
  /// @error{not_found; no such object} @error{unsupported; a stage of its pipeline}
  /// @error{hash_mismatch; its digest differs} @error{missing_hash; it has none}
  /// @error{corrupt; its payload does not decode} @error{out_of_range; it is too large}
  [[nodiscard]] result<void> decode_into(std::size_t i, mutable_bytes to) const;
  /// Decodes all objects, with the help of `read_options::threads` threads.
  /// @error{not_found; no such object} @error{unsupported; a stage of its pipeline}
  /// @error{hash_mismatch; its digest differs} @error{missing_hash; it has none}
  /// @error{corrupt; its payload does not decode} @error{out_of_range; it is too large}
  [[nodiscard]] result<std::vector<byte_vector>> decode_all() const;
  /// Decodes the elements `[first, first + count)` of the flattened object `i`. The
  /// digest is not verified. Uncompressed, packed, szip and blosc2 objects read no more
  /// than they need.
  /// @units{first, count: elements}
  /// @error{out_of_range; the range exceeds the object} @error{not_found; no such object}
  /// @error{unsupported; a filter, a bitmask, szip without offsets, or another stage}
  /// @error{corrupt; its payload does not decode}
  [[nodiscard]] result<byte_vector> decode_range(std::size_t i, std::uint64_t first,
                                                 std::uint64_t count) const;
  /// Decodes the masks of object `i`. @error{not_found; no such object} @error{corrupt; a
  /// mask does not decode}
  [[nodiscard]] result<value_masks> masks(std::size_t i) const;
  /// Returns the payload of object `i` as stored, without masks. Errors of the source are
  /// returned. @units{bytes} @error{not_found; no such object}
  [[nodiscard]] result<byte_vector> stored_payload(std::size_t i) const;
  /// Returns the payload with the masks behind it, for object_to_write::stored.
  /// @error{not_found; no such object}
  [[nodiscard]] result<byte_vector> stored_region(std::size_t i) const;
  /// Returns the stored bytes of object `i` without a copy, after verification. The
  /// object is uncompressed, in memory, and in the byte order that is asked for.
  /// @error{unsupported; the bytes must be copied} @error{not_found; no such object}
  /// @error{hash_mismatch; its digest differs} @error{missing_hash; it has none}
  [[nodiscard]] result<bytes_view> view(std::size_t i) const;
  /// Verifies the digest of every object as `read_options::hashes` demands, without
  /// decoding; does nothing if that is `none`. Opening has checked the other frames, the
  /// digest lists and the sizes. Errors of the source are returned.
  /// @error{hash_mismatch; a digest differs} @error{missing_hash; an object has none}
  [[nodiscard]] result<void> verify() const;

  /// Returns the place of the message in its source.
  [[nodiscard]] message_span span() const noexcept;
  /// Returns the flags of the preamble.
  [[nodiscard]] std::uint16_t flags() const noexcept;
  /// Returns true if the length in the preamble is 0: the message was written as a
  /// stream.
  [[nodiscard]] bool streamed() const noexcept;
  /// Returns all frames, in order.
  [[nodiscard]] const std::vector<frame_info>& frames() const noexcept;

 private:
  friend class message_outline;
  struct state;
  explicit message_reader(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

/// Decodes object `i` on a new thread, which keeps the reader until it ends. The future
/// also returns the errors of `message_reader::decode`.
/// @threads{safe to call concurrently}
[[nodiscard]] std::future<result<byte_vector>> decode_later(
    std::shared_ptr<const message_reader> reader, std::size_t i);

}  // namespace weir::formats
