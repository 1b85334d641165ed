// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the conformance suite of backends on the backend for GPUs over the stand-in, once
/// as fast as it goes and once with calls that block and operations that start late.
#include "conformance.hpp"
#include "tessera/cuda/support.hpp"

namespace weir::tessera::conformance {
namespace {

/// Makes backends for GPUs over the stand-in.
class cuda_subject final : public subject {
 public:
  explicit cuda_subject(unsigned max_pause_us) : max_pause_us_(max_pause_us) {}

  std::shared_ptr<device_backend> make(std::int32_t devices,
                                       std::size_t memory) override {
    stand_in::machine shown;
    shown.devices = devices;
    shown.memory = memory + (std::size_t{1} << 20);  // for barriers of grids
    shown.max_delay_us = max_pause_us_;
    shown.max_block_us = max_pause_us_ / 4;
    cuda_options options = stand_in::stand_in_options();
    options.memory = memory;
    rig_ = std::make_shared<stand_in::rig>(shown, options);
    return {rig_, &rig_->backend()};
  }
  kernel_code kernel(std::string_view name) override { return rig_->kernel(name); }

 private:
  unsigned max_pause_us_;
  std::shared_ptr<stand_in::rig> rig_;
};

std::shared_ptr<subject> make_cuda() {
  return std::make_shared<cuda_subject>(0);
}
std::shared_ptr<subject> make_slow_cuda() {
  return std::make_shared<cuda_subject>(200);
}

INSTANTIATE_TEST_SUITE_P(CudaConformance, Backend,
                         testing::Values(&make_cuda, &make_slow_cuda),
                         [](const auto& about) {
                           return std::string(about.index == 0 ? "cuda" : "slow");
                         });

}  // namespace
}  // namespace weir::tessera::conformance
