// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file of messages that grows, and how much of it a crash cannot take away. No actor
/// in it.
#pragma once

#include <memory>
#include <optional>

#include "tensogram/byte_pipe.hpp"
#include "weir/actors/tensograms.hpp"
#include "weir/formats/byte_source.hpp"

namespace weir::actors {

/// What is written where, so that tests can let it fail.
struct target_environment {
  file_system* fs = &posix_file_system();
  std::chrono::milliseconds timeout{30'000};  ///< with the reader of a pipe
  bool lock = true;  ///< files are locked, so that only one appends; false: not real ones
};

/// @threads{thread-compatible}
class message_file {
 public:
  /// Opens a file to append to, or makes one. The messages at its end are verified back
  /// to the first sound one; what follows that is cut off with `repair`, else an error.
  /// @error{torn, something behind the last sound message; locked, somebody else appends;
  /// io; timeout, a pipe without a reader}
  [[nodiscard]] static result<std::unique_ptr<message_file>> open(
      const target_environment& environment, const message_target& target);

  /// Appends a message; it is not durable yet. A failure leaves the file as it was, or
  /// makes every further call fail.
  /// @error{invalid_argument, unsupported, a message that cannot be encoded; corrupt, a
  /// whole message that is none; no_space; io}
  [[nodiscard]] result<formats::message_span> append(const message_order& order);
  /// Makes durable what was appended; answers durable(). After a failure nobody knows
  /// what the disk holds, and every further call fails.
  [[nodiscard]] result<std::uint64_t> sync();

  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }
  [[nodiscard]] std::uint64_t durable() const noexcept { return durable_; }
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
  bool entry_durable_ = false;  ///< the folder's entry is durable
  std::optional<error> broken_;
};

}  // namespace weir::actors
