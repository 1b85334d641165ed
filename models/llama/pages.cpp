// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens, forks and closes contexts.
#include "llama/pages.hpp"

#include <fmt/core.h>

namespace weir::models {

page_table::page_table(std::uint32_t pages, std::uint64_t max_context)
    : max_context_(max_context), users_(pages, 0) {
  for (std::uint32_t p = pages; p > 0; --p) {
    free_.push_back(p - 1);
  }
}

result<std::vector<std::uint32_t>> page_table::take(std::uint64_t count,
                                                    std::uint64_t tokens) {
  if (count > free_.size()) {
    return error(errc::out_of_memory,
                 fmt::format("context of {} tokens: expected {} free pages of {} tokens, "
                             "found {}",
                             tokens, count, page_tokens, free_.size()))
        .hint("close a context, reserve fewer tokens or give the model more memory");
  }
  std::vector<std::uint32_t> pages(free_.end() - static_cast<std::ptrdiff_t>(count),
                                   free_.end());
  free_.resize(free_.size() - count);
  for (const std::uint32_t p : pages) {
    users_[p] = 1;
  }
  return pages;
}

result<context_id> page_table::open(std::uint64_t tokens) {
  if (tokens == 0 || tokens > max_context_) {
    return error(errc::invalid_argument,
                 fmt::format("tokens of a new context: expected 1 to {}, found {}",
                             max_context_, tokens));
  }
  llama_context context;
  context.reserved = tokens;
  WEIR_TRY(context.pages, take((tokens + page_tokens - 1) / page_tokens, tokens));
  contexts_.emplace(next_, std::move(context));
  return context_id{next_++};
}

result<context_id> page_table::fork(context_id id, std::uint64_t tokens,
                                    std::vector<page_copy>& copied) {
  WEIR_TRY(const llama_context* from, find(id));
  if (tokens > from->tokens) {
    return error(
        errc::invalid_argument,
        fmt::format("fork of context {}: expected at most its {} tokens, found {}",
                    id.value, from->tokens, tokens));
  }
  const std::uint64_t shared = tokens / page_tokens;
  llama_context context;
  context.tokens = tokens;
  context.reserved = from->reserved;
  WEIR_TRY(std::vector<std::uint32_t> own,
           take(from->pages.size() - shared, from->reserved));
  context.pages.assign(from->pages.begin(),
                       from->pages.begin() + static_cast<std::ptrdiff_t>(shared));
  for (const std::uint32_t p : context.pages) {
    ++users_[p];
  }
  if (tokens % page_tokens != 0) {
    copied.push_back({from->pages[shared], own.front()});
  }
  context.pages.insert(context.pages.end(), own.begin(), own.end());
  contexts_.emplace(next_, std::move(context));
  return context_id{next_++};
}

result<void> page_table::close(context_id id) {
  WEIR_TRY(const llama_context* context, find(id));
  for (const std::uint32_t p : context->pages) {
    if (--users_[p] == 0) {
      free_.push_back(p);
    }
  }
  contexts_.erase(id.value);
  return {};
}

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
