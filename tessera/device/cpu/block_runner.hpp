// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the blocks of a kernel on the calling thread.
///
/// The backend uses it for ordinary launches on workers, and persistent kernels use it
/// for one block on each of their threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "device/cpu/fiber_team.hpp"
#include "weir/base/error.hpp"
#include "weir/tessera/device/backend.hpp"

namespace weir::tessera {

class grid_gate;

/// Receives the log lines of kernels.
using kernel_log = std::function<void(std::int32_t device, std::string_view text)>;

/// Memory that blocks need besides their arguments: shared memory, and fibers for threads
/// with barriers. It is reused by later launches.
/// @threads{one block at a time}
class block_scratch {
 public:
  explicit block_scratch(std::size_t stack_bytes) : team_(stack_bytes) {}
  ~block_scratch();
  block_scratch(const block_scratch&) = delete;
  block_scratch& operator=(const block_scratch&) = delete;

  /// Makes sure that there is this much shared memory and this many fibers.
  /// @error{out_of_memory; the system has not enough}
  [[nodiscard]] result<void> reserve(std::size_t shared_bytes, std::int64_t fibers);
  [[nodiscard]] std::byte* shared() const noexcept { return shared_; }
  [[nodiscard]] fiber_team& team() noexcept { return team_; }

 private:
  std::byte* shared_ = nullptr;
  std::size_t capacity_ = 0;
  fiber_team team_;
};

/// Scratch that no block uses at the moment. There is as much as blocks have ever run at
/// the same time.
/// @threads{safe from any thread}
class scratch_pool {
 public:
  explicit scratch_pool(std::size_t stack_bytes) : stack_bytes_(stack_bytes) {}

  /// Takes scratch, or makes it. @error{out_of_memory; no memory for it}
  [[nodiscard]] result<std::unique_ptr<block_scratch>> take();
  void give_back(std::unique_ptr<block_scratch> scratch) noexcept;

 private:
  std::size_t stack_bytes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<block_scratch>> idle_;
};

/// The launch of a block and the facilities for it; services find it by the context.
struct block_host {
  const grid_launch* launch = nullptr;
  block_scratch* scratch =
      nullptr;  ///< null if neither fibers nor shared memory are used
  const kernel_log* log = nullptr;
  grid_gate* gate = nullptr;  ///< barrier of a persistent kernel; null for others
  const std::atomic<bool>* stop = nullptr;
};

/// Returns true if the threads of this launch are fibers.
[[nodiscard]] bool needs_fibers(const grid_launch& launch, bool persistent) noexcept;

/// Runs blocks [first, last) and ends at the first that fails. The floating point
/// environment is the launch's within a block and the caller's afterwards.
/// @error{kernel_failed; a block returned a value other than 0, threw or misused a
/// service}
/// @error{stopping; the stop flag was set between two blocks}
[[nodiscard]] result<void> run_block_range(const block_host& host, std::int64_t first,
                                           std::int64_t last);

}  // namespace weir::tessera
