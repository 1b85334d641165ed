// SPDX-License-Identifier: Apache-2.0
/// @file
/// Samples, the report and the trace of a run.
///
/// Samples go to two actors: to the conductor, which orders epochs by the number of
/// items, and to the observer, which shows progress and ends a run that hangs. The
/// observer gets the time since the last progress only while neither a task nor another
/// actor can still bring some; otherwise a quiet source would look like a stall.
#include "host/host_report.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "weir/base/clock.hpp"
#include "weir/base/file.hpp"

namespace weir::actors {
namespace {

/// Returns whether an I/O host or the conductor has to answer.
bool waits_for_others(const engine_host_shell& s) {
  const auto busy = [](const outside& o) { return o.busy || o.requests != 0; };
  return s.saving || std::any_of(s.sources.begin(), s.sources.end(), busy) ||
         std::any_of(s.blocking.begin(), s.blocking.end(), busy) ||
         std::any_of(s.sinks.begin(), s.sinks.end(), busy);
}

/// Returns the first item that is not in a checkpoint.
/// Before the first checkpoint of this run, it is the item at which the run began.
std::uint64_t durable_items(const engine_host_shell& s) {
  return s.orders.durable() ? s.orders.durable()->next_item : s.report.resumed_item;
}

/// The run has ended well, so that a trace that cannot be written is a warning.
void write_trace(engine_host_shell& s) {
  const std::string& folder = s.config.options.folder;
  if (s.config.engine.trace.mode == runtime::trace_mode::off || folder.empty()) {
    return;
  }
  // Items are added to the trace only now, so that recording them costs little.
  s.config.parts->run->add_to_trace();
  const auto written = s.config.parts->host->base().tracer().write(
      posix_file_system(), join_path(folder, "trace.json"));
  if (!written) {
    s.report.warnings.push_back(written.error().message());
  }
}

}  // namespace

// The times of I/O hosts are added by their threads while this function reads them.
flow::run_counters counters_of(const pipeline_parts& parts) {
  flow::run_counters all = parts.run->counters();
  for (std::size_t i = 0; i < all.stages.size(); ++i) {
    all.stages[i].busy_ns += parts.busy_ns[i].load(std::memory_order_relaxed);
  }
  return all;
}

// This is called after the last epoch is durable, or with an error that was kept until
// then.
void finish(host_pointer self) {
  auto& s = self->state;
  auto& run = execution_of(self);
  if (s.failure) {
    // The hint names the item from which a resumed run will go on.
    error cause = std::move(*s.failure);
    s.failure.reset();
    if (s.config.stored && cause.hint().empty()) {
      static_cast<void>(std::move(cause).hint(
          fmt::format("the checkpoint holds the items before number {}; resume the run "
                      "when the cause is removed",
                      durable_items(s))));
    }
    fail(self, std::move(cause));
    return;
  }
  s.report.ended = run.all_ended() ? "finished" : "interrupted";
  s.report.counters = counters_of(*s.config.parts);
  s.report.item_bytes = s.report.counters.item_bytes;
  s.report.peak_item_bytes = std::max(s.report.peak_item_bytes, s.report.item_bytes);
  s.report.planned = run.planned();
  s.report.memory_bound = s.report.planned.memory_bound;
  s.report.seconds = seconds_since(s.start_ns);
  // Items of a run are those of its sources; stages behind may make more or fewer.
  for (const std::uint32_t source : run.sources()) {
    s.report.items += s.report.counters.stages[source].items;
  }
  s.report.stages = run.reports(true);
  s.report.engine = s.config.parts->host->base().counters();
  s.report.memory = s.config.parts->host->base().memory();
  write_trace(s);
  send_samples(self, true);
  s.over = true;
  // The observer ends the waiting of the caller with this report.
  self->send(s.config.observer, ended_atom_v, by_reference(s.report));
}

// `ask_all` asks stages that are costly to ask as well; the first and last sample do.
void send_samples(host_pointer self, bool ask_all) {
  auto& s = self->state;
  auto& run = execution_of(self);
  const std::int64_t now = now_ns();
  // Counters are shared, because two actors may keep a sample for some time.
  const auto counters =
      std::make_shared<const flow::run_counters>(counters_of(*s.config.parts));
  s.report.peak_item_bytes = std::max(s.report.peak_item_bytes, counters->item_bytes);
  self->send(s.config.conductor, sample_atom_v, by_reference(run.reached()));
  host_sample sample;
  sample.time_ns = now;
  for (const std::uint32_t source : run.sources()) {
    sample.items += counters->stages[source].items;
  }
  sample.counters = counters;
  sample.epochs = s.report.epochs;
  sample.durable_items = durable_items(s);
  sample.generation = s.report.generation;
  sample.bottleneck = run.bottleneck();
  // Reports of stages are made only if somebody looks at the progress.
  if (s.config.options.progress) {
    sample.stages = run.reports(ask_all);
  }
  // `idle_ns` stays 0 if something is under way, and nothing is then said about waiting.
  if (!waits_for_others(s) && !run.tasks_in_flight()) {
    sample.idle_ns = now - s.progress_ns;
    sample.waiting = run.waiting();
  }
  self->send(s.config.observer, sample_atom_v, by_reference(std::move(sample)));
}

}  // namespace weir::actors
