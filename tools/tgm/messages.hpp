// SPDX-License-Identifier: Apache-2.0
/// @file
/// Messages of files in memory, as the verbs of `weir tgm` pass them on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weir/formats/tensogram.hpp"

namespace weir::tools {

/// A file with its messages. @threads{a value}
struct message_file {
  std::string name;
  byte_vector content;
  std::vector<formats::message_span> spans;

  [[nodiscard]] bytes_view bytes(std::size_t message) const {
    return bytes_view(content).subspan(spans[message].offset, spans[message].length);
  }
  /// @error{those of message_reader::open, with the number of the message}
  [[nodiscard]] result<formats::message_reader> open(
      std::size_t message, const formats::read_options& options = {}) const;
};

/// @error{not_found; io; corrupt, no message in it}
[[nodiscard]] result<message_file> read_messages(const std::string& path);

/// A clause of `-w`, or none, which everything passes.
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

/// Text of the value at a dot path; `version` is 3. Nothing if absent.
[[nodiscard]] std::optional<std::string> text_at(
    const formats::message_metadata& metadata, std::string_view path);
[[nodiscard]] std::vector<std::string> split_text(std::string_view text, char at);

/// A message out of stored objects: nothing is decoded.
struct stored_message {
  std::vector<formats::object_descriptor> descriptors;
  std::vector<formats::cbor_map> metadata;
  std::vector<byte_vector> regions;
  formats::cbor_map extra;
  bool hashes = true;

  /// Appends objects of a reader. @error{what reading returns}
  [[nodiscard]] result<void> take(const formats::message_reader& reader);
  [[nodiscard]] result<void> take(const formats::message_reader& reader, std::size_t i);
  /// Written whole, with metadata, index and digests in its header.
  [[nodiscard]] result<byte_vector> encode() const;
};

/// "base.tgm" with `[key]` replaced by values of a message, "unknown" where absent.
[[nodiscard]] std::string fill_template(const std::string& path,
                                        const formats::message_metadata& metadata);

}  // namespace weir::tools
