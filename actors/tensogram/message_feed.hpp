// SPDX-License-Identifier: Apache-2.0
/// @file
/// The messages of a file, a folder or a pipe, one after another; without actors.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tensogram/byte_pipe.hpp"
#include "weir/actors/tensograms.hpp"
#include "weir/formats/byte_source.hpp"

namespace weir::actors {

/// A sequence of messages.
/// @threads{thread-compatible}
class message_feed {
 public:
  virtual ~message_feed() = default;
  /// Returns the next message: a delivery without a message at the end, and nothing if a
  /// pipe has no whole message yet. After an error, the next call continues behind the
  /// message or the bytes that it was about, unless `ended` is true. Also returns the
  /// errors of `formats::message_reader::open` and, if messages are decoded, of its
  /// `decode_all`.
  /// @error{corrupt, bytes belong to no message}
  /// @error{torn, a message is cut short}
  /// @error{io}
  [[nodiscard]] virtual result<std::optional<message_delivery>> next() = 0;
  /// Returns whether nothing follows: the end was reached, or the source cannot be read
  /// any more.
  [[nodiscard]] virtual bool ended() const noexcept = 0;
  /// Returns information about the source.
  [[nodiscard]] virtual const message_source_info& info() const noexcept = 0;
};

/// The file system and pipe from which a feed reads. Tests use others, which can fail.
struct feed_environment {
  file_system* fs = &posix_file_system();
  std::chrono::milliseconds timeout{50};  ///< time for which a read waits for a pipe
  std::shared_ptr<byte_pipe> pipe;  ///< if not null, it is read in place of the path
};

/// Opens a source.
/// @error{not_found, there is no such path, or no file of the start position}
/// @error{invalid_argument, a start position in a pipe}
/// @error{out_of_range, the start position lies behind the end of a file}
/// @error{io}
[[nodiscard]] result<std::unique_ptr<message_feed>> open_feed(
    const feed_environment& environment, const message_source& source);

}  // namespace weir::actors
