// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handlers of the Conductor's messages: requests to the other actors of a run, and
/// what follows from their answers.
#include "conductor/conductor.hpp"

#include <fmt/core.h>

#include <utility>

#include "weir/base/clock.hpp"

namespace weir::actors {

void conductor_shell::start(self_pointer self, std::shared_ptr<conductor_config> config) {
  self_ = self;
  config_ = std::move(config);
  if (config_->now == nullptr) {
    config_->now = &now_ns;
  }
  has_durable_ = config_->durable_generation != 0;
  end_.generation = config_->durable_generation;
  durable_pulses_ = config_->record.pulses;
  durable_tokens_ = config_->record.tokens;
  core_ = std::make_unique<conductor_state>(config_->settings, config_->record,
                                            config_->accounts);
  core_->observe([this](const pulse_view& view) {
    since_sample_.add(view.result.nats_q32, view.result.scored);
  });
}

/// Does everything that is possible now: orders chunks and issues pulses until neither
/// goes on. When all pulses are committed and no checkpoint is being written, the last
/// save begins. Every event that may make progress possible ends with a call of this
/// function.
void conductor_shell::pump() {
  if (ended_) {
    return;
  }
  launched_ = true;
  bool moved = true;
  while (moved) {
    const chunk_orders orders = core_->take_orders();
    order_chunks(orders);
    moved = !orders.empty();
    while (auto p = core_->take_pulses(config_->now())) {
      issue(std::move(*p));
      moved = true;
    }
  }
  if (!last_save_begun_ && core_->at_rest() && !core_->gate().busy()) {
    begin_last_save();
  }
}

void conductor_shell::drain() {
  core_->drain();
  if (launched_) {
    pump();
  }
}

/// Sends a request. `then` gets the answer or the error. `action` says in errors what is
/// asked for.
template <class T, class Handle, class Deadline, class Then, class... As>
void conductor_shell::ask(const char* action, const Handle& receiver, Deadline deadline,
                          Then then, As... as) {
  self_->request(receiver, deadline, std::move(as)...)
      .then([then](const local<T>& value) { then(result<local<T>>(value)); },
            [then, action](const caf::error& e) {
              then(result<local<T>>(from_caf(e, action)));
            });
}

/// Sends a request for a pulse or for chunks. These are too many for a timer each;
/// `check_deadline` watches over all of them.
template <class T, class Handle, class Then, class... As>
void conductor_shell::ask_without_timer(const char* action, const Handle& receiver,
                                        Then then, As... as) {
  if (unanswered_++ == 0) {
    last_answer_ns_ = config_->now();
  }
  last_request_ = action;
  ask<T>(
      action, receiver, caf::infinite,
      [this, then](const result<local<T>>& answer) {
        --unanswered_;
        last_answer_ns_ = config_->now();
        then(answer);
      },
      std::move(as)...);
}

/// Fails the run if requests are open and no answer came within the deadline. One message
/// per second to itself checks all requests together, which is cheaper than a timer for
/// each of the many pulses.
void conductor_shell::check_deadline() {
  if (ended_) {
    return;
  }
  const std::int64_t silence_ns = config_->now() - last_answer_ns_;
  if (unanswered_ != 0 &&
      silence_ns > std::chrono::nanoseconds(config_->deadline).count()) {
    return fail(error(errc::timeout,
                      fmt::format("{} failed: expected an answer within {} s, found none",
                                  last_request_, config_->deadline.count())));
  }
  self_->delayed_send(self_, std::chrono::seconds(1), deadline_atom_v);
}

/// Sends the orders to the ranks that serve the lanes: lane `i` belongs to rank `i`
/// modulo their number. The orders for one rank travel in one message.
void conductor_shell::order_chunks(const chunk_orders& orders) {
  std::vector<chunk_orders> by_rank(config_->ranks.size());
  for (const chunk_order& order : orders) {
    by_rank[order.lane % by_rank.size()].push_back(order);
  }
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (!by_rank[rank].empty()) {
      ask_without_timer<chunk_replies>(
          "waiting for a chunk", config_->ranks[rank],
          [this](const result<local<chunk_replies>>& replies) { on_chunks(replies); },
          pull_atom_v, by_reference(std::move(by_rank[rank])));
    }
  }
}

