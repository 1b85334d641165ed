// SPDX-License-Identifier: Apache-2.0
/// @file
/// The spans of a trace, and drawings of them: the load of the workers, the tasks of a
/// few pulses, and the shares of the kernels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::tools {

/// One span of a trace.
/// @units{start, length: microseconds; start is counted from the first span}
struct trace_span {
  std::uint32_t name = 0;  ///< index into `trace_data::names`
  std::uint32_t lane = 0;  ///< index into `trace_data::lanes`
  bool task = true;        ///< false for checkpoints, stalls and the like
  double start = 0;
  double length = 0;
};

/// The spans of a trace and their names.
struct trace_data {
  std::vector<std::string> names;
  std::vector<std::string> lanes;  ///< threads, in the order of their numbers
  std::vector<trace_span> spans;   ///< sorted by their start
  double length = 0;               ///< end of the last span, in microseconds
};

/// Reads the spans of a Chrome trace (events of phase "X") and the names of its threads.
/// @error{not_found, io, the file cannot be opened}
/// @error{corrupt, the file is not a trace in JSON}
[[nodiscard]] result<trace_data> read_trace(const std::string& path);

/// The time that the tasks of one kernel took.
struct kernel_share {
  std::uint32_t name = 0;   ///< index into `trace_data::names`
  std::uint64_t count = 0;  ///< tasks
  double total = 0;         ///< microseconds
};
/// Returns the kernels of a trace, the one with the most time first.
[[nodiscard]] std::vector<kernel_share> kernel_shares(const trace_data& trace);

/// Draws how busy each thread was over the whole time, as SVG. Stretches in which no task
/// was recorded stay empty.
[[nodiscard]] std::string draw_load(const trace_data& trace);
/// Draws every task of a stretch of time near the end, coloured by kernel, as SVG.
/// @param microseconds  Length of the stretch.
[[nodiscard]] std::string draw_tasks(const trace_data& trace, double microseconds);
/// Returns a table of the kernels with the colours of `draw_tasks`, as HTML.
[[nodiscard]] std::string kernel_table(const trace_data& trace);

}  // namespace weir::tools
