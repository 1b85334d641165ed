// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory that streams take and give back: what is given back is kept for the next that
/// asks for as much.
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

/// What a stream has and may have, bytes of one instance. A stream counts what it asked
/// for until that is given back by a call, so that a limit does not depend on timing.
/// @threads{safe from any thread}
class memory_budget {
 public:
  /// 0: no limit.
  void set_limit(std::size_t bytes) noexcept { limit_ = bytes; }
  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
  [[nodiscard]] std::size_t used() const noexcept { return used_; }
  /// What it may have beside; the largest number where there is no limit.
  [[nodiscard]] std::size_t room() const noexcept;
  /// False, and nothing changes, if that is too much.
  [[nodiscard]] bool charge(std::size_t bytes) noexcept;
  void discharge(std::size_t bytes) noexcept { used_ -= bytes; }

 private:
  std::atomic<std::size_t> limit_{0};
  std::atomic<std::size_t> used_{0};
};

/// Bytes of one instance, on each of the mesh's devices.
struct pool_counters {
  std::size_t used = 0;  ///< handed out
  std::size_t used_peak = 0;
  std::size_t reserved = 0;  ///< handed out or kept
  std::size_t reserved_peak = 0;
  std::size_t keeps = 0;     ///< most that is kept
  std::uint64_t reused = 0;  ///< requests that kept memory served
};

/// The pool of one mesh. A block serves requests of exactly its size, so that memory ends
/// at the bytes asked for, the second time too.
/// @threads{safe from any thread}
/// @source{docs/tessera.md, memory}
class memory_pool {
 public:
  static constexpr std::size_t usual_keep = std::size_t{64} << 20;

  memory_pool(symmetric_memory& memory, std::span<const std::int32_t> devices,
              std::uint64_t owner);

  /// Memory for the stream of this number: what it gave back itself, what others gave
  /// back and no longer use, or new. @error{out_of_memory, the devices have not enough}
  [[nodiscard]] result<void*> take(std::uint64_t stream, std::size_t bytes,
                                   const std::shared_ptr<memory_budget>& pays);
  /// A run of a graph leaves memory to the program, which gives it back as it does what
  /// `take` gave.
  void lend(const allocation_ptr& memory, const std::shared_ptr<memory_budget>& pays,
            std::weak_ptr<graph_memory> graphs);
  /// `memory` was taken out of the table of addresses: keeps it for others, from `end` on
  /// or, for the stream of this number, at once. A graph gets back what it has lent. Does
  /// nothing for memory of others.
  void give_back(std::uint64_t stream, const allocation_ptr& memory, ref<point> end);
  /// Memory that is not to be kept was taken out of the table of addresses. Returns the
  /// graph's memory that it is, or null.
  [[nodiscard]] std::shared_ptr<graph_memory> forget(const allocation_ptr& memory);
  /// Memory at this address was taken in a capture that goes on, or no longer so.
  void note_recorded(const void* at, bool recorded);
  [[nodiscard]] bool recorded(const void* at) const;
  /// Keeps at most so many bytes from now on; lets go of what is over it, oldest first.
  void set_keep(std::size_t bytes);
  /// Lets go of the oldest until at most so many bytes are kept.
  void trim(std::size_t bytes);
  [[nodiscard]] pool_counters counters() const;

 private:
  struct kept {
    allocation_ptr memory;
    std::uint64_t stream;
    ref<point> end;
  };
  struct handed_out {
    std::size_t bytes = 0;
    std::shared_ptr<memory_budget> pays;
    std::weak_ptr<graph_memory> graphs;  ///< where a graph lent it
  };

  [[nodiscard]] allocation_ptr find_kept(std::uint64_t stream, std::size_t bytes);
  [[nodiscard]] result<void*> hand_out(allocation_ptr memory,
                                       const std::shared_ptr<memory_budget>& pays);
  /// What was handed out there no longer is. With the mutex.
  [[nodiscard]] std::optional<handed_out> settle(const allocation_ptr& memory);
  /// What has to go, to be let go of without the mutex.
  [[nodiscard]] std::vector<kept> over(std::size_t bytes);

  symmetric_memory& memory_;
  std::vector<std::int32_t> devices_;
  std::uint64_t owner_;
  mutable std::mutex mutex_;
  std::vector<kept> kept_;  ///< oldest first
  /// Of kept_. Less than what is reserved and not used: some is on its way.
  std::size_t kept_bytes_ = 0;
  std::map<const void*, handed_out> out_;
  std::set<const void*> recorded_;
  pool_counters counts_;
};

}  // namespace weir::tessera
