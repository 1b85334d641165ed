// SPDX-License-Identifier: Apache-2.0
/// @file
/// Assembles the parts of a tokenizer from checked values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokens/pipeline.hpp"

namespace weir::formats::tokens {

/// Pattern with which GPT-2 splits a text.
inline constexpr const char* gpt2_pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/// Pattern of Llama 3.
inline constexpr const char* llama3_pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
/// Pattern of Qwen 2.
inline constexpr const char* qwen2_pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

// Values of tokenizer.ggml.token_type.
inline constexpr std::int32_t type_normal = 1;
inline constexpr std::int32_t type_control = 3;
inline constexpr std::int32_t type_user_defined = 4;
inline constexpr std::int32_t type_unused = 5;
/// Mark of GGUF before a token of a BERT vocabulary that begins a word.
inline constexpr std::string_view word_mark = "\xE2\x96\x81";

/// Returns whether a name of `tokenizer.ggml.pre` is one of Llama 3.
[[nodiscard]] bool is_llama3(std::string_view pre) noexcept;

/// Sets the vocabulary of a model.
/// @param entries  Contents and ids.
/// @error{out_of_range, an id or a token is too large} @error{corrupt, an id or a token
/// occurs twice, or a token is not UTF-8}
[[nodiscard]] result<void> set_vocabulary(
    model& to, std::vector<std::pair<std::string, std::uint64_t>> entries);

/// Sets the merges of a BPE model whose vocabulary is set.
/// @error{corrupt, a token of a merge is not in the vocabulary}
[[nodiscard]] result<void> set_merges(
    model& to, const std::vector<std::pair<std::string, std::string>>& pairs);

/// Prepares the tables of a model whose vocabulary is set: of bytes, if `byte_level`, and
/// of continuations for WordPiece.
void prepare_model(model& to);

/// Sets the added tokens. The model and the normalizer must be set.
/// @error{unsupported, a token has another id than the reference would give it}
/// @error{corrupt, two tokens have the same content, or a token is empty when normalized}
[[nodiscard]] result<void> set_added(tokenizer_parts& to, std::vector<added_token> added);

/// Returns a level that searches for a pattern. Errors are those of `pattern::compile`.
[[nodiscard]] result<split_level> search_level(
    const std::string& text, split_behavior behavior = split_behavior::isolated);
/// Returns a level that finds characters with a property.
[[nodiscard]] split_level property_level(bool (*property)(char32_t) noexcept,
                                         split_behavior behavior);

}  // namespace weir::formats::tokens
