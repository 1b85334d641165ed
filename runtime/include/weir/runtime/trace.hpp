// SPDX-License-Identifier: Apache-2.0
/// @file
/// Records of tasks: the times of submission, readiness, start and end of each task, and
/// the predecessor that it waited for.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/base/file.hpp"

namespace weir::runtime {

/// Selection of the tasks that are recorded. `window` records the first and the last
/// seconds of a run and the pulses that the caller marks with `keep`.
enum class trace_mode : std::uint8_t { off, window, all };

/// Selection of tasks and limits of a trace.
struct trace_options {
  trace_mode mode = trace_mode::off;       ///< tasks that are recorded
  std::int64_t window_ns = 2'000'000'000;  ///< length of each end of the window
  std::uint64_t max_bytes =
      50'000'000;  ///< size of the file; the middle is left out first
};

/// Times of one task. @units{nanoseconds of the monotonic clock}
struct task_record {
  const char* name = nullptr;    ///< name of the kernel
  std::uint64_t id = 0;          ///< number of the task
  std::int64_t submitted = 0;    ///< time of the submission
  std::int64_t ready = 0;        ///< time when the last predecessor had ended
  std::int64_t started = 0;      ///< time when the kernel began
  std::int64_t ended = 0;        ///< time when the kernel ended
  std::uint64_t waited_for = 0;  ///< predecessor that ended last; 0: ready at once
  const char* waited_for_name = nullptr;  ///< name of the kernel of that predecessor
  std::uint32_t worker = 0;               ///< worker that ran the kernel
  std::uint64_t pulse = 0;                ///< pulse of the submission
  bool keep = false;                      ///< recorded whatever the window says
  std::int64_t completed =
      0;  ///< time of the completion; 0: the task ended with its kernel
};

/// Collects records in one ring per worker, and writes them to a file at the end.
/// @threads{record: each worker its own ring; the rest belongs to the submitter}
class trace {
 public:
  /// Makes a trace with one ring for each worker.
  trace(const trace_options& options, unsigned workers);
  ~trace();

  /// Returns true if tasks that are submitted now are recorded. If not, submissions read
  /// no clock.
  [[nodiscard]] bool recording() const noexcept {
    return recording_.load(std::memory_order_relaxed);
  }
  /// Begins a pulse. `keep` records its tasks also outside of the window.
  void begin_pulse(std::uint64_t pulse, bool keep);
  /// Returns the pulse of tasks that are submitted now.
  [[nodiscard]] std::uint64_t pulse() const noexcept { return pulse_; }
  /// Returns true if the tasks of this pulse are recorded also outside of the window.
  [[nodiscard]] bool keeps() const noexcept { return keep_; }
  /// Adds a record to the ring of a worker. @threads{called by that worker}
  void record(unsigned worker, const task_record& r) noexcept;
  /// Adds a span that is no task, such as a checkpoint, on the line of the file named
  /// `line`.
  /// @param arrow  Spans of one number other than 0 are joined by arrows, in the order of
  /// their starts.
  /// @units{nanoseconds of the monotonic clock}
  void span(std::string_view line, std::string_view name, std::int64_t start_ns,
            std::int64_t end_ns, std::uint64_t arrow = 0);
  /// Returns the records so far, oldest first.
  [[nodiscard]] std::vector<task_record> records() const;
  /// Writes the records as Chrome trace JSON of at most `max_bytes` bytes.
  /// @error{io; the file cannot be written} @error{no_space; the disk is full}
  [[nodiscard]] result<void> write(file_system& fs, const std::string& path) const;

 private:
  struct impl;
  std::atomic<bool> recording_{false};
  std::uint64_t pulse_ = 0;
  bool keep_ = false;
  std::unique_ptr<impl> impl_;
};

}  // namespace weir::runtime
