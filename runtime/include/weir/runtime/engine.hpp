// SPDX-License-Identifier: Apache-2.0
/// @file
/// The task engine: submits tasks with the regions they read and write, and starts each
/// one when its last conflicting predecessor has finished. Whatever the timing, the
/// result is that of serial execution.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/runtime/tensor.hpp"
#include "weir/runtime/trace.hpp"

namespace weir::runtime {

/// Sequence number of a task: never reused, 0 names none.
using task_id = std::uint64_t;

/// `none` asks for no order: it only keeps the storage from being released before the
/// task has ended. Tasks that `commute` on a region run one at a time, in the order of
/// their submission, so that sums of floating point numbers stay the same bit for bit.
enum class access_mode : std::uint8_t { read, write, read_write, none, commute };

/// A region and what a task does to it. A write may leave bytes as they were.
struct access {
  footprint bytes;
  access_mode mode = access_mode::read;
};
[[nodiscard]] inline access reads(const tensor& t) {
  return {t.bytes(), access_mode::read};
}
[[nodiscard]] inline access writes(const tensor& t) {
  return {t.bytes(), access_mode::write};
}
[[nodiscard]] inline access updates(const tensor& t) {
  return {t.bytes(), access_mode::read_write};
}
[[nodiscard]] inline access commutes(const tensor& t) {
  return {t.bytes(), access_mode::commute};
}
[[nodiscard]] inline access keeps(const tensor& t) {
  return {t.bytes(), access_mode::none};
}

/// How a task is to be run, beside what its accesses ask for.
struct submit_options {
  static constexpr std::uint8_t anywhere = 255;

  /// Tasks that end first. They are ordered and nothing else: a failure of theirs does
  /// not come along.
  std::span<const task_id> after;
  /// Taken before others by a worker that looks for a task.
  bool urgent = false;
  /// The worker that should run it, if it is not busy when others have nothing to do.
  std::uint8_t worker = anywhere;
};

struct engine_options {
  /// Runnable threads: workers - 1 of the engine's own, and the submitter's, which runs
  /// tasks while it waits.
  unsigned workers = 1;
  std::uint32_t window =
      4096;  ///< tasks in flight before submit makes room by running tasks
  /// Accesses of tasks in flight before submit makes room; 0 means 16 for each task of
  /// the window.
  std::uint32_t accesses = 0;
  task_id first_task = 1;  ///< number of the first task
  /// Count the time inside kernels, which costs two readings of a counter per task.
  bool kernel_time = true;
  /// After so long without the end of a task, while some are in flight, a thread says
  /// what each worker runs and what the submitter waits for; 0: nobody watches.
  std::int64_t watchdog_ns = 0;
  /// Called on that thread; without it the text goes to standard error.
  std::function<void(const std::string&)> on_stall;
  trace_options trace;
};

/// What the engine has done so far. Counts of tasks unless said otherwise.
struct engine_counters {
  std::uint64_t submitted = 0;
  std::uint64_t replayed = 0;  ///< those of them that came from a replay
  std::uint64_t finished = 0;
  std::uint64_t failed = 0;    ///< kernels that failed themselves
  std::uint64_t poisoned = 0;  ///< not run because a predecessor failed
  std::uint64_t edges_raw = 0;
  std::uint64_t edges_war = 0;
  std::uint64_t edges_waw = 0;
  std::uint64_t edges_asked = 0;  ///< by `submit_options::after`
  std::uint64_t lookups = 0;      ///< accesses looked up
  std::uint64_t exact_tests = 0;  ///< overlap decisions taken
  std::uint64_t maybe = 0;        ///< decisions that ended undecided
  std::uint64_t pruned = 0;  ///< accesses forgotten because a later write covers them
  std::uint64_t window_stalls = 0;  ///< submissions that found the window full
  std::uint64_t parks = 0;          ///< times a thread went to sleep
  std::int64_t kernel_ns = 0;       ///< time inside kernels, all threads
};

/// What a kernel gets from the engine besides its captures.
struct task_context {
  task_id id = 0;
  unsigned worker = 0;  ///< thread that runs it, in [0, workers)
  /// What `replay` or `begin_capture` was given; null for all other tasks.
  const void* argument = nullptr;
};

struct captured_graph;

/// A recorded stream of submissions, to be submitted again as a whole. Copies name the
/// same recording. Belongs to the engine that made it, and may outlive it.
/// @threads{thread-compatible}
class capture {
 public:
  capture() = default;
  /// Tasks of one replay.
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] bool valid() const noexcept { return graph_ != nullptr; }
  /// The tasks and who waits for whom, with the reason (RAW, WAR, WAW or asked) and both
  /// footprints of every edge that was found, those that others imply included. For dot.
  [[nodiscard]] std::string to_dot() const;
  /// The same as a picture of its own; reasons show when pointed at.
  [[nodiscard]] std::string to_svg() const;

 private:
  friend class engine;
  explicit capture(std::shared_ptr<captured_graph> graph) : graph_(std::move(graph)) {}
  std::shared_ptr<captured_graph> graph_;
};

/// One engine. All members but `counters` belong to one thread, the submitter.
/// @threads{thread-compatible: one submitter; kernels run on any worker}
class engine {
 public:
  /// Bytes that a kernel may capture. Captures are copied and never destroyed.
  static constexpr std::size_t max_capture = 128;

