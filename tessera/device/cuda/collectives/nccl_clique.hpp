// SPDX-License-Identifier: Apache-2.0
/// @file
/// Communicators of NCCL for the GPUs of this process, one for each rank.
///
/// One thread makes all calls: it puts the calls of all ranks into one group, as NCCL
/// asks of a thread that serves several devices. The communicators do not block; the
/// thread asks for their state until a time limit has passed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/cuda/collectives/nccl_api.hpp"
#include "device/cuda/collectives/nccl_calls.hpp"
#include "device/cuda/driver_api.hpp"
#include "weir/collective/call.hpp"
#include "weir/tessera/device/backend.hpp"

namespace weir::tessera::cuda {

/// Options of a clique.
struct clique_options {
  /// Time for each of: making the communicators, posting a group, the end of a
  /// collective, finalizing, aborting. @units{nanoseconds; 0: no limit}
  std::int64_t limit_ns = 30'000'000'000;
  std::size_t max_flights = 16;  ///< collectives that are posted and have not ended
};

/// A collective of all ranks.
struct clique_work {
  collective::collective_call call;
  nccl_elements as;                   ///< see nccl_elements_of
  std::vector<rank_buffers> buffers;  ///< one for each rank
};

class clique_state;

/// The communicators of all ranks. After a failure that leaves a communicator in an
/// unknown state, all of them are aborted, and every later collective ends with the first
/// error. @threads{safe from any thread}
class nccl_clique {
 public:
  /// Makes communicators: rank r on the device with the number `devices[r]`. The numbers
  /// are different, because NCCL refuses two ranks on one device.
  /// @error{timeout; the communicators did not become ready in time}
  /// @error{internal; NCCL refused a call} @error{device_lost; a device has failed}
  [[nodiscard]] static result<std::unique_ptr<nccl_clique>> open(
      const nccl_library& library, const driver_api& from,
      const std::vector<device_number>& devices, const clique_options& options);
  /// Ends what runs, and finalizes or aborts the communicators, within the time limit.
  /// The thread is left to itself if it does not come back from a call by then.
  ~nccl_clique();
  nccl_clique(const nccl_clique&) = delete;
  nccl_clique& operator=(const nccl_clique&) = delete;

  /// Posts a collective and returns at once. Collectives run in the order of the calls.
  /// `done` is called exactly once and must not wait for the clique's thread, which calls
  /// it. This call itself calls it if the work is refused, and the destructor calls it if
  /// the thread does not answer.
  /// Errors: those of `open`, and `rank_lost` for a remote error.
  void submit(clique_work work, completion done);
  /// Returns the error with which the communicators were aborted, if they were.
  [[nodiscard]] std::optional<error> broken() const;

 private:
  explicit nccl_clique(std::shared_ptr<clique_state> state);
  std::shared_ptr<clique_state> state_;
};

}  // namespace weir::tessera::cuda
