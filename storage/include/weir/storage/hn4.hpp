// SPDX-License-Identifier: Apache-2.0
/// @file
/// HN4 volumes: make one, store bytes under a tag, read a tag back as one stream with
/// every checksum verified.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/storage/block_device.hpp"

namespace weir::storage {

class hn4_tensor;

namespace hn4 {
struct core;
struct stream_map;
}  // namespace hn4

/// 128-bit identity, ordered by `hi`, then `lo`.
struct hn4_id {
  std::uint64_t hi = 0;
  std::uint64_t lo = 0;

  friend bool operator==(const hn4_id&, const hn4_id&) = default;
  friend auto operator<=>(const hn4_id&, const hn4_id&) = default;
};

enum class hn4_profile : std::uint32_t {
  generic = 0,
  gaming = 1,
  ai = 2,
  archive = 3,
  pico = 4,
  system = 5,
  usb = 6,
  hyper_cloud = 7,
};
/// GENERIC, GAMING, ...; "unknown" beyond the table.
[[nodiscard]] std::string_view name_of(hn4_profile profile) noexcept;

/// What a volume lies on; decides how addresses jump.
enum class hn4_medium : std::uint32_t { ssd = 0, rotational = 1, tape = 3 };

/// What a new volume is like.
struct hn4_format_options {
  /// bytes, a multiple of the sector, within the limits of the profile
  std::uint64_t capacity = std::uint64_t{128} << 20;
  std::string label = "weir";  ///< at most 31 bytes of UTF-8
  std::uint32_t sector = 512;  ///< 512 or 4096; PICO: 512
  hn4_profile profile = hn4_profile::generic;
  hn4_medium medium = hn4_medium::ssd;  ///< ARCHIVE is always on tape
  std::optional<std::uint64_t>
      uuid_seed;                        ///< the identity follows from it; unset: random
  std::optional<std::int64_t> time_ns;  ///< creation time; unset: the system clock
  bool overwrite = false;               ///< replace an existing file
};
/// Smallest and largest capacity of a profile in bytes.
struct hn4_limits {
  std::uint64_t least = 0, most = 0;
};
[[nodiscard]] hn4_limits limits_of(hn4_profile profile) noexcept;
/// A profile by its name, any case. @error{unknown_key, the message names the nearest}
[[nodiscard]] result<hn4_profile> hn4_profile_named(std::string_view name);

/// Makes an empty volume as a sparse file that the reference implementation mounts.
/// @error{already_exists; invalid_argument, an option is out of its range; no_space; io}
/// @source{HN4 on-disk format, sections 1.4 to 1.6 and 8}
[[nodiscard]] result<void> hn4_format(const std::string& path,
                                      const hn4_format_options& options = {});
/// The same on a device that reads as zeros; its size is the capacity.
[[nodiscard]] result<void> hn4_format(block_device& device,
                                      const hn4_format_options& options = {});

/// Where things are, in bytes from the start of the volume.
struct hn4_geometry {
  hn4_profile profile = hn4_profile::generic;
  std::uint64_t capacity = 0;
  std::uint32_t sector = 0;
  std::uint32_t block = 0;
  std::uint32_t payload = 0;  ///< bytes of data per block: block - 48
  std::uint64_t blocks = 0;   ///< whole blocks of the volume
  std::uint64_t epoch = 0, cortex = 0, bitmap = 0, qmask = 0, flux = 0, horizon = 0,
                journal = 0;
};

/// Removes the temporary files that killed processes left of the file at `path`; those of
/// processes that still run stay. Every call that makes or writes a volume does it.
/// @error{io}
[[nodiscard]] result<void> hn4_remove_leftovers(const std::string& path);

/// Order of the shards of one tag. They differ only where creation times contradict the
/// identities; a stream opened then says so in `warnings`.
enum class hn4_order : std::uint8_t {
  seed,             ///< by identity, as the specification says
  clock_then_seed,  ///< by creation second, then identity, as the reference
                    ///< implementation does
};

enum class hn4_holes : std::uint8_t {
  error,  ///< a block that is not allocated is `errc::hole`
  zeros,  ///< it reads as zeros
};

struct hn4_stream_options {
  hn4_order order = hn4_order::seed;
  hn4_holes holes = hn4_holes::error;
  /// Exactly what the reference implementation finds and reads: its order, its codes, one
  /// place per block, zeros for holes.
  bool strict = false;
  /// Read what is left of a tag where the directory shows that a shard of it may be lost:
  /// `warnings` lists what is missing. Without this, such a tag is an error.
  bool recover = false;
};

/// What `put` does with a tag that exists.
enum class hn4_existing : std::uint8_t { replace, append, refuse };

struct hn4_put_options {
  hn4_existing existing = hn4_existing::replace;
  /// Store blocks compressed where that is shorter.
  bool compress = false;
  /// Exactly so many shards, as equal as they can be; 0: as few as free space allows.
  std::uint32_t shards = 0;
  /// With `shards` = 0: largest shard in bytes; 0: no limit.
  std::uint64_t shard_bytes = 0;
  std::optional<std::int64_t> time_ns;  ///< creation time; unset: the system clock
};

/// One tag of a volume.
struct hn4_tag {
  std::string name;
  std::uint64_t shards = 0;
  std::uint64_t bytes = 0;
  std::uint32_t generation = 0;    ///< highest write generation among its shards
  std::uint32_t create_clock = 0;  ///< seconds since 1970 of its newest shard
};

/// A tag whose stream is not whole.
struct hn4_damaged_tag {
  std::string name;
  error problem;  ///< why it cannot be read
};

/// What `compact` did.
struct hn4_compaction {
  std::size_t moves = 0;
  std::vector<hn4_damaged_tag> left;  ///< tags that could not be read, where they were
};

/// One shard of a stream.
struct hn4_shard {
  hn4_id seed;
  std::uint64_t offset = 0;  ///< of its first byte in the stream
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  std::uint32_t generation = 0;
  std::uint32_t create_clock = 0;
  bool compressed = false;  ///< its blocks are, where that is shorter
};

/// Blocks of a stream that follow each other on the device.
struct hn4_extent {
  std::uint64_t at = 0;      ///< byte of the device where the first block begins
  std::uint64_t offset = 0;  ///< in the stream
  std::uint64_t bytes = 0;   ///< of the stream
  std::uint64_t blocks = 0;
};

/// What a read did to get at a block that the plain rules do not find.
enum class hn4_recovery_kind : std::uint8_t {
  cleared_bit,       ///< the block lay under a bit that says "free"
  other_orbit,       ///< it lay where no hint points
  older_generation,  ///< it is older than the directory says, and nothing newer is there
  short_block,       ///< it decompressed to fewer bytes than the shard has: zeros follow
};
struct hn4_recovery {
  hn4_recovery_kind kind{};
  std::size_t shard = 0;
  std::uint64_t first_block = 0;  ///< lowest number in the shard
  std::uint64_t blocks = 0;
};
/// "shard 0, block 3 and 4 more: found under a cleared bit"
[[nodiscard]] std::string to_text(const hn4_recovery& r);

/// How far a read came.
struct hn4_partial {
  std::size_t bytes = 0;         ///< verified, from the front; holes read as zeros count
  std::uint64_t holes = 0;       ///< blocks of zeros among them
  bool ended_in_hole = false;    ///< the last block read was a hole
  std::optional<error> failure;  ///< why there are no more, if more were asked for
};

/// Bytes where they lie, and what keeps them there.
struct hn4_view {
  bytes_view bytes;  ///< empty: they do not lie in memory in one piece
  std::shared_ptr<const void> holder;
};

struct hn4_piece {
  std::uint64_t offset = 0;  ///< in the stream
  mutable_bytes to;
};

/// The shards of one tag as one read-only run of bytes.
///
/// Every block that a read touches is verified whole: header and payload checksums,
/// identity, block number, generation. Reads that start and end at shard offset + n *
/// payload copy least. A block that is not where its hint says is looked for on all
/// orbits; `recoveries` tells what that took.
/// @threads{const; reads may run concurrently; lives on when the volume object is gone}
/// @source{HN4 Tensor Stream Layer 2.1}
class hn4_stream {
 public:
  hn4_stream(const hn4_stream&);  ///< shares everything
  hn4_stream& operator=(const hn4_stream&);
  hn4_stream(hn4_stream&&) noexcept;
  hn4_stream& operator=(hn4_stream&&) noexcept;
  ~hn4_stream();

