// SPDX-License-Identifier: Apache-2.0
/// @file
/// Orders for the message reader and the message appender, and their replies.
/// @threads{values; what they point to has the rules of its own type}
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::actors {

/// The kind of source that messages are read from.
enum class message_origin : std::uint8_t {
  automatic,  ///< decided by what lies at the path; "-" is a pipe
  file,
  folder,  ///< all files *.tgm of the folder, in byte order of their names
  pipe,    ///< a FIFO, or "-" for standard input
};

/// A position between messages: where a message begins, or where reading continues.
struct message_position {
  std::string file;          ///< name within a folder; empty for other sources
  std::uint64_t offset = 0;  ///< bytes from the start of the file or pipe
  friend bool operator==(const message_position&, const message_position&) = default;
};

/// The source that a message reader opens.
struct message_source {
  /// Path or address of the source.
  std::string path{};
  /// Kind of the source.
  message_origin origin = message_origin::automatic;
  message_position start{};  ///< where reading begins; not for pipes
  /// Options with which messages are decoded.
  formats::read_options read{};
  std::size_t prefetch = 4;  ///< messages read ahead of the pulls; 0: none
  /// Size of the messages held in memory at which reading ahead pauses, in bytes. A
  /// message of a file that is larger than this by itself is not held: its parts are read
  /// from the file when they are asked for.
  std::uint64_t prefetch_bytes = std::uint64_t{64} << 20;
  std::uint64_t max_message_bytes = std::uint64_t{1} << 32;  ///< for messages of a pipe
  bool decode = false;        ///< the elements of objects are decoded ahead as well
  bool skip_garbage = false;  ///< false: bytes that belong to no message are an error
};

/// The source that a message reader has opened.
struct message_source_info {
  message_origin origin = message_origin::file;  ///< never `automatic`
  std::vector<std::string>
      files;  ///< names of the files of a folder, from the first that is read
};

/// One message. It is immutable; any thread may read it.
struct message_delivery {
  std::shared_ptr<const formats::message_reader> message;  ///< null: the source has ended
  std::vector<byte_vector>
      elements;  ///< elements of each object, if `message_source::decode` is set
  message_position place;     ///< position of the first byte of the message
  std::uint64_t length = 0;   ///< length of the message, in bytes
  message_position next;      ///< where reading continues behind the message
  std::uint64_t skipped = 0;  ///< bytes in front of the message that belong to no message
};

/// The target that a message appender opens.
struct message_target {
  std::string path{};   ///< a file, which may be missing; a FIFO; "-" for standard output
  bool repair = false;  ///< bytes behind the last sound message are cut off
  std::size_t window = 64;  ///< largest number of appends without an answer
  /// Number of written bytes at which the appender syncs at once. Below that, it syncs
  /// when no further append waits in its mailbox.
  std::uint64_t sync_bytes = std::uint64_t{64} << 20;
};

/// The target that a message appender has opened.
struct message_target_info {
  std::uint64_t end = 0;        ///< offset of the next message, in bytes
  std::uint64_t messages = 0;   ///< number of messages in front of it
  std::uint64_t cut_bytes = 0;  ///< number of bytes that were cut off
  std::size_t window = 0;       ///< largest number of appends without an answer
};

/// An object of a message to append. The elements are shared with their owner, not
/// copied.
struct object_to_append {
  /// Metadata of the elements: their type, shape and encoding.
  formats::object_descriptor descriptor;
  /// Further metadata of the object.
  formats::cbor_map metadata;
  std::shared_ptr<const byte_vector> data;  ///< null: no bytes
  bool stored = false;                      ///< see `formats::object_to_write`
};

/// A message to append.
struct message_order {
  /// Objects of the message, in order.
  std::vector<object_to_append> objects;
  /// Options with which the message is encoded.
  formats::message_options options;
  /// The bytes of a message that is encoded already. If it is not null, `objects` and
  /// `options` are ignored.
  std::shared_ptr<const byte_vector> encoded;
};

/// A message that is durable: a crash cannot remove it. In a pipe it was only passed on.
struct appended_message {
  std::uint64_t offset = 0;   ///< position of the first byte of the message
  std::uint64_t length = 0;   ///< length of the message, in bytes
  std::uint64_t durable = 0;  ///< durable bytes of the file, with this message
};

}  // namespace weir::actors
