// SPDX-License-Identifier: Apache-2.0
/// @file
/// Byte streams of HN4 volumes: the shards of one tag, read as one run of bytes with
/// every checksum verified. `hn4_volume::stream` in hn4.hpp opens one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::storage {

namespace hn4 {
struct stream_map;
}  // namespace hn4

/// A 128-bit identity, ordered by `hi`, then by `lo`.
struct hn4_id {
  std::uint64_t hi = 0;  ///< high half
  std::uint64_t lo = 0;  ///< low half

  friend bool operator==(const hn4_id&, const hn4_id&) = default;
  friend auto operator<=>(const hn4_id&, const hn4_id&) = default;
};

/// Order of the shards of a tag.
///
/// The two orders differ only if creation times contradict the identities; a warning of
/// the stream then says so.
enum class hn4_order : std::uint8_t {
  seed,  ///< ordered by identity, as the specification says
  /// Ordered by creation second, then by identity, as the reference implementation does.
  clock_then_seed,
};

/// Behaviour of a read at a hole, which is a block that was never allocated.
enum class hn4_holes : std::uint8_t {
  error,  ///< it fails with `errc::hole`
  zeros,  ///< it delivers zeros
};

/// How a tag is opened.
struct hn4_stream_options {
  hn4_order order = hn4_order::seed;   ///< order of the shards
  hn4_holes holes = hn4_holes::error;  ///< behaviour at a hole
  /// Finds and reads exactly what the reference implementation does: its order of shards,
  /// its result codes, one place per block, zeros for holes.
  bool strict = false;
  /// Opens a tag although the directory shows that a shard of it may be lost; `warnings`
  /// then says what is missing. Without this, such a tag is an error.
  bool recover = false;
};

/// One shard of a stream.
struct hn4_shard {
  hn4_id seed;                     ///< identity of the shard
  std::uint64_t offset = 0;        ///< offset of its first byte in the stream
  std::uint64_t bytes = 0;         ///< length of the shard
  std::uint64_t blocks = 0;        ///< number of its blocks
  std::uint32_t generation = 0;    ///< write generation
  std::uint32_t create_clock = 0;  ///< creation time, seconds since 1970
  /// True if its blocks are stored compressed wherever that is shorter.
  bool compressed = false;
};

/// Blocks of a stream that follow each other on the device.
struct hn4_extent {
  std::uint64_t device_offset =
      0;                     ///< byte of the device at which the first block begins
  std::uint64_t offset = 0;  ///< offset in the stream
  std::uint64_t bytes = 0;   ///< length in the stream
  std::uint64_t blocks = 0;  ///< number of blocks
};

/// Why a read accepted a block that the plain rules do not find.
enum class hn4_recovery_kind : std::uint8_t {
  cleared_bit,       ///< the bitmap marks the block as free
  other_orbit,       ///< the block lies at another of its possible places than the hint
  older_generation,  ///< it is older than the directory says, and no newer one is there
  short_block,       ///< it decompressed to too few bytes; zeros follow
};
/// Consecutive blocks of a shard that were accepted for the same reason.
struct hn4_recovery {
  hn4_recovery_kind kind{};       ///< the reason
  std::size_t shard = 0;          ///< number of the shard in the stream
  std::uint64_t first_block = 0;  ///< lowest block number in the shard
  std::uint64_t blocks = 0;       ///< number of blocks
};
/// Describes a recovery: "shard 0, block 3 and 4 more: found under a cleared bit".
/// @threads{safe to call concurrently}
[[nodiscard]] std::string to_text(const hn4_recovery& r);

/// How far a read came.
struct hn4_partial {
  std::size_t bytes = 0;       ///< verified bytes from the front, zeros of holes included
  std::uint64_t holes = 0;     ///< holes among them
  bool ended_in_hole = false;  ///< true if the last block read was a hole
  std::optional<error> failure;  ///< why fewer bytes than requested were read
};

/// Bytes in place, and the object that keeps them valid.
struct hn4_view {
  bytes_view bytes;                    ///< empty if the range is not contiguous in memory
  std::shared_ptr<const void> holder;  ///< keeps `bytes` valid
};

