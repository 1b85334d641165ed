// SPDX-License-Identifier: Apache-2.0
/// @file
/// Byte-pair encoding by a scan of short pieces and a heap for long ones; WordPiece by
/// the longest match.
///
/// Both models remember the ids of short pieces per thread (`piece_cache`): most pieces
/// of a text are words that were seen before. BPE begins with one symbol for each
/// character or byte and repeatedly replaces the pair of neighbours whose merge has the
/// smallest rank; of equal ranks, the leftmost pair. `merge_few` and `merge_many` give
/// the same ids.
#include "tokens/model.hpp"

#include <algorithm>

#include "tokens/unicode.hpp"
#include "weir/base/utf8.hpp"

namespace weir::formats::tokens {

namespace {

// Up to this number of symbols, looking through all of them is faster than a heap.
constexpr std::size_t few_symbols = 64;

/// Bytes that stand for themselves in a byte-level vocabulary.
/// These are the printable characters of Latin-1. The other 68 bytes are spelled as the
/// characters from U+0100 on, in the order of the bytes (GPT-2, bytes_to_unicode).
bool is_own_character(unsigned byte) noexcept {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

}  // namespace

char32_t character_of_byte(unsigned byte) noexcept {
  if (is_own_character(byte)) {
    return byte;
  }
  char32_t next = 0x100;
  // Counts the bytes before this one that do not stand for themselves.
  for (unsigned b = 0; b < byte; ++b) {
    next += is_own_character(b) ? 0 : 1;
  }
  return next;
}

/// U+0143 is the last character that stands for a byte.
std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  // The reverse of `character_of_byte`, made once.
  static const auto table = [] {
    std::array<std::int16_t, 0x144> out{};
    out.fill(-1);
    for (unsigned b = 0; b < 256; ++b) {
      out[character_of_byte(b)] = static_cast<std::int16_t>(b);
    }
    return out;
  }();
  std::string out;
  for (std::size_t i = 0; i < spelling.size();) {
    // The spelling is UTF-8, as it has been checked when the vocabulary was read.
    const character c = first_character(spelling.data() + i);
    if (c.code >= table.size() || table[c.code] < 0) {
      return std::nullopt;
    }
    out.push_back(static_cast<char>(table[c.code]));
    i += c.bytes;
  }
  return out;
}

/// Ids that are found are appended, also to the cache if the piece is short.
void model::encode(std::string_view piece, std::vector<std::uint32_t>& ids,
                   model_memory& memory) const {
  const bool is_short = piece.size() <= piece_cache::max_bytes;
  // Long pieces are rare and are not cached, so their hash is not needed.
  const std::uint64_t hash = is_short ? hash_of(piece) : 0;
  if (is_short && memory.cache.find(piece, hash, ids)) {
    return;
  }
  // Only the ids of this piece go into the cache.
  const std::size_t before = ids.size();
  if (type == kind::wordpiece) {
    encode_wordpiece(piece, ids);
  } else {
    encode_bpe(piece, ids, memory);
  }
  if (is_short) {
    memory.cache.add(piece, hash, ids.data() + before, ids.size() - before);
  }
}

/// From each place the longest token that matches is taken; behind the first one, only
/// tokens with the prefix of continuation. If a place has no token, or the piece is too
/// long, the whole piece becomes the unknown token.
void model::encode_wordpiece(std::string_view piece,
                             std::vector<std::uint32_t>& ids) const {
  // Bytes that continue a character are not counted.
  const auto characters = static_cast<std::size_t>(std::count_if(
      piece.begin(), piece.end(), [](char c) { return !continues_utf8(c); }));
  const std::size_t before = ids.size();
  // The position `npos` marks a piece that becomes the unknown token.
  std::size_t start = characters > max_characters ? std::string_view::npos : 0;
  while (start < piece.size()) {
    const text_index& known = start == 0 ? by_spelling : inner;
    // No token is longer than the longest one.
    std::size_t end = std::min(piece.size(), start + known.longest());
    std::uint32_t found = no_id;
    // The search begins at the length of the longest token and goes back by characters.
    for (; end > start; --end) {
      if (end == piece.size() || !continues_utf8(piece[end])) {
        found = known.find(piece.substr(start, end - start));
        if (found != no_id) {
          break;
        }
      }
    }
    if (found == no_id) {
      start = std::string_view::npos;
      break;
    }
    ids.push_back(found);
    start = end;
  }
  // Ids that were found before the failure are taken back.
  if (start == std::string_view::npos) {
    ids.resize(before);
    ids.push_back(unknown);
  }
}

/// Makes the first symbols of a piece. A character without a token becomes tokens of its
/// bytes (`byte_fallback`, if all of them exist), else the unknown token, else nothing.
void model::begin_symbols(std::string_view piece,
                          std::vector<std::uint32_t>& symbols) const {
  symbols.clear();
  bool unknown_before = false;  // an unknown token waits to be fused with the next one
  const auto add_unknown = [&](std::size_t /*bytes*/) {
    if (unknown == no_id) {
      // Without an unknown token, characters without a token are lost, as in the
      // reference.
      return;
    }
    // Several unknown characters may become one token.
    if (!(unknown_before && fuse_unknown)) {
      symbols.push_back(unknown);
    }
    unknown_before = true;
  };
  for (std::size_t i = 0; i < piece.size();) {
    // A symbol begins as a byte or as a character.
    const std::size_t bytes = byte_level ? 1 : first_character(piece.data() + i).bytes;
    const std::string_view text = piece.substr(i, bytes);
    const std::uint32_t id = byte_level ? byte_ids[static_cast<unsigned char>(piece[i])]
                                        : by_spelling.find(text);
    i += bytes;
    if (id != no_id) {
      symbols.push_back(id);
      unknown_before = false;
      continue;
    }
    // A byte-level vocabulary spells a byte as a character of one or two bytes.
    std::string spelled;
    if (byte_level) {
      append_character(spelled, character_of_byte(static_cast<unsigned char>(text[0])));
    } else {
      spelled = text;
    }
    const bool falls_back =
        byte_fallback && std::all_of(spelled.begin(), spelled.end(), [&](char c) {
          return fallback_ids[static_cast<unsigned char>(c)] != no_id;
        });
    if (!falls_back) {
      add_unknown(bytes);
      continue;
    }
    // The reference keeps an unknown token waiting while bytes are added, so that the
    // token comes behind the bytes.
    const bool waits = unknown_before;
    // The unknown token that was added last is put behind the bytes.
    if (waits) {
      symbols.pop_back();
    }
    for (const char c : spelled) {
      symbols.push_back(fallback_ids[static_cast<unsigned char>(c)]);
    }
    if (waits) {
      symbols.push_back(unknown);
    }
  }
}

/// With `ignore_merges`, a piece that is a token as a whole is that token, even if the
/// merges would not form it.
void model::encode_bpe(std::string_view piece, std::vector<std::uint32_t>& ids,
                       model_memory& memory) const {
  if (ignore_merges) {
    const std::uint32_t id = byte_level ? by_bytes.find(piece) : by_spelling.find(piece);
    if (id != no_id) {
      ids.push_back(id);
      return;
    }
  }
  auto& symbols = memory.ids;
  begin_symbols(piece, symbols);
  // Both functions give the same ids and differ only in time.
  if (symbols.size() <= few_symbols) {
    merge_few(symbols, memory);
  } else {
    merge_many(symbols, memory);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

/// `found[i]` is the merge of the symbols i and i + 1. A merge changes the pairs on both
/// of its sides, so only these two are looked up again. Both arrays stay dense, and the
/// cost is quadratic in at most `few_symbols`.
void model::merge_few(std::vector<std::uint32_t>& symbols, model_memory& memory) const {
  std::array<merge, few_symbols> found;
  std::size_t count = symbols.size();
  for (std::size_t i = 0; i + 1 < count; ++i) {
    found[i] = merges.find(symbols[i], symbols[i + 1]);
  }
  while (count > 1) {
    std::size_t best = 0;
    // The comparison keeps the leftmost of several equal ranks.
    for (std::size_t i = 1; i + 1 < count; ++i) {
      best = found[i].rank < found[best].rank ? i : best;
    }
    // No pair can be merged any more.
    if (found[best].rank == no_id) {
      break;
    }
    symbols[best] = found[best].id;
    // Closes the gap that the merged symbol leaves, in both arrays.
    std::copy(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 2,
              symbols.begin() + static_cast<std::ptrdiff_t>(count),
              symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    std::copy(found.begin() + best + 1, found.begin() + count - 1, found.begin() + best);
    --count;
    if (best > 0) {
      found[best - 1] = merges.find(symbols[best - 1], symbols[best]);
    }
    if (best + 1 < count) {
      found[best] = merges.find(symbols[best], symbols[best + 1]);
    }
  }
  symbols.resize(count);
  (void)memory;
}

/// Symbols form a list by `previous` and `next`; a symbol that has merged into its left
/// neighbour is `no_id`. The heap has the candidates by rank, then by place. Candidates
/// are not removed when a symbol of theirs changes. Each remembers the two ids it was
/// made for, and a candidate that does not find them is skipped. The cost is n log n.
///
/// The first candidates are all pairs that can be merged. A merge offers the pairs on
/// both of its sides. What is left at the end is the result, in order.
void model::merge_many(std::vector<std::uint32_t>& symbols, model_memory& memory) const {
  const auto count = static_cast<std::uint32_t>(symbols.size());
  auto& previous = memory.previous;
  auto& next = memory.next;
  auto& heap = memory.heap;
  previous.resize(count);
  next.resize(count);
  heap.clear();
  using candidate = model_memory::candidate;
  // The heap has its largest element in front, so "later" counts as smaller.
  const auto later = [](const candidate& a, const candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
  };
  const auto candidate_of = [&](std::uint32_t place) {
    const std::uint32_t left = symbols[place];
    const std::uint32_t right = symbols[next[place]];
    return candidate{merges.find(left, right).rank, place, left, right};
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    previous[i] = i - 1;  // no_id for the first
    next[i] = i + 1 < count ? i + 1 : no_id;
  }
  for (std::uint32_t i = 0; i + 1 < count; ++i) {
    const candidate c = candidate_of(i);
    if (c.rank != no_id) {
      heap.push_back(c);
    }
  }
  std::make_heap(heap.begin(), heap.end(), later);
  const auto offer = [&](std::uint32_t place) {
    const candidate c = candidate_of(place);
    if (c.rank != no_id) {
      heap.push_back(c);
      std::push_heap(heap.begin(), heap.end(), later);
    }
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const candidate c = heap.back();
    heap.pop_back();
    // A candidate is outdated if one of its two symbols has merged with another one.
    if (symbols[c.place] != c.left || next[c.place] == no_id ||
        symbols[next[c.place]] != c.right) {
      continue;
    }
    // The right symbol merges into the left one, whose place stays.
    const std::uint32_t gone = next[c.place];
    symbols[c.place] = merges.find(c.left, c.right).id;
    symbols[gone] = no_id;
    next[c.place] = next[gone];
    if (next[gone] != no_id) {
      previous[next[gone]] = c.place;
      offer(c.place);
    }
    if (previous[c.place] != no_id) {
      offer(previous[c.place]);
    }
  }
  std::erase(symbols, no_id);
}

}  // namespace weir::formats::tokens
