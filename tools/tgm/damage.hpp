// SPDX-License-Identifier: Apache-2.0
/// @file
/// Handling of damaged messages, and of bytes that belong to no message, in the verbs of
/// `weir tgm`.
#pragma once

#include "tgm/messages.hpp"

namespace weir::tools {

/// Opens the files of a verb and reports on standard error which bytes the verb does not
/// use.
///
/// Without `--skip-damaged`, the first damaged message ends the verb with an error. With
/// it, the verb leaves the message out, continues with the next one, and ends with the
/// exit code of damaged data.
/// @threads{thread-compatible}
class damage_report {
 public:
  /// @param skip  Whether damaged messages are left out.
  explicit damage_report(bool skip = false) : skip_(skip) {}

  /// Opens a file and reports the bytes that belong to no message. An empty file, and a
  /// file without any magic number of a message, is opened as a file of no messages.
  /// @error{corrupt, the file holds no message but a magic number of one, and damaged
  /// messages are not skipped}
  /// Errors of `read_messages` are passed on.
  [[nodiscard]] result<message_file> open(const std::string& path);
  /// Reports a message that is left out, with its place and the reason.
  /// @returns The error `why` itself if it is no damage or damaged messages are not
  /// skipped; success otherwise.
  [[nodiscard]] result<void> leave_out(const message_file& file, std::size_t message,
                                       const error& why);

  /// Returns the number of messages, and of ranges between messages, that were skipped.
  [[nodiscard]] std::size_t skipped() const noexcept { return skipped_; }
  /// Returns the exit code for a verb that did not fail: 0, or that of damaged data.
  [[nodiscard]] int exit_code() const noexcept;

 private:
  [[nodiscard]] result<void> name_gap(const message_file& file,
                                      formats::message_span gap);

  bool skip_;
  std::size_t skipped_ = 0;
};

/// Checks a message for damage: validates it, and decodes objects without a digest if
/// this build has their codec.
/// @param reader  Has opened the message.
/// @error{corrupt, hash_mismatch, torn, the message is damaged}
/// @error{out_of_range, an object without a digest exceeds the limit of the reader}
[[nodiscard]] result<void> check_sound(const message_file& file, std::size_t message,
                                       const formats::message_reader& reader);

}  // namespace weir::tools
