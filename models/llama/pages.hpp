// SPDX-License-Identifier: Apache-2.0
/// @file
/// The contexts of a model and the pages that hold their keys and values.
///
/// A page has room for 64 tokens of one sequence. A context reserves all its pages when
/// it is opened, so no step can run out of memory. Contexts that were forked share their
/// full pages, which are never written again.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/models/step_model.hpp"

namespace weir::models {

/// Tokens of a page.
inline constexpr std::uint64_t page_tokens = 64;

/// One sequence.
struct llama_context {
  std::vector<std::uint32_t> pages;  ///< numbers of the pages, by position
  std::uint64_t tokens = 0;          ///< tokens of the steps submitted so far
  std::uint64_t reserved = 0;        ///< largest number of tokens
};

/// A page that a fork has to copy, because both contexts will write to it.
struct page_copy {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

/// Owns the table of contexts and says which pages are free.
class page_table {
 public:
  /// Makes a table of `pages` free pages.
  page_table(std::uint32_t pages, std::uint64_t max_context);

  /// Opens a context; see `step_model::open_context`.
  [[nodiscard]] result<context_id> open(std::uint64_t tokens);
  /// Opens a context that shares the full pages of another one. Sets `copied` if a page
  /// has to be copied.
  [[nodiscard]] result<context_id> fork(context_id id, std::uint64_t tokens,
                                        std::vector<page_copy>& copied);
  /// Closes a context and gives up its pages.
  [[nodiscard]] result<void> close(context_id id);
  /// Returns a context.
  /// @error{not_found, no such context}
  [[nodiscard]] result<llama_context*> find(context_id id);
  /// Returns the number of pages that no context has.
  [[nodiscard]] std::uint64_t free_pages() const noexcept { return free_.size(); }

 private:
  result<std::vector<std::uint32_t>> take(std::uint64_t count, std::uint64_t tokens);

  std::uint64_t max_context_;
  std::vector<std::uint32_t> free_;   ///< free pages; the last one is taken first
  std::vector<std::uint32_t> users_;  ///< by page: contexts that have it
  std::unordered_map<std::uint64_t, llama_context> contexts_;
  std::uint64_t next_ = 1;
};

}  // namespace weir::models
