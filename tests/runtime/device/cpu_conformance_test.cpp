// SPDX-License-Identifier: Apache-2.0
// The processor passes what every backend must.
#include "conformance.hpp"
#include "cpu_kernels.hpp"

namespace weir::runtime::conformance {
namespace {

class cpu_subject final : public subject {
 public:
  std::shared_ptr<device_backend> make(std::int32_t devices,
                                       std::size_t memory) override {
    cpu_options options;
    options.devices = devices;
    options.memory = memory;
    return or_throw(make_cpu_backend(options));
  }
  kernel_code kernel(std::string_view name) override {
    return cpu_kernels::conformance_kernel(name);
  }
};

INSTANTIATE_TEST_SUITE_P(Cpu, Backend, testing::Values(+[]() -> std::shared_ptr<subject> {
                           return std::make_shared<cpu_subject>();
                         }),
                         [](const auto&) { return std::string("cpu"); });

}  // namespace
}  // namespace weir::runtime::conformance
