// SPDX-License-Identifier: Apache-2.0
/// @file
/// Devices, memory and kernels for tests of streams and collectives.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "weir/actors/streams.hpp"
#include "weir/tessera/module/fatbin.hpp"

namespace weir::test {

/// Parameters of the kernel `stage`, which computes y[i] = x[i] * factor + addend * (rank
/// + 1), one element per block.
struct stage_arguments {
  const float* x;
  float* y;
  float factor;
  float addend;
};
/// The kernel `stage`.
inline int stage_entry(const tessBlockContext* block, const void* args) {
  const auto* a = static_cast<const stage_arguments*>(args);
  const auto i = block->blockIndex[0];
  a->y[i] = a->x[i] * a->factor + a->addend * static_cast<float>(block->rank + 1);
  return 0;
}
/// The kernel `broken`.
inline int broken_entry(const tessBlockContext*, const void*) {
  return 7;
}

/// Returns a module with the kernels `stage` and `broken`, which are functions of this
/// program; `broken` always fails.
inline std::shared_ptr<const tessera::loaded_module> stage_module() {
  using namespace tessera;
  static const std::shared_ptr<const loaded_module> loaded = [] {
    constexpr auto fp32 = static_cast<std::uint32_t>(dtype::fp32);
    const std::vector<kernel_parameter> parameters{
        pointer_parameter("x", fp32), pointer_parameter("y", fp32),
        scalar_parameter("factor", fp32), scalar_parameter("addend", fp32)};
    fatbin_builder builder;
    const auto add = [&](const char* name, tessBlockEntry entry) {
      host_kernel kernel;
      kernel.name = name;
      kernel.entry = reinterpret_cast<kernel_entry>(entry);
      kernel.parameters = parameters;
      kernel.flags = TESS_KERNEL_DETERMINISTIC;
      or_throw(register_host_kernel(kernel));
      kernel_record record;
      record.name = name;
      record.flags = kernel.flags;
      record.parameters = parameters;
      or_throw(builder.add_kernel(std::move(record)));
    };
    add("stage", stage_entry);
    add("broken", broken_entry);
    builder.add_code(section_kind::cpu_registered, "host");
    return or_throw(load_module(or_throw(builder.build())));
  }();
  return loaded;
}

/// Returns an order to launch a kernel of the module.
inline actors::launch_order launch_of(const char* kernel, const stage_arguments& args,
                                      int blocks) {
  actors::launch_order out;
  out.request.kernel = {stage_module(), stage_module()->find(kernel)};
  out.request.grid[0] = blocks;
  out.args.resize(sizeof args);
  std::memcpy(out.args.data(), &args, sizeof args);
  return out;
}

/// A mesh of devices, and its memory, which has one instance on each device.
struct device_mesh {
  std::shared_ptr<tessera::context> context;
  std::shared_ptr<tessera::mesh> mesh;

  device_mesh(std::shared_ptr<tessera::context> in, collective::mesh_axes axes)
      : context(std::move(in)) {
    std::vector<std::int32_t> ids(
        static_cast<std::size_t>(axes.tp * axes.pp * axes.dp * axes.ep));
    std::iota(ids.begin(), ids.end(), 0);
    mesh = or_throw(context->make_mesh(ids, axes));
  }
  /// Allocates `count` zeros on each device and returns their common address.
  [[nodiscard]] float* memory(std::size_t count) const {
    const auto out = or_throw(
        context->memory().allocate(mesh->devices, count * sizeof(float), mesh->number));
    for (std::byte* instance : out->instances()) {
      std::memset(instance, 0, count * sizeof(float));
    }
    return reinterpret_cast<float*>(out->data());
  }
  /// Returns the instance of a rank. The host may read it while no task runs.
  [[nodiscard]] float* instance(float* symmetric, int rank) const {
    return reinterpret_cast<float*>(context->memory().translate(symmetric, rank));
  }
};

/// An engine without threads. A test runs its tasks one by one.
class hand_engine {
 public:
  explicit hand_engine(collective::mesh_axes axes = {1, 1, 4, 1},
                       tessera::runtime_settings settings = {})
      : engine_(or_throw(runtime::engine::create({}))),
        devices_(or_throw(tessera::context::over(*engine_, std::move(settings))), axes) {}
  ~hand_engine() { run_all(); }
  hand_engine(const hand_engine&) = delete;
  hand_engine& operator=(const hand_engine&) = delete;

  bool run_one() { return engine_->run_one(); }
  void run_all() {
    while (run_one()) {
    }
  }
  [[nodiscard]] const device_mesh& devices() const { return devices_; }
  const device_mesh* operator->() const { return &devices_; }

 private:
  std::unique_ptr<runtime::engine> engine_;
  device_mesh devices_;
};

}  // namespace weir::test
