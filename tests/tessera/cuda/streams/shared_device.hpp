// SPDX-License-Identifier: Apache-2.0
/// @file
/// A device that the runtime and another library use, for tests of their order.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "streams/gpu_context.hpp"
#include "tessera/cuda/listed_kernels.hpp"
#include "tessera/cuda/other_library.hpp"

namespace weir::test {

inline constexpr std::size_t bytes = 256;
/// Memory of the host that is as large as that of the device.
using line = std::array<unsigned char, bytes>;

/// Returns an executor of the kernels of the conformance suite.
[[nodiscard]] inline std::shared_ptr<tessera::stand_in::listed_executor>
listed_kernels() {
  return std::make_shared<tessera::stand_in::listed_executor>(
      tessera::stand_in::conformance_list());
}

/// Returns a machine whose operations start at random times.
[[nodiscard]] inline tessera::stand_in::machine delayed(unsigned seed, int devices = 1) {
  tessera::stand_in::machine shown;
  shown.devices = devices;
  shown.seed = seed;
  shown.max_delay_us = 300;
  return shown;
}

/// A function of a stream that waits until the test opens the gate.
struct native_gate {
  std::atomic<bool> open{false};
  static void wait(void* user) {
    while (!static_cast<native_gate*>(user)->open) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
};

/// A context with a mesh of one device, memory on it, and another library there.
struct shared_device {
  explicit shared_device(const tessera::stand_in::machine& shown,
                         bool default_stream = false)
      : context(shown, listed_kernels()), on(context, 1), other(0, default_stream) {
    EXPECT_TESS(tessMalloc(on.mesh, bytes, &x));
    EXPECT_TESS(tessMalloc(on.mesh, bytes, &y));
  }
  ~shared_device() {
    if (other.stream() != nullptr) {  // memory goes behind what uses it
      EXPECT_TESS(tessStreamWaitNative(on.stream, 0, other.stream()));
      EXPECT_TESS(tessStreamSynchronize(on.stream));
    }
    EXPECT_TESS(tessFree(on.mesh, x));
    EXPECT_TESS(tessFree(on.mesh, y));
  }
  shared_device(const shared_device&) = delete;
  shared_device& operator=(const shared_device&) = delete;

  gpu_context context;
  gpu_mesh on;
  tessera::stand_in::other_library other;
  void* x = nullptr;
  void* y = nullptr;
};

/// Returns true if accesses without an order were reported; forgets all reports.
[[nodiscard]] inline bool found_unordered_accesses() {
  bool found = false;
  for (const tessera::stand_in::breach& b : tessera::stand_in::take_breaches()) {
    found = found || b.rule == "access_order";
    EXPECT_EQ(b.rule, "access_order") << b.text;
  }
  return found;
}

/// Returns the text of the last error of the calling thread.
[[nodiscard]] inline std::string last_text() {
  return tessGetLastErrorMessage();
}

}  // namespace weir::test
