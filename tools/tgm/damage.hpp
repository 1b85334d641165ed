// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the verbs of `weir tgm` do about bytes that they cannot use.
#pragma once

#include "tgm/messages.hpp"

namespace weir::tools {

/// Opens the files of a verb and says on standard error which of their bytes the verb
/// does not use. Without `--skip-damaged` the first damaged message ends the verb; with
/// it the verb goes on with the next one and ends with the exit code of damaged data.
/// @threads{thread-compatible}
class damage_report {
 public:
  explicit damage_report(bool skip = false) : skip_(skip) {}

  /// Opens a file and names the bytes that belong to no message.
  /// @error{those of read_messages}
  [[nodiscard]] result<message_file> open(const std::string& path);
  /// Names a message that is left out, with its place and the reason.
  /// @error{`why` itself, unless it is damage and damaged messages are skipped}
  [[nodiscard]] result<void> leave_out(const message_file& file, std::size_t message,
                                       const error& why);

  /// Messages and ranges between messages that were skipped.
  [[nodiscard]] std::size_t skipped() const noexcept { return skipped_; }
  /// Exit code of a verb that came to its end.
  [[nodiscard]] int exit_code() const noexcept;

 private:
  void name_gap(const message_file& file, formats::message_span gap);

  bool skip_;
  std::size_t skipped_ = 0;
};

/// Checks all that can be checked of an opened message: every digest, and by decoding
/// every object that has no digest and whose codec is built.
/// @error{hash_mismatch; corrupt; out_of_range, an object beyond the limit of the
/// reader}
[[nodiscard]] result<void> check_sound(const formats::message_reader& reader);

}  // namespace weir::tools
