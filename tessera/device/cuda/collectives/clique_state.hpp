// SPDX-License-Identifier: Apache-2.0
/// @file
/// The state that a clique shares with its thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "device/cuda/collectives/nccl_clique.hpp"

namespace weir::tessera::cuda {

using clique_clock = std::chrono::steady_clock;

/// Everything about the ranks of a clique.
///
/// A collective passes through three lists: `inbox_` (posted by a caller), the streams
/// of the ranks with an entry in `flights_`, and nothing (ended). Its completion is in
/// `pending_` all the time.
class clique_state : public std::enable_shared_from_this<clique_state> {
 public:
  clique_state(const nccl_library& library, const driver_api& from,
               const std::vector<device_number>& devices, const clique_options& options)
      : library_(library), driver_(from), options_(options), ranks_(devices.size()) {
    for (std::size_t r = 0; r < devices.size(); ++r) {
      ranks_[r].device = devices[r];
    }
  }

  [[nodiscard]] result<void> start();
  void submit(clique_work work, completion done);
  void close();
  [[nodiscard]] std::optional<error> broken() const {
    const std::lock_guard lock(mutex_);
    return broken_;
  }

 private:
  // One rank, which is one GPU.
  struct rank_state {
    device_number device = 0;
    context_handle context = nullptr;
    stream_handle stream = nullptr;
    nccl_communicator communicator = nullptr;
    std::vector<event_handle> events;  ///< events that are not in use
  };
  /// A collective that was posted.
  ///
  /// One event per rank tells when its part has ended.
  struct flight {
    std::uint64_t number = 0;
    std::vector<event_handle> events;
  };
  /// The context of a rank is current while this object lives.
  class current_context {
   public:
    current_context(const driver_api& api, const rank_state& rank)
        : api_(api), outcome_(api.context_push(rank.context)) {}
    ~current_context() {
      context_handle popped = nullptr;
      if (outcome_ == status::success) {
        (void)api_.context_pop(&popped);
      }
    }
    current_context(const current_context&) = delete;
    current_context& operator=(const current_context&) = delete;
    [[nodiscard]] status outcome() const noexcept { return outcome_; }

   private:
    const driver_api& api_;
    status outcome_;
  };

  void serve();
  [[nodiscard]] result<void> open_here();
  [[nodiscard]] result<void> open_rank(rank_state& rank);
  [[nodiscard]] result<void> make_communicators();
  void close_here();
  [[nodiscard]] result<void> wait_until_ready(const char* action);
  [[nodiscard]] result<bool> ready(const char* action);
  [[nodiscard]] result<void> post(const clique_work& work, flight& made);
  [[nodiscard]] result<void> record(flight& made);
  [[nodiscard]] result<bool> over(flight& f);
  void poll_flights();
  void give_back(flight& f);
  void break_all(error why);
  [[nodiscard]] bool abort_all();
  void await_streams();
  void finish(std::uint64_t number, result<void> outcome);
  [[nodiscard]] bool passed(clique_clock::time_point since) const {
    return options_.limit_ns > 0 &&
           clique_clock::now() - since > std::chrono::nanoseconds(options_.limit_ns);
  }
  [[nodiscard]] error late(const char* action) const {
    return {errc::timeout, fmt::format("cannot {}: expected the end within {} ms, found "
                                       "the communicators still at work",
                                       action, options_.limit_ns / 1'000'000)};
  }
  // Short sleeps at first, since most operations are short.
  static void rest(unsigned step) {
    std::this_thread::sleep_for(std::chrono::microseconds(step < 64 ? 10 : 200));
  }

  nccl_library library_;
  driver_api driver_;
  clique_options options_;

  mutable std::mutex mutex_;  ///< guards the members up to the next comment
  std::condition_variable changed_;
  std::deque<std::pair<std::uint64_t, clique_work>> inbox_;
  std::map<std::uint64_t, completion> pending_;  ///< what has not ended, by its number
  std::uint64_t next_ = 1;
  std::optional<result<void>> opened_;
  std::optional<error> broken_;
  bool stopping_ = false;
  bool ended_ = false;

  // Members of the thread alone.
  std::vector<rank_state> ranks_;
  std::thread aborting_;  ///< calls ncclCommAbort; joined before anything is given back
  std::deque<flight> flights_;
  clique_clock::time_point
      front_since_;  ///< when the first flight began to be waited for
};

}  // namespace weir::tessera::cuda
