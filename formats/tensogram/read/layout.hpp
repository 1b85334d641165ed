// SPDX-License-Identifier: Apache-2.0
/// @file
/// The places of the frames of a message. One walk serves the reader, which stops at the
/// first error, and validation, which lists all of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensogram/wire/wire.hpp"
#include "weir/formats/byte_source.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::formats {

/// Reads small pieces of a source. They are views if the source is in memory, and copies
/// that are valid until the next call otherwise.
/// @threads{one thread at a time}
class piece_reader {
 public:
  explicit piece_reader(const byte_source& source)
      : source_(source), view_(source.view()) {}
  /// Returns `bytes` bytes at `offset`. @error{torn, the range exceeds the source}
  [[nodiscard]] result<bytes_view> read(std::uint64_t offset, std::uint64_t bytes);
  /// Returns the source.
  [[nodiscard]] const byte_source& source() const noexcept { return source_; }
  /// Returns whether `read` returns views that stay valid.
  [[nodiscard]] bool in_memory() const noexcept { return view_.has_value(); }

 private:
  const byte_source& source_;       ///< outlives the reader
  std::optional<bytes_view> view_;  ///< of the whole source, if it is in memory
  byte_vector buffer_;              ///< bytes of the last call, if the source has no view
};

/// An issue and the kind of error that it is for a reader.
struct found_issue {
  validation_issue issue;     ///< as validation reports it
  errc code = errc::corrupt;  ///< as a reader reports it
};

/// Issues of one message. fail() and warn() imply the level and the severity, so that the
/// many calls stay short.
class issue_list {
 public:
  /// Adds an error of a code of docs/formats/tensogram.md, "Codes of the validation".
  void fail(std::string code, errc kind, std::uint64_t offset, std::string text);
  /// Adds a warning.
  void warn(std::string code, std::uint64_t offset, std::string text);
  void add(found_issue issue) { found_.push_back(std::move(issue)); }
  /// Returns all issues in the order in which they were found.
  [[nodiscard]] const std::vector<found_issue>& all() const noexcept { return found_; }
  /// Returns the first issue that is an error, or nullptr.
  [[nodiscard]] const found_issue* first_error() const noexcept;

 private:
  std::vector<found_issue> found_;
};

/// Places of the frames of a message.
struct message_layout {
  message_span span;  ///< in the source; the length is that of the message once known
  preamble head;      ///< preamble
  postamble tail;     ///< postamble, once the walk has reached it
  std::vector<frame_info> frames;  ///< in the order of the message
  std::vector<std::uint64_t>
      descriptor_offsets;  ///< one per data object: from its frame's start
  bool complete = false;   ///< the walk reached the postamble
};

/// Walks the message at `within.offset`, which may use up to `within.length` bytes.
/// Structural faults go to `issues`; the layout holds what was found before them.
/// @error{what the source returns}
[[nodiscard]] result<message_layout> read_layout(piece_reader& pieces,
                                                 message_span within, issue_list& issues);

/// Walks the frames before the data objects of a message whose preamble is in `layout`,
/// up to the offset `end` at most. Returns the offset of the first frame that does not
/// belong to the header, or nothing after a fault, which goes to `issues`. @error{those
/// of the source}
[[nodiscard]] result<std::optional<std::uint64_t>> walk_header(piece_reader& pieces,
                                                               message_layout& layout,
                                                               std::uint64_t end,
                                                               issue_list& issues);
/// Walks frames that should fill a message exactly from `begin` to `end`, and appends
/// them to `layout`. Sets `layout.complete` if they do; otherwise `issues` has the
/// reason. @error{those of the source}
[[nodiscard]] result<void> walk_frames(piece_reader& pieces, message_layout& layout,
                                       std::uint64_t begin, std::uint64_t end,
                                       issue_list& issues);

/// Length and number of frames of a stream, as a walk along its frames finds them.
struct walked_stream {
  std::uint64_t length = 0;  ///< in bytes; 0 if the frames do not lead to a postamble
  std::uint64_t frames = 0;  ///< frames that were walked, also if there is no length
};
/// Walks the frames of the stream that starts at `within.offset`. @error{those of the
/// source}
[[nodiscard]] result<walked_stream> walk_stream(piece_reader& pieces,
                                                message_span within);

/// Body of a frame, between its header and its tail. Offsets count from the start of the
/// message.
struct frame_body {
  std::uint64_t offset = 0;  ///< from the start of the message
  std::uint64_t length = 0;  ///< in bytes
};
/// Returns the body of a frame, without its tail. For a data object it includes the
/// payload, the masks and the descriptor.
[[nodiscard]] frame_body body_of(const frame_info& frame) noexcept;
/// Returns true if the descriptor of a data object follows the payload. Otherwise the
/// payload follows the descriptor, whose length is known only from its CBOR.
[[nodiscard]] inline bool descriptor_last(const frame_info& frame) noexcept {
  return (frame.flags & frame_flag::descriptor_after_payload) != 0;
}

/// Returns "name:offset" for errors.
[[nodiscard]] std::string place(const byte_source& source, std::uint64_t offset);
/// Returns the error of a reader for an issue of the message that starts at `message`.
[[nodiscard]] error as_error(const found_issue& found, const byte_source& source,
                             std::uint64_t message);

}  // namespace weir::formats
