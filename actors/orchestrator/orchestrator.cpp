// SPDX-License-Identifier: Apache-2.0
/// @file
/// Messages of the orchestrator: submit, run a little, answer.
#include "orchestrator/orchestrator.hpp"

#include "orchestrator/prose_runner.hpp"
#include "weir/base/clock.hpp"

namespace weir::actors {

namespace {

using self_pointer = orchestrator_actor::stateful_pointer<orchestrator_shell>;

/// Longest stretch of running tasks without a look at the mailbox.
constexpr std::int64_t patience_ns = 1'000'000;
/// An answer wakes another thread: while more work than this is queued, as many answers
/// wait for one another, but not for long.
constexpr std::size_t answered_together = 3;
constexpr std::int64_t longest_hold_ns = 20'000'000;

error not_open() {
  return error(errc::stopping, "the orchestrator has no model: expected an open before");
}

void keep_working(self_pointer self) {
  auto& s = self->state;
  if (!s.working && s.core && s.core->busy()) {
    s.working = true;
    self->send(self, work_atom_v);
  }
}

void answer(orchestrator_shell& s, orchestrator_state::finished f) {
  auto to = std::move(s.replies.front());
  s.replies.pop_front();
  if (auto* pulse = std::get_if<result<pulse_done>>(&f)) {
    auto& promise = std::get<reply_later<local<pulse_done>>>(to);
    promise.deliver(*pulse ? result<local<pulse_done>>(by_reference(**pulse))
                           : result<local<pulse_done>>(pulse->error()));
    return;
  }
  auto& image = std::get<result<std::shared_ptr<const state_image>>>(f);
  auto& promise = std::get<reply_later<local<state_image>>>(to);
  promise.deliver(image ? result<local<state_image>>(local<state_image>(*image))
                        : result<local<state_image>>(image.error()));
}

void work_a_little(self_pointer self) {
  auto& s = self->state;
  s.working = false;
  if (!s.core) {
    return;
  }
  if (auto ended = s.core->work(patience_ns)) {
    s.held_since_ns = s.held.empty() ? now_ns() : s.held_since_ns;
    s.held.push_back(std::move(*ended));
  }
  if (!s.held.empty() &&
      (s.held.size() >= answered_together || s.core->queued() < answered_together ||
       now_ns() - s.held_since_ns > longest_hold_ns)) {
    for (auto& f : s.held) {
      answer(s, std::move(f));
    }
    s.held.clear();
  }
  keep_working(self);
}

/// Queues work with the promise of its answer.
template <class T, class Queue>
caf::typed_response_promise<local<T>> queue_reply(self_pointer self, const char* what,
                                                  Queue queue) {
  auto promise = self->make_response_promise<local<T>>();
  reply_later<local<T>> later(promise, what);
  if (!self->state.core) {
    later.deliver(not_open());
    return promise;
  }
  self->state.replies.emplace_back(std::move(later));
  queue(*self->state.core);
  keep_working(self);
  return promise;
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

orchestrator_actor::behavior_type orchestrator(self_pointer self,
                                               orchestrator_config config) {
  install_defaults(self);
  return {
      reacts(self, "orchestrator, work", [self](work_atom) { work_a_little(self); }),
      answers("orchestrator, pulse",
              [self](pulse_atom, const local<pulse_order>& order) {
                return queue_reply<pulse_done>(
                    self, "a pulse",
                    [&](orchestrator_state& core) { core.submit(order.share()); });
              }),
      answers("orchestrator, snapshot",
              [self](snapshot_atom, std::uint64_t pulses) {
                return queue_reply<state_image>(
                    self, "a snapshot",
                    [&](orchestrator_state& core) { core.snapshot(pulses); });
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
