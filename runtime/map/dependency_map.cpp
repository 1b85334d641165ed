// SPDX-License-Identifier: Apache-2.0
/// @file
/// Life of the entries of the TensorMap.
#include "map/dependency_map.hpp"

namespace weir::runtime {

dependency_map::dependency_map(std::uint32_t expected_entries) {
  pool_.reserve(expected_entries);
}

void dependency_map::add_storage(std::uint32_t index) {
  while (storages_.size() <= index) {
    storages_.emplace_back(static_cast<std::uint32_t>(storages_.size()));
  }
}

void dependency_map::remove_storage(std::uint32_t index) {
  for (std::size_t i = failed_.size(); i-- > 0;) {
    if (pool_[failed_[i]].owner >> 1 == index) {
      drop_failed(failed_[i]);
    }
  }
}

region_index& dependency_map::index_of(const entry& e) noexcept {
  dependents& of = storages_[e.owner >> 1];
  return (e.owner & 1) != 0 ? of.writers : of.readers;
}

footprint dependency_map::bytes_of(std::uint32_t ref, storage_id id) const noexcept {
  const entry& e = pool_[ref];
  if (!e.dense) {
    return strided_[ref];
  }
  footprint out;
  out.id = id;
  out.lo = e.lo;
  out.hi = e.hi;
  out.run = e.hi - e.lo;
  return out;
}

bool dependency_map::meets(const footprint& query, std::uint32_t ref) noexcept {
  const overlap answer = pool_[ref].dense ? decide_overlap(query, bytes_of(ref, query.id))
                                          : decide_overlap(query, strided_[ref]);
  maybe_ += static_cast<std::uint64_t>(answer == overlap::maybe);
  return answer != overlap::no;
}

std::uint32_t dependency_map::insert(const footprint& bytes, bool writer, task_id task,
                                     std::uint32_t next) {
  std::uint32_t ref = free_;
  if (ref == no_entry) {
    ref = static_cast<std::uint32_t>(pool_.size());
    pool_.emplace_back();
  } else {
    free_ = pool_[ref].next_of_task;
  }
  entry& e = pool_[ref];
  e.lo = bytes.lo;
  e.hi = bytes.hi;
  e.task = task;
  e.next_of_task = next;
  e.dense = bytes.dense();
  e.linked = true;
  e.left_behind = false;
  if (!e.dense) {
    if (ref >= strided_.size()) {
      strided_.resize(pool_.capacity());
    }
    strided_[ref] = bytes;
  }
  dependents& of = storages_[bytes.id.index];
  (writer ? of.writers : of.readers).insert(pool_, grid_, ref);
  ++size_;
  return ref;
}

void dependency_map::unlink(std::uint32_t ref) {
  entry& e = pool_[ref];
  index_of(e).remove(grid_, ref);
  e.linked = false;
  --size_;
}

void dependency_map::free(std::uint32_t ref) {
  pool_[ref].next_of_task = free_;
  free_ = ref;
}

void dependency_map::prune(std::uint32_t ref) {
  if (pool_[ref].left_behind) {
    drop_failed(ref);
  } else {
    unlink(ref);
  }
}

void dependency_map::retire(std::uint32_t first, task_id root) {
  while (first != no_entry) {
    const entry& e = pool_[first];
    const std::uint32_t next = e.next_of_task;
    if (root != 0 && (e.owner & 1) != 0 && e.linked) {
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
  entry& e = pool_[ref];
  e.task = root;
  e.left_behind = true;
  e.next_of_task = static_cast<std::uint32_t>(failed_.size());
  failed_.push_back(ref);
}

void dependency_map::drop_failed(std::uint32_t ref) {
  unlink(ref);
  const std::uint32_t last = failed_.back();
  const std::uint32_t position = pool_[ref].next_of_task;
  failed_[position] = last;
  pool_[last].next_of_task = position;
  failed_.pop_back();
  free(ref);
}

void dependency_map::forget_failures() {
  while (!failed_.empty()) {
    drop_failed(failed_.back());
  }
}

}  // namespace weir::runtime
