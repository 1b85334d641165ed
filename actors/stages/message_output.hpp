// SPDX-License-Identifier: Apache-2.0
/// @file
/// The output of a sink that appends Tensogram messages to a file or a pipe.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "stages/source_parts.hpp"
#include "tensogram/message_file.hpp"

namespace weir::actors {

/// Messages at the end of a file, with the offset that checkpoints need. A sink forwards
/// `open`, `settle`, `rewind` and `verify`, so that the file ends with the messages of an
/// uninterrupted run whatever happens.
///
/// A pipe cannot be cut. It gets messages at a checkpoint, or earlier if many bytes wait,
/// and gets them again from a resumed run.
/// @threads{thread-compatible; belongs to the thread of the sink}
class message_output {
 public:
  /// @param stage  Name of the stage, for messages; must outlive the object.
  /// @param fs     Must outlive the object.
  message_output(std::string_view stage, file_system& fs) : stage_(stage), fs_(fs) {}

  /// Opens the output. A resumed run leaves it alone until `rewind`.
  /// @param path     As `path_of` returns it.
  /// @param replace  A new run empties a file of messages.
  /// @error{already_exists, the file has to be emptied and holds something else}
  /// @error{torn, there are bytes behind the last sound message}
  /// @error{locked, another process appends to the file} @error{io}
  [[nodiscard]] result<void> open(const std::string& path, bool resuming, bool replace);
  /// Appends a message, which is not durable before `settle`.
  /// @param hold  Bytes that may wait for a pipe.
  /// @error{io, the file cannot be written} @error{no_space, the device is full}
  [[nodiscard]] result<void> append(std::shared_ptr<const byte_vector> message,
                                    std::uint64_t hold);
  /// Returns the offset of an output that has no message yet.
  [[nodiscard]] static flow::small_record offset_of_nothing() {
    return flow::small_record::holding(offset());
  }
  /// Makes all messages durable and returns the offset behind them. @error{io}
  [[nodiscard]] result<flow::small_record> settle();
  /// Cuts the file to an offset. The last message before it must be the durable one. An
  /// offset without messages empties a file of messages only.
  /// @error{torn, the file is shorter} @error{hash_mismatch, another message is there}
  /// @error{already_exists, the file holds something else} @error{corrupt} @error{io}
  [[nodiscard]] result<void> rewind(bytes_view stored);
  /// Compares the file with an offset and changes nothing. Returns false for a pipe.
  /// @error{torn, the file is shorter} @error{hash_mismatch, another message is there}
  [[nodiscard]] result<bool> verify(const std::string& path, bytes_view stored);

 private:
  /// The record of a checkpoint.
  struct offset {
    std::uint64_t messages = 0;  ///< messages of the run
    read_block last;             ///< the last message; `end` is the end of the file
  };

  [[nodiscard]] bool locks() const { return &fs_ == &posix_file_system(); }
  [[nodiscard]] result<std::optional<file_lock>> locked() const;
  [[nodiscard]] result<void> open_file();
  [[nodiscard]] result<void> empty_file();
  [[nodiscard]] result<void> cut();
  [[nodiscard]] result<void> holds_last(file& f) const;
  [[nodiscard]] error missing() const;
  [[nodiscard]] result<void> write(std::shared_ptr<const byte_vector> message);
  [[nodiscard]] result<void> release();

  std::string_view stage_;
  file_system& fs_;
  std::string path_;
  bool pipe_ = false;
  std::unique_ptr<message_file> file_;
  offset offset_;
  /// The last message, if it has no digest yet.
  std::shared_ptr<const byte_vector> last_;
  std::deque<std::shared_ptr<const byte_vector>> held_;  ///< messages for a pipe
  std::uint64_t held_bytes_ = 0;
};

}  // namespace weir::actors
