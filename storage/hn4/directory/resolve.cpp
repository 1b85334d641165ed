// SPDX-License-Identifier: Apache-2.0
/// @file
/// Determines which entries of one name form its stream, and what is missing.
///
/// The entries of a name may come from several stores of this writer (groups), from
/// another writer, and from stores and removals that were interrupted. The newest group
/// that counts is followed back through the groups that it continues. Shards of another
/// writer are added before or behind. All other entries have ended. Then everything that
/// may be lost is collected: numbers that a group lacks, damaged entries and names that
/// may belong to the tag, and traces.
#include <fmt/core.h>

#include <algorithm>

#include "hn4/directory/directory.hpp"
#include "weir/storage/hn4_code.hpp"

/// An example: generation 3 stored shards 0 and 1, generation 5 appended shard 0 with
/// distance 2. The stream is then the group of 5 behind the group of 3; a group of
/// generation 4 that never became live has ended.
namespace weir::storage::hn4 {

namespace {

using entries = std::vector<entry>;

/// Largest number of shards in a group.
constexpr std::uint32_t max_in_group = 4095;

/// Returns whether an entry was written after another one; generations may wrap around.
/// Equal generations are decided by the time of the change.
bool newer(const entry& x, const entry& y) {
  if (x.a.write_gen != y.a.write_gen) {
    return static_cast<std::int32_t>(x.a.write_gen - y.a.write_gen) > 0;
  }
  return x.a.mod_clock > y.a.mod_clock;
}

/// Identities grow in the order of creation.
bool by_seed(const entry& x, const entry& y) {
  return x.a.seed < y.a.seed;
}

/// Keeps one entry per identity, the one that was written last. A process that was
/// killed while it replaced an entry may leave two of them, which is a warning. Two
/// entries of equal age that disagree about the length cannot be decided and are an
/// error.
result<entries> without_duplicates(const core& c, std::string_view tag, entries all,
                                   std::vector<std::string>& warnings) {
  // A stable sort keeps the order of slots among equal identities.
  std::stable_sort(all.begin(), all.end(), by_seed);
  entries newest;
  for (const entry& e : all) {
    if (newest.empty() || newest.back().a.seed != e.a.seed) {
      newest.push_back(e);
      continue;
    }
    entry& before = newest.back();
    // Neither is newer.
    const bool tie = !newer(e, before) && !newer(before, e);
    if (tie && before.a.mass != e.a.mass) {
      return hn4_error(hn4_code::data_rot,
                       fmt::format("cannot open tag \"{}\": two different directory "
                                   "entries claim one shard",
                                   tag))
          .located(c.place(c.slot_offset(e.slot), fmt::format("directory slots {} and {}",
                                                              before.slot, e.slot)));
    }
    warnings.push_back(fmt::format(
        "tag \"{}\": one shard stands in directory slots {} and {}; the newer is used",
        tag, before.slot, e.slot));
    if (newer(e, before)) {
      before = e;
    }
  }
  return newest;
}

/// The shards of one store, sorted by identity.
struct group {
  entries members;
  // One live entry proves that the store counts, because all of its entries were durable
  // before the first became live.
  bool counts = false;
};

/// Returns whether one of the entries is in a slot. The lists are short.
bool stands_in(const std::vector<entry>& all, std::uint64_t slot) {
  return std::any_of(all.begin(), all.end(),
                     [&](const entry& e) { return e.slot == slot; });
}

/// The steps of `resolve_tag`; the members are their common state.
///
/// `vouched_` is true if the entries come from the index, which lists only tags without
/// loss; the search for losses is then left out.
class resolver {
 public:
  resolver(const core& c, std::string_view tag, const named_entries& named, bool vouched)
      : c_(c), tag_(tag), named_(named), vouched_(vouched) {}

  /// A resolver is used once: this moves its result away.
  result<resolved_tag> resolve();

 private:
  /// Sorts the entries into groups and foreign ones, and drops removed ones.
  result<void> sort_out();
  void follow(std::uint32_t generation);
  void take(std::uint32_t generation, const group& g);
  void miss(std::uint32_t index, std::uint32_t generation, const group& g);
  void miss_group(std::uint32_t generation);
  void miss_growth();
  void add_foreign(bool before, const hn4_id& border);
  void add_foreign_around(const group& first);
  [[nodiscard]] result<bool> concerns(const entry& damaged) const;
  result<void> suspect_entries();
  void suspect_names();
  result<void> suspect_traces();
  void locate_losses();
  void end_the_rest();
  [[nodiscard]] bool closed() const;

