// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the kernels for GPUs through streams of the C interface, over the stand-in driver
/// with both of its executors: the kernels' sources and their PTX. Every bit must be that
/// of the plain loops in `cases/`.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>

#include <fmt/core.h>

#include "cases/kernel_cases.hpp"
#include "cpu_kernels/executor.hpp"
#include "device/cuda/launch_facts.hpp"
#include "ptx/executor.hpp"
#include "ptx/ptx_kernels.hpp"
#include "streams/gpu_context.hpp"
#include "weir/base/file.hpp"

namespace weir::test {
namespace {

using tessera::kernel_record;
using tessera::stand_in::kernel_executor;
using tessera::test::case_memory;
using tessera::test::kernel_launch;

/// Returns a container with one PTX text, whose kernels take numbers of 4 and 8 bytes.
byte_vector container_of(const std::string& text) {
  tessera::fatbin_builder builder;
  builder.add_code(tessera::section_kind::ptx, "compute_75",
                   {reinterpret_cast<const std::byte*>(text.data()), text.size()});
  for (const tessera::ptx::kernel& k : or_throw(tessera::ptx::parse(text))) {
    kernel_record record;
    record.name = k.name;
    record.flags = TESS_KERNEL_DETERMINISTIC;
    for (const tessera::ptx::parameter& p : k.parameters) {
      record.parameters.push_back(tessera::scalar_parameter(
          fmt::format("p{}", record.parameters.size()),
          static_cast<std::uint32_t>(p.bytes == 8   ? TESS_INT64
                                     : p.bytes == 4 ? TESS_INT32
                                     : p.bytes == 2 ? TESS_INT16
                                                    : TESS_INT8)));
    }
    or_throw(builder.add_kernel(std::move(record)));
  }
  return or_throw(builder.build());
}

/// Runs launches of cases on a stream: copies their memory to a device, launches, and
/// copies it back.
class stream_runner {
 public:
  explicit stream_runner(gpu_context& on) : mesh_(on, 1) {
    const tessNumericsPolicy any_order{1, 0, 1, 0};  // for atomic_sum
    EXPECT_TESS(tessSetNumericsPolicy(on.get(), &any_order));
    const tessModule_t demo =
        on.load(or_throw(read_file(posix_file_system(), WEIR_KERNELS_FATBIN)));
    int count = 0;
    EXPECT_TESS(tessModuleGetKernelCount(demo, &count));
    for (int i = 0; i < count; ++i) {
      const char* name = nullptr;
      EXPECT_TESS(tessModuleGetKernelName(demo, i, &name));
      kernels_[name] = kernel_of(demo, name);
    }
    for (const std::string& text : tessera::ptx::repository_texts()) {
      const auto kernels = or_throw(tessera::ptx::parse(text));
      if (kernels_.count(kernels.front().name) != 0) {
        continue;  // the demo's own text
      }
      const tessModule_t more = on.load(container_of(text));
      for (const tessera::ptx::kernel& k : kernels) {
        kernels_[k.name] = kernel_of(more, k.name);
      }
    }
  }

  std::string run(const kernel_launch& launch) {
    std::vector<placed> memory;
    for (const case_memory& m : launch.memory) {
      memory.push_back({m, nullptr, false});
      if (m.bytes > 0) {
        EXPECT_TESS(tessMalloc(mesh_.mesh, m.bytes, &memory.back().there));
      }
    }
    std::vector<byte_vector> contents;
    for (placed& m : memory) {
      contents.push_back(translated(m, memory));
      EXPECT_TESS(tessMemcpyAsync(m.there, contents.back().data(), m.here.bytes,
                                  TESS_COPY_H2D, mesh_.stream));
    }
    std::string wrong = launch_on_device(launch, memory);
    for (const placed& m : memory) {
      if (!m.has_addresses) {  // addresses of a device mean nothing to the case
        EXPECT_TESS(tessMemcpyAsync(const_cast<void*>(m.here.first), m.there,
                                    m.here.bytes, TESS_COPY_D2H, mesh_.stream));
      }
    }
    if (tessStreamSynchronize(mesh_.stream) != TESS_OK) {
      wrong += tessGetLastErrorMessage();
    }
    for (const placed& m : memory) {
      EXPECT_TESS(tessFree(mesh_.mesh, m.there));
    }
    return wrong;
  }

 private:
  /// Memory of a case and its place on the device.
  struct placed {
    case_memory here;
    void* there = nullptr;
    bool has_addresses = false;
  };

  /// Returns the address on the device of an address of a case; 0 if it is none.
  static std::uint64_t device_address(std::uint64_t of, const std::vector<placed>& all) {
    for (const placed& m : all) {
      const auto first = reinterpret_cast<std::uint64_t>(m.here.first);
      if (m.here.bytes > 0 && of >= first && of < first + m.here.bytes) {
        return reinterpret_cast<std::uint64_t>(m.there) + (of - first);
      }
    }
    return 0;
  }
  /// Returns the bytes of a memory, in which addresses are those of the device.
  static byte_vector translated(placed& m, const std::vector<placed>& all) {
    const auto* const bytes = static_cast<const std::byte*>(m.here.first);
    byte_vector out(bytes, bytes + m.here.bytes);
    for (std::size_t i = 0; i + 8 <= out.size(); i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, out.data() + i, sizeof word);
      if (const std::uint64_t there = device_address(word, all); there != 0) {
        std::memcpy(out.data() + i, &there, sizeof there);
        m.has_addresses = true;
      }
    }
    return out;
  }

