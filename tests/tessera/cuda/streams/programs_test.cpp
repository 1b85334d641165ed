// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random programs on one to four devices of the stand-in driver, with random pauses.
/// Memory must end as the serial reference says, and no rule of the driver may be broken.
/// The programs are those of tests/tessera/capi/serial.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <string_view>

#include <fmt/core.h>

#include "cpu_kernels/executor.hpp"
#include "serial/arithmetic.hpp"
#include "serial/generate/generator.hpp"
#include "serial/run/kernel.hpp"
#include "serial/run/runner.hpp"
#include "streams/gpu_context.hpp"
#include "support/case_count.hpp"
#include "tessera/cuda/listed_kernels.hpp"

namespace weir::test::serial {
namespace {

using tessera::stand_in::argument;
using tessera::stand_in::launch_report;
using tessera::stand_in::launch_request;
using tessera::stand_in::listed_executor;
using tessera::stand_in::touched_range;

/// Does what serial_kernel does on a rank, as a kernel of the driver.
result<launch_report> compute_on_rank(const launch_request& r, int rank) {
  auto* const to = argument<word*>(r, 0);
  const auto* const from = argument<const word*>(r, 1);
  const auto words = argument<std::int32_t>(r, 2);
  const word salt = salt_of(argument<word>(r, 3), rank);
  for (std::uint32_t block = 0; block < r.grid[0]; ++block) {
    compute(static_cast<arithmetic>(argument<std::int32_t>(r, 4)), to, from, words, salt,
            static_cast<int>(block), static_cast<int>(r.grid[0]));
  }
  const std::size_t bytes = static_cast<std::size_t>(words) * sizeof(word);
  launch_report out{true, {{reinterpret_cast<std::uintptr_t>(to), bytes, true}}};
  if (from != nullptr) {
    out.touched.push_back({reinterpret_cast<std::uintptr_t>(from), bytes, false});
  }
  return out;
}

/// Two kernels for programs. The first learns its rank from the facts of its launch. The
/// second has rank 0 and takes no facts, so that devices can have graphs with it.
result<launch_report> program_kernel(const launch_request& r) {
  return compute_on_rank(r, tessera::stand_in::facts_of_launch(r).rank);
}
result<launch_report> lonely_kernel(const launch_request& r) {
  return compute_on_rank(r, 0);
}

std::shared_ptr<listed_executor> executor_of_programs() {
  using tessera::pointer_parameter;
  using tessera::scalar_parameter;
  constexpr std::uint32_t type = TESS_INT32;
  const std::vector<tessera::kernel_parameter> parameters{
      pointer_parameter("to", type, tessera::parameter_direction::inout),
      pointer_parameter("from", type),
      scalar_parameter("words", type),
      scalar_parameter("salt", type),
      scalar_parameter("how", type),
      scalar_parameter("spin", type),
      scalar_parameter("slow_rank", type)};
  return std::make_shared<listed_executor>(std::vector<tessera::stand_in::listed_kernel>{
      {"serial_kernel", parameters, TESS_KERNEL_DETERMINISTIC, true, &program_kernel},
      {"lonely_kernel", parameters, TESS_KERNEL_DETERMINISTIC, false, &lonely_kernel}});
}

/// Runs the kernel of programs, and by their sources the kernels with which devices run
/// collectives.
class both_executors final : public tessera::stand_in::kernel_executor {
 public:
  result<tessera::stand_in::module_id> load(std::span<const std::byte> image) override {
    auto listed = listed_->load(image);
    if (listed) {
      return *listed * 2;
    }
    WEIR_TRY(const tessera::stand_in::module_id source, sources_.load(image));
    return source * 2 + 1;
  }
  void unload(tessera::stand_in::module_id module) noexcept override {
    of(module).unload(module / 2);
  }
  result<tessera::stand_in::function_facts> find(tessera::stand_in::module_id module,
                                                 std::string_view name) override {
    return of(module).find(module / 2, name);
  }
  result<launch_report> launch(const launch_request& request) override {
    launch_request inner = request;
    inner.module = request.module / 2;
    return of(request.module).launch(inner);
  }
  [[nodiscard]] byte_vector container() const { return listed_->container("8.0"); }

