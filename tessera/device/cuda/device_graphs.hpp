// SPDX-License-Identifier: Apache-2.0
/// @file
/// Graphs that the driver runs by itself.
#pragma once

#include <unistd.h>

#include <string>
#include <utility>

#include "device/cuda/device_thread.hpp"

namespace weir::tessera::cuda {

/// A graph of the driver that can be launched on its device.
/// @threads{immutable; destroyed by any thread}
class cuda_graph final : public device_graph {
 public:
  /// Takes over a graph. `label` names it in errors.
  cuda_graph(device_thread& thread, const driver_api& api, graph_exec_handle handle,
             std::string label)
      : thread_(thread), api_(api), handle_(handle), label_(std::move(label)) {}
  /// Leaves the end of the graph to the thread of the device.
  ~cuda_graph() override;
  cuda_graph(const cuda_graph&) = delete;
  cuda_graph& operator=(const cuda_graph&) = delete;

  /// Returns the graph of the driver.
  [[nodiscard]] graph_exec_handle handle() const noexcept { return handle_; }
  /// Returns the name in errors, with the names of its kernels.
  [[nodiscard]] const std::string& label() const noexcept { return label_; }

 private:
  device_thread& thread_;
  const driver_api& api_;
  graph_exec_handle handle_;
  std::string label_;
  pid_t owner_ = ::getpid();  ///< process of the thread
};

}  // namespace weir::tessera::cuda
