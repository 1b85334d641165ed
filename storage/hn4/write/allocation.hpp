// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which blocks are taken, and the small writes that stores and removals share.
#pragma once

#include <functional>

#include "hn4/directory/directory.hpp"

namespace weir::storage::hn4 {

[[nodiscard]] bool is_root(const anchor& a) noexcept;

/// Visits the blocks of a live entry, those of its long name included. For shards of
/// other writers, only blocks that bear their identity count, on whatever orbit.
void for_each_block(const core& c, const anchor& a,
                    const std::function<void(std::uint64_t)>& visit);
/// The bits that an object that may write starts from: those on the device, those of live
/// entries too, without those that are marked in vain. A mark is in vain if its block
/// belongs to a removed shard of ours, or if it holds nothing on a volume where all
/// shards are ours and none is lost.
[[nodiscard]] result<block_bits> allocation_of(const core& c);
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

/// Writes the sectors of the bitmap in which the device differs, and waits until they are
/// durable.
[[nodiscard]] result<void> write_bits(core& c, const block_bits& bits);
[[nodiscard]] result<void> write_anchor(core& c, const anchor& a, std::uint64_t slot);
/// Writes entries, each into its slot, and waits until they are durable.
[[nodiscard]] result<void> write_entries(core& c, const std::vector<entry>& entries);
/// Turns entries that end into what remains of them.
[[nodiscard]] std::vector<entry> buried(std::vector<entry> entries);
/// The entry keeps its identity only, as the reference's reaper leaves it: nothing in it
/// can be taken for a live shard's, whatever byte of it is damaged later.
[[nodiscard]] anchor buried(anchor a);
/// Clears the bits of the long names that shards left which a tag has lost: they belong
/// to no entry.
[[nodiscard]] result<void> free_lost_names(const core& c, std::string_view tag,
                                           const resolved_tag& found, block_bits& bits);
/// Tombstones for the shards of ours that a tag has lost without a trace in the
/// directory, so that their blocks are known to be free; in slots that are not in `used`.
[[nodiscard]] std::vector<entry> tombstones_of(const core& c, const resolved_tag& found,
                                               std::set<std::uint64_t> used);
/// Puts changed and new entries, one per slot, into the directory in memory.
void adopt_entries(core& c, std::vector<entry> changed);
/// Finds out what killed verbs left to do, and takes it into the directory and the bits
/// in memory. Nothing is written.
[[nodiscard]] result<void> find_unfinished(core& c);
/// Does it: every verb calls this before its first write. @error{io}
[[nodiscard]] result<void> finish(core& c);
/// After a failed write the state of the device is unknown: no more writing.
[[nodiscard]] error write_failed(core& c, std::string what, error cause);

}  // namespace weir::storage::hn4
