// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensogram v3 messages: what they hold, writing them whole or as a stream, finding and
/// reading them.
///
/// Layout: docs/formats/tensogram.md. Of the format's stages only the compression sz3 is
/// not built; it ends in `unsupported`, which names it.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/dtype.hpp"
#include "weir/base/error.hpp"
#include "weir/formats/byte_source.hpp"
#include "weir/formats/cbor.hpp"

namespace weir::formats {

enum class byte_order : std::uint8_t { little, big };
inline constexpr byte_order native_byte_order =
    std::endian::native == std::endian::little ? byte_order::little : byte_order::big;

/// What a data object is, and through which pipeline its bytes went. Every field of a
/// descriptor that is read comes back when the object is written again.
/// @source{Tensogram v3, data object descriptor}
struct object_descriptor {
  dtype type = dtype::fp32;
  shape_vector shape;  ///< in elements, C order; empty for a scalar
  byte_order order = native_byte_order;
  std::string object_type = "ntensor";
  std::string encoding = "none";
  std::string filter = "none";
  std::string compression = "none";
  cbor_map parameters;  ///< of the pipeline (`zstd_level`), and unknown keys
  cbor_map masks;       ///< as a file has them; a writer makes its own
  /// In elements, one per dimension. Nothing here interprets them: elements lie in C
  /// order. A reader fills them as the file has them, and a writer writes what it is
  /// given; empty stands for those of C order.
  std::vector<std::uint64_t> strides;
  /// A mark of the writer that the `szip_block_offsets` are those of the stream, so that
  /// ranges may be read from them; 0: nobody vouches for them. A reader finds it in the
  /// metadata, a writer sets it where it makes the offsets itself.
  /// @source{docs/decisions/703-szip-offsets-count-only-where-marked.md}
  std::uint64_t szip_offsets = 0;

