// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file to which messages are appended, and the part of it that is durable; without
/// actors.
#pragma once

#include <memory>
#include <optional>

#include "tensogram/byte_pipe.hpp"
#include "weir/actors/tensograms.hpp"
#include "weir/formats/byte_source.hpp"

namespace weir::actors {

/// The file system to which messages are written. Tests use another one, which can fail.
struct target_environment {
  file_system* fs = &posix_file_system();
  std::chrono::milliseconds timeout{30'000};  ///< for the reader of a pipe
  /// True if the file is locked, so that only one process appends. False for file systems
  /// of tests, whose files do not exist.
  bool lock = true;
};

/// A file that grows by whole messages.
/// @threads{thread-compatible}
class message_file {
 public:
  /// Opens a file for appending, and makes it if it does not exist. Messages are verified
  /// from the end of the file backwards, until one is sound. Bytes behind that one are an
  /// error, or are cut off if the target says `repair`.
  /// @error{torn, there are bytes behind the last sound message}
  /// @error{locked, another process appends to the file}
  /// @error{timeout, the target is a pipe that has no reader}
  /// @error{io}
  [[nodiscard]] static result<std::unique_ptr<message_file>> open(
      const target_environment& environment, const message_target& target);

  /// Appends a message, which is not durable yet. After a failure the file is as before;
  /// if that cannot be achieved, all further calls fail.
  /// @error{invalid_argument; unsupported, the message cannot be encoded}
  /// @error{corrupt, an encoded message is damaged}
  /// @error{no_space; io}
  [[nodiscard]] result<formats::message_span> append(const message_order& order);
  /// Makes all appended messages durable, and returns `durable`. After a failure it is
  /// unknown what the disk holds, so all further calls fail.
  [[nodiscard]] result<std::uint64_t> sync();

  /// Returns the length of the file in bytes.
  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }
  /// Returns the length of the part that is durable, in bytes.
  [[nodiscard]] std::uint64_t durable() const noexcept { return durable_; }
  /// Returns information about the file as it was when it was opened.
  [[nodiscard]] const message_target_info& info() const noexcept { return info_; }

 private:
  message_file(file_system& fs, std::string path) : fs_(fs), path_(std::move(path)) {}
  result<void> recover(const message_target& target);
  result<void> remove_partial_write(error cause);

  file_system& fs_;
  std::string path_;
  std::optional<file_lock> lock_;
  std::unique_ptr<file> file_;
  message_target_info info_;
  std::uint64_t end_ = 0;
  std::uint64_t durable_ = 0;
  bool pipe_ = false;
  bool entry_durable_ = false;   ///< the entry of the file in its folder is durable
  std::optional<error> broken_;  ///< the error of all further calls
};

}  // namespace weir::actors
