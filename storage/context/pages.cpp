// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads pages of tokens and repeats the source under the policy `loop`.
///
/// The pages are a small cache with replacement of the page that was unused longest.
/// Lanes read at places that are far apart, each of them forward, so a page per lane
/// makes nearly every read a copy from memory. Offsets are virtual: under `loop` the
/// source is repeated, with one separator per round, and page borders may lie anywhere in
/// a round.
#include "context/pages.hpp"

#include <algorithm>

namespace weir::storage {

namespace {

/// 16 Ki tokens: such a page of u32 fits into the second-level cache, and one read of the
/// source serves 256 chunks of 64 tokens.
constexpr std::uint64_t page_tokens = 16384;
constexpr std::size_t max_pages = 64;

}  // namespace

/// A loop is allowed for sources that can be read again.
token_pages::token_pages(token_source& source, end_policy end, std::uint32_t lanes)
    : source_(source),
      loops_(end == end_policy::loop),
      // Lanes read far apart, so each has a page. One more serves the windows of cursors,
      // one the lookahead.
      pages_(std::min<std::size_t>(max_pages, std::size_t{lanes} + 2)) {}

/// A loop never ends.
std::uint64_t token_pages::end() const noexcept {
  return loops_ ? unknown_size : source_.size();
}
/// Offset within the source; the separator between two rounds has the index `size()`.
std::uint64_t token_pages::index_of(std::uint64_t offset) const noexcept {
  return loops_ ? offset % period() : offset;
}
/// First offset of the page that has the offset.
std::uint64_t token_pages::page_start(std::uint64_t offset) noexcept {
  return offset / page_tokens * page_tokens;
}
/// Number of times that the source was read to its end before.
std::uint64_t token_pages::round_of(std::uint64_t offset) const noexcept {
  return loops_ ? offset / period() : 0;
}
// The size of a source may change once, when it takes over the state of a cursor.
std::uint64_t token_pages::period() const noexcept {
  return source_.size() == unknown_size ? unknown_size : source_.size() + 1;
}

/// Called when the source has changed, for instance after ranges were left out.
void token_pages::forget() noexcept {
  for (page& one : pages_) {
    one.number = unknown_size;
  }
}

// Documents are found in the source; a round that has no further one continues in the
// next round.
result<std::uint64_t> token_pages::next_document(std::uint64_t offset) {
  const std::uint64_t index = index_of(offset);
  // The separator of the round, or the end.
  if (index >= source_.size()) {
    return loops_ ? offset + 1 : offset;
  }
  WEIR_TRY(const std::uint64_t next, source_.next_document(index));
  const bool wraps = loops_ && next == source_.size();
  return offset - index + next + (wraps ? 1 : 0);
}

// Copies from pages until `to` is full or the source ends; a page may be shorter only at
// the end.
result<std::size_t> token_pages::read(std::uint64_t offset, std::span<std::uint32_t> to) {
  if (!source_.seekable()) {
    return source_.read(offset, to);  // a page would wait for more than was requested
  }
  std::size_t done = 0;
  while (done < to.size() && offset + done < end()) {
    WEIR_TRY(page* const p, page_of((offset + done) / page_tokens));
    const auto inside = static_cast<std::size_t>((offset + done) % page_tokens);
    // The source has ended within this page.
    if (inside >= p->count) {
      break;
    }
    const std::size_t count = std::min(to.size() - done, p->count - inside);
    std::copy_n(p->tokens.data() + inside, count, to.data() + done);
    done += count;
  }
  return done;
}

// The last page is tried first, because most reads continue where the one before ended. A
// page whose read fails must not be found later, so its number is set last.
//
// The result is valid until the next call.
result<token_pages::page*> token_pages::page_of(std::uint64_t number) {
  if (pages_[last_].number == number) {
    return &pages_[last_];
  }
  std::size_t oldest = 0;
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    if (pages_[i].number == number) {
      pages_[i].used = ++clock_;
      last_ = i;
      return &pages_[i];
    }
    // The page that was unused longest is overwritten.
    if (pages_[i].used < pages_[oldest].used) {
      oldest = i;
    }
  }
  page& p = pages_[oldest];
  p.number = unknown_size;
  p.tokens.resize(page_tokens);
  WEIR_TRY(p.count, fill(number * page_tokens, p.tokens));
  p.number = number;
  p.used = ++clock_;
  last_ = oldest;
  return &p;
}

// Reads a page from the source. Between two rounds of a loop stands the separator.
result<std::size_t> token_pages::fill(std::uint64_t offset, std::span<std::uint32_t> to) {
  std::size_t done = 0;
  while (done < to.size() && offset + done < end()) {
    const std::uint64_t index = index_of(offset + done);
    if (index == source_.size()) {
      to[done++] = source_.separator();
      continue;
    }
    const auto want = static_cast<std::size_t>(
        std::min<std::uint64_t>(to.size() - done, source_.size() - index));
    WEIR_TRY(const std::size_t got, source_.read(index, to.subspan(done, want)));
    if (got < want && source_.size() == unknown_size) {
      return done + got;  // the source ends here
    }
    if (got < want) {
      return error(errc::source_unavailable,
                   "cannot read source: it is shorter than when it was attached")
          .located(source_.place_text(index + got));
    }
    done += got;
  }
  return done;
}

}  // namespace weir::storage
