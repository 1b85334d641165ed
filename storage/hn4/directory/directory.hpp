// SPDX-License-Identifier: Apache-2.0
/// @file
/// From directory entries to tags: finds the names of entries, the entries that form the
/// stream of a tag, what a tag has lost, and the traces that lost entries leave.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "hn4/core.hpp"

namespace weir::storage::hn4 {

/// Largest distance of an entry from the slot at which a look-up of it starts.
inline constexpr std::uint64_t max_probes = 1024;
/// Largest number of entries of one filter that the reference implementation looks at.
inline constexpr std::size_t max_candidates = 4096;
/// Magic number, kind, and size in bytes of the head of a block of a long name.
inline constexpr std::uint32_t chain_magic = 0x4D455441U;
inline constexpr std::uint32_t chain_long_name = 2;
inline constexpr std::size_t chain_header = 16;

/// Name of an entry.
struct full_name {
  std::string text;
  bool linked = true;  ///< false: the chain of blocks that holds a long name is broken
  /// False if the chain is broken or the name contradicts the filter of the entry.
  bool whole = true;
  /// Byte offset of the last block of the chain that was read; 0 if none.
  std::uint64_t block = 0;
};
/// Reads the name of an entry. @error{io, a read failed}
[[nodiscard]] result<full_name> name_of_entry(const core& c, const anchor& a);

/// Returns whether all bits of `mask` are set in `filter`.
[[nodiscard]] constexpr bool covers(std::uint64_t filter, std::uint64_t mask) noexcept {
  return (filter & mask) == mask;
}

/// The entries that bear one name, by their role.
struct named_entries {
  std::vector<entry> live;
  std::vector<entry> announced;
  std::vector<entry> graves;
  /// A live entry whose long name is damaged, while its filter and the fragment of the
  /// name in it fit the tag. It may be a shard of the tag.
  struct misnamed_entry {
    entry e;
    std::uint64_t name_at = 0;  ///< byte offset of the damaged name
  };
  std::vector<misnamed_entry> misnamed;
};
/// Finds the entries of a name. @error{io, a read failed}
[[nodiscard]] result<named_entries> entries_named(const core& c, std::string_view tag);
/// Finds the entries of every name, or only those whose filter is in `filters`.
/// @error{io, a read failed}
[[nodiscard]] result<std::map<std::string, named_entries>> all_names(
    const core& c, const std::set<std::uint64_t>* filters = nullptr);

/// Finds the damaged entries that bear a name, as far as their bytes can be believed.
/// @error{io, a read failed}
[[nodiscard]] result<std::vector<entry>> damaged_named(const core& c,
                                                       std::string_view tag);

/// A shard that a tag has lost or may have lost.
struct lost_shard {
  std::string text;        ///< "expected X, found Y"
  std::uint64_t slot = 0;  ///< slot where its entry is or should be
  errc kind = errc::corrupt;
  std::optional<std::uint64_t> offset{};  ///< offset in the stream, if it is known
  std::optional<std::uint64_t> bytes{};   ///< length, if the directory still says it
  /// Identity, if its entry is gone and this writer made it.
  std::optional<hn4_id> seed{};
  std::uint64_t name_at = 0;  ///< byte offset of its long name, if that is damaged
};

/// The stream that the entries of one name form.
struct resolved_tag {
  /// The shards of the stream in no particular order; if some are lost, the others.
  std::vector<entry> shards;
  std::vector<std::string> warnings;
  /// Shards that are missing, the first cause first.
  std::vector<lost_shard> lost;
  std::vector<entry> ended;      ///< live or announced entries that belong to no stream
  std::vector<entry> announced;  ///< entries of `shards` that have yet to become live
  /// An entry that lacks the mark that another group continues it.
  std::optional<entry> grown;
};
/// Determines the stream of a name. `vouched` says that the tag certainly has no other
/// entries, so that nothing needs to be searched for.
/// @error{corrupt, two different entries claim to be the same shard} @error{io, a read
/// failed}
[[nodiscard]] result<resolved_tag> resolve_tag(const core& c, std::string_view tag,
                                               const named_entries& named,
                                               bool vouched = false);

/// Returns everything that ends when the tag is replaced or removed, one entry per slot.
[[nodiscard]] std::vector<entry> entries_of_tag(const named_entries& named,
                                                const resolved_tag& found);

/// Returns the error with which a reader refuses a tag that has lost a shard.
[[nodiscard]] error refusal_of(const core& c, std::string_view tag,
                               const lost_shard& lost);

/// The shards that a reader takes for a tag, in no particular order.
struct selection {
  std::vector<entry> shards;
  std::vector<std::string> warnings;
};
/// Selects the shards of a tag. With `recover`, a tag that has lost shards is what is
/// left of it, and the warnings list what is missing. Errors are those of
/// `hn4_volume::stream`.
[[nodiscard]] result<selection> select_tag(const core& c, std::string_view tag,
                                           bool recover);
/// Selects what the reference implementation finds under a tag, in its order.
[[nodiscard]] result<selection> select_strictly(const core& c, std::string_view tag);

/// Makes the stream of selected shards, with the errors of `hn4_volume::stream`.
[[nodiscard]] result<std::shared_ptr<const stream_map>> map_shards(
    const core& c, std::string_view tag, selection chosen,
    const hn4_stream_options& options);

/// A name of the directory and its stream.
struct listed_tag {
  hn4_tag tag;
  /// False if only unfinished stores and removals bear the name.
  bool exists = false;
  std::optional<error> problem;  ///< why the stream cannot be opened, if the name exists
  resolved_tag entries;          ///< its shards are sorted by identity
};
/// Lists all names, sorted bytewise. @error{io, a read failed}
[[nodiscard]] result<std::vector<listed_tag>> list_names(const core& c);

/// A shard whose blocks are allocated although no directory entry names them.
struct orphan {
  hn4_id seed;
  std::uint64_t byte = 0;  ///< byte offset of its first block on the device
  std::uint64_t blocks = 0;
  /// Slot at which a look-up of its identity ends without a result.
  std::uint64_t slot = 0;
  /// True if that slot holds an entry with a bad checksum; it is empty otherwise.
  bool damaged = false;
  bool ours = false;  ///< this writer gave the identity
};
/// Describes an orphan: "n blocks from byte B on of shard X: directory slot S, where its
/// entry belongs, is empty".
[[nodiscard]] std::string to_text(const orphan& o);
/// A block with the rest of a long name to which no directory entry points.
struct orphan_name {
  std::uint64_t byte = 0;
  std::string text;
};
/// An empty slot between an entry and the slot at which a look-up of it starts.
struct gap {
  std::uint64_t slot = 0;
  std::uint64_t before = 0;  ///< slot of that entry
};
/// Signs that directory entries are lost.
struct loss_traces {
  std::vector<orphan> shards;
  std::vector<orphan_name> names;
  std::vector<gap> gaps;
  block_bits removed;  ///< allocated blocks of removed shards of this writer
  block_bits stray;    ///< allocated blocks that hold neither data nor a name
  /// Blocks of entries that were compared with the bitmap; the search takes about as long
  /// as this number.
  std::uint64_t claims = 0;

