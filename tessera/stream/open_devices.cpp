// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens the devices of a context: virtual ones of the processor, or GPUs.
#include <memory>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "device/cpu.hpp"
#include "device/cuda.hpp"
#include "weir/tessera/stream/context.hpp"

namespace weir::tessera {
namespace {

/// Code of a module on GPUs, which keeps their backend.
class gpu_code final : public device_code {
 public:
  gpu_code(std::shared_ptr<cuda_backend> gpus, std::unique_ptr<cuda_module> code)
      : gpus_(std::move(gpus)), code_(std::move(code)) {}
  [[nodiscard]] result<kernel_entry> entry(std::string_view kernel) const override {
    WEIR_TRY(const kernel_code found, code_->kernel(kernel));
    return found.entry;
  }
  [[nodiscard]] const std::vector<std::size_t>& sections() const override {
    return code_->sections();
  }

 private:
  std::shared_ptr<cuda_backend> gpus_;
  std::unique_ptr<cuda_module> code_;  ///< ends before the backend
};

}  // namespace

result<void> context::open_devices() {
  if (settings_.backend == "cuda") {
    auto made = make_cuda_backend();
    if (!made) {
      return error(errc::unsupported,
                   "backend not available \"cuda\": expected a driver and a GPU that it "
                   "works with, found another machine")
          .hint("TESS_BACKEND names it")
          .because(std::move(made).error());
    }
    const std::shared_ptr<cuda_backend> gpus = *std::move(made);
    device_code_ =
        [gpus](const fatbin& module) -> result<std::shared_ptr<const device_code>> {
      WEIR_TRY(auto code, gpus->load(module, to_hex(module.content_hash).substr(0, 8)));
      return std::make_shared<const gpu_code>(gpus, std::move(code));
    };
    backend_ = gpus;
    return {};
  }
  cpu_options options;
  options.devices = settings_.devices;
  options.memory = settings_.device_memory;
  options.source = settings_.source;
  options.log = [to = log_at(log_level::info)](std::int32_t device,
                                               std::string_view text) {
    to(fmt::format("device {}: {}", device, text));
  };
  WEIR_TRY(auto backend, make_cpu_backend(std::move(options)));
  backend_ = std::move(backend);
  return {};
}

}  // namespace weir::tessera
