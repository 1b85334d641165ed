// SPDX-License-Identifier: Apache-2.0
/// @file
/// Persistent kernels: a thread of its own for every block, all at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "device/cpu/block_runner.hpp"
#include "weir/base/error.hpp"
#include "weir/tessera/device/backend.hpp"

namespace weir::tessera {

class cpu_persistent_run;

/// The persistent kernels of a backend. Their threads are joined at the next start after
/// their end, or when this goes.
/// @threads{safe from any thread}
class persistent_kernels {
 public:
  persistent_kernels(std::size_t stack_bytes, std::int64_t stop_limit_ns, kernel_log log);
  /// Asks all to stop and waits for them, up to the limit; threads of a kernel that does
  /// not listen are left behind.
  ~persistent_kernels();
  persistent_kernels(const persistent_kernels&) = delete;
  persistent_kernels& operator=(const persistent_kernels&) = delete;

  /// As device_backend::start_persistent, for a launch that was checked.
  [[nodiscard]] result<std::shared_ptr<persistent_run>> start(const grid_launch& launch,
                                                              completion done);

 private:
  /// Joins the threads of those that have ended.
  void reap();

  std::size_t stack_bytes_;
  std::int64_t stop_limit_ns_;
  std::shared_ptr<const kernel_log> log_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<cpu_persistent_run>> runs_;
};

}  // namespace weir::tessera
