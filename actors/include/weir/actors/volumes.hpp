// SPDX-License-Identifier: Apache-2.0
/// @file
/// Orders for the volume reader and its workers, and their replies.
/// @threads{values; what they point to has the rules of its own type}
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/storage/hn4.hpp"

namespace weir::actors {

/// Tags of one volume that a client wants to read.
struct volume_spec {
  std::string path{};               ///< file or device of the volume
  std::vector<std::string> tags{};  ///< empty: all tags of the volume
  /// Options with which the streams are opened.
  storage::hn4_stream_options options{};
  std::int64_t deadline_ns = 0;  ///< for each request; 0: the reader's own deadline
};

/// A byte stream that the reader keeps open until its client closes it or ends.
struct opened_stream {
  std::uint64_t stream = 0;  ///< number by which requests name the stream
  /// Name of the sequence of shards.
  std::string tag;
  std::uint64_t bytes = 0;            ///< length of the stream
  std::vector<std::string> warnings;  ///< about the shards, see `storage::hn4_stream`
};
/// Several opened streams.
using opened_streams = std::vector<opened_stream>;

/// Bytes of a stream whose checksums were verified.
struct volume_piece {
  std::uint64_t offset = 0;  ///< in the stream
  /// Null if there are no bytes, or if they went to the client's own memory.
  std::shared_ptr<const byte_vector> bytes;
  std::uint64_t count = 0;  ///< number of bytes; 0: the stream has ended
};

/// Memory that a request fills.
struct fill_target {
  /// Bytes that are filled.
  mutable_bytes memory;
  /// Keeps `memory` alive until the last worker is done with it. A worker may still write
  /// there after the request was answered with an error.
  std::shared_ptr<const void> holder;
  /// Called by the reader after every piece with the bytes that are done and the bytes of
  /// the request. May be empty.
  std::function<void(std::uint64_t, std::uint64_t)> progress;
};
/// Order to fill memory with bytes of a stream.
struct fill_order {
  std::uint64_t stream = 0;  ///< number of the stream
  std::uint64_t offset = 0;  ///< first byte, in the stream
  /// Memory that receives the bytes.
  fill_target target;
};

/// Order to a worker: a part of a stream, to be read while the worker blocks.
struct read_order {
  /// Stream to read from.
  storage::hn4_stream stream;
  std::uint64_t offset = 0;            ///< first byte, in the stream
  mutable_bytes memory;                ///< receives as many bytes as it has
  std::shared_ptr<const void> holder;  ///< keeps `memory` alive
};
/// Streams that a worker has opened, in the order in which the tags were asked for.
using tag_streams = std::vector<storage::hn4_stream>;

}  // namespace weir::actors
