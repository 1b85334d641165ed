// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which blocks are taken, and the small writes that stores and removals share.
#pragma once

#include <functional>

#include "hn4/core.hpp"

namespace weir::storage::hn4 {

[[nodiscard]] bool is_root(const anchor& a) noexcept;

/// Visits the blocks of a live entry, those of its long name included. For shards of
/// other writers, only blocks that bear their identity count, on whatever orbit.
void for_each_block(const core& c, const anchor& a,
                    const std::function<void(std::uint64_t)>& visit);
/// Bits as they should be: of the directory alone where every shard is ours, so that bits
/// which an interrupted store left are free again; else those on disk as well.
[[nodiscard]] block_bits allocation_of(const core& c);
/// Clears the bits of entries that end, but for those that another live entry or the
/// volume itself claims.
void free_blocks(const core& c, const std::vector<entry>& gone, block_bits& bits);
struct free_run {
  std::uint64_t first = 0;
  std::uint64_t blocks = 0;
};
/// The first run of free blocks in [begin, end) that has so many, cut to them; else the
/// longest.
[[nodiscard]] free_run free_run_in(const block_bits& bits, std::uint64_t begin,
                                   std::uint64_t end, std::uint64_t blocks) noexcept;
/// First block that data may not use.
[[nodiscard]] std::uint64_t end_of_data(const hn4_geometry& g) noexcept;

/// Writes the sectors of the bitmap in which `to` differs from `from`.
[[nodiscard]] result<void> write_bits(core& c, const block_bits& from,
                                      const block_bits& to);
[[nodiscard]] result<void> write_anchor(core& c, const anchor& a, std::uint64_t slot);
/// The entry keeps its identity only, as the reference's reaper leaves it: nothing in it
/// can be taken for a live shard's, whatever byte of it is damaged later.
[[nodiscard]] anchor buried(anchor a);
/// Puts changed and new entries, one per slot, into the directory in memory.
void adopt_entries(core& c, std::vector<entry> changed);
/// After a failed write the state of the device is unknown: no more writing.
[[nodiscard]] error write_failed(core& c, std::string what, error cause);

}  // namespace weir::storage::hn4
