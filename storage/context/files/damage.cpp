// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds ranges that cannot be read as tokens, and leaves them and those that the user
/// names out.
///
/// Ranges are found once, when the source is opened, if the policy says so. Without
/// ranges, one damaged block would end the run.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "context/files/token_set.hpp"

namespace weir::storage {

namespace {

/// Number of ids that are looked at together. The unit of a probe: larger than a page,
/// small enough for its buffer.
constexpr std::uint64_t look_ids = 65536;

/// The error of a state that does not fit the files.
error bad_ranges(std::string_view expected, std::string_view found) {
  return error(
      errc::corrupt,
      fmt::format("cannot restore ranges that are left out: expected {}, found {}",
                  expected, found));
}

/// Returns the error of ranges behind which nothing is left. No end-of-text token follows
/// the last document of a source, but one was consumed.
error nothing_behind(std::string_view name) {
  return error(errc::config_mismatch,
               fmt::format("cannot leave ranges out of a source: expected text behind "
                           "the end of \"{}\", which was consumed, found none",
                           name))
      .located(std::string(name))
      .hint("let a budget end the run");
}

}  // namespace

/// Ranges are found in the order of the leaves. Runs of a leaf may lie in any order.
///
/// `place_runs` must be called afterwards, as ranges change the indices of tokens.
result<void> token_set::find_damage() {
  for (std::uint64_t leaf = 0; leaf < layouts_.size(); ++leaf) {
    for (const token_run& r : layouts_[leaf].runs) {
      WEIR_CHECK(look_at(leaf, r));
    }
  }
  return {};
}

/// Reads the ids of a run in pieces. Bytes that cannot be read, and ids that are too
/// large, become ranges.
result<void> token_set::look_at(std::uint64_t leaf, const token_run& r) {
  const std::uint64_t width = layouts_[leaf].ids.bytes;
  const std::uint64_t end = r.byte + r.tokens * width;
  for (std::uint64_t at = r.byte; at < end;) {
    const std::uint64_t count = std::min(end - at, look_ids * width);
    WEIR_TRY(const auto part, leaves_.probe(leaf, at, static_cast<std::size_t>(count)));
    // Only whole ids count as sound.
    const std::uint64_t sound = part.sound / width * width;
    WEIR_CHECK(look_at_ids(leaf, at, sound / width));
    at += sound;
    // Goes on behind the range that cannot be read.
    if (sound < count) {
      // An id that lies in the damaged range in part is left out, too.
      const std::uint64_t units = (part.end - at + width - 1) / width;
      const std::uint64_t behind = std::min(end, at + units * width);
      WEIR_CHECK(add_damage(leaf, at, behind - at));
      at = behind;
    }
  }
  return {};
}

/// Finds ids that are not below the vocabulary.
///
/// The pieces were probed before, so the read succeeds.
result<void> token_set::look_at_ids(std::uint64_t leaf, std::uint64_t byte,
                                    std::uint64_t count) {
  const id_encoding ids = layouts_[leaf].ids;
  byte_vector bytes(static_cast<std::size_t>(count) * ids.bytes);
  std::vector<std::uint32_t> wide(static_cast<std::size_t>(count));
  WEIR_CHECK(leaves_.read(leaf, byte, bytes));
  // The largest of them is small enough, which is the usual case.
  if (widen_ids(ids, bytes, wide) < vocabulary_) {
    return {};
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (wide[static_cast<std::size_t>(i)] >= vocabulary_) {
      WEIR_CHECK(add_damage(leaf, byte + i * ids.bytes, ids.bytes));
    }
  }
  return {};
}

/// Adds a range that cannot be read.
///
/// Neighbouring ranges are joined by the list.
result<void> token_set::add_damage(std::uint64_t leaf, std::uint64_t byte,
                                   std::uint64_t bytes) {
  return left_out_.add({leaf, byte, bytes, false}, leaves_.name(leaf));
}

/// Takes over the ranges of a cursor at token `index`. Of the ranges that were found when
/// the source was opened, only those behind the cursor are new.
///
/// The text before the cursor must not change, even if a range there has become readable
/// again.
result<void> token_set::take_known(std::uint64_t index, left_out_list known) {
  for (const left_out_range& r : known.all()) {
    // All values come from the cursor.
    const bool fits = r.leaf < layouts_.size() && r.byte < leaves_.size(r.leaf) &&
                      r.bytes <= leaves_.size(r.leaf) - r.byte;
    if (!fits) {
      return bad_ranges("ranges within the files",
                        fmt::format("byte {} of file {}", r.byte, r.leaf));
    }
  }
  // The usual case: nothing has changed since.
  if (known == left_out_) {
    return {};
  }
  const left_out_list found = std::exchange(left_out_, std::move(known));
  WEIR_CHECK(place_runs());
  // The place of the cursor in the files, by the ranges of the cursor.
  const place at = place_of(index);
  for (const left_out_range& r : found.all()) {
    // The range lies behind the cursor.
    if (r.leaf != at.leaf ? r.leaf > at.leaf : r.byte >= at.byte) {
      WEIR_CHECK(left_out_.add(r, leaves_.name(r.leaf)));
    }
  }
  return place_runs();
}

/// Returns the bytes of a leaf for which a range stands.
///
/// `asked` counts ids from the begin of the file's text; a header of the file does not
/// count.
result<left_out_range> token_set::range_in(std::uint64_t leaf,
                                           const file_range& asked) const {
  std::uint64_t first = ~std::uint64_t{0};
  std::uint64_t end = 0;
  const std::uint64_t width = layouts_[leaf].ids.bytes;
  for (const token_run& r : layouts_[leaf].runs) {
    first = std::min(first, r.byte);
    end = std::max(end, r.byte + r.tokens * width);
  }
  const std::uint64_t count = end > first ? (end - first) / width : 0;
  // An empty range is refused as well.
  if (asked.begin >= asked.end || asked.end > count) {
    return outside_of_file(asked, leaves_.name(leaf), count);
  }
  return left_out_range{leaf, first + asked.begin * width,
                        (asked.end - asked.begin) * width, true};
}

/// Returns the bytes for which a range stands, in each leaf that is its file.
///
/// A name may stand for several files of the source.
result<std::vector<left_out_range>> token_set::ranges_of(const file_range& asked) const {
  std::vector<std::string> paths;
  for (std::size_t leaf = 0; leaf < leaves_.count(); ++leaf) {
    paths.push_back(leaves_.path(leaf));
  }
  WEIR_TRY(const auto numbers, files_of(asked, paths));
  std::vector<left_out_range> out;
  for (const std::uint64_t leaf : numbers) {
    WEIR_TRY(const left_out_range range, range_in(leaf, asked));
    out.push_back(range);
  }
  return out;
}

/// Returns the index of the first token in a range; the largest number if all of them are
/// left out.
std::uint64_t token_set::first_token_in(const left_out_range& range) const {
  std::uint64_t first = unknown_size;
  for (const run& r : runs_) {
    const std::uint64_t width = layouts_[r.leaf].ids.bytes;
    // The part of the run that lies inside the range.
    const std::uint64_t begin = std::max(r.byte, range.byte);
    const std::uint64_t end = std::min(byte_in(r, r.tokens), range.byte + range.bytes);
    if (r.leaf == range.leaf && begin < end) {
      first = std::min(first, r.start + (begin - r.byte) / width);
    }
  }
  return first;
}

/// Leaves the ranges out that the user names. Those that a cursor knows stay as they are,
/// and others must lie behind the tokens before `index`.
result<void> token_set::leave_out(std::uint64_t index) {
  if (options_.skip.empty()) {
    return {};
  }
  for (const file_range& asked : options_.skip) {
    WEIR_TRY(const auto ranges, ranges_of(asked));
    for (const left_out_range& range : ranges) {
      // Parts of the range that are not left out already.
      for (const left_out_range& part : left_out_.outside(range, true)) {
        // What was consumed cannot be left out afterwards.
        if (first_token_in(part) < index) {
          return consumed_range(part, leaves_.name(part.leaf));
        }
        WEIR_CHECK(left_out_.add(part, leaves_.name(part.leaf)));
      }
    }
  }
  const std::uint64_t before = std::min(index, size_);
  WEIR_CHECK(place_runs());
  // All text behind the cursor is gone, and the separator that was consumed would be
  // missing.
  if (size_ < before) {
    return nothing_behind(leaves_.name(runs_.back().leaf));
  }
  // Digests of the whole content have other segments than the text without the ranges.
  if (segment_tokens_ == 0 && left_out_.any_by_hand()) {
    segment_tokens_ = consumed_segment(identity_.tokens);
  }
  return {};
}

/// Called when a stream begins at `index` or goes on there.
result<void> token_set::go_on_at(std::uint64_t index) {
  return leave_out(index);
}

/// The ranges of files do not depend on the place.
std::vector<left_out_range> token_set::left_out(std::uint64_t /*index*/) const {
  return {left_out_.all().begin(), left_out_.all().end()};
}

}  // namespace weir::storage
