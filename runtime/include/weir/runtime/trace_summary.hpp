// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a trace says at a glance: the chain of tasks that decided when it ended, what
/// each worker did when, and what tasks waited for.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weir/runtime/trace.hpp"

namespace weir::runtime {

/// Times in nanoseconds.
struct trace_summary {
  static constexpr std::size_t slices = 60;

  /// A task of the critical path.
  struct step {
    std::uint64_t id = 0;
    std::string name;
    std::int64_t waited = 0;  ///< since the one before had ended, else its submission
    std::int64_t ran = 0;
  };
  struct worker_line {
    std::uint32_t worker = 0;
    std::uint64_t tasks = 0;
    std::int64_t busy = 0;
    std::array<double, slices> share{};  ///< of each slice of the trace, in [0, 1]
  };
  struct wait {
    std::string reason;  ///< "data of NAME" or "a free worker"
    std::int64_t sum = 0;
    std::uint64_t tasks = 0;
  };

  std::int64_t begin = 0;  ///< first submission
  std::int64_t end = 0;    ///< last end
  /// Oldest first. Each waited for the one before it: for its data, or for the worker
  /// that it ran on.
  std::vector<step> critical_path;
  std::vector<worker_line> workers;
  std::vector<wait> waits;  ///< longest first

  [[nodiscard]] std::int64_t path_ran() const noexcept;
  [[nodiscard]] std::int64_t path_waited() const noexcept;
  /// Of all that tasks waited, in [0, 1].
  [[nodiscard]] double share_of(const wait& w) const noexcept;
};

/// Of the tasks of a trace, in any order. A path begins where the task whose data were
/// waited for is not among them.
/// @threads{pure}
[[nodiscard]] trace_summary summarize(std::span<const task_record> records);

/// A few dozen lines for a terminal.
[[nodiscard]] std::string to_text(const trace_summary& summary);

}  // namespace weir::runtime
