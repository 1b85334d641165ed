// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds the allocation of an address. A symmetric allocation has an instance of equal
/// size on each device of a mesh; its pointer is the address of instance 0, from which
/// the address on each rank is found.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/tessera/device/backend.hpp"

namespace weir::tessera {

/// Kinds of memory.
enum class memory_kind : std::uint8_t {
  device,      ///< an instance on each of some devices
  host,        ///< host memory of the backend
  registered,  ///< the caller's host memory, pinned
  imported     ///< memory of another library, on a device or the host
};

/// Counts allocations that a program has freed while operations still use them. Several
/// devices' memory may return late in this way; an allocation that fails can wait for it.
/// @threads{safe to use concurrently}
class late_releases {
 public:
  /// Counts one more allocation.
  void add() noexcept;
  /// Counts one less, when its memory has returned to the device.
  void remove() noexcept;
  /// Returns true if an allocation is counted.
  [[nodiscard]] bool pending() const noexcept;
  /// Waits until no allocation is counted. Returns false if `limit_ns` nanoseconds have
  /// passed before.
  bool wait_for_none(std::int64_t limit_ns) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable none_;
  int count_ = 0;
};

/// A shared allocation. Its memory is freed when the last holder releases it, so work in
/// flight holds it. Immutable except for `lend`.
/// @threads{safe from any thread}
class allocation {
 public:
  /// Number of the host among devices.
  static constexpr std::int32_t host_device = -1;

  allocation(const allocation&) = delete;
  allocation& operator=(const allocation&) = delete;
  ~allocation();

  /// Returns the kind.
  [[nodiscard]] memory_kind kind() const noexcept { return kind_; }
  /// Returns the size of an instance. @units{bytes}
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Returns the number that the caller gave its owner.
  [[nodiscard]] std::uint64_t owner() const noexcept { return owner_; }
  /// Returns the address of instance 0, which users hold.
  [[nodiscard]] std::byte* data() const noexcept { return instances_.front(); }
  /// Returns the address on each rank; a single one if the memory is not on devices.
  [[nodiscard]] std::span<std::byte* const> instances() const noexcept {
    return instances_;
  }
  /// Returns the device of each instance, or `host_device`.
  [[nodiscard]] std::span<const std::int32_t> devices() const noexcept {
    return devices_;
  }
  /// Returns true if each rank has an instance of its own.
  [[nodiscard]] bool symmetric() const noexcept { return kind_ == memory_kind::device; }
  /// Records that another library holds the memory for an unknown time, so that no pool
  /// reuses it.
  void lend() const noexcept { lent_.store(true, std::memory_order_relaxed); }
  /// Returns true if another library holds the memory.
  [[nodiscard]] bool lent() const noexcept {
    return lent_.load(std::memory_order_relaxed);
  }
  /// Adds the allocation to `releases` until its memory returns to the device. Memory
  /// that another library has is not added, because nobody knows when that library ends
  /// its use.
  void release_late(std::shared_ptr<late_releases> releases) const;

 private:
  friend class symmetric_memory;
  allocation() = default;

  memory_kind kind_ = memory_kind::device;
  std::size_t bytes_ = 0;
  std::uint64_t owner_ = 0;
  std::vector<std::byte*> instances_;
  std::vector<std::int32_t> devices_;
  std::shared_ptr<device_backend> backend_;
  std::function<void()> on_release_;
  std::shared_ptr<const std::function<void(const error&)>> on_damage_;
  mutable std::atomic<bool> lent_{false};
  mutable std::shared_ptr<late_releases> late_;
};
/// A holder of an allocation.
using allocation_ptr = std::shared_ptr<const allocation>;

/// An address as a place in an allocation.
struct memory_place {
  allocation_ptr memory;   ///< the allocation
  std::size_t offset = 0;  ///< offset in the instance in bytes
  std::int32_t rank = 0;   ///< rank of the instance of the address

