// SPDX-License-Identifier: Apache-2.0
/// @file
/// Summary of a trace: the chain of tasks that decided when it ended, the load of each
/// worker over time, and the reasons for which tasks waited.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weir/runtime/trace.hpp"

namespace weir::runtime {

/// Summary of a trace. @units{nanoseconds}
struct trace_summary {
  /// Number of equal parts into which the time of the trace is cut.
  static constexpr std::size_t slices = 60;

  /// A task of the critical path.
  struct step {
    std::uint64_t id = 0;     ///< number of the task
    std::string name;         ///< name of its kernel
    std::int64_t waited = 0;  ///< since the step before had ended
    std::int64_t ran = 0;     ///< time inside the kernel
  };
  /// Load of one worker.
  struct worker_line {
    std::uint32_t worker = 0;  ///< number of the worker
    std::uint64_t tasks = 0;   ///< tasks that it ran
    std::int64_t busy = 0;     ///< time inside kernels
    std::array<double, slices>
        share{};  ///< share of each slice that it was busy, in [0, 1]
  };
  /// Reason for which tasks waited.
  struct wait {
    std::string reason;       ///< "data of NAME" or "a free worker"
    std::int64_t sum = 0;     ///< time that they waited together
    std::uint64_t tasks = 0;  ///< number of tasks
  };

  std::int64_t begin = 0;  ///< first submission
  std::int64_t end = 0;    ///< last end
  /// Chain of tasks that decided the end, oldest first. Each waited for the task before
  /// it: for its data, or for the worker that it ran on.
  std::vector<step> critical_path;
  std::vector<worker_line> workers;  ///< load of the workers, by number
  std::vector<wait> waits;           ///< reasons for waiting, longest first

  /// Returns the time inside the kernels of the critical path.
  [[nodiscard]] std::int64_t path_ran() const noexcept;
  /// Returns the time that tasks of the critical path waited.
  [[nodiscard]] std::int64_t path_waited() const noexcept;
  /// Returns the share that one reason has in all waiting, in [0, 1].
  [[nodiscard]] double share_of(const wait& w) const noexcept;
};

/// Summarises the tasks of a trace, which may be in any order. The critical path begins
/// where the predecessor is not among them.
/// @threads{pure}
[[nodiscard]] trace_summary summarize(std::span<const task_record> records);

/// Returns the summary as a few dozen lines for a terminal.
[[nodiscard]] std::string to_text(const trace_summary& summary);

}  // namespace weir::runtime
