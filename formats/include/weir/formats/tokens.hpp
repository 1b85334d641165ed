// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tokenizers: text to token ids and back, whole or as a stream.
///
/// A tokenizer is read from a `tokenizer.json` of Hugging Face or from the header of a
/// GGUF file, and gives the ids that Hugging Face `tokenizers` gives. Models are
/// byte-pair encoding and WordPiece. A component that is not known is refused by its
/// name, because ids that differ a little are worse than none.
/// @source{docs/formats/tokens.md}
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/base/file.hpp"

namespace weir::formats {

namespace tokens {
struct tokenizer_parts;
class scratch;
}  // namespace tokens

/// Largest number of entries of a vocabulary. Ids are smaller than this number.
inline constexpr std::uint32_t max_vocabulary = 1U << 24;
/// Largest number of bytes of one token.
inline constexpr std::size_t max_token_bytes = 64 * 1024;

/// A token that is looked for in the text before the model sees it.
struct added_token {
  std::string content;       ///< text that it matches
  std::uint32_t id = 0;      ///< its id
  bool single_word = false;  ///< matches only between characters that form no word
  bool lstrip = false;       ///< takes the white space before it along
  bool rstrip = false;       ///< takes the white space behind it along
  bool normalized = false;   ///< is looked for in the normalized text
  bool special = false;      ///< `decode` can leave it out
};

/// Values of the GGUF keys that describe a tokenizer.
struct gguf_tokenizer {
  std::string model;                       ///< tokenizer.ggml.model: "gpt2" or "bert"
  std::string pre;                         ///< tokenizer.ggml.pre, such as "smollm"
  std::vector<std::string> tokens;         ///< tokenizer.ggml.tokens, by id
  std::vector<std::string> merges;         ///< tokenizer.ggml.merges, each "LEFT RIGHT"
  std::vector<std::int32_t> token_type;    ///< tokenizer.ggml.token_type; may be empty
  std::optional<std::uint32_t> bos{};      ///< put before a text; absent if none is
  std::optional<std::uint32_t> eos{};      ///< put behind a text; absent if none is
  std::optional<std::uint32_t> unknown{};  ///< tokenizer.ggml.unknown_token_id
};

/// How a text is encoded.
struct encode_options {
  /// Adds the ids that the post-processor puts before and behind a text.
  bool add_special_tokens = true;
};

/// How ids are decoded.
struct decode_options {
  bool skip_special_tokens = true;  ///< leaves special tokens out
};

/// A tokenizer. Copies share the vocabulary.
/// @threads{immutable; safe to use concurrently}
class tokenizer {
 public:
  /// Reads a `tokenizer.json`. The members "truncation" and "padding" are ignored,
  /// because a text is always encoded whole.
  /// @param name  Name of the source for error messages.
  /// @error{corrupt, not JSON, or a member is missing or has a wrong type or value}
  /// @error{unsupported, Weir does not know a component or one of its values}
  /// @error{out_of_range, the vocabulary or a token is too large}
  [[nodiscard]] static result<tokenizer> from_json(
      bytes_view json, const std::string& name = "tokenizer.json");

  /// Makes a tokenizer from the values of GGUF keys.
  /// @error{corrupt, values are missing or do not fit together}
  /// @error{unsupported, the model or the pre-tokenizer is not known}
  /// @error{out_of_range, the vocabulary or a token is too large}
  [[nodiscard]] static result<tokenizer> from_gguf(const gguf_tokenizer& keys);

  /// Reads a file: GGUF if it begins with "GGUF", else `tokenizer.json`. Of a GGUF file
  /// the header alone is read, at most 1 GiB of it.
  /// @error{not_found, io, torn, the file cannot be read}
  /// @error{corrupt, the header or the JSON contradicts itself or the size of the file}
  /// @error{unsupported_version, the version of GGUF is neither 2 nor 3}
  /// @error{unsupported, as of `from_json` and `from_gguf`}
  /// @error{out_of_range, the vocabulary, a token or the header is too large}
  [[nodiscard]] static result<tokenizer> from_file(file_system& fs,
                                                   const std::string& path);
  /// Reads the bytes of a whole file; see `from_file`. Also returns the errors of
  /// `from_file`, except those of the file system.
  /// @param name  Name of the source for error messages.
  [[nodiscard]] static result<tokenizer> from_bytes(bytes_view bytes,
                                                    const std::string& name);

  /// Appends the ids of a text.
  /// @param text  UTF-8.
  /// @error{corrupt, the text is not UTF-8; the message has the byte offset}
  /// @error{out_of_range, a pattern of the pre-tokenizer exceeds its match limit}
  [[nodiscard]] result<void> encode(std::string_view text,
                                    std::vector<std::uint32_t>& ids,
                                    const encode_options& options = {}) const;

  /// Returns the text of ids. Bytes of a byte-level model that are not UTF-8 become
  /// U+FFFD, one for each maximal part of an ill-formed sequence.
  /// @error{out_of_range, the vocabulary has no such id}
  [[nodiscard]] result<std::string> decode(std::span<const std::uint32_t> ids,
                                           const decode_options& options = {}) const;

