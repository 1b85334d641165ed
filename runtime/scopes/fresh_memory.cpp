// SPDX-License-Identifier: Apache-2.0
/// @file
/// Making fresh memory, giving it up, and the proof that waiting for free bytes would be
/// in vain.
///
/// A scope holds the fresh memory that was made in it. The life of a block:
///
///   make_in   gets a place at the head of the ring, a storage id, an index in the map
///   drop      given up by `give_up`, `make_like` or the end of the scope: no new task
///             may name it, older ones may still use it
///   reclaim   given up, its last task has retired, and it is the oldest block of the
///             ring: the index and the bytes are free again
///
/// Blocks leave the ring in the order in which they entered it. A block that is given up
/// early therefore waits for older blocks.
#include "scopes/fresh_memory.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "map/tally.hpp"

namespace weir::runtime {

// Tasks of a manual scope are not found by look-ups, so an automatic scope inside it
// could not order its tasks behind them.
result<std::uint64_t> fresh_memory::open_scope(std::string_view name, scope_kind kind) {
  if (scopes_.manual() && kind == scope_kind::automatic) {
    return error(
        errc::invalid_argument,
        fmt::format("scope not opened \"{}\": expected a manual one inside manual \"{}\" "
                    "whose tasks nobody would find, found an automatic one",
                    name, scopes_.path(scopes_.innermost().serial)));
  }
  return scopes_.open(name, kind);
}

// Scopes are closed from the inside out. The list of each is taken away first, so that
// `drop` need not shorten it while it is walked.
void fresh_memory::close_scope(std::uint64_t serial) noexcept {
  while (scopes_.find(serial) != nullptr) {
    const std::vector<storage_id> made = std::exchange(scopes_.innermost().made, {});
    for (const storage_id id : made) {
      if (storages_.valid(id)) {
        drop(id);
      }
    }
    scopes_.close_innermost();
  }
  reclaim();
}

// The new storage belongs to the scope of the old one, so a tensor that is renewed in an
// inner scope outlives this scope as before. An allocation has no scope; its version is
// made in the innermost one.
result<tensor> fresh_memory::make_like(const tensor& before, bool replaces) {
  const storage& s = before.store();
  const std::int64_t bytes = s.size;
  if (!storages_.valid(s.id) || before.offset() != 0 || !before.row_major() ||
      before.bytes().hi != bytes) {
    return error(
        errc::invalid_argument,
        fmt::format("tensor not renewed: expected a row-major one that is all of a live "
                    "storage, found bytes [{}, {}) of storage {} of {} bytes",
                    before.bytes().lo, before.bytes().hi, s.id.index, bytes));
  }
  const bool was_fresh = storages_.fresh(s.id);
  const bool gives_up = was_fresh && replaces;
  const std::uint64_t scope =
      was_fresh ? storages_.scope_of(s.id) : scopes_.last().serial;
  // If there is too little space, `make_in` gives up the old version itself, before it
  // waits.
  WEIR_TRY(const storage now, make_in(scope, bytes, gives_up ? s.id : storage_id()));
  if (gives_up && storages_.valid(s.id)) {
    drop(s.id);
  }
  return tensor::over(now, before.type(), before.shape());
}

// A storage that was given up already is accepted, because its scope may have closed.
result<void> fresh_memory::give_up(storage_id id) {
  if (!storages_.known(id)) {
    return error(errc::not_found,
                 fmt::format("storage not given up: expected one that was made, found "
                             "index {} generation {}",
                             id.index, id.generation));
  }
  if (!storages_.valid(id)) {
    return {};
  }
  if (!storages_.fresh(id)) {
    return error(errc::invalid_argument,
                 fmt::format("storage {} not given up: expected fresh memory, found an "
                             "allocation, which `release` gives back",
                             id.index));
  }
  drop(id);
  reclaim();
  return {};
}

// After this call the id is not valid. The memory is untouched until `reclaim`.
void fresh_memory::drop(storage_id id) noexcept {
  storages_.give_up(id);
  scope_stack::open_scope* in = scopes_.find(storages_.scope_of(id));
  if (in != nullptr && ++in->given_up > 16 + in->made.size() / 2) {
    // A loop that renews its tensors must not make the list longer and longer.
    std::erase_if(in->made, [&](storage_id made) { return !storages_.valid(made); });
    in->given_up = 0;
  }
}

// A block at the tail is free if it was given up and `kept_by`, its newest task, is older
// than the oldest task of the window.
void fresh_memory::reclaim() noexcept {
  while (!heap_.blocks().empty()) {
    const storage_id id = heap_.blocks().front().id;
    if (storages_.valid(id) || storages_.kept_by(id) >= window_.oldest()) {
      return;
    }
    map_.remove_storage(id.index);
    storages_.release(id);
    heap_.pop();
  }
}

// Three cases, in this order:
//   1. no block is in the way: nothing happens
//   2. a block in the way is held by an open scope: an error at once, since nobody but
//      this thread could close the scope
//   3. all blocks in the way are given up: run tasks until their users have retired
result<void> fresh_memory::make_space(std::uint64_t bytes, storage_id replaced) {
  window_.retire_ended();
  reclaim();
  // A block goes back once its scope does not hold it and its tasks have ended. Tasks end
  // by themselves; scopes are closed by this thread alone, which would wait here.
  for (std::size_t i = heap_.in_the_way(bytes); i-- > 0;) {
    const storage_id id = heap_.blocks()[i].id;
    if (id != replaced && storages_.valid(id)) {
      return deadlock(bytes, replaced);
    }
  }
  // The old version of a tensor is kept as long as the new one fits beside it.
  if (heap_.in_the_way(bytes) != 0) {
    tally<std::uint64_t>(stalls_);
    if (storages_.valid(replaced)) {
      drop(replaced);
      reclaim();
    }
  }
  while (heap_.in_the_way(bytes) != 0) {
    // The oldest block decides, because blocks leave the ring in order. Its newest user
    // must have ended and retired, which needs all older tasks to end as well.
    window_.run_until_ended(storages_.kept_by(heap_.blocks().front().id));
    if (storages_.kept_by(heap_.blocks().front().id) >= window_.oldest()) {
      window_.run_oldest();  // the user has ended, an older task has not
    }
    reclaim();
  }
  return {};
}

// Sums up all blocks that open scopes hold, and names the oldest of them and a size of
// the heap with which the request would have succeeded.
error fresh_memory::deadlock(std::uint64_t bytes, storage_id replaced) const {
  std::uint64_t used = 0;
  std::size_t first = heap_.blocks().size();
  for (std::size_t i = first; i-- > 0;) {
    const heap_ring::block& b = heap_.blocks()[i];
    if (b.id != replaced && storages_.valid(b.id)) {
      used += b.end - b.begin;
      first = i;
    }
  }
  const storage_id holds = heap_.blocks()[first].id;
  return error(errc::out_of_memory,
               fmt::format("fresh memory not made in scope \"{}\": expected space for "
                           "{} bytes in the heap of {}, found {} bytes held by open "
                           "scopes; the first of them is storage {}, held by \"{}\", "
                           "which this thread would have to close",
                           scopes_.path(scopes_.last().serial), bytes, heap_.capacity(),
                           used, holds.index, scopes_.path(storages_.scope_of(holds))))
      .hint(fmt::format("a heap of {} bytes is large enough (engine_options::heap); or "
                        "give up versions that no later task needs",
                        heap_.enough(first, bytes)));
}

// The heap is allocated by the first request, so engines without fresh memory need none.
// A storage of no bytes still takes a block, so that it has an id of its own.
result<storage> fresh_memory::make_in(std::uint64_t scope, std::int64_t bytes,
                                      storage_id replaced) {
  const std::uint64_t size =
      heap_ring::rounded(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 1)));
  if (bytes < 0 || size > heap_.capacity()) {
    return error(
               errc::out_of_range,
               fmt::format("fresh memory not made: expected at most the {} bytes of the "
                           "heap, found {}",
                           heap_.capacity(), bytes))
        .hint("engine_options::heap says how large it is");
  }
  if (heap_memory_.base == nullptr) {
    WEIR_TRY(heap_memory_, storages_.allocate(static_cast<std::int64_t>(heap_.capacity()),
                                              "heap of fresh memory"));
    map_.add_storage(heap_memory_.id.index);
  }
  WEIR_CHECK(make_space(size, replaced));
  const storage made =
      storages_.fresh_part(heap_memory_.base + heap_.next(size), bytes, scope);
  heap_.add(size, made.id);
  map_.add_storage(made.id.index);
  // The scope is open: it is the innermost one, or holds the storage that is replaced.
  scopes_.find(scope)->made.push_back(made.id);
  return made;
}

}  // namespace weir::runtime
