// SPDX-License-Identifier: Apache-2.0
/// @file
/// Life of the entries of the TensorMap.
#include "tasks/dependency_map.hpp"

#include <cstddef>

namespace weir::runtime {
namespace {

/// Copies the progressions in use only.
void assign(footprint& to, const footprint& from) noexcept {
  static_assert(std::is_trivially_copyable_v<footprint>);
  std::memcpy(&to, &from,
              offsetof(footprint, steps) + from.depth * sizeof(footprint::progression));
}

}  // namespace

dependency_map::dependency_map(std::uint32_t expected_entries) {
  entries_.reserve(expected_entries);
}

void dependency_map::add_storage(std::uint32_t index) {
  while (storages_.size() <= index) {
    storages_.emplace_back(static_cast<std::uint32_t>(storages_.size()));
  }
}

void dependency_map::remove_storage(std::uint32_t index) {
  for (std::size_t i = failed_.size(); i-- > 0;) {
    if (entries_[failed_[i]].bytes.id.index == index) {
      drop_failed(failed_[i]);
    }
  }
}

std::uint32_t dependency_map::insert(const footprint& bytes, bool writer, task_id task,
                                     std::uint32_t next) {
  std::uint32_t ref = free_;
  if (ref == no_entry) {
    ref = static_cast<std::uint32_t>(entries_.size());
    entries_.emplace_back();
  } else {
    free_ = entries_[ref].next_of_task;
  }
  entry& e = entries_[ref];
  assign(e.bytes, bytes);
  e.task = task;
  e.root = 0;
  e.next_of_task = next;
  e.writer = writer;
  e.linked = true;
  dependents& of = storages_[bytes.id.index];
  (writer ? of.writers : of.readers).insert(grid_, bytes.lo, bytes.hi, ref);
  return ref;
}

void dependency_map::unlink(std::uint32_t ref) {
  entry& e = entries_[ref];
  dependents& of = storages_[e.bytes.id.index];
  (e.writer ? of.writers : of.readers).remove(grid_, ref);
  e.linked = false;
}

void dependency_map::free(std::uint32_t ref) {
  entries_[ref].next_of_task = free_;
  free_ = ref;
}

void dependency_map::prune(std::uint32_t ref) {
  if (entries_[ref].task == 0) {
    drop_failed(ref);
  } else {
    unlink(ref);
  }
}

void dependency_map::retire(std::uint32_t first, task_id root) {
  while (first != no_entry) {
    entry& e = entries_[first];
    const std::uint32_t next = e.next_of_task;
    if (root != 0 && e.writer && e.linked) {
      leave_behind(first, root);
    } else {
      if (e.linked) {
        unlink(first);
      }
      free(first);
    }
    first = next;
  }
}

void dependency_map::leave_behind(std::uint32_t ref, task_id root) {
  entry& e = entries_[ref];
  e.task = 0;
  e.root = root;
  e.failed_position = static_cast<std::uint32_t>(failed_.size());
  failed_.push_back(ref);
}

void dependency_map::drop_failed(std::uint32_t ref) {
  unlink(ref);
  const std::uint32_t last = failed_.back();
  failed_[entries_[ref].failed_position] = last;
  entries_[last].failed_position = entries_[ref].failed_position;
  failed_.pop_back();
  free(ref);
}

void dependency_map::forget_failures() {
  while (!failed_.empty()) {
    drop_failed(failed_.back());
  }
}

}  // namespace weir::runtime
