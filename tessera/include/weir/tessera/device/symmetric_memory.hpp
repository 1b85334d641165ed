// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which memory an address belongs to. One symmetric allocation is an instance of the
/// same size on each device of a mesh; its pointer is the address of instance 0, and each
/// rank's own address is found from it.
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
  void add() noexcept;
  void remove() noexcept;
  [[nodiscard]] bool pending() const noexcept;
  /// Waits until none is pending. @returns false if `limit_ns` has passed before
  bool wait_for_none(std::int64_t limit_ns) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable none_;
  int count_ = 0;
};

/// One allocation, however many share it: its memory goes back when the last one lets go,
/// so whoever has work in flight on it keeps it. Immutable but for `lend`.
/// @threads{safe from any thread}
class allocation {
 public:
  static constexpr std::int32_t host_device = -1;

  allocation(const allocation&) = delete;
  allocation& operator=(const allocation&) = delete;
  ~allocation();

  [[nodiscard]] memory_kind kind() const noexcept { return kind_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }  ///< per instance
  [[nodiscard]] std::uint64_t owner() const noexcept { return owner_; }
  /// Address of instance 0: what users hold.
  [[nodiscard]] std::byte* data() const noexcept { return instances_.front(); }
  /// One address per rank; a single one if it is not on devices.
  [[nodiscard]] std::span<std::byte* const> instances() const noexcept {
    return instances_;
  }
  /// Device of each instance, or `host_device`.
  [[nodiscard]] std::span<const std::int32_t> devices() const noexcept {
    return devices_;
  }
  /// Whether each rank has an instance of its own.
  [[nodiscard]] bool symmetric() const noexcept { return kind_ == memory_kind::device; }
  /// Another library has it from now on, until nobody knows when: it serves nobody else.
  void lend() const noexcept { lent_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool lent() const noexcept {
    return lent_.load(std::memory_order_relaxed);
  }
  /// Adds the allocation to `releases` until its memory returns to the device. Memory that
  /// another library has is not added, because nobody knows when that library ends its use.
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
using allocation_ptr = std::shared_ptr<const allocation>;

/// An address, said as a place in an allocation.
struct memory_place {
  allocation_ptr memory;
  std::size_t offset = 0;
  std::int32_t rank = 0;  ///< of the instance that the address lies in

  [[nodiscard]] std::int32_t device() const noexcept {
    return memory->devices()[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::size_t bytes_left() const noexcept {
    return memory->bytes() - offset;
  }
  /// The address that stands for this one on another rank: translated if this is a place
  /// in instance 0 of a symmetric allocation that has such a rank, and itself otherwise.
  [[nodiscard]] std::byte* on_rank(std::int32_t other) const noexcept;
};

class address_table;

/// The table of all memory that a context knows.
/// @threads{safe from any thread; `translate` takes no lock}
/// @source{docs/tessera.md, memory}
class symmetric_memory {
 public:
  /// `on_damage` hears of allocations that something wrote past the ends of, when their
  /// memory goes back, on the thread that let go last.
  explicit symmetric_memory(std::shared_ptr<device_backend> backend,
                            std::function<void(const error&)> on_damage = {});
  /// Lets go of everything; what others still hold stays valid.
  ~symmetric_memory();
  symmetric_memory(const symmetric_memory&) = delete;
  symmetric_memory& operator=(const symmetric_memory&) = delete;

  /// An instance of so many bytes on each of the devices, which are the ranks in order;
  /// a null allocation for 0 bytes. `owner` is a number of the caller's own.
  /// @error{invalid_argument, no device} @error{out_of_range, no such device}
  /// @error{out_of_memory, one of the devices has not enough: none is left allocated}
  [[nodiscard]] result<allocation_ptr> allocate(std::span<const std::int32_t> devices,
                                                std::size_t bytes,
                                                std::uint64_t owner = 0);
  /// @error{out_of_memory}
  [[nodiscard]] result<allocation_ptr> allocate_host(std::size_t bytes,
                                                     std::uint64_t owner = 0);
  /// Makes the caller's host memory known; it must live until it was removed.
  /// @error{invalid_argument, null, no bytes, or past the end of the address space}
  /// @error{already_exists, a part of it is in the table}
  [[nodiscard]] result<allocation_ptr> register_host(std::byte* at, std::size_t bytes,
                                                     std::uint64_t owner = 0);
  /// Makes memory of another library known: of a device, or `allocation::host_device`.
  /// `on_release` is called once, when it was removed and nobody holds it, and must not
  /// throw. Memory that
  /// lies wholly in something known keeps its place there.
  /// @error{invalid_argument, as register_host}
  /// @error{already_exists, it overlaps something known that does not contain it}
  [[nodiscard]] result<allocation_ptr> adopt(std::byte* at, std::size_t bytes,
                                             std::int32_t device,
                                             std::function<void()> on_release,
                                             std::uint64_t owner = 0);

  /// Takes out of the table what begins at `at`; the memory goes back when the result and
  /// all other holders let go.
  /// @error{invalid_argument, nothing of this kind and owner begins there}
  [[nodiscard]] result<allocation_ptr> remove(const void* at, memory_kind kind,
                                              std::uint64_t owner = 0);
  /// Puts back what `remove` took out.
  /// @error{already_exists, it overlaps something that has become known; out_of_memory}
  [[nodiscard]] result<void> restore(const allocation_ptr& memory);
  /// Takes out everything of one owner, in no order.
  [[nodiscard]] std::vector<allocation_ptr> remove_all(std::uint64_t owner);

  /// Where an address lies, interior ones included; nothing if the table does not know.
  [[nodiscard]] std::optional<memory_place> find(const void* at) const;
  /// Address of the rank's instance if `at` lies in instance 0 of a symmetric allocation
  /// that has such a rank, and `at` otherwise.
  [[nodiscard]] std::byte* translate(void* at, std::int32_t rank) const noexcept;

  [[nodiscard]] std::size_t size() const;  ///< allocations in the table
  [[nodiscard]] device_backend& backend() const noexcept { return *backend_; }

 private:
  [[nodiscard]] std::shared_ptr<allocation> make(memory_kind kind, std::size_t bytes,
                                                 std::uint64_t owner) const;
  [[nodiscard]] allocation_ptr take_alias(const void* at, std::uint64_t owner);

  std::shared_ptr<device_backend> backend_;
  std::shared_ptr<const std::function<void(const error&)>> on_damage_;
  std::unique_ptr<address_table> table_;
  mutable std::mutex aliases_mutex_;
  std::vector<allocation_ptr> aliases_;  ///< imported memory inside of what is known
};

}  // namespace weir::tessera
