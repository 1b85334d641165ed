// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests both executors of the stand-in driver: the kernels' sources and their PTX.
#include <gtest/gtest.h>

#include "cases/kernel_cases.hpp"
#include "cpu_kernels/executor.hpp"
#include "ptx/executor.hpp"
#include "ptx/ptx_kernels.hpp"

namespace weir::tessera::ptx {
namespace {

using stand_in::kernel_executor;
using stand_in::launch_request;
using stand_in::module_id;

std::span<const std::byte> bytes_of_text(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Loads the PTX of the repository. Returns the modules.
std::vector<module_id> load_all(kernel_executor& executor) {
  std::vector<module_id> out;
  for (const std::string& text : repository_texts()) {
    out.push_back(or_throw(executor.load(bytes_of_text(text))));
  }
  return out;
}

/// Returns true if a range lies in the memory of a launch.
bool inside(const test::kernel_launch& launch_case, const void* first,
            std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(first);
  for (const test::case_memory& m : launch_case.memory) {
    const auto begin = reinterpret_cast<std::uintptr_t>(m.first);
    if (at >= begin && at + bytes <= begin + m.bytes) {
      return true;
    }
  }
  return false;
}

/// Returns a runner that launches on an executor.
test::kernel_runner runner_on(kernel_executor& executor,
                              const std::vector<module_id>& modules) {
  return [&](const test::kernel_launch& launch_case) -> std::string {
    for (const module_id module : modules) {
      const auto facts = executor.find(module, launch_case.name);
      if (!facts) {
        continue;
      }
      std::size_t i = 0;
      for (const stand_in::parameter_place& p : facts->parameters) {
        if (p.bytes != launch_case.sizes.at(i++)) {
          return "the parameters have other sizes";
        }
      }
      launch_request request;
      request.module = module;
      request.function = facts->id;
      request.grid = launch_case.grid;
      request.block = launch_case.block;
      request.cooperative = launch_case.cooperative;
      request.arguments = launch_case.arguments;
      request.accessible = [&](const void* first, std::size_t bytes, bool) {
        return inside(launch_case, first, bytes);
      };
      const auto done = executor.launch(request);
      return done ? "" : done.error().message();
    }
    return "no such kernel";
  };
}

TEST(Executors, GiveTheExpectedBits) {
  kernel_machine::source_executor sources(3);
  ptx_executor texts(3);
  for (kernel_executor* executor :
       {static_cast<kernel_executor*>(&sources), static_cast<kernel_executor*>(&texts)}) {
    const std::vector<module_id> modules = load_all(*executor);
    for (const test::kernel_case& c : test::kernel_cases(false)) {
      EXPECT_EQ(c.run(runner_on(*executor, modules)), "") << c.name;
    }
  }
}

/// Launches saxpy over 8 elements of 1 in `grid` blocks of 4 threads.
result<stand_in::launch_report> launch_saxpy(
    kernel_executor& executor, std::int64_t n, std::vector<float>& y,
    std::function<bool(const void*, std::size_t, bool)> accessible) {
  module_id found = 0;
  std::uint64_t id = 0;
  for (const module_id module : load_all(executor)) {
    if (const auto facts = executor.find(module, "saxpy")) {
      found = module;
      id = facts->id;
    }
  }
  const std::vector<float> x(8, 1.0F);
  const float* from = x.data();
  float* to = y.data();
  const float a = 2;
  const std::array<const void*, 4> arguments = {&from, &to, &n, &a};
  launch_request request;
  request.module = found;
  request.function = id;
  request.block = {4, 1, 1};
  request.arguments = arguments;
  request.accessible = std::move(accessible);
  return executor.launch(request);
}

TEST(Executors, OfPtxReportTheBytesThatWereTouched) {
  ptx_executor executor;
  std::vector<float> y(8, 3.0F);
  const auto report = or_throw(launch_saxpy(executor, 8, y, {}));
  EXPECT_TRUE(report.exact);
  EXPECT_EQ(y, std::vector<float>(8, 5.0F));
  std::size_t written = 0, read = 0;
  for (const stand_in::touched_range& r : report.touched) {
    (r.written ? written : read) += r.bytes;
  }
  // Eight numbers in steps of 16 bytes, which begin before the numbers.
  EXPECT_TRUE(written == 32 || written == 48) << written;
  EXPECT_TRUE(read == 32 || read == 48) << read;
}

TEST(Executors, RefuseMemoryThatTheLaunchMayNotAccess) {
  kernel_machine::source_executor sources;
  ptx_executor texts;
  for (kernel_executor* executor :
       {static_cast<kernel_executor*>(&sources), static_cast<kernel_executor*>(&texts)}) {
    std::vector<float> y(8, 3.0F);
    const auto refused = launch_saxpy(
        *executor, 8, y, [](const void*, std::size_t, bool write) { return !write; });
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::out_of_range);
    EXPECT_EQ(y, std::vector<float>(8, 3.0F));
  }
}

TEST(Executors, RefuseWhatIsNoPtxAndUnknownKernels) {
  kernel_machine::source_executor sources;
  ptx_executor texts;
  for (kernel_executor* executor :
       {static_cast<kernel_executor*>(&sources), static_cast<kernel_executor*>(&texts)}) {
    const auto refused = executor->load(bytes_of_text("nothing"));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::corrupt);
    const module_id module = load_all(*executor)[0];
    const auto missing = executor->find(module, "no_kernel");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code(), errc::not_found);
    executor->unload(module);
    EXPECT_FALSE(executor->find(module, "matmul"));
  }
}

}  // namespace
}  // namespace weir::tessera::ptx