void conductor_shell::on_chunks(const result<local<chunk_replies>>& replies) {
  if (!replies) {
    return fail(replies.error());
  }
  for (const chunk_reply& reply : **replies) {
    if (auto taken = core_->arrived(reply); !taken) {
      return fail(taken.error());
    }
  }
  pump();
}

/// Sends pulses to the orchestrator. If a snapshot is due after them, it is requested
/// right behind them, for the number of pulses that will then be complete.
void conductor_shell::issue(issued_pulses p) {
  const std::uint64_t last = p.orders.back().pulse.id;
  ask_without_timer<pulses_done>(
      "waiting for a pulse", config_->orchestrator,
      [this](const result<local<pulses_done>>& done) {
        done ? on_pulses_done(**done) : fail(done.error());
      },
      pulse_atom_v, by_reference(std::move(p.orders)));
  if (p.snapshot_after) {
    ask<state_snapshot>(
        "waiting for a snapshot", config_->orchestrator, config_->deadline,
        [this](const result<local<state_snapshot>>& snapshot) {
          snapshot ? on_snapshot(snapshot->share()) : fail(snapshot.error());
        },
        snapshot_atom_v, last + 1);
  }
}

/// Commits completed pulses in order. A commit may cross a boundary of a checkpoint; the
/// boundary is kept until its snapshot is here.
void conductor_shell::on_pulses_done(const pulses_done& done) {
  if (ended_) {
    return;
  }
  for (const pulse_done& pulse : done) {
    if (auto committed = core_->commit(pulse, config_->now()); !committed) {
      return fail(committed.error());
    }
    if (auto b = core_->take_boundary()) {
      boundary_ = std::move(b);
      save_if_complete();
    }
  }
  sample(false);
  pump();
}

void conductor_shell::on_snapshot(std::shared_ptr<const state_snapshot> snapshot) {
  snapshot_ = std::move(snapshot);
  save_if_complete();
}

/// Begins to save if the boundary and the snapshot of the same pulse are both here. They
/// come from different answers, so either may be the first.
void conductor_shell::save_if_complete() {
  if (boundary_ && snapshot_ && boundary_->pulses == snapshot_->pulses) {
    save(std::move(*std::exchange(boundary_, std::nullopt)),
         std::exchange(snapshot_, nullptr), false);
  }
}

/// Begins to save a state: asks the hub for the cursor of the stream at the boundary, and
/// lets `write` go on when it is here.
void conductor_shell::save(boundary b, std::shared_ptr<const state_snapshot> snapshot,
                           bool last) {
  const cursor_order order{b.marks, b.pulses};
  auto moved = std::make_shared<boundary>(std::move(b));
  ask<storage::stream_cursor>(
      "waiting for a cursor", config_->hub, config_->cursor_deadline,
      [this, moved, snapshot, last](const result<local<storage::stream_cursor>>& cursor) {
        cursor ? write(std::move(*moved), snapshot, **cursor, last)
               : on_save_failed(cursor.error(), last);
      },
      cursor_atom_v, by_reference(order));
}

/// Sends the complete state to the checkpointer. The last save is left out if the newest
/// checkpoint already has the state of this pulse, for example after a boundary at the
/// very end.
void conductor_shell::write(boundary b, std::shared_ptr<const state_snapshot> snapshot,
                            storage::stream_cursor cursor, bool last) {
  if (last) {
    end_.snapshot = snapshot;
    end_.cursor = std::make_shared<const storage::stream_cursor>(cursor);
    if (has_durable_ && durable_pulses_ == b.pulses) {
      return finish();  // the newest checkpoint has this state already
    }
  }
  save_order order = config_->contents;
  order.snapshot = std::move(snapshot);
  order.cursor = std::move(cursor);
  order.conductor = std::move(b.conductor);
  order.metrics = std::move(b.metrics);
  const std::uint64_t tokens = b.tokens;
  ask<save_done>(
      "waiting for a checkpoint", config_->checkpointer, config_->deadline,
      [this, tokens, last](const result<local<save_done>>& done) {
        if (!done) {
          return on_save_failed(done.error(), last);
        }
        durable_tokens_ = tokens;
        on_saved(**done, last);
      },
      save_atom_v, by_reference(std::move(order)));
}

