// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory that streams take and return. Returned memory is kept for later requests of its
/// size.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/tessera/device/symmetric_memory.hpp"
#include "weir/tessera/stream/point.hpp"

namespace weir::tessera {

class graph_memory;

/// Limit and use of a stream's memory, in bytes of one instance. A stream counts memory
/// from the call that takes it to the call that returns it, so that the limit does not
/// depend on timing.
/// @threads{safe from any thread}
class memory_budget {
 public:
  /// Sets the limit. 0 means no limit. @units{bytes}
  void set_limit(std::size_t bytes) noexcept { limit_ = bytes; }
  /// Returns the limit, or 0 for none. @units{bytes}
  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
  /// Returns the counted memory. @units{bytes}
  [[nodiscard]] std::size_t used() const noexcept { return used_; }
  /// Returns how much more fits; the largest number without a limit. @units{bytes}
  [[nodiscard]] std::size_t free_bytes() const noexcept;
  /// Counts memory. Returns false and changes nothing if it does not fit. @units{bytes}
  [[nodiscard]] bool charge(std::size_t bytes) noexcept;
  /// Counts memory as returned. @units{bytes}
  void discharge(std::size_t bytes) noexcept { used_ -= bytes; }

 private:
  std::atomic<std::size_t> limit_{0};
  std::atomic<std::size_t> used_{0};
};

/// Counters of a pool. Sizes are bytes of one instance, on each device of the mesh.
struct pool_counters {
  std::size_t used = 0;       ///< memory of the program
  std::size_t used_peak = 0;  ///< largest value of `used`
  std::size_t reserved = 0;   ///< memory of the program and kept memory
  /// Largest value of `reserved` when memory was handed out.
  std::size_t reserved_peak = 0;
  std::size_t keeps = 0;     ///< largest size of the kept memory
  std::uint64_t reused = 0;  ///< requests served from kept memory
};

/// The pool of one mesh. A block serves requests of exactly its size, so that an access
/// beyond the requested bytes is outside the block even when it is reused.
/// @threads{safe from any thread}
/// @source{docs/tessera.md, memory}
class memory_pool {
 public:
  /// Default of the largest size of kept memory in bytes.
  static constexpr std::size_t usual_keep = std::size_t{64} << 20;

  /// Makes an empty pool over these devices. `owner` is the owner of its allocations.
  memory_pool(symmetric_memory& memory, std::span<const std::int32_t> devices,
              std::uint64_t owner);

  /// Takes memory for the stream of this number: memory that it returned, memory that
  /// other streams returned and no longer use, or new memory. `pays` was charged before.
  /// @error{out_of_memory; the devices have not enough}
  [[nodiscard]] result<void*> take(std::uint64_t stream, std::size_t bytes,
                                   const std::shared_ptr<memory_budget>& pays);
  /// Hands memory of a graph to the program, which returns it as memory from `take`.
  void lend(const allocation_ptr& memory, const std::shared_ptr<memory_budget>& pays,
            std::weak_ptr<graph_memory> graphs);
  /// Takes back memory that was removed from the table of addresses. The stream of this
  /// number can reuse it at once, others after `end`. Memory of a graph goes back to the
  /// graph. Does nothing for memory that is not from this pool.
  void give_back(std::uint64_t stream, const allocation_ptr& memory, ref<point> end);
  /// Counts memory as returned without keeping it. Returns its graph's memory, or null.
  [[nodiscard]] std::shared_ptr<graph_memory> forget(const allocation_ptr& memory);
  /// Notes that an unfinished capture took the memory at an address, or no longer has it.
  void note_recorded(const void* address, bool recorded);
  /// Returns true if an unfinished capture took the memory at this address.
  [[nodiscard]] bool recorded(const void* address) const;
  /// Sets the largest size of kept memory and frees the oldest above it. @units{bytes}
  void set_keep(std::size_t bytes);
  /// Frees the oldest kept memory until at most `bytes` bytes are kept.
  void trim(std::size_t bytes);
  /// Returns the counters.
  [[nodiscard]] pool_counters counters() const;

 private:
  struct kept_memory {
    allocation_ptr memory;
    std::uint64_t stream;
    ref<point> end;
  };
  struct handed_out {
    std::size_t bytes = 0;
    std::shared_ptr<memory_budget> pays;
    std::weak_ptr<graph_memory> graphs;  ///< the graph that lent it
  };

  [[nodiscard]] allocation_ptr find_kept(std::uint64_t stream, std::size_t bytes);
  [[nodiscard]] result<void*> hand_out(allocation_ptr memory,
                                       const std::shared_ptr<memory_budget>& pays);
  /// Counts memory as returned and removes its entry, which it returns; nothing if there
  /// is none. The caller holds the mutex.
  [[nodiscard]] std::optional<handed_out> settle(const allocation_ptr& memory);
  /// Removes the oldest kept memory above the limit, which the caller releases after the
  /// mutex.
  [[nodiscard]] std::vector<kept_memory> over(std::size_t bytes);

  symmetric_memory& memory_;
  std::vector<std::int32_t> devices_;
  std::uint64_t owner_;
  mutable std::mutex mutex_;
  std::vector<kept_memory> kept_;  ///< oldest first
  /// Size of kept_. It can be less than `reserved` - `used`, because memory that is being
  /// taken is in neither.
  std::size_t kept_bytes_ = 0;
  std::map<const void*, handed_out> out_;
  std::set<const void*> recorded_;
  pool_counters counts_;
};

}  // namespace weir::tessera