  /// Returns the device of the instance.
  [[nodiscard]] std::int32_t device() const noexcept {
    return memory->devices()[static_cast<std::size_t>(rank)];
  }
  /// Returns the number of bytes from the address to the end of the instance.
  [[nodiscard]] std::size_t bytes_left() const noexcept {
    return memory->bytes() - offset;
  }
  /// Returns the address on another rank, if this is a place in instance 0 of a symmetric
  /// allocation that has such a rank, and the address itself otherwise.
  [[nodiscard]] std::byte* on_rank(std::int32_t other) const noexcept;
};

class address_table;

/// The table of all memory that a context knows.
/// @threads{safe from any thread; `translate` takes no lock}
/// @source{docs/tessera.md, memory}
class symmetric_memory {
 public:
  /// Makes an empty table. `on_damage` gets an error for each allocation beyond whose
  /// ends bytes were written, when its memory is freed, on the thread of the last holder.
  explicit symmetric_memory(std::shared_ptr<device_backend> backend,
                            std::function<void(const error&)> on_damage = {});
  /// Releases everything. Allocations with other holders stay valid.
  ~symmetric_memory();
  symmetric_memory(const symmetric_memory&) = delete;
  symmetric_memory& operator=(const symmetric_memory&) = delete;

  /// Allocates an instance on each device; device i is rank i. Returns null for 0 bytes.
  /// `owner` is any number of the caller. @units{bytes}
  /// @error{invalid_argument; no device} @error{out_of_range; no such device}
  /// @error{out_of_memory; a device has not enough; no instance stays allocated}
  [[nodiscard]] result<allocation_ptr> allocate(std::span<const std::int32_t> devices,
                                                std::size_t bytes,
                                                std::uint64_t owner = 0);
  /// Allocates memory of the host. @units{bytes} @error{out_of_memory; the host has not
  /// enough}
  [[nodiscard]] result<allocation_ptr> allocate_host(std::size_t bytes,
                                                     std::uint64_t owner = 0);
  /// Adds memory of the host that belongs to the caller and lives until it is removed.
  /// @error{invalid_argument; null, no bytes, or beyond the end of the address space}
  /// @error{already_exists; a part of it is in the table}
  [[nodiscard]] result<allocation_ptr> register_host(std::byte* address,
                                                     std::size_t bytes,
                                                     std::uint64_t owner = 0);
  /// Adds memory of another library on a device, or on `allocation::host_device`.
  /// `on_release` is called once, when the memory was removed and has no holder, and must
  /// not throw. Memory inside a known allocation stays known as a part of that
  /// allocation.
  /// @error{invalid_argument; see register_host}
  /// @error{already_exists; it overlaps an allocation that does not contain it}
  [[nodiscard]] result<allocation_ptr> adopt(std::byte* address, std::size_t bytes,
                                             std::int32_t device,
                                             std::function<void()> on_release,
                                             std::uint64_t owner = 0);

  /// Removes the allocation that begins at `address`. The memory is freed when the result
  /// and all other holders release it.
  /// @error{invalid_argument; no allocation of this kind and owner begins there}
  [[nodiscard]] result<allocation_ptr> remove(const void* address, memory_kind kind,
                                              std::uint64_t owner = 0);
  /// Adds an allocation again that `remove` returned.
  /// @error{already_exists; it overlaps an allocation that was added since}
  /// @error{out_of_memory; no memory for the entry}
  [[nodiscard]] result<void> restore(const allocation_ptr& memory);
  /// Removes all allocations of an owner and returns them, in no order.
  [[nodiscard]] std::vector<allocation_ptr> remove_all(std::uint64_t owner);

  /// Returns the place of an address inside an allocation, or nothing if it is unknown.
  [[nodiscard]] std::optional<memory_place> find(const void* address) const;
  /// Returns the address on a rank if `address` lies in instance 0 of a symmetric
  /// allocation that has such a rank, and `address` otherwise. @threads{takes no lock}
  [[nodiscard]] std::byte* translate(void* address, std::int32_t rank) const noexcept;

  /// Returns the number of allocations in the table.
  [[nodiscard]] std::size_t size() const;
  /// Returns the backend.
  [[nodiscard]] device_backend& backend() const noexcept { return *backend_; }

 private:
  [[nodiscard]] std::shared_ptr<allocation> make(memory_kind kind, std::size_t bytes,
                                                 std::uint64_t owner) const;
  [[nodiscard]] allocation_ptr take_alias(const void* address, std::uint64_t owner);

  std::shared_ptr<device_backend> backend_;
  std::shared_ptr<const std::function<void(const error&)>> on_damage_;
  std::unique_ptr<address_table> table_;
  mutable std::mutex aliases_mutex_;
  std::vector<allocation_ptr> aliases_;  ///< imported memory inside of what is known
};

}  // namespace weir::tessera