  /// Returns the largest id plus one.
  [[nodiscard]] std::uint32_t vocabulary_size() const noexcept;
  /// Returns the content of a token as the file spells it; absent if no token has the id.
  /// The view lives as long as this tokenizer or a copy of it.
  [[nodiscard]] std::optional<std::string_view> token(std::uint32_t id) const noexcept;
  /// Returns the id of a token by its content as the file spells it.
  [[nodiscard]] std::optional<std::uint32_t> id(std::string_view content) const noexcept;
  /// Returns the added tokens in the order of the file. The span lives as long as this
  /// tokenizer or a copy of it.
  [[nodiscard]] std::span<const added_token> added_tokens() const noexcept;
  /// Returns the ids that the post-processor puts before a text.
  [[nodiscard]] std::span<const std::uint32_t> prefix() const noexcept;
  /// Returns the ids that the post-processor puts behind a text.
  [[nodiscard]] std::span<const std::uint32_t> suffix() const noexcept;
  /// Returns XXH3-64 of the description that the tokenizer was read from.
  [[nodiscard]] std::uint64_t digest() const noexcept;

 private:
  friend class token_stream;
  explicit tokenizer(std::shared_ptr<const tokens::tokenizer_parts> parts)
      : parts_(std::move(parts)) {}
  std::shared_ptr<const tokens::tokenizer_parts> parts_;
};

/// Treatment of bytes that are not UTF-8.
enum class invalid_utf8 : std::uint8_t {
  refuse,   ///< an error with the byte offset
  replace,  ///< U+FFFD for each maximal part of an ill-formed sequence, as Python reads
            ///< it
};

/// How a stream encodes.
struct token_stream_options {
  bool add_special_tokens = true;               ///< as in `encode_options`
  invalid_utf8 invalid = invalid_utf8::refuse;  ///< bytes that are not UTF-8
  /// Bytes that wait before their ids are looked for, at least 1. A resumed stream reads
  /// at most about so many bytes again. Small windows give ids sooner and take more time;
  /// the ids do not depend on it. @units{bytes}
  std::size_t window = std::size_t{64} * 1024;
};

/// Place in a stream of ids, from which the stream can be continued.
/// @threads{a value}
struct token_cursor {
  std::uint64_t offset = 0;      ///< bytes before the last safe cut
  std::uint64_t ids = 0;         ///< ids that were taken since that cut
  std::uint64_t taken = 0;       ///< all ids that were taken before the cursor
  std::uint64_t tokenizer = 0;   ///< `tokenizer::digest`
  std::uint8_t inside = 0;       ///< 1 if the cut lies within a run of plain text
  std::uint8_t begun = 0;        ///< 1 if the ids before the text lie before the cut
  std::uint8_t add_special = 1;  ///< `encode_options::add_special_tokens`
  std::uint8_t invalid = 0;      ///< `invalid_utf8`
  friend bool operator==(const token_cursor&, const token_cursor&) = default;
};
static_assert(sizeof(token_cursor) <= 64);

/// Encodes a text that arrives in pieces. The ids do not depend on where the pieces end:
/// they are the ids of the whole text.
///
/// The stream keeps the bytes behind the last safe cut. A cut is safe if the text before
/// it and the text behind it have the same ids apart as together, whatever follows; the
/// conditions are in `docs/formats/tokens.md`. A text without a safe cut within
/// `max_uncut_bytes` is refused.
/// @threads{thread-compatible}
class token_stream {
 public:
  /// Largest number of bytes without a safe cut.
  static constexpr std::size_t max_uncut_bytes = 64 * 1024 * 1024;

  /// Begins at the start of a text.
  /// @error{unsupported, the tokenizer has a component that looks back over every cut}
  /// @error{invalid_argument, the window is not from 1 to `max_uncut_bytes`}
  [[nodiscard]] static result<token_stream> open(
      tokenizer with, const token_stream_options& options = {});
  /// Continues at a cursor. The caller pushes the text from `cursor.offset` on; the first
  /// id that the stream gives is the one after the cursor.
  /// @param window  As in `token_stream_options`. @units{bytes}
  /// @error{config_mismatch, the cursor belongs to another tokenizer}
  /// @error{corrupt, the cursor has values that no stream gives}
  /// Other errors are those of `open`.
  [[nodiscard]] static result<token_stream> resume(
      tokenizer with, const token_cursor& cursor,
      std::size_t window = token_stream_options().window);

  /// Takes over a stream, which may then only be assigned to or destroyed.
  token_stream(token_stream&&) noexcept;
  /// Takes over a stream, which may then only be assigned to or destroyed.
  token_stream& operator=(token_stream&&) noexcept;
  ~token_stream();

  /// Adds bytes of the text. @error{corrupt, the bytes are not UTF-8 and are refused}
  /// @error{out_of_range, there is no safe cut within `max_uncut_bytes`}
  [[nodiscard]] result<void> push(bytes_view bytes);
  /// Declares that the text ends here. Errors are those of `push`.
  /// @error{history_mismatch, a resumed text has fewer ids than its cursor says}
  [[nodiscard]] result<void> finish();

  /// Returns the ids that are known and not yet taken. The span is valid until the next
  /// call that changes the stream.
  [[nodiscard]] std::span<const std::uint32_t> ready() const noexcept;
  /// Takes the first `count` of the ids that are ready.
  void take(std::size_t count);
  /// Returns the place behind the last id that was taken.
  [[nodiscard]] token_cursor cursor() const noexcept;

 private:
  struct state;
  explicit token_stream(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace weir::formats
