// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file that another process appends to, read like a pipe.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "tensogram/byte_pipe.hpp"
#include "weir/base/file.hpp"

namespace weir::actors {

/// Reads a file from an offset on. At its end a read waits for more bytes, and it never
/// says that the file has ended.
/// @threads{thread-compatible}
class growing_file final : public byte_pipe {
 public:
  /// Opens the file. @param wait  Time for which a read waits.
  /// @error{not_found, there is no such file} @error{io, it cannot be opened}
  [[nodiscard]] static result<std::shared_ptr<growing_file>> open(
      file_system& fs, const std::string& path, std::uint64_t offset,
      std::chrono::milliseconds wait);
  [[nodiscard]] result<std::optional<std::size_t>> read_some(mutable_bytes to) override;

 private:
  growing_file(std::unique_ptr<file> f, std::uint64_t offset,
               std::chrono::milliseconds wait)
      : file_(std::move(f)), offset_(offset), wait_(wait) {}
  /// Open for reading as long as the object.
  std::unique_ptr<file> file_;
  /// Place of the next byte.
  std::uint64_t offset_;
  /// Length of the sleep at the end of the file.
  std::chrono::milliseconds wait_;
};

}  // namespace weir::actors
