// SPDX-License-Identifier: Apache-2.0
/// @file
/// The contexts of a model and the pages that hold their keys and values.
///
/// A page has room for 64 tokens of one sequence. A context reserves all its pages when
/// it is opened, so no step can run out of memory. Contexts that were forked share their
/// full pages, which are never written again.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/models/step_model.hpp"

namespace weir::models {

/// Tokens of a page.
inline constexpr std::uint64_t page_tokens = 64;

/// One sequence.
struct llama_context {
  std::vector<std::uint32_t> pages;    ///< numbers of the pages, by position
  std::vector<std::uint32_t> history;  ///< tokens of the steps submitted so far
  std::vector<std::uint64_t> serials;  ///< serials of the contents of full pages
  std::uint64_t reserved = 0;          ///< largest number of tokens
};

/// A page that a fork has to copy, because both contexts will write to it.
struct page_copy {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

/// The tokens of a full page and of all pages before it, which determine its content.
struct page_key {
  std::uint64_t before = 0;  ///< serial of the content of the page before it; 0: none
  std::array<std::uint32_t, page_tokens> tokens{};
  friend bool operator==(const page_key&, const page_key&) = default;
};

/// Hash of a key. Keys with equal hashes are compared as a whole.
struct page_key_hash {
  [[nodiscard]] std::size_t operator()(const page_key& key) const noexcept;
};

/// Owns the table of contexts and says which pages are free.
///
/// Full pages are found again by their tokens. A page that no context has any more keeps
/// its content until its memory is needed; the page that was given up first goes first.
class page_table {
 public:
  /// Makes a table of `pages` free pages.
  page_table(std::uint32_t pages, std::uint64_t max_context);

  /// Opens a context; see `step_model::open_context`.
  [[nodiscard]] result<context_id> open(std::uint64_t tokens);
  /// Opens a context that shares the full pages of another one. Adds to `copies` if a
  /// page has to be copied.
  [[nodiscard]] result<context_id> fork(context_id id, std::uint64_t tokens,
                                        std::vector<page_copy>& copies);
  /// Closes a context and gives up its pages.
  [[nodiscard]] result<void> close(context_id id);
  /// Gives pages with known tokens to an empty context; see `step_model::reuse_prefix`.
  [[nodiscard]] result<std::uint64_t> reuse(context_id id,
                                            std::span<const std::uint32_t> tokens);
  /// Adds tokens to a context. The pages that they fill can be found from now on.
  /// @pre The context has reserved them.
  void append(llama_context& context, std::span<const std::uint32_t> tokens);
  /// Returns a context.
  /// @error{not_found, no such context}
  [[nodiscard]] result<llama_context*> find(context_id id);

 private:
  /// A content and the page that has it.
  struct stored_page {
    std::uint64_t serial = 0;
    std::uint32_t page = 0;
  };

  [[nodiscard]] result<void> expect_pages(std::uint64_t count,
                                          std::uint64_t tokens) const;
  std::uint32_t take_one();
  void give_up(std::uint32_t page);

  std::uint64_t max_context_;
  std::vector<std::uint32_t> free_;    ///< pages without content; the last is taken first
  std::vector<std::uint32_t> users_;   ///< by page: contexts that have it
  std::vector<const page_key*> keys_;  ///< by page: its key in `stored_`, or null
  std::deque<std::uint32_t> idle_;     ///< pages with content that no context has, by age
  std::unordered_map<page_key, stored_page, page_key_hash> stored_;
  std::unordered_map<std::uint64_t, llama_context> contexts_;
  std::uint64_t next_ = 1;
  std::uint64_t next_serial_ = 1;
};

}  // namespace weir::models
