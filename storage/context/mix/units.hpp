// SPDX-License-Identifier: Apache-2.0
/// @file
/// Units of a source: where the document or run that begins at a token ends.
#pragma once

#include <algorithm>
#include <map>
#include <optional>

#include "context/pages.hpp"
#include "weir/storage/mix_source.hpp"

namespace weir::storage {

/// Piece of a source that is moved as a whole.
struct unit_rule {
  /// Tokens of a run; 0 makes each document a unit.
  std::uint64_t tokens = 0;
  /// The tokens are bytes of UTF-8 text: a run that would end inside a character takes
  /// the up to 3 bytes that complete it.
  bool utf8 = true;
};

/// Extent of a unit.
struct unit {
  std::uint64_t length = 0;  ///< tokens in the source; 0 at its end
  bool last = false;         ///< the source ends with it
  bool open = false;         ///< its last token is no `end_of_text`
};

/// Checks the number of tokens of a run; 0 stands for documents.
/// @error{invalid_argument, it is out of its range}
[[nodiscard]] result<void> check_run(std::uint64_t tokens);
/// Checks that a source can be read at any index. @param purpose  Verb for the message.
/// @error{invalid_argument, it cannot}
[[nodiscard]] result<void> check_seekable(const token_source& source,
                                          std::string_view purpose);
/// Returns how many bytes are missing behind `text` to complete its last UTF-8 character:
/// 0 to 3. Only the last 3 tokens matter.
[[nodiscard]] std::size_t missing_bytes(std::span<const std::uint32_t> text);
/// Reads a source that can seek, and finds its units.
class unit_reader {
 public:
  /// @param run_tokens  Tokens of a run; 0 makes each document a unit.
  unit_reader(std::unique_ptr<token_source> source, std::uint64_t run_tokens);

  /// Returns the extent of the unit that begins at `offset`. @pre The source can seek.
  /// @error{source_unavailable, a read failed}
  [[nodiscard]] result<unit> unit_at(std::uint64_t offset);
  /// Reads tokens that are there: they belong to a unit.
  /// @error{source_unavailable, a read failed, or the source has become shorter}
  [[nodiscard]] result<void> read(std::uint64_t offset, std::span<std::uint32_t> to);
  /// Drops what was read, because the source has got other tokens.
  void forget() noexcept { pages_.forget(); }
  /// Returns the rule.
  [[nodiscard]] const unit_rule& rule() const noexcept { return rule_; }
  /// Returns the source.
  [[nodiscard]] token_source& source() const noexcept { return *source_; }

 private:
  [[nodiscard]] result<unit> run_at(std::uint64_t offset);
  [[nodiscard]] result<unit> document_at(std::uint64_t offset);
  [[nodiscard]] result<bool> has(std::uint64_t offset);

  std::unique_ptr<token_source> source_;
  unit_rule rule_;
  token_pages pages_;
  std::vector<std::uint32_t> tail_;
};

/// Finds the first document of a source that begins at or after `index` by reading.
/// @returns its first token, or the end of the source
/// @error{source_unavailable, a read failed}
[[nodiscard]] result<std::uint64_t> find_document(token_source& source,
                                                  std::uint64_t index);

/// Returns the error of ranges without which units that were read would have another end.
[[nodiscard]] error moved_units(std::string place);

/// Mixes the identity of a part into the leaves of a whole: the leaves of the part, and
/// one for its list and the digests of its content.
void append_identity(std::vector<source_leaf>& leaves, const source_identity& part);

/// Places of a walk through a source, by the index at which they stand. It keeps at most
/// 512, so that any index is reached from one that is at most 1/256 of the way before it.
template <class Place>
class walk_memory {
 public:
  /// Remembers a place unless another one is near.
  void note(std::uint64_t index, const Place& place) {
    const auto next = places_.upper_bound(index);
    if (next != places_.begin() && index - std::prev(next)->first < spacing_) {
      return;
    }
    keep(index, place);
    if (places_.size() > 512) {
      thin();
    }
  }
  /// Remembers a place in any case.
  void keep(std::uint64_t index, const Place& place) { places_.emplace(index, place); }
  /// Returns the last place at or before an index. @pre A place stands at index 0.
  [[nodiscard]] const std::pair<const std::uint64_t, Place>& before(
      std::uint64_t index) const {
    return *std::prev(places_.upper_bound(index));
  }

 private:
  /// Forgets places so that the others are twice as far apart.
  void thin() {
    spacing_ *= 2;
    for (auto it = std::next(places_.begin()); it != places_.end();) {
      it =
          it->first - std::prev(it)->first < spacing_ ? places_.erase(it) : std::next(it);
    }
  }

  std::map<std::uint64_t, Place> places_;
  std::uint64_t spacing_ = 4096;
};

}  // namespace weir::storage
