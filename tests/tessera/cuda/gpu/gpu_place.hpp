// SPDX-License-Identifier: Apache-2.0
/// @file
/// The GPU that the programs of this folder use, or the stand-ins.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda.hpp"
#include "device/cuda/collectives/nccl_api.hpp"
#include "stand_in/executor.hpp"

namespace weir::tessera::gpu {

/// Exit status of a program that has found no GPU.
inline constexpr int skipped = 77;

/// What was found on this machine.
struct gpu_place {
  bool stand_in = false;  ///< the stand-ins are used, so times mean nothing
  cuda::driver driver;
  std::optional<cuda::nccl_library> nccl;
  std::unique_ptr<cuda_backend> backend;
};

/// What a program wants of the machine.
struct place_wish {
  std::size_t memory = 0;    ///< largest use of each device's memory in bytes; 0: all
  int stand_in_devices = 2;  ///< devices of the stand-in
  /// Runs the kernels of the stand-in; null: the sources of the demo and of the library.
  std::shared_ptr<stand_in::kernel_executor> executor;
};

/// Opens the GPUs of this machine. WEIR_GPU_STAND_IN=1 takes the stand-ins beside the
/// program instead. @error{not_found; there is no driver or no GPU} @error{unsupported;
/// the driver is too old}
[[nodiscard]] result<gpu_place> open_place(const place_wish& wish = {});
/// Returns true if the stand-ins are wanted instead of a GPU.
[[nodiscard]] bool wants_stand_in();
/// Returns the texts of the PTX in a folder beside the program.
[[nodiscard]] std::vector<std::string> ptx_texts(const std::string& folder = "ptx");
/// Makes a module of kernels from a PTX text. Parameters have the sizes in bytes that
/// `sizes` lists. A persistent kernel takes the facts about its launch behind them.
[[nodiscard]] result<byte_vector> module_of(const std::string& ptx,
                                            const std::string& kernel,
                                            const std::vector<std::size_t>& sizes,
                                            bool persistent = false);

}  // namespace weir::tessera::gpu
