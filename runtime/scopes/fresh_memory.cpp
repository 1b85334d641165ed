// SPDX-License-Identifier: Apache-2.0
/// @file
/// Scopes and fresh memory: tokens, renaming, and the proof that waiting would be in
/// vain.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tasks/engine_impl.hpp"

namespace weir::runtime {

scope::scope(scope&& from) noexcept
    : engine_(std::exchange(from.engine_, nullptr)), serial_(from.serial_) {}

scope& scope::operator=(scope&& from) noexcept {
  if (this != &from) {
    close();
    engine_ = std::exchange(from.engine_, nullptr);
    serial_ = from.serial_;
  }
  return *this;
}

void scope::close() noexcept {
  if (engine_ != nullptr) {
    std::exchange(engine_, nullptr)->close_scope(serial_);
  }
}

result<scope> engine::open_scope(std::string_view name, scope_kind kind) {
  scope_stack& scopes = impl_->scopes;
  if (scopes.manual() && kind == scope_kind::automatic) {
    return error(
        errc::invalid_argument,
        fmt::format("scope not opened \"{}\": expected a manual one inside manual \"{}\" "
                    "whose tasks nobody would find, found an automatic one",
                    name, scopes.path(scopes.innermost().serial)));
  }
  return scope(this, scopes.open(name, kind));
}

void engine::close_scope(std::uint64_t serial) noexcept {
  scope_stack& scopes = impl_->scopes;
  while (scopes.find(serial) != nullptr) {
    const std::vector<storage_id> made = std::exchange(scopes.innermost().made, {});
    for (const storage_id id : made) {
      if (impl_->storages.valid(id)) {
        impl_->drop_token(id);
      }
    }
    scopes.close_innermost();
  }
  impl_->reclaim();
}

result<storage> engine::fresh(std::int64_t bytes) {
  return impl_->make_fresh(bytes, impl_->scopes.last().serial, {});
}

result<tensor> engine::impl::next_version(const tensor& before, bool replaces) {
  const storage& s = before.store();
  const std::int64_t bytes = s.size;
  if (!storages.valid(s.id) || before.offset() != 0 || !before.row_major() ||
      before.bytes().hi != bytes) {
    return error(
        errc::invalid_argument,
        fmt::format("tensor not renewed: expected a row-major one that is all of a live "
                    "storage, found bytes [{}, {}) of storage {} of {} bytes",
                    before.bytes().lo, before.bytes().hi, s.id.index, bytes));
  }
  const bool was_fresh = storages.fresh(s.id);
  const bool gives_up = was_fresh && replaces;
  const std::uint64_t in = was_fresh ? storages.scope_of(s.id) : scopes.last().serial;
  WEIR_TRY(const storage now, make_fresh(bytes, in, gives_up ? s.id : storage_id()));
  if (gives_up && storages.valid(s.id)) {
    drop_token(s.id);
  }
  return tensor::over(now, before.type(), before.shape());
}

result<tensor> engine::fresh_like(const tensor& before) {
  return impl_->next_version(before, false);
}

result<tensor> engine::renew(const tensor& before) {
  return impl_->next_version(before, true);
}

result<void> engine::give_up(storage_id id) {
  storage_table& storages = impl_->storages;
  if (!storages.known(id)) {
    return error(errc::not_found,
                 fmt::format("storage not given up: expected one that was made, found "
                             "index {} generation {}",
                             id.index, id.generation));
  }
  if (!storages.valid(id)) {
    return {};
  }
  if (!storages.fresh(id)) {
    return error(errc::invalid_argument,
                 fmt::format("storage {} not given up: expected fresh memory, found an "
                             "allocation, which `release` gives back",
                             id.index));
  }
  impl_->drop_token(id);
  impl_->reclaim();
  return {};
}

void engine::impl::drop_token(storage_id id) noexcept {
  storages.give_up(id);
  ++releases;
  scope_stack::open_scope* in = scopes.find(storages.scope_of(id));
  if (in != nullptr && ++in->given_up > 16 + in->made.size() / 2) {
    // A loop that renews its tensors must not make the list longer and longer.
    std::erase_if(in->made, [&](storage_id made) { return !storages.valid(made); });
    in->given_up = 0;
  }
}

void engine::impl::reclaim() noexcept {
  while (!heap.blocks().empty()) {
    const storage_id id = heap.blocks().front().id;
    if (storages.valid(id) || storages.kept_by(id) >= oldest) {
      return;
    }
    search.map().remove_storage(id.index);
    storages.release(id);
    heap.pop();
  }
}

result<void> engine::impl::make_heap_room(std::uint64_t bytes, storage_id replaced) {
  retire(window);
  reclaim();
  // A block goes once its token is given up and its tasks have ended. Tasks end by
  // themselves; the token is given up by this thread alone, which would wait here.
  for (std::size_t i = heap.in_the_way(bytes); i-- > 0;) {
    const storage_id id = heap.blocks()[i].id;
    if (id != replaced && storages.valid(id)) {
      return heap_deadlock(bytes, replaced);
    }
  }
  if (heap.in_the_way(bytes) != 0) {
    tally<std::uint64_t>(tallies.heap_stalls);
    if (storages.valid(replaced)) {
      drop_token(replaced);
      reclaim();
    }
  }
  while (heap.in_the_way(bytes) != 0) {
    workers.help_until_ended(at(storages.kept_by(heap.blocks().front().id)));
    retire(window);
    if (storages.kept_by(heap.blocks().front().id) >= oldest) {
      workers.help_until_ended(at(oldest));  // the user has ended, one before it has not
      retire(window);
    }
    reclaim();
  }
  return {};
}

error engine::impl::heap_deadlock(std::uint64_t bytes, storage_id replaced) const {
  std::uint64_t held = 0;
  std::size_t first = heap.blocks().size();
  for (std::size_t i = first; i-- > 0;) {
    const heap_ring::block& b = heap.blocks()[i];
    if (b.id != replaced && storages.valid(b.id)) {
      held += b.end - b.begin;
      first = i;
    }
  }
  const storage_id holds = heap.blocks()[first].id;
  return error(errc::out_of_memory,
               fmt::format("fresh memory not made in scope \"{}\": expected room for {} "
                           "bytes in the heap of {}, found {} held by open scopes, first "
                           "those of storage {} by \"{}\", which this thread would have "
                           "to close",
                           scopes.path(scopes.last().serial), bytes, heap.capacity(),
                           held, holds.index, scopes.path(storages.scope_of(holds))))
      .hint(fmt::format("a heap of {} bytes would do (engine_options::heap); or give up "
                        "what no later task needs",
                        heap.enough(first, bytes)));
}

result<storage> engine::impl::make_fresh(std::int64_t bytes, std::uint64_t in,
                                         storage_id replaced) {
  const std::uint64_t size =
      heap_ring::rounded(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 1)));
  if (bytes < 0 || size > heap.capacity()) {
    return error(
               errc::out_of_range,
               fmt::format("fresh memory not made: expected at most the {} bytes of the "
                           "heap, found {}",
                           heap.capacity(), bytes))
        .hint("engine_options::heap says how large it is");
  }
  if (heap_memory.base == nullptr) {
    WEIR_TRY(heap_memory, storages.allocate(static_cast<std::int64_t>(heap.capacity()),
                                            "heap of fresh memory"));
    search.map().add_storage(heap_memory.id.index);
  }
  WEIR_CHECK(make_heap_room(size, replaced));
  const storage made = storages.fresh_part(heap_memory.base + heap.next(size), bytes, in);
  heap.add(size, made.id);
  search.map().add_storage(made.id.index);
  scopes.find(in)->made.push_back(made.id);
  return made;
}

}  // namespace weir::runtime
