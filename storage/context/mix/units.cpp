// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds where documents and runs end.
///
/// A unit is the smallest thing that a mixture, a sample or a shuffled source moves as a
/// whole.
#include "context/mix/units.hpp"

#include <fmt/core.h>

#include <array>

#include "weir/base/hash.hpp"
#include "weir/base/record.hpp"
#include "weir/base/utf8.hpp"

namespace weir::storage {

namespace {

/// Tokens that are read first and at most at a time while a document is sought. Most
/// documents are short.
constexpr std::size_t first_piece = 64;
constexpr std::size_t largest_piece = 4096;

}  // namespace

/// 0 stands for documents.
result<void> check_run(std::uint64_t tokens) {
  if (tokens == 0 || (tokens >= min_run && tokens <= max_run)) {
    return {};
  }
  return error(errc::invalid_argument,
               fmt::format("cannot cut a source into runs: expected {} to {} tokens per "
                           "run, found {}",
                           min_run, max_run, tokens));
}

// Returns how many bytes complete the last character of `text`; 0 if it is complete or
// no valid UTF-8.
std::size_t missing_bytes(std::span<const std::uint32_t> text) {
  const std::size_t reach = std::min<std::size_t>(3, text.size());
  for (std::size_t back = 1; back <= reach; ++back) {
    const std::uint32_t token = text[text.size() - back];
    // The separator of documents is a token but no byte.
    if (token > 0xFF) {
      return 0;
    }
    // A byte that continues a character: look further back.
    if (continues_utf8(static_cast<char>(token))) {
      continue;
    }
    // `back` bytes of the character are there.
    const std::size_t length = announced_utf8_length(static_cast<char>(token));
    return length > back ? length - back : 0;
  }
  // More than three such bytes are no character.
  return 0;
}

/// Characters are completed only if tokens are bytes. Two pages serve the unit and the
/// look behind it.
unit_reader::unit_reader(std::unique_ptr<token_source> source, std::uint64_t run_tokens)
    : source_(std::move(source)),
      rule_{run_tokens, source_->separator() == end_of_text &&
                            source_->vocabulary() <= byte_vocabulary},
      pages_(*source_, end_policy::stop, 2) {}

/// Whether there is a token at an offset.
result<bool> unit_reader::has(std::uint64_t offset) {
  if (source_->size() != unknown_size) {
    return offset < source_->size();
  }
  std::array<std::uint32_t, 1> one{};
  WEIR_TRY(const std::size_t got, pages_.read(offset, one));
  return got == 1;
}

/// Reads exactly `to.size()` tokens.
result<void> unit_reader::read(std::uint64_t offset, std::span<std::uint32_t> to) {
  WEIR_TRY(const std::size_t got, pages_.read(offset, to));
  if (got < to.size()) {
    return error(errc::source_unavailable,
                 "cannot read source: it is shorter than when it was attached")
        .located(source_->place_text(offset + got));
  }
  return {};
}

/// A unit of length 0 stands for the end of the source.
result<unit> unit_reader::unit_at(std::uint64_t offset) {
  WEIR_TRY(const bool any, has(offset));
  if (!any) {
    return unit{};
  }
  return rule_.tokens == 0 ? document_at(offset) : run_at(offset);
}

/// A document ends with its separator, or with the source.
result<unit> unit_reader::document_at(std::uint64_t offset) {
  WEIR_TRY(const std::uint64_t end, source_->next_document(offset + 1));
  if (end <= offset) {
    return error(errc::source_unavailable,
                 "cannot find the end of a document: the source ends before its begin")
        .located(source_->place_text(offset));
  }
  std::array<std::uint32_t, 1> final{};
  WEIR_TRY(const std::size_t got, pages_.read(end - 1, final));
  // `last` is set if nothing follows, `open` if the unit has no separator at its end.
  WEIR_TRY(const bool more, has(end));
  return unit{end - offset, !more, got == 1 && final[0] != source_->separator()};
}

// Reads the last three tokens, and up to three that complete the last character. Only
// the tokens before the end decide how many, so that a live source need not be asked for
// tokens that belong to the next unit.
result<unit> unit_reader::run_at(std::uint64_t offset) {
  std::uint64_t length = rule_.tokens;
  const std::uint64_t size = source_->size();
  // The length is what can be read.
  if (size == unknown_size) {
    tail_.resize(static_cast<std::size_t>(rule_.tokens));
    WEIR_TRY(length, pages_.read(offset, tail_));
  } else {
    length = std::min(length, size - offset);
  }
  // Only a run of full length may be divided within a character.
  if (rule_.utf8 && length == rule_.tokens) {
    std::array<std::uint32_t, 6> near{};
    WEIR_TRY(const std::size_t got, pages_.read(offset + length - 3, near));
    const auto seen = std::span<const std::uint32_t>(near).first(3);
    length += std::min(missing_bytes(seen), got - 3);
  }
  WEIR_TRY(const bool more, has(offset + length));
  std::array<std::uint32_t, 1> final{};
  WEIR_TRY(const std::size_t last, pages_.read(offset + length - 1, final));
  return unit{length, !more, last == 1 && final[0] != source_->separator()};
}

/// Searches for a separator from the token before `index` on. The pieces grow, as most
/// documents are short.
result<std::uint64_t> find_document(token_source& source, std::uint64_t index) {
  if (index == 0) {
    return std::uint64_t{0};
  }
  std::vector<std::uint32_t> tokens(first_piece);
  for (std::uint64_t from = index - 1;;) {
    WEIR_TRY(const std::size_t got, source.read(from, tokens));
    const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(got);
    const auto found = std::find(tokens.begin(), end, source.separator());
    from += static_cast<std::uint64_t>(found - tokens.begin());
    if (found != end) {
      return from + 1;
    }
    // The source has ended without one.
    if (got < tokens.size()) {
      return from;
    }
    tokens.resize(std::min(2 * tokens.size(), largest_piece));
  }
}

/// The error for units that have moved under a cursor.
error moved_units(std::string place) {
  return error(errc::config_mismatch,
               "cannot leave ranges out of a source: expected text behind the units that "
               "were read, found none")
      .located(std::move(place))
      .hint("--generation goes on from a checkpoint before these units");
}

/// A part contributes its leaves and one further leaf with a hash of its other numbers.
void append_identity(std::vector<source_leaf>& leaves, const source_identity& part) {
  leaves.insert(leaves.end(), part.leaves.begin(), part.leaves.end());
  record_writer content;
  content.put(part.tokens);
  content.put(part.list_digest);
  content.put(part.segment_tokens);
  content.put_all(std::span<const std::uint64_t>(part.segments));
  leaves.push_back({"", xxh3_64(content.view()), 0});
}

}  // namespace weir::storage
