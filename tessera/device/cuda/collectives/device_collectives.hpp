// SPDX-License-Identifier: Apache-2.0
/// @file
/// Collectives over GPUs of this process. NCCL runs those of level 0; copies between
/// devices and the kernels of `kernels/reductions.cu` run all others.
///
/// The second way has the bits of the processor's collectives, and needs no NCCL. It also
/// serves two ranks on one GPU, which NCCL refuses, and what NCCL does not have: int16,
/// averages of integers, products of complex numbers, an all_to_all in place.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/cuda.hpp"
#include "device/cuda/collectives/nccl_clique.hpp"

namespace weir::tessera::cuda {

/// What one rank asks for.
struct rank_call {
  collective::collective_call call;
  rank_buffers buffers;
};

/// Options of collectives.
struct collective_options {
  const nccl_library* nccl = nullptr;  ///< NCCL; null: it is not used
  const driver* from = nullptr;        ///< the driver; needed if `nccl` is set
  clique_options clique;               ///< options of its communicators
};

/// Collectives of a group of ranks, each on a device of a backend, which outlives this
/// object. @threads{safe from any thread}
class device_collectives {
 public:
  /// Loads the kernels and, if NCCL is given and no two ranks share a device, makes
  /// communicators. `devices[r]` is the device of rank r.
  /// @error{out_of_range; no such device} @error{timeout; see nccl_clique::open}
  [[nodiscard]] static result<std::unique_ptr<device_collectives>> open(
      cuda_backend& backend, std::vector<std::int32_t> devices,
      const collective_options& options = {});
  /// Waits for what runs.
  ~device_collectives();
  device_collectives(const device_collectives&) = delete;
  device_collectives& operator=(const device_collectives&) = delete;

  /// Starts a collective, of which `calls` has one call for each rank, and returns; it
  /// waits for the allocation of scratch memory alone. `done` is called exactly once and
  /// must not wait for a device: by a thread of a device or of NCCL, or by this call if
  /// nothing was started. Work that has to come before or after the collective is ordered
  /// by the caller, as for device_backend::submit.
  /// Errors: `collective_mismatch` if calls differ, and `determinism_violation` if their
  /// levels do, before anything is started;
  /// `invalid_argument` and `unsupported`, see collective::check_call; and those of
  /// nccl_clique::submit and device_backend::submit.
  void submit(std::span<const rank_call> calls, completion done);

  /// Returns true if NCCL runs this call.
  [[nodiscard]] bool uses_nccl(const collective::collective_call& call,
                               const std::vector<rank_buffers>& buffers) const noexcept;

 private:
  device_collectives(cuda_backend& backend, std::vector<std::int32_t> devices)
      : backend_(backend), devices_(std::move(devices)) {}
  [[nodiscard]] result<void> load_kernels();
  [[nodiscard]] result<void> open_clique(const collective_options& options);
  [[nodiscard]] result<void> check(std::span<const rank_call> calls) const;

  cuda_backend& backend_;
  std::vector<std::int32_t> devices_;
  std::unique_ptr<cuda_module> module_;
  kernel_code tree_;   ///< weir_reduce_tree
  kernel_code exact_;  ///< weir_sum_exact
  std::unique_ptr<nccl_clique> clique_;
  int version_ = 0;     ///< of NCCL
  int capability_ = 0;  ///< lowest of the devices
  std::mutex mutex_;    ///< guards `running_`
  std::condition_variable ended_;
  std::size_t running_ = 0;  ///< collectives that have not ended
};

/// Returns the PTX of the reductions over ranks, as the repository has it.
[[nodiscard]] std::string_view reduction_code() noexcept;

}  // namespace weir::tessera::cuda
