// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the events of a Chrome trace one after another, for the summary of `weir trace`
/// and for the drawings of a report.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "weir/base/error.hpp"

namespace weir::tools {

/// One event. Members are named after the keys of the format, without abbreviations;
/// those of absent keys are empty or 0.
/// @units{start, duration, submitted, ready: microseconds}
/// @source{Trace Event Format; the arguments are those that the engine writes}
struct trace_event {
  std::string name;
  std::string phase;     ///< "X": a span with a duration; "M": the name of a thread, ...
  std::string category;  ///< "task" for tasks of the engine
  double thread = 0;
  double start = 0;
  double duration = 0;

  // Keys of "args".
  std::string argument_name;  ///< name of the thread in an event of phase "M"
  std::string waited_for_name;
  std::uint64_t id = 0;
  std::uint64_t waited_for = 0;
  std::uint64_t pulse = 0;
  double submitted = 0;
  double ready = 0;
};

/// Calls a function with each event of a trace, in the order of the file.
///
/// The file is parsed as a stream: no tree of it is built, so a large trace needs little
/// memory. Both forms of the format are read: a list of events, and an object that holds
/// the list as "traceEvents".
/// @param path  A file, or "-" for standard input.
/// @param visit  Is called before the rest of the file is read, also if that is damaged.
/// @error{not_found, io, the file cannot be opened}
/// @error{corrupt, the file is not JSON, is nested too deeply, or holds no list of
/// events}
[[nodiscard]] result<void> read_trace_events(
    const std::string& path, const std::function<void(const trace_event&)>& visit);

}  // namespace weir::tools
