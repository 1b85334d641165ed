// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handlers of the orchestrator's messages. The actor submits work, runs tasks for a
/// short time, answers what has ended, and looks at its mailbox again.
#include "orchestrator/orchestrator.hpp"

#include "orchestrator/prose_runner.hpp"
#include "weir/base/clock.hpp"

namespace weir::actors {

namespace {

using orchestrator_pointer = orchestrator_actor::stateful_pointer<orchestrator_shell>;

/// Longest time for which tasks run before the actor looks at its mailbox again.
constexpr std::int64_t max_ns = 1'000'000;

error not_open() {
  return error(errc::stopping,
               "using the orchestrator failed: expected an open model, found none");
}

/// Sends the actor a message to work, unless one is on its way or there is no work.
void keep_working(orchestrator_pointer self) {
  auto& s = self->state;
  if (!s.working && s.core && s.core->busy()) {
    s.working = true;
    self->send(self, work_atom_v);
  }
}

/// Adds the result of a pulse to the reply to its message. An error is delivered at once.
/// Returns true if this was the last pulse of the message.
bool answer(orchestrator_shell::pulses_reply& message, const result<pulse_done>& pulse) {
  if (pulse) {
    message.done.push_back(*pulse);
  } else {
    message.reply.deliver(pulse.error());
  }
  if (--message.left != 0) {
    return false;
  }
  // After an error this does nothing: a reply is delivered once.
  message.reply.deliver(by_reference(std::move(message.done)));
  return true;
}

/// Answers the work at the front of the queue.
void answer(orchestrator_shell& s, orchestrator_state::finished f) {
  using snapshot_result = result<std::shared_ptr<const state_snapshot>>;
  if (auto* pulse = std::get_if<result<pulse_done>>(&f)) {
    if (!answer(std::get<orchestrator_shell::pulses_reply>(s.replies.front()), *pulse)) {
      return;
    }
  } else {
    auto& snapshot = std::get<snapshot_result>(f);
    std::get<pending_reply<local<state_snapshot>>>(s.replies.front())
        .deliver(snapshot
                     ? result<local<state_snapshot>>(local<state_snapshot>(*snapshot))
                     : result<local<state_snapshot>>(snapshot.error()));
  }
  s.replies.pop_front();
}

/// Runs tasks until work has ended or the time is over.
void work_a_little(orchestrator_pointer self) {
  auto& s = self->state;
  s.working = false;
  if (!s.core) {
    return;
  }
  if (auto ended = s.core->work(max_ns)) {
    answer(s, std::move(*ended));
  }
  keep_working(self);
}

/// Queues work, and its reply in the order of the work. `queue(core, reply)` queues the
/// work and returns the reply, or nothing if it has delivered the reply already. `name`
/// names the request in errors.
template <class T, class Queue>
caf::typed_response_promise<local<T>> queue_reply(orchestrator_pointer self,
                                                  const char* name, Queue queue) {
  auto promise = self->make_response_promise<local<T>>();
  pending_reply<local<T>> later(promise, name);
  if (!self->state.core) {
    later.deliver(not_open());
    return promise;
  }
  if (auto reply = queue(*self->state.core, std::move(later))) {
    self->state.replies.push_back(std::move(*reply));
  }
  keep_working(self);
  return promise;
}

using queued_reply = std::optional<orchestrator_shell::reply>;

/// Queues the pulses of a message. Each order shares ownership of the whole message.
queued_reply submit(orchestrator_state& core, const local<pulse_orders>& all,
                    pending_reply<local<pulses_done>> reply) {
  if (all->empty()) {
    reply.deliver(by_reference(pulses_done()));
    return std::nullopt;
  }
  for (const pulse_order& order : *all) {
    core.submit(std::shared_ptr<const pulse_order>(all.share(), &order));
  }
  return orchestrator_shell::pulses_reply{std::move(reply), all->size(), {}};
}

result<local<model_info>> open_model(orchestrator_shell& s,
                                     const orchestrator_config& config,
                                     const model_spec& spec) {
  WEIR_TRY(auto built, config.factory(spec));
  s.core = std::make_unique<orchestrator_state>(std::move(built.model), &now_ns);
  return by_reference(std::move(built.info));
}

}  // namespace

result<built_model> build_prose(const model_spec& spec) {
  WEIR_TRY(auto runner, prose_runner::create(spec));
  model_info info = runner->info();
  return built_model{std::move(runner), std::move(info)};
}

orchestrator_actor::behavior_type orchestrator(orchestrator_pointer self,
                                               orchestrator_config config) {
  install_defaults(self);
  return {
      reacts(self, "orchestrator, work", [self](work_atom) { work_a_little(self); }),
      answers("orchestrator, pulse",
              [self](pulse_atom, const local<pulse_orders>& orders) {
                return queue_reply<pulses_done>(
                    self, "a pulse", [&](orchestrator_state& core, auto reply) {
                      return submit(core, orders, std::move(reply));
                    });
              }),
      answers("orchestrator, snapshot",
              [self](snapshot_atom, std::uint64_t pulses) {
                return queue_reply<state_snapshot>(
                    self, "a snapshot",
                    [&](orchestrator_state& core, auto reply) -> queued_reply {
                      core.snapshot(pulses);
                      return reply;
                    });
              }),
      answers("orchestrator, open",
              [self, config](open_atom, const local<model_spec>& spec) {
                return open_model(self->state, config, *spec);
              }),
      answers("orchestrator, report",
              [self](report_atom,
                     const local<trace_order>& order) -> result<local<engine_report>> {
                auto& core = self->state.core;
                if (!core) {
                  return not_open();
                }
                WEIR_TRY(auto report, core->report(*order));
                return by_reference(std::move(report));
              }),
  };
}

}  // namespace weir::actors
