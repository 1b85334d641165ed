// SPDX-License-Identifier: Apache-2.0
/// @file
/// The queue of pulses and snapshots, and the measurement of stalls and pauses.
#include "orchestrator/orchestrator_state.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace weir::actors {

namespace {

/// Drops the oldest value if there are more than `count`.
void keep_newest(std::deque<std::int64_t>& values, std::size_t count) {
  if (values.size() > count) {
    values.pop_front();
  }
}

/// Returns the median, the upper one of two middle values.
std::int64_t median(const std::deque<std::int64_t>& values) {
  std::vector<std::int64_t> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace

/// An interval ends with each pulse. Those without a snapshot give the usual length, from
/// which the interval with a snapshot is measured.
void pause_meter::ended(std::int64_t now_ns, bool behind_snapshot) {
  if (last_ns_ != 0) {
    const std::int64_t interval = now_ns - last_ns_;
    if (!behind_snapshot) {
      usual_.push_back(interval);
      keep_newest(usual_, max_intervals);
    } else if (!usual_.empty()) {
      pauses_.push_back(std::max<std::int64_t>(0, interval - median(usual_)));
      keep_newest(pauses_, max_pauses);
    }
  }
  last_ns_ = now_ns;
}

double pause_meter::pause_ms() const {
  return pauses_.empty() ? 0 : static_cast<double>(median(pauses_)) * 1e-6;
}

orchestrator_state::orchestrator_state(std::unique_ptr<pulse_model> model, clock now)
    : model_(std::move(model)), now_(now) {
  // Memory of the first snapshot is taken now, so that the snapshot itself is fast.
  snapshots_.push_back(std::make_shared<state_snapshot>());
  snapshots_.back()->bytes.resize(model_->state_bytes());
}

/// Returns a snapshot that nobody else holds any more, or a new one. Reusing its memory
/// saves the page faults of tens of megabytes.
std::shared_ptr<state_snapshot> orchestrator_state::spare_snapshot() {
  for (const auto& snapshot : snapshots_) {
    if (snapshot.use_count() == 1) {
      return snapshot;
    }
  }
  snapshots_.push_back(std::make_shared<state_snapshot>());
  snapshots_.back()->bytes.resize(model_->state_bytes());
  return snapshots_.back();
}

void orchestrator_state::submit(std::shared_ptr<const pulse_order> order) {
  jobs_.push_back({std::move(order), nullptr, 0, 0});
  begin_some();
}

void orchestrator_state::snapshot(std::uint64_t pulses) {
  jobs_.push_back({nullptr, nullptr, pulses, 0});
  begin_some();
}

/// Gives queued work to the engine, in order, as far as the model's depth allows.
void orchestrator_state::begin_some() {
  while (begun_ < jobs_.size() &&
         (!jobs_[begun_].order || begun_pulses_ < model_->depth())) {
    begin(jobs_[begun_]);
    begun_pulses_ += jobs_[begun_].order ? 1 : 0;
    ++begun_;
  }
}

/// Gives one job to the engine, and measures the time for which the engine had none.
void orchestrator_state::begin(job& j) {
  if (!j.order) {
    j.snapshot = spare_snapshot();
    j.snapshot->pulses = j.pulses;
    j.ticket = model_->snapshot(j.snapshot);
    return;
  }
  const bool counts =
      j.order->pulse.phase == models::pulse_phase::build && submitted_ >= warm_pulses;
  if (idle_since_ns_ != 0 && counts) {
    const std::int64_t now = now_();
    stall_ns_ += now - idle_since_ns_;
    model_->span("stalls", "no chunk", idle_since_ns_, now);
  }
  idle_since_ns_ = 0;
  ++submitted_;
  j.ticket = model_->submit(*j.order);
}

bool orchestrator_state::front_ended() {
  const auto& ticket = jobs_.front().ticket;
  return !ticket || model_->ended(*ticket);
}

/// Runs single tasks, so that the actor can look at its mailbox in between.
std::optional<orchestrator_state::finished> orchestrator_state::work(
    std::int64_t max_ns) {
  constexpr std::int64_t idle_ns = 200'000;
  if (jobs_.empty()) {
    return std::nullopt;
  }
  const std::int64_t until = now_() + max_ns;
  while (!front_ended()) {
    if (!model_->run_one()) {
      model_->idle(idle_ns);
    }
    if (now_() >= until) {
      return std::nullopt;
    }
  }
  job front = std::move(jobs_.front());
  jobs_.pop_front();
  --begun_;
  begun_pulses_ -= front.order ? 1 : 0;
  finished f = finish(std::move(front));
  begin_some();
  return f;
}

/// Completes a job whose tasks have ended. For a pulse, the time is noted at which the
/// engine ran out of work, although more pulses were expected: that is a stall of the
/// input.
orchestrator_state::finished orchestrator_state::finish(job j) {
  if (!j.order) {
    using snapshot_result = result<std::shared_ptr<const state_snapshot>>;
    snapshot_running_ = true;
    if (!j.ticket) {
      return snapshot_result(j.ticket.error());
    }
    auto copied = model_->finish_snapshot(*j.ticket);
    return copied ? snapshot_result(std::move(j.snapshot))
                  : snapshot_result(copied.error());
  }
  auto r = j.ticket ? model_->finish(*j.ticket)
                    : result<models::pulse_result>(j.ticket.error());
  const std::int64_t now = now_();
  pauses_.ended(now, snapshot_running_);
  snapshot_running_ = false;
  if (jobs_.empty() && j.order->more_follow) {
    idle_since_ns_ = now;
  }
  if (!r) {
    return result<pulse_done>(
        error(r.error().code(), fmt::format("pulse {} failed", j.order->pulse.id))
            .because(r.error()));
  }
  return result<pulse_done>(
      pulse_done{j.order->pulse.id, *r, model_->kernel_ns(), stall_ns_});
}

result<engine_report> orchestrator_state::report(const trace_order& order) {
  WEIR_TRY(auto r, model_->report(order));
  r.checkpoint_stall_ms = pauses_.pause_ms();
  return r;
}

}  // namespace weir::actors
