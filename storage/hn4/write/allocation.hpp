// SPDX-License-Identifier: Apache-2.0
/// @file
/// Allocation of blocks, and the small writes that stores and removals share.
#pragma once

#include <functional>

#include "hn4/directory/directory.hpp"

namespace weir::storage::hn4 {

/// Returns whether an entry is the root, which stands for the volume itself.
[[nodiscard]] bool is_root(const anchor& a) noexcept;

/// Visits the blocks of an entry, the block of its long name included. For a shard of
/// another writer, these are the blocks that bear its identity, on any orbit.
void for_each_block(const core& c, const anchor& a,
                    const std::function<void(std::uint64_t)>& visit);
/// Returns the bits with which an object that may write begins: the bits on the device
/// and those of all live entries, without those that are set in vain. A bit is set in
/// vain if its block belongs to a removed shard of this writer, or if the block holds
/// nothing while all shards are from this writer and none is lost.
/// @error{io, a read failed}
[[nodiscard]] result<block_bits> allocation_of(const core& c);
/// Clears the bits of entries that end, except for blocks that another live entry or the
/// volume itself uses.
void free_blocks(const core& c, const std::vector<entry>& gone, block_bits& bits);
/// Consecutive free blocks.
struct free_run {
  std::uint64_t first = 0;
  std::uint64_t blocks = 0;
};
/// Returns the first run of at least `blocks` free blocks in [begin, end), cut to that
/// length. If there is none, it returns the longest run.
[[nodiscard]] free_run free_run_in(const block_bits& bits, std::uint64_t begin,
                                   std::uint64_t end, std::uint64_t blocks) noexcept;
/// Returns the first block behind those that may hold data.
[[nodiscard]] std::uint64_t end_of_data(const hn4_geometry& g) noexcept;

/// Writes the sectors of the bitmap that differ from the device, and makes them durable.
/// @error{io, a write failed}
[[nodiscard]] result<void> write_bits(core& c, const block_bits& bits);
/// Writes one entry without making it durable. @error{io, the write failed}
[[nodiscard]] result<void> write_anchor(core& c, const anchor& a, std::uint64_t slot);
/// Writes entries, each into its slot, and makes them durable. @error{io, a write failed}
[[nodiscard]] result<void> write_entries(core& c, const std::vector<entry>& entries);
/// Returns entries as they remain after their end.
[[nodiscard]] std::vector<entry> as_tombstones(std::vector<entry> entries);
/// Returns what remains of an entry after its end: only its identity, as the reference
/// implementation leaves it. Whichever byte of it is damaged later, it cannot be mistaken
/// for a live shard.
[[nodiscard]] anchor as_tombstone(anchor a);
/// Clears the bits of long names whose entries the tag has lost. No entry names them any
/// more, so nothing else would free them. @error{io, a read failed}
[[nodiscard]] result<void> free_lost_names(const core& c, std::string_view tag,
                                           const resolved_tag& found, block_bits& bits);
/// Returns whether the slot of an entry may be given to another one.
[[nodiscard]] bool is_reusable(const anchor& a) noexcept;
/// Makes tombstones for shards of this writer that a tag has lost without a trace in the
/// directory, so that their blocks are known to be free. They go into slots that are not
/// in `used`. @error{no_space, the directory has no free slot}
[[nodiscard]] result<std::vector<entry>> tombstones_of(const core& c,
                                                       const resolved_tag& found,
                                                       std::set<std::uint64_t> used);
/// Replaces or adds entries, one per slot, in the directory in memory.
void adopt_entries(core& c, std::vector<entry> changed);
/// Determines what killed processes have left undone, and applies it to the directory and
/// the bits in memory. Nothing is written. @error{io, a read failed}
[[nodiscard]] result<void> find_unfinished(core& c);
/// Writes what `find_unfinished` has found. Every verb calls it before its first own
/// write. @error{io, a write failed}
[[nodiscard]] result<void> finish(core& c);
/// Makes the error for a failed write and forbids further ones: which writes have reached
/// the device is unknown.
[[nodiscard]] error write_failed(core& c, std::string action, error cause);

}  // namespace weir::storage::hn4
