// SPDX-License-Identifier: Apache-2.0
/// @file
/// The collective actor without actors: shares that meet, run together, and end.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stream/landmarks.hpp"
#include "weir/actors/streams.hpp"
#include "weir/collective/rendezvous.hpp"

namespace weir::actors {

/// @threads{thread-compatible; what it hears of its shares comes from workers}
class collective_state {
 public:
  using ticket = std::uint64_t;
  struct answer {
    ticket asked = 0;
    result<std::uint64_t> outcome;  ///< number of the collective in its group
  };

  /// `ended` is called by workers when it is worth to look for answers; it neither blocks
  /// nor throws. @error{invalid_argument, no mesh or no such member}
  [[nodiscard]] static result<std::unique_ptr<collective_state>> make(
      collective_spec spec, std::function<void()> ended);
  /// Shares that have met still run; the others are dropped.
  ~collective_state();
  collective_state(const collective_state&) = delete;
  collective_state& operator=(const collective_state&) = delete;

  /// A rank has come with its share. @error{invalid_argument, a rank outside the group;
  /// as of tessera::make_collective: the share does not count then}
  [[nodiscard]] result<ticket> join(const join_order& order, std::int64_t now_ns);
  /// Who is to be told what since the last call.
  [[nodiscard]] std::vector<answer> take_answers(std::int64_t now_ns);
  /// When somebody's time is over next; the largest number if nobody waits.
  [[nodiscard]] std::int64_t next_deadline() const noexcept;
  [[nodiscard]] std::string describe() const;

 private:
  struct share {
    join_order order;
    std::size_t place = 0;  ///< in the group
    std::uint64_t sequence = 0;
    tessera::ref<tessera::operation> what;  ///< null: nothing to do
    tessera::ref<settling> end;             ///< null: it has not begun
    std::int64_t deadline_ns = 0;           ///< once it has
  };
  /// Why a meeting came to nothing, until every rank has heard it.
  struct verdict {
    error why;
    std::size_t to_hear = 0;
  };
  collective_state(collective_spec spec, std::function<void()> ended)
      : spec_(std::move(spec)),
        ended_call_(std::move(ended)),
        meetings_(spec_.deadline_ns) {}
  void decide(const collective::meeting_outcome& what, std::int64_t now_ns);
  void begin(share& s, std::int64_t now_ns);
  [[nodiscard]] error why(const collective::meeting_outcome& what) const;
  [[nodiscard]] std::string difference(const std::vector<ticket>& tickets) const;
  [[nodiscard]] std::string missing(const std::vector<ticket>& tickets) const;
  [[nodiscard]] error refusal(errc code, std::string expected_found) const;
  [[nodiscard]] result<std::uint64_t> outcome_of(const share& s) const;

  collective_spec spec_;
  std::function<void()> ended_call_;
  collective::rendezvous meetings_;
  std::vector<int> ranks_;                                ///< of the group
  std::vector<std::shared_ptr<tessera::stream>> queues_;  ///< one for each of them
  std::map<ticket, share> shares_;
  std::map<std::uint64_t, verdict> verdicts_;  ///< by sequence
  std::vector<answer> answers_;
  ticket tickets_ = 0;
};

}  // namespace weir::actors
