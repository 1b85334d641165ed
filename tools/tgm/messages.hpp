// SPDX-License-Identifier: Apache-2.0
/// @file
/// The messages of a file, and how the verbs of `weir tgm` choose among them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weir/formats/byte_source.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::tools {

/// An object of a message, in a reader of the whole message or of this object alone.
struct opened_object {
  formats::message_reader reader;
  std::size_t index = 0;   ///< in the reader
  std::size_t number = 0;  ///< in the message
};

/// A file and the places of its messages. @threads{a value; the bytes are shared}
struct message_file {
  std::string name;  ///< path, address, or "standard input"
  std::shared_ptr<const formats::byte_source> source;
  std::vector<formats::message_span> spans;

  /// "name:offset", the form in which errors and warnings give a place.
  [[nodiscard]] std::string place(std::uint64_t offset) const;
  /// Ranges in front of, between and behind the messages, in order; none is empty.
  [[nodiscard]] std::vector<formats::message_span> gaps() const;
  /// The bytes of a range: where the source has them in memory, else read into `buffer`,
  /// which must then live as long as the view.
  /// @error{what the source returns; out_of_memory}
  [[nodiscard]] result<bytes_view> bytes(formats::message_span range,
                                         byte_vector& buffer) const;
  /// Appends the bytes of a message, as they are in the file. @error{those of bytes}
  [[nodiscard]] result<void> append_message(std::size_t message, byte_vector& to) const;
  /// @error{those of message_reader::open, with the number and place of the message}
  [[nodiscard]] result<formats::message_reader> open(
      std::size_t message, const formats::read_options& options) const;
  /// Opens the object that is given by its name or by its number. Of a remote file only
  /// what this object needs is read.
  /// @error{not_found; those of open}
  [[nodiscard]] result<opened_object> open_object(
      std::size_t message, const std::string& wanted,
      const formats::read_options& options) const;
  /// The failure of a verb that needs a message where the file holds none: corrupt.
  [[nodiscard]] error without_message() const;
};

/// Opens a file, an address (http, https, s3), or standard input for "-", and finds its
/// messages, of which there may be none. Of a remote file the messages are read when they
/// are needed.
/// @error{not_found; io; those of formats::remote_file::open}
[[nodiscard]] result<message_file> read_messages(const std::string& path);

/// Which messages a verb takes, as `-w` says; without a clause it takes all of them.
class where_clause {
 public:
  /// @error{invalid_argument, no operator or no key}
  [[nodiscard]] static result<where_clause> parse(const std::string& text);
  [[nodiscard]] bool passes(const formats::message_metadata& metadata) const;

 private:
  std::string key_;
  std::vector<std::string> values_;
  bool equal_ = true;
};

/// The value at a dot path as text; nothing if it is absent. The path "version" always
/// gives 3.
[[nodiscard]] std::optional<std::string> text_at(
    const formats::message_metadata& metadata, std::string_view path);
/// The parts of a text between separators; a text without one is its only part.
[[nodiscard]] std::vector<std::string> split_text(std::string_view text, char separator);
/// A text without the spaces at its ends.
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

/// The value of the key "name" of object `i`; empty if it has none.
[[nodiscard]] std::string object_name(const formats::message_reader& reader,
                                      std::size_t i);
/// The number of an object that is given by its name or by its number.
/// @error{not_found}
[[nodiscard]] result<std::size_t> object_called(const formats::message_reader& reader,
                                                const std::string& wanted);

/// `path` with every `[key]` replaced by the value of a message, or by "unknown".
[[nodiscard]] std::string fill_template(const std::string& path,
                                        const formats::message_metadata& metadata);

}  // namespace weir::tools
