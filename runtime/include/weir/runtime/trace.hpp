// SPDX-License-Identifier: Apache-2.0
/// @file
/// What happened when: every task with its submit, ready, start and end times and why it
/// waited.
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

/// `window`: the first and last 2 s, and what the caller marks with `keep` (every 100th
/// pulse).
enum class trace_mode : std::uint8_t { off, window, all };

struct trace_options {
  trace_mode mode = trace_mode::off;
  std::int64_t window_ns = 2'000'000'000;  ///< length of each end of the window
  std::uint64_t max_bytes = 50'000'000;    ///< of the file; the middle gives way first
};

/// One task's history; times in nanoseconds of the monotonic clock.
struct task_record {
  const char* name = nullptr;
  std::uint64_t id = 0;
  std::int64_t submitted = 0;
  std::int64_t ready = 0;
  std::int64_t started = 0;
  std::int64_t ended = 0;
  std::uint64_t waited_for =
      0;  ///< the predecessor that ended last, 0 if it was ready at once
  const char* waited_for_name = nullptr;  ///< its kernel
  std::uint32_t worker = 0;
  std::uint64_t pulse = 0;
  bool keep = false;  ///< recorded whatever the window says
};

/// Collects records in one ring per worker; written out once, at the end.
/// @threads{record: each worker its own ring; the rest belongs to the submitter}
class trace {
 public:
  trace(const trace_options& options, unsigned workers);
  ~trace();

  /// Whether tasks submitted now are to be recorded: false keeps the hot path free of
  /// clock reads.
  [[nodiscard]] bool recording() const noexcept {
    return recording_.load(std::memory_order_relaxed);
  }
  /// Called at the start of each pulse; `keep` records it whatever the window says.
  void begin_pulse(std::uint64_t pulse, bool keep);
  /// Of tasks submitted now: their pulse, and whether it is kept.
  [[nodiscard]] std::uint64_t pulse() const noexcept { return pulse_; }
  [[nodiscard]] bool keeps() const noexcept { return keep_; }
  void record(unsigned worker, const task_record& r) noexcept;
  /// A span that is no task (a checkpoint, a stall), drawn on its own line.
  void span(std::string_view line, std::string_view name, std::int64_t start_ns,
            std::int64_t end_ns);
  /// Records kept so far, oldest first.
  [[nodiscard]] std::vector<task_record> records() const;
  /// Chrome trace JSON, which Perfetto opens; at most `max_bytes`.
  [[nodiscard]] result<void> write(file_system& fs, const std::string& path) const;

 private:
  struct impl;
  std::atomic<bool> recording_{false};
  std::uint64_t pulse_ = 0;
  bool keep_ = false;
  std::unique_ptr<impl> impl_;
};

}  // namespace weir::runtime
