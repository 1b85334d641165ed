// SPDX-License-Identifier: Apache-2.0
/// @file
/// Collectives as copies between devices and launches of reduction kernels.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "device/cuda/collectives/nccl_calls.hpp"
#include "weir/collective/call.hpp"
#include "weir/tessera/device/backend.hpp"

namespace weir::tessera::cuda {

/// Everything that a collective needs to be planned.
struct peer_request {
  collective::collective_call call;
  std::vector<rank_buffers> buffers;  ///< one for each rank
  std::vector<std::int32_t> devices;  ///< one for each rank
  kernel_code tree;                   ///< weir_reduce_tree
  kernel_code exact;                  ///< weir_sum_exact
};

/// The arguments of the reduction kernels.
struct reduction_arguments {
  std::uint64_t inputs = 0;
  std::int32_t ranks = 0;
  std::int32_t padding = 0;
  std::uint64_t out = 0;
  std::int64_t count = 0;
  std::int32_t type = 0;
  std::int32_t operation = 0;
};

/// A collective on its way. The work of one phase begins when all of the phase before has
/// ended. Scratch memory is freed before `done` is called.
class peer_run : public std::enable_shared_from_this<peer_run> {
 public:
  /// Plans a collective and allocates its scratch memory.
  /// @error{out_of_memory; a device has not enough}
  [[nodiscard]] static result<std::shared_ptr<peer_run>> plan(device_backend& backend,
                                                              peer_request request);
  ~peer_run();
  peer_run(const peer_run&) = delete;
  peer_run& operator=(const peer_run&) = delete;

  /// Starts the first phase. `done` is called exactly once.
  void start(completion done);

 private:
  struct scratch {
    std::int32_t device = 0;
    std::byte* address = nullptr;
  };
  /// A range of elements, and the rank that reduces it.
  struct piece {
    std::size_t owner = 0;
    std::size_t first = 0;    ///< byte in the inputs
    std::size_t bytes = 0;    ///< size
    std::byte* to = nullptr;  ///< where the result goes on the owner
  };

  peer_run(device_backend& backend, peer_request request)
      : backend_(backend), request_(std::move(request)) {}
  [[nodiscard]] result<void> plan_moves();
  [[nodiscard]] result<void> plan_exchange_in_place();
  [[nodiscard]] result<void> plan_reduction();
  [[nodiscard]] std::vector<piece> pieces() const;
  [[nodiscard]] result<void> reduce_piece(const piece& p);
  [[nodiscard]] result<std::byte*> allocate(std::size_t rank, std::size_t bytes);
  void copy(std::size_t phase, std::size_t to_rank, std::byte* to, std::size_t from_rank,
            const std::byte* from, std::size_t bytes);
  void run_phase();
  void free_scratch();
  void part_ended(result<void> outcome);

  device_backend& backend_;
  peer_request request_;
  std::vector<scratch> scratch_;
  std::vector<std::vector<device_work>> phases_;
  std::deque<std::vector<std::uint64_t>> tables_;  ///< addresses of inputs, to be copied
  std::deque<reduction_arguments> arguments_;
  completion done_;
  std::mutex mutex_;  ///< guards the members below
  std::size_t phase_ = 0;
  std::size_t left_ = 0;  ///< parts of the phase that have not ended
  std::optional<error> failure_;
};

}  // namespace weir::tessera::cuda
