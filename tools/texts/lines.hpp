// SPDX-License-Identifier: Apache-2.0
/// @file
/// Documents of text files: lines, their texts, and the list of lines that are no
/// documents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/formats/tokens.hpp"

namespace weir::tools {

/// Largest length of a line. @units{bytes}
inline constexpr std::size_t max_text_line = std::size_t{16} << 20;

/// One line of a file.
struct text_line {
  std::uint64_t number = 0;  ///< counts from 1
  std::uint64_t offset = 0;  ///< of its first byte in the file
  std::string bytes;         ///< without the end of the line; empty if it is too long
  bool too_long = false;     ///< it has more than `max_text_line` bytes
};

/// Reads a file or a pipe line by line. A line ends with LF or CR LF; the last one need
/// not.
/// @threads{thread-compatible}
class text_line_reader {
 public:
  /// Opens a file, or standard input if the path is "-".
  /// @error{not_found, io, the file cannot be opened}
  [[nodiscard]] static result<text_line_reader> open(const std::string& path);
  /// Returns the next line; nothing at the end of the file.
  /// @error{io, the file cannot be read}
  [[nodiscard]] result<std::optional<text_line>> next();

 private:
  struct closer {
    void operator()(std::FILE* stream) const noexcept;
  };
  text_line_reader(std::string path, std::FILE* stream)
      : path_(std::move(path)), stream_(stream) {}
  /// Reads more bytes. Returns false at the end of the file.
  result<bool> refill();

  std::string path_;
  std::unique_ptr<std::FILE, closer> stream_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;        ///< first byte of the buffer that was not taken
  std::uint64_t number_ = 0;  ///< lines so far
  std::uint64_t offset_ = 0;  ///< bytes that were taken
};

/// Returns the text of a line: the line itself, or, if `field` is not empty, the string
/// that a JSON object has under this name.
/// @error{corrupt, the line is too long, has NUL, is not UTF-8 or no such JSON}
[[nodiscard]] result<std::string> text_of_line(text_line line, const std::string& field);

/// Refuses an output that is one of the inputs, because it would replace it.
/// @error{invalid_argument, both paths name one file}
[[nodiscard]] result<void> refuse_output_over(const std::string& input,
                                              const std::string& output);

/// The lines that are no documents. They end the work unless they may be skipped.
/// @threads{thread-compatible}
class bad_lines {
 public:
  /// @param path  File for the list of skipped lines; if empty, no line may be skipped.
  explicit bad_lines(std::string path) : path_(std::move(path)) {}

  /// Notes a line, or returns the error that ends the work.
  /// @error{corrupt, no line may be skipped; the message has file, line and reason}
  [[nodiscard]] result<void> add(const std::string& file, std::uint64_t line,
                                 std::uint64_t offset, const error& reason);
  /// Writes the list: a line of JSON for each skipped line.
  /// @error{io, no_space, the file cannot be written}
  [[nodiscard]] result<void> write() const;
  /// Returns the number of skipped lines.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

 private:
  std::string path_;
  std::string list_;
  std::uint64_t count_ = 0;
};

/// One document as token ids.
struct token_document {
  std::uint64_t line = 0;          ///< number of its line
  std::vector<std::uint32_t> ids;  ///< with the special ids of the tokenizer
};

/// What documents may be.
struct document_rules {
  std::string field;             ///< string of JSON lines; empty for lines of text
  std::uint64_t max_tokens = 0;  ///< ids of the longest document
  bool truncate = false;         ///< cuts longer ones, and keeps the ids behind them
  /// Id of a text without ids; without it such a text is a bad line.
  std::optional<std::uint32_t> begin_token{};
};

/// Reads the documents of one file and turns them into token ids.
/// @threads{thread-compatible}
class document_reader {
 public:
  /// Opens a file. The tokenizer and the list must outlive the reader.
  /// @error{not_found, io, the file cannot be opened}
  [[nodiscard]] static result<document_reader> open(const std::string& path,
                                                    const formats::tokenizer& tokens,
                                                    document_rules rules, bad_lines& bad);
  /// Returns the next good document; nothing at the end of the file.
  /// @error{corrupt, a line is bad and may not be skipped}
  /// @error{io, the file cannot be read}
  [[nodiscard]] result<std::optional<token_document>> next();

 private:
  document_reader(std::string path, text_line_reader lines,
                  const formats::tokenizer& tokens, document_rules rules, bad_lines& bad)
      : path_(std::move(path)),
        lines_(std::move(lines)),
        tokens_(&tokens),
        rules_(std::move(rules)),
        bad_(&bad) {}
  [[nodiscard]] result<std::vector<std::uint32_t>> ids_of(const std::string& text) const;

  std::string path_;
  text_line_reader lines_;
  const formats::tokenizer* tokens_;
  document_rules rules_;
  bad_lines* bad_;
};

}  // namespace weir::tools
