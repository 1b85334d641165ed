// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds ranges that cannot be read as tokens, so that they are left out.
#include <fmt/core.h>

#include <algorithm>

#include "context/files/token_set.hpp"

namespace weir::storage {

namespace {

/// Number of ids that are looked at together.
constexpr std::uint64_t look_ids = 65536;

bool lies_before(const damaged_range& a, const damaged_range& b) {
  return a.leaf != b.leaf ? a.leaf < b.leaf : a.byte < b.byte;
}

error bad_ranges(std::string_view expected, std::string_view found) {
  return error(errc::corrupt,
               fmt::format("cannot restore damaged ranges: expected {}, found {}",
                           expected, found));
}

}  // namespace

/// Ranges are found in the order of the leaves. Runs of a leaf may lie in any order.
result<void> token_set::find_damage() {
  for (std::uint64_t leaf = 0; leaf < layouts_.size(); ++leaf) {
    for (const token_run& r : layouts_[leaf].runs) {
      WEIR_CHECK(look_at(leaf, r));
    }
  }
  return {};
}

result<void> token_set::look_at(std::uint64_t leaf, const token_run& r) {
  const std::uint64_t width = layouts_[leaf].ids.bytes;
  const std::uint64_t end = r.byte + r.tokens * width;
  for (std::uint64_t at = r.byte; at < end;) {
    const std::uint64_t count = std::min(end - at, look_ids * width);
    WEIR_TRY(const auto part, leaves_.probe(leaf, at, static_cast<std::size_t>(count)));
    const std::uint64_t sound = part.sound / width * width;
    WEIR_CHECK(look_at_ids(leaf, at, sound / width));
    at += sound;
    if (sound < count) {
      // An id that lies in the damaged range in part is left out, too.
      const std::uint64_t units = (part.end - at + width - 1) / width;
      const std::uint64_t behind = std::min(end, at + units * width);
      WEIR_CHECK(add_damage({leaf, at, behind - at}));
      at = behind;
    }
  }
  return {};
}

/// Finds ids that are not below the vocabulary.
result<void> token_set::look_at_ids(std::uint64_t leaf, std::uint64_t byte,
                                    std::uint64_t count) {
  const id_encoding ids = layouts_[leaf].ids;
  byte_vector bytes(static_cast<std::size_t>(count) * ids.bytes);
  std::vector<std::uint32_t> wide(static_cast<std::size_t>(count));
  WEIR_CHECK(leaves_.read(leaf, byte, bytes));
  if (widen_ids(ids, bytes, wide) < vocabulary_) {
    return {};
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (wide[static_cast<std::size_t>(i)] >= vocabulary_) {
      WEIR_CHECK(add_damage({leaf, byte + i * ids.bytes, ids.bytes}));
    }
  }
  return {};
}

/// Adds a range, or extends the ranges that it touches.
result<void> token_set::add_damage(const damaged_range& found) {
  damaged_range all = found;
  const auto touches = [&](const damaged_range& d) {
    return d.leaf == all.leaf && d.byte <= all.byte + all.bytes &&
           all.byte <= d.byte + d.bytes;
  };
  for (auto d = damage_.begin(); d != damage_.end();) {
    if (touches(*d)) {
      const std::uint64_t end = std::max(d->byte + d->bytes, all.byte + all.bytes);
      all.byte = std::min(d->byte, all.byte);
      all.bytes = end - all.byte;
      d = damage_.erase(d);
    } else {
      ++d;
    }
  }
  damage_.insert(std::ranges::lower_bound(damage_, all, lies_before), all);
  if (damage_.size() > max_damaged_ranges) {
    return error(errc::out_of_range,
                 fmt::format("cannot leave damage out of \"{}\": expected at most {} "
                             "ranges, found more",
                             leaves_.name(found.leaf), max_damaged_ranges))
        .located(fmt::format("{}:{}", leaves_.name(found.leaf), found.byte))
        .hint("the format or the vocabulary of the file is probably another one");
  }
  return {};
}

/// Takes over the ranges of a cursor at token `index`. Of the ranges that were found when
/// the source was opened, only those behind the cursor are new.
result<void> token_set::take_damage(std::uint64_t index,
                                    std::vector<damaged_range> known) {
  for (const damaged_range& d : known) {
    const bool fits = d.leaf < layouts_.size() && d.bytes != 0 &&
                      d.byte < leaves_.size(d.leaf) &&
                      d.bytes <= leaves_.size(d.leaf) - d.byte;
    if (!fits) {
      return bad_ranges("ranges within the files",
                        fmt::format("byte {} of file {}", d.byte, d.leaf));
    }
  }
  if (!std::ranges::is_sorted(known, lies_before)) {
    return bad_ranges("rising offsets", "others");
  }
  if (known == damage_) {
    return {};
  }
  std::vector<damaged_range> found = std::exchange(damage_, std::move(known));
  WEIR_CHECK(place_runs());
  const place at = place_of(index);
  for (const damaged_range& d : found) {
    if (!lies_before(d, {at.leaf, at.byte, 0})) {
      WEIR_CHECK(add_damage(d));
    }
  }
  return place_runs();
}

}  // namespace weir::storage
