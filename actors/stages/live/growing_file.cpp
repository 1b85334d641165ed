// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file that another process appends to, read like a pipe.
///
/// A log is written by one run and read by another one with `follow`, which sees the file
/// grow. There is no notification: the end of the file is looked at again after a short
/// sleep.
#include "stages/live/growing_file.hpp"

#include <thread>

namespace weir::actors {

result<std::shared_ptr<growing_file>> growing_file::open(file_system& fs,
                                                         const std::string& path,
                                                         std::uint64_t offset,
                                                         std::chrono::milliseconds wait) {
  WEIR_TRY(auto f, fs.open(path, open_mode::read));
  return std::shared_ptr<growing_file>(new growing_file(std::move(f), offset, wait));
}

/// Returns no value at the end of the file, after a wait: more bytes may come.
result<std::optional<std::size_t>> growing_file::read_some(mutable_bytes to) {
  WEIR_TRY(const std::size_t count, file_->read_some(offset_, to));
  // Bytes that were appended since the last read.
  if (count != 0) {
    offset_ += count;
    return std::optional(count);
  }
  std::this_thread::sleep_for(wait_);
  return std::optional<std::size_t>();
}

}  // namespace weir::actors
