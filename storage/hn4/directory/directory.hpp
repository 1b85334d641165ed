// SPDX-License-Identifier: Apache-2.0
/// @file
/// From directory entries to tags: the names of entries, which entries make up the stream
/// of a tag, what a tag has lost, and the traces that lost entries leave.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "hn4/core.hpp"

namespace weir::storage::hn4 {

/// The name of an entry.
struct full_name {
  std::string text;
  bool linked = true;  ///< false: the chain of blocks that holds a long name is broken
  bool whole = true;   ///< false: it is, or the name contradicts the filter of the entry
  std::uint64_t block = 0;  ///< byte offset of the last chain block read, 0 if none
};
[[nodiscard]] result<full_name> name_of_entry(const core& c, const anchor& a);

/// Whether the bits of `mask` are all set in `filter`.
[[nodiscard]] constexpr bool covers(std::uint64_t filter, std::uint64_t mask) noexcept {
  return (filter & mask) == mask;
}

/// The entries that bear one name.
struct named_entries {
  std::vector<entry> live;
  std::vector<entry> announced;
  std::vector<entry> graves;
  /// Live entries whose long name is damaged, and whose filter and fragment of a name do
  /// not speak against the tag: any of them may be a shard of it.
  struct misnamed_entry {
    entry e;
    std::uint64_t name_at = 0;  ///< byte of the damaged name
  };
  std::vector<misnamed_entry> misnamed;
};
[[nodiscard]] result<named_entries> entries_named(const core& c, std::string_view tag);
/// The same for every name of the directory, or for those whose filter is in `filters`.
[[nodiscard]] result<std::map<std::string, named_entries>> all_names(
    const core& c, const std::set<std::uint64_t>* filters = nullptr);

/// The damaged entries that bear a name, as far as they can be believed.
[[nodiscard]] result<std::vector<entry>> damaged_named(const core& c,
                                                       std::string_view tag);

/// A shard that a tag has lost, or may have lost.
struct lost_shard {
  std::string text;        ///< "expected X, found Y"
  std::uint64_t slot = 0;  ///< where its entry stands, or should stand
  errc kind = errc::corrupt;
  std::optional<std::uint64_t> offset{};  ///< where it begins in the stream, if known
  std::optional<std::uint64_t> bytes{};   ///< its length, if the directory still says it
  std::optional<hn4_id> seed{};           ///< if its entry is gone, and was ours
  std::uint64_t name_at = 0;  ///< byte of its long name, if that is what is damaged
};

/// What the entries of one name amount to.
struct resolved_tag {
  std::vector<entry>
      shards;  ///< of the stream, in no order; what is left, if some are lost
  std::vector<std::string> warnings;
  std::vector<lost_shard> lost;
  std::vector<entry> ended;      ///< live or announced, but of no stream
  std::vector<entry> announced;  ///< those of `shards` that have to become live
  std::optional<entry> grown;    ///< lacks the mark that another group continues it
};
/// `vouched`: it is certain that the tag has no other entries.
/// @error{corrupt, two different entries claim to be the same shard}
[[nodiscard]] result<resolved_tag> resolve_tag(const core& c, std::string_view tag,
                                               const named_entries& named,
                                               bool vouched = false);

/// Everything that ends when a tag is replaced or removed, one entry per slot.
[[nodiscard]] std::vector<entry> entries_of_tag(const named_entries& named,
                                                const resolved_tag& found);

/// The error with which a reader refuses a tag that has lost a shard.
[[nodiscard]] error refusal_of(const core& c, std::string_view tag,
                               const lost_shard& lost);

/// The entries that make up a tag, in no particular order.
struct selection {
  std::vector<entry> shards;
  std::vector<std::string> warnings;
};
/// `recover`: what is left of a tag that has lost shards; the warnings list those.
/// @error{as hn4_volume::stream}
[[nodiscard]] result<selection> select_tag(const core& c, std::string_view tag,
                                           bool recover);
/// What the reference finds under a tag, in its order.
[[nodiscard]] result<selection> select_strictly(const core& c, std::string_view tag);

/// A stream of shards that were selected. @error{as hn4_volume::stream}
[[nodiscard]] result<std::shared_ptr<const stream_map>> map_shards(
    const core& c, std::string_view tag, selection chosen,
    const hn4_stream_options& options);

/// A name of the directory, and what its entries amount to.
struct listed_tag {
  hn4_tag tag;
  bool exists =
      false;  ///< false: nothing but unfinished stores and removals bears the name
  std::optional<error> problem;  ///< why the stream cannot be opened, if it exists
  resolved_tag entries;          ///< its shards sorted by identity
};
/// All names, sorted bytewise.
[[nodiscard]] result<std::vector<listed_tag>> list_names(const core& c);

/// A shard whose blocks are in use although no directory entry names them.
struct orphan {
  hn4_id seed;
  std::uint64_t byte = 0;  ///< of its first block on the device
  std::uint64_t blocks = 0;
  std::uint64_t slot = 0;  ///< where a look-up of the identity ends without a result
  bool damaged = false;  ///< an entry with a bad checksum stands there; else it is empty
  bool ours = false;
};
/// "n blocks from byte B on of shard X: directory slot S, where its entry belongs, is
/// empty"
[[nodiscard]] std::string to_text(const orphan& o);
/// The rest of a long name that no directory entry points to.
struct orphan_name {
  std::uint64_t byte = 0;
  std::string text;
};
/// An empty slot between an entry and the slot where a look-up of it starts.
struct gap {
  std::uint64_t slot = 0;
  std::uint64_t before = 0;  ///< the slot of that entry
};
/// What shows that directory entries are lost.
struct loss_traces {
  std::vector<orphan> shards;
  std::vector<orphan_name> names;
  std::vector<gap> gaps;
  block_bits removed;  ///< allocated blocks of shards of ours that were removed
  block_bits stray;    ///< allocated blocks that hold nothing

  [[nodiscard]] bool empty() const noexcept {
    return shards.empty() && names.empty() && gaps.empty();
  }
};
/// Looks for them; nothing is found on a volume that was not closed cleanly, whose
/// allocation map proves nothing. The time depends on what is allocated.
[[nodiscard]] result<loss_traces> find_traces(const core& c);
/// The slot at which a look-up of an identity ends: the first that is empty, or damaged
/// and not certainly another shard's.
[[nodiscard]] std::uint64_t end_of_look_up(const core& c, hn4_id seed);

[[nodiscard]] std::string index_path(const core& c);
/// Takes the index beside the image if it belongs to it.
[[nodiscard]] bool load_index(core& c);
/// The live entries of a tag through the index, each verified; nothing if the index does
/// not know all of them for certain.
[[nodiscard]] std::optional<std::vector<entry>> look_up_index(const core& c,
                                                              std::string_view tag);
[[nodiscard]] result<void> write_index(const core& c);

}  // namespace weir::storage::hn4
