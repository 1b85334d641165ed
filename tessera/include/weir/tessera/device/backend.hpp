// SPDX-License-Identifier: Apache-2.0
/// @file
/// Device backends: memory, copies, and kernels that run as slices of their grid. Nothing
/// above this interface depends on a backend.
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
#include <vector>

#include "tessera_kernel.h"
#include "weir/base/error.hpp"

namespace weir::tessera {

/// Limits of a launch on a device.
struct launch_limits {
  /// Largest extents in blocks.
  std::array<std::int32_t, 3> grid{2147483647, 65535, 65535};
  std::array<std::int32_t, 3> block{1024, 1024, 1024};  ///< largest extents in threads
  std::int32_t threads = 1024;  ///< largest number of threads of a block
  std::size_t shared_bytes = std::size_t{256} << 10;  ///< shared memory of a block
  /// Largest number of blocks of a persistent launch.
  std::int32_t persistent_blocks = 64;
};

/// Properties and limits of a device.
struct device_properties {
  std::string name;             ///< name for people: "cpu:3"
  std::string backend;          ///< name of the backend: "cpu"
  std::string arch;             ///< code that it runs: "x86-64-v3", "sm_90a"
  std::int32_t ordinal = 0;     ///< number of the device
  std::size_t memory = 0;       ///< bytes that can be allocated
  std::size_t alignment = 256;  ///< alignment of allocations in bytes
  bool host_readable = false;   ///< the host may use addresses of its memory as they are
  launch_limits limits;         ///< limits of launches
};

/// State of the memory of a device. Sizes are in bytes, rounded up to the alignment.
struct memory_use {
  std::size_t capacity = 0;     ///< memory that can be allocated
  std::size_t in_use = 0;       ///< memory that is allocated
  std::size_t peak = 0;         ///< largest value that `in_use` has had
  std::size_t live = 0;         ///< number of allocations
  std::uint64_t allocated = 0;  ///< allocations so far
  std::uint64_t refused = 0;    ///< requests that failed for lack of memory
};

/// A kernel of a module. Name and code outlive every launch.
struct kernel_code {
  std::string_view name;      ///< name of the kernel
  void (*entry)() = nullptr;  ///< cpu: a tessBlockEntry, or a tessThreadEntry if flagged
  std::uint32_t flags = 0;    ///< TESS_KERNEL_*
};

/// Facts that blocks get beside their indices: the rarely used part of tessBlockContext.
struct block_facts {
  std::array<std::int32_t, 4> axis_size{1, 1, 1, 1};  ///< devices along tp, pp, dp, ep
  std::array<std::int32_t, 4> axis_index{};           ///< coordinates of this device
  std::int32_t rank = 0;                              ///< rank of this device
  std::int32_t ranks = 1;                             ///< number of ranks
  const tessDeterminism* determinism = nullptr;       ///< freedom with numbers
  std::span<const std::byte> constants;               ///< read-only data of the module
};

/// A launch of a kernel on one device: a value. Objects that it points to live until the
/// last of its slices has run.
struct grid_launch {
  kernel_code code;                            ///< kernel
  std::int32_t device = 0;                     ///< number of the device
  std::array<std::int32_t, 3> grid{1, 1, 1};   ///< extents in blocks
  std::array<std::int32_t, 3> block{1, 1, 1};  ///< extents in threads
  std::size_t shared_bytes = 0;                ///< shared memory of a block
  std::span<const std::byte>
      args;           ///< packed parameters with device addresses, 8-aligned
  block_facts facts;  ///< facts that blocks get
  /// True: subnormal numbers are zero. False: gradual underflow, rounding to nearest.
  bool flush_subnormals = false;
  /// Flag that stops the launch between blocks, and that `stopRequested` returns; may be
  /// null.
  const std::atomic<bool>* stop = nullptr;

  /// Returns the number of blocks.
  [[nodiscard]] std::int64_t blocks() const noexcept {
    return std::int64_t{grid[0]} * grid[1] * grid[2];
  }
  /// Returns the number of threads of a block.
  [[nodiscard]] std::int64_t threads() const noexcept {
    return std::int64_t{block[0]} * block[1] * block[2];
  }
};

/// Division of a range of blocks or bytes into slices of nearly equal length, in order.
struct slice_plan {
  std::int64_t total = 0;   ///< length of the range
  std::int64_t slices = 0;  ///< number of slices; 0 only if the total is 0
  std::int64_t unit = 1;    ///< starts of slices are multiples of it

