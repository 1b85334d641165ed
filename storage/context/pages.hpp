// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tokens by virtual offset: the source under its end policy, read in pages that all
/// lanes share.
#pragma once

#include "weir/storage/context.hpp"

namespace weir::storage {

/// Reads tokens by virtual offset. Offsets cover the source once or, under `loop`, the
/// source and its separator in endless repetition.
class token_pages {
 public:
  token_pages(token_source& source, end_policy end, std::uint32_t lanes);

  /// Reads tokens from `offset` on; returns fewer than requested only at the end.
  /// @error{source_unavailable, a read failed}
  [[nodiscard]] result<std::size_t> read(std::uint64_t offset,
                                         std::span<std::uint32_t> to);
  /// Returns the offset behind the last token, or `unknown_size` if the source repeats.
  [[nodiscard]] std::uint64_t end() const noexcept;
  /// Returns the offset of the first token of the next document at or after `offset`.
  [[nodiscard]] result<std::uint64_t> next_document(std::uint64_t offset);
  /// Returns the index in the source that belongs to a virtual offset. For the separator
  /// between two rounds it is the size of the source.
  [[nodiscard]] std::uint64_t index_of(std::uint64_t offset) const noexcept;
  /// Returns the first offset of the page that holds an offset: reading one token reads
  /// its page.
  [[nodiscard]] static std::uint64_t page_start(std::uint64_t offset) noexcept;
  /// Drops all pages, so that tokens are read from the source again.
  void forget() noexcept;
  /// Returns how often the source was repeated before `offset`.
  [[nodiscard]] std::uint64_t round_of(std::uint64_t offset) const noexcept;

 private:
  /// A page of tokens; `used` orders pages by their last use.
  struct page {
    std::uint64_t number = unknown_size;
    std::uint64_t used = 0;
    std::size_t count = 0;
    std::vector<std::uint32_t> tokens;
  };
  /// Returns the tokens of one round, the separator included.
  [[nodiscard]] std::uint64_t period() const noexcept;
  [[nodiscard]] result<page*> page_of(std::uint64_t number);
  [[nodiscard]] result<std::size_t> fill(std::uint64_t offset,
                                         std::span<std::uint32_t> to);

  token_source& source_;
  bool loops_;
  std::vector<page> pages_;
  std::size_t last_ = 0;  ///< index of the page that was used last
  std::uint64_t clock_ = 0;
};

}  // namespace weir::storage
