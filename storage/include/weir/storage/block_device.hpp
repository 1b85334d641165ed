// SPDX-License-Identifier: Apache-2.0
/// @file
/// Devices that hold a volume: a fixed number of bytes, read and written at offsets.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::storage {

/// A run of bytes of a device.
struct extent {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  ///< 0: none

  [[nodiscard]] std::uint64_t end() const noexcept { return offset + size; }
};

/// Fixed-size storage addressed in bytes. Ranges outside the device are errors, never
/// short transfers.
/// @threads{concurrent reads are safe; a write concurrent with anything else needs
/// disjoint ranges}
class block_device {
 public:
  virtual ~block_device() = default;

  /// Reads exactly `to.size()` bytes. @error{torn, the range leaves the device; io, the
  /// system's word}
  [[nodiscard]] virtual result<void> read(std::uint64_t offset, mutable_bytes to) = 0;
  /// Reads consecutive bytes into several places, in order; the pieces may have any
  /// sizes.
  [[nodiscard]] virtual result<void> read_scattered(
      std::uint64_t offset, std::span<const mutable_bytes> pieces);
  /// Writes all of `from`. @error{out_of_range; io; no_space; invalid_argument, opened
  /// for reading}
  [[nodiscard]] virtual result<void> write(std::uint64_t offset, bytes_view from) = 0;
  /// Makes everything written before durable.
  [[nodiscard]] virtual result<void> sync() = 0;
  /// Bytes, constant.
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  /// The bytes themselves where they lie in memory in one piece, else empty. Valid while
  /// the device lives.
  [[nodiscard]] virtual bytes_view view(std::uint64_t offset,
                                        std::size_t count) const noexcept;
  /// First extent at or after `offset`, cut at `end`, that may hold anything but zeros.
  [[nodiscard]] virtual result<extent> next_data(std::uint64_t offset, std::uint64_t end);
  /// When the file was last written, in nanoseconds since 1970; 0: nobody knows.
  [[nodiscard]] virtual std::int64_t modified_ns() const noexcept { return 0; }
  /// Name for messages: the path of a file.
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
};

enum class device_mode : std::uint8_t { read_only, writable };

/// Opens a file or a block special file. Writable devices hold an exclusive advisory lock
/// on it.
/// @error{not_found; locked, another process writes to it; io}
[[nodiscard]] result<std::unique_ptr<block_device>> open_file_device(
    const std::string& path, device_mode mode);
/// Creates a sparse file of `size` zero bytes, locked for writing. @error{already_exists;
/// io; no_space}
[[nodiscard]] result<std::unique_ptr<block_device>> create_file_device(
    const std::string& path, std::uint64_t size);

/// Maps a file into memory for reading: `view` gives every range without a copy. A file
/// that shrinks while it is mapped ends the process (SIGBUS), as with every mapping.
/// @error{as open_file_device}
[[nodiscard]] result<std::unique_ptr<block_device>> open_mapped_device(
    const std::string& path);

/// How transfers past the page cache are queued.
enum class direct_reads : std::uint8_t {
  queue,    ///< io_uring where the kernel allows it, else threads
  threads,  ///< threads of the device
};
/// Whether this process may use io_uring.
[[nodiscard]] bool io_uring_allowed() noexcept;

/// Opens a file for reading past the page cache, where its file system can do that; else
/// as `open_file_device`. Reads of more than 64 KiB are cut into chunks, several of which
/// are in flight; a read that goes on where one stopped finds the next chunks on their
/// way. @error{as open_file_device}
[[nodiscard]] result<std::unique_ptr<block_device>> open_direct_device(
    const std::string& path, direct_reads how = direct_reads::queue);

/// A sparse device in memory, in pages of 64 KiB that exist once they are written.
/// @threads{as block_device}
class memory_device final : public block_device {
 public:
  static constexpr std::size_t page_bytes = std::size_t{1} << 16;

  explicit memory_device(std::uint64_t size, std::string name = "memory");

  /// A device with the same bytes.
  [[nodiscard]] std::unique_ptr<memory_device> clone() const;

  result<void> read(std::uint64_t offset, mutable_bytes to) override;
  result<void> write(std::uint64_t offset, bytes_view from) override;
  result<void> sync() override { return {}; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
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
