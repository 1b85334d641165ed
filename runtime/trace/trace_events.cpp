// SPDX-License-Identifier: Apache-2.0
/// @file
/// Events of the format that chrome://tracing and Perfetto read.
///
/// Each function returns one JSON object without a separator. The letter "ph" is the
/// kind: X a duration, M a name, C a counter, s and f the ends of an arrow. Times are in
/// microseconds with three digits behind the point, so that nanoseconds are not lost.
#include "weir/runtime/trace_events.hpp"

#include <fmt/format.h>

#include "weir/base/text.hpp"

namespace weir::runtime {

// The sign is written apart, because whole / 1000 of a small negative time would lose it.
std::string microseconds(std::int64_t ns) {
  const auto whole = static_cast<std::uint64_t>(ns < 0 ? -ns : ns);
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", whole / 1000, whole % 1000);
}

// One event stands on each line behind it; `metadata` is the content of a JSON object.
std::string trace_opening(std::string_view metadata) {
  return fmt::format(
      R"({{"displayTimeUnit":"ns",{}"traceEvents":[)"
      "\n",
      metadata.empty() ? "" : fmt::format(R"("metadata":{{{}}},)", metadata));
}

// `arguments` is the content of a JSON object, such as `"id":3`. Only the name is quoted
// here.
std::string duration_event(trace_line line, std::string_view category,
                           std::string_view name, std::int64_t start_ns,
                           std::int64_t duration_ns, std::string_view arguments) {
  return fmt::format(
      R"({{"name":{},"ph":"X","cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},)"
      R"("args":{{{}}}}})",
      json_quote(name), category, line.process, line.thread, microseconds(start_ns),
      microseconds(duration_ns), arguments);
}

std::string name_event(trace_line line, std::string_view kind, std::string_view name) {
  return fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})",
                     kind, line.process, line.thread, json_quote(name));
}

std::string counter_event(trace_line line, std::string_view name, std::int64_t time_ns,
                          std::string_view arguments) {
  return fmt::format(R"({{"name":{},"ph":"C","pid":{},"tid":{},"ts":{},"args":{{{}}}}})",
                     json_quote(name), line.process, line.thread, microseconds(time_ns),
                     arguments);
}

// "bp":"e" binds the head of an arrow to the duration that contains it. Otherwise viewers
// bind it to the next duration that begins.
std::string arrow_event(trace_line line, arrow_end end, std::string_view category,
                        std::string_view name, std::uint64_t id, std::int64_t time_ns) {
  return fmt::format(
      R"({{"name":{},"ph":{},"cat":"{}","pid":{},"tid":{},"ts":{},"id":{}}})",
      json_quote(name), end == arrow_end::tail ? R"("s")" : R"("f","bp":"e")", category,
      line.process, line.thread, microseconds(time_ns), id);
}

}  // namespace weir::runtime
