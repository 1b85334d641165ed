// SPDX-License-Identifier: Apache-2.0
/// @file
/// HN4 volumes: makes a volume, stores bytes under the name of a tag, and opens a tag for
/// reading. hn4_stream.hpp has the reads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/storage/block_device.hpp"
#include "weir/storage/hn4_stream.hpp"

namespace weir::storage {

class hn4_tensor;

namespace hn4 {
struct core;
}  // namespace hn4

/// Kind of a volume: it determines block size, limits and layout. The numbers are stored.
/// @source{HN4 on-disk format, section 1.4}
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
/// Returns the name of a profile, such as "GENERIC", or "unknown" for other numbers.
/// @threads{safe to call concurrently}
[[nodiscard]] std::string_view name_of(hn4_profile profile) noexcept;

/// Medium of a volume: it decides how far apart the possible places of a block lie.
enum class hn4_medium : std::uint32_t { ssd = 0, rotational = 1, tape = 3 };

/// Properties of a new volume.
struct hn4_format_options {
  /// Bytes: a multiple of the sector within the limits of the profile.
  std::uint64_t capacity = std::uint64_t{128} << 20;
  std::string label = "weir";  ///< at most 31 bytes of UTF-8
  std::uint32_t sector = 512;  ///< bytes: 512 or 4096; only 512 for the profile PICO
  hn4_profile profile = hn4_profile::generic;  ///< kind of the volume
  hn4_medium medium = hn4_medium::ssd;         ///< the profile ARCHIVE is always on tape
  /// Seed from which the identity of the volume is derived; unset for a random identity.
  std::optional<std::uint64_t> uuid_seed;
  std::optional<std::int64_t> time_ns;  ///< creation time; unset for the system clock
  bool overwrite = false;               ///< true to replace an existing file
};
/// Smallest and largest capacity of a profile in bytes.
struct hn4_limits {
  std::uint64_t min = 0;  ///< smallest capacity in bytes
  std::uint64_t max = 0;  ///< largest capacity in bytes
};
/// Returns the limits of the capacity of a profile.
/// @threads{safe to call concurrently}
[[nodiscard]] hn4_limits limits_of(hn4_profile profile) noexcept;
/// Finds a profile by its name in upper or lower case.
/// @error{unknown_key, there is no such profile; the message names the nearest}
/// @threads{safe to call concurrently}
[[nodiscard]] result<hn4_profile> hn4_profile_named(std::string_view name);

/// Makes an empty volume as a sparse file that the reference implementation can mount.
/// @error{already_exists, there is a file at `path` and `overwrite` is not set}
/// @error{invalid_argument, an option is out of its range}
/// @error{no_space, the file system is full}
/// @error{io, the operating system reports an error}
/// @threads{safe to call concurrently for different paths}
/// @source{HN4 on-disk format, sections 1.4 to 1.6 and 8}
[[nodiscard]] result<void> hn4_format(const std::string& path,
                                      const hn4_format_options& options = {});
/// Makes an empty volume on a device that reads as zeros everywhere.
///
/// The capacity is the size of the device; the option is ignored.
/// @error{invalid_argument, an option or the size of the device is out of its range}
/// @error{io, the device reports an error}
/// @threads{safe to call concurrently for different devices}
[[nodiscard]] result<void> hn4_format(block_device& device,
                                      const hn4_format_options& options = {});

/// Layout of a volume.
struct hn4_geometry {
  hn4_profile profile = hn4_profile::generic;  ///< kind of the volume
  std::uint64_t capacity = 0;                  ///< bytes
  std::uint32_t sector = 0;                    ///< bytes
  std::uint32_t block = 0;                     ///< bytes
  std::uint32_t payload = 0;                   ///< bytes of data per block: block - 48
  std::uint64_t blocks = 0;                    ///< complete blocks of the volume
  /// First byte of the ring of epochs. Like those below, it counts from the start of the
  /// volume.
  std::uint64_t epoch = 0;
  std::uint64_t cortex = 0;   ///< first byte of the directory
  std::uint64_t bitmap = 0;   ///< first byte of the bitmap of used blocks
  std::uint64_t qmask = 0;    ///< first byte of the quality mask
  std::uint64_t flux = 0;     ///< first byte of the data region
  std::uint64_t horizon = 0;  ///< first byte of the region for linear shards
  std::uint64_t journal = 0;  ///< first byte of the log
};

/// Removes temporary files beside `path` that killed processes have left.
///
/// Files of processes that still run stay. Every call that makes or writes a volume does
/// this first.
/// @error{io, the folder cannot be read or a file cannot be removed}
/// @threads{safe to call concurrently}
[[nodiscard]] result<void> hn4_remove_leftovers(const std::string& path);

/// Behaviour of `hn4_volume::put` if the tag exists.
enum class hn4_existing : std::uint8_t {
  replace,  ///< replaces its bytes
  append,   ///< adds to them
  refuse,   ///< fails with `errc::already_exists`
};

/// How `hn4_volume::put` stores bytes.
struct hn4_put_options {
  hn4_existing existing = hn4_existing::replace;  ///< behaviour if the tag exists
  /// True to store each block compressed if that is shorter.
  bool compress = false;
  /// Number of shards, of sizes as equal as possible; 0 for as few as free space allows.
  std::uint32_t shards = 0;
  /// Largest shard in bytes if `shards` is 0; 0 for no limit.
  std::uint64_t shard_bytes = 0;
  std::optional<std::int64_t> time_ns;  ///< creation time; unset for the system clock
};

/// One tag of a volume.
struct hn4_tag {
  std::string name;                ///< name of the tag
  std::uint64_t shards = 0;        ///< number of shards
  std::uint64_t bytes = 0;         ///< length of its stream
  std::uint32_t generation = 0;    ///< highest write generation of its shards
  std::uint32_t create_clock = 0;  ///< creation of its newest shard, seconds since 1970
};

/// A tag whose stream is not complete.
struct hn4_damaged_tag {
  std::string name;  ///< name of the tag
  error problem;     ///< why it cannot be read
};

/// Result of `hn4_volume::compact`.
struct hn4_compaction {
  std::size_t moves = 0;              ///< tags that were stored again
  std::vector<hn4_damaged_tag> left;  ///< tags that could not be read and stay in place
};

/// An open volume. Its directory is read once, when it is opened.
/// @threads{thread-compatible: const members may run concurrently, the others only alone}
class hn4_volume {
 public:
  /// Opens an image file or a block device.
  ///
  /// A writable volume holds an exclusive lock on the file. A volume that the reference
  /// implementation would mount read-only cannot be opened for writing.
  /// @error{not_found, there is no such file}
  /// @error{locked, `mode` is writable and another process writes to the file}
  /// @error{torn, the file is shorter than the volume}
  /// @error{corrupt, no superblock is valid or the layout contradicts itself}
  /// @error{unsupported_version, the volume has incompatible features}
  /// @error{unsupported, the volume cannot be used in this mode}
  /// @error{io, the device reports an error}
  [[nodiscard]] static result<hn4_volume> open(const std::string& path,
                                               device_mode mode = device_mode::read_only);
  /// Opens the volume on a device. Also returns the errors of the other overload, except
  /// those of the file.
  [[nodiscard]] static result<hn4_volume> open(std::unique_ptr<block_device> device,
                                               device_mode mode);
  /// Opens for reading any volume that has one valid superblock with a possible layout,
  /// also one that is truncated, locked or half written.
  ///
  /// Bytes that the device lacks read as zeros; blocks there fail their checks.
  /// @error{corrupt, no superblock is valid or the layout contradicts itself}
  /// @error{io, the device reports an error}
  [[nodiscard]] static result<hn4_volume> open_damaged(
      std::unique_ptr<block_device> device);
  /// Opens a volume for reading exactly as the reference implementation does.
  ///
  /// Errors carry its result codes (`code_of`), and all streams are strict. Also returns
  /// the errors of `open` for a device.
  [[nodiscard]] static result<hn4_volume> open_strictly(
      std::unique_ptr<block_device> device);

