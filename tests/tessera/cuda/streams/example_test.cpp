// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the example of docs/cuda.md on the stand-in driver, with the kernels'
/// sources.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "cpu_kernels/executor.hpp"
#include "streams/gpu_context.hpp"

/// The `main` of the example.
int cuda_example(int argc, char** argv);

namespace weir::test {
namespace {

TEST(GpuExample, OfTheDocumentationComputesOnEveryDevice) {
  tessera::stand_in::machine shown;
  shown.devices = 3;
  show_machine(shown, std::make_shared<tessera::kernel_machine::source_executor>(1));
  const environment set({{"TESS_BACKEND", "cuda"}});
  std::string program = "example";
  std::string module = WEIR_KERNELS_FATBIN;
  std::array<char*, 3> arguments = {program.data(), module.data(), nullptr};
  testing::internal::CaptureStdout();
  EXPECT_EQ(cuda_example(2, arguments.data()), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "3 GPUs: y[10] = 90\n");
  expect_clean_end();
}

}  // namespace
}  // namespace weir::test
