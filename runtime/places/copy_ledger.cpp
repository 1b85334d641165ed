// SPDX-License-Identifier: Apache-2.0
/// @file
/// The ledger of valid copies: a sorted map of segments whose bytes have the same
/// holders and the same writer.
///
/// Each byte has a writer, which has the newest bytes, and holders that have them as
/// well. Segments that become equal to their neighbours are joined, so the map stays
/// small.
///
/// Why a viewer may forget who else has copies: a piece comes from the writer of its
/// bytes, so a holder takes part in a piece only if it lacks the bytes or wrote them.
#include "weir/runtime/copy_ledger.hpp"

#include <algorithm>
#include <iterator>

#include "places/byte_runs.hpp"

namespace weir::runtime {
namespace {

/// A missing block and the holder that has it.
struct sourced_run {
  byte_run bytes;
  holder_id from;
};

/// Adds a block to a list, or lengthens the last one. Called with ascending blocks.
void append_run(std::vector<sourced_run>& runs, const sourced_run& next) {
  if (!runs.empty() && runs.back().from == next.from &&
      runs.back().bytes.hi == next.bytes.lo) {
    runs.back().bytes.hi = next.bytes.hi;
  } else {
    runs.push_back(next);
  }
}

/// Returns true if all bytes of the blocks are missing and one holder has them. Then the
/// whole footprint can be copied as it is.
bool are_all_of_one(const std::vector<sourced_run>& lacking,
                    const std::vector<byte_run>& all) {
  std::int64_t wanted = 0;
  for (const byte_run& run : all) {
    wanted += run.hi - run.lo;
  }
  for (const sourced_run& one : lacking) {
    wanted -= one.from == lacking.front().from ? one.bytes.hi - one.bytes.lo : 0;
  }
  return wanted == 0;
}

}  // namespace

/// Few ranges are searched one by one.
bool holder_set::contains(holder_id holder) const noexcept {
  const auto in = [holder](const range& one) {
    return one.first <= holder && holder <= one.last;
  };
  return in(first_) || std::any_of(more_.begin(), more_.end(), in);
}

/// Ranges that touch become one, so that equal sets are equal objects.
void holder_set::add(holder_id first, holder_id last) {
  WEIR_EXPECT(first <= last && last < copy_ledger::max_holders);
  range added{first, last};
  if (first_.first > first_.last) {  // an empty set
    first_ = added;
    return;
  }
  std::vector<range> all;
  const auto take = [&](const range& one) {
    if (one.first <= added.last + 1 && added.first <= one.last + 1) {
      added = {std::min(one.first, added.first), std::max(one.last, added.last)};
    } else {
      all.push_back(one);
    }
  };
  take(first_);
  std::for_each(more_.begin(), more_.end(), take);
  if (all.empty()) {  // the usual case: one range, which takes no memory
    first_ = added;
    more_.clear();
    return;
  }
  const auto place = std::find_if(all.begin(), all.end(), [&added](const range& one) {
    return added.first < one.first;
  });
  all.insert(place, added);
  first_ = all.front();
  all.erase(all.begin());
  more_ = std::move(all);
}

/// At first all bytes are those of `first`.
copy_ledger::copy_ledger(std::int64_t size, holder_id first) : size_(size) {
  WEIR_EXPECT(size >= 0 && first < max_holders);
  segments_.emplace(0, segment{holder_set(first), first});
}

copy_ledger::copy_ledger(std::int64_t size, holder_id first, holder_id viewer)
    : copy_ledger(size, first) {
  WEIR_EXPECT(viewer < max_holders);
  viewer_ = viewer;
}

/// The segment that contains the byte. Calls for ascending bytes, one for each of many
/// holders, find it beside the one before.
copy_ledger::segment_map::const_iterator copy_ledger::segment_of(
    std::int64_t byte) const {
  if (hint_.at && (*hint_.at)->first <= byte) {
    auto at = *hint_.at;
    for (int tries = 0; tries < 2; ++tries) {
      const auto next = std::next(at);
      if (next == segments_.end() || byte < next->first) {
        hint_.at = at;
        return at;
      }
      at = next;
    }
  }
  const auto found = std::prev(segments_.upper_bound(byte));
  hint_.at = found;
  return found;
}

/// First byte behind the segment.
std::int64_t copy_ledger::end_of(segment_map::const_iterator at) const {
  const auto next = std::next(at);
  return next == segments_.end() ? size_ : next->first;
}

/// A viewer does not know who else has copies of the bytes of others, and need not.
bool copy_ledger::is_missing(const segment& one, holder_id holder) const noexcept {
  return !one.holders.contains(holder) &&
         (!viewer_ || holder == *viewer_ || one.writer == *viewer_);
}

/// Returns the range from the first to the last byte of a footprint, gaps included, whose
/// segment has a property; lo >= hi if there is none. If more segments lie between the
/// bytes than the footprint has blocks, as between the columns of many ranks, returns the
/// whole range without a further look: the caller looks at each block then.
template <class Property>
copy_ledger::byte_range copy_ledger::range_of(const footprint& bytes,
                                              Property&& has) const {
  byte_range range{bytes.hi, bytes.lo};
  std::int64_t left = block_count(bytes) + 1;
  for (auto it = segment_of(bytes.lo); it != segments_.end() && it->first < bytes.hi;
       ++it) {
    if (left-- == 0) {
      return {bytes.lo, bytes.hi};
    }
    if (has(it->second)) {
      range.lo = std::min(range.lo, std::max(it->first, bytes.lo));
      range.hi = std::min(end_of(it), bytes.hi);
    }
  }
  return range;
}

/// Most accesses need no look at their blocks, because no segment around them lacks
/// bytes.
///
/// The pieces depend on the bytes of the footprint alone, and not on those between its
/// blocks: ranks that replay steps take the pieces that they have recorded, while others
/// ask the ledger again, and both must find the same ones.
void copy_ledger::find_missing(const footprint& bytes, holder_id holder,
                               std::vector<missing_piece>& out) const {
  if (bytes.empty()) {
    return;
  }
  WEIR_EXPECT(bytes.lo >= 0 && bytes.hi <= size_);
  const auto lacks = [&](const segment& one) { return is_missing(one, holder); };
  if (const byte_range range = range_of(bytes, lacks); range.lo >= range.hi) {
    return;
  }
  // One segment has all bytes.
  if (const auto all = segment_of(bytes.lo); end_of(all) >= bytes.hi) {
    out.push_back({bytes, all->second.writer});
    return;
  }
  // Collects the missing parts of the blocks, each with the writer of its segment as
  // source.
  std::vector<sourced_run> lacking;
  std::vector<holder_id> sources;
  const std::vector<byte_run> runs = runs_of(bytes);
  for (const byte_run& run : runs) {
    // All segments that the block touches.
    for (auto it = segment_of(run.lo); it != segments_.end() && it->first < run.hi;
         ++it) {
      if (is_missing(it->second, holder)) {
        append_run(lacking, {{std::max(run.lo, it->first), std::min(run.hi, end_of(it))},
                             it->second.writer});
        sources.push_back(it->second.writer);
      }
    }
  }
  if (!lacking.empty() && are_all_of_one(lacking, runs)) {
    out.push_back({bytes, lacking.front().from});
    return;
  }
  // Otherwise the blocks of each source are gathered into footprints.
  std::sort(sources.begin(), sources.end());
  sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
  std::vector<byte_run> same;
  std::vector<footprint> gathered;
  for (const holder_id from : sources) {
    same.clear();
    gathered.clear();
    for (const sourced_run& run : lacking) {
      if (run.from == from) {
        same.push_back(run.bytes);
      }
    }
    gather_runs(bytes.id, same, gathered);
    for (const footprint& piece : gathered) {
      out.push_back({piece, from});
    }
  }
}

/// True if nothing is missing.
bool copy_ledger::holds(const footprint& bytes, holder_id holder) const {
  WEIR_EXPECT(!viewer_ || holder == *viewer_);
  std::vector<missing_piece> missing;
  find_missing(bytes, holder, missing);
  return missing.empty();
}

/// Looks at all segments in the range.
bool copy_ledger::may_lack(std::int64_t lo, std::int64_t hi, holder_id holder) const {
  if (lo >= hi) {
    return false;
  }
  for (auto it = segment_of(lo); it != segments_.end() && it->first < hi; ++it) {
    if (is_missing(it->second, holder)) {
      return true;
    }
  }
  return false;
}

/// Decided for bytes of one segment only.
bool copy_ledger::has_only(std::int64_t lo, std::int64_t hi, holder_id holder) const {
  if (lo >= hi) {
    return true;
  }
  const auto all = segment_of(lo);
  return end_of(all) >= hi && all->second.writer == holder &&
         all->second.holders == holder_set(holder);
}

/// The holders have the newest bytes now, as others do.
void copy_ledger::copied(const footprint& bytes, holder_id first, holder_id last) {
  change(bytes, [&](const segment& before) {
    segment after = before;
    if (!viewer_ || before.writer == *viewer_) {
      after.holders.add(first, last);
    } else if (first <= *viewer_ && *viewer_ <= last) {
      after.holders.add(*viewer_, *viewer_);
    }
    return after;
  });
}

/// Only this holder has the newest bytes.
void copy_ledger::wrote(const footprint& bytes, holder_id holder) {
  WEIR_EXPECT(holder < max_holders);
  change(bytes,
         [next = segment{holder_set(holder), holder}](const segment&) { return next; });
}

/// After a failure nobody knows which copies were made. The writers keep their bytes.
void copy_ledger::forget_copies() noexcept {
  hint_.at.reset();
  auto last = segments_.begin();
  last->second.holders = holder_set(last->second.writer);
  for (auto it = std::next(last); it != segments_.end();) {
    it->second.holders = holder_set(it->second.writer);
    if (it->second == last->second) {
      it = segments_.erase(it);
    } else {
      last = it++;
    }
  }
}

/// Returns the segment that begins at a byte, after cutting the one that it lies in.
copy_ledger::segment_map::iterator copy_ledger::split(std::int64_t byte) {
  if (byte == size_) {
    return segments_.end();
  }
  const auto after = segments_.upper_bound(byte);
  const auto in = std::prev(after);
  return in->first == byte ? in : segments_.emplace_hint(after, byte, in->second);
}

/// Changes the segments of all bytes of a footprint, unless they are as wanted already.
/// `next` returns the new value of a segment from its old one. Most changes repeat what
/// the ledger says already, as in a loop, and of the others most concern one of many
/// blocks: the row of a tile that another rank has copied.
template <class Change>
void copy_ledger::change(const footprint& bytes, Change&& next) {
  if (bytes.empty()) {
    return;
  }
  WEIR_EXPECT(bytes.lo >= 0 && bytes.hi <= size_);
  const auto is_wanted = [&](const segment& one) { return next(one) == one; };
  const byte_range range =
      range_of(bytes, [&](const segment& one) { return !is_wanted(one); });
  for_each_run_near(bytes, range.lo, range.hi, [&](std::int64_t lo, std::int64_t hi) {
    const auto all = segment_of(lo);
    if (end_of(all) < hi || !is_wanted(all->second)) {
      change_run(lo, hi, next);
    }
  });
}

/// Changes one block, and joins neighbouring segments that have become equal.
template <class Change>
void copy_ledger::change_run(std::int64_t lo, std::int64_t hi, Change&& next) {
  hint_.at.reset();  // its segment may be joined with another one
  auto it = split(lo);
  const auto end = split(hi);
  for (auto one = it; one != end; ++one) {
    one->second = next(one->second);
  }
  // The segment before may be equal now, too.
  if (it != segments_.begin()) {
    it = std::prev(it);
  }
  for (auto after = std::next(it); after != segments_.end() && after->first <= hi;
       after = std::next(it)) {
    if (after->second == it->second) {
      segments_.erase(after);
    } else {
      it = after;
    }
  }
}

}  // namespace weir::runtime
