// SPDX-License-Identifier: Apache-2.0
/// @file
/// Communicators over the stand-ins, with memory on every device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/collectives/nccl_clique.hpp"
#include "runtime/collective/plans.hpp"
#include "tessera/cuda/stand_in/stand_in.hpp"

namespace weir::tessera::stand_in {

using collective::collective_call;
using collective::collective_kind;
using collective::reduction_op;
using oracle_bytes = collective::test::bytes;

/// Returns a machine with `devices` devices, on which communicators become ready late and
/// operations begin late.
[[nodiscard]] machine late_machine(int devices);
/// Returns what broke rules since the last call, in words.
[[nodiscard]] std::string broken_rules();

/// Memory of one device for the buffers of a rank, allocated by the driver.
class device_buffers {
 public:
  /// Makes two buffers of `bytes` on a device.
  device_buffers(const cuda::driver_api& api, int device, std::size_t bytes);
  ~device_buffers();
  device_buffers(const device_buffers&) = delete;
  device_buffers& operator=(const device_buffers&) = delete;

  /// Addresses of the buffers. Memory of the stand-in is memory of this process.
  std::byte* input = nullptr;
  std::byte* output = nullptr;

 private:
  const cuda::driver_api& api_;
  int device_;
  cuda::context_handle context_ = nullptr;
  cuda::stream_handle stream_ = nullptr;
  cuda::pool_handle pool_ = nullptr;
};

/// A clique over a machine of the stand-in.
class clique_rig {
 public:
  /// Loads the libraries and sets the machine up.
  explicit clique_rig(const machine& shown);

  /// Opens communicators for all devices.
  [[nodiscard]] result<std::unique_ptr<cuda::nccl_clique>> open(
      std::int64_t limit_ns = 5'000'000'000) const;
  /// Runs a collective to its end.
  [[nodiscard]] static result<void> run(cuda::nccl_clique& clique,
                                        const cuda::clique_work& work);
  /// Makes buffers of `bytes` for every rank.
  [[nodiscard]] std::vector<std::unique_ptr<device_buffers>> buffers(
      std::size_t bytes) const;

  cuda::nccl_library library;  ///< tests plant mistakes here
  cuda::driver driver;

 private:
  machine shown_;
};

}  // namespace weir::tessera::stand_in
