// SPDX-License-Identifier: Apache-2.0
/// @file
/// The ledger of valid copies: a sorted map of segments whose bytes have the same
/// holders.
#include "weir/runtime/copy_ledger.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

#include "places/byte_runs.hpp"

namespace weir::runtime {
namespace {

/// Returns the mask of one holder.
std::uint64_t bit_of(holder_id holder) {
  WEIR_EXPECT(holder < copy_ledger::max_holders);
  return std::uint64_t{1} << holder;
}

/// Returns the holder with the lowest number.
holder_id lowest(std::uint64_t holders) {
  return static_cast<holder_id>(std::countr_zero(holders));
}

/// A missing block and the holder that has it.
struct sourced_run {
  byte_run bytes;
  holder_id from;
};

/// Adds a block to a list, or lengthens the last one.
void append(std::vector<sourced_run>& runs, const sourced_run& next) {
  if (!runs.empty() && runs.back().from == next.from &&
      runs.back().bytes.hi == next.bytes.lo) {
    runs.back().bytes.hi = next.bytes.hi;
  } else {
    runs.push_back(next);
  }
}

}  // namespace

copy_ledger::copy_ledger(std::int64_t size, holder_id first) : size_(size) {
  WEIR_EXPECT(size >= 0);
  holders_.emplace(0, bit_of(first));
}

copy_ledger::segment_map::const_iterator copy_ledger::segment_of(
    std::int64_t byte) const {
  return std::prev(holders_.upper_bound(byte));
}

std::int64_t copy_ledger::end_of(segment_map::const_iterator segment) const {
  const auto next = std::next(segment);
  return next == holders_.end() ? size_ : next->first;
}

/// Most accesses lie in one segment and need no look at their blocks.
void copy_ledger::find_missing(const footprint& bytes, holder_id holder,
                               std::vector<missing_piece>& out) const {
  if (bytes.empty()) {
    return;
  }
  WEIR_EXPECT(bytes.lo >= 0 && bytes.hi <= size_);
  const mask own = bit_of(holder);
  if (const auto all = segment_of(bytes.lo); end_of(all) >= bytes.hi) {
    if ((all->second & own) == 0) {
      out.push_back({bytes, lowest(all->second)});
    }
    return;
  }
  std::vector<sourced_run> lacking;
  for (const byte_run& run : runs_of(bytes)) {
    for (auto it = segment_of(run.lo); it != holders_.end() && it->first < run.hi; ++it) {
      if ((it->second & own) == 0) {
        append(lacking, {{std::max(run.lo, it->first), std::min(run.hi, end_of(it))},
                         lowest(it->second)});
      }
    }
  }
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

bool copy_ledger::holds(const footprint& bytes, holder_id holder) const {
  std::vector<missing_piece> missing;
  find_missing(bytes, holder, missing);
  return missing.empty();
}

void copy_ledger::copied(const footprint& bytes, holder_id holder) {
  change(bytes, [own = bit_of(holder)](mask before) { return before | own; });
}

void copy_ledger::wrote(const footprint& bytes, holder_id holder) {
  change(bytes, [own = bit_of(holder)](mask) { return own; });
}

/// Returns the segment that begins at a byte, after cutting the one that it lies in.
copy_ledger::segment_map::iterator copy_ledger::split(std::int64_t byte) {
  if (byte == size_) {
    return holders_.end();
  }
  const auto after = holders_.upper_bound(byte);
  const auto in = std::prev(after);
  return in->first == byte ? in : holders_.emplace_hint(after, byte, in->second);
}

/// Changes the holders of all bytes of a footprint, unless they have those already.
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
  if (it != holders_.begin()) {
    it = std::prev(it);
  }
  for (auto after = std::next(it); after != holders_.end() && after->first <= hi;
       after = std::next(it)) {
    if (after->second == it->second) {
      holders_.erase(after);
    } else {
      it = after;
    }
  }
}

}  // namespace weir::runtime
