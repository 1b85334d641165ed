// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that no worker waits for the driver: where each of its calls blocks, work of the
/// host goes on.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "streams/gpu_context.hpp"
#include "tessera/cuda/listed_kernels.hpp"

namespace weir::test {
namespace {

using tessera::stand_in::listed_executor;

/// Numbers of a stream's host functions that have run while a device worked.
struct progress {
  std::atomic<int> functions{0};
  std::atomic<bool> device_works{true};
  std::atomic<int> beside_device{0};
};

// One worker and a driver whose calls block up to 50 ms each. A worker that waited for a
// call, or for the end of the device's work, would keep the functions from running.
TEST(GpuWaiting, HostFunctionsRunWhileEachCallOfTheDriverBlocks) {
  tessera::stand_in::machine shown;
  shown.devices = 2;
  const auto executor =
      std::make_shared<listed_executor>(tessera::stand_in::conformance_list());
  gpu_context context(shown, executor, 1);
  const tessNumericsPolicy any_order{1, 0, 1, 0};
  ASSERT_TESS(tessSetNumericsPolicy(context.get(), &any_order));
  const tessModule_t module = context.load(executor->container("8.0"));
  const gpu_mesh device(context, 1);
  tessMesh_t other = nullptr;
  const int second = 1;
  ASSERT_TESS(tessMeshCreate(context.get(), &second, 1, {1, 1, 1, 1}, &other));
  tessStream_t host = nullptr;
  ASSERT_TESS(tessStreamCreate(other, 0, &host));

  constexpr std::size_t n = 256;
  std::vector<std::int32_t> down(n, 3), up(n);  // pageable memory
  void* memory = nullptr;
  ASSERT_TESS(tessMalloc(device.mesh, n * sizeof down[0], &memory));
  progress seen;
  tessera::stand_in::block_calls(50'000);
  ASSERT_TESS(tessMemcpyAsync(memory, down.data(), n * sizeof down[0], TESS_COPY_H2D,
                              device.stream));
  for (int i = 0; i < 5; ++i) {
    ASSERT_TESS(tessLaunch(kernel_of(module, "write_indices"), device.mesh,
                           {{4, 1, 1}, {64, 1, 1}, 0, 0}, &memory, sizeof memory,
                           device.stream));
  }
  ASSERT_TESS(
      tessMemcpyAsync(up.data(), memory, n * sizeof up[0], TESS_COPY_D2H, device.stream));
  ASSERT_TESS(tessLaunchHostFunc(
      device.stream,
      [](void* user) { static_cast<progress*>(user)->device_works = false; }, &seen));
  // The functions are enqueued one by one, so a worker that waited would run at most one
  // of them between two operations of the device, of which there are seven.
  for (int i = 0; i < 50; ++i) {
    ASSERT_TESS(tessLaunchHostFunc(
        host,
        [](void* user) {
          auto* const of = static_cast<progress*>(user);
          ++of->functions;
          of->beside_device += of->device_works ? 1 : 0;
        },
        &seen));
    ASSERT_TESS(tessStreamSynchronize(host));
  }
  ASSERT_TESS(tessStreamSynchronize(device.stream));
  tessera::stand_in::block_calls(0);
  EXPECT_EQ(seen.functions, 50);
  EXPECT_GE(seen.beside_device, 25) << "functions waited for the device";
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_EQ(up[i], 3 + 5 * (static_cast<std::int32_t>(i) + 1)) << "element " << i;
  }
  ASSERT_TESS(tessFree(device.mesh, memory));
  ASSERT_TESS(tessStreamDestroy(host));
  ASSERT_TESS(tessMeshDestroy(other));
}

}  // namespace
}  // namespace weir::test
