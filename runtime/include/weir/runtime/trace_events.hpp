// SPDX-License-Identifier: Apache-2.0
/// @file
/// Events of Chrome traces, for all writers of such traces.
///
/// A file consists of `trace_opening`, events with commas between them, and
/// `trace_closing`. Each function returns one event as JSON. Times are in nanoseconds;
/// the file has them in microseconds.
/// @source{Trace Event Format}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::runtime {

/// A line of a trace: a thread of a process. Both are numbers for the viewer alone.
struct trace_line {
  std::int64_t process = 0;  ///< number of the process
  std::uint64_t thread = 0;  ///< number of the thread
};

/// Returns a time as the trace event format writes it: in microseconds, with three
/// decimals, because a floating point number would lose nanoseconds of long runs.
/// @units{ns, nanoseconds}
/// @threads{safe to call concurrently}
[[nodiscard]] std::string microseconds(std::int64_t ns);

/// Returns the beginning of a file.
/// @param metadata  Members of the object "metadata" as JSON; the file has no such object
/// if they are empty.
/// @threads{safe to call concurrently}
[[nodiscard]] std::string trace_opening(std::string_view metadata = {});
/// End of a file.
inline constexpr std::string_view trace_closing = "\n]}\n";

/// Returns a stretch of time on a line.
/// @param arguments  Members of the object "args" as JSON; may be empty. The same holds
/// for the functions below.
/// @units{start_ns, duration_ns: nanoseconds}
/// @threads{safe to call concurrently}
[[nodiscard]] std::string duration_event(trace_line line, std::string_view category,
                                         std::string_view name, std::int64_t start_ns,
                                         std::int64_t duration_ns,
                                         std::string_view arguments = {});
/// Returns the name of a line or of its process.
/// @param kind  "thread_name" or "process_name".
/// @threads{safe to call concurrently}
[[nodiscard]] std::string name_event(trace_line line, std::string_view kind,
                                     std::string_view name);
/// Returns the values of a counter from a time on.
/// @param arguments  The values by their names.
/// @units{time_ns: nanoseconds}
/// @threads{safe to call concurrently}
[[nodiscard]] std::string counter_event(trace_line line, std::string_view name,
                                        std::int64_t time_ns, std::string_view arguments);

/// An end of an arrow between two lines.
enum class arrow_end : std::uint8_t {
  tail,  ///< where the arrow begins
  head   ///< where it ends: at the duration that contains this time
};
/// Returns an end of an arrow.
/// @param id  Number that both ends of the arrow have.
/// @units{time_ns: nanoseconds}
/// @threads{safe to call concurrently}
[[nodiscard]] std::string arrow_event(trace_line line, arrow_end end,
                                      std::string_view category, std::string_view name,
                                      std::uint64_t id, std::int64_t time_ns);

}  // namespace weir::runtime
