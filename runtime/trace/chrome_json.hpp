// SPDX-License-Identifier: Apache-2.0
/// @file
/// Chrome trace JSON of task records.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "weir/runtime/trace.hpp"

namespace weir::runtime {

/// A stretch of time on a line of its own, such as a checkpoint or a stall.
struct trace_span {
  std::string line;
  std::string name;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t arrow = 0;  ///< spans of one number are joined by arrows; 0: none
};

/// Writes records, oldest first, as complete events, with one line per worker and one per
/// name of spans. Leaves out records from the middle until the file has at most
/// `max_bytes` bytes. @error{io, no_space, from the file system}
[[nodiscard]] result<void> write_chrome_json(file_system& fs, const std::string& path,
                                             std::span<const task_record> tasks,
                                             std::span<const trace_span> spans,
                                             unsigned workers, std::uint64_t max_bytes);

}  // namespace weir::runtime
