// SPDX-License-Identifier: Apache-2.0
/// @file
/// A child process that writes lines.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "context/live/byte_feed.hpp"

namespace weir::storage {

/// A child process whose standard output is read as lines and whose standard input takes
/// lines. Its destructor ends it, together with the processes that it has started.
/// @threads{thread-compatible}
class line_child {
 public:
  /// Starts a program; its path is searched for as by a shell.
  /// @error{source_unavailable, it cannot be started}
  [[nodiscard]] static result<std::unique_ptr<line_child>> start(
      std::vector<std::string> command);
  line_child(const line_child&) = delete;
  line_child& operator=(const line_child&) = delete;
  ~line_child();

  /// Returns the next line without its newline, or nothing after `wait_ms`. What was sent
  /// and did not fit into the pipe goes out meanwhile.
  /// @error{source_unavailable, the output has ended; the error tells the exit status}
  /// @error{out_of_range, a line is longer than 16 MiB}
  [[nodiscard]] result<std::optional<std::string>> next_line(int wait_ms);
  /// Sends a line. Never waits.
  void send(std::string_view line);
  /// Returns program and arguments, for messages.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  explicit line_child(std::string name) : name_(std::move(name)) {}
  [[nodiscard]] result<void> spawn(std::vector<std::string>& command, int in, int out);
  [[nodiscard]] std::optional<std::string> take_line();
  void flush() noexcept;
  [[nodiscard]] bool reap(std::int64_t patience_ns) noexcept;
  [[nodiscard]] error ended();

  std::string name_;
  pid_t pid_ = -1;
  owned_descriptor in_;   ///< socket to its standard input
  owned_descriptor out_;  ///< pipe of its standard output
  std::string unsent_;
  std::string text_;         ///< output that was read
  std::size_t begin_ = 0;    ///< first byte of it that was not returned
  std::size_t scanned_ = 0;  ///< no newline lies between `begin_` and this byte
  int status_ = 0;           ///< exit status, once it has ended
};

}  // namespace weir::storage
