// SPDX-License-Identifier: Apache-2.0
/// @file
/// What is asked of the message reader and the message appender, and what they answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::actors {

enum class message_origin : std::uint8_t {
  automatic,  ///< what lies at the path decides; "-" is a pipe
  file,
  folder,  ///< its files *.tgm, in byte order of their names
  pipe,    ///< a FIFO, or "-" for standard input
};

/// A byte between messages: where one begins, or where reading goes on.
struct message_position {
  std::string file;          ///< name within a folder; empty elsewhere and at the start
  std::uint64_t offset = 0;  ///< bytes from the start of the file or pipe
  friend bool operator==(const message_position&, const message_position&) = default;
};

/// What a reader opens.
struct message_source {
  std::string path;
  message_origin origin = message_origin::automatic;
  message_position start;  ///< only of a file or folder: goes on there
  formats::read_options read;
  std::size_t prefetch = 4;  ///< messages held for pulls to come; 0: none
  /// Bytes of the messages held, at which reading ahead pauses. A message of a file that
  /// is larger alone is not held: its parts are read when they are asked for.
  std::uint64_t prefetch_bytes = std::uint64_t{64} << 20;
  std::uint64_t max_message_bytes = std::uint64_t{1} << 32;  ///< of a pipe, in bytes
  bool decode = false;        ///< elements are decoded ahead as well
  bool skip_garbage = false;  ///< false: bytes that belong to no message are an error
};

/// What a reader has opened.
struct message_source_info {
  message_origin origin = message_origin::file;
  std::vector<std::string> files;  ///< names of a folder, from where reading begins
};

/// One message. Immutable: whoever has it may read it on any thread.
struct message_delivery {
  /// Null: the source has ended.
  std::shared_ptr<const formats::message_reader> message;
  std::vector<byte_vector> elements;  ///< by object, if they were to be decoded
  message_position place;             ///< of its first byte
  std::uint64_t length = 0;           ///< in bytes
  message_position next;              ///< where to go on behind it
  std::uint64_t skipped = 0;          ///< bytes before it that belong to no message
};

/// What an appender opens.
struct message_target {
  std::string path;  ///< a file, which may not be there yet; a FIFO; "-": standard output
  bool repair = false;      ///< cut off what a crash left behind the last whole message
  std::size_t window = 64;  ///< appends that may wait for being durable
  /// Written bytes that make the appender sync at once. Else it syncs when no append
  /// waits in its mailbox.
  std::uint64_t sync_bytes = std::uint64_t{64} << 20;
};

/// What an appender has opened.
struct message_target_info {
  std::uint64_t end = 0;        ///< bytes: the next message goes there
  std::uint64_t messages = 0;   ///< in front of it
  std::uint64_t cut_bytes = 0;  ///< bytes that were cut off
  std::size_t window = 0;       ///< credits: appends that may be unanswered
};

/// Elements of one object, kept by whoever made them.
struct object_to_append {
  formats::object_descriptor descriptor;
  formats::cbor_map metadata;
  std::shared_ptr<const byte_vector> data;
  bool stored = false;  ///< see formats::object_to_write
};

/// One message to append.
struct message_order {
  std::vector<object_to_append> objects;
  formats::message_options options;
  /// A message that is whole already; if there is one, `objects` and `options` are not
  /// looked at.
  std::shared_ptr<const byte_vector> encoded;
};

/// A message that a crash cannot take away any more (in a pipe: that was passed on).
struct appended_message {
  std::uint64_t offset = 0;   ///< of its first byte
  std::uint64_t length = 0;   ///< in bytes
  std::uint64_t durable = 0;  ///< bytes of the file that are durable, this one included
};

}  // namespace weir::actors
