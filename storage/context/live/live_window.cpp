// SPDX-License-Identifier: Apache-2.0
/// @file
/// The newest tokens of a live source.
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "context/live/live_input.hpp"

namespace weir::storage {

// A writer that goes on at a state sends the beginning of a document again that was
// already consumed in part, so these tokens are known.
//
// `index` is that of the first token of `tokens`.
result<void> live_window::put(std::uint64_t index,
                              std::span<const std::uint32_t> tokens) {
  // The place at which an input goes on may come from a damaged checkpoint.
  if (index > end()) {
    return error(errc::corrupt,
                 fmt::format("cannot go on at token {}: expected a place up to token {}, "
                             "to which the source has been read",
                             index, end()))
        .hint(
            "the stored states of the run do not belong together; resume from an "
            "earlier checkpoint");
  }
  const std::uint64_t known = std::min<std::uint64_t>(end() - index, tokens.size());
  const std::uint64_t skip =
      // Tokens that were forgotten cannot be compared.
      std::min<std::uint64_t>(known, first_ > index ? first_ - index : 0);
  for (std::uint64_t i = skip; i < known; ++i) {
    const std::uint32_t kept = tokens_[static_cast<std::size_t>(index + i - first_)];
    if (tokens[static_cast<std::size_t>(i)] != kept) {
      return error(errc::history_mismatch,
                   fmt::format("cannot go on behind token {}: expected token {} again, "
                               "found token {}",
                               index + i, kept, tokens[static_cast<std::size_t>(i)]))
          .hint("the writer sends other documents than before; start another run");
    }
  }
  const auto fresh = tokens.subspan(static_cast<std::size_t>(known));
  tokens_.insert(tokens_.end(), fresh.begin(), fresh.end());
  // Only tokens behind the end are new.
  return {};
}

/// Resets are in order; one that comes again is known.
void live_window::add_reset(std::uint64_t index) {
  if (resets_.empty() || resets_.back() < index) {
    resets_.push_back(index);
  }
}

/// The largest number if none is known.
std::uint64_t live_window::next_reset(std::uint64_t index) const noexcept {
  const auto found = std::upper_bound(resets_.begin(), resets_.end(), index);
  return found == resets_.end() ? std::numeric_limits<std::uint64_t>::max() : *found;
}

/// Whether a new context begins at this token.
bool live_window::reset_at(std::uint64_t index) const noexcept {
  return std::binary_search(resets_.begin(), resets_.end(), index);
}

/// Sets the window to the last tokens of a cursor.
void live_window::begin(std::uint64_t index, std::span<const std::uint32_t> before) {
  WEIR_EXPECT(before.size() <= index);
  tokens_.assign(before.begin(), before.end());
  first_ = index - before.size();
}

/// Keeps the newest `remembered` tokens before `index`. It acts only when as many more
/// have gathered, so that tokens are moved seldom.
void live_window::forget(std::uint64_t index) {
  if (index < first_ + 2 * remembered) {
    return;
  }
  const std::uint64_t old = std::min<std::uint64_t>(index - remembered, end()) - first_;
  tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(old));
  first_ += old;
  while (!resets_.empty() && resets_.front() < first_) {
    resets_.pop_front();
  }
}

}  // namespace weir::storage
