// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the conformance suite of backends on the backend for GPUs over the stand-in: with
/// kernels that are functions of the test program, with the sources of kernels for GPUs,
/// and with their PTX; as fast as it goes, and with calls that block and operations that
/// start late.
#include <array>

#include "conformance.hpp"
#include "conformance/conformance_kernels.hpp"
#include "tessera/cuda/support.hpp"

namespace weir::tessera::conformance {
namespace {

/// Makes backends for GPUs over the stand-in.
class cuda_subject final : public subject {
 public:
  cuda_subject(kernel_form form, unsigned max_pause_us)
      : form_(form), max_pause_us_(max_pause_us) {}

  std::shared_ptr<device_backend> make(std::int32_t devices,
                                       std::size_t memory) override {
    stand_in::machine shown;
    shown.devices = devices;
    shown.memory = memory + (std::size_t{1} << 20);  // for barriers of grids
    shown.max_delay_us = max_pause_us_;
    shown.max_block_us = max_pause_us_ / 4;
    cuda_options options = stand_in::stand_in_options();
    options.memory = memory;
    rig_ = form_ == kernel_form::functions
               ? std::make_shared<stand_in::rig>(shown, options)
               : std::make_shared<stand_in::rig>(
                     shown, options, kernel_executor_of(form_), conformance_container());
    return {rig_, &rig_->backend()};
  }
  kernel_code kernel(std::string_view name) override { return rig_->kernel(name); }

 private:
  kernel_form form_;
  unsigned max_pause_us_;
  std::shared_ptr<stand_in::rig> rig_;
};

/// Longest pause of the variants that are slow.
constexpr unsigned slow_us = 200;

template <kernel_form Form, unsigned MaxPauseUs>
std::shared_ptr<subject> make_cuda() {
  return std::make_shared<cuda_subject>(Form, MaxPauseUs);
}

/// Returns the name of a variant, by its place in the list below.
std::string variant_name(const testing::TestParamInfo<make_subject>& about) {
  constexpr std::array names = {"cuda",         "slow", "sources",
                                "slow_sources", "ptx",  "slow_ptx"};
  return names.at(about.index);
}

INSTANTIATE_TEST_SUITE_P(CudaConformance, Backend,
                         testing::Values(&make_cuda<kernel_form::functions, 0>,
                                         &make_cuda<kernel_form::functions, slow_us>,
                                         &make_cuda<kernel_form::sources, 0>,
                                         &make_cuda<kernel_form::sources, slow_us>,
                                         &make_cuda<kernel_form::ptx, 0>,
                                         &make_cuda<kernel_form::ptx, slow_us>),
                         &variant_name);

}  // namespace
}  // namespace weir::tessera::conformance