  /// Moves the volume.
  hn4_volume(hn4_volume&&) noexcept;
  /// Moves the volume.
  hn4_volume& operator=(hn4_volume&&) noexcept;
  ~hn4_volume();

  /// Returns the layout.
  [[nodiscard]] const hn4_geometry& geometry() const noexcept;
  /// Returns the label that was given to the volume when it was made.
  [[nodiscard]] const std::string& label() const noexcept;
  /// Returns the identity of the volume.
  [[nodiscard]] hn4_id uuid() const noexcept;
  /// Returns the state word of the superblock: 0x2001 for a clean volume, 0x2002 for one
  /// that is in use or was not closed.
  [[nodiscard]] std::uint32_t state() const noexcept;
  /// Returns what is wrong but does not prevent reading, such as a lost copy of the
  /// superblock, a bad entry in the ring of epochs or a damaged directory entry.
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept;

  /// Lists the tags that can be opened because all their shards are there, sorted
  /// bytewise. An unfinished store is not listed, nor is a tag whose removal has begun.
  /// @error{io, the device reports an error}
  [[nodiscard]] result<std::vector<hn4_tag>> tags() const;
  /// Lists the names under which the directory holds shards that do not form a complete
  /// stream, sorted bytewise.
  /// @error{io, the device reports an error}
  [[nodiscard]] result<std::vector<hn4_damaged_tag>> damaged_tags() const;

