// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the conformance suite of backends on the GPUs of this machine, or on the
/// stand-in. `gpu_conformance 1` has the stand-in show one device instead of three.
#include <cstdio>
#include <cstdlib>

#include "conformance.hpp"
#include "conformance/conformance_kernels.hpp"
#include "gpu/gpu_place.hpp"

namespace weir::tessera::conformance {
namespace {

/// Makes backends for the GPUs of this machine.
class gpu_subject final : public subject {
 public:
  explicit gpu_subject(std::int32_t devices) : devices_(devices) {}
  [[nodiscard]] std::int32_t devices() const override { return devices_; }
  std::shared_ptr<device_backend> make(std::int32_t devices,
                                       std::size_t memory) override {
    open_ = std::make_shared<opened>();
    gpu::place_wish wish;
    wish.memory = memory;
    wish.stand_in_devices = devices;
    wish.executor = kernel_executor_of(kernel_form::sources);
    open_->place = or_throw(gpu::open_place(wish));
    const byte_vector image = conformance_container(gpu::ptx_texts("conformance").at(0));
    open_->module =
        or_throw(open_->place.backend->load(or_throw(parse_fatbin(image)), "kernels"));
    return {open_, open_->place.backend.get()};
  }
  kernel_code kernel(std::string_view name) override {
    return or_throw(open_->module->kernel(name));
  }

 private:
  /// A module ends before its backend.
  struct opened {
    gpu::gpu_place place;
    std::unique_ptr<cuda_module> module;
  };
  std::int32_t devices_;
  std::shared_ptr<opened> open_;
};

/// Number of devices of this machine, from `main`.
std::int32_t present = 0;

std::shared_ptr<subject> make_gpus() {
  return std::make_shared<gpu_subject>(present);
}

INSTANTIATE_TEST_SUITE_P(Gpus, Backend, testing::Values(&make_gpus));

}  // namespace
}  // namespace weir::tessera::conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  namespace gpu = weir::tessera::gpu;
  gpu::place_wish wish;
  wish.stand_in_devices = argc > 1 ? std::atoi(argv[1]) : 3;
  {
    const auto place = gpu::open_place(wish);
    if (!place) {
      std::printf("gpu_conformance: skipped: %s\n", place.error().message().c_str());
      return gpu::skipped;
    }
    weir::tessera::conformance::present = place->backend->device_count();
  }
  return RUN_ALL_TESTS();
}