 private:
  tessera::stand_in::kernel_executor& of(tessera::stand_in::module_id module) {
    return module % 2 == 0 ? static_cast<tessera::stand_in::kernel_executor&>(*listed_)
                           : static_cast<tessera::stand_in::kernel_executor&>(sources_);
  }
  std::shared_ptr<listed_executor> listed_ = executor_of_programs();
  tessera::kernel_machine::source_executor sources_{1};
};

/// Opens a context for some of the programs. Devices run collectives where they can load
/// the kernels for that; elsewhere the ranks meet on the host.
struct machine_of_programs {
  machine_of_programs(const tessera::stand_in::machine& shown, int workers,
                      bool devices_compute) {
    if (devices_compute) {
      const auto executor = std::make_shared<both_executors>();
      context = std::make_unique<gpu_context>(shown, executor, workers);
      module = context->load(executor->container());
    } else {
      const auto executor = executor_of_programs();
      context = std::make_unique<gpu_context>(shown, executor, workers);
      module = context->load(executor->container("8.0"));
    }
  }
  std::unique_ptr<gpu_context> context;
  tessModule_t module = nullptr;
};

/// Returns the number of devices of a program.
int devices_of(const program& p) {
  int out = 1;
  for (const mesh_spec& m : p.meshes) {
    out = std::max(out, *std::max_element(m.devices.begin(), m.devices.end()) + 1);
  }
  return out;
}

/// Returns true if no mesh of a program has several ranks.
bool is_lonely(const program& p) {
  return std::all_of(p.meshes.begin(), p.meshes.end(),
                     [](const mesh_spec& m) { return m.ranks() == 1; });
}

// A machine lasts for several programs, because opening it takes longer than they do. All
// programs take 19 s of processor time in a release build.
TEST(GpuPrograms, MemoryEndsAsIfEachOperationRanAtItsCall) {
  constexpr std::uint64_t programs_of_one = 50;
  constexpr int max_devices = 4;
  const std::uint64_t programs = case_count("WEIR_TEST_PROGRAMS", 1000, 200);
  const std::uint64_t seed = number_or("WEIR_TEST_SEED", 1);
  std::array<std::uint64_t, max_devices + 1> by_devices{};
  std::uint64_t next_seed = seed;
  std::uint64_t operations = 0;
  std::uint64_t graphs = 0;
  for (std::uint64_t first = 0; first < programs; first += programs_of_one) {
    tessera::stand_in::machine shown;
    shown.devices = max_devices;
    shown.seed = static_cast<unsigned>(seed + first);
    // Every other machine has short delays: other orders occur there.
    shown.max_delay_us = first / programs_of_one % 2 == 0 ? 30 : 2;
    shown.max_block_us = first / programs_of_one % 4 == 1 ? 10 : 0;
    const machine_of_programs on(shown, 2 + static_cast<int>(first / 50 % 3),
                                 first / programs_of_one % 3 == 0);
    const tessKernel_t kernel = kernel_of(on.module, "serial_kernel");
    const tessKernel_t lonely = kernel_of(on.module, "lonely_kernel");
    for (std::uint64_t i = first; i < std::min(first + programs_of_one, programs); ++i) {
      program p = random_program(next_seed++);
      while (devices_of(p) > max_devices) {
        p = random_program(next_seed++);
      }
      ASSERT_EQ(run_in(on.context->get(), is_lonely(p) ? lonely : kernel, p), "")
          << "WEIR_TEST_SEED=" << next_seed - 1 << "\n"
          << text_of(p);
      ++by_devices[static_cast<std::size_t>(devices_of(p))];
      operations += p.operations.size();
    }
    graphs += tessera::stand_in::calls_of("cuGraphLaunch");
  }
  // A test of fewer programs may have none.
  EXPECT_TRUE(graphs > 0 || programs < 200) << "no graph was launched by the driver";
  std::cout << fmt::format(
      "{} programs, {} operations, {} launches of graphs by the "
      "driver; by devices:",
      programs, operations, graphs);
  for (std::size_t d = 1; d < by_devices.size(); ++d) {
    std::cout << " " << by_devices[d];
  }
  std::cout << "\n";
}

}  // namespace
}  // namespace weir::test::serial
