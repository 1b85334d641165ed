// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors on GPUs for other libraries: the device that they name, and their way back.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string_view>

#include "streams/gpu_context.hpp"
#include "tessera/cuda/listed_kernels.hpp"
#include "weir/tessera/device/dlpack.hpp"

namespace weir::test {
namespace {

namespace dl = tessera::dlpack;
using tessera::stand_in::listed_executor;

TEST(GpuDlpack, TensorsNameTheirDeviceAndComeBack) {
  tessera::stand_in::machine shown;
  shown.devices = 2;
  const gpu_context context(
      shown, std::make_shared<listed_executor>(tessera::stand_in::conformance_list()));
  const gpu_mesh on(context, 2);
  constexpr std::int64_t count = 16;
  void* x = nullptr;
  void* pinned = nullptr;
  ASSERT_TESS(tessMalloc(on.mesh, count * sizeof(float), &x));
  ASSERT_TESS(tessHostAlloc(count * sizeof(float), &pinned, TESS_MEM_PINNED_HOST));
  tessTensorDesc desc{};
  desc.structSize = sizeof desc;
  desc.dtype = TESS_FP32;
  desc.ndim = 1;
  desc.shape = &count;
  for (const int rank : {0, 1}) {
    desc.rank = rank;
    void* made = nullptr;
    ASSERT_TESS(tessMemExportDlpack(context.get(), x, &desc, &made));
    auto* const tensor = static_cast<dl::managed_tensor_versioned*>(made);
    EXPECT_EQ(tensor->tensor.device.type, dl::device_cuda);
    EXPECT_EQ(tensor->tensor.device.id, rank);
    void* instance = nullptr;
    ASSERT_TESS(tessMemGetRankPtr(on.mesh, x, rank, &instance));
    EXPECT_EQ(tensor->tensor.data, instance);

    // Another device than that of the tensor is refused, and the tensor stays ours.
    tessTensorInfo info{};
    info.structSize = sizeof info;
    EXPECT_EQ(tessMemImportDlpack(context.get(), made, 0, 1 - rank, &info),
              TESS_ERR_INVALID_VALUE);
    EXPECT_NE(std::string_view(tessGetLastErrorMessage()).find("on which it is"),
              std::string_view::npos);
    ASSERT_TESS(tessMemImportDlpack(context.get(), made, 0, rank, &info));
    EXPECT_EQ(info.data, instance);
    EXPECT_TESS(tessMemReleaseImported(context.get(), info.begin));
  }
  desc.rank = 0;
  void* of_host = nullptr;
  ASSERT_TESS(tessMemExportDlpack(context.get(), pinned, &desc, &of_host));
  auto* const tensor = static_cast<dl::managed_tensor_versioned*>(of_host);
  EXPECT_EQ(tensor->tensor.device.type, dl::device_cuda_host);
  tensor->deleter(tensor);
  EXPECT_TESS(tessHostFree(pinned));
  EXPECT_TESS(tessFree(on.mesh, x));
}

}  // namespace
}  // namespace weir::test
