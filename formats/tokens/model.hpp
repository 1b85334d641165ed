// SPDX-License-Identifier: Apache-2.0
/// @file
/// Models: they turn one piece of text into ids.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokens/index.hpp"

namespace weir::formats::tokens {

/// Ids of short pieces that were seen before: one slot for each hash, 1 MiB in all.
class piece_cache {
 public:
  static constexpr std::size_t max_bytes = 30;  ///< longest piece that is kept
  static constexpr std::size_t max_ids = 8;     ///< largest number of its ids

  /// Appends the ids of a piece; returns false if they are not known.
  bool find(std::string_view piece, std::uint64_t hash,
            std::vector<std::uint32_t>& ids) const {
    // A slot holds the last piece that was added to it, which may be another one.
    const entry& e = entries_[hash % slots];
    if (e.bytes != piece.size() || piece.empty() ||
        std::string_view(e.piece.data(), e.bytes) != piece) {
      return false;
    }
    ids.insert(ids.end(), e.ids.begin(), e.ids.begin() + e.count);
    return true;
  }
  /// Remembers the ids of a piece if both are short.
  void add(std::string_view piece, std::uint64_t hash, const std::uint32_t* ids,
           std::size_t count) {
    // Long pieces are rare, so they do not replace short ones.
    if (piece.size() > max_bytes || count > max_ids) {
      return;
    }
    entry& e = entries_[hash % slots];
    e.bytes = static_cast<std::uint8_t>(piece.size());
    e.count = static_cast<std::uint8_t>(count);
    piece.copy(e.piece.data(), piece.size());
    for (std::size_t i = 0; i < count; ++i) {
      e.ids[i] = ids[i];
    }
  }

  // An entry has 64 bytes, one cache line, so 16 Ki slots are 1 MiB. A new piece replaces
  // the old one of its slot. `bytes` is 0 in a slot that was never used.
 private:
  static constexpr std::size_t slots = 16 * 1024;
  struct entry {
    std::uint8_t bytes = 0;  ///< length of the piece; 0 in a slot that was never used
    std::uint8_t count = 0;  ///< number of ids
    std::array<char, max_bytes> piece{};       ///< bytes of the piece
    std::array<std::uint32_t, max_ids> ids{};  ///< its ids
  };
  std::vector<entry> entries_ =
      std::vector<entry>(slots);  ///< made at once, as its size never changes
};

/// Working memory of a model for one thread.
struct model_memory {
  // A pair of neighbours that could merge, in the heap of long pieces.
  struct candidate {
    std::uint32_t rank;   ///< rank of the merge
    std::uint32_t place;  ///< place of the left symbol
    std::uint32_t left;   ///< id at the place when the candidate was found
    std::uint32_t right;  ///< id behind it
  };
  piece_cache cache;                    ///< ids of pieces that were seen before
  std::vector<std::uint32_t> ids;       ///< symbols of the piece that is encoded
  std::vector<std::uint32_t> previous;  ///< left neighbours in the list of symbols
  std::vector<std::uint32_t> next;      ///< right neighbours in the list of symbols
  std::vector<candidate> heap;          ///< candidates by rank, then place
};

/// A model: vocabulary and rules. @threads{immutable}
struct model {
  enum class kind : std::uint8_t { bpe, wordpiece };
  kind type = kind::bpe;  ///< which of the two models it is

  std::vector<std::string> tokens;  ///< by id; as the file spells them
  std::vector<bool> present;        ///< whether an id has a token
  std::size_t token_count = 0;      ///< ids that have a token
  text_index by_spelling;           ///< ids by the spelling of the file

  // BPE.
  bool byte_level =
      false;  ///< pieces are bytes, the vocabulary spells each as a character
  bool ignore_merges = false;     ///< a piece that is a token becomes that token
  bool byte_fallback = false;     ///< unknown characters become tokens <0xNN>
  bool fuse_unknown = false;      ///< neighbouring unknown characters become one token
  std::uint32_t unknown = no_id;  ///< id for characters without a token
  std::vector<std::string> byte_texts;            ///< bytes of tokens, if `byte_level`
  text_index by_bytes;                            ///< ids by bytes, if `byte_level`
  std::array<std::uint32_t, 256> byte_ids{};      ///< ids of single bytes
  std::array<std::uint32_t, 256> fallback_ids{};  ///< ids of <0xNN>
  merge_index merges;                             ///< by the ids of both neighbours

  // WordPiece.
  text_index inner;                  ///< ids by what is behind the prefix of continuation
  std::string prefix = "##";         ///< prefix of continuation
  std::size_t max_characters = 100;  ///< longer pieces become unknown; in characters

  /// Appends the ids of a piece that is not empty.
  void encode(std::string_view piece, std::vector<std::uint32_t>& ids,
              model_memory& memory) const;

 private:
  // Steps of `encode`; see model.cpp.
  void encode_bpe(std::string_view piece, std::vector<std::uint32_t>& ids,
                  model_memory& memory) const;
  void encode_wordpiece(std::string_view piece, std::vector<std::uint32_t>& ids) const;
  void begin_symbols(std::string_view piece, std::vector<std::uint32_t>& symbols) const;
  void merge_few(std::vector<std::uint32_t>& symbols, model_memory& memory) const;
  void merge_many(std::vector<std::uint32_t>& symbols, model_memory& memory) const;
};

/// Returns the character that stands for a byte in byte-level vocabularies.
[[nodiscard]] char32_t character_of_byte(unsigned byte) noexcept;
/// Returns the bytes that a spelling stands for; absent if a character stands for none.
[[nodiscard]] std::optional<std::string> bytes_of_spelling(std::string_view spelling);

}  // namespace weir::formats::tokens