  /// Returns the first element of a slice; `begin(slices)` is the total.
  [[nodiscard]] std::int64_t begin(std::int64_t slice) const noexcept;
  /// Returns the end of a slice.
  [[nodiscard]] std::int64_t end(std::int64_t slice) const noexcept {
    return begin(slice + 1);
  }
};
/// Divides a range into at most `max_slices` slices of at least `min_length` each.
/// @units{total, unit, min_length: blocks or bytes}
[[nodiscard]] slice_plan cut_evenly(std::int64_t total, std::int64_t unit,
                                    std::int64_t min_length,
                                    std::int64_t max_slices) noexcept;

/// Directions of copies.
enum class copy_kind : std::uint8_t {
  host_to_device,
  device_to_host,
  device_to_device,
  host_to_host
};

/// A copy. The ranges must not overlap, except that they may be equal.
struct copy_work {
  copy_kind kind = copy_kind::device_to_device;  ///< direction
  std::byte* to = nullptr;                       ///< first byte that is written
  const std::byte* from = nullptr;               ///< first byte that is read
  std::size_t bytes = 0;                         ///< number of bytes
  std::int32_t to_device = 0;                    ///< device of `to`, if it is on one
  std::int32_t from_device = 0;                  ///< device of `from`, if it is on one
};

/// A fill with a pattern of 1, 2, 4, 8 or 16 bytes. `bytes` is a multiple of its size.
struct fill_work {
  std::byte* to = nullptr;              ///< first byte that is written
  std::size_t bytes = 0;                ///< number of bytes
  std::int32_t device = 0;              ///< number of the device
  std::uint8_t pattern_bytes = 1;       ///< size of the pattern
  std::array<std::byte, 16> pattern{};  ///< the pattern, in its first bytes
};

/// The blocks [first, last) of a launch, by linear index with x fastest.
struct grid_work {
  grid_launch launch;      ///< the launch
  std::int64_t first = 0;  ///< first block
  std::int64_t last = 0;   ///< end of the blocks
};

/// A graph of work that one device runs by itself. A backend makes it and outlives it.
/// Its runs follow one another. @threads{destroyed by any thread, also in completions}
class device_graph {
 public:
  device_graph() = default;
  device_graph(const device_graph&) = delete;
  device_graph& operator=(const device_graph&) = delete;
  virtual ~device_graph() = default;
};

/// A run of a graph.
struct graph_work {
  std::shared_ptr<device_graph> graph;  ///< made by device_backend::make_graph
  std::int32_t device = 0;              ///< the device that it was made for
};

/// One piece of work for a device.
using device_work = std::variant<copy_work, fill_work, grid_work, graph_work>;

/// A piece of work in a graph of a device.
struct graph_piece {
  device_work work;                ///< a copy on the device, a fill, or a whole launch
  std::vector<std::size_t> after;  ///< numbers of earlier pieces that end before it
};

/// A function that is called exactly once, on any thread, with the outcome of the work.
using completion = std::function<void(result<void>)>;

/// A launch whose blocks all run at the same time, each on a thread of its own. The
/// destructor asks the kernel to stop and does not wait.
/// @threads{safe from any thread}
class persistent_run {
 public:
  virtual ~persistent_run() = default;
  /// Asks the kernel to stop, by `stopRequested` and by the next grid barrier.
  virtual void request_stop() noexcept = 0;
  /// Returns true if the last block has ended.
  [[nodiscard]] virtual bool ended() const noexcept = 0;
  /// Waits until the last block has ended, and returns the outcome of the kernel.
  /// @units{limit_ns: nanoseconds; negative: no limit}
  /// @error{timeout; it still runs} @error{kernel_failed; a block failed}
  [[nodiscard]] virtual result<void> wait(std::int64_t limit_ns) = 0;
};

/// A scope whose thread does not wait for a device: a worker, or a thread that calls
/// completions. Backends free what is freed here later, on a thread of their own.
/// @threads{belongs to the thread that made it}
class no_device_waits {
 public:
  /// Begins the scope.
  no_device_waits() noexcept;
  ~no_device_waits();
  no_device_waits(const no_device_waits&) = delete;
  no_device_waits& operator=(const no_device_waits&) = delete;
  /// Returns true if the calling thread is in such a scope.
  [[nodiscard]] static bool active() noexcept;

 private:
  bool before_;
};

/// A kind of devices. Device numbers are 0 to device_count() - 1.
///
/// Work runs in one of two ways. If `inline_work()` is true, `copy`, `fill` and
/// `run_blocks` run it on the calling thread, in slices of any size, and `submit` calls
/// them. Otherwise callers use `submit`, which returns at once.
/// @threads{all calls: safe from any thread}
/// @source{docs/tessera.md, devices}
class device_backend {
 public:
  device_backend() = default;
  device_backend(const device_backend&) = delete;
  device_backend& operator=(const device_backend&) = delete;
  /// Stops persistent kernels, for a bounded time, and releases all memory.
  virtual ~device_backend() = default;

  /// Returns the name of the backend.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Returns the number of devices.
  [[nodiscard]] virtual std::int32_t device_count() const noexcept = 0;
  /// Returns the properties of a device. @error{out_of_range; no such device}
  [[nodiscard]] virtual result<device_properties> properties(
      std::int32_t device) const = 0;

