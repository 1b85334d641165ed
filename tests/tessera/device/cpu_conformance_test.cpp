// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the conformance suite on the processor backend, once directly and once behind
/// later_backend, where all work completes asynchronously.
#include "conformance.hpp"
#include "cpu_kernels.hpp"
#include "later_backend.hpp"

namespace weir::tessera::conformance {
namespace {

/// Makes processor backends; if `later` is set, behind a later_backend.
class cpu_subject final : public subject {
 public:
  explicit cpu_subject(bool later) : later_(later) {}

  std::shared_ptr<device_backend> make(std::int32_t devices,
                                       std::size_t memory) override {
    cpu_options options;
    options.devices = devices;
    options.memory = memory;
    std::shared_ptr<device_backend> made = or_throw(make_cpu_backend(options));
    return later_ ? std::make_shared<later_backend>(std::move(made)) : made;
  }
  kernel_code kernel(std::string_view name) override {
    return cpu_kernels::conformance_kernel(name);
  }

 private:
  bool later_;
};

// The two factories with which the suite is instantiated.
std::shared_ptr<subject> make_cpu() {
  return std::make_shared<cpu_subject>(false);
}
std::shared_ptr<subject> make_later() {
  return std::make_shared<cpu_subject>(true);
}

INSTANTIATE_TEST_SUITE_P(Conformance, Backend, testing::Values(&make_cpu, &make_later),
                         [](const auto& about) {
                           return std::string(about.index == 0 ? "cpu" : "later");
                         });

}  // namespace
}  // namespace weir::tessera::conformance
