// SPDX-License-Identifier: Apache-2.0
/// @file
/// The logic of the collective actor, without actors.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stream/queue_operations.hpp"
#include "weir/actors/streams.hpp"
#include "weir/collective/rendezvous.hpp"

namespace weir::actors {

/// The collectives of one axis group.
///
/// A share is a rank's part of a collective. The n-th share of a rank meets the n-th
/// shares of the others. When all have joined and their calls and policies agree, each
/// share runs on a queue of its rank. Otherwise, or if a rank does not join before the
/// deadline, no share of that meeting runs, and every rank gets an error.
/// @threads{thread-compatible; `ended` is called by workers of the engine}
class collective_state {
 public:
  /// Number of a share, by which its answer is recognised.
  using ticket = std::uint64_t;
  /// The answer to a share.
  struct answer {
    ticket asked = 0;               ///< ticket of the share
    result<std::uint64_t> outcome;  ///< number of the collective in its group
  };

  /// Makes queues for all ranks of a group. Workers call `ended` when shares have ended
  /// and `take_answers` may return new answers. `ended` must neither block nor throw.
  /// @error{invalid_argument, there is no mesh, or the mesh has no such member}
  [[nodiscard]] static result<std::unique_ptr<collective_state>> make(
      collective_spec spec, std::function<void()> ended);
  /// Drops shares that wait for other ranks. Shares that have begun still run.
  ~collective_state();
  collective_state(const collective_state&) = delete;
  collective_state& operator=(const collective_state&) = delete;

  /// Joins with the share of a rank. Also returns the errors of
  /// `tessera::make_collective`. A share that is refused does not count.
  /// @error{invalid_argument, the rank is not in the group}
  [[nodiscard]] result<ticket> join(const join_order& order, std::int64_t now_ns);
  /// Returns the answers to shares that have ended, failed, or passed their deadline
  /// since the last call.
  [[nodiscard]] std::vector<answer> take_answers(std::int64_t now_ns);
  /// Returns the earliest deadline; the largest number if no share waits for an answer.
  [[nodiscard]] std::int64_t next_deadline() const noexcept;
  /// Returns one line about the shares that run and that wait.
  [[nodiscard]] std::string describe() const;

 private:
  struct share {
    join_order order;
    std::size_t place = 0;       ///< index of the rank in the group
    std::uint64_t sequence = 0;  ///< number of the collective in the group
    tessera::ref<tessera::operation> operation;  ///< null if there is nothing to do
    tessera::ref<synchronize_operation> end;     ///< null until the share runs
    std::int64_t deadline_ns = 0;                ///< deadline of its end, once it runs
  };
  /// A meeting that failed. It is kept until every rank has been answered.
  struct failed_meeting {
    error reason;
    std::size_t unanswered = 0;  ///< ranks that have not been answered
  };
  collective_state(collective_spec spec, std::function<void()> ended)
      : spec_(std::move(spec)),
        ended_call_(std::move(ended)),
        meetings_(spec_.deadline_ns) {}
  void decide(const collective::meeting_outcome& outcome, std::int64_t now_ns);
  void begin(share& s, std::int64_t now_ns);
  /// Returns the error for the ranks of a meeting that does not run.
  [[nodiscard]] error failure_of(const collective::meeting_outcome& outcome) const;
  [[nodiscard]] std::string difference(const std::vector<ticket>& tickets) const;
  [[nodiscard]] std::string missing(const std::vector<ticket>& tickets) const;
  [[nodiscard]] error refusal(errc code, std::string expected_found) const;
  [[nodiscard]] result<std::uint64_t> outcome_of(const share& s) const;

  collective_spec spec_;
  std::function<void()> ended_call_;
  collective::rendezvous meetings_;
  std::vector<int> ranks_;                                ///< ranks of the group
  std::vector<std::shared_ptr<tessera::stream>> queues_;  ///< by rank of the group
  std::map<ticket, share> shares_;                        ///< those without an answer
  std::map<std::uint64_t, failed_meeting> failures_;      ///< by sequence
  std::vector<answer> answers_;                           ///< not taken yet
  ticket tickets_ = 0;                                    ///< last ticket
};

}  // namespace weir::actors
