// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Conductor actor: orders chunks, issues pulses, commits them, has checkpoints
/// written, and ends the run.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conductor/conductor_state.hpp"
#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

/// The end of a run.
struct conductor_end {
  std::optional<error> failure;  ///< if there is one, the rest is incomplete
  std::string ended;             ///< "finished", "interrupted" or "end of stream"
  conductor_record record;
  run_accounts accounts;
  std::shared_ptr<const state_snapshot> snapshot;        ///< state at the end
  std::shared_ptr<const storage::stream_cursor> cursor;  ///< cursor at the end
  std::uint64_t generation = 0;         ///< last durable checkpoint; 0 if there is none
  std::deque<trace_order::span> spans;  ///< times of writing the newest checkpoints
};

/// Configuration of a Conductor.
struct conductor_config {
  conductor_state::settings settings;
  conductor_record record;
  run_accounts accounts;
  std::vector<rank_actor> ranks;
  stream_hub_actor hub;
  orchestrator_actor orchestrator;
  checkpointer_actor checkpointer;
  observer_actor observer;
  std::chrono::seconds deadline{600};          ///< of pulses, chunks and saves
  std::chrono::seconds cursor_deadline{30};    ///< of cursors
  std::int64_t sample_every_ns = 100'000'000;  ///< least time between two samples
  save_order contents;                         ///< the fields that all checkpoints share
  std::uint64_t durable_generation =
      0;                            ///< checkpoint that is continued; 0 for a new run
  std::int64_t (*now)() = nullptr;  ///< clock; null means `weir::now_ns`
  std::function<void(conductor_end)> ended;  ///< called once, from the actor's thread
  /// Called from the actor's thread with a text for the user. May be empty.
  std::function<void(std::string)> warning;
};

/// The Conductor as CAF keeps it: the logic is in `conductor_state`, and this class sends
/// its requests and acts on the answers.
///
/// A checkpoint needs two things that arrive in any order: the boundary, when the pulse
/// before it is committed, and the snapshot from the orchestrator. When both are there,
/// the hub is asked for the cursor, and then the checkpointer writes.
class conductor_shell {
 public:
  static constexpr const char* name = "weir.conductor";
  using self_pointer = conductor_actor::stateful_pointer<conductor_shell>;

  /// Takes the configuration. Called once, before everything else.
  void start(self_pointer self, std::shared_ptr<conductor_config> config);
  /// Orders all chunks and issues all pulses that are possible now. If nothing is left,
  /// begins the last save, which ends the run.
  void pump();
  /// Issues no more pulses, and ends the run when those in flight are committed.
  void drain();
  /// Fails the run if no pulse and no chunk has arrived for the length of the deadline.
  /// Called every second, because a timer for each request would wake a thread for each
  /// request.
  void check_deadline();

 private:
  /// Largest size of `conductor_end::spans`. It is limited because a run may last for
  /// weeks; a trace shows about this number of spans.
  static constexpr std::size_t max_spans = 4096;

  template <class T, class Handle, class Deadline, class Then, class... As>
  void ask(const char* action, const Handle& receiver, Deadline deadline, Then then,
           As... as);
  template <class T, class Handle, class Then, class... As>
  void ask_without_timer(const char* action, const Handle& receiver, Then then, As... as);
  void order_chunks(const chunk_orders& orders);
  void on_chunks(const result<local<chunk_replies>>& replies);
  void issue(issued_pulses p);
  void on_pulses_done(const pulses_done& done);
  void on_snapshot(std::shared_ptr<const state_snapshot> snapshot);
  /// Saves if both boundary and snapshot are there.
  void save_if_complete();
  /// Asks for the cursor of a boundary and then writes the checkpoint. `last` marks the
  /// save that ends the run.
  void save(boundary b, std::shared_ptr<const state_snapshot> snapshot, bool last);
  void write(boundary b, std::shared_ptr<const state_snapshot> snapshot,
             storage::stream_cursor cursor, bool last);
  void on_saved(const save_done& done, bool last);
  void on_save_failed(const error& e, bool last);
  void begin_last_save();
  void finish();
  void fail(error e);
  /// Sends a sample to the observer, if `always` is true or the last one is old enough.
  void sample(bool always);

  self_pointer self_ = nullptr;
  std::shared_ptr<conductor_config> config_;
  std::unique_ptr<conductor_state> core_;
  std::optional<boundary> boundary_;                ///< waits for its snapshot
  std::shared_ptr<const state_snapshot> snapshot_;  ///< waits for its boundary
  conductor_end end_;                               ///< filled in the course of the run
  std::uint64_t durable_pulses_ = 0;  ///< pulses of the last durable checkpoint
  std::uint64_t durable_tokens_ = 0;  ///< tokens of the last durable checkpoint
  bool has_durable_ = false;          ///< whether there is a durable checkpoint
  std::uint64_t unanswered_ = 0;      ///< requests for pulses and chunks
  /// Time of the last answer to such a request, or of the first request if none was
  /// outstanding before it.
  std::int64_t last_answer_ns_ = 0;
  const char* last_request_ = "";  ///< what the last such request asked for
  bool launched_ = false;
  bool last_save_begun_ = false;
  bool ended_ = false;           ///< `config_->ended` was called
  nat_sum since_sample_;         ///< likelihood of the pulses since the last sample
  std::int64_t sampled_ns_ = 0;  ///< time of the last sample
};

/// Returns the behavior of a Conductor; CAF calls this when it spawns the actor.
conductor_actor::behavior_type conductor(conductor_shell::self_pointer self,
                                         conductor_config config);

}  // namespace weir::actors
