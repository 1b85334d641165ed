// SPDX-License-Identifier: Apache-2.0
/// @file
/// What every kind of device offers: memory, copies, and kernels that run as slices of
/// their grid. Nothing above this interface knows which backend runs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "tessera_kernel.h"
#include "weir/base/error.hpp"

namespace weir::tessera {

/// Bounds of one launch on a device.
struct launch_limits {
  std::array<std::int32_t, 3> grid{2147483647, 65535, 65535};
  std::array<std::int32_t, 3> block{1024, 1024, 1024};
  std::int32_t threads = 1024;  ///< of a block: product of its extents
  std::size_t shared_bytes = std::size_t{256} << 10;
  std::int32_t persistent_blocks = 64;
};

struct device_properties {
  std::string name;     ///< for people: "cpu:3"
  std::string backend;  ///< "cpu"
  std::string arch;     ///< what code it runs: "x86-64-v3", "sm_90a"
  std::int32_t ordinal = 0;
  std::size_t memory = 0;       ///< bytes that can be allocated
  std::size_t alignment = 256;  ///< of every allocation, bytes
  bool host_readable = false;   ///< the host may use addresses of its memory as they are
  launch_limits limits;
};

/// State of one device's memory. Bytes count with their rounding up to the alignment.
struct memory_use {
  std::size_t capacity = 0;
  std::size_t in_use = 0;
  std::size_t peak = 0;         ///< most that was ever in use
  std::size_t live = 0;         ///< allocations
  std::uint64_t allocated = 0;  ///< allocations so far
  std::uint64_t refused = 0;    ///< for want of memory
};

/// One kernel as a module hands it out. The name and the code outlive every launch.
struct kernel_code {
  std::string_view name;
  void (*entry)() = nullptr;  ///< cpu: a tessBlockEntry, or a tessThreadEntry if flagged
  std::uint32_t flags = 0;    ///< TESS_KERNEL_*
};

/// What blocks are told beside their indices: the colder part of tessBlockContext.
struct block_facts {
  std::array<std::int32_t, 4> axis_size{1, 1, 1, 1};  ///< tp, pp, dp, ep
  std::array<std::int32_t, 4> axis_index{};
  std::int32_t rank = 0;
  std::int32_t ranks = 1;
  const tessDeterminism* determinism = nullptr;
  std::span<const std::byte> constants;
};

/// A kernel on one device, ready to run: a value. What it points to must live until the
/// last of its slices has run.
struct grid_launch {
  kernel_code code;
  std::int32_t device = 0;
  std::array<std::int32_t, 3> grid{1, 1, 1};
  std::array<std::int32_t, 3> block{1, 1, 1};  ///< threads
  std::size_t shared_bytes = 0;
  std::span<const std::byte>
      args;  ///< packed parameters with device addresses, 8-aligned
  block_facts facts;
  /// Kernels see gradual underflow and rounding to nearest; true: subnormals are zero.
  bool flush_subnormals = false;
  /// Looked at between blocks, and what `stopRequested` tells the kernel; may be null.
  const std::atomic<bool>* stop = nullptr;

  [[nodiscard]] std::int64_t blocks() const noexcept {
    return std::int64_t{grid[0]} * grid[1] * grid[2];
  }
  [[nodiscard]] std::int64_t threads() const noexcept {
    return std::int64_t{block[0]} * block[1] * block[2];
  }
};

/// Cut of a range of blocks or bytes into slices of nearly equal length, in order.
struct slice_plan {
  std::int64_t total = 0;
  std::int64_t slices = 0;  ///< 0 only if the total is
  std::int64_t unit = 1;    ///< starts of slices are multiples of it

