// SPDX-License-Identifier: Apache-2.0
/// @file
/// A context of the C interface on the devices of the stand-in driver.
#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "capi/support.hpp"
#include "tessera/cuda/stand_in/stand_in.hpp"
#include "weir/base/bytes.hpp"

namespace weir::test {

/// Shows a machine to contexts that are opened with TESS_BACKEND=cuda from now on.
void show_machine(const tessera::stand_in::machine& shown,
                  std::shared_ptr<tessera::stand_in::kernel_executor> executor);
/// Expects that no rule of the driver was broken and, unless a device is `broken`, that
/// no object of the driver is left.
void expect_clean_end(bool broken = false);

/// Opens a context with TESS_BACKEND=cuda. The destructor ends it and expects that the
/// runtime has broken no rule of the driver and that no object of the driver is left.
class gpu_context {
 public:
  /// Shows a machine whose kernels the executor runs. `workers` is the number of workers.
  gpu_context(const tessera::stand_in::machine& shown,
              std::shared_ptr<tessera::stand_in::kernel_executor> executor,
              int workers = 2);
  ~gpu_context();
  gpu_context(const gpu_context&) = delete;
  gpu_context& operator=(const gpu_context&) = delete;

  [[nodiscard]] tessContext_t get() const noexcept { return context_; }
  /// Does not expect that the objects of devices are gone at the end, because a test has
  /// broken one.
  void has_broken_devices() noexcept { broken_ = true; }
  /// Loads a module, which is unloaded at the end.
  tessModule_t load(const byte_vector& image);

 private:
  tessContext_t context_ = nullptr;
  bool broken_ = false;
};

/// Returns a kernel of a module.
[[nodiscard]] tessKernel_t kernel_of(tessModule_t module, const std::string& name);

/// A mesh of devices 0 to `devices` - 1 along dp, with a stream on it.
class gpu_mesh {
 public:
  gpu_mesh(const gpu_context& on, int devices);
  ~gpu_mesh();
  gpu_mesh(const gpu_mesh&) = delete;
  gpu_mesh& operator=(const gpu_mesh&) = delete;

  tessMesh_t mesh = nullptr;
  tessStream_t stream = nullptr;
};

}  // namespace weir::test
