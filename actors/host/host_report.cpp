// SPDX-License-Identifier: Apache-2.0
/// @file
/// The progress, the report and the trace of a run.
#include "host/host_report.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "weir/base/clock.hpp"
#include "weir/base/file.hpp"

namespace weir::actors {
namespace {

constexpr std::int64_t rate_window_ns = 3'000'000'000;

/// The run has ended well, so that a trace that cannot be written is a warning.
void write_trace(engine_host_shell& s) {
  const std::string& folder = s.config.options.folder;
  if (s.config.engine.trace.mode == runtime::trace_mode::off || folder.empty()) {
    return;
  }
  s.config.parts->run->add_to_trace();
  const auto written = s.config.parts->host->base().tracer().write(
      posix_file_system(), join_path(folder, "trace.json"));
  if (!written) {
    s.report.warnings.push_back(written.error().message());
  }
}

/// Makes warnings of what stages say that has failed, each once.
void pass_problems(engine_host_shell& s, const std::vector<figures>& stages,
                   const std::function<void(std::string)>& warn) {
  for (std::size_t i = 0; i < stages.size(); ++i) {
    for (const std::string& text : stages[i].problems()) {
      const std::string& stage = s.config.planned.source.stages[i].name;
      if (s.problems.emplace(i, text).second) {
        warn(fmt::format("stage \"{}\": {}", stage, text));
      }
    }
  }
}

}  // namespace

void finish(host_pointer self) {
  auto& s = self->state;
  auto& run = execution_of(self);
  if (s.failure) {
    error& cause = *s.failure;
    if (s.config.saver && cause.hint().empty()) {
      static_cast<void>(std::move(cause).hint(
          fmt::format("the checkpoint holds the items before number {}; resume the run "
                      "when the cause is removed",
                      s.durable_items)));
    }
    fail(self, std::move(cause));
    return;
  }
  s.report.ended = run.all_ended() ? "finished" : "interrupted";
  s.report.counters = run.counters();
  s.report.item_bytes = s.report.counters.item_bytes;
  s.report.peak_item_bytes = std::max(s.report.peak_item_bytes, s.report.item_bytes);
  s.report.planned = run.planned();
  s.report.memory_bound = s.report.planned.memory_bound;
  s.report.seconds = seconds_since(s.start_ns);
  for (const std::uint32_t source : run.sources()) {
    s.report.items += s.report.counters.stages[source].items;
  }
  s.report.stages = run.reports(true);
  pass_problems(s, s.report.stages,
                [&s](std::string text) { s.report.warnings.push_back(std::move(text)); });
  s.report.engine = s.config.parts->host->base().counters();
  s.report.memory = s.config.parts->host->base().memory();
  write_trace(s);
  if (s.config.progress) {
    report_progress(self, true);
  }
  end_run(self, host_end{s.report});
}

void report_progress(host_pointer self, bool ask_all) {
  auto& s = self->state;
  auto& run = execution_of(self);
  const flow::run_counters counters = run.counters();
  pipeline_progress p;
  for (const std::uint32_t source : run.sources()) {
    p.items += counters.stages[source].items;
  }
  const std::int64_t now = now_ns();
  s.recent.emplace_back(now, p.items);
  while (s.recent.size() > 2 && now - s.recent.front().first > rate_window_ns) {
    s.recent.pop_front();
  }
  const auto [begin, items] = s.recent.front();
  if (now > begin) {
    p.items_per_second =
        static_cast<double>(p.items - items) * 1e9 / static_cast<double>(now - begin);
  }
  p.epochs = s.report.epochs;
  p.durable_items = s.durable_items;
  p.bottleneck = run.bottleneck();
  p.generation = s.report.generation;
  p.stages = run.reports(ask_all);
  if (s.config.warning) {
    pass_problems(s, p.stages, s.config.warning);
  }
  s.report.peak_item_bytes = std::max(s.report.peak_item_bytes, counters.item_bytes);
  s.config.progress(std::move(p));
}

}  // namespace weir::actors
