// SPDX-License-Identifier: Apache-2.0
/// @file
/// Block devices: storage of a fixed size that is read and written at byte offsets. An
/// HN4 volume lies on one of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::storage {

/// A range of bytes of a device.
struct extent {
  std::uint64_t offset = 0;  ///< first byte, counted from the start of the device
  std::uint64_t size = 0;    ///< bytes; 0 for an empty range

  /// Returns the offset of the first byte after the range.
  [[nodiscard]] std::uint64_t end() const noexcept { return offset + size; }
};

/// Storage of a fixed size, addressed in bytes.
///
/// A transfer is complete or an error; a range outside the device is an error, never a
/// short transfer. Errors name the file and the byte offset.
/// @threads{reads may run concurrently; a write may run concurrently with other calls
/// only if the ranges do not overlap}
class block_device {
 public:
  virtual ~block_device() = default;

  /// Reads exactly `to.size()` bytes from `offset` on.
  /// @param to the destination; its content is unspecified after an error
  /// @error{torn, the range leaves the device or the file has become shorter}
  /// @error{io, the operating system reports an error}
  [[nodiscard]] virtual result<void> read(std::uint64_t offset, mutable_bytes to) = 0;
  /// Reads consecutive bytes of the device into several buffers, one after another.
  ///
  /// The buffers may have any sizes, also 0. A file needs one system call for up to 1024
  /// of them.
  /// @error{torn, the range leaves the device or the file has become shorter}
  /// @error{io, the operating system reports an error}
  [[nodiscard]] virtual result<void> read_scattered(
      std::uint64_t offset, std::span<const mutable_bytes> pieces);
  /// Writes all bytes of `from` at `offset`. They are durable only after `sync`.
  /// @error{invalid_argument, the device was opened for reading}
  /// @error{out_of_range, the range leaves the device}
  /// @error{no_space, the file system is full}
  /// @error{io, the operating system reports an error}
  [[nodiscard]] virtual result<void> write(std::uint64_t offset, bytes_view from) = 0;
  /// Makes all earlier writes durable.
  /// @error{io, the operating system reports an error; which writes are durable is then
  /// unknown}
  [[nodiscard]] virtual result<void> sync() = 0;
  /// Returns the size in bytes, which does not change while the device is open.
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  /// Returns `count` bytes in place if they are contiguous in memory, else an empty view.
  ///
  /// The view is valid as long as the device exists.
  [[nodiscard]] virtual bytes_view view(std::uint64_t offset,
                                        std::size_t count) const noexcept;
  /// Finds the first range in [`offset`, `end`) that may hold bytes other than zero.
  ///
  /// Readers use it to skip the holes of sparse files. Bytes outside the returned ranges
  /// are zero; bytes inside may be zero.
  /// @returns an empty range at `end` if the rest is a hole. The devices of this header
  /// do not fail. The error of others may have any code: what holds data is not known.
  [[nodiscard]] virtual result<extent> next_data(std::uint64_t offset, std::uint64_t end);
  /// Returns the time of the last write in nanoseconds since 1970, or 0 if it is unknown.
  [[nodiscard]] virtual std::int64_t modified_ns() const noexcept { return 0; }
  /// Returns the name of the device for messages: the path, if it is a file.
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
};

/// How a device is opened.
enum class device_mode : std::uint8_t {
  read_only,  ///< writes are errors; no lock is taken
  writable,   ///< the file is locked exclusively until the device is destroyed
};

/// Opens a file or a block special file.
///
/// A writable device holds an exclusive advisory lock (flock) on the file, so that two
/// processes do not write to one volume.
/// @error{not_found, there is no such file}
/// @error{locked, `mode` is writable and another process writes to the file}
/// @error{invalid_argument, the path is neither a file nor a block device}
/// @error{io, the operating system reports an error}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::unique_ptr<block_device>> open_file_device(
    const std::string& path, device_mode mode);
/// Creates a sparse file of `size` zero bytes and opens it for writing, locked.
/// @error{already_exists, there is a file at `path`}
/// @error{invalid_argument, `size` is above 2^63 - 1}
/// @error{no_space, the file system is full}
/// @error{io, the operating system reports an error}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::unique_ptr<block_device>> create_file_device(
    const std::string& path, std::uint64_t size);

/// Maps a file into memory for reading, so that `view` returns any range without a copy.
///
/// The kernel ends the process (SIGBUS) if it touches a part of
/// the mapping that the file has lost meanwhile.
/// @error{not_found, there is no such file}
/// @error{invalid_argument, the path is neither a file nor a block device}
/// @error{io, the operating system reports an error}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::unique_ptr<block_device>> open_mapped_device(
    const std::string& path);

/// How a direct device keeps several transfers in flight.
enum class direct_reads : std::uint8_t {
  queue,    ///< uses io_uring if the kernel allows it, else threads
  threads,  ///< uses threads that belong to the device
};
/// Returns whether the kernel lets this process use io_uring.
/// @threads{safe to call concurrently}
[[nodiscard]] bool io_uring_allowed() noexcept;

/// Opens a file for reads that bypass the page cache (O_DIRECT).
///
/// A file system without direct transfers gives the device of `open_file_device`. Reads
/// of more than 64 KiB are cut into chunks, several of which are in flight. A read that
/// begins where an earlier one ended finds its first chunks already requested.
/// @param queueing how transfers are kept in flight; the bytes do not depend on it
/// @error{not_found, there is no such file}
/// @error{invalid_argument, the path is neither a file nor a block device}
/// @error{io, the operating system reports an error}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::unique_ptr<block_device>> open_direct_device(
    const std::string& path, direct_reads queueing = direct_reads::queue);

/// A sparse device in memory. Pages of 64 KiB are allocated when they are first written;
/// everything else reads as zeros.
/// @threads{reads may run concurrently; a write may run concurrently with other calls
/// only if the ranges lie in different pages}
class memory_device final : public block_device {
 public:
  /// Size of a page in bytes.
  static constexpr std::size_t page_bytes = std::size_t{1} << 16;

  /// Makes a device of `size` zero bytes. Only the table of its pages is allocated.
  explicit memory_device(std::uint64_t size, std::string name = "memory");

  /// Returns a copy of the device with the same name and the same bytes.
  [[nodiscard]] std::unique_ptr<memory_device> clone() const;

  result<void> read(std::uint64_t offset, mutable_bytes to) override;
  result<void> write(std::uint64_t offset, bytes_view from) override;
  /// Does nothing and never fails: there is no slower medium behind the memory.
  result<void> sync() override { return {}; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  /// Returns a view if the range lies in one page that has been written.
  [[nodiscard]] bytes_view view(std::uint64_t offset,
                                std::size_t count) const noexcept override;
  result<extent> next_data(std::uint64_t offset, std::uint64_t end) override;
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }

 private:
  using page = std::unique_ptr<std::byte[]>;

  std::uint64_t size_;
  std::string name_;
  std::vector<page> pages_;
};

}  // namespace weir::storage
