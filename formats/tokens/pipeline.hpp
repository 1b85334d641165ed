// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of a tokenizer, and the run of a text through them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tokens/added.hpp"
#include "tokens/model.hpp"
#include "tokens/normalize.hpp"
#include "tokens/split.hpp"
#include "weir/base/error.hpp"

namespace weir::formats::tokens {

/// How tokens become text.
struct token_decoder {
  enum class kind : std::uint8_t {
    joined,      ///< tokens with a space between them
    byte_level,  ///< characters that stand for bytes
    wordpiece,   ///< a space before each token without the prefix of continuation
  };
  kind type = kind::joined;
  std::string prefix = "##";
  bool cleanup = true;  ///< for `wordpiece`: no space before punctuation
};

/// Working memory of one thread.
class scratch {
 public:
  // Memory of the parts. It holds no results between two calls.
  model_memory model;
  pattern_memory patterns;
  std::string normal;             ///< normal form of the part that runs
  std::string spare;              ///< second text of the normalizer
  std::string prefixed;           ///< a text with the space that a level put before it
  std::vector<text_part> parts;   ///< added tokens of the text, and the text between them
  std::vector<text_part> hidden;  ///< rejected tokens of the text
  std::vector<text_part> inner_parts;   ///< the same for the normalized text
  std::vector<text_part> inner_hidden;  ///< rejected tokens of the normalized text
  /// Places in the text and in its normal form between which both parts are normalized
  /// apart.
  std::vector<std::pair<std::size_t, std::size_t>> joints;
};

/// Working memory that is not in use. @threads{safe to call concurrently}
class scratch_pool {
 public:
  // Returns memory that no other thread uses; makes it if all is in use.
  [[nodiscard]] std::unique_ptr<scratch> take();
  // Takes memory back that `take` has returned.
  void give(std::unique_ptr<scratch> memory);

 private:
  static constexpr std::size_t max_kept = 16;  ///< memory beyond this number is freed
  std::mutex mutex_;
  std::vector<std::unique_ptr<scratch>> kept_;
};

/// The parts of a tokenizer.
struct tokenizer_parts {
  std::vector<added_token> added;
  added_set raw;         ///< added tokens that are looked for in the text
  added_set normalized;  ///< added tokens that are looked for in the normalized text
  tokens::normalizer normalizer;
  std::vector<split_level> levels;
  tokens::model model;
  token_decoder decoder;
  std::vector<std::uint32_t> prefix;
  std::vector<std::uint32_t> suffix;
  std::vector<std::string> added_by_id;  ///< contents by id; empty for others
  std::vector<bool> special;             ///< by id
  std::uint32_t size = 0;                ///< largest id plus one
  std::uint64_t digest = 0;
  mutable scratch_pool pool;

  /// Returns the content of a token by its id; `data()` is null if there is none.
  [[nodiscard]] std::string_view spelling(std::uint32_t id) const noexcept;
  /// Returns why a stream cannot cut texts of this tokenizer; empty if it can.
  [[nodiscard]] std::string_view obstacle() const noexcept;
};

/// How far a run has come.
struct progress {
  std::size_t bytes = 0;  ///< bytes of the text before the last safe cut
  std::size_t ids = 0;    ///< size of the vector of ids at that cut
  bool inside = false;    ///< the cut lies within a run of plain text
};

/// Appends the ids of a text.
/// @param inside  The text begins within a run of plain text.
/// @param open    The text goes on behind its end. Then the vector may have ids behind
///                the cut that is returned, which the caller removes.
/// @error{out_of_range, a limit of matching is exceeded}
[[nodiscard]] result<progress> run_text(const tokenizer_parts& with,
                                        std::string_view text, bool inside, bool open,
                                        std::vector<std::uint32_t>& ids, scratch& memory);

/// Returns the text of ids.
/// @error{out_of_range, the vocabulary has no such id}
[[nodiscard]] result<std::string> decode_ids(const tokenizer_parts& with,
                                             std::span<const std::uint32_t> ids,
                                             bool skip_special);

/// Replaces each maximal part of an ill-formed sequence by U+FFFD and appends the text.
/// Stops before a sequence at the end that more bytes could complete, if `open`.
/// @param replaced  Receives the places in `out` behind each replacement, and the number
/// of bytes that it replaced; may be null.
/// @returns The number of bytes that were read.
std::size_t append_well_formed(
    std::string& out, std::string_view bytes, bool open,
    std::vector<std::pair<std::size_t, std::size_t>>* replaced);

}  // namespace weir::formats::tokens
