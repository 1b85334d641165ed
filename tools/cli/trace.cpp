// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir trace`: what the trace of a run says about its time.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "commands.hpp"
#include "weir/runtime/trace_summary.hpp"

namespace weir::tools {
namespace {

using json = nlohmann::ordered_json;

/// A trace is a list of events with arguments; anything deeper is none of ours.
constexpr int deepest_trace = 8;

/// Records of a trace, and their names, which stay where they are.
struct trace_file {
  std::vector<runtime::task_record> records;
  std::deque<std::string> names;
  std::unordered_map<std::string, const char*> known;

  const char* name(const std::string& text) {
    const auto [at, is_new] = known.try_emplace(text, nullptr);
    if (is_new) {
      names.push_back(text);
      at->second = names.back().c_str();
    }
    return at->second;
  }
};

/// Microseconds of the file as nanoseconds; 0 for what is no number.
std::int64_t trace_ns(const json& from, const char* key) {
  const auto found = from.find(key);
  if (found == from.end() || !found->is_number()) {
    return 0;
  }
  const double ns = found->get<double>() * 1e3;
  return ns > -9e18 && ns < 9e18 ? static_cast<std::int64_t>(ns + (ns < 0 ? -0.5 : 0.5))
                                 : 0;
}
std::uint64_t trace_number(const json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_number_unsigned() ? found->get<std::uint64_t>()
                                                            : 0;
}
std::string trace_text(const json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_string() ? found->get<std::string>() : "";
}

void add_record(const json& event, trace_file& to) {
  const auto args = event.find("args");
  if (trace_text(event, "cat") != "task" || args == event.end() || !args->is_object()) {
    return;
  }
  runtime::task_record r;
  r.name = to.name(trace_text(event, "name"));
  r.id = trace_number(*args, "id");
  r.submitted = trace_ns(*args, "submit");
  r.ready = trace_ns(*args, "ready");
  r.started = trace_ns(event, "ts");
  r.ended = r.started + std::max<std::int64_t>(trace_ns(event, "dur"), 0);
  r.waited_for = trace_number(*args, "waited_for");
  r.waited_for_name = to.name(trace_text(*args, "waited_for_name"));
  r.worker = static_cast<std::uint32_t>(trace_number(event, "tid"));
  r.pulse = trace_number(*args, "pulse");
  to.records.push_back(r);
}

/// A trace as the engine writes it: an array of events, or an object with one.
result<trace_file> load_records(const std::string& path) {
  WEIR_TRY(const byte_vector bytes, read_input(path));
  const std::string_view content = as_text(bytes);
  const auto shallow = [](int depth, json::parse_event_t, json&) {
    return depth <= deepest_trace;
  };
  const json all = json::parse(content.begin(), content.end(), shallow, false);
  const json* events = &all;
  if (all.is_object() && all.contains("traceEvents")) {
    events = &all.at("traceEvents");
  }
  if (!events->is_array()) {
    return error(errc::corrupt,
                 fmt::format("trace not read \"{}\": expected a list of events in JSON, "
                             "found {}",
                             path, all.is_discarded() ? "no JSON" : all.type_name()))
        .hint("a run with run.trace = \"all\" or \"window\" writes trace.json");
  }
  trace_file out;
  for (const json& event : *events) {
    if (event.is_object()) {
      add_record(event, out);
    }
  }
  return out;
}

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