  [[nodiscard]] const std::string& tag() const noexcept;
  /// Total bytes, at least 1.
  [[nodiscard]] std::uint64_t size() const noexcept;
  [[nodiscard]] std::span<const hn4_shard> shards() const noexcept;
  /// Where the directory says that the blocks lie, in the order of the device: reads in
  /// that order go forward. Blocks without a place are left out, and those of a shard
  /// beyond as many as the volume has.
  [[nodiscard]] std::vector<hn4_extent> extents() const;
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept;

  /// Reads from `offset`; returns how many bytes: `to.size()`, fewer only where the
  /// stream ends. After an error the content of `to` is unspecified.
  /// @error{out_of_range, `offset` >= size() and `to` is not empty; corrupt, a checksum,
  /// magic, identity or
  ///   number is wrong; generation_skew; hole; unsupported, unknown compression; io}
  [[nodiscard]] result<std::size_t> read(std::uint64_t offset, mutable_bytes to) const;
  /// The same, with the count of what could be read before an error.
  [[nodiscard]] hn4_partial read_partial(std::uint64_t offset, mutable_bytes to) const;
  /// Several ranges, each whole. @error{as read; out_of_range, a range leaves the stream}
  [[nodiscard]] result<void> read_scattered(std::span<const hn4_piece> pieces) const;
  /// The whole stream. @error{as read; out_of_memory}
  [[nodiscard]] result<byte_vector> read_all() const;

  /// A range without a copy: where it lies in one raw block of a mapped device, verified
  /// once. @error{as read}
  [[nodiscard]] result<hn4_view> view(std::uint64_t offset, std::size_t count) const;

