// SPDX-License-Identifier: Apache-2.0
/// @file
/// The child process of a stage: starting it, requests with a deadline, and its end.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "process/channel.hpp"
#include "weir/base/system/yielding_wait.hpp"

namespace weir::actors {

/// What a child process needs.
struct child_options {
  std::string stage;                 ///< name of the stage, for messages
  std::vector<std::string> command;  ///< program and arguments
  int memory = -1;                   ///< descriptor of the shared memory
  std::int64_t deadline_ns = 0;      ///< longest time without an answer
  /// Set when the child has died or was ended because it did not keep to the wire.
  std::shared_ptr<std::atomic<bool>> died;
};

/// A child process. Its destructor ends it.
/// @threads{thread-compatible}
class child_process {
 public:
  /// Starts a process. @error{not_found, there is no such program} @error{io}
  [[nodiscard]] static result<std::unique_ptr<child_process>> start(
      child_options options);
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;
  ~child_process();

  /// Sends a request and waits for its answer. An answer that is an error is returned as
  /// one, unless it belongs to items (`wire::kind::work`, `fill` and `write`).
  /// @param payload  Payload of the request. @param max_bytes  Largest payload of the
  /// answer.
  /// @error{abandoned, the child has died; the message holds its last words}
  /// @error{timeout, it has not answered in time and was ended}
  /// @error{corrupt, the answer does not keep to the wire, and the child was ended}
  [[nodiscard]] result<wire_message> ask(wire::kind kind, std::uint32_t count = 0,
                                         bytes_view payload = {},
                                         std::uint64_t max_bytes = wire::max_text);
  /// Ends the child because an answer does not keep to the wire, and returns the error.
  [[nodiscard]] error broken(const error& cause);
  /// Lets the child end: at first it is asked to, later it is killed.
  void end() noexcept;

 private:
  explicit child_process(child_options options) : options_(std::move(options)) {}
  [[nodiscard]] result<void> spawn(int socket, int words);
  [[nodiscard]] result<bool> wait(int fd, bool to_write, std::int64_t until_ns);
  [[nodiscard]] error lost(error cause);
  void hear() noexcept;
  void show(const char* text, std::size_t bytes) noexcept;
  [[nodiscard]] std::string last_words();
  [[nodiscard]] bool reap(std::int64_t patience_ns) noexcept;
  void kill() noexcept;

  child_options options_;
  pid_t pid_ = -1;
  int socket_ = -1;
  int words_ = -1;            ///< pipe of its standard error
  yielding_wait short_wait_;  ///< for the answer, before the thread sleeps
  std::string heard_;         ///< end of what it has said
  std::size_t shown_ = 0;     ///< bytes of it that were shown
  int status_ = 0;            ///< exit status, once it has ended
  bool ended_ = false;        ///< it was waited for
  std::uint64_t sequence_ = 0;
};

/// Returns the command of the program that serves stages of C++: that of the environment
/// variable WEIR_STAGE_HOST, or one beside the running program.
/// @error{not_found, there is none}
[[nodiscard]] result<std::vector<std::string>> stage_host_command();

}  // namespace weir::actors