  /// Allocates memory of a device, aligned to `properties().alignment`, with undefined
  /// content. Returns null for 0 bytes. @units{bytes}
  /// @error{out_of_memory; the device has not enough}
  /// @error{out_of_range; no such device}
  [[nodiscard]] virtual result<std::byte*> allocate(std::int32_t device,
                                                    std::size_t bytes) = 0;
  /// Frees memory of `allocate`. Null does nothing.
  /// @error{invalid_argument; not the start of an allocation of this device}
  /// @error{corrupt; bytes beyond its ends were written; it is freed nevertheless}
  [[nodiscard]] virtual result<void> free(std::int32_t device, std::byte* address) = 0;
  /// Returns the state of the memory of a device; all zero if there is no such device.
  [[nodiscard]] virtual memory_use memory(std::int32_t device) const = 0;

  /// Allocates memory of the host that devices copy from and to at full speed. It is
  /// locked into memory if the system permits. @units{bytes} @error{out_of_memory; the
  /// host has not enough}
  [[nodiscard]] virtual result<std::byte*> allocate_host(std::size_t bytes) = 0;
  /// Frees memory of `allocate_host`.
  /// @error{invalid_argument; not the start of an allocation of the host}
  /// @error{corrupt; bytes beyond its ends were written; it is freed nevertheless}
  [[nodiscard]] virtual result<void> free_host(std::byte* address) = 0;
  /// Prepares memory of the caller for fast copies. @error{invalid_argument; no such
  /// memory}
  [[nodiscard]] virtual result<void> pin_host(std::byte* address, std::size_t bytes) = 0;
  /// Undoes `pin_host`. In a scope of `no_device_waits` it may happen later.
  virtual void unpin_host(std::byte* address, std::size_t bytes) noexcept = 0;

  /// Checks that a launch is within the limits of its device; run_blocks relies on it.
  /// @error{invalid_argument; an extent, shared memory or arguments, or a kernel that
  /// only runs persistently} @error{unsupported; `persistent` and the kernel cannot}
  [[nodiscard]] virtual result<void> check(const grid_launch& launch,
                                           bool persistent) const = 0;
  /// Returns the division of a launch that suits a number of workers.
  [[nodiscard]] virtual slice_plan plan(const grid_launch& launch,
                                        unsigned workers) const noexcept = 0;
  /// Returns the division of a copy or fill that suits a number of workers.
  [[nodiscard]] virtual slice_plan plan(std::size_t bytes,
                                        unsigned workers) const noexcept = 0;

  /// Returns true if work runs on the calling thread.
  [[nodiscard]] virtual bool inline_work() const noexcept = 0;
  /// Copies bytes. @error{invalid_argument; null, or ranges that overlap without being
  /// the same}
  [[nodiscard]] virtual result<void> copy(const copy_work& work) = 0;
  /// Fills bytes. @error{invalid_argument; null, or a pattern that does not divide}
  [[nodiscard]] virtual result<void> fill(const fill_work& work) = 0;
  /// Runs the blocks [first, last) of a launch that `check` accepted, until the first
  /// failure.
  /// @error{kernel_failed; a block returned non-zero, threw, or called a service that it
  /// may not} @error{stopping; `launch.stop` was set}
  [[nodiscard]] virtual result<void> run_blocks(const grid_launch& launch,
                                                std::int64_t first,
                                                std::int64_t last) = 0;
  /// Calls `done` when everything that another library has submitted to a stream of its
  /// own before this call has ended. `native` is the stream in the driver's terms.
  /// @error{unsupported; the devices have no streams of other libraries}
  /// @error{invalid_argument; the driver does not know the stream}
  [[nodiscard]] virtual result<void> follow_native(std::int32_t device,
                                                   std::uintptr_t native,
                                                   completion done);
  /// Makes a graph that a device runs by itself. What the pieces point to may go
  /// afterwards, except memory of the device and the code of kernels.
  /// @error{unsupported; the device cannot run these pieces by itself}
  /// @error{invalid_argument; see copy, fill and check} and errors of the driver
  [[nodiscard]] virtual result<std::shared_ptr<device_graph>> make_graph(
      std::int32_t device, std::span<const graph_piece> pieces);
  /// Runs the work and then calls `done`, on this thread or another.
  virtual void submit(const device_work& work, completion done);

  /// Starts all blocks at once and returns. The arguments are copied. `done` is called
  /// when the last block has ended, by a thread that holds no lock. `launch.stop` is
  /// ignored: the run has a flag of its own.
  /// @error{invalid_argument; see check} @error{unsupported; see check}
  /// @error{out_of_memory; no threads or no memory for the blocks}
  [[nodiscard]] virtual result<std::shared_ptr<persistent_run>> start_persistent(
      const grid_launch& launch, completion done) = 0;
};

}  // namespace weir::tessera
