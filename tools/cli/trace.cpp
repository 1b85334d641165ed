// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir trace`: prints where the time of a run went, from its trace.
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
  std::deque<std::string> names;
  std::unordered_map<std::string, const char*> known;

  /// Returns the one copy of a name that is kept.
  const char* name(const std::string& text) {
    const auto [found, is_new] = known.try_emplace(text, nullptr);
    if (is_new) {
      names.push_back(text);
      found->second = names.back().c_str();
    }
    return found->second;
  }
};

/// Returns a time of the file in nanoseconds; 0 if it is none.
std::int64_t nanoseconds(double microseconds) {
  const double ns = microseconds * 1e3;
  return std::abs(ns) < 9e18 ? std::llround(ns) : 0;
}

/// Converts an event of the category "task" to the record that the engine had written.
runtime::task_record record_of(const trace_event& event, trace_file& trace) {
  runtime::task_record out;
  out.name = trace.name(event.name);
  out.waited_for_name = trace.name(event.waited_for_name);
  const bool is_worker = event.thread >= 0 && event.thread < 0x1p32;
  out.worker = is_worker ? static_cast<std::uint32_t>(event.thread) : 0;
  out.id = event.id;
  out.pulse = event.pulse;
  out.waited_for = event.waited_for;
  out.submitted = nanoseconds(event.submitted);
  out.ready = nanoseconds(event.ready);
  out.started = nanoseconds(event.start);
  out.ended = out.started + std::max<std::int64_t>(nanoseconds(event.duration), 0);
  return out;
}

result<trace_file> load_records(const std::string& path) {
  trace_file trace;
  WEIR_CHECK(read_trace_events(path, [&](const trace_event& event) {
    if (event.category == "task") {
      trace.records.push_back(record_of(event, trace));
    }
  }));
  return trace;
}

/// Returns the summary of a trace as JSON. Times are in nanoseconds.
json facts_of_trace(const runtime::trace_summary& s, std::size_t tasks) {
  json path = json::array();
  for (const auto& step : s.critical_path) {
    path.push_back({{"id", step.id},
                    {"name", step.name},
                    {"waited_ns", step.waited},
                    {"ran_ns", step.ran}});
  }
  json workers = json::array();
  for (const auto& w : s.workers) {
    workers.push_back({{"worker", w.worker},
                       {"tasks", w.tasks},
                       {"busy_ns", w.busy},
                       {"share", w.share}});
  }
  json waits = json::array();
  for (const auto& w : s.waits) {
    waits.push_back({{"reason", w.reason},
                     {"sum_ns", w.sum},
                     {"tasks", w.tasks},
                     {"share", s.share_of(w)}});
  }
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
  const bool folder = ::stat(options.file.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
  WEIR_TRY(const trace_file trace,
           load_records(folder ? options.file + "/trace.json" : options.file));
  const runtime::trace_summary summary = runtime::summarize(trace.records);
  if (options.json) {
    out.print("{}\n", facts_of_trace(summary, trace.records.size()).dump());
  } else {
    out.print("{} tasks\n", trace.records.size());
    out.write(runtime::to_text(summary));
  }
  return 0;
}

}  // namespace weir::tools
