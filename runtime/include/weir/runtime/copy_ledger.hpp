// SPDX-License-Identifier: Apache-2.0
/// @file
/// The ledger of valid copies: which holders have the present bytes of a storage.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// Number of a holder of copies: a place of one process, or a rank of several.
using holder_id = std::uint32_t;

/// Bytes that a holder lacks and another holder has.
struct missing_piece {
  footprint bytes;     ///< bytes in the storage, the same offsets for both holders
  holder_id from = 0;  ///< holder that has all of them
};

/// Knows for each byte of a storage which holders have its present value, and which of
/// them wrote it. The answers are exact: no byte is copied twice, none is forgotten.
/// Neighbouring bytes with the same holders and writer are one segment; an access takes a
/// look-up for each of its blocks that do not lie in one segment together.
/// @invariant the writer of each byte is one of its holders
/// @threads{thread-compatible}
class copy_ledger {
 public:
  /// Largest number of holders.
  static constexpr holder_id max_holders = 64;

  /// Makes the ledger of a storage whose bytes one holder has. @units{size: bytes}
  /// @pre size >= 0, first < max_holders
  copy_ledger(std::int64_t size, holder_id first);

  /// Adds the bytes that `holder` lacks to `out`, as few footprints as equal distances
  /// allow. Each piece comes from the holder that wrote it.
  /// @pre the bytes lie in the storage
  void find_missing(const footprint& bytes, holder_id holder,
                    std::vector<missing_piece>& out) const;
  /// Returns true if the holder has all of the bytes.
  [[nodiscard]] bool holds(const footprint& bytes, holder_id holder) const;
  /// Notes that the holder has a copy of the bytes from now on.
  void copied(const footprint& bytes, holder_id holder);
  /// Notes that the holder has changed the bytes, so that no other has them.
  void wrote(const footprint& bytes, holder_id holder);
  /// Notes that after a failure only the writer of each byte is known to have it, because
  /// copies may have failed.
  void forget_copies() noexcept;
  /// Returns the number of segments.
  [[nodiscard]] std::size_t segments() const noexcept { return segments_.size(); }

 private:
  struct segment {
    std::uint64_t holders = 0;  ///< bit i: holder i has the bytes
    holder_id writer = 0;
    friend bool operator==(const segment&, const segment&) = default;
  };
  using segment_map = std::map<std::int64_t, segment>;

  [[nodiscard]] segment_map::const_iterator segment_of(std::int64_t byte) const;
  [[nodiscard]] std::int64_t end_of(segment_map::const_iterator at) const;
  segment_map::iterator split(std::int64_t byte);
  template <class Change>
  void change(const footprint& bytes, Change&& next);
  template <class Change>
  void change_run(std::int64_t lo, std::int64_t hi, Change&& next);

  segment_map segments_;  ///< segments by their first bytes
  std::int64_t size_;
};

}  // namespace weir::runtime
