// SPDX-License-Identifier: Apache-2.0
/// @file
/// trace.json of a run, read piece by piece, and the time line of its workers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::tools {

/// One complete span of the trace; times in microseconds from the first one.
struct trace_span {
  std::uint32_t name = 0;  ///< index into `trace_data::names`
  std::uint32_t lane = 0;  ///< index into `trace_data::lanes`
  bool task = true;        ///< false: a checkpoint, a stall, ... on a line of its own
  double start = 0;
  double length = 0;
};

struct trace_data {
  std::vector<std::string> names;
  std::vector<std::string> lanes;  ///< threads, in the order of their numbers
  std::vector<trace_span> spans;   ///< by start
  double length = 0;               ///< end of the last span
};

/// Reads the complete events ("X") of a Chrome trace without building its tree.
/// @error{corrupt, not JSON; with the place} @error{not_found, io, the file}
[[nodiscard]] result<trace_data> read_trace(const std::string& path);

/// Share of each kernel in the recorded time of tasks, longest first.
struct kernel_share {
  std::uint32_t name = 0;
  std::uint64_t count = 0;
  double total = 0;  ///< microseconds
};
[[nodiscard]] std::vector<kernel_share> kernel_shares(const trace_data& trace);

/// How busy each thread was over the whole time. A stretch in which nothing was recorded
/// stays empty.
[[nodiscard]] std::string draw_load(const trace_data& trace);
/// Every task of a few pulses near the end, coloured by kernel.
[[nodiscard]] std::string draw_tasks(const trace_data& trace, double microseconds);
/// Table of the kernels with the colours of `draw_tasks`, as HTML.
[[nodiscard]] std::string kernel_table(const trace_data& trace);

}  // namespace weir::tools
