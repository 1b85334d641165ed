// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rarer ways of entering a task, and edges beyond the first block of successors.
///
/// Two tasks, an edge, and the counts that make it safe (see the class comment):
///
///   submitter, entering t                    worker that ends `before`
///   place[count] = t
///   count -> count + 1  (fails if closed)    count -> closed, gets the old count
///   pending(t) = guard - ...                 releases that many successors
#include "tasks/wiring.hpp"

namespace weir::runtime {
namespace {

/// Returns the access whose tasks run in any order: the first that asks for it. A further
/// one goes by the order of submission, because with two groups two tasks could wait for
/// each other.
const access* find_any_order(std::span<const access> accesses) noexcept {
  for (const access& a : accesses) {
    if (a.mode == access_mode::commute_any && !a.bytes.empty()) {
      return &a;
    }
  }
  return nullptr;
}

}  // namespace

// The bytes of a failed writer that has been retired poison the task at once.
void wiring::look_up(task& t, std::span<const access> accesses, bool prune,
                     const access* grouped) {
  search_.start(t.id);
  const std::uint64_t count = search_.look_up_all(accesses, prune, grouped);
  if (search_.failure() != 0) {
    t.poison(search_.failure());
  }
  tally(lookups_, count);
}

// The group is joined before the accesses are inserted, so later tasks find the
// companion.
void wiring::enter_any(task& t, std::span<const access> accesses) {
  const access* const grouped = find_any_order(accesses);
  look_up(t, accesses, true, grouped);
  if (grouped != nullptr) {
    const task_id companion = search_.companion();
    groups_.join(t, companion == 0 ? nullptr : &window_.find(companion));
  }
  t.accesses = static_cast<std::uint16_t>(search_.insert_all(accesses, t.id, grouped));
  keep_storages(t, accesses, false);
}

void wiring::keep_storages(const task& t, std::span<const access> accesses, bool manual) {
  for (const access& a : accesses) {
    const bool ordered = !manual && a.mode != access_mode::none;
    if (!a.bytes.empty() && (!ordered || storages_.fresh(a.bytes.id))) {
      storages_.keep(a.bytes.id, t.id);
    }
  }
}

// The ended task has stored its root before it was closed.
void wiring::inherit_failure(task& t, const task& ended, hazard why) noexcept {
  const task_id root = ended.root.load(std::memory_order_relaxed);
  if (root != 0 && carries_failure(why)) {
    t.poison(root);
  }
}

/// Returns the place for the next successor of `before`, of which there are `count`
/// already. A full block gets a new one behind it. If no block is free, the submitter
/// runs tasks until `before` has ended, and returns null: then no edge is needed any
/// more.
successor* wiring::add_place(task& before, std::uint32_t count) {
  successor_block& first = successors_of(before);
  if (count % successor_block::capacity != 0) {
    return &first.newest->tasks[count % successor_block::capacity];
  }
  successor_block* const block = blocks_.take();
  if (block == nullptr) {
    // `before` depends on older tasks alone, so it ends whatever becomes of this one.
    tally<std::uint64_t>(edge_stalls_);
    workers_.help_until_ended(before);
    return nullptr;
  }
  // A worker follows these two pointers only if there are more than `count` successors,
  // which the count says after they have been written.
  (count == successor_block::capacity ? first : *first.newest).next = block;
  first.newest = block;
  return block->tasks.data();
}

// For edges that a replay remembers.
bool wiring::connect_one(task& t, task& before, hazard why) {
  return add_successor(t, before, successors_of(before), why);
}

// Records of replays lie outside the slots, so each one is searched for.
std::uint32_t wiring::connect_anywhere(task& t) {
  return connect_found(t, [this](task_id id) {
    task& before = window_.find(id);
    return std::pair(&before, &successors_of(before));
  });
}

void wiring::show_waits(const task& t) const {
  for (const predecessor_list::item p : search_.found()) {
    workers_.board()->add_wait(t.id, p.id);
  }
}

}  // namespace weir::runtime