  friend bool operator==(const object_descriptor&, const object_descriptor&) = default;
};

/// Bytes of all elements once decoded; bitmask: ceil(n / 8).
/// @error{out_of_range, the product of the shape or its bytes exceed 2^63-1}
[[nodiscard]] result<std::uint64_t> decoded_size(const object_descriptor& descriptor);

/// Metadata of a message after resolution: the last metadata frame, with preceders laid
/// over it.
struct message_metadata {
  std::vector<cbor_map> base;  ///< one per object
  cbor_map extra;              ///< message-level keys, `_extra_` on the wire
  cbor_map reserved;           ///< provenance, `_reserved_` on the wire
};

/// Value at a dot path: first match in base[0], base[1], ..., then in extra; `extra.` or
/// `_extra_.` restrict to extra; `_reserved_` is hidden. nullptr if absent.
[[nodiscard]] const cbor_value* find_path(const message_metadata& metadata,
                                          std::string_view path);
[[nodiscard]] const cbor_value* find_path(const cbor_map& map, std::string_view path);

/// Who wrote a message. The default makes equal content equal bytes: neither time nor
/// uuid.
struct provenance {
  std::string name = "weir";
  std::string version;              ///< empty: the version of this build
  std::optional<std::string> time;  ///< YYYY-MM-DDThh:mm:ssZ
  std::optional<std::string> uuid;
  bool reproducible =
      true;  ///< false: the clock and a random v4 uuid stand in for what is unset
};

/// Where the list of object digests goes.
enum class hash_list : std::uint8_t {
  automatic,  ///< header when written whole, footer when streamed
  none,
  header,  ///< not possible in a stream
  footer,
  both,  ///< not possible in a stream
};

enum class non_finite : std::uint8_t {
  refuse,  ///< the first NaN or infinity in a float or complex object is an error
  store,   ///< bits are stored as they are; a full validation reports them
};

/// How a mask of non-finite values is stored. blosc2 is only read.
enum class mask_method : std::uint8_t { none, rle, roaring, lz4, zstd, blosc2 };

/// Which non-finite values become zeros with a mask that says where they were.
struct mask_options {
  bool nan = false;
  bool infinity = false;  ///< of either sign
  mask_method nan_method = mask_method::roaring;
  mask_method positive_method = mask_method::roaring;
  mask_method negative_method = mask_method::roaring;
  std::uint64_t small_mask_bytes = 128;  ///< up to so many, a mask is stored as it is
};

/// Bit lists, one bit per element, most significant first; empty where there is none.
struct value_masks {
  byte_vector nan;
  byte_vector positive_infinity;
  byte_vector negative_infinity;
  friend bool operator==(const value_masks&, const value_masks&) = default;
};

struct message_options {
  bool hashes = true;
  hash_list list = hash_list::automatic;
  non_finite floats = non_finite::refuse;
  cbor_map extra;  ///< message-level keys
  provenance writer;
  mask_options masks;    ///< what they allow is not refused
  unsigned threads = 0;  ///< to encode with, besides the caller's; the bytes are the same
  /// Payloads start at multiples of this many bytes from the start of the message (16 to
  /// 4096, a power of two), by a key `padding` in metadata and descriptors; 0: as they
  /// come. Of whole messages only.
  std::uint32_t payload_alignment = 0;
};

/// One object and where its bytes lie: elements in C order, in `descriptor.order`.
struct object_to_write {
  object_descriptor descriptor;
  cbor_map metadata;  ///< becomes base[i]; must not hold `_reserved_`
  bytes_view data;
  /// `data` went through the pipeline before and has the masks of the descriptor behind
  /// it. It is written as it is; only parameters and sizes are checked, and those of a
  /// stage that is not built in (sz3) are not.
  bool stored = false;
};

/// A whole message with known length, index and digests in its header.
/// @error{invalid_argument, data that do not fit the shape, `_reserved_` in metadata, a
/// non-finite value,
///   nesting beyond cbor_depth_limit; unsupported, an encoding, filter, compression or
///   dtype}
[[nodiscard]] result<byte_vector> encode_message(std::span<const object_to_write> objects,
                                                 const message_options& options = {});
/// The same, replacing the content of `to` and reusing its memory. After an error `to`
/// holds anything.
[[nodiscard]] result<void> encode_message_into(byte_vector& to,
                                               std::span<const object_to_write> objects,
                                               const message_options& options = {});

/// Receives the bytes of a stream in order.
using byte_sink = std::function<result<void>(bytes_view)>;
/// Overwrites bytes at an offset counted from the start of the message.
using byte_patch = std::function<result<void>(std::uint64_t offset, bytes_view bytes)>;

/// Writes a message of unknown length object by object; the sink need not seek. After an
/// error the message is unusable and every further call returns that error.
/// @threads{thread-compatible}
class stream_writer {
 public:
  /// Writes the preamble and the header metadata. `header_base` holds metadata known
  /// beforehand, entry i for object i: readers that look at the first metadata frame only
  /// then find it.
  /// @error{invalid_argument, a hash list in the header, `_reserved_` in metadata; what
  /// the sink returns}
  [[nodiscard]] static result<stream_writer> open(byte_sink sink,
                                                  message_options options = {},
                                                  std::vector<cbor_map> header_base = {});
  stream_writer(stream_writer&&) noexcept;
  stream_writer& operator=(stream_writer&&) noexcept;
  ~stream_writer();

  /// Appends an object. Its metadata, if any, go in front of it as a preceder frame and
  /// into the footer.
  [[nodiscard]] result<void> write(const object_to_write& object);
  /// Writes the footer and the postamble; lengths stay 0, as in a stream nobody can go
  /// back in.
  [[nodiscard]] result<void> finish();
  /// The same with the length in the postamble and, through `patch`, in the preamble.
  [[nodiscard]] result<void> finish(const byte_patch& patch);

  [[nodiscard]] std::size_t object_count() const noexcept;
  [[nodiscard]] std::uint64_t bytes_written() const noexcept;

