// SPDX-License-Identifier: Apache-2.0
/// @file
/// The ledger of valid copies: which holders have the present bytes of a storage.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// Number of a holder of copies: a place of one process, or a rank of several.
using holder_id = std::uint32_t;

/// A set of holders, kept as ranges of their numbers. Most sets are one holder, a few
/// neighbours or all holders, so a set takes the same memory for any number of holders.
/// @threads{thread-compatible}
class holder_set {
 public:
  /// Makes an empty set.
  holder_set() = default;
  /// Makes the set of one holder.
  explicit holder_set(holder_id only) : first_{only, only} {}
  /// Returns true if the holder is in the set.
  [[nodiscard]] bool contains(holder_id holder) const noexcept;
  /// Adds the holders from `first` to `last`. @pre first <= last
  void add(holder_id first, holder_id last);
  friend bool operator==(const holder_set&, const holder_set&) = default;

 private:
  /// Holders from `first` to `last`; none if `last` is smaller.
  struct range {
    holder_id first = 1;
    holder_id last = 0;
    friend bool operator==(const range&, const range&) = default;
  };
  range first_;              ///< range with the smallest numbers
  std::vector<range> more_;  ///< others, ascending, with gaps between them
};

/// Bytes that a holder lacks and another holder has.
struct missing_piece {
  footprint bytes;     ///< bytes in the storage, the same offsets for both holders
  holder_id from = 0;  ///< holder that has all of them
};

/// Knows for each byte of a storage which holders have its present value, and which of
/// them wrote it. The answers are exact: no byte is copied twice, none is forgotten.
/// Neighbouring bytes with the same holders and writer are one segment; an access takes a
/// look-up for each of its blocks that do not lie in one segment together.
///
/// The ledger of one of many holders, the viewer, keeps only what concerns the viewer:
/// all holders of bytes that it wrote, and whether it holds the bytes of others. Bytes
/// that one other holder wrote are then one segment, whoever has copies of them.
/// @invariant the writer of each byte is one of its holders
/// @threads{thread-compatible; calls that are const change a hint, too, so that they must
/// not overlap either}
class copy_ledger {
 public:
  /// Largest number of holders.
  static constexpr holder_id max_holders = 65'536;

  /// Makes the ledger of a storage whose bytes one holder has. @units{size: bytes}
  /// @pre size >= 0, first < max_holders
  copy_ledger(std::int64_t size, holder_id first);
  /// Makes the ledger as a viewer keeps it. @units{size: bytes}
  /// @pre size >= 0, first < max_holders, viewer < max_holders
  copy_ledger(std::int64_t size, holder_id first, holder_id viewer);

  /// Adds the bytes that `holder` lacks to `out`, as few footprints as equal distances
  /// allow. Each piece comes from the holder that wrote it. If there is a viewer, the
  /// pieces of other holders are only those that the viewer wrote.
  /// @pre the bytes lie in the storage
  void find_missing(const footprint& bytes, holder_id holder,
                    std::vector<missing_piece>& out) const;
  /// Returns true if the holder has all of the bytes.
  /// @pre there is no viewer, or it is the holder
  [[nodiscard]] bool holds(const footprint& bytes, holder_id holder) const;
  /// Returns true if `find_missing` might find a piece of any bytes in [lo, hi), and
  /// false if it would find none. @units{bytes}
  [[nodiscard]] bool may_lack(std::int64_t lo, std::int64_t hi, holder_id holder) const;
  /// Returns true if `wrote` would change nothing for any bytes in [lo, hi). False may
  /// also mean that this was not decided. @units{bytes}
  [[nodiscard]] bool has_only(std::int64_t lo, std::int64_t hi, holder_id holder) const;
  /// Notes that the holder has a copy of the bytes from now on.
  void copied(const footprint& bytes, holder_id holder) { copied(bytes, holder, holder); }
  /// Notes that the holders from `first` to `last` have copies of the bytes from now on.
  /// @pre first <= last
  void copied(const footprint& bytes, holder_id first, holder_id last);
  /// Notes that the holder has changed the bytes, so that no other has them.
  void wrote(const footprint& bytes, holder_id holder);
  /// Notes that after a failure only the writer of each byte is known to have it, because
  /// copies may have failed.
  void forget_copies() noexcept;
  /// Returns the number of segments.
  [[nodiscard]] std::size_t segments() const noexcept { return segments_.size(); }

 private:
  struct segment {
    holder_set holders;  ///< holders that have the bytes, as far as they are kept
    holder_id writer = 0;
    friend bool operator==(const segment&, const segment&) = default;
  };
  using segment_map = std::map<std::int64_t, segment>;
  /// The bytes from `lo` to `hi`, without the last one.
  struct byte_range {
    std::int64_t lo;
    std::int64_t hi;
  };
  /// The segment that was found last. A copy of a ledger has other segments, so it begins
  /// without one.
  struct last_found {
    last_found() = default;
    last_found(const last_found& /*other*/) noexcept {}
    last_found& operator=(const last_found& /*other*/) noexcept {
      at.reset();
      return *this;
    }
    std::optional<segment_map::const_iterator> at;
  };

  [[nodiscard]] segment_map::const_iterator segment_of(std::int64_t byte) const;
  [[nodiscard]] std::int64_t end_of(segment_map::const_iterator at) const;
  [[nodiscard]] bool is_missing(const segment& one, holder_id holder) const noexcept;
  template <class Property>
  [[nodiscard]] byte_range range_of(const footprint& bytes, Property&& has) const;
  segment_map::iterator split(std::int64_t byte);
  template <class Change>
  void change(const footprint& bytes, Change&& next);
  template <class Change>
  void change_run(std::int64_t lo, std::int64_t hi, Change&& next);

  segment_map segments_;  ///< segments by their first bytes
  std::int64_t size_;
  std::optional<holder_id> viewer_;
  mutable last_found hint_;
};

}  // namespace weir::runtime
