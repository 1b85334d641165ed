// SPDX-License-Identifier: Apache-2.0
/// @file
/// Options and counters of the task engine.
/// @threads{values}
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "weir/runtime/access.hpp"
#include "weir/runtime/trace.hpp"

namespace weir::runtime {

/// Options of an engine. Threads, limits of tasks in flight, memory and diagnosis.
struct engine_options {
  /// Threads that run tasks: `workers - 1` threads of the engine, and the submitter while
  /// it waits.
  unsigned workers = 1;
  /// Largest number of workers. The places above `workers` are for threads that call
  /// `serve`; 0 means that there are none.
  unsigned max_workers = 0;
  std::uint32_t window =
      4096;  ///< tasks in flight before `submit` runs tasks first; a power of two
  /// Accesses of tasks in flight before `submit` runs tasks first; 0 means 16 for each
  /// task of the window.
  std::uint32_t accesses = 0;
  /// Edges of tasks in flight, beyond fourteen from each task, before `submit` runs the
  /// predecessor instead of storing an edge; 0 means 16 for each task of the window.
  std::uint32_t edges = 0;
  /// Bytes of the ring for fresh memory, which is allocated at its first use.
  std::int64_t heap = std::int64_t{64} << 20;
  task_id first_task = 1;  ///< number of the first task
  /// True to measure the time inside kernels, which costs two readings of a counter per
  /// task.
  bool kernel_time = true;
  /// Time without the end of a task, while some are in flight, after which a thread
  /// reports the tasks that workers run, the task that the submitter waits for and the
  /// edges between tasks. @units{nanoseconds; 0: no watchdog}
  std::int64_t watchdog_ns = 0;
  /// Receives the report on the thread of the watchdog; empty: the report goes to
  /// standard error.
  std::function<void(const std::string&)> on_stall;
  /// Moves work on that completes tasks, such as messages, and returns true if anything
  /// has moved. Called on threads that run tasks, by one at a time and only while tasks
  /// wait for their completion: by one idle worker again and again, between tasks when
  /// thirty times the length of a call have passed (2 to 200 us), and with one worker
  /// inside of waits. Must not throw, wait or use the engine; `complete` is allowed.
  std::function<bool()> poller;
  /// Longest time that the destructor waits for the completion of tasks whose kernels
  /// have returned. @units{nanoseconds}
  std::int64_t drain = 1'000'000'000;
  trace_options trace;  ///< tasks that are recorded
};

/// Counters of an engine since it was made. They count tasks unless a comment says
/// otherwise.
struct engine_counters {
  std::uint64_t submitted = 0;  ///< tasks, including those of replays
  std::uint64_t replayed = 0;   ///< submitted tasks that came from a replay
  std::uint64_t finished = 0;   ///< their writes are visible to the reader of the counter
  std::uint64_t failed = 0;     ///< tasks whose kernel failed
  std::uint64_t poisoned = 0;   ///< not run because a predecessor failed
  std::uint64_t postponed = 0;  ///< tasks that asked to end later
  std::uint64_t edges_raw = 0;  ///< edges from a writer to a reader
  std::uint64_t edges_war = 0;  ///< edges from a reader to a writer
  std::uint64_t edges_waw = 0;  ///< edges from a writer to a writer
  std::uint64_t edges_asked = 0;  ///< edges of `submit_options::after`
  std::uint64_t lookups = 0;      ///< accesses that were looked up
  std::uint64_t candidates = 0;   ///< live accesses that look-ups compared with
  std::uint64_t exact_tests =
      0;                     ///< comparisons that needed more than first and last byte
  std::uint64_t maybe = 0;   ///< overlap tests that gave up
  std::uint64_t pruned = 0;  ///< accesses forgotten because a later write covers them
  std::uint64_t edges_pruned = 0;   ///< conflicts that a later write replaces
  std::uint64_t window_stalls = 0;  ///< submissions that found the window full
  std::uint64_t access_stalls = 0;  ///< submissions that found the access ring full
  std::uint64_t edge_stalls = 0;    ///< edges that found the edge table full
  std::uint64_t heap_stalls = 0;    ///< requests of fresh memory that had to wait
  std::uint64_t parks = 0;          ///< times a thread went to sleep
  std::int64_t kernel_ns = 0;       ///< time inside kernels, all threads
};

}  // namespace weir::runtime