  /// First of slice i; `begin(slices)` is the total.
  [[nodiscard]] std::int64_t begin(std::int64_t slice) const noexcept;
  [[nodiscard]] std::int64_t end(std::int64_t slice) const noexcept {
    return begin(slice + 1);
  }
};
/// Units of the total cut into at most `most` slices of at least `least` each.
[[nodiscard]] slice_plan cut_evenly(std::int64_t total, std::int64_t unit,
                                    std::int64_t least, std::int64_t most) noexcept;

enum class copy_kind : std::uint8_t {
  host_to_device,
  device_to_host,
  device_to_device,
  host_to_host
};

/// Bytes from one place to another. The ranges must not overlap, but may be the same.
struct copy_work {
  copy_kind kind = copy_kind::device_to_device;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  std::int32_t to_device = 0;    ///< where `to` is on a device
  std::int32_t from_device = 0;  ///< where `from` is on a device
};

/// A pattern of 1, 2, 4, 8 or 16 bytes, repeated: `bytes` is a multiple of its size.
struct fill_work {
  std::byte* to = nullptr;
  std::size_t bytes = 0;
  std::int32_t device = 0;
  std::uint8_t pattern_bytes = 1;
  std::array<std::byte, 16> pattern{};
};

/// Blocks [first, last) of a launch, by linear index with x fastest.
struct grid_work {
  grid_launch launch;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

using device_work = std::variant<copy_work, fill_work, grid_work>;
/// Called exactly once, on any thread, with the outcome of what was submitted.
using completion = std::function<void(result<void>)>;

/// A grid whose blocks all run at the same time, on means of their own.
/// Destruction asks the kernel to stop and does not wait.
/// @threads{safe from any thread}
class persistent_run {
 public:
  virtual ~persistent_run() = default;
  /// Seen by `stopRequested` and by the next grid barrier.
  virtual void request_stop() noexcept = 0;
  [[nodiscard]] virtual bool ended() const noexcept = 0;
  /// Blocks until the last block has ended, then returns the kernel's outcome. Negative:
  /// no limit. @error{timeout, it still runs after so many nanoseconds}
  [[nodiscard]] virtual result<void> wait(std::int64_t limit_ns) = 0;
};

/// A kind of devices. Device numbers are 0 to device_count() - 1.
///
/// Work runs in one of two ways. Where `inline_work()` is true, `copy`, `fill` and
/// `run_blocks` do it on the calling thread, in as many slices as the caller likes, and
/// `submit` only wraps them. Otherwise callers use `submit`, which returns at once.
/// @threads{all calls: safe from any thread}
/// @source{docs/tessera.md, devices}
class device_backend {
 public:
  device_backend() = default;
  device_backend(const device_backend&) = delete;
  device_backend& operator=(const device_backend&) = delete;
  /// Stops persistent kernels, for a bounded time, and releases all memory.
  virtual ~device_backend() = default;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  [[nodiscard]] virtual std::int32_t device_count() const noexcept = 0;
  /// @error{out_of_range, no such device}
  [[nodiscard]] virtual result<device_properties> properties(
      std::int32_t device) const = 0;

  /// Uninitialised memory of one device, aligned to `properties().alignment`; a null
  /// pointer for 0 bytes. It ends at the bytes asked for.
  /// @error{out_of_memory, more than the device has left}
  /// @error{out_of_range, no such device}
  [[nodiscard]] virtual result<std::byte*> allocate(std::int32_t device,
                                                    std::size_t bytes) = 0;
  /// Gives back what `allocate` returned; null is nothing.
  /// @error{invalid_argument, not the start of a live allocation of this device}
  /// @error{corrupt, something wrote past its ends: it is given back all the same}
  [[nodiscard]] virtual result<void> free(std::int32_t device, std::byte* at) = 0;
  /// All zero where there is no such device.
  [[nodiscard]] virtual memory_use memory(std::int32_t device) const = 0;

  /// Host memory that devices copy from and to at full speed; locked into memory where
  /// the system permits. @error{out_of_memory}
  [[nodiscard]] virtual result<std::byte*> allocate_host(std::size_t bytes) = 0;
  /// @error{invalid_argument, not the start of a live host allocation}
  /// @error{corrupt, something wrote past its ends: it is given back all the same}
  [[nodiscard]] virtual result<void> free_host(std::byte* at) = 0;
  /// Does for the caller's own memory what can be done to speed its copies up.
  [[nodiscard]] virtual result<void> pin_host(std::byte* at, std::size_t bytes) = 0;
  virtual void unpin_host(std::byte* at, std::size_t bytes) noexcept = 0;

  /// Whether a launch is within the limits of its device; run_blocks relies on it.
  /// @error{invalid_argument, an extent, shared memory or arguments, or a kernel that
  /// only runs persistently} @error{unsupported, `persistent` and the kernel cannot}
  [[nodiscard]] virtual result<void> check(const grid_launch& launch,
                                           bool persistent) const = 0;
  /// How a launch is best cut for so many workers.
  [[nodiscard]] virtual slice_plan plan(const grid_launch& launch,
                                        unsigned workers) const noexcept = 0;
  /// How so many bytes of copy or fill are best cut.
  [[nodiscard]] virtual slice_plan plan(std::size_t bytes,
                                        unsigned workers) const noexcept = 0;

  [[nodiscard]] virtual bool inline_work() const noexcept = 0;
  /// @error{invalid_argument, null, or ranges that overlap without being the same}
  [[nodiscard]] virtual result<void> copy(const copy_work& work) = 0;
  /// @error{invalid_argument, null, or a pattern that does not divide}
  [[nodiscard]] virtual result<void> fill(const fill_work& work) = 0;
  /// Runs blocks [first, last) of a launch that `check` accepted. Ends at the first block
  /// that fails. @error{kernel_failed, a block returned non-zero, threw, or called a
  /// service that it may not} @error{stopping, `launch.stop` was set}
  [[nodiscard]] virtual result<void> run_blocks(const grid_launch& launch,
                                                std::int64_t first,
                                                std::int64_t last) = 0;
  /// Does the work and then calls `done`, on this thread or a later one.
  virtual void submit(const device_work& work, completion done);

  /// Starts all blocks at once and returns; `done` is called when the last has ended, by
  /// a thread that holds no lock, and the arguments are copied. `launch.stop` is ignored:
  /// the run has its own flag.
  /// @error{as check} @error{out_of_memory, threads or memory for the blocks}
  [[nodiscard]] virtual result<std::shared_ptr<persistent_run>> start_persistent(
      const grid_launch& launch, completion done) = 0;
};

}  // namespace weir::tessera
