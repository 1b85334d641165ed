// SPDX-License-Identifier: Apache-2.0
/// @file
/// Errors of devices as streams report them: a kernel's own failure, and the loss of a
/// device, which leaves the others at work.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string_view>

#include "streams/gpu_context.hpp"
#include "tessera/cuda/listed_kernels.hpp"

namespace weir::test {
namespace {

using tessera::stand_in::listed_executor;

/// Two devices, each with a mesh of its own, and the kernels of the conformance suite.
class gpu_errors : public testing::Test {
 protected:
  void SetUp() override {
    tessera::stand_in::machine shown;
    shown.devices = 2;
    shown.max_delay_us = 100;
    executor_ = std::make_shared<listed_executor>(tessera::stand_in::conformance_list());
    context_ = std::make_unique<gpu_context>(shown, executor_);
    const tessNumericsPolicy any_order{1, 0, 1, 0};
    ASSERT_TESS(tessSetNumericsPolicy(context_->get(), &any_order));
    module_ = context_->load(executor_->container("8.0"));
    for (std::size_t d = 0; d < meshes_.size(); ++d) {
      const int id = static_cast<int>(d);
      ASSERT_TESS(tessMeshCreate(context_->get(), &id, 1, {1, 1, 1, 1}, &meshes_[d]));
      ASSERT_TESS(tessStreamCreate(meshes_[d], 0, &streams_[d]));
      ASSERT_TESS(tessMalloc(meshes_[d], bytes, &memory_[d]));
      ASSERT_TESS(tessMemsetAsync(memory_[d], 0, bytes, streams_[d]));
    }
  }
  tessStatus_t launch(std::size_t device, const char* kernel, const void* args,
                      std::size_t size) {
    return tessLaunch(kernel_of(module_, kernel), meshes_[device],
                      {{2, 1, 1}, {32, 1, 1}, 0, 0}, args, size, streams_[device]);
  }
  tessStatus_t write_indices(std::size_t device) {
    return launch(device, "write_indices", &memory_[device], sizeof(void*));
  }
  std::vector<std::int32_t> values(std::size_t device) {
    std::vector<std::int32_t> out(count);
    EXPECT_TESS(tessMemcpyAsync(out.data(), memory_[device], bytes, TESS_COPY_D2H,
                                streams_[device]));
    EXPECT_TESS(tessStreamSynchronize(streams_[device]));
    return out;
  }
  std::string last_message(std::size_t device) {
    std::string out(500, '\0');
    std::size_t size = out.size();
    EXPECT_TESS(tessStreamGetLastMessage(streams_[device], out.data(), &size));
    return out.substr(0, out.find('\0'));
  }

  static constexpr std::size_t count = 64;
  static constexpr std::size_t bytes = count * sizeof(std::int32_t);
  std::shared_ptr<listed_executor> executor_;
  std::unique_ptr<gpu_context> context_;
  tessModule_t module_ = nullptr;
  std::array<tessMesh_t, 2> meshes_{};
  std::array<tessStream_t, 2> streams_{};
  std::array<void*, 2> memory_{};
};

TEST_F(gpu_errors, AFailedBlockFailsItsStreamUntilASynchronization) {
  struct {
    void* out;
    std::int32_t block;
    std::int32_t status;
  } const args{memory_[0], 1, 7};
  ASSERT_TESS(write_indices(0));
  ASSERT_TESS(launch(0, "fail_block", &args, sizeof args));
  ASSERT_TESS(write_indices(0));  // skipped, because the launch before has failed
  EXPECT_EQ(tessStreamSynchronize(streams_[0]), TESS_ERR_LAUNCH_FAILED);
  EXPECT_NE(last_message(0).find("found 7 in block (1, 0, 0)"), std::string::npos)
      << last_message(0);
  EXPECT_EQ(values(0)[1], 2);
  ASSERT_TESS(write_indices(0));
  EXPECT_EQ(values(0)[1], 4);
}

TEST_F(gpu_errors, ALostDeviceFailsItsStreamsAloneAndTheContextEndsSoon) {
  context_->has_broken_devices();
  ASSERT_TESS(launch(0, "assert_false", nullptr, 0));
  ASSERT_TESS(write_indices(0));
  EXPECT_EQ(tessStreamSynchronize(streams_[0]), TESS_ERR_LAUNCH_FAILED);
  const std::string first = last_message(0);
  EXPECT_NE(first.find("CUDA_ERROR_ASSERT"), std::string::npos) << first;
  EXPECT_NE(first.find("assert_false"), std::string::npos) << first;
  for (int i = 0; i < 3; ++i) {  // the device stays lost
    ASSERT_TESS(write_indices(0));
    EXPECT_EQ(tessStreamSynchronize(streams_[0]), TESS_ERR_LAUNCH_FAILED);
    EXPECT_EQ(last_message(0), first);
  }
  ASSERT_TESS(write_indices(1));
  EXPECT_EQ(values(1)[5], 6);
  void* more = nullptr;
  EXPECT_NE(tessMalloc(meshes_[0], 100, &more), TESS_OK);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TESS(tessFree(meshes_[0], memory_[0]));
  EXPECT_TESS(tessStreamDestroy(streams_[0]));
  context_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST(GpuErrors, AnUnknownBackendIsRefusedWithTheNamesOfTheKnownOnes) {
  const environment set({{"TESS_BACKEND", "gpu"}});
  tessContext_t context = nullptr;
  EXPECT_EQ(tessInit(&context), TESS_ERR_UNSUPPORTED);
  EXPECT_NE(
      std::string_view(tessGetLastErrorMessage()).find("expected cpu, cuda or auto"),
      std::string_view::npos);
}

}  // namespace
}  // namespace weir::test
