// SPDX-License-Identifier: Apache-2.0
/// @file
/// The logic of the Conductor, without actors: it makes pulses, commits them in order,
/// and decides when to write checkpoints and when to end.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "conductor/accounts.hpp"
#include "conductor/chunk_plan.hpp"
#include "weir/actors/orders.hpp"

namespace weir::actors {

/// Decides when a checkpoint is written. At most one save is in flight; all saves that
/// fall due in the meantime become one.
/// @threads{thread-compatible}
class save_gate {
 public:
  /// Makes a save due every `every_tokens` tokens; 0 means never.
  explicit save_gate(std::uint64_t every_tokens) : every_(every_tokens) {}
  /// Notes that a pulse takes the run from `before` to `after` tokens. Returns true if a
  /// save begins behind this pulse, which then needs a snapshot.
  [[nodiscard]] bool pass(std::uint64_t before, std::uint64_t after) noexcept;
  /// Begins a save although none is due. None may be in flight.
  void begin() noexcept { busy_ = true; }
  /// Notes that the save in flight has ended, with success or not.
  void save_ended() noexcept { busy_ = false; }
  /// Returns whether a save is in flight.
  [[nodiscard]] bool busy() const noexcept { return busy_; }

 private:
  std::uint64_t every_;
  bool due_ = false;   ///< a save fell due and has not begun
  bool busy_ = false;  ///< a save is in flight
};

/// A committed pulse, as observers see it before the counters advance.
struct pulse_view {
  const models::pulse& pulse;
  const models::pulse_result& result;
  std::uint64_t tokens;  ///< number of tokens of all lanes
};

/// A boundary between two pulses that is to be saved. All fields are as of one commit.
struct boundary {
  std::uint64_t pulses = 0;  ///< number of pulses committed before it
  std::uint64_t tokens = 0;  ///< number of tokens consumed before it
  /// Last committed chunk of each lane that has had one.
  std::vector<storage::chunk_mark> marks;
  byte_vector conductor;  ///< an encoded `conductor_record`
  byte_vector metrics;    ///< encoded `run_accounts`
};

/// Pulses that are submitted together.
struct issued_pulses {
  pulse_orders orders;          ///< at least one
  bool snapshot_after = false;  ///< a snapshot is due behind the last one
};

/// The progress of a run.
///
/// Three counters follow each other: chunks are ordered ahead of pulses that are issued,
/// and those are issued ahead of pulses that are committed. A pulse is issued when its
/// chunks are there, and committed when the engine has ended it. Everything that is saved
/// is as of the last commit.
/// @threads{thread-compatible}
/// @source{Context Stream, "Integration with Conductor"; context_stream.md, 1.4}
class conductor_state {
 public:
  struct settings {
    std::vector<std::uint64_t> frequencies;  ///< of the model's levels
    std::uint32_t lanes = 1;
    std::uint64_t chunk = 64;  ///< tokens of a full chunk
    /// Number of pulses whose chunks are prepared ahead. 0: chunks are ordered when the
    /// engine could take them at once.
    std::uint64_t prefetch = 16;
    std::size_t window = 6;  ///< largest number of pulses issued and not committed
    std::size_t batch = 1;   ///< largest number issued together; at most `window`
    /// Policy by which the context of a lane is emptied at boundaries of documents.
    storage::boundary_policy boundary = storage::boundary_policy::never;
    phase_budgets budgets;
    std::uint64_t every_tokens = 0;  ///< tokens between two checkpoints; 0: only the last
    std::uint64_t curve_window = 0;  ///< Build tokens per point of the curve; 0: no curve
  };
  using observer = std::function<void(const pulse_view&)>;

  /// Continues a run behind its record; a new run has an empty one.
  conductor_state(settings s, conductor_record record, run_accounts accounts);

  /// Adds an observer, which is called with every committed pulse before counters
  /// advance.
  void observe(observer o) { observers_.push_back(std::move(o)); }

