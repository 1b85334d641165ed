// SPDX-License-Identifier: Apache-2.0
/// @file
/// The messages of a file, and the selection of messages and objects in the verbs of
/// `weir tgm`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weir/formats/byte_source.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::tools {

/// An object, and the reader that can decode it. The reader has the whole message or, for
/// remote files, this object alone.
struct opened_object {
  formats::message_reader reader;  ///< has the whole message, or the object alone
  std::size_t index = 0;           ///< number of the object in the reader
  std::size_t number = 0;          ///< number of the object in the message
};

/// A file and the ranges of its messages.
/// @threads{a value; copies share the bytes}
struct message_file {
  std::string name;  ///< path, address, or "standard input"
  std::shared_ptr<const formats::byte_source> source;  ///< gives the bytes
  std::vector<formats::message_span>
      spans;  ///< ranges of the messages, in the order of the file

  /// Returns a place as "name:offset", for errors and warnings.
  [[nodiscard]] std::string place(std::uint64_t offset) const;
  /// Returns the ranges before, between and behind the messages that are not empty.
  [[nodiscard]] std::vector<formats::message_span> gaps() const;
  /// Returns the bytes of a range.
  /// @param buffer  Receives the bytes if the source does not have them in memory; it
  /// must live as long as the view.
  /// @error{out_of_memory, the buffer cannot be made so large}
  /// Errors of the source are passed on.
  [[nodiscard]] result<bytes_view> bytes(formats::message_span range,
                                         byte_vector& buffer) const;
  /// Appends the bytes of a message as they are in the file. Errors are those of `bytes`.
  [[nodiscard]] result<void> append_message(std::size_t message, byte_vector& to) const;
  /// Opens a message.
  /// @error{corrupt, torn, unsupported_version, as of `message_reader::open`; the message
  /// of the error gives number and place}
  [[nodiscard]] result<formats::message_reader> open(
      std::size_t message, const formats::read_options& options) const;
  /// Opens an object of a message. Of a remote file, only the parts that this object
  /// needs are read.
  /// @param wanted  Name or number of the object.
  /// @error{not_found, the message has no such object} Other errors are those of `open`.
  [[nodiscard]] result<opened_object> open_object(
      std::size_t message, const std::string& wanted,
      const formats::read_options& options) const;
  /// Returns the error of a verb that needs a message, for a file without any; its code
  /// is `corrupt`.
  [[nodiscard]] error without_message() const;
};

/// Opens a file and finds its messages, of which there may be none. Messages of a remote
/// file are read when they are needed.
/// @param path  A path, an address (http, https, s3), or "-" for standard input.
/// @error{not_found, the file does not exist} @error{io, the file cannot be read}
/// Errors of `formats::remote_file::open` are passed on.
[[nodiscard]] result<message_file> read_messages(const std::string& path);

/// A condition on the metadata of messages, the clause of `-w`.
/// @threads{a value}
class where_clause {
 public:
  /// Parses KEY=V1/V2 or KEY!=V1/V2. An empty text gives a clause that selects all
  /// messages.
  /// @error{invalid_argument, the operator or the key is missing}
  [[nodiscard]] static result<where_clause> parse(const std::string& text);
  /// Returns whether the clause selects a message.
  [[nodiscard]] bool passes(const formats::message_metadata& metadata) const;

 private:
  std::string key_;
  std::vector<std::string> values_;
  bool equal_ = true;
};

/// Returns the value at a dotted path as text, or nothing if there is none. The value of
/// "version" is always 3.
[[nodiscard]] std::optional<std::string> text_at(
    const formats::message_metadata& metadata, std::string_view path);
/// Splits a text at each separator. A text without separators is its only part.
[[nodiscard]] std::vector<std::string> split_text(std::string_view text, char separator);
/// Returns a text without the spaces at its ends.
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

/// Returns the value of the key "name" of object `i`; empty if it has none.
[[nodiscard]] std::string object_name(const formats::message_reader& reader,
                                      std::size_t i);
/// Finds an object by its name or its number.
/// @returns The number of the object.
/// @error{not_found, the message has no such object; the error suggests the nearest name}
[[nodiscard]] result<std::size_t> object_called(const formats::message_reader& reader,
                                                const std::string& wanted);

/// Returns a path with every "[key]" replaced by the value of the key in a message, or by
/// "unknown" if the message has no such key.
[[nodiscard]] std::string fill_template(const std::string& path,
                                        const formats::message_metadata& metadata);

}  // namespace weir::tools
