// SPDX-License-Identifier: Apache-2.0
/// @file
/// What is asked of the volume reader, and what it answers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/storage/hn4.hpp"

namespace weir::actors {

/// Tags of one volume.
struct volume_spec {
  std::string path;
  std::vector<std::string> tags;  ///< empty: all of them
  storage::hn4_stream_options options;
  std::int64_t deadline_ns = 0;  ///< of each request; 0: the reader's own
};

/// A stream that the reader keeps open for whoever opened it.
struct opened_stream {
  std::uint64_t stream = 0;  ///< its number in requests
  std::string tag;
  std::uint64_t bytes = 0;
  std::vector<std::string> warnings;
};
using opened_streams = std::vector<opened_stream>;

/// Bytes of a stream, every checksum verified.
struct volume_piece {
  std::uint64_t offset = 0;                  ///< in the stream
  std::shared_ptr<const byte_vector> bytes;  ///< null: none, or in the caller's memory
  std::uint64_t count = 0;                   ///< bytes; 0: the stream has ended
};

/// Memory to be filled. `holder` keeps it until the last thread has let go of it, which
/// may be after the request has ended in an error.
struct fill_target {
  mutable_bytes memory;
  std::shared_ptr<const void> holder;
  /// Bytes done and bytes asked for, after every piece; called by the reader.
  std::function<void(std::uint64_t, std::uint64_t)> progress;
};
struct fill_order {
  std::uint64_t stream = 0;
  std::uint64_t offset = 0;
  fill_target target;
};

/// A part of a stream for one thread that may block.
struct read_order {
  storage::hn4_stream stream;
  std::uint64_t offset = 0;
  mutable_bytes memory;
  std::shared_ptr<const void> holder;
};
using tag_streams = std::vector<storage::hn4_stream>;

}  // namespace weir::actors
