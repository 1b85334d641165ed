// SPDX-License-Identifier: Apache-2.0
/// @file
/// Waiting for tasks, for the writers of a tensor, and for the users of a storage. The
/// submitter runs tasks while it waits.
#include <algorithm>

#include <fmt/core.h>

#include "engine/engine_impl.hpp"

namespace weir::runtime {

/// Releases a storage after its users have ended.
result<void> engine::release(storage_id id) {
  impl& s = *impl_;
  if (!s.storages.valid(id)) {
    return error(
        errc::not_found,
        fmt::format("release of an unknown storage: expected a live one, found index {} "
                    "generation {}",
                    id.index, id.generation));
  }
  s.wait_for_users(id);
  // Fresh memory lies in the ring and cannot be freed alone.
  if (s.storages.fresh(id)) {
    return give_up(id);  // its block returns to the ring after older ones
  }
  s.search.map().remove_storage(id.index);
  s.storages.release(id);
  return {};
}

/// Waits until nothing uses the storage any more, so that its memory can be freed and its
/// entries in the map are gone. The submitter runs tasks while it waits. Failures of the
/// users are not reported here.
void engine::impl::wait_for_users(storage_id id) {
  // A footprint of all bytes of the storage.
  footprint all;
  all.id = id;
  all.hi = all.run = storages.size(id);
  task_id failed = 0;
  if (!all.empty()) {
    // A pruned access was ordered before the write that covers it, so waiting for the
    // others waits for it too.
    for (const task_id user : users(all, true, failed)) {
      static_cast<void>(wait_for(user));
    }
  }
  window.retire_ended();
  // A user may have ended while an older task still runs. Its entries must leave the map
  // before the storage does, and they leave in the order of ids.
  while (!all.empty() && !users(all, true, failed).empty()) {
    window.run_oldest();
  }
  // Tasks that only keep the storage are not in the map.
  while (window.oldest() <= storages.kept_by(id)) {
    window.run_oldest();
  }
}

/// Sorted ids make the order of waiting, and so the reported error, independent of the
/// map.
std::vector<task_id> engine::impl::users(const footprint& bytes, bool readers_too,
                                         task_id& failed) {
  // The map has the accesses of replays only when they are asked for.
  captured.register_accesses(0);
  std::vector<task_id> out;
  const auto note = [&](access_ref, const access_entry& e) { out.push_back(e.task); };
  failed = search.map().failure_in(bytes);
  search.map().conflicts(bytes, true, note);
  if (readers_too) {
    search.map().conflicts(bytes, false, note);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// Retired tasks have no record; their failures are in the log.
result<void> engine::impl::wait_for(task_id id) {
  if (id == 0 || id >= window.next()) {
    return error(
        errc::invalid_argument,
        fmt::format("wait for an unknown task: expected an id in [1, {}), found {}",
                    window.next(), id));
  }
  // Its record is used by another task by now.
  if (id < window.oldest()) {
    if (auto failed = failures.retired(id)) {
      return std::move(*failed);
    }
    return {};
  }
  task& t = window.find(id);
  // The record stays valid meanwhile: only this thread retires tasks.
  workers.help_until_ended(t);
  if (const task_id root = t.root.load(std::memory_order_relaxed); root != 0) {
    return failures.answer(id, t.name, root);
  }
  return {};
}

// Returns the failure of the task, or of the oldest failed task that it depends on.
result<void> engine::wait(task_id id) {
  return impl_->wait_for(id);
}

/// Waits for all writers, and returns the first of their failures. A failure that was
/// left in the bytes by a retired task is reported too.
result<void> engine::wait(const tensor& t) {
  if (t.bytes().empty()) {
    return {};
  }
  if (!impl_->storages.valid(t.bytes().id)) {
    return error(
        errc::not_found,
        fmt::format("wait for a tensor of an unknown storage: expected a live one, found "
                    "index {} generation {}",
                    t.bytes().id.index, t.bytes().id.generation));
  }
  task_id failed = 0;
  result<void> out;
  for (const task_id writer : impl_->users(t.bytes(), false, failed)) {
    if (auto one = impl_->wait_for(writer); !one && out) {
      out = std::move(one);
    }
  }
  // A task that has failed and retired is no writer in the map any more, but its bytes
  // are marked.
  if (failed != 0 && out) {
    return impl_->failures.tensor_answer(failed);
  }
  return out;
}

/// Waits for the newest task first, then for the rest, and takes the oldest failure.
result<void> engine::wait_all() {
  impl& s = *impl_;
  if (!s.window.empty()) {  // one long wait instead of many short ones
    s.workers.help_until_ended(s.window.find(s.window.next() - 1));
  }
  while (!s.window.empty()) {
    s.window.run_oldest();
  }
  // From now on the bytes of failed tasks count as any others.
  s.search.map().forget_failures();
  if (auto first = s.failures.take_first()) {
    return std::move(*first);
  }
  return {};
}

}  // namespace weir::runtime
