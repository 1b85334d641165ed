// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens GPUs. The code of a module keeps their backend, because it ends before that.
#include "device/gpus.hpp"

#include <utility>
#include <vector>

#include "device/cuda.hpp"

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

result<gpus> open_gpus() {
  auto made = make_cuda_backend();
  if (!made) {
    return error(errc::unsupported,
                 "backend not available \"cuda\": expected a driver and a GPU that it "
                 "works with, found another machine")
        .hint("TESS_BACKEND names it")
        .because(std::move(made).error());
  }
  const std::shared_ptr<cuda_backend> backend = *std::move(made);
  const auto load =
      [backend](const fatbin& module) -> result<std::shared_ptr<const device_code>> {
    WEIR_TRY(auto code, backend->load(module, to_hex(module.content_hash).substr(0, 8)));
    return std::make_shared<const gpu_code>(backend, std::move(code));
  };
  return gpus{backend, load};
}

}  // namespace weir::tessera
