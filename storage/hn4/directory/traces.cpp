// SPDX-License-Identifier: Apache-2.0
/// @file
/// Searches for the traces that lost directory entries leave: allocated blocks that
/// belong to no entry, and empty slots that a look-up should not meet.
///
/// The search starts from the bitmap. It removes every block that an entry names; what
/// remains is allocated without a reason. The header of such a block says to which shard
/// it belongs. If no entry has this identity, an entry was lost. If the entry was
/// removed, a killed process has left the block. If the entry exists but places the block
/// elsewhere, the block was displaced, and whatever lies at its proper place is examined,
/// too.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "hn4/directory/directory.hpp"
#include "weir/base/hash.hpp"

/// The results explain missing tags ("may be lost") and are computed once per opening,
/// because each block costs a read.
namespace weir::storage::hn4 {

namespace {

/// Finds the entry in a slot; null if there is none. `sorted` is ordered by slot, as the
/// directory is read.
const entry* in_slot(const std::vector<entry>& sorted, std::uint64_t slot) {
  const auto found =
      std::lower_bound(sorted.begin(), sorted.end(), slot,
                       [](const entry& e, std::uint64_t s) { return e.slot < s; });
  return found != sorted.end() && found->slot == slot ? &*found : nullptr;
}

/// Returns whether two identities share a half: damage to one half leaves the other. A
/// damaged entry keeps most of its bytes, in most cases.
bool shares_identity(const anchor& damaged, hn4_id seed) {
  return damaged.seed.hi == seed.hi || damaged.seed.lo == seed.lo;
}

/// Returns whether a damaged entry certainly belongs to another shard. Its short name
/// agrees with its filter, so both are sound, and its identity has nothing in common
/// with the one that is asked for.
bool is_of_another(const anchor& damaged, hn4_id seed) {
  const std::string name = inline_name(damaged);
  return !damaged.has(class_bits::extended) && !name.empty() &&
         damaged.tag_filter == tag_mask(name) && !shares_identity(damaged, seed);
}

/// The steps of the search; the members are their common state.
///
/// The order is: claim the blocks of all entries, look at the rest, find gaps, explain.
/// `find` returns the result and leaves the object empty.
class trace_finder {
 public:
  explicit trace_finder(const core& c) : c_(c), unclaimed_(*c.bits) {
    out_.stray.bits.resize(unclaimed_.bits.size());
    out_.removed.bits.resize(unclaimed_.bits.size());
    seen_.bits.resize(unclaimed_.bits.size());
  }

  result<loss_traces> find();

 private:
  /// Removes the blocks that entries name from `unclaimed_`.
  void claim_blocks();
  // Clears the blocks of one shard, as far as `budget` goes, and the first block of its
  // long name.
  void claim_shard(const anchor& a, std::uint64_t& budget);
  /// Looks at all allocated blocks that remain.
  result<void> look_at_the_rest();
  /// Determines what an allocated block without an entry holds.
  result<void> look_at(std::uint64_t block);
  // `a` and `n` say which block is expected at a place, `found` where it was found
  // instead.
  result<void> follow_claims(const anchor* a, std::uint64_t n, std::uint64_t found);
  // `head` is the beginning of the block.
  result<void> look_at_name(std::uint64_t block, bytes_view head);
  /// Searches for empty slots between entries and the start of their look-ups.
  void find_gaps();
  /// Removes traces that a damaged entry or another trace accounts for.
  void explain();