  /// What the reads of this stream had to do so far, by shard.
  [[nodiscard]] std::vector<hn4_recovery> recoveries() const;
  /// Payload bytes per block.
  [[nodiscard]] std::uint32_t payload() const noexcept;
  /// Reads every directory entry again. @error{corrupt, one is not what it was at open}
  [[nodiscard]] result<void> verify_snapshot() const;

 private:
  friend class hn4_volume;
  explicit hn4_stream(std::shared_ptr<const hn4::stream_map> map) noexcept;

  std::shared_ptr<const hn4::stream_map> map_;
};

/// An open volume. Its directory is read once, at open.
/// @threads{thread-compatible: const members may run concurrently, `put` alone}
class hn4_volume {
 public:
  /// Opens an image file or block device.
  ///
  /// Writable volumes hold a lock; those that the reference would mount read-only are
  /// refused.
  /// @error{not_found; locked; torn, the file is shorter than the volume; corrupt, no
  /// valid superblock
  ///   or a contradictory one; unsupported_version, incompatible flags; unsupported; io}
  [[nodiscard]] static result<hn4_volume> open(const std::string& path,
                                               device_mode mode = device_mode::read_only);
  [[nodiscard]] static result<hn4_volume> open(std::unique_ptr<block_device> device,
                                               device_mode mode);
  /// Opens for reading whatever has one valid superblock and a layout that makes sense:
  /// cut, locked and half written volumes too. Bytes that are not there read as zeros, so
  /// that no block of them passes its checks.
  /// @error{corrupt; io}
  [[nodiscard]] static result<hn4_volume> open_damaged(
      std::unique_ptr<block_device> device);
  /// Opens as the reference implementation would, for reading; its codes are in the
  /// errors (`code_of`). Every stream is then strict.
  [[nodiscard]] static result<hn4_volume> open_strictly(
      std::unique_ptr<block_device> device);

  hn4_volume(hn4_volume&&) noexcept;
  hn4_volume& operator=(hn4_volume&&) noexcept;
  ~hn4_volume();

  [[nodiscard]] const hn4_geometry& geometry() const noexcept;
  [[nodiscard]] const std::string& label() const noexcept;
  [[nodiscard]] hn4_id uuid() const noexcept;
  /// State word of the superblock: 0x2001 clean, 0x2002 in use or crashed.
  [[nodiscard]] std::uint32_t state() const noexcept;
  /// What is wrong but does not stop reading: lost superblock copies, bad epoch entry,
  /// damaged anchors.
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept;

  /// The tags that can be opened, sorted bytewise: all of their shards are there. What a
  /// store has not finished, and what a removal has begun to remove, is not.
  /// @error{io}
  [[nodiscard]] result<std::vector<hn4_tag>> tags() const;
  /// The names under which the directory holds shards that make up no whole stream,
  /// sorted bytewise. @error{io}
  [[nodiscard]] result<std::vector<hn4_damaged_tag>> damaged_tags() const;

  /// Opens a tag. @error{not_found, the message names the nearest tag; corrupt, a
  /// directory entry that may
  ///   belong to it is damaged, or a shard is empty or larger than the volume; torn,
  ///   shards are missing}
  [[nodiscard]] result<hn4_stream> stream(std::string_view tag,
                                          const hn4_stream_options& options = {}) const;

  /// A tensor of a stored safetensors or GGUF file by name, in one tag or in all; see
  /// hn4_tensors.hpp. @error{not_found; invalid_argument, several tags have one; as
  /// hn4_stream::read}
  [[nodiscard]] result<hn4_tensor> tensor(std::string_view name,
                                          std::string_view tag = {}) const;

  /// Stores `source` under `tag`, durable when it returns; replaces what the tag held,
  /// or adds to it.
  ///
  /// A crash at any instant leaves the old stream or the new one. Names of up to 24 bytes
  /// stay in the directory, longer ones take a block per shard.
  /// @error{already_exists; invalid_argument, read-only volume, empty source, name of 0
  /// or more than 255 bytes, not UTF-8, with a NUL or of separators only; no_space; io}
  [[nodiscard]] result<void> put(std::string_view tag, bytes_view source,
                                 const hn4_put_options& options = {});
  /// Removes a tag, durably; a crash leaves it or not, never a part of it.
  /// @error{not_found; invalid_argument, read-only volume; io}
  [[nodiscard]] result<void> remove(std::string_view tag);
  /// Stores again, lower, every tag that fits below where it ends, so that free space
  /// grows together at the end. Tags keep their number of shards and their compression;
  /// each is held in memory while it moves. A tag that cannot be read stays where it is.
  /// @error{as put}
  [[nodiscard]] result<hn4_compaction> compact();
  /// Writes the index beside the image (IMAGE.index) that lets later opens find a tag
  /// without reading the whole directory. It is a hint: it counts only while length,
  /// identity, generation and time of the image are the same, and every entry it names is
  /// verified. @error{io}
  [[nodiscard]] result<void> write_index() const;

 private:
  explicit hn4_volume(std::shared_ptr<hn4::core> core) noexcept;

  std::shared_ptr<hn4::core> core_;
};

}  // namespace weir::storage
