// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens, forks and closes contexts, and finds full pages by their tokens.
#include "llama/pages.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "weir/base/hash.hpp"

namespace weir::models {

namespace {

/// Returns the key of a page whose last token is the last of `history`.
///
/// Equal keys mean equal tokens from the beginning on, since `before` names the page in
/// front.
page_key key_behind(std::uint64_t before, std::span<const std::uint32_t> history) {
  page_key key;
  key.before = before;
  const auto tokens = history.last(page_tokens);
  std::copy(tokens.begin(), tokens.end(), key.tokens.begin());
  return key;
}

}  // namespace

/// The keys are whole pages of tokens, so the hash reads them all.
std::size_t page_key_hash::operator()(const page_key& key) const noexcept {
  return xxh3_64(std::as_bytes(std::span(key.tokens))) ^ key.before * 0x9E3779B97F4A7C15U;
}

page_table::page_table(std::uint32_t pages, std::uint64_t max_context)
    : max_context_(max_context), users_(pages, 0), keys_(pages, nullptr) {
  // Backwards, so that page 0 is taken first.
  for (std::uint32_t p = pages; p > 0; --p) {
    free_.push_back(p - 1);
  }
}

/// Takes a free page, or else the one that was given up first and forgets its content.
///
/// One of both must exist.
std::uint32_t page_table::take_one() {
  std::uint32_t page = 0;
  if (!free_.empty()) {
    page = free_.back();
    free_.pop_back();
  } else {
    page = idle_.front();
    idle_.pop_front();
    // Nobody can find its tokens any more.
    stored_.erase(stored_.find(*keys_[page]));
    keys_[page] = nullptr;
  }
  // The taker is its only user.
  users_[page] = 1;
  return page;
}

/// Checks whether so many pages can be taken for a context.
result<void> page_table::expect_pages(std::uint64_t count, std::uint64_t tokens) const {
  // Pages that nobody uses may still be known by their tokens.
  const std::uint64_t available = free_.size() + idle_.size();
  if (count > available) {
    return error(errc::out_of_memory,
                 fmt::format("context of {} tokens: expected {} free pages of {} tokens, "
                             "found {}",
                             tokens, count, page_tokens, available))
        .hint("close a context, reserve fewer tokens or give the model more memory");
  }
  return {};
}

/// A page may have several users.
void page_table::give_up(std::uint32_t page) {
  if (--users_[page] > 0) {
    return;
  }
  // It stays known until it is needed.
  if (keys_[page] != nullptr) {
    idle_.push_back(page);
  } else {
    free_.push_back(page);
  }
}

/// All pages of a context are taken at once, so a step never lacks one.
result<context_id> page_table::open(std::uint64_t tokens) {
  if (tokens == 0 || tokens > max_context_) {
    return error(errc::invalid_argument,
                 fmt::format("tokens of a new context: expected 1 to {}, found {}",
                             max_context_, tokens));
  }
  const std::uint64_t count = (tokens + page_tokens - 1) / page_tokens;
  WEIR_CHECK(expect_pages(count, tokens));
  llama_context empty;
  empty.reserved = tokens;
  empty.pages.resize(count);
  llama_context& context = contexts_.emplace(next_, std::move(empty)).first->second;
  // From here on nothing can fail, so that no page is lost.
  for (std::uint32_t& page : context.pages) {
    page = take_one();
  }
  // Numbers are never used again.
  return context_id{next_++};
}

/// Full pages are shared, and one that is filled in part is copied.
result<context_id> page_table::fork(context_id id, std::uint64_t tokens,
                                    std::vector<page_copy>& copies) {
  WEIR_TRY(const llama_context* from, find(id));
  if (tokens > from->history.size()) {
    return error(
        errc::invalid_argument,
        fmt::format("fork of context {}: expected at most its {} tokens, found {}",
                    id.value, from->history.size(), tokens));
  }
  // Pages that both contexts will only read.
  const auto shared = static_cast<std::ptrdiff_t>(tokens / page_tokens);
  const std::size_t count = from->pages.size();
  WEIR_CHECK(expect_pages(count - static_cast<std::size_t>(shared), from->reserved));
  llama_context made;
  // The copy may become as long as the original.
  made.reserved = from->reserved;
  const auto kept = static_cast<std::ptrdiff_t>(tokens);
  // Tokens behind the fork are dropped.
  made.history.assign(from->history.begin(), from->history.begin() + kept);
  made.serials.assign(from->serials.begin(), from->serials.begin() + shared);
  made.pages = from->pages;
  copies.reserve(copies.size() + 1);
  llama_context& context = contexts_.emplace(next_, std::move(made)).first->second;
  // From here on nothing can fail, so that no page is lost.
  for (std::size_t p = 0; p < count; ++p) {
    std::uint32_t& page = context.pages[p];
    if (p < static_cast<std::size_t>(shared)) {
      // The original may be closed.
      ++users_[page];
    } else {
      page = take_one();
    }
  }
  // The first own page gets the beginning of the one that is shared in part.
  if (const auto part = static_cast<std::size_t>(shared); tokens % page_tokens != 0) {
    copies.push_back({from->pages[part], context.pages[part]});
  }
  return context_id{next_++};
}

/// Steps in flight have their own list of pages.
result<void> page_table::close(context_id id) {
  WEIR_TRY(const llama_context* context, find(id));
  // The last page goes first: without the pages before it, it cannot be found.
  for (auto page = context->pages.rbegin(); page != context->pages.rend(); ++page) {
    give_up(*page);
  }
  contexts_.erase(id.value);
  return {};
}

/// Pages are compared by their tokens, so every match is right.
result<std::uint64_t> page_table::reuse(context_id id,
                                        std::span<const std::uint32_t> tokens) {
  WEIR_TRY(llama_context* const context, find(id));
  if (!context->history.empty()) {
    return error(
        errc::invalid_argument,
        fmt::format("known tokens for context {}: expected an empty context, found "
                    "{} tokens",
                    id.value, context->history.size()));
  }
  const std::size_t limit = std::min<std::size_t>(tokens.size(), context->reserved);
  // At least one token is left, for which the caller gets logits.
  for (std::size_t end = page_tokens; end < limit; end += page_tokens) {
    const std::uint64_t before = context->serials.empty() ? 0 : context->serials.back();
    const auto found = stored_.find(key_behind(before, tokens.first(end)));
    // Pages behind one that is not known cannot be known.
    if (found == stored_.end()) {
      break;
    }
    const std::uint32_t page = found->second.page;
    // It was given up, and is in use again.
    if (users_[page]++ == 0) {
      idle_.erase(std::find(idle_.begin(), idle_.end(), page));
    }
    // The page of the reservation is not needed.
    give_up(context->pages[end / page_tokens - 1]);
    context->pages[end / page_tokens - 1] = page;
    context->serials.push_back(found->second.serial);
  }
  // Whole pages only.
  const std::size_t known = context->serials.size() * page_tokens;
  context->history.assign(tokens.begin(),
                          tokens.begin() + static_cast<std::ptrdiff_t>(known));
  return known;
}

/// Pages become known when they are full.
void page_table::append(llama_context& context, std::span<const std::uint32_t> tokens) {
  for (const std::uint32_t token : tokens) {
    context.history.push_back(token);
    if (context.history.size() % page_tokens != 0) {
      continue;
    }
    const std::uint64_t before = context.serials.empty() ? 0 : context.serials.back();
    const std::uint32_t page = context.pages[context.serials.size()];
    // Another context may have the same tokens already.
    const auto [stored, fresh] = stored_.try_emplace(key_behind(before, context.history),
                                                     stored_page{next_serial_, page});
    if (fresh) {
      ++next_serial_;
      // Keys of the map do not move.
      keys_[page] = &stored->first;
    }
    // The serial names the tokens, whichever page has them.
    context.serials.push_back(stored->second.serial);
  }
}

/// The error has the number that the caller gave.
result<llama_context*> page_table::find(context_id id) {
  const auto found = contexts_.find(id.value);
  if (found == contexts_.end()) {
    return error(
        errc::not_found,
        fmt::format("context of the model: expected an open one, found number {}",
                    id.value));
  }
  return &found->second;
}

}  // namespace weir::models
