// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tokens by virtual offset: the source under its end policy, read in pages that all
/// lanes share.
#pragma once

#include "weir/storage/context.hpp"

namespace weir::storage {

/// Virtual offsets run over the source once, or under `loop` over source and
/// `end_of_text` again and again.
class token_pages {
 public:
  token_pages(token_source& source, end_policy end, std::uint32_t lanes);

  /// Fills `to` from `offset` on; fewer only at the end. @error{as token_source::read}
  [[nodiscard]] result<std::size_t> read(std::uint64_t offset,
                                         std::span<std::uint32_t> to);
  /// Offset behind the last token, or `unknown_size`.
  [[nodiscard]] std::uint64_t end() const noexcept;
  [[nodiscard]] result<std::uint64_t> next_document(std::uint64_t offset);
  /// Index in the source of a virtual offset; the source's size for the token between two
  /// rounds.
  [[nodiscard]] std::uint64_t index_of(std::uint64_t offset) const noexcept;
  [[nodiscard]] std::uint64_t round_of(std::uint64_t offset) const noexcept;

 private:
  struct page {
    std::uint64_t number = unknown_size;
    std::uint64_t used = 0;
    std::size_t count = 0;
    std::vector<std::uint32_t> tokens;
  };
  [[nodiscard]] result<page*> page_of(std::uint64_t number);
  [[nodiscard]] result<std::size_t> fill(std::uint64_t offset,
                                         std::span<std::uint32_t> to);

  token_source& source_;
  bool loops_;
  std::uint64_t period_;  ///< tokens of a round, the separator included
  std::vector<page> pages_;
  std::size_t last_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace weir::storage
