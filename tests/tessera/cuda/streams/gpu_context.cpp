// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens and closes contexts on the stand-in driver.
#include "streams/gpu_context.hpp"

#include <dlfcn.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace weir::test {

using tessera::stand_in::breach;
using tessera::stand_in::object_counts;

namespace {

/// Loads the stand-ins, so that the runtime's requests for libcuda.so.1 and libnccl.so.2
/// get them: their files have these names.
void load_stand_ins() {
  static void* const driver = dlopen(WEIR_STAND_IN_DRIVER, RTLD_NOW | RTLD_GLOBAL);
  ASSERT_NE(driver, nullptr) << dlerror();
  static void* const nccl = dlopen(WEIR_STAND_IN_NCCL, RTLD_NOW | RTLD_GLOBAL);
  ASSERT_NE(nccl, nullptr) << dlerror();
}

}  // namespace

void show_machine(const tessera::stand_in::machine& shown,
                  std::shared_ptr<tessera::stand_in::kernel_executor> executor) {
  load_stand_ins();
  tessera::stand_in::set_up(shown, std::move(executor));
}

// Objects that operations have used go with their last task, perhaps a moment after the
// context.
void expect_clean_end(bool broken) {
  using clock = std::chrono::steady_clock;
  const auto deadline = clock::now() + std::chrono::seconds(10);
  while (!broken && !(tessera::stand_in::objects() == object_counts{}) &&
         clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (const breach& b : tessera::stand_in::take_breaches()) {
    ADD_FAILURE() << b.rule << ": " << b.text;
  }
  if (!broken) {
    EXPECT_TRUE(tessera::stand_in::objects() == object_counts{})
        << "objects of the driver are left";
  }
}

gpu_context::gpu_context(const tessera::stand_in::machine& shown,
                         std::shared_ptr<tessera::stand_in::kernel_executor> executor,
                         int workers) {
  show_machine(shown, std::move(executor));
  const std::string threads = std::to_string(workers);
  const environment set({{"TESS_BACKEND", "cuda"},
                         {"TESS_NUM_THREADS", threads.c_str()},
                         {"TESS_TIMEOUT_MS", "60000"}});
  EXPECT_TESS(tessInit(&context_));
}

gpu_context::~gpu_context() {
  EXPECT_TESS(tessShutdown(context_));
  expect_clean_end(broken_);
}

tessModule_t gpu_context::load(const byte_vector& image) {
  tessModule_t out = nullptr;
  EXPECT_TESS(tessModuleLoad(context_, image.data(), image.size(), &out));
  return out;
}

tessKernel_t kernel_of(tessModule_t module, const std::string& name) {
  tessKernel_t out = nullptr;
  EXPECT_TESS(tessKernelGet(module, name.c_str(), &out));
  return out;
}

gpu_mesh::gpu_mesh(const gpu_context& on, int devices) {
  std::vector<int> ids(static_cast<std::size_t>(devices));
  std::iota(ids.begin(), ids.end(), 0);
  EXPECT_TESS(tessMeshCreate(on.get(), ids.data(), devices, {1, 1, devices, 1}, &mesh));
  EXPECT_TESS(tessStreamCreate(mesh, 0, &stream));
}

gpu_mesh::~gpu_mesh() {
  EXPECT_TESS(tessStreamDestroy(stream));
  EXPECT_TESS(tessMeshDestroy(mesh));
}

}  // namespace weir::test
