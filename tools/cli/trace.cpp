// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir trace`: what the trace of a run says about its time.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
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

/// Reads the tasks of a trace as the engine writes it, without keeping the rest: an array
/// of events, or an object with one as `traceEvents`.
class record_reader {
 public:
  explicit record_reader(trace_file& to) : to_(to) {}
  [[nodiscard]] bool found_list() const { return found_list_; }

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(std::int64_t v) { return number(static_cast<double>(v), 0); }
  bool number_unsigned(std::uint64_t v) { return number(static_cast<double>(v), v); }
  bool number_float(double v, const std::string&) { return number(v, 0); }
  bool string(const std::string& text);
  bool binary(const json::binary_t&) { return true; }
  bool start_object(std::size_t) {
    const bool in_list = list_ != 0 && open_ == list_;
    ++open_;
    if (in_list) {
      now_ = {};
      duration_ = 0;
      is_task_ = false;
    }
    in_args_ = list_ != 0 && open_ == list_ + 2 && key_ == "args";
    return open_ <= deepest_trace;
  }
  bool end_object() {
    in_args_ = false;
    if (list_ != 0 && --open_ == list_ && is_task_) {
      now_.ended = now_.started + std::max<std::int64_t>(duration_, 0);
      to_.records.push_back(now_);
    } else if (list_ == 0) {
      --open_;
    }
    return true;
  }
  bool start_array(std::size_t) {
    ++open_;
    if (!found_list_ && (open_ == 1 || (open_ == 2 && key_ == "traceEvents"))) {
      found_list_ = true;
      list_ = open_;
    }
    return open_ <= deepest_trace;
  }
  bool end_array() {
    if (open_-- == list_) {
      list_ = 0;
    }
    return true;
  }
  bool key(const std::string& text) {
    key_ = text;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) {
    return false;
  }

 private:
  [[nodiscard]] bool in_event() const { return list_ != 0 && open_ == list_ + 1; }
  bool number(double v, std::uint64_t whole);

  trace_file& to_;
  runtime::task_record now_;
  std::int64_t duration_ = 0;
  bool is_task_ = false;
  bool in_args_ = false;
  bool found_list_ = false;
  int open_ = 0;  ///< brackets and braces
  int list_ = 0;  ///< of them, with that of the list of events; 0: not inside
  std::string key_;
};

bool record_reader::string(const std::string& text) {
  if (in_event() && key_ == "name") {
    now_.name = to_.name(text);
  } else if (in_event() && key_ == "cat") {
    is_task_ = text == "task";
  } else if (in_args_ && key_ == "waited_for_name") {
    now_.waited_for_name = to_.name(text);
  }
  return true;
}

/// Times of the file are microseconds.
bool record_reader::number(double v, std::uint64_t whole) {
  const double ns = v * 1e3;
  const std::int64_t time = std::abs(ns) < 9e18 ? std::llround(ns) : 0;
  if (in_event() && key_ == "ts") {
    now_.started = time;
  } else if (in_event() && key_ == "dur") {
    duration_ = time;
  } else if (in_event() && key_ == "tid") {
    now_.worker = static_cast<std::uint32_t>(whole);
  } else if (in_args_ && key_ == "submit") {
    now_.submitted = time;
  } else if (in_args_ && key_ == "ready") {
    now_.ready = time;
  } else if (in_args_ && key_ == "id") {
    now_.id = whole;
  } else if (in_args_ && key_ == "waited_for") {
    now_.waited_for = whole;
  } else if (in_args_ && key_ == "pulse") {
    now_.pulse = whole;
  }
  return true;
}

result<trace_file> load_records(const std::string& path) {
  WEIR_TRY(const byte_vector bytes, read_input(path));
  const std::string_view content = as_text(bytes);
  trace_file out;
  record_reader reader(out);
  const bool sound = json::sax_parse(content.begin(), content.end(), &reader);
  if (!sound || !reader.found_list()) {
    return error(errc::corrupt,
                 fmt::format("trace not read \"{}\": expected a list of events in JSON, "
                             "found {}",
                             path, sound ? "no list" : "no JSON, or more than that"))
        .hint("a run with run.trace = \"all\" or \"window\" writes trace.json");
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