  const core& c_;
  block_bits unclaimed_;  ///< allocated blocks at which no entry places a block
  struct known_shard {
    const entry* e = nullptr;
    bool removed = false;  ///< it was removed, and this writer had stored it
  };
  std::map<hn4_id, known_shard> known_;  ///< the identities of the directory
  std::map<hn4_id, orphan> orphans_;
  block_bits seen_;  ///< blocks that were examined: orphans and displaced blocks
  std::optional<std::set<std::uint64_t>> chains_;  ///< bytes of the blocks of long names
  loss_traces out_;
};

// Clears the bits of the blocks that an entry names. A length that no volume of this size
// can contain proves nothing about blocks.
void trace_finder::claim_shard(const anchor& a, std::uint64_t& budget) {
  const std::uint64_t named = blocks_for(c_.geometry, a.mass);
  const std::uint64_t blocks = named > c_.geometry.blocks ? 0 : std::min(named, budget);
  budget -= blocks;
  out_.claims += blocks;
  const trajectory path(c_.space, a);
  for (std::uint64_t n = 0; n < blocks; ++n) {
    if (const auto block = path.block(n); block && *block < c_.geometry.blocks) {
      unclaimed_.clear(*block);
    }
  }
  // Only the first block of a chain is known without reading. The others are compared
  // later, in `look_at_name`.
  if (a.has(class_bits::extended)) {
    const std::uint64_t block =
        // A pointer counts sectors.
        load_le<std::uint64_t>(a.name.data()) / (c_.geometry.block / c_.geometry.sector);
    if (block < c_.geometry.blocks) {
      unclaimed_.clear(block);
    }
  }
}

// Tombstones claim blocks, too: an entry that has ended, but whose store or removal was
// not finished, still names them.
void trace_finder::claim_blocks() {
  std::uint64_t allocated = 0;
  for (const std::byte b : unclaimed_.bits) {
    allocated += static_cast<std::uint64_t>(std::popcount(static_cast<unsigned>(b)));
  }
  // All entries together may claim twice as many blocks as are allocated, and some more
  // for each of them, so that shards with holes are covered. Lengths are bytes of the
  // medium: without this limit, a directory whose entries all have the length of the
  // volume would take as long as both numbers multiplied. A block that is not claimed is
  // read, and its header then says that it belongs to its entry.
  constexpr std::uint64_t slack = 1024;
  std::uint64_t budget = 2 * allocated + slack * (c_.entries.size() + 1);
  for (const entry& e : c_.entries) {
    // Removed by this writer, so its blocks may be waiting to be freed.
    const bool removed = role_of(e.a) == entry_role::ended && group_of(e.a);
    const auto [known, is_new] = known_.emplace(e.a.seed, known_shard{&e, removed});
    // A live entry with the same identity counts more than a removed one.
    if (known->second.removed && !removed) {
      known->second = {&e, false};
    }
    // An identity of all ones is that of the root, which has no blocks.
    if (e.a.has(class_bits::valid) && e.a.seed != hn4_id{UINT64_MAX, UINT64_MAX}) {
      claim_shard(e.a, budget);
    }
  }
  // Damaged entries claim no blocks, since their lengths prove nothing. Their identities
  // are known all the same.
  for (const entry& e : c_.damaged) {
    known_.emplace(e.a.seed, known_shard{&e, false});
  }
}

/// Blocks of long names that no entry reaches are traces of a lost entry.
result<void> trace_finder::look_at_name(std::uint64_t block, bytes_view head) {
  if (load_le<std::uint32_t>(head.data() + 4) != chain_long_name) {
    out_.stray.set(block);
    return {};
  }
  if (!chains_) {  // names may take several blocks; read only when it matters
    chains_.emplace();
    for (const entry& e : c_.entries) {
      if (e.a.has(class_bits::extended)) {
        WEIR_TRY(const full_name name, name_of_entry(c_, e.a));
        chains_->insert(name.block);
      }
    }
  }
  const std::uint64_t byte = block * c_.geometry.block;
  if (chains_->count(byte) == 0) {
    // Only the first part of the text is in this block.
    const std::string_view text = as_text(head.subspan(chain_header));
    out_.names.push_back({byte, std::string(text.substr(0, text.find('\0')))});
  }
  return {};
}

// The magic tells what a block is: part of a long name, data of a shard, or nothing.
// Serves `look_at_the_rest`, and `follow_claims` for what lies at a place that another
// block should have.
result<void> trace_finder::look_at(std::uint64_t block) {
  std::array<std::byte, chain_header + longest_name> bytes;
  const mutable_bytes head =
      mutable_bytes(bytes).first(std::min<std::size_t>(bytes.size(), c_.geometry.block));
  const std::uint64_t byte = block * c_.geometry.block;
  WEIR_CHECK(c_.device->read(byte, head));
  if (load_le<std::uint32_t>(head.data()) == chain_magic) {
    return look_at_name(block, head);
  }
  // No header: written by something else, or data of the volume that is not in use.
  if (!is_block_header(head)) {
    out_.stray.set(block);
    return {};
  }
  const hn4_id seed = load_header(head).well;
  const auto known = known_.find(seed);
  // No entry has the identity. Blocks of one shard are counted together.
  if (known == known_.end()) {
    if (!seen_.marked(block)) {
      seen_.set(block);
      orphan& o = orphans_[seed];
      o.seed = seed;
      // The lowest byte is shown to the user.
      o.byte = o.blocks == 0 ? byte : std::min(o.byte, byte);
      o.blocks += 1;
    }
  } else if (known->second.removed) {
    out_.removed.set(block);
  } else {
    // The entry is known and places the block elsewhere.
    return follow_claims(&known->second.e->a, load_header(head).number, block);
  }
  return {};
}

// Follows a block that is not where its entry says. What lies at that place may in turn
// be a displaced block, so the search goes on from there until it meets an orphan, an
// expected block or one that was examined.
//
// Each step marks a block as seen, so circles end.
result<void> trace_finder::follow_claims(const anchor* a, std::uint64_t n,
                                         std::uint64_t found) {
  for (;;) {
    // The place where the entry expects block `n`.
    const auto place = trajectory(c_.space, *a).block(n);
    // Nothing can be there, or it was examined.
    if (!place || *place == found || *place >= c_.geometry.blocks ||
        !c_.bits->marked(*place) || seen_.marked(*place)) {
      return {};
    }
    std::array<std::byte, header_bytes> head{};
    WEIR_CHECK(c_.device->read(*place * c_.geometry.block, head));
    // What is there is no block.
    if (!is_block_header(head)) {
      return {};
    }
    const block_header h = load_header(head);
    const auto known = known_.find(h.well);
    // An orphan took the place.
    if (known == known_.end()) {
      return look_at(*place);
    }
    seen_.set(*place);
    a = &known->second.e->a;
    n = h.number;
    found = *place;
  }
}

// Examines the allocated blocks that no entry names. Blocks in holes of the device were
// never written and hold nothing.
//
// The first bits are those of the metadata in front of the data region; they are skipped
// by whole bytes first and one by one then.
result<void> trace_finder::look_at_the_rest() {
  const hn4_geometry& g = c_.geometry;
  block_bits reserved;
  reserved.bits.resize(unclaimed_.bits.size());
  reserve_metadata(g, reserved);
  // This writer marks the blocks of the volume's own structures, and no writer puts data
  // there. The reference implementation marks nothing, and puts data there.
  //
  // Block 0 belongs to the superblock, so its bit tells which of the two wrote the
  // volume.
  const bool marked = c_.bits->marked(0);
  std::uint64_t hole_end = 0;
  extent data;
  for (std::size_t i = static_cast<std::size_t>(g.flux / g.block / 8);
       i < unclaimed_.bits.size(); ++i) {
    auto rest = static_cast<unsigned>(unclaimed_.bits[i] &
                                      ~(marked ? reserved.bits[i] : std::byte{0}));
    for (; rest != 0; rest &= rest - 1) {
      const std::uint64_t block = i * 8 + static_cast<unsigned>(std::countr_zero(rest));
      const std::uint64_t begin = block * g.block;
      // The first byte may begin in front of the data region.
      if (block < g.flux / g.block || block >= g.blocks) {
        continue;
      }
      // Ranges of data and holes are asked for only when the scan leaves the known one.
      if (begin >= data.end() && begin >= hole_end) {
        WEIR_TRY(data, c_.device->next_data(begin, g.blocks * g.block));
        hole_end = data.size == 0 ? UINT64_MAX : data.offset;
      }
      const std::uint64_t end = begin + header_bytes;
      // The header reaches into data.
      if (data.size != 0 && end > data.offset && begin < data.end()) {
        WEIR_CHECK(look_at(block));
      } else {
        out_.stray.set(block);
      }
    }
  }
  return {};
}

// An entry is put into the first empty slot from the start of its look-up on, and a slot
// never becomes empty again. So an empty slot in between is a trace. A writer that does
// not follow this rule is recognised by its distances; its volume shows no gaps.
//
// The gap names the slot and the entry that was put behind it.
void trace_finder::find_gaps() {
  std::set<std::uint64_t> seen;
  const std::uint64_t slots = c_.slots();
  for (const entry& e : c_.entries) {
    if (!e.a.live() || e.slot == 0) {
      continue;
    }
    const std::uint64_t start = slot_hash(e.a.seed) % slots;
    const std::uint64_t distance = (e.slot + slots - start) % slots;
    // Entries of this writer never lie so far away.
    if (distance >= max_probes) {
      out_.gaps.clear();
      return;
    }
    for (std::uint64_t i = 0; i < distance; ++i) {
      const std::uint64_t slot = (start + i) % slots;
      // Damaged entries occupy their slots. Each empty slot is listed once.
      if (in_slot(c_.entries, slot) == nullptr && in_slot(c_.damaged, slot) == nullptr &&
          seen.insert(slot).second) {
        out_.gaps.push_back({slot, e.slot});
      }
    }
  }
}

// A damaged entry accounts for blocks that may be its own: its name says which tag is
// concerned. Orphans account for gaps at the slots of their entries.
//
// What remains is reported: orphans without such an entry, and gaps that no orphan
// explains.
void trace_finder::explain() {
  std::set<std::uint64_t> empty;
  for (auto& [seed, o] : orphans_) {
    o.slot = end_of_look_up(c_, seed);
    o.ours = is_ours(c_.sb.uuid, seed);
    const entry* damaged = in_slot(c_.damaged, o.slot);
    o.damaged = damaged != nullptr;
    // The damaged entry in that slot is another one, or there is none.
    if (damaged == nullptr || !shares_identity(damaged->a, seed)) {
      empty.insert(o.slot);
      out_.shards.push_back(o);
    }
  }
  std::erase_if(out_.gaps, [&](const gap& g) { return empty.count(g.slot) != 0; });
}

/// The state of the volume decides first.
result<loss_traces> trace_finder::find() {
  using namespace state_bits;
  // The bitmap of a volume that was not closed cleanly is outdated and proves nothing.
  if ((c_.sb.state & dirty) != 0 || (c_.sb.state & clean) == 0) {
    return std::move(out_);
  }
  claim_blocks();
  WEIR_CHECK(look_at_the_rest());
  find_gaps();
  explain();
  return std::move(out_);
}

}  // namespace

// Damaged entries count as possible ends, because the damaged one may be the one that is
// searched for.
//
// If all slots are occupied, the answer is the first slot.
std::uint64_t end_of_look_up(const core& c, hn4_id seed) {
  const std::uint64_t slots = c.slots();
  const std::uint64_t start = slot_hash(seed) % slots;
  for (std::uint64_t i = 0; i < max_probes; ++i) {
    const std::uint64_t slot = (start + i) % slots;
    const entry* damaged = in_slot(c.damaged, slot);
    if (damaged != nullptr ? !is_of_another(damaged->a, seed)
                           : in_slot(c.entries, slot) == nullptr) {
      return slot;
    }
  }
  return start;
}

/// Ends the sentence "expected a directory entry for every block in use, found ...".
std::string to_text(const orphan& o) {
  return fmt::format(
      "{} from byte {} on of shard {:016x}{:016x}: directory slot {}, where its entry "
      "belongs, {}",
      o.blocks == 1 ? "1 block" : fmt::format("{} blocks", o.blocks), o.byte, o.seed.hi,
      o.seed.lo, o.slot, o.damaged ? "has a bad checksum" : "is empty");
}

/// Null if no damaged entry is in the slot.
const entry* core::damaged_in(std::uint64_t slot) const {
  return in_slot(damaged, slot);
}

/// The first call searches, and later calls return the same result. May be called from
/// several threads: the mutex is held during the search.
result<std::shared_ptr<const loss_traces>> core::loss_traces() const {
  WEIR_CHECK(need_directory());
  const std::lock_guard lock(directory_mutex);
  if (!traces) {
    WEIR_TRY(auto found, find_traces(*this));
    traces = std::make_shared<const hn4::loss_traces>(std::move(found));
  }
  return traces;
}

result<loss_traces> find_traces(const core& c) {
  return trace_finder(c).find();
}

}  // namespace weir::storage::hn4
