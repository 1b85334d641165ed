// SPDX-License-Identifier: Apache-2.0
/// @file
/// The ledger of valid copies: a sorted map of segments whose bytes have the same
/// holders and the same writer.
///
/// Each byte has a writer, which has the newest bytes, and holders that have them as
/// well. Segments that become equal to their neighbours are joined, so the map stays
/// small.
#include "weir/runtime/copy_ledger.hpp"

#include <algorithm>
#include <iterator>

#include "places/byte_runs.hpp"

namespace weir::runtime {
namespace {

/// Returns the mask of one holder. The mask has one bit per holder, which limits their
/// number.
std::uint64_t bit_of(holder_id holder) {
  WEIR_EXPECT(holder < copy_ledger::max_holders);
  return std::uint64_t{1} << holder;
}

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

/// At first all bytes are those of `first`.
copy_ledger::copy_ledger(std::int64_t size, holder_id first) : size_(size) {
  WEIR_EXPECT(size >= 0);
  segments_.emplace(0, segment{bit_of(first), first});
}

/// The segment that contains the byte.
copy_ledger::segment_map::const_iterator copy_ledger::segment_of(
    std::int64_t byte) const {
  return std::prev(segments_.upper_bound(byte));
}

/// First byte behind the segment.
std::int64_t copy_ledger::end_of(segment_map::const_iterator at) const {
  const auto next = std::next(at);
  return next == segments_.end() ? size_ : next->first;
}

/// Most accesses lie in one segment and need no look at their blocks.
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
  const std::uint64_t own = bit_of(holder);
  // The usual case: one segment has all bytes.
  if (const auto all = segment_of(bytes.lo); end_of(all) >= bytes.hi) {
    if ((all->second.holders & own) == 0) {
      out.push_back({bytes, all->second.writer});
    }
    return;
  }
  // Collects the missing parts of the blocks, each with the writer of its segment as
  // source.
  std::vector<sourced_run> lacking;
  const std::vector<byte_run> runs = runs_of(bytes);
  for (const byte_run& run : runs) {
    // All segments that the block touches.
    for (auto it = segment_of(run.lo); it != segments_.end() && it->first < run.hi;
         ++it) {
      if ((it->second.holders & own) == 0) {
        append_run(lacking, {{std::max(run.lo, it->first), std::min(run.hi, end_of(it))},
                             it->second.writer});
      }
    }
  }
  if (!lacking.empty() && are_all_of_one(lacking, runs)) {
    out.push_back({bytes, lacking.front().from});
    return;
  }
  // Otherwise the blocks of each holder are gathered into footprints.
  std::vector<byte_run> same;
  std::vector<footprint> gathered;
  for (holder_id from = 0; from < max_holders; ++from) {
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
  std::vector<missing_piece> missing;
  find_missing(bytes, holder, missing);
  return missing.empty();
}

/// The holder has the newest bytes now, as others do.
void copy_ledger::copied(const footprint& bytes, holder_id holder) {
  change(bytes, [own = bit_of(holder)](const segment& before) {
    return segment{before.holders | own, before.writer};
  });
}

/// Only this holder has the newest bytes.
void copy_ledger::wrote(const footprint& bytes, holder_id holder) {
  change(bytes,
         [next = segment{bit_of(holder), holder}](const segment&) { return next; });
}

/// After a failure nobody knows which copies were made. The writers keep their bytes.
void copy_ledger::forget_copies() noexcept {
  auto last = segments_.begin();
  last->second.holders = bit_of(last->second.writer);
  for (auto it = std::next(last); it != segments_.end();) {
    it->second.holders = bit_of(it->second.writer);
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
/// the ledger says already, as in a loop, and are found without cutting anything.
template <class Change>
void copy_ledger::change(const footprint& bytes, Change&& next) {
  if (bytes.empty()) {
    return;
  }
  WEIR_EXPECT(bytes.lo >= 0 && bytes.hi <= size_);
  if (const auto all = segment_of(bytes.lo);
      end_of(all) >= bytes.hi && next(all->second) == all->second) {
    return;
  }
  for_each_run(bytes,
               [&](std::int64_t lo, std::int64_t hi) { change_run(lo, hi, next); });
}

/// Changes one block, and joins neighbouring segments that have become equal.
template <class Change>
void copy_ledger::change_run(std::int64_t lo, std::int64_t hi, Change&& next) {
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
