// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handlers of the observer's messages.
#include "progress/progress_observer.hpp"

#include <utility>

namespace weir::actors {
namespace {

using observer_pointer =
    progress_observer_actor::stateful_pointer<progress_observer_shell>;

void take(observer_pointer self, const host_sample& s) {
  const progress_observer_config& config = self->state.config;
  pipeline_progress p = self->state.core.take(s);
  for (std::string& text : self->state.core.new_problems(s.stages)) {
    config.warning(std::move(text));
  }
  if (config.progress) {
    config.progress(std::move(p));
  }
  if (auto stalled = self->state.core.stall()) {
    config.stalled(std::move(*stalled));
  }
}

void end(observer_pointer self, pipeline_report report) {
  for (std::string& text : self->state.core.new_problems(report.stages)) {
    report.warnings.push_back(std::move(text));
  }
  self->state.config.ended(std::move(report));
}

}  // namespace

progress_observer_actor::behavior_type progress_observer(
    observer_pointer self, progress_observer_config config) {
  install_defaults(self);
  self->state.core = progress_state(config.stall_ns, config.stages);
  self->state.config = std::move(config);
  return {
      reacts(self, "progress observer, sample",
             [self](sample_atom, const local<host_sample>& s) { take(self, *s); }),
      reacts(self, "progress observer, ended",
             [self](ended_atom, const local<pipeline_report>& report) {
               end(self, *report);
             }),
      answers(
          "progress observer, status",
          [self](status_atom) -> result<std::string> { return self->state.core.line(); }),
  };
}

}  // namespace weir::actors