  std::string launch_on_device(const kernel_launch& launch,
                               const std::vector<placed>& memory) {
    const tessKernel_t kernel = kernels_.at(std::string(launch.name));
    std::vector<byte_vector> values;
    for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
      if (launch.sizes[i] == sizeof(tessera::cuda::launch_facts)) {
        break;  // the backend passes the facts itself
      }
      const auto* const from = static_cast<const std::byte*>(launch.arguments[i]);
      values.emplace_back(from, from + launch.sizes[i]);
      std::uint64_t word = 0;
      if (launch.sizes[i] == sizeof word) {
        std::memcpy(&word, from, sizeof word);
        const std::uint64_t there = device_address(word, memory);
        std::memcpy(values.back().data(), there != 0 ? &there : &word, sizeof word);
      }
    }
    std::vector<const void*> addresses;
    for (const byte_vector& v : values) {
      addresses.push_back(v.data());
    }
    std::size_t size = 0;
    EXPECT_TESS(tessPackArgs(kernel, addresses.data(), static_cast<int>(addresses.size()),
                             nullptr, &size));
    byte_vector packed(size);
    EXPECT_TESS(tessPackArgs(kernel, addresses.data(), static_cast<int>(addresses.size()),
                             packed.data(), &size));
    tessLaunchConfig config{};
    for (std::size_t i = 0; i < 3; ++i) {
      config.grid[i] = static_cast<int>(launch.grid[i]);
      config.block[i] = static_cast<int>(launch.block[i]);
    }
    config.flags = launch.cooperative ? TESS_LAUNCH_PERSISTENT : TESS_LAUNCH_DEFAULT;
    const tessStatus_t status = tessLaunch(kernel, mesh_.mesh, config, packed.data(),
                                           packed.size(), mesh_.stream);
    return status == TESS_OK ? "" : tessGetLastErrorMessage();
  }

  gpu_mesh mesh_;
  std::map<std::string, tessKernel_t, std::less<>> kernels_;
};

/// Runs all cases and returns how many there were.
int run_cases(const std::shared_ptr<kernel_executor>& executor, unsigned max_delay_us,
              bool large) {
  tessera::stand_in::machine shown;
  shown.max_delay_us = max_delay_us;
  gpu_context context(shown, executor);
  stream_runner runner(context);
  int count = 0;
  for (const tessera::test::kernel_case& c : tessera::test::kernel_cases(large)) {
    if (c.name == "persistent_heat, stopped") {
      continue;  // the case sets the stop word itself
    }
    ++count;
    EXPECT_EQ(c.run([&](const kernel_launch& l) { return runner.run(l); }), "") << c.name;
  }
  return count;
}

TEST(GpuStreams, KernelsGiveTheExpectedBitsFromTheirSources) {
  const auto sources = std::make_shared<tessera::kernel_machine::source_executor>(3);
  EXPECT_GE(run_cases(sources, 0, false), 40);
  EXPECT_GE(run_cases(sources, 0, true), 39);
}

TEST(GpuStreams, KernelsGiveTheExpectedBitsFromTheirPtx) {
  const auto texts = std::make_shared<tessera::ptx::ptx_executor>(5);
  EXPECT_GE(run_cases(texts, 20, false), 40);
}

/// Adds 2 * x to y on each device of a mesh, each of which has other numbers.
void add_on_each_device(const std::shared_ptr<kernel_executor>& executor) {
  constexpr int devices = 3;
  constexpr std::size_t n = 50;
  tessera::stand_in::machine shown;
  shown.devices = devices;
  shown.max_delay_us = 50;
  gpu_context context(shown, executor);
  const gpu_mesh on(context, devices);
  const tessModule_t demo =
      context.load(or_throw(read_file(posix_file_system(), WEIR_KERNELS_FATBIN)));
  void* x = nullptr;
  void* y = nullptr;
  ASSERT_TESS(tessMalloc(on.mesh, n * sizeof(float), &x));
  ASSERT_TESS(tessMalloc(on.mesh, n * sizeof(float), &y));
  std::vector<std::vector<float>> inputs;
  for (int r = 0; r < devices; ++r) {
    std::vector<float>& of_rank = inputs.emplace_back();
    for (std::size_t i = 0; i < n; ++i) {
      of_rank.push_back(static_cast<float>(i) + 100.0F * static_cast<float>(r));
    }
    EXPECT_TESS(tessMemcpyRankAsync(x, of_rank.data(), n * sizeof(float), TESS_COPY_H2D,
                                    r, on.stream));
  }
  EXPECT_TESS(tessMemsetAsync(y, 0, n * sizeof(float), on.stream));
  struct {
    void* x;
    void* y;
    std::int64_t n;
    float a;
    float pad;
  } args{x, y, n, 2.0F, 0.0F};
  for (int repeat = 0; repeat < 4; ++repeat) {
    EXPECT_TESS(tessLaunch(kernel_of(demo, "saxpy"), on.mesh,
                           {{2, 1, 1}, {8, 1, 1}, 0, 0}, &args, sizeof args, on.stream));
  }
  for (int r = 0; r < devices; ++r) {
    std::vector<float> found(n);
    EXPECT_TESS(tessMemcpyRankAsync(found.data(), y, n * sizeof(float), TESS_COPY_D2H, r,
                                    on.stream));
    EXPECT_TESS(tessStreamSynchronize(on.stream));
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(found[i], 8.0F * inputs[static_cast<std::size_t>(r)][i])
          << "element " << i << " on rank " << r;
    }
  }
  EXPECT_TESS(tessFree(on.mesh, x));
  EXPECT_TESS(tessFree(on.mesh, y));
}

TEST(GpuStreams, ALaunchRunsOnEachDeviceWithItsOwnMemory) {
  add_on_each_device(std::make_shared<tessera::kernel_machine::source_executor>(7));
  add_on_each_device(std::make_shared<tessera::ptx::ptx_executor>(7));
}

}  // namespace
}  // namespace weir::test