/// One range of `hn4_stream::read_scattered`.
struct hn4_piece {
  std::uint64_t offset = 0;  ///< offset in the stream
  mutable_bytes to;          ///< destination; its size is the length of the range
};

/// The shards of one tag as one read-only run of bytes.
///
/// Every block that a read touches is verified completely: the checksums of header and
/// payload, identity, block number and generation. Reads copy least if they begin and end
/// at the border of a payload, which is the offset of a shard plus a multiple of
/// `payload()`. A block that is not where its hint says is searched at all its possible
/// places; `recoveries` reports this.
///
/// Copies share the map of the blocks. A stream stays valid after the volume object is
/// destroyed.
/// @threads{const members are safe to call concurrently}
/// @source{HN4 Tensor Stream Layer 2.1}
class hn4_stream {
 public:
  /// Copies the stream; both share the map of the blocks.
  hn4_stream(const hn4_stream&);
  /// Copies the stream; both share the map of the blocks.
  hn4_stream& operator=(const hn4_stream&);
  /// Moves the stream.
  hn4_stream(hn4_stream&&) noexcept;
  /// Moves the stream.
  hn4_stream& operator=(hn4_stream&&) noexcept;
  ~hn4_stream();

  /// Returns the name of the tag.
  [[nodiscard]] const std::string& tag() const noexcept;
  /// Returns the length of the stream in bytes, at least 1.
  [[nodiscard]] std::uint64_t size() const noexcept;
  /// Returns the shards in the order of the stream.
  [[nodiscard]] std::span<const hn4_shard> shards() const noexcept;
  /// Returns where the directory says that the blocks lie, in the order of the device, so
  /// that reading in this order moves forward.
  ///
  /// Blocks without a place are left out; so are the blocks of a damaged shard that
  /// claims more of them than the volume has.
  [[nodiscard]] std::vector<hn4_extent> extents() const;
  /// Returns what is unusual about the tag but does not prevent reading.
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept;

  /// Reads bytes from `offset` on.
  /// @param to the destination; its content is unspecified after an error
  /// @returns `to.size()`, or fewer at the end of the stream
  /// @error{out_of_range, `offset` is at or after the end and `to` is not empty}
  /// @error{corrupt, a checksum, a magic number, an identity or a number is wrong}
  /// @error{generation_skew, a block is older than the directory says}
  /// @error{hole, a block was never allocated and the options do not ask for zeros}
  /// @error{unsupported, a block is compressed by an unknown algorithm}
  /// @error{io, the device reports an error}
  [[nodiscard]] result<std::size_t> read(std::uint64_t offset, mutable_bytes to) const;
  /// Reads as `read` does, but also says how many bytes were verified before an error.
  [[nodiscard]] hn4_partial read_partial(std::uint64_t offset, mutable_bytes to) const;
  /// Reads several ranges, each completely, with the errors of `read`.
  /// @error{out_of_range, a range leaves the stream}
  [[nodiscard]] result<void> read_scattered(std::span<const hn4_piece> pieces) const;
  /// Reads the whole stream, with the errors of `read`.
  /// @error{out_of_memory, the stream does not fit into memory}
  [[nodiscard]] result<byte_vector> read_all() const;

  /// Returns a range in place if it lies in one uncompressed block of a mapped device.
  ///
  /// The block is verified first, once. If the range cannot be had in place, the view is
  /// empty and the caller has to read it. Also returns the errors of `read`.
  [[nodiscard]] result<hn4_view> view(std::uint64_t offset, std::size_t count) const;

  /// Returns the recoveries of all reads of this stream so far, ordered by shard.
  [[nodiscard]] std::vector<hn4_recovery> recoveries() const;
  /// Returns the bytes of data in a full block.
  [[nodiscard]] std::uint32_t payload() const noexcept;
  /// Reads the directory entries of the shards again and compares them with what they
  /// were at open.
  /// @error{corrupt, an entry has changed}
  /// @error{io, the device reports an error}
  [[nodiscard]] result<void> verify_snapshot() const;

 private:
  friend class hn4_volume;
  explicit hn4_stream(std::shared_ptr<const hn4::stream_map> map) noexcept;

  std::shared_ptr<const hn4::stream_map> map_;
};

}  // namespace weir::storage
