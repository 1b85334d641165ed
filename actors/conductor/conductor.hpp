// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Conductor actor: orders chunks, issues pulses, commits them, saves boundaries,
/// ends the run.
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

/// How a run ended, or why it failed.
struct conductor_end {
  std::optional<error> failure;
  std::string ended;
  conductor_record record;
  run_accounts accounts;
  std::shared_ptr<const state_snapshot> snapshot;        ///< of the last boundary
  std::shared_ptr<const storage::stream_cursor> cursor;  ///< of the last boundary
  std::uint64_t generation = 0;                          ///< last durable checkpoint
  std::deque<trace_order::span> spans;                   ///< newest checkpoints
};

struct conductor_config {
  conductor_state::settings settings;
  conductor_record record;
  run_accounts accounts;
  std::vector<rank_actor> ranks;
  stream_hub_actor hub;
  orchestrator_actor orchestrator;
  checkpointer_actor checkpointer;
  observer_actor observer;
  std::chrono::seconds deadline{600};        ///< of pulses, chunks and saves
  std::chrono::seconds cursor_deadline{30};  ///< of cursors
  std::int64_t sample_every_ns = 100'000'000;
  save_order contents;                   ///< what every checkpoint has in common
  std::uint64_t durable_generation = 0;  ///< of the checkpoint that is continued
  std::int64_t (*now)() = nullptr;
  std::function<void(conductor_end)> ended;  ///< called once, from the actor's thread
  std::function<void(std::string)> warning;  ///< called from the actor's thread
};

class conductor_shell {
 public:
  static constexpr const char* name = "weir.conductor";
  using self_pointer = conductor_actor::stateful_pointer<conductor_shell>;

  void start(self_pointer self, std::shared_ptr<conductor_config> config);
  /// Orders and issues whatever can be; ends the run when nothing is left.
  void pump();
  void drain();
  /// The deadline of pulses and chunks, looked after here: a timer for each would wake a
  /// thread for each.
  void check_deadline();

 private:
  /// A run may last for weeks; the trace has room for about as many.
  static constexpr std::size_t max_spans = 4096;

  template <class T, class Handle, class Deadline, class Then, class... As>
  void ask(const char* what, const Handle& to, Deadline deadline, Then then, As... as);
  template <class T, class Handle, class Then, class... As>
  void ask_without_timer(const char* what, const Handle& to, Then then, As... as);
  void order_chunks(const chunk_orders& orders);
  void on_chunks(const result<local<chunk_replies>>& replies);
  void issue(issued_pulses p);
  void on_pulses_done(const pulses_done& done);
  void on_snapshot(std::shared_ptr<const state_snapshot> snapshot);
  void save_if_complete();
  void save(boundary b, std::shared_ptr<const state_snapshot> snapshot, bool last);
  void write(boundary b, std::shared_ptr<const state_snapshot> snapshot,
             storage::stream_cursor cursor, bool last);
  void on_saved(const save_done& done, bool last);
  void on_save_failed(const error& e, bool last);
  void begin_last_save();
  void finish();
  void fail(error e);
  void sample(bool always);

  self_pointer self_ = nullptr;
  std::shared_ptr<conductor_config> config_;
  std::unique_ptr<conductor_state> core_;
  std::optional<boundary> boundary_;                ///< committed, waits for its snapshot
  std::shared_ptr<const state_snapshot> snapshot_;  ///< arrived, waits for its boundary
  conductor_end end_;
  std::uint64_t durable_pulses_ = 0;
  std::uint64_t durable_tokens_ = 0;
  bool has_durable_ = false;
  std::uint64_t unanswered_ = 0;  ///< pulses and chunks asked for
  /// When the last of them was answered, or the first of those that wait asked for.
  std::int64_t last_answer_ns_ = 0;
  const char* last_request_ = "";  ///< what was asked for last
  bool launched_ = false;
  bool last_save_begun_ = false;
  bool ended_ = false;
  nat_sum since_sample_;
  std::int64_t sampled_ns_ = 0;
};

conductor_actor::behavior_type conductor(conductor_shell::self_pointer self,
                                         conductor_config config);

}  // namespace weir::actors
