// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of the TensorMap that are not in the fast path: strided regions, retirement
/// and failures.
///
/// Entries of strided accesses keep only their first and last byte; their footprints lie
/// in a list of their own (`strided_`), because most programs have hardly any.
#include "map/dependency_map.hpp"

#include "map/remainder.hpp"

namespace weir::runtime {
namespace {

/// Number of the latest failed writes that a new one is compared with. Without the
/// comparison, a loop that fails again and again would store the same bytes each time.
constexpr std::size_t compared = 16;

}  // namespace

void dependency_map::add_storage(std::uint32_t index) {
  while (indexes_.size() <= owner_of({index, 0}, true)) {
    indexes_.emplace_back(static_cast<std::uint32_t>(indexes_.size()));
  }
}

// Tells the indexes of the grid that the oldest accesses retire, so that their counts of
// live accesses are right. Entries outside of the grid need nothing.
void dependency_map::retire_far(std::uint32_t count) noexcept {
  access_ref ref = ring_.oldest();
  do {
    if (ring_.is_far(ref) && !ring_.far(ref).pruned()) {
      const grid_entry& e = ring_.far(ref);
      indexes_[e.owner].retire(grid_, e);
    }
    ++ref;
  } while (--count != 0);
}

// Provides capacity for `count` accesses, and computes up to which number the next calls
// of `reserve` need not come here: until the ring is full, the heads of lists must be
// cleaned, or the grid must grow.
void dependency_map::make_space(std::size_t count) {
  ring_.reserve(count);
  if (ring_.registered() >= heads_until_) {
    heads_until_ = ring_.registered() + region_grid::heads_last;
    grid_.forget_old_heads();
  }
  reserved_ = std::min(
      {ring_.full_at(), heads_until_, ring_.registered() + grid_.reserve(count)});
}

// Inserts any access. A strided one also keeps its footprint.
void dependency_map::insert_any(region_index& index, const footprint& bytes, task_id task,
                                bool any_order) {
  index.insert(ring_, grid_, bytes, task, any_order);
  if (!bytes.dense()) {
    keep_steps(ring_.newest(), bytes);
  }
}

// Stores the footprint of a strided access at the number of its entry.
void dependency_map::keep_steps(access_ref ref, const footprint& bytes) {
  if (strided_.size() < ring_.capacity()) {
    // The ring has grown, so the positions of all live accesses have changed. The access
    // at `ref`, the newest, has no footprint yet, hence n > 1.
    std::vector<footprint> larger(ring_.capacity());
    const auto before = static_cast<access_ref>(strided_.size());
    access_ref i = ring_.oldest();
    for (std::uint32_t n = ring_.size(); n > 1 && before != 0; --n) {
      larger[i & (ring_.capacity() - 1)] = strided_[i & (before - 1)];
      i = (i + 1) & ref_mask;
    }
    strided_ = std::move(larger);
  }
  strided_[ref & (strided_.size() - 1)] = bytes;
}

// Removes the bytes of a write from an entry of any kind. An entry that has become one
// interval is marked as dense.
bool dependency_map::take_steps(const footprint& write, entry& e) noexcept {
  if (write.lo <= e.lo && e.hi <= write.hi &&
      (write.dense() || covers(write, bytes_of(e, write.id)))) {
    return true;
  }
  if (e.dense() || e.any_order()) {
    return false;
  }
  footprint& left = strided_[e.ref() & (strided_.size() - 1)];
  if (cut(left, write)) {
    return true;
  }
  e.lo = left.lo;
  e.hi = left.hi;
  e.tag &= ~static_cast<std::uint64_t>(left.dense());
  return false;
}

// Returns the footprint of an entry.
footprint dependency_map::bytes_of(const entry& e, storage_id id) const noexcept {
  if (!e.dense()) {
    return strided_[e.ref() & (strided_.size() - 1)];
  }
  footprint out;
  out.id = id;
  out.lo = e.lo;
  out.hi = e.hi;
  out.run = e.hi - e.lo;
  return out;
}

// Decides whether an entry shares a byte with the query, if at least one is strided. An
// undecided answer (`maybe`) counts as shared, which is safe.
bool dependency_map::share_a_byte(const footprint& query, const entry& e) noexcept {
  const overlap answer =
      e.dense() ? decide_overlap(query, bytes_of(e, query.id))
                : decide_overlap(query, strided_[e.ref() & (strided_.size() - 1)]);
  tally<std::uint64_t>(counters_.tests);
  if (answer == overlap::maybe) {
    tally<std::uint64_t>(counters_.maybe);
  }
  return answer != overlap::no;
}

// Keeps what a failed task should have written, as far as its accesses have not been
// pruned: bytes that a later write covers are that writer's.
void dependency_map::keep_failed(std::uint32_t count, task_id root) {
  access_ref ref = ring_.oldest();
  for (std::uint32_t i = 0; i < count; ++i, ref = (ref + 1) & ref_mask) {
    const std::uint32_t owner = ring_.owner(ref);
    const bool writer = (owner & 1) != 0;
    if (const entry* const e = indexes_[owner].find(ring_, ref); writer && e != nullptr) {
      add_failed(bytes_of(*e, {owner >> 1, 0}), root);
    }
  }
}

// Stores a failed write, unless one of the latest ones covers it with the same or an
// older failure.
void dependency_map::add_failed(const footprint& bytes, task_id root) {
  std::vector<failed_write>& all = failed_[bytes.id.index];
  footprint written = bytes;
  written.id.generation =
      0;  // an index is used again only after its failures are forgotten
  for (std::size_t i = all.size(); i-- > 0 && all.size() - i <= compared;) {
    if (all[i].root <= root && covers(all[i].bytes, written)) {
      return;
    }
  }
  all.push_back({written, root});
}

// Returns the oldest failure in bytes of the query, or 0.
task_id dependency_map::search_failed(const footprint& query) const noexcept {
  const auto found = failed_.find(query.id.index);
  if (found == failed_.end()) {
    return 0;
  }
  task_id oldest = 0;
  footprint bytes = query;
  bytes.id.generation = 0;
  for (const failed_write& f : found->second) {
    if ((oldest == 0 || f.root < oldest) &&
        decide_overlap(bytes, f.bytes) != overlap::no) {
      oldest = f.root;
    }
  }
  return oldest;
}

}  // namespace weir::runtime
