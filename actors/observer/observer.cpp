// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rates from samples, and the handlers of the observer's messages.
#include "observer/observer.hpp"

#include <fmt/core.h>

namespace weir::actors {

/// Keeps the samples of the last few seconds, but at least two of them, so that a slow
/// run has a rate too. The rate starts anew with each phase.
run_progress observer_state::take(const run_sample& s) {
  if (!recent_.empty() && recent_.back().phase != s.phase) {
    recent_.clear();
  }
  recent_.push_back(s);
  while (recent_.size() > 2 && s.time_ns - recent_.front().time_ns > rate_window_ns) {
    recent_.pop_front();
  }
  const run_sample& first = recent_.front();
  const double seconds = static_cast<double>(s.time_ns - first.time_ns) * 1e-9;
  const auto tokens = static_cast<double>(s.phase_tokens - first.phase_tokens);
  run_progress p;
  p.phase = models::name_of(s.phase);
  p.phase_tokens = s.phase_tokens;
  p.phase_budget = s.phase_budget;
  p.tokens = s.tokens;
  p.pulses = s.pulses;
  p.tokens_per_second = seconds > 0 ? tokens / seconds : last_.tokens_per_second;
  p.bits_per_byte = s.bits > 0 ? s.bits : last_.bits_per_byte;
  p.cumulative_bits_per_byte = s.cumulative_bits;
  if (p.tokens_per_second > 0 && s.phase_budget > s.phase_tokens) {
    p.seconds_left =
        static_cast<double>(s.phase_budget - s.phase_tokens) / p.tokens_per_second;
  }
  p.durable_generation = s.durable_generation;
  p.durable_tokens = s.durable_tokens;
  last_ = p;
  return p;
}

std::string observer_state::line() const {
  if (last_.phase.empty()) {
    return "nothing was sampled yet";
  }
  return fmt::format(
      "{}: {} of {} tokens, {:.0f} tokens/s, {:.3f} bits per byte, generation {}",
      last_.phase, last_.phase_tokens, last_.phase_budget, last_.tokens_per_second,
      last_.cumulative_bits_per_byte, last_.durable_generation);
}

observer_actor::behavior_type observer(
    observer_actor::stateful_pointer<observer_shell> self, observer_config config) {
  install_defaults(self);
  return {
      reacts(self, "observer, sample",
             [self, config](sample_atom, const local<run_sample>& s) {
               run_progress p = self->state.core.take(*s);
               if (config.listener) {
                 config.listener(std::move(p));
               }
             }),
      answers(
          "observer, status",
          [self](status_atom) -> result<std::string> { return self->state.core.line(); }),
  };
}

}  // namespace weir::actors