  /// @error{invalid_argument, no workers or a window that is no power of two}
  [[nodiscard]] static result<std::unique_ptr<engine>> create(
      const engine_options& options);
  /// Running kernels end; tasks that have not started never run.
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Allocates zeroed memory, 64-byte aligned. `owner` groups memory in reports.
  /// @error{out_of_memory, the allocation fails}
  [[nodiscard]] result<storage> allocate(std::int64_t bytes, std::string_view owner);
  /// Names memory of the caller, which outlives the storage.
  [[nodiscard]] storage adopt(std::byte* base, std::int64_t bytes,
                              std::string_view owner);
  /// Waits for the storage's tasks, then frees it; its id is not used again.
  /// @error{not_found, no such storage or generation}
  [[nodiscard]] result<void> release(storage_id id);

  /// Submits one task. `name` must outlive the engine (a literal). `kernel` is called
  /// once as `result<void>(const task_context&)` or `void(const task_context&)`; it must
  /// be trivially copyable and at most `max_capture` bytes. An exception from it is a
  /// failure of the task. Stalls (running other tasks) while the window is full.
  /// @error{not_found, a stale storage id; out_of_range, more accesses than fit;
  ///        invalid_argument, `options.after` names a task that was not submitted}
  template <class Kernel>
  [[nodiscard]] result<task_id> submit(const char* name, std::span<const access> accesses,
                                       const Kernel& kernel,
                                       const submit_options& options = {}) {
    static_assert(std::is_trivially_copyable_v<Kernel> && sizeof(Kernel) <= max_capture);
    return submit_erased(name, accesses, {&kernel, sizeof(Kernel), &call<Kernel>},
                         options);
  }

  /// From here to `end_capture`, submissions are recorded besides being carried out.
  /// Their kernels find `argument` in the context.
  /// @error{invalid_argument, a capture has begun already}
  [[nodiscard]] result<void> begin_capture(const void* argument = nullptr);
  /// @error{invalid_argument, no capture has begun; out_of_range, it has more tasks than
  ///        the window}
  [[nodiscard]] result<capture> end_capture();
  /// Submits the recorded tasks again, in one piece and without look-ups among them, with
  /// the same names, accesses and captured values; kernels find `argument` in their
  /// context. The ids are consecutive from the result on (0 if there are no tasks). The
  /// effect is that of submitting each task anew, whatever was submitted before and
  /// after.
  /// @error{invalid_argument, no capture of this engine, or one is being recorded;
  ///        not_found, a storage of it has been released}
  [[nodiscard]] result<task_id> replay(const capture& what,
                                       const void* argument = nullptr);
  /// From the next replay on, task `index` runs with other captured values.
  /// @error{invalid_argument, no such task, or its kernel is of another type}
  template <class Kernel>
  [[nodiscard]] result<void> rebind(const capture& what, std::size_t index,
                                    const Kernel& kernel) {
    static_assert(std::is_trivially_copyable_v<Kernel> && sizeof(Kernel) <= max_capture);
    return rebind_erased(what, index, &kernel, sizeof(Kernel), &call<Kernel>);
  }

  /// Runs tasks on this thread until the task has ended.
  /// @error{kernel_failed, with the kernel's name and its own error as cause;
  /// upstream_failed likewise for a
  ///        task that was poisoned, naming the kernel that failed first}
  [[nodiscard]] result<void> wait(task_id id);
  /// Waits for every task that writes the tensor.
  [[nodiscard]] result<void> wait(const tensor& t);
  /// Waits for all; returns the first failure (by task id) since the last `wait_all`.
  /// What failed tasks wrote poisons its readers and later writers until then, whenever
  /// they are submitted.
  [[nodiscard]] result<void> wait_all();
  /// True once the task has ended, in whatever way.
  [[nodiscard]] bool ended(task_id id) const noexcept;
  /// Runs at most one ready task on this thread; false if none was ready.
  bool run_one();
  /// Parks this thread until a task ends, becomes ready, `wake` is called or `timeout_ns`
  /// has passed.
  void idle(std::int64_t timeout_ns);
  /// Ends `idle` of the submitter. @threads{safe from any thread}
  void wake() noexcept;

  /// @threads{safe from any thread; values of running tasks may lag}
  [[nodiscard]] engine_counters counters() const noexcept;
  [[nodiscard]] unsigned workers() const noexcept;
  /// Bytes by owner, in order of first allocation.
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> memory() const;
  [[nodiscard]] trace& tracer() noexcept;

 private:
  using call_fn = result<void> (*)(const void* captures, const task_context&);
  template <class Kernel>
  static result<void> call(const void* captures, const task_context& context) {
    const auto& kernel = *static_cast<const Kernel*>(captures);
    if constexpr (std::is_void_v<
                      std::invoke_result_t<const Kernel&, const task_context&>>) {
      kernel(context);
      return {};
    } else {
      return kernel(context);
    }
  }
  /// A kernel without its type.
  struct erased_kernel {
    const void* captures;
    std::size_t size;
    call_fn fn;
  };
  [[nodiscard]] result<task_id> submit_erased(const char* name,
                                              std::span<const access> accesses,
                                              const erased_kernel& kernel,
                                              const submit_options& options);
  [[nodiscard]] result<void> rebind_erased(const capture& what, std::size_t index,
                                           const void* captures, std::size_t size,
                                           call_fn fn);

  struct impl;
  explicit engine(std::unique_ptr<impl> state);
  std::unique_ptr<impl> impl_;
};

}  // namespace weir::runtime
