// SPDX-License-Identifier: Apache-2.0
/// @file
/// Allocations, their lifetime, and the table that finds them by address.
///
/// An allocation is known as long as it is in the table, and its memory exists as long as
/// someone holds it. Freeing removes it from the table at once; operations in flight
/// still hold it.
#include "weir/tessera/device/symmetric_memory.hpp"

#include <limits>
#include <new>
#include <utility>

#include <fmt/core.h>

#include "device/address_table.hpp"

/// There are four kinds of memory: allocated on devices, allocated on the host,
/// registered by the program, and imported from another library. Symmetric memory has
/// one instance per rank, all of the same size.
namespace weir::tessera {
namespace {

/// Returns the error of a missing entry.
error no_memory(const char* action) {
  return {
      errc::out_of_memory,
      fmt::format("{}: expected memory for an entry of the table, found none", action)};
}

/// Checks that a range is not empty and lies within the address space.
result<void> check_range(const std::byte* address, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  if (address == nullptr || bytes == 0 ||
      bytes > std::numeric_limits<std::uintptr_t>::max() - begin) {
    return error(
        errc::invalid_argument,
        fmt::format("note memory at {}: expected an address and bytes within the "
                    "address space, found {} bytes",
                    static_cast<const void*>(address), bytes));
  }
  return {};
}

}  // namespace

// Runs on the thread that released the last reference, perhaps a worker. Damaged guards
// cannot be returned to anyone here, so they are reported to `on_damage`.
allocation::~allocation() {
  const auto report = [this](result<void> freed) {
    if (!freed && on_damage_ && *on_damage_) {
      (*on_damage_)(freed.error());
    }
  };
  // How the memory is returned depends on its kind.
  switch (kind_) {
    case memory_kind::device:
      for (std::size_t r = 0; r < instances_.size(); ++r) {
        report(backend_->free(devices_[r], instances_[r]));
      }
      break;
    case memory_kind::host:
      for (std::byte* address : instances_) {
        report(backend_->free_host(address));
      }
      break;
    // Without a backend, pinning has failed.
    case memory_kind::registered:
      if (backend_ != nullptr) {
        backend_->unpin_host(data(), bytes_);
      }
      break;
    case memory_kind::imported: break;
  }
  // Imported memory is released by its owner's function. Called after the memory is no
  // longer used here.
  if (on_release_) {
    on_release_();
  }
  if (late_ != nullptr) {
    late_->remove();
  }
}

// Counts the release of this allocation, unless another library has it: its end may then
// be arbitrarily late, and an allocation that waits for it would wait in vain.
void allocation::release_late(std::shared_ptr<late_releases> releases) const {
  // Memory that another library has does not count.
  if (!lent()) {
    late_ = std::move(releases);
    late_->add();
  }
}

/// Counts an allocation that was removed while it was in use.
void late_releases::add() noexcept {
  const std::lock_guard lock(mutex_);
  ++count_;
}

// Called when the memory has been returned to the device.
void late_releases::remove() noexcept {
  const std::lock_guard lock(mutex_);
  if (--count_ == 0) {
    none_.notify_all();
  }
}

bool late_releases::pending() const noexcept {
  const std::lock_guard lock(mutex_);
  return count_ != 0;
}

/// Returns false if the limit has passed.
bool late_releases::wait_for_none(std::int64_t limit_ns) const {
  std::unique_lock lock(mutex_);
  return none_.wait_for(lock, std::chrono::nanoseconds(limit_ns),
                        [&] { return count_ == 0; });
}

// Only the address on rank 0 stands for all ranks; other addresses stay as they are.
std::byte* memory_place::on_rank(std::int32_t other) const noexcept {
  const auto instances = memory->instances();
  const bool translated = memory->symmetric() && rank == 0 && other >= 0 &&
                          static_cast<std::size_t>(other) < instances.size();
  return instances[static_cast<std::size_t>(translated ? other : rank)] + offset;
}

/// The function for damage is shared, as allocations may outlive this object.
symmetric_memory::symmetric_memory(std::shared_ptr<device_backend> backend,
                                   std::function<void(const error&)> on_damage)
    : backend_(std::move(backend)),
      on_damage_(std::make_shared<const std::function<void(const error&)>>(
          std::move(on_damage))),
      table_(std::make_unique<address_table>()) {}

symmetric_memory::~symmetric_memory() = default;

// The allocation has no memory yet. Its destructor frees whatever it has by then.
std::shared_ptr<allocation> symmetric_memory::make(memory_kind kind, std::size_t bytes,
                                                   std::uint64_t owner) const {
  std::shared_ptr<allocation> made(new allocation);
  made->kind_ = kind;
  made->bytes_ = bytes;
  made->owner_ = owner;
  made->on_damage_ = on_damage_;
  return made;
}

// Takes memory on all devices or on none: if one device has too little, the destructor of
// the incomplete allocation frees the rest.
result<allocation_ptr> symmetric_memory::allocate(std::span<const std::int32_t> devices,
                                                  std::size_t bytes,
                                                  std::uint64_t owner) {
  if (devices.empty()) {
    return error(errc::invalid_argument,
                 fmt::format("allocate {} bytes: expected devices, found none", bytes));
  }
  if (bytes == 0) {
    // An allocation of 0 bytes is null.
    return allocation_ptr();
  }
  try {
    auto made = make(memory_kind::device, bytes, owner);
    made->backend_ = backend_;
    made->devices_.assign(devices.begin(), devices.end());
    made->instances_.reserve(devices.size());
    for (const std::int32_t device : devices) {
      WEIR_TRY(auto* address, backend_->allocate(device, bytes));
      // Only a complete allocation becomes known.
      made->instances_.push_back(address);
    }
    WEIR_CHECK(table_->add(made));
    return allocation_ptr(std::move(made));
  } catch (const std::bad_alloc&) {
    return no_memory("allocate memory on devices");
  }
}

/// Memory that devices can copy directly.
result<allocation_ptr> symmetric_memory::allocate_host(std::size_t bytes,
                                                       std::uint64_t owner) {
  if (bytes == 0) {
    return allocation_ptr();
  }
  try {
    auto made = make(memory_kind::host, bytes, owner);
    made->backend_ = backend_;
    made->devices_.assign(1, allocation::host_device);
    made->instances_.reserve(1);
    WEIR_TRY(auto* address, backend_->allocate_host(bytes));
    made->instances_.push_back(address);
    WEIR_CHECK(table_->add(made));
    return allocation_ptr(std::move(made));
  } catch (const std::bad_alloc&) {
    return no_memory("allocate host memory");
  }
}

// The table comes first, since pinning overlapping ranges twice would end with one of
// them unpinned too early. A failure to pin undoes the entry.
result<allocation_ptr> symmetric_memory::register_host(std::byte* address,
                                                       std::size_t bytes,
                                                       std::uint64_t owner) {
  // The range belongs to the program, which must keep it until it is removed.
  WEIR_CHECK(check_range(address, bytes));
  try {
    auto made = make(memory_kind::registered, bytes, owner);
    made->devices_.assign(1, allocation::host_device);
    made->instances_.assign(1, address);
    WEIR_CHECK(table_->add(made));
    if (auto pinned = backend_->pin_host(address, bytes); !pinned) {
      table_->remove(made);
      return std::move(pinned).error();
    }
    made->backend_ = backend_;  // from here on, the destructor unpins it
    return allocation_ptr(std::move(made));
  } catch (const std::bad_alloc&) {
    return no_memory("register host memory");
  }
}

// Memory that lies inside of a known allocation cannot be in the table twice. It is kept
// in the list of aliases, only so that it can be removed again.
result<allocation_ptr> symmetric_memory::adopt(std::byte* address, std::size_t bytes,
                                               std::int32_t device,
                                               std::function<void()> on_release,
                                               std::uint64_t owner) {
  WEIR_CHECK(check_range(address, bytes));
  try {
    auto made = make(memory_kind::imported, bytes, owner);
    made->devices_.assign(1, device);
    made->instances_.assign(1, address);
    if (table_->contains(address, bytes)) {
      const std::lock_guard lock(aliases_mutex_);
      // It is found by its exact address only.
      aliases_.push_back(made);
    } else {
      WEIR_CHECK(table_->add(made));
    }
    // Nothing above has taken over the memory, so a failure leaves it to the caller.
    made->on_release_ = std::move(on_release);  // from here on, the destructor calls it
    return allocation_ptr(std::move(made));
  } catch (const std::bad_alloc&) {
    return no_memory("adopt memory of another library");
  }
}

// Removes and returns an alias that begins at `address`.
allocation_ptr symmetric_memory::take_alias(const void* address, std::uint64_t owner) {
  const std::lock_guard lock(aliases_mutex_);
  for (auto i = aliases_.begin(); i != aliases_.end(); ++i) {
    // Address and owner must be those of the import.
    if ((*i)->data() == address && (*i)->owner() == owner) {
      allocation_ptr taken = std::move(*i);
      aliases_.erase(i);
      return taken;
    }
  }
  return nullptr;
}

// Removes an allocation from the table. Its memory is freed when the last user releases
// it, which the caller may be.
result<allocation_ptr> symmetric_memory::remove(const void* address, memory_kind kind,
                                                std::uint64_t owner) {
  const memory_place place = table_->find(address);
  // The address must be that of the whole allocation on rank 0.
  const bool fits = place.memory != nullptr && place.rank == 0 && place.offset == 0 &&
                    place.memory->kind() == kind && place.memory->owner() == owner;
  // Memory that was imported twice stays known until both imports have been removed.
  if (kind == memory_kind::imported) {
    if (auto alias = take_alias(address, owner); alias != nullptr) {
      return alias;
    }
  }
  // Of two threads that remove the same allocation, only one succeeds.
  if (fits && table_->remove(place.memory)) {
    return place.memory;
  }
  return error(
      errc::invalid_argument,
      fmt::format("free memory at {}: expected the start of an allocation of the "
                  "same kind and owner, found {}",
                  address,
                  place.memory == nullptr ? "an address that is not known"
                  : place.offset != 0     ? "an address inside of one"
                  : place.rank != 0       ? "the address of another rank"
                                          : "one of another kind or owner"));
}

/// Puts an allocation back that `remove` has taken out.
result<void> symmetric_memory::restore(const allocation_ptr& memory) try {
  return table_->add(memory);
} catch (const std::bad_alloc&) {
  return no_memory("restore memory on devices");
}

// Returns the removed allocations, so that the caller decides when they are released.
std::vector<allocation_ptr> symmetric_memory::remove_all(std::uint64_t owner) {
  std::vector<allocation_ptr> removed;
  for (auto& memory : table_->all()) {
    if (memory->owner() == owner && table_->remove(memory)) {
      removed.push_back(std::move(memory));
    }
  }
  const std::lock_guard lock(aliases_mutex_);
  // Aliases of the owner go as well.
  std::erase_if(aliases_, [&](allocation_ptr& alias) {
    if (alias->owner() != owner) {
      return false;
    }
    removed.push_back(std::move(alias));
    return true;
  });
  return removed;
}

// Aliases are not found: the allocation that contains them is.
std::optional<memory_place> symmetric_memory::find(const void* address) const {
  memory_place place = table_->find(address);
  if (place.memory == nullptr) {
    return std::nullopt;
  }
  return place;
}

/// See `address_table::translate`: no lock is taken.
std::byte* symmetric_memory::translate(void* address, std::int32_t rank) const noexcept {
  return table_->translate(static_cast<std::byte*>(address), rank);
}

// Lock order: the list of aliases, then the table.
std::size_t symmetric_memory::size() const {
  const std::lock_guard lock(aliases_mutex_);
  return table_->all().size() + aliases_.size();
}

}  // namespace weir::tessera
