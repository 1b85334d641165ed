// SPDX-License-Identifier: Apache-2.0
/// @file
/// The file of a part: the tiles of a rank one after another, and behind them the
/// XXH3-64 of each.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "state/manifest.hpp"
#include "weir/base/file.hpp"

namespace weir::runtime {

/// Size and digest of a part that has been written.
struct written_part {
  std::uint64_t bytes = 0;
  std::uint64_t digest = 0;
};

/// Writes a part. The file is made by the first call. After a failure calls do nothing,
/// and `finish` returns the failure.
/// @threads{safe to call concurrently}
class part_writer {
 public:
  part_writer(file_system& files, std::string path)
      : files_(files), path_(std::move(path)) {}
  /// Writes a tile in row-major order and returns its digest.
  [[nodiscard]] std::uint64_t write(std::uint64_t offset, const tensor& tile);
  /// Writes the digests at an offset and makes the file and its name durable.
  /// @error{no_space; the disk is full} @error{io; a file operation failed}
  [[nodiscard]] result<written_part> finish(std::uint64_t offset,
                                            std::span<const std::uint64_t> digests);
  /// Closes and removes the file, if it exists.
  void discard();
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  [[nodiscard]] result<void> open();
  [[nodiscard]] result<void> write_bytes(std::uint64_t offset, bytes_view bytes);
  [[nodiscard]] result<std::uint64_t> write_tile(std::uint64_t offset,
                                                 const tensor& tile);
  [[nodiscard]] result<void> write_digests(std::uint64_t offset,
                                           std::span<const std::uint64_t> digests,
                                           written_part& out);
  file_system& files_;
  std::string path_;
  std::mutex mutex_;
  std::unique_ptr<file> file_;
  std::optional<error> failure_;
};

/// Reads and verifies the tiles of a part.
/// @threads{safe to call concurrently}
class part_reader {
 public:
  /// @param owner  Words for messages: "part 2 of generation 8 (rank 2 on vm1)".
  part_reader(file_system& files, std::string path, std::string owner, part_entry entry,
              part_plan plan)
      : files_(files),
        path_(std::move(path)),
        owner_(std::move(owner)),
        entry_(std::move(entry)),
        plan_(plan) {}
  /// Reads a tile into a tensor, or only verifies it if `into` is a null pointer.
  /// @error{not_found; there is no file} @error{torn; it has another size}
  /// @error{hash_mismatch; it was altered} @error{io; it cannot be read}
  [[nodiscard]] result<void> read(const tile_place& place, const tensor* into);

 private:
  [[nodiscard]] result<void> open();
  [[nodiscard]] error refuse(errc code, const std::string& text) const;
  file_system& files_;
  std::string path_;
  std::string owner_;
  part_entry entry_;
  part_plan plan_;
  std::mutex mutex_;
  std::unique_ptr<file> file_;
  std::vector<std::uint64_t> digests_;
};

}  // namespace weir::runtime