  /// Returns whether there is no sign of a loss.
  [[nodiscard]] bool empty() const noexcept {
    return shards.empty() && names.empty() && gaps.empty();
  }
};
/// Searches for traces. A volume that was not closed cleanly has none, because its bitmap
/// proves nothing. The time depends on the number of allocated blocks and of entries,
/// whatever lengths the entries have. @error{io, a read failed}
[[nodiscard]] result<loss_traces> find_traces(const core& c);
/// Returns the slot at which a look-up of an identity ends: the first that is empty, or
/// damaged and not certainly another shard's.
[[nodiscard]] std::uint64_t end_of_look_up(const core& c, hn4_id seed);

/// Returns the path of the index.
[[nodiscard]] std::string index_path(const core& c);
/// Loads the index beside the image; returns false if there is none or it does not belong
/// to the image.
[[nodiscard]] bool load_index(core& c);
/// Finds the live entries of a tag through the index and verifies each. Returns nothing
/// if the index cannot know all of them for certain.
[[nodiscard]] std::optional<std::vector<entry>> look_up_index(const core& c,
                                                              std::string_view tag);
/// Writes the index, or removes it if the volume is damaged. @error{io, a write failed}
[[nodiscard]] result<void> write_index(const core& c);

}  // namespace weir::storage::hn4