  const core& c_;
  std::string_view tag_;
  const named_entries& named_;
  bool vouched_;
  resolved_tag out_;
  /// By generation, newest first.
  std::map<std::uint32_t, group, std::greater<>> groups_;
  entries foreign_;
  std::optional<std::uint32_t> top_;  ///< generation of the newest store that counts
  std::vector<std::uint32_t> used_;   ///< generations of the groups in the stream
  /// For each missing shard the high half of its identity, which orders the shards.
  std::vector<std::uint64_t> missing_;
};

// A grave removes every entry with an identity up to its own. Removed entries go to
// `ended`, the others are divided into the groups of this writer, by generation, and
// foreign ones.
result<void> resolver::sort_out() {
  std::optional<hn4_id> grave;
  for (const entry& e : named_.graves) {
    grave = grave ? std::max(*grave, e.a.seed) : e.a.seed;
  }
  entries all;
  // Announced entries take part, since one live entry makes the whole group count.
  for (const entries* list : {&named_.live, &named_.announced}) {
    for (const entry& e : *list) {
      // Identities are compared as numbers, so "up to" means created before or together.
      const bool removed = grave && !(*grave < e.a.seed);
      (removed ? out_.ended : all).push_back(e);
    }
  }
  WEIR_TRY(const entries once,
           without_duplicates(c_, tag_, std::move(all), out_.warnings));
  for (const entry& e : once) {
    if (group_of(e.a)) {
      group& g = groups_[e.a.write_gen];
      g.members.push_back(e);
      g.counts = g.counts || e.a.live();
    } else {
      foreign_.push_back(e);
    }
  }
  return {};
}

// Notes a shard that the group lacks. Its identity follows from that of any other shard
// of the group, and its slot from the identity. `index` is the number of the missing
// shard in its group. There are three cases: its long name is damaged, its entry is
// damaged or gone (which only identities of this writer can tell), or nothing is known.
void resolver::miss(std::uint32_t index, std::uint32_t generation, const group& g) {
  const entry& known = g.members.front();
  const auto mark = group_of(known.a).value();
  const auto steps = std::int64_t{index} - std::int64_t{mark.index};
  // Siblings differ in the high half of the identity.
  const hn4_id seed = sibling_of(c_.sb.uuid, known.a.seed, steps);
  const std::string text =
      fmt::format("expected {} of generation {}, found {}: shard {} is missing",
                  mark.count == 1 ? "1 shard" : fmt::format("{} shards", mark.count),
                  generation, g.members.size(), index);
  lost_shard lost{text, known.slot, errc::torn};
  const auto named =
      // First case: the entry is sound except for its name.
      std::find_if(named_.misnamed.begin(), named_.misnamed.end(), [&](const auto& m) {
        const auto own = group_of(m.e.a);
        return own && own->index == index && m.e.a.write_gen == generation &&
               m.e.a.seed.hi == seed.hi;
      });
  if (named != named_.misnamed.end()) {
    lost.slot = named->e.slot;
    lost.name_at = named->name_at;
    lost.text = fmt::format(
        "expected the long name of shard {}, found one that contradicts its filter",
        index);
    lost.kind = errc::corrupt;
    lost.bytes = named->e.a.mass;
    out_.shards.push_back(named->e);  // its bytes can be read all the same
  } else if (is_ours(c_.sb.uuid, known.a.seed)) {
    // Second case: the slot where a look-up of the missing identity ends.
    lost.slot = end_of_look_up(c_, seed);
    const entry* damaged = c_.damaged_in(lost.slot);
    lost.text += damaged != nullptr
                     ? fmt::format(", its entry in directory slot {} has a bad checksum",
                                   lost.slot)
                     : fmt::format(", its entry in directory slot {} is gone", lost.slot);
    if (damaged == nullptr) {
      // An identity lets the caller search for the blocks of the shard.
      lost.seed = seed;
    } else if (damaged->a.seed == seed) {
      // The damaged entry claims to be this shard, so its length is believed for the
      // report.
      lost.bytes = damaged->a.mass;
    }
  }
  out_.lost.push_back(std::move(lost));
  // Runs parallel to `out_.lost`: both lists get one element for each loss.
  missing_.push_back(seed.hi);
}

// Notes that a group is missing to which a newer one refers. No shard of that group is
// left, so how much is lost is not known. It is put before all others.
void resolver::miss_group(std::uint32_t generation) {
  const std::uint64_t slot = out_.shards.empty() ? 0 : out_.shards.front().slot;
  out_.lost.push_back({fmt::format("expected shards of generation {} before those of "
                                   "directory slot {}, found none: all of them are "
                                   "missing",
                                   generation, slot),
                       slot, errc::torn, 0});
  missing_.push_back(0);
}

// Notes that a group is missing that was appended to the newest one. The newest group
// says that it was continued, so a newer group existed. Its shards would lie behind all
// others.
void resolver::miss_growth() {
  out_.lost.push_back(
      {fmt::format("expected the shards that were appended to generation {}, found none: "
                   "all shards from {} on are missing",
                   *top_, out_.shards.size()),
       out_.shards.back().slot, errc::torn});
  missing_.push_back(UINT64_MAX);
}

// Adds the shards of a group and notes which numbers are missing. `count` is what the
// first member says. A member that says something else, or has a number beyond, is a
// contradiction and reported if no number is missing.
void resolver::take(std::uint32_t generation, const group& g) {
  const std::uint32_t count = group_of(g.members.front().a)->count;
  // The number comes from the medium, so it is limited.
  std::vector<bool> seen(std::min(count, max_in_group));
  for (const entry& e : g.members) {
    const auto mark = group_of(e.a);
    if (mark->count == count && mark->index < seen.size()) {
      seen[mark->index] = true;
    }
    out_.shards.push_back(e);
    // Announced members of a group that counts are part of the stream; a writer makes
    // them live later.
    if (!e.a.live()) {
      out_.announced.push_back(e);
    }
  }
  used_.push_back(generation);
  const std::size_t lost_before = out_.lost.size();
  for (std::uint32_t i = 0; i < seen.size(); ++i) {
    if (!seen[i]) {
      miss(i, generation, g);
    }
  }
  // All numbers are there, yet their number is wrong.
  if (out_.lost.size() == lost_before && g.members.size() != count) {
    out_.lost.push_back({fmt::format("expected {} shards of generation {}, found {}",
                                     count, generation, g.members.size()),
                         g.members.front().slot,
                         errc::corrupt,
                         {},
                         {},
                         {}});
    missing_.push_back(g.members.front().a.seed.hi);
  }
}

// Adds the shards of another writer with identities before or behind `border`. Shards of
// other writers have no groups; their identities alone give their order.
void resolver::add_foreign(bool before, const hn4_id& border) {
  for (const entry& e : foreign_) {
    if (before == (e.a.seed < border)) {
      out_.shards.push_back(e);
    }
  }
}

// Adds the group of a generation and the groups that it continues. Goes from the newest
// group to older ones. Each group says how far below its own generation the group lies
// that it continues; 0 means none. The loop ends, because the generation becomes smaller
// or a group is missing.
void resolver::follow(std::uint32_t generation) {
  for (;;) {
    const auto found = groups_.find(generation);
    // The older group was lost, or never counted.
    if (found == groups_.end() || !found->second.counts) {
      miss_group(generation);
      return;
    }
    const group& g = found->second;
    // A group is marked `grown` before another one is appended to it.
    const auto grown = [](const entry& e) { return group_of(e.a)->grown; };
    const bool marked = std::any_of(g.members.begin(), g.members.end(), grown);
    take(generation, g);
    if (generation == *top_ && marked) {
      miss_growth();
    } else if (generation != *top_ && !marked) {
      // An older group in the stream must have the mark; the caller sets it if an
      // interrupted store has not.
      out_.grown = g.members.front();
    }
    // A special distance says that the group continues shards of another writer.
    const std::uint32_t distance = group_of(g.members.front().a)->distance;
    if (distance == group_mark::after_foreign) {
      add_foreign(true, g.members.front().a.seed);
    }
    if (distance == 0 || distance == group_mark::after_foreign) {
      return;
    }
    generation -= distance;
  }
}

// Adds the shards that another writer appended to the stream. Those that the stream has
// replaced have ended.
//
// `first` is the oldest group of the stream. Foreign shards behind the newest shard are
// always part of the stream; those before the oldest one are, unless the group says that
// it replaced them (`over_foreign`).
void resolver::add_foreign_around(const group& first) {
  if (foreign_.empty()) {
    return;
  }
  // The range of identities of the groups.
  const auto [low, high] =
      std::minmax_element(out_.shards.begin(), out_.shards.end(), by_seed);
  const hn4_id begin = low->a.seed, end = high->a.seed;
  const std::size_t before = out_.shards.size();
  add_foreign(false, end);
  // If the group continues other shards, `follow` has added them already.
  const auto mark = group_of(first.members.front().a);
  if (mark->distance == 0 && mark->over_foreign) {
    std::copy_if(foreign_.begin(), foreign_.end(), std::back_inserter(out_.ended),
                 [&](const entry& e) { return e.a.seed < begin; });
  } else if (mark->distance == 0) {
    add_foreign(true, begin);
  }
  if (out_.shards.size() > before) {
    out_.warnings.push_back(fmt::format(
        "tag \"{}\": {} shards of another writer precede or follow those stored together",
        tag_, out_.shards.size() - before));
  }
}

// Returns whether all shards are from this writer. Then only the shards that their groups
// number can be missing. Then damaged names and entries of older generations explain
// nothing, and need not be suspected.
bool resolver::closed() const {
  return top_ && std::all_of(out_.shards.begin(), out_.shards.end(),
                             [](const entry& e) { return group_of(e.a).has_value(); });
}

// Returns whether a damaged entry may be a shard of the tag. There are three cases. Its
// name is that of the tag. Or its name and its filter contradict each other, so one of
// them is damaged and the filter proves nothing. Or they agree by chance: the filter is
// that of the tag, and no sound entry bears the name.
//
// An error is one of reading a name.
result<bool> resolver::concerns(const entry& damaged) const {
  const std::uint64_t mask = tag_mask(tag_), filter = damaged.a.tag_filter;
  WEIR_TRY(const full_name name, name_of_entry(c_, damaged.a));
  // An empty mask covers everything and proves nothing.
  if (name.text == tag_ || mask == 0) {
    return name.text == tag_;
  }
  // Name and filter contradict each other.
  if (filter != tag_mask(name.text)) {
    return covers(filter, mask);
  }
  if (filter != mask) {
    return false;
  }
  // The name agrees with the filter of the tag, but is another one. If a sound entry
  // bears it, the damaged one probably belongs there.
  WEIR_TRY(const named_entries others, entries_named(c_, name.text));
  return others.live.empty();
}

// Notes damaged entries that may belong to the tag. A complete stream of this writer has
// lost nothing to an older entry of this writer. One loss is enough for each slot.
result<void> resolver::suspect_entries() {
  for (const entry& e : c_.damaged) {
    const bool explained = std::any_of(out_.lost.begin(), out_.lost.end(),
                                       [&](const auto& l) { return l.slot == e.slot; });
    // A damaged entry may be the one that a group lacks, and is then reported already.
    if (explained || tag_.empty() ||
        (closed() && group_of(e.a) && e.a.write_gen <= *top_)) {
      continue;
    }
    WEIR_TRY(const bool mine, concerns(e));
    // Its identity and length are shown as hints only.
    if (mine) {
      out_.lost.push_back(
          {fmt::format("expected directory entries with good checksums, found a damaged "
                       "one that may be a shard of it: a shard is missing; as far as the "
                       "entry in directory slot {} can be believed, it had the identity "
                       "{:016x}{:016x} and {} bytes",
                       e.slot, e.a.seed.hi, e.a.seed.lo, e.a.mass),
           e.slot,
           errc::corrupt,
           {},
           e.a.mass});
    }
  }
  return {};
}

// Notes entries with damaged names that may belong to the tag. Names in question belong
// to live entries that `entries_named` has found by filter and fragment.
void resolver::suspect_names() {
  for (const auto& [e, name_at] : named_.misnamed) {
    const bool explained = stands_in(out_.shards, e.slot);
    if (explained || (closed() && (!group_of(e.a) || e.a.write_gen <= *top_))) {
      continue;
    }
    out_.lost.push_back(
        {fmt::format("expected the long name of a shard, found one that contradicts its "
                     "filter: the shard in directory slot {} may belong to it",
                     e.slot),
         e.slot,
         errc::corrupt,
         {},
         e.a.mass,
         {},
         name_at});
  }
}

// Notes traces of lost entries. Shards of other writers have no numbers, so anything that
// is lost may be one of theirs. Blocks that this writer stored have identities that
// `miss` finds by number, so only foreign ones are examined here.
result<void> resolver::suspect_traces() {
  if (out_.shards.empty() || closed()) {
    return {};
  }
  WEIR_TRY(const auto traces, c_.loss_traces());
  for (const orphan& o : traces->shards) {
    if (o.ours) {
      continue;
    }
    // The place of the lost shard follows from the order of identities.
    const auto before = std::count_if(out_.shards.begin(), out_.shards.end(),
                                      [&](const entry& e) { return e.a.seed < o.seed; });
    out_.lost.push_back(
        {fmt::format("expected a directory entry for every block in use, found {}; a "
                     "shard is missing, which may be shard {} of it",
                     to_text(o), before),
         o.slot, errc::torn});
  }
  // A gap says that an entry is lost and not which one.
  for (const gap& g : traces->gaps) {
    out_.lost.push_back(
        {fmt::format("expected a directory without gaps, found slot {} empty although "
                     "the entry in slot {} was put behind it: a shard is missing, which "
                     "may be a shard of it",
                     g.slot, g.before),
         g.slot, errc::torn});
  }
  return {};
}

// Computes where the first missing shard begins: behind the shards before it, none of
// which is missing. Only the first loss gets a place: where the others begin depends on
// the unknown length of the first.
void resolver::locate_losses() {
  if (missing_.empty()) {
    return;
  }
  const auto first = std::min_element(missing_.begin(), missing_.end());
  std::uint64_t offset = 0;
  for (const entry& e : out_.shards) {
    // A sum that overflows comes from damaged lengths; the place then stays unknown.
    if (e.a.seed.hi < *first && !checked_add(offset, e.a.mass, offset)) {
      return;
    }
  }
  out_.lost[static_cast<std::size_t>(first - missing_.begin())].offset = offset;
}

// Collects entries that belong to no stream. The next store or removal frees their
// blocks.
void resolver::end_the_rest() {
  for (const auto& [generation, g] : groups_) {
    const bool used = std::find(used_.begin(), used_.end(), generation) != used_.end();
    // If something is lost, a group that is not used may be all that is left; it stays.
    if (!g.counts || (!used && out_.lost.empty())) {
      out_.ended.insert(out_.ended.end(), g.members.begin(), g.members.end());
    }
  }
}

// The losses that groups show come first: they are certain and their place is known. The
// order of the steps matters: each of them uses what the steps before have put into
// `out_`.
result<resolved_tag> resolver::resolve() {
  WEIR_CHECK(sort_out());
  const auto top = std::find_if(groups_.begin(), groups_.end(),
                                [](const auto& g) { return g.second.counts; });
  // Only foreign shards, or none.
  if (top == groups_.end()) {
    out_.shards = foreign_;
  } else {
    top_ = top->first;
    follow(*top_);
    // `used_.back()` is the oldest group, since `follow` goes backwards.
    add_foreign_around(groups_.at(used_.back()));
  }
  locate_losses();
  // Suspicions have no place in the stream, so they come after `locate_losses`.
  if (!vouched_) {
    WEIR_CHECK(suspect_entries());
    suspect_names();
    WEIR_CHECK(suspect_traces());
  }
  end_the_rest();
  return std::move(out_);
}

}  // namespace

/// The entries must all have the name `tag`, except for `misnamed`.
result<resolved_tag> resolve_tag(const core& c, std::string_view tag,
                                 const named_entries& named, bool vouched) {
  return resolver(c, tag, named, vouched).resolve();
}

/// Returns every entry once, in the order of slots. A removal goes over this list.
std::vector<entry> entries_of_tag(const named_entries& named, const resolved_tag& found) {
  entries all;
  for (const auto* list : {&named.live, &named.announced, &named.graves, &found.shards}) {
    all.insert(all.end(), list->begin(), list->end());
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const entry& x, const entry& y) { return x.slot < y.slot; });
  all.erase(std::unique(all.begin(), all.end(),
                        [](const entry& x, const entry& y) { return x.slot == y.slot; }),
            all.end());
  return all;
}

/// The location is the name block if the name is damaged, else the slot.
error refusal_of(const core& c, std::string_view tag, const lost_shard& lost) {
  return hn4_error(hn4_code::data_rot,
                   fmt::format("cannot open tag \"{}\": {}", tag, lost.text), lost.kind)
      .located(
          lost.name_at != 0
              ? c.place(lost.name_at, fmt::format("name of directory slot {}", lost.slot))
              : c.place(c.slot_offset(lost.slot),
                        fmt::format("directory slot {}", lost.slot)))
      .hint(
          "--recover (hn4_stream_options::recover) reads what is left of the tag and "
          "lists what is missing; `weir hn4 check` says what is lost");
}

}  // namespace weir::storage::hn4
