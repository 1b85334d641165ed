// SPDX-License-Identifier: Apache-2.0
/// @file
/// The messages of a file, a folder or a pipe, one after another. No actor in it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tensogram/byte_pipe.hpp"
#include "weir/actors/tensograms.hpp"
#include "weir/formats/byte_source.hpp"

namespace weir::actors {

/// @threads{thread-compatible}
class message_feed {
 public:
  virtual ~message_feed() = default;
  /// The next message; one that is null at the end; nothing if a pipe has none yet. After
  /// an error the next call goes on behind what it was about, unless ended() says that
  /// nothing can follow.
  /// @error{io; corrupt, torn, bytes that belong to no message; those of
  /// message_reader::open and decode}
  [[nodiscard]] virtual result<std::optional<message_delivery>> next() = 0;
  /// Nothing follows: the end was reached, or the source cannot be read any more.
  [[nodiscard]] virtual bool ended() const noexcept = 0;
  [[nodiscard]] virtual const message_source_info& info() const noexcept = 0;
};

/// What is read where, so that tests can let it fail.
struct feed_environment {
  file_system* fs = &posix_file_system();
  std::chrono::milliseconds timeout{50};  ///< of a pipe, for each read
  std::shared_ptr<byte_pipe> pipe;        ///< read instead of what lies at the path
};

/// @error{not_found; io; invalid_argument, a position in a pipe; out_of_range, a position
/// behind the end of a file}
[[nodiscard]] result<std::unique_ptr<message_feed>> open_feed(
    const feed_environment& environment, const message_source& source);

}  // namespace weir::actors