/// Counts a checkpoint that is durable now, and goes on with the run, or ends it after
/// the last save. Only the newest spans are kept for the trace.
void conductor_shell::on_saved(const save_done& done, bool last) {
  has_durable_ = true;
  durable_pulses_ = done.pulse_id;
  end_.generation = done.generation;
  if (end_.spans.size() == max_spans) {
    end_.spans.pop_front();
  }
  end_.spans.push_back(
      {"checkpoints", fmt::format("ck-{}", done.generation), done.start_ns, done.end_ns});
  core_->accounts().generations += 1;
  core_->gate().save_ended();
  sample(true);
  last ? finish() : pump();
}

void conductor_shell::on_save_failed(const error& e, bool last) {
  error failure = error(e.code(), fmt::format("writing the checkpoint of pulse {} failed",
                                              core_->record().pulses))
                      .because(e);
  if (last) {
    return fail(std::move(failure));
  }
  // The run continues: the earlier checkpoints are still valid, and the next boundary
  // tries again.
  if (config_->warning) {
    config_->warning(failure.message());
  }
  core_->gate().save_ended();
  pump();
}

/// Saves the final state, after the last pulse was committed. Nothing is in flight then,
/// so the boundary is simply the present state.
void conductor_shell::begin_last_save() {
  last_save_begun_ = true;
  core_->gate().begin();
  const boundary b = core_->boundary_now();
  ask<state_snapshot>(
      "waiting for the last snapshot", config_->orchestrator, config_->deadline,
      [this, b](const result<local<state_snapshot>>& snapshot) {
        snapshot ? save(b, snapshot->share(), true) : fail(snapshot.error());
      },
      snapshot_atom_v, b.pulses);
}

/// Ends the run with success. Only the first of `finish` and `fail` has an effect.
void conductor_shell::finish() {
  if (std::exchange(ended_, true)) {
    return;
  }
  sample(true);
  const bool interrupted = core_->draining() && !core_->exhausted();
  end_.ended = interrupted            ? "interrupted"
               : core_->ended_early() ? "end of stream"
                                      : "finished";
  end_.record = core_->record();
  end_.accounts = core_->accounts();
  config_->ended(std::move(end_));
}

void conductor_shell::fail(error e) {
  if (std::exchange(ended_, true)) {
    return;
  }
  end_.failure = std::move(e);
  config_->ended(std::move(end_));
}

/// Sends the observer a sample of the progress, at most once per interval unless `always`
/// is set. The bits are those since the sample before.
void conductor_shell::sample(bool always) {
  const std::int64_t now = config_->now();
  if (!always && now - sampled_ns_ < config_->sample_every_ns) {
    return;
  }
  sampled_ns_ = now;
  const auto phase = core_->phase();
  const auto index = static_cast<std::size_t>(phase);
  const conductor_record& record = core_->record();
  run_sample s;
  s.phase = phase;
  s.phase_tokens = record.used[index].tokens;
  s.phase_budget = core_->config().budgets[index].tokens;
  s.tokens = record.tokens;
  s.pulses = record.pulses;
  s.bits = std::exchange(since_sample_, nat_sum{}).bits_per_byte();
  s.cumulative_bits =
      phase == models::pulse_phase::build  ? core_->accounts().build.bits_per_byte()
      : phase == models::pulse_phase::test ? core_->accounts().test.bits_per_byte()
                                           : 0;
  s.durable_generation = end_.generation;
  s.durable_tokens = has_durable_ ? durable_tokens_ : 0;
  s.time_ns = now;
  self_->send(config_->observer, sample_atom_v, by_reference(s));
}

conductor_actor::behavior_type conductor(conductor_shell::self_pointer self,
                                         conductor_config config) {
  install_defaults(self);
  self->state.start(self, std::make_shared<conductor_config>(std::move(config)));
  return {
      reacts(self, "conductor, launch",
             [self](launch_atom) {
               self->state.pump();
               self->state.check_deadline();
             }),
      reacts(self, "conductor, drain", [self](drain_atom) { self->state.drain(); }),
      reacts(self, "conductor, deadline",
             [self](deadline_atom) { self->state.check_deadline(); }),
  };
}

}  // namespace weir::actors