  /// Returns the chunks to order now; none after `drain`.
  [[nodiscard]] chunk_orders take_orders();
  /// Takes the answer to an order.
  /// @error{internal, as `chunk_plan::resolve`}
  [[nodiscard]] result<void> arrived(chunk_reply reply) {
    return plan_.resolve(std::move(reply));
  }
  /// Issues the next pulses, if their chunks are there and the window has space for a
  /// whole batch. There are fewer than a batch if chunks are missing or a snapshot is due
  /// behind one of them.
  [[nodiscard]] std::optional<issued_pulses> take_pulses(std::int64_t now_ns);
  /// Commits the oldest issued pulse: the observers see it, then cursor and context
  /// advance together, and then the counters do.
  /// @error{internal, the pulse is not the oldest one}
  [[nodiscard]] result<void> commit(const pulse_done& done, std::int64_t now_ns);
  /// Returns the boundary behind a committed pulse that was issued with `snapshot_after`.
  /// Each boundary is returned once.
  [[nodiscard]] std::optional<boundary> take_boundary();
  /// Returns the boundary behind the last committed pulse.
  [[nodiscard]] boundary boundary_now() const;

  /// Issues no more pulses. Those in flight are still committed.
  void drain() noexcept { draining_ = true; }
  /// Returns whether `drain` was called.
  [[nodiscard]] bool draining() const noexcept { return draining_; }
  /// Returns whether no pulse is in flight and none will be issued any more.
  [[nodiscard]] bool at_rest();
  /// Returns whether the budgets are used up or all lanes have ended.
  [[nodiscard]] bool exhausted() { return plan_.exhausted(); }
  /// Returns whether all lanes have ended before the budgets were used up.
  [[nodiscard]] bool ended_early() const noexcept { return plan_.ended_early(); }

  [[nodiscard]] save_gate& gate() noexcept { return gate_; }
  /// Returns the number of pulses that are issued and not committed.
  [[nodiscard]] std::size_t in_flight() const noexcept {
    return pulses_in_flight_.size();
  }
  [[nodiscard]] const conductor_record& record() const noexcept { return record_; }
  [[nodiscard]] run_accounts& accounts() noexcept { return accounts_; }
  [[nodiscard]] const run_accounts& accounts() const noexcept { return accounts_; }
  [[nodiscard]] const settings& config() const noexcept { return settings_; }
  /// Returns the phase of the last committed pulse.
  [[nodiscard]] models::pulse_phase phase() const noexcept { return phase_; }

 private:
  /// A pulse that is issued and not committed.
  struct pulse_in_flight {
    models::pulse pulse;
    std::uint64_t tokens = 0;                ///< of all lanes
    std::uint64_t ends_of_text = 0;          ///< end-of-text tokens among the targets
    bool snapshot = false;                   ///< a snapshot is due behind it
    std::vector<storage::chunk_mark> marks;  ///< of its chunks
    std::vector<std::uint8_t> reset_due;     ///< `conductor_record::reset_due` after it
  };

  /// Issues the next pulse, if its chunks are there.
  [[nodiscard]] std::optional<pulse_order> take_pulse(std::int64_t now_ns);
  void note_boundaries(const pulse_chunks& chunks, pulse_order& order);
  void count_scores(const pulse_in_flight& f, const models::pulse_result& r);
  void count_times(const pulse_in_flight& f, const pulse_done& done, std::int64_t now_ns);

  settings settings_;
  conductor_record record_;  ///< as of the last commit
  run_accounts accounts_;    ///< as of the last commit
  chunk_plan plan_;
  save_gate gate_;
  std::vector<observer> observers_;
  std::deque<pulse_in_flight> pulses_in_flight_;  ///< the oldest first
  std::deque<boundary> boundaries_;               ///< not taken yet
  /// Last committed chunk of each lane.
  std::vector<std::optional<storage::chunk_mark>> marks_;
  models::pulse_phase phase_ = models::pulse_phase::build;
  bool draining_ = false;
  // Counters as of the last issued pulse; those of `record_` follow with the commits.
  std::uint64_t issued_pulses_ = 0;
  std::uint64_t issued_tokens_ = 0;
  std::uint64_t issued_updates_ = 0;
  std::vector<std::uint8_t> reset_due_;
  // Times of the Build phase: when it began in this process, and sums before a resume.
  std::int64_t build_start_ns_ = 0;
  bool build_began_ = false;
  std::int64_t build_base_ns_ = 0, kernel_base_ns_ = 0, stall_base_ns_ = 0;
};

}  // namespace weir::actors
