// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that the demo's kernels for processors give the bits that the kernels for GPUs
/// must give, on the processor's backend.
#include <gtest/gtest.h>

#include <future>

#include "cases/kernel_cases.hpp"
#include "cpu_kernels/machine.hpp"
#include "device/cpu.hpp"
#include "weir/base/file.hpp"
#include "weir/tessera/module/loader.hpp"

namespace weir::tessera {
namespace {

/// The demo's module, on a backend with one device.
struct demo_device {
  std::shared_ptr<const loaded_module> module;
  std::unique_ptr<device_backend> backend;

  std::string run(const test::kernel_launch& launch) const {
    const loaded_kernel* kernel = module->find(launch.name);
    if (kernel == nullptr) {
      return "no such kernel";
    }
    // A persistent kernel for GPUs has one argument more, the facts about the launch.
    std::vector<bytes_view> arguments;
    for (std::size_t i = 0; i < kernel->record.parameters.size(); ++i) {
      arguments.emplace_back(static_cast<const std::byte*>(launch.arguments[i]),
                             launch.sizes[i]);
    }
    const byte_vector packed =
        or_throw(pack_arguments(kernel->record.parameters, arguments));
    grid_launch l;
    l.code = {kernel->record.name,
              kernel->per_thread() ? reinterpret_cast<void (*)()>(kernel->thread_entry())
                                   : reinterpret_cast<void (*)()>(kernel->block_entry()),
              kernel->record.flags};
    for (std::size_t d = 0; d < 3; ++d) {
      l.grid[d] = static_cast<std::int32_t>(launch.grid[d]);
      l.block[d] = launch.cooperative ? 1 : static_cast<std::int32_t>(launch.block[d]);
    }
    l.shared_bytes = kernel->record.shared_bytes;
    l.args = packed;
    if (launch.cooperative) {
      const auto persistent = or_throw(backend->start_persistent(l, [](result<void>) {}));
      const auto done = persistent->wait(-1);
      return done ? "" : done.error().message();
    }
    const auto done = backend->run_blocks(l, 0, l.blocks());
    return done ? "" : done.error().message();
  }
};

TEST(CpuBackend, EqualsTheOracleOfTheKernelsForGpus) {
  const byte_vector image = or_throw(read_file(posix_file_system(), WEIR_KERNELS_FATBIN));
  cpu_options options;
  options.devices = 1;
  const demo_device device{or_throw(load_module(image)),
                           or_throw(make_cpu_backend(options))};
  for (const bool large : {false, true}) {
    for (const test::kernel_case& c : test::kernel_cases(large)) {
      if (c.of_demo) {
        EXPECT_EQ(c.run([&](const test::kernel_launch& l) { return device.run(l); }), "")
            << c.name;
      }
    }
  }
}

// The stand-in driver takes from the sources which arrays a launch writes, and everybody
// else takes it from this table.
TEST(CpuBackend, TheTableOfParametersSaysWhatTheSourcesForGpusWrite) {
  const byte_vector image = or_throw(read_file(posix_file_system(), WEIR_KERNELS_FATBIN));
  for (const kernel_record& record : or_throw(parse_fatbin(image)).kernels) {
    const kernel_machine::kernel_entry* source = kernel_machine::find_kernel(record.name);
    ASSERT_NE(source, nullptr) << record.name;
    for (std::size_t i = 0; i < record.parameters.size(); ++i) {
      const kernel_parameter& p = record.parameters[i];
      const auto use = p.kind != parameter_kind::pointer ? stand_in::pointer_use::none
                       : p.direction == parameter_direction::in
                           ? stand_in::pointer_use::reads
                           : stand_in::pointer_use::writes;
      EXPECT_EQ(source->uses.at(i), use) << record.name << " " << p.name;
    }
  }
}

}  // namespace
}  // namespace weir::tessera