  /// Opens a tag for reading.
  /// @error{not_found, there is no such tag; the message names the nearest}
  /// @error{corrupt, a damaged directory entry may belong to the tag, or a shard is empty
  /// or larger than the volume}
  /// @error{torn, shards are missing}
  /// @error{io, the device reports an error}
  [[nodiscard]] result<hn4_stream> stream(std::string_view tag,
                                          const hn4_stream_options& options = {}) const;

  /// Reads one tensor of a stored safetensors or GGUF file; see hn4_tensors.hpp.
  ///
  /// Other errors are those of `hn4_stream::read`.
  /// @param name name of the tensor
  /// @param tag the tag to search; empty for all tags
  /// @error{not_found, there is no such tensor}
  /// @error{invalid_argument, several tags have a tensor of this name}
  [[nodiscard]] result<hn4_tensor> tensor(std::string_view name,
                                          std::string_view tag = {}) const;

  /// Stores bytes under a tag. They are durable when the call returns.
  ///
  /// A crash at any instant leaves either the old stream or the new one. Names of up to
  /// 24 bytes are kept in the directory; a longer name takes one block per shard.
  /// @error{already_exists, the tag exists and the options refuse that}
  /// @error{invalid_argument, the volume is read-only, `source` is empty, or the name is
  /// empty, longer than 255 bytes, not UTF-8, contains a NUL or consists of separators}
  /// @error{no_space, the free space or the directory is exhausted}
  /// @error{io, the device reports an error; the object then refuses further writes}
  [[nodiscard]] result<void> put(std::string_view tag, bytes_view source,
                                 const hn4_put_options& options = {});
  /// Removes a tag durably. After a crash the tag is either complete or gone.
  /// @error{not_found, there is no such tag}
  /// @error{invalid_argument, the volume is read-only}
  /// @error{io, the device reports an error; the object then refuses further writes}
  [[nodiscard]] result<void> remove(std::string_view tag);
  /// Stores every tag again that fits below its present end, so that the free space forms
  /// one run at the end of the volume.
  ///
  /// Tags keep their number of shards and their compression. Each is held in memory while
  /// it moves. A tag that cannot be read stays where it is. Also returns the errors of
  /// `put`.
  [[nodiscard]] result<hn4_compaction> compact();
  /// Writes an index beside the image (IMAGE.index), with which later opens find a tag
  /// without reading the whole directory.
  ///
  /// The index is a hint. It is used only while size, identity, generation and time of
  /// the image are unchanged, and every entry that it names is verified.
  /// @error{io, the file cannot be written}
  [[nodiscard]] result<void> write_index() const;

 private:
  explicit hn4_volume(std::shared_ptr<hn4::core> core) noexcept;

  std::shared_ptr<hn4::core> core_;
};

}  // namespace weir::storage
