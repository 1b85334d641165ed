// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Conductor without actors: makes pulses, commits them in order, and knows when to
/// checkpoint and when to end.
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

/// When to save. At most one save is in flight; what falls due meanwhile coalesces into
/// one.
/// @threads{thread-compatible}
class save_gate {
 public:
  explicit save_gate(std::uint64_t every_tokens) : every_(every_tokens) {}
  /// A pulse takes the run from `before` to `after` tokens. True: snapshot behind it, a
  /// save begins.
  [[nodiscard]] bool pass(std::uint64_t before, std::uint64_t after) noexcept;
  /// A save that need not fall due. @invariant none is in flight
  void begin() noexcept { busy_ = true; }
  /// The save has ended, in whatever way.
  void save_ended() noexcept { busy_ = false; }
  [[nodiscard]] bool busy() const noexcept { return busy_; }

 private:
  std::uint64_t every_;
  bool due_ = false;
  bool busy_ = false;
};

/// What observers see of a pulse, strictly before the counter moves on. Values, so
/// nothing moves beneath them.
struct pulse_view {
  const models::pulse& pulse;
  const models::pulse_result& result;
  std::uint64_t tokens;  ///< of all lanes
};

/// A boundary to be saved: all of it as of one commit.
struct boundary {
  std::uint64_t pulses = 0;  ///< completed before it
  std::uint64_t tokens = 0;
  std::vector<storage::chunk_mark>
      marks;  ///< last committed chunk of each lane that had one
  byte_vector conductor;
  byte_vector metrics;
};

/// Pulses to be submitted together.
struct issued_pulses {
  pulse_orders orders;          ///< at least one
  bool snapshot_after = false;  ///< behind the last
};

/// @threads{thread-compatible}
/// @source{Context Stream, "Integration with Conductor"; context_stream.md, 1.4}
class conductor_state {
 public:
  struct settings {
    std::vector<std::uint64_t> frequencies;
    std::uint32_t lanes = 1;
    std::uint64_t chunk = 64;
    std::uint64_t prefetch =
        16;                  ///< pulses whose chunks are prepared ahead; 0: on demand
    std::size_t window = 6;  ///< pulses given to the orchestrator and not committed
    std::size_t batch = 1;   ///< most pulses that go there together; at most `window`
    storage::boundary_policy boundary = storage::boundary_policy::never;
    phase_budgets budgets;
    std::uint64_t every_tokens = 0;
    std::uint64_t curve_window = 0;  ///< Build tokens per point of the curve; 0: no curve
  };
  using observer = std::function<void(const pulse_view&)>;

  conductor_state(settings s, conductor_record record, run_accounts accounts);

  /// Called with every committed pulse before the Conductor advances.
  void observe(observer o) { observers_.push_back(std::move(o)); }

  /// Chunks to order now. Nothing once draining.
  [[nodiscard]] chunk_orders take_orders();
  [[nodiscard]] result<void> arrived(chunk_reply reply) {
    return plan_.resolve(std::move(reply));
  }
  /// The next pulses if their chunks are there and the window has room for a whole batch:
  /// captured once, never changed. Fewer where chunks are missing or a snapshot follows.
  [[nodiscard]] std::optional<issued_pulses> take_pulses(std::int64_t now_ns);
  /// Commits the oldest pulse: observers, then cursor and context together, then the
  /// counter.
  /// @error{internal, another pulse than the oldest; commits are in order}
  [[nodiscard]] result<void> commit(const pulse_done& done, std::int64_t now_ns);
  /// The boundary behind a committed pulse that was issued with `snapshot_after`; each
  /// once.
  [[nodiscard]] std::optional<boundary> take_boundary();
  /// The boundary behind the last committed pulse.
  [[nodiscard]] boundary boundary_now() const;

  /// No more pulses: those in flight are still to be committed.
  void drain() noexcept { draining_ = true; }
  [[nodiscard]] bool draining() const noexcept { return draining_; }
  /// Nothing is in flight, and nothing more will come.
  [[nodiscard]] bool at_rest();
  /// All budgets are met, or all lanes have ended.
  [[nodiscard]] bool exhausted() { return plan_.exhausted(); }
  [[nodiscard]] bool ended_early() const noexcept { return plan_.ended_early(); }

  [[nodiscard]] save_gate& gate() noexcept { return gate_; }
  [[nodiscard]] std::size_t in_flight() const noexcept { return flights_.size(); }
  [[nodiscard]] const conductor_record& record() const noexcept { return record_; }
  [[nodiscard]] run_accounts& accounts() noexcept { return accounts_; }
  [[nodiscard]] const run_accounts& accounts() const noexcept { return accounts_; }
  [[nodiscard]] const settings& config() const noexcept { return settings_; }
  /// Phase of the last committed pulse.
  [[nodiscard]] models::pulse_phase phase() const noexcept { return phase_; }

 private:
  struct flight {
    models::pulse pulse;
    std::uint64_t tokens = 0;
    std::uint64_t ends_of_text = 0;  ///< among the targets
    bool snapshot = false;
    std::vector<storage::chunk_mark> marks;
    std::vector<std::uint8_t> reset_due;  ///< after it
  };

  /// The next pulse, if its chunks are there.
  [[nodiscard]] std::optional<pulse_order> take_pulse(std::int64_t now_ns);
  void note_boundaries(const pulse_chunks& chunks, pulse_order& order);
  void count_scores(const flight& f, const models::pulse_result& r);
  void count_times(const flight& f, const pulse_done& done, std::int64_t now_ns);
  void close_window(std::uint64_t build_tokens);

  settings settings_;
  conductor_record record_;  ///< committed
  run_accounts accounts_;
  chunk_plan plan_;
  save_gate gate_;
  std::vector<observer> observers_;
  std::deque<flight> flights_;
  std::deque<boundary> boundaries_;
  std::vector<std::optional<storage::chunk_mark>> marks_;  ///< committed, by lane
  models::pulse_phase phase_ = models::pulse_phase::build;
  bool draining_ = false;
  // What has been issued, ahead of what is committed.
  std::uint64_t issued_pulses_ = 0;
  std::uint64_t issued_tokens_ = 0;
  std::uint64_t issued_updates_ = 0;
  std::vector<std::uint8_t> reset_due_;
  // Times of Build in this process.
  std::int64_t build_start_ns_ = 0;
  bool build_began_ = false;
  std::int64_t build_base_ns_ = 0, kernel_base_ns_ = 0, stall_base_ns_ = 0;
};

}  // namespace weir::actors
