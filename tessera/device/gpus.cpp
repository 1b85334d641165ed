// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens GPUs. The code of a module keeps their backend alive, because it must be
/// unloaded before the backend ends.
#include "device/gpus.hpp"

#include <utility>
#include <vector>

#include "device/cuda.hpp"
#include "device/cuda/collectives/device_collectives.hpp"

namespace weir::tessera {
namespace {

/// Code of a module on GPUs, which keeps their backend.
///
/// It may be the last object that keeps the backend alive.
class gpu_code final : public device_code {
 public:
  gpu_code(std::shared_ptr<cuda_backend> gpus, std::unique_ptr<cuda_module> code)
      : gpus_(std::move(gpus)), code_(std::move(code)) {}
  // The entry is valid as long as this object.
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

/// Collectives of GPUs, which keep their backend.
class gpu_collectives final : public group_collectives {
 public:
  /// Makes the collectives of ranks on these devices. Without NCCL, and if it does not
  /// work with the devices, copies and kernels run those of level 0 too.
  static result<std::unique_ptr<group_collectives>> open(
      std::shared_ptr<cuda_backend> backend, std::span<const std::int32_t> devices,
      bool level_0) {
    std::unique_ptr<gpu_collectives> made(new gpu_collectives(std::move(backend)));
    const std::vector<std::int32_t> of_ranks(devices.begin(), devices.end());
    // Level 0 may have any order of sums.
    if (level_0 && made->find_nccl()) {
      cuda::collective_options with_nccl;
      with_nccl.nccl = &made->nccl_;
      with_nccl.from = &made->driver_;
      auto opened = cuda::device_collectives::open(*made->backend_, of_ranks, with_nccl);
      if (opened) {
        made->group_ = *std::move(opened);
        return std::unique_ptr<group_collectives>(std::move(made));
      }
      made->nccl_failure_ = std::move(opened).error();
    }
    // Copies and kernels of this project.
    WEIR_TRY(made->group_, cuda::device_collectives::open(*made->backend_, of_ranks));
    return std::unique_ptr<group_collectives>(std::move(made));
  }
  void submit(const collective::collective_call& call,
              std::span<const std::byte* const> inputs,
              std::span<std::byte* const> outputs, completion done) override {
    std::vector<cuda::rank_call> calls;
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      // Rank r has the buffers at index r.
      calls.push_back({call, {inputs[r], outputs[r]}});
    }
    group_->submit(calls, std::move(done));
  }
  [[nodiscard]] std::optional<error> nccl_failure() const override {
    return nccl_failure_;
  }

 private:
  explicit gpu_collectives(std::shared_ptr<cuda_backend> backend)
      : backend_(std::move(backend)) {}
  /// Returns true if NCCL and the driver were found.
  ///
  /// Both stay loaded as long as this object.
  bool find_nccl() {
    auto library = cuda::load_nccl("libnccl.so.2");
    auto driver = cuda::load_driver(cuda_options{}.library);
    if (!library || !driver) {
      return false;
    }
    nccl_ = *std::move(library);
    driver_ = *std::move(driver);
    return true;
  }

  std::shared_ptr<cuda_backend> backend_;
  cuda::nccl_library nccl_;
  cuda::driver driver_;
  std::optional<error> nccl_failure_;
  std::unique_ptr<cuda::device_collectives> group_;  ///< ends before the others
};

}  // namespace

/// Fails on a machine without a driver or a GPU, with the reason as the cause.
result<gpus> open_gpus() {
  // The backend opens all devices.
  auto made = make_cuda_backend();
  if (!made) {
    return error(errc::unsupported,
                 "backend not available \"cuda\": expected a driver and a GPU that it "
                 "works with, found another machine")
        .hint("TESS_BACKEND names it")
        .because(std::move(made).error());
  }
  const std::shared_ptr<cuda_backend> backend = *std::move(made);
  // The function that loads modules keeps the backend.
  const auto load =
      [backend](const fatbin& module) -> result<std::shared_ptr<const device_code>> {
    // A part of the hash names the code in messages.
    WEIR_TRY(auto code, backend->load(module, to_hex(module.content_hash).substr(0, 8)));
    return std::make_shared<const gpu_code>(backend, std::move(code));
  };
  const auto collectives = [backend](std::span<const std::int32_t> devices,
                                     bool level_0) {
    return gpu_collectives::open(backend, devices, level_0);
  };
  return gpus{backend, load, collectives};
}

}  // namespace weir::tessera