 private:
  struct state;
  explicit stream_writer(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

/// Place of a message in a source, in bytes.
struct message_span {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend bool operator==(const message_span&, const message_span&) = default;
};

/// Messages in order; bytes between them are skipped. Finds the end of a stream by
/// walking its frames, so a payload that holds the end magic does not cut it; only a
/// damaged one is cut there.
/// @error{what the source returns}
[[nodiscard]] result<std::vector<message_span>> scan(const byte_source& source);
[[nodiscard]] std::vector<message_span> scan(bytes_view bytes);

/// From which end messages are looked for. Sound files give the same list.
enum class scan_order : std::uint8_t {
  forward,
  backward,   ///< from the end by the lengths in postambles, the rest forward
  both_ends,  ///< a message from each end in turn
};
/// Backward a message of up to 4 GiB is looked for; a stream without length, or other
/// bytes, end that way, and what lies before is scanned forward.
/// @error{what the source returns}
[[nodiscard]] result<std::vector<message_span>> scan(const byte_source& source,
                                                     scan_order order);

/// Finds messages in bytes that come piece by piece and only once, as from a pipe. Gives
/// the messages that scan() finds in all of the bytes, each as soon as its last byte is
/// there, however they were cut.
/// @threads{thread-compatible}
class message_splitter {
 public:
  /// What would be longer than `largest` bytes is no message.
  explicit message_splitter(std::uint64_t largest = std::uint64_t{1} << 32)
      : largest_(largest) {}

  struct piece {
    std::uint64_t offset = 0;   ///< of its first byte, from the first byte of all
    std::uint64_t skipped = 0;  ///< bytes in front of it that belong to no message
    byte_vector bytes;
  };

  /// Takes the next bytes; after end() there are none.
  void put(bytes_view bytes);
  /// No more bytes will come.
  void end() noexcept { ended_ = true; }
  /// The next whole message; nothing if more bytes are needed for it, or none is left.
  [[nodiscard]] std::optional<piece> take();

  /// Bytes put in that are neither in a message taken nor known to belong to none.
  [[nodiscard]] std::uint64_t held() const noexcept { return bytes_.size() - start_; }
  /// Bytes behind the last message taken that are known to belong to none.
  [[nodiscard]] std::uint64_t skipped() const noexcept { return skipped_; }
  /// Whether those begin like a message that was cut short.
  [[nodiscard]] bool cut_short() const noexcept { return cut_short_; }

 private:
  enum class found : std::uint8_t { message, nothing, unclear };
  [[nodiscard]] bytes_view rest() const noexcept;
  [[nodiscard]] found look(std::uint64_t& length);
  [[nodiscard]] found look_at_stream(std::uint64_t& length);
  [[nodiscard]] found hop(std::uint64_t& length);
  [[nodiscard]] found search_end(std::uint64_t& length);
  void skip(std::uint64_t bytes);
  [[nodiscard]] bool go_to_magic();

  std::uint64_t largest_;
  byte_vector bytes_;
  std::size_t start_ = 0;       ///< of what is held
  std::uint64_t passed_ = 0;    ///< bytes before that
  std::uint64_t skipped_ = 0;   ///< of them, since the last message
  std::uint64_t walked_ = 0;    ///< of the stream at the start: frames passed
  std::uint64_t searched_ = 0;  ///< of a damaged stream: no end magic before this
  bool ended_ = false;
  bool cut_short_ = false;
};

/// Metadata of the first metadata frame of the message at the start of `message`, its
/// digest verified if it has one; nothing else of the message is looked at. Of a stream
/// these are the keys that were known beforehand.
/// @error{corrupt; torn; hash_mismatch; unsupported_version}
[[nodiscard]] result<message_metadata> read_metadata(bytes_view message);

enum class hash_check : std::uint8_t {
  none,
  present,   ///< every digest that is there is verified; what has none is read as it is
  required,  ///< and every data object must have one
};

/// The largest object, in bytes of its elements, that readers, validation and commands
/// decode unless an option says otherwise. It bounds what a small but sound message can
/// ask for, such as 16 GiB of equal values. Uncompressed objects are bounded by the bytes
/// that are there.
inline constexpr std::uint64_t default_max_object_bytes = std::uint64_t{16} << 30;

struct read_options {
  hash_check hashes = hash_check::present;
  /// Writers 0.17 to 0.20 stored digests without the flag that announces them. `required`
  /// accepts such a digest only with this switch; `present` uses it anyway.
  bool legacy_hashes = false;
  bool native_order =
      true;  ///< false: elements are returned in the byte order of the file
  /// Bytes of elements that an encoded, filtered or compressed object may have; a larger
  /// one ends in `out_of_range` before memory is taken for it.
  std::uint64_t max_object_bytes = default_max_object_bytes;
  bool restore_non_finite = true;  ///< put masked values back; false: zeros stay
  bool legacy_packing = false;     ///< accept packing keys without `sp_`, as before 0.19
  unsigned threads = 0;            ///< to decode with, besides the caller's
};

/// A frame of a message, as found. Offsets count from the start of the message.
struct frame_info {
  std::uint16_t type = 0;  ///< 1..3 header, 5..7 footer, 8 preceder, 9 data object
  std::uint16_t version = 0;
  std::uint16_t flags = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  ///< without padding
  std::uint64_t digest = 0;  ///< XXH3-64 slot
};

/// Name of a frame type: "header metadata", "data object", ...
[[nodiscard]] std::string_view frame_type_name(std::uint16_t type) noexcept;

/// Reads one message where it lies. Opening reads and checks everything but the payloads.
/// @threads{const; safe to call concurrently}
class message_reader {
 public:
  /// The message at the start of `message`, whose memory must outlive the reader and its
  /// views.
  /// @error{corrupt, structure, metadata, index or digest list; torn; hash_mismatch;
  /// unsupported_version}
  [[nodiscard]] static result<message_reader> open(bytes_view message,
                                                   const read_options& options = {});
  /// The message at `span` of a source, read piece by piece.
  [[nodiscard]] static result<message_reader> open(
      std::shared_ptr<const byte_source> source, message_span span,
      const read_options& options = {});
  message_reader(message_reader&&) noexcept;
  message_reader& operator=(message_reader&&) noexcept;
  ~message_reader();

  [[nodiscard]] std::size_t object_count() const noexcept;
  [[nodiscard]] const message_metadata& metadata() const noexcept;
  /// Metadata of object `i`: its keys in base, `_reserved_` included.
  [[nodiscard]] const cbor_map& metadata(std::size_t i) const;
  [[nodiscard]] const object_descriptor& descriptor(std::size_t i) const;
  /// Bytes of object `i` once decoded.
  [[nodiscard]] std::uint64_t object_bytes(std::size_t i) const;
  /// Bytes of object `i` as stored, without masks.
  [[nodiscard]] std::uint64_t stored_bytes(std::size_t i) const;
  /// Index of the object whose base entry has `name` under the key "name".
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;

  /// Elements of object `i` in C order.
  /// @error{not_found, no such object; unsupported, its pipeline; hash_mismatch;
  /// missing_hash; corrupt}
  [[nodiscard]] result<byte_vector> decode(std::size_t i) const;
  /// The same into memory of exactly object_bytes(i).
  [[nodiscard]] result<void> decode_into(std::size_t i, mutable_bytes to) const;
  /// All objects, on `read_options::threads` threads.
  [[nodiscard]] result<std::vector<byte_vector>> decode_all() const;
  /// Elements `[first, first + count)` of the flattened object; the digest is not
  /// verified. Uncompressed, packed, szip and blosc2 objects read no more than they need.
  /// @error{out_of_range; unsupported, a filter, a bitmask, szip without its offsets; and
  /// those of decode}
  [[nodiscard]] result<byte_vector> decode_range(std::size_t i, std::uint64_t first,
                                                 std::uint64_t count) const;
  /// Masks of object `i`; its elements are those of a reader that does not restore.
  [[nodiscard]] result<value_masks> masks(std::size_t i) const;
  /// The payload as stored, without masks. @error{what the source returns}
  [[nodiscard]] result<byte_vector> stored_payload(std::size_t i) const;
  /// The same with the masks behind it: what object_to_write::stored takes.
  [[nodiscard]] result<byte_vector> stored_region(std::size_t i) const;
  /// The stored bytes themselves, verified: only of an uncompressed object in memory that
  /// needs no swap.
  /// @error{unsupported, the bytes must be copied; and those of decode}
  [[nodiscard]] result<bytes_view> view(std::size_t i) const;
  /// Checks the digest of every frame, the digest lists and every payload size, without
  /// decoding.
  [[nodiscard]] result<void> verify() const;

  [[nodiscard]] message_span span() const noexcept;
  [[nodiscard]] std::uint16_t flags() const noexcept;  ///< of the preamble
  [[nodiscard]] bool streamed() const noexcept;  ///< total_length of the preamble is 0
  [[nodiscard]] const std::vector<frame_info>& frames() const noexcept;

 private:
  friend class message_outline;
  struct state;
  explicit message_reader(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

/// Decodes object `i` on a thread of its own. The reader stays alive until it is done.
[[nodiscard]] std::future<result<byte_vector>> decode_later(
    std::shared_ptr<const message_reader> reader, std::size_t i);

}  // namespace weir::formats
