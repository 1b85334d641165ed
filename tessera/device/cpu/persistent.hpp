// SPDX-License-Identifier: Apache-2.0
/// @file
/// Persistent kernels. All blocks run at the same time, each on its own thread.
///
/// Such a kernel runs until it is asked to stop, so its blocks cannot take turns on
/// workers as those of other kernels do.
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

/// The persistent kernels of a backend. Threads that have ended are joined when another
/// kernel starts, or by the destructor.
/// @threads{safe from any thread}
class persistent_kernels {
 public:
  persistent_kernels(std::size_t stack_bytes, std::int64_t stop_limit_ns, kernel_log log);
  /// Asks all kernels to stop and waits for them up to the limit. Threads of a kernel
  /// that does not stop are left running.
  ~persistent_kernels();
  persistent_kernels(const persistent_kernels&) = delete;
  persistent_kernels& operator=(const persistent_kernels&) = delete;

  /// Starts a launch that was checked. See device_backend::start_persistent.
  [[nodiscard]] result<std::shared_ptr<persistent_run>> start(const grid_launch& launch,
                                                              completion done);

 private:
  /// Joins the threads of kernels that have ended.
  void reap();

  std::size_t stack_bytes_;
  std::int64_t stop_limit_ns_;
  std::shared_ptr<const kernel_log> log_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<cpu_persistent_run>> runs_;
};

}  // namespace weir::tessera
