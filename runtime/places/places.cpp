// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tasks at places: the copies before a task, and its accesses in the memory of its
/// place.
///
/// The program addresses tensors by their storage in place 0, the memory of the machine.
/// A task at place p sees its tensors in the memory of p. Before it is submitted,
///
///   1. its accesses are translated to the storages at p,
///   2. bytes that p lacks and the task needs become copy tasks from their holders,
///   3. the task is submitted; then the ledger notes that only p has the bytes it writes.
///
/// Copies are tasks of the engine with a read and a write access, so the engine orders
/// them with all other tasks. The ledger describes the state after all submitted tasks.
#include "weir/runtime/places.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/core.h>

#include "places/access_needs.hpp"
#include "places/byte_runs.hpp"

namespace weir::runtime {
namespace {

/// The captures of a copy task: a footprint in the space that a task has for captures.
/// Footprints with more progressions are copied in parts.
struct packed_copy {
  static constexpr std::size_t max_depth = 4;
  /// Number of a place. Places are fewer than holders of a ledger.
  using packed_place = std::uint16_t;
  static_assert(copy_ledger::max_holders - 1 <= std::numeric_limits<packed_place>::max());

  mover* by;
  const std::byte* from;
  std::byte* to;
  std::int64_t lo;
  std::int64_t run;
  std::uint8_t depth;
  packed_place from_place;
  packed_place to_place;
  std::array<footprint::progression, max_depth> steps;

