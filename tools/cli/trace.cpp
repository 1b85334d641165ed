// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir trace`: prints where the time of a run went, from its trace.
///
/// A trace in the format of browsers is read back into the records of the engine, and the
/// engine's own summary is printed. So a summary of a file equals the one at the end of a
/// run.
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "commands.hpp"
#include "drawing/trace_events.hpp"
#include "weir/runtime/trace_summary.hpp"

namespace weir::tools {
namespace {

using json = nlohmann::ordered_json;

/// Tasks of a trace. Records point to their names, so the names must not move.
struct trace_file {
  std::vector<runtime::task_record> records;
  // A deque does not move its elements when it grows.
  std::deque<std::string> names;
  std::unordered_map<std::string, const char*> known;

  /// Returns the one copy of a name that is kept.
  const char* name(const std::string& text) {
    // One search for both cases: known, or new with an empty place.
    const auto [found, is_new] = known.try_emplace(text, nullptr);
    if (is_new) {
      names.push_back(text);
      found->second = names.back().c_str();
    }
    return found->second;
  }
};

/// Returns a time of the file in nanoseconds; 0 if it is none.
/// The file has microseconds with a fraction, as its format asks for. Times of more than
/// 63 years are none: so the end of a task, and the distance of two ends, have a number.
std::int64_t nanoseconds(double microseconds) {
  const double ns = microseconds * 1e3;
  // The comparison is false for NaN, which thereby gives 0.
  return std::abs(ns) < 2e18 ? std::llround(ns) : 0;
}

/// Converts an event of the category "task" to the record that the engine had written.
/// Values that are absent or damaged have defaults, so a foreign trace is read as well.
runtime::task_record record_of(const trace_event& event, trace_file& trace) {
  runtime::task_record out;
  out.name = trace.name(event.name);
  out.waited_for_name = trace.name(event.waited_for_name);
  // Lanes of other kinds may have negative numbers.
  const bool is_worker = event.thread >= 0 && event.thread < 0x1p32;
  out.worker = is_worker ? static_cast<std::uint32_t>(event.thread) : 0;
  out.id = event.id;
  out.pulse = event.pulse;
  out.waited_for = event.waited_for;
  out.submitted = nanoseconds(event.submitted);
  out.ready = nanoseconds(event.ready);
  out.started = nanoseconds(event.start);
  // A negative duration would let a task end before it began.
  out.ended = out.started + std::max<std::int64_t>(nanoseconds(event.duration), 0);
  return out;
}

/// Reads the file event by event, since a trace may be larger than memory for its text.
result<trace_file> load_records(const std::string& path) {
  trace_file trace;
  WEIR_CHECK(read_trace_events(path, [&](const trace_event& event) {
    // Other categories, such as counters and markers, are not part of the summary.
    if (event.category == "task") {
      trace.records.push_back(record_of(event, trace));
    }
  }));
  return trace;
}

/// Returns the summary of a trace as JSON. Times are in nanoseconds.
json facts_of_trace(const runtime::trace_summary& s, std::size_t tasks) {
  json path = json::array();
  // The chain of tasks that decided how long the run took, in order.
  for (const auto& step : s.critical_path) {
    path.push_back({{"id", step.id},
                    {"name", step.name},
                    {"waited_ns", step.waited},
                    {"ran_ns", step.ran}});
  }
  // One entry for each worker: how much of the time it had a task.
  json workers = json::array();
  for (const auto& w : s.workers) {
    workers.push_back({{"worker", w.worker},
                       {"tasks", w.tasks},
                       {"busy_ns", w.busy},
                       {"share", w.share}});
  }
  // Why tasks waited, the largest sum first.
  json waits = json::array();
  for (const auto& w : s.waits) {
    waits.push_back({{"reason", w.reason},
                     {"sum_ns", w.sum},
                     {"tasks", w.tasks},
                     {"share", s.share_of(w)}});
  }
  // "ns" is the whole time from the first to the last record.
  return {{"tasks", tasks},
          {"ns", s.end - s.begin},
          {"path_ran_ns", s.path_ran()},
          {"path_waited_ns", s.path_waited()},
          {"critical_path", path},
          {"workers", workers},
          {"waits", waits}};
}

}  // namespace

command_result trace_command(const trace_options& options, output& out) {
  struct stat found {};
  // A run folder has its trace under a fixed name.
  const bool folder = ::stat(options.file.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
  WEIR_TRY(const trace_file trace,
           load_records(folder ? options.file + "/trace.json" : options.file));
  const runtime::trace_summary summary = runtime::summarize(trace.records);
  if (options.json) {
    out.print("{}\n", json_text(facts_of_trace(summary, trace.records.size())));
  } else {
    out.print("{} tasks\n", trace.records.size());
    out.write(runtime::to_text(summary));
  }
  return 0;
}

}  // namespace weir::tools