  /// Returns the copy as movers get it. Computes bounds and nesting again from the
  /// progressions.
  [[nodiscard]] copy_order unpacked() const noexcept {
    copy_order order;
    order.from_place = from_place;
    order.from = from;
    order.to_place = to_place;
    order.to = to;
    footprint& f = order.bytes;
    f.lo = lo;
    f.run = run;
    f.depth = depth;
    std::int64_t inside = run;
    for (std::size_t i = depth; i-- > 0;) {
      f.steps[i] = steps[i];
      // Nested as long as no repetition reaches into the next.
      f.nested = f.nested && steps[i].stride >= inside;
      inside += steps[i].stride * (steps[i].count - 1);
    }
    f.hi = lo + inside;
    return order;
  }
};

/// Returns the part of a footprint at one repetition of its outermost progression.
/// Used to peel off progressions until the rest fits into `packed_copy`.
footprint repetition(const footprint& bytes, std::int64_t index) {
  const footprint::progression& outer = bytes.steps[0];
  footprint part = bytes;
  part.lo += index * outer.stride;
  part.hi = part.lo + (bytes.hi - bytes.lo) - (outer.count - 1) * outer.stride;
  part.depth = static_cast<std::uint8_t>(bytes.depth - 1);
  for (std::size_t i = 0; i < part.depth; ++i) {
    part.steps[i] = bytes.steps[i + 1];
  }
  return part;
}

}  // namespace

/// The copy of movers whose places are all in the same address space.
void copy_bytes(const footprint& bytes, const std::byte* from, std::byte* to) noexcept {
  for_each_run(bytes, [&](std::int64_t lo, std::int64_t hi) {
    std::memcpy(to + lo, from + lo, static_cast<std::size_t>(hi - lo));
  });
}

/// The task writes all bytes of the tensor, so old ones are not needed.
placed_access overwrites(const tensor& t) {
  placed_access a = writes(t);
  a.whole = true;
  return a;
}

// The counter of failures tells later whether a copy may have failed.
places::places(engine& tasks, mover& copies, place_id count)
    : tasks_(&tasks), mover_(&copies), count_(count), failures_seen_(tasks.failures()) {
  WEIR_EXPECT(count >= 1 && count <= copy_ledger::max_holders);
}

places::~places() {
  // The storages in place 0 belong to their owners.
  for (auto& [key, s] : storages_) {
    free_copies(s);
  }
}

/// Frees all copies but that in place 0. The engine waits for the tasks that use them.
/// The memory goes back to the mover only if the engine has released the storage.
void places::free_copies(copies_of_storage& s) noexcept {
  for (place_id place = 1; place < count_; ++place) {
    storage& copy = s.at[place];
    if (copy.id.generation != 0 && tasks_->release(copy.id)) {
      mover_->free(place, copy.base, copy.size);
      copy = {};
    }
  }
}

/// Places are numbered from 0.
result<void> places::check_place(place_id place) const {
  if (place < count_) {
    return {};
  }
  return error(
      errc::out_of_range,
      fmt::format("task or tensor not placed: expected a place in [0, {}), found "
                  "{}",
                  count_, place));
}

/// Allocates the copy on its first use; no bytes are copied here. The result has the
/// type and the shape of `t`.
result<tensor> places::copy_in(const tensor& t, place_id place) {
  WEIR_CHECK(check_place(place));
  if (place == machine_memory) {
    return t;
  }
  const storage& first = t.store();
  const auto it = storages_.try_emplace(key_of(first.id), first, count_).first;
  storage& copy = it->second.at[place];
  if (copy.id.generation == 0) {
    WEIR_TRY(std::byte * base, mover_->allocate(place, first.size));
    copy = tasks_->adopt(base, first.size, "copies");
  }
  return tensor::strided(copy, t.type(), t.offset(), t.shape(), t.strides());
}

/// Forgets all copies if a task has failed or was not run since the last call: that task
/// may have been a copy. Until `engine::wait_all` the engine poisons the readers of such
/// a copy, and after it all failures have been counted.
void places::forget_failed_copies() noexcept {
  if (const std::uint64_t failures = tasks_->failures(); failures != failures_seen_) {
    failures_seen_ = failures;
    for (auto& [key, s] : storages_) {
      s.ledger.forget_copies();
    }
  }
}

/// Submits the copies before a task and translates its accesses. Checks all storages
/// first, so that a refused task has copied nothing.
/// The translated accesses stay in `translated_` for the submission that follows.
result<void> places::prepare(place_id place, std::span<const placed_access> accesses) {
  WEIR_CHECK(check_place(place));
  forget_failed_copies();
  translated_.clear();
  for (const placed_access& a : accesses) {
    WEIR_CHECK(translate(place, a));
  }
  // Bytes are fetched in the order of the accesses.
  for (const placed_access& a : accesses) {
    const auto known = storages_.find(key_of(a.bytes.id));
    if (known == storages_.end() || a.bytes.empty()) {
      continue;
    }
    copies_of_storage& s = known->second;
    // Old bytes are needed: the newest ones are copied.
    if (needs_old_bytes(a.mode, a.whole)) {
      WEIR_CHECK(fetch(s, a.bytes, place));
    } else if (changes_bytes(a.mode)) {
      // Old bytes are not copied, but their writer's failure must reach the task.
      missing_.clear();
      s.ledger.find_missing(a.bytes, place, missing_);
      for (missing_piece& piece : missing_) {
        piece.bytes.id = s.at[piece.from].id;
        translated_.push_back({piece.bytes, access_mode::read});
      }
    }
  }
  return {};
}

/// Adds the access with the storage of the place. Storages that were never used at
/// another place are in place 0.
result<void> places::translate(place_id place, const placed_access& a) {
  translated_.push_back(a);
  const auto known = storages_.find(key_of(a.bytes.id));
  if (place == machine_memory || a.bytes.empty()) {
    return {};
  }
  // The copy must exist and cover the bytes.
  const bool there = known != storages_.end() &&
                     known->second.at[place].id.generation != 0 &&
                     a.bytes.hi <= known->second.at[place].size;
  if (!there) {
    return error(errc::not_found,
                 fmt::format("task not submitted to place {}: expected a copy of storage "
                             "{} with {} bytes there, found none",
                             place, a.bytes.id.index, a.bytes.hi))
        .hint("places::copy_in makes the copy");
  }
  translated_.back().bytes.id = known->second.at[place].id;
  return {};
}

/// `place` gets what it lacks.
result<void> places::fetch(copies_of_storage& s, const footprint& bytes, place_id place) {
  missing_.clear();
  s.ledger.find_missing(bytes, place, missing_);
  for (const missing_piece& piece : missing_) {
    WEIR_CHECK(copy_piece(s, piece.bytes, piece.from, place));
  }
  return {};
}

/// Submits one copy: a task that reads the bytes at one place and writes them at another.
/// A copy notes that the target holds the bytes, although the task has not run: later
/// tasks depend on it through the engine. If it fails, `forget_failed_copies` takes this
/// back.
result<void> places::copy_piece(copies_of_storage& s, const footprint& bytes,
                                place_id from, place_id to) {
  // Too deep for the captures of a task: each repetition becomes a copy of its own.
  if (bytes.depth > packed_copy::max_depth) {
    for (std::int64_t i = 0; i < bytes.steps[0].count; ++i) {
      WEIR_CHECK(copy_piece(s, repetition(bytes, i), from, to));
    }
    return {};
  }
  packed_copy copy{mover_,
                   s.at[from].base,
                   s.at[to].base,
                   bytes.lo,
                   bytes.run,
                   bytes.depth,
                   static_cast<packed_copy::packed_place>(from),
                   static_cast<packed_copy::packed_place>(to),
                   {}};
  std::copy_n(bytes.steps.begin(), bytes.depth, copy.steps.begin());
  // The task waits for the writers of the source and for the readers of the target.
  std::array<access, 2> accesses{access{bytes, access_mode::read},
                                 access{bytes, access_mode::write}};
  accesses[0].bytes.id = s.at[from].id;
  accesses[1].bytes.id = s.at[to].id;
  WEIR_CHECK(tasks_->submit("copy", accesses, [copy](const task_context&) {
    return copy.by->copy(copy.unpacked());
  }));
  // The ledger counts the copy at once; a failure is found by the number of failures.
  s.ledger.copied(bytes, to);
  ++counters_.copies;
  counters_.bytes += byte_count(bytes);
  return {};
}

/// Called after the task has been submitted.
void places::note_writes(place_id place, std::span<const placed_access> accesses) {
  for (const placed_access& a : accesses) {
    const auto known = storages_.find(key_of(a.bytes.id));
    if (changes_bytes(a.mode) && known != storages_.end()) {
      known->second.ledger.wrote(a.bytes, place);
    }
  }
}

/// Copies the bytes to a place before they are needed.
result<void> places::bring(const tensor& t, place_id place) {
  WEIR_CHECK(copy_in(t, place));
  forget_failed_copies();
  const auto known = storages_.find(key_of(t.store().id));
  return known == storages_.end() ? result<void>()
                                  : fetch(known->second, t.bytes(), place);
}

/// The bytes are in the memory of the machine afterwards.
result<void> places::wait(const tensor& t) {
  WEIR_CHECK(bring(t, machine_memory));
  return tasks_->wait(t);
}

/// The engine waits for tasks that use the storage.
result<void> places::release(storage_id id) {
  if (const auto known = storages_.find(key_of(id)); known != storages_.end()) {
    free_copies(known->second);
    storages_.erase(known);
  }
  return tasks_->release(id);
}

}  // namespace weir::runtime
