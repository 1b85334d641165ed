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
#include <stop_token>
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
/// their submission, so that sums of floating point numbers stay the same bit for bit;
/// with `commute_any` in whatever order they become ready, which is the one thing that
/// may make a result differ from that of serial execution.
enum class access_mode : std::uint8_t {
  read,
  write,
  read_write,
  none,
  commute,
  commute_any
};
/// Order of tasks that commute.
enum class commute_order : std::uint8_t { submission, any };

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
/// `any` holds between tasks whose first such access has exactly the same bytes, and
/// outside captures; all others go by submission.
[[nodiscard]] inline access commutes(const tensor& t,
                                     commute_order order = commute_order::submission) {
  return {t.bytes(),
          order == commute_order::any ? access_mode::commute_any : access_mode::commute};
}
[[nodiscard]] inline access keeps(const tensor& t) {
  return {t.bytes(), access_mode::none};
}

/// How a task is to be run, beside what its accesses ask for.
struct submit_options {
  static constexpr std::uint8_t anywhere = 255;

  /// Tasks that end first. They are ordered and nothing else: a failure of theirs does
  /// not come along, but in a manual scope, where nothing else can bring it.
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
  /// Places for workers: what is more than `workers` is for threads that `serve`; 0 means
  /// no more.
  unsigned most_workers = 0;
  std::uint32_t window =
      4096;  ///< tasks in flight before submit makes room by running tasks
  /// Accesses of tasks in flight before submit makes room; 0 means 16 for each task of
  /// the window.
  std::uint32_t accesses = 0;
  /// Edges of tasks in flight, beyond fourteen from each, before submit runs the one that
  /// is waited for instead of noting it; 0 means 16 for each task of the window.
  std::uint32_t edges = 0;
  /// Bytes of the ring that fresh memory comes from; taken when it is first asked for.
  std::int64_t heap = std::int64_t{64} << 20;
  task_id first_task = 1;  ///< number of the first task
  /// Count the time inside kernels, which costs two readings of a counter per task.
  bool kernel_time = true;
  /// After so long without the end of a task, while some are in flight, a thread says
  /// what each worker runs, what the submitter waits for and which tasks wait for which;
  /// 0: nobody watches.
  std::int64_t watchdog_ns = 0;
  /// Called on that thread; without it the text goes to standard error.
  std::function<void(const std::string&)> on_stall;
  trace_options trace;
};

/// What the engine has done so far. Counts of tasks unless said otherwise.
struct engine_counters {
  std::uint64_t submitted = 0;
  std::uint64_t replayed = 0;  ///< those of them that came from a replay
  std::uint64_t finished = 0;  ///< what these have done is seen by who reads this
  std::uint64_t failed = 0;    ///< kernels that failed themselves
  std::uint64_t poisoned = 0;  ///< not run because a predecessor failed
  std::uint64_t edges_raw = 0;
  std::uint64_t edges_war = 0;
  std::uint64_t edges_waw = 0;
  std::uint64_t edges_asked = 0;  ///< by `submit_options::after`
  std::uint64_t lookups = 0;      ///< accesses looked up
  std::uint64_t candidates = 0;   ///< live accesses that look-ups had to compare with
  std::uint64_t exact_tests = 0;  ///< those that first and last bytes do not decide
  std::uint64_t maybe = 0;        ///< decisions that ended undecided
  std::uint64_t pruned = 0;  ///< accesses forgotten because a later write covers them
  std::uint64_t edges_pruned = 0;   ///< conflicts that a later write stands for
  std::uint64_t window_stalls = 0;  ///< submissions that found the window full
  std::uint64_t access_stalls = 0;  ///< that found no room for their accesses
  std::uint64_t edge_stalls = 0;    ///< edges that found no room
  std::uint64_t heap_stalls = 0;    ///< requests of fresh memory that had to wait
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

/// How tasks inside a scope find their predecessors: `automatic` from their accesses; in
/// a `manual` one from `submit_options::after` alone: accesses are neither looked up nor
/// remembered, they only keep their storages.
enum class scope_kind : std::uint8_t { automatic, manual };

/// What a capture is made for: one that is only to be drawn may be of any length.
enum class capture_use : std::uint8_t { replay, drawing };

class engine;

/// An open scope of an engine. Closes when this goes, and all scopes inside it.
/// @threads{thread-compatible; belongs to the submitter}
class scope {
 public:
  scope() = default;
  scope(scope&& from) noexcept;
  scope& operator=(scope&& from) noexcept;
  ~scope() { close(); }
  /// Gives up all fresh memory that was made in it. Does not wait.
  void close() noexcept;

 private:
  friend class engine;
  scope(engine* of, std::uint64_t serial) : engine_(of), serial_(serial) {}
  engine* engine_ = nullptr;
  std::uint64_t serial_ = 0;
};

/// One engine. All members but `counters`, `serve` and `wake` belong to one thread, the
/// submitter. Programs with several submitters have one engine for each.
/// @threads{thread-compatible: one submitter; kernels run on any worker}
class engine {
 public:
  /// Bytes that a kernel may capture. Captures are copied and never destroyed.
  static constexpr std::size_t max_capture = 128;
  /// How they may be aligned at most.
  static constexpr std::size_t max_capture_alignment = 64;

  /// @error{invalid_argument, no workers, fewer places than workers, a heap of less than
  ///        nothing, or a window that is no power of two}
  [[nodiscard]] static result<std::unique_ptr<engine>> create(
      const engine_options& options);
  /// Running kernels end; tasks that have not started never run.
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Allocates zeroed memory, 64-byte aligned. `owner` groups memory in reports.
  /// @error{out_of_memory, the allocation fails}
  [[nodiscard]] result<storage> allocate(std::int64_t bytes, std::string_view owner);
  /// Names memory of the caller, which outlives the storage. Without an owner it is in
  /// nobody's sum of bytes.
  [[nodiscard]] storage adopt(std::byte* base, std::int64_t bytes,
                              std::string_view owner);
  /// Waits for the storage's tasks, then frees it; its id is not used again.
  /// @error{not_found, no such storage or generation}
  [[nodiscard]] result<void> release(storage_id id);

  /// Opens a scope inside the innermost open one. It may hold more tasks than the window.
  /// @error{invalid_argument, an automatic scope inside a manual one}
  [[nodiscard]] result<scope> open_scope(std::string_view name,
                                         scope_kind kind = scope_kind::automatic);
  /// Memory for a result, 64-byte aligned and with any content, from a ring of fixed
  /// size. It lives until its scope ends or it is given up, and its tasks have ended.
  /// Runs tasks while the ring is full.
  /// @error{out_of_range, larger than the heap; out_of_memory, at once and never after
  ///        waiting in vain: what is in the way is held by an open scope, which is named
  ///        together with the size of heap that would do}
  [[nodiscard]] result<storage> fresh(std::int64_t bytes);
  /// Another tensor of the same type and shape in fresh memory, of the same scope if
  /// `before` is fresh memory too: what writes it waits for nobody who reads or writes
  /// `before`.
  /// @error{invalid_argument, `before` is no row-major whole storage; as for `fresh`}
  [[nodiscard]] result<tensor> fresh_like(const tensor& before);
  /// The same, and `before` is given up first if it is fresh memory.
  [[nodiscard]] result<tensor> renew(const tensor& before);
  /// Ends the life of fresh memory before its scope ends: tasks submitted so far use it,
  /// later ones cannot. Does nothing if it has been given up. Does not wait.
  /// @error{not_found, never a storage; invalid_argument, no fresh memory}
  [[nodiscard]] result<void> give_up(storage_id id);

  /// Until `end_batch`, tasks that are ready are kept back and then start together, or
  /// as soon as this thread waits: one hand-over to the workers instead of many.
  void begin_batch() noexcept;
  void end_batch();

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
    static_assert(may_be_captured<Kernel>);
    return submit_erased(name, accesses, {&kernel, captured<Kernel>, &call<Kernel>},
                         options);
  }

  /// Tasks that can be submitted one by one before a submission has to wait, as far as
  /// the window goes. Retires what has ended.
  [[nodiscard]] std::uint32_t room();
  /// Tasks that can be in flight. @threads{safe from any thread}
  [[nodiscard]] std::uint32_t window() const noexcept;

  /// From here to `end_capture`, submissions are recorded besides being carried out.
  /// Their kernels find `argument` in the context.
  /// @error{invalid_argument, a capture has begun already}
  [[nodiscard]] result<void> begin_capture(const void* argument = nullptr);
  /// @error{invalid_argument, no capture has begun; out_of_range, it has more tasks than
  ///        the window and is not for drawing only}
  [[nodiscard]] result<capture> end_capture(capture_use use = capture_use::replay);
  /// Submits the recorded tasks again, in one piece and without look-ups among them, with
  /// the same names, accesses and captured values; kernels find `argument` in their
  /// context. The ids are consecutive from the result on (0 if there are no tasks). The
  /// effect is that of submitting each task anew, whatever was submitted before and
  /// after.
  /// @error{invalid_argument, no capture of this engine, one for drawing only, or one is
  ///        being recorded; not_found, a storage of it has been released}
  [[nodiscard]] result<task_id> replay(const capture& what,
                                       const void* argument = nullptr);
  /// From the next replay on, task `index` runs with other captured values.
  /// @error{invalid_argument, no such task, or its kernel is of another type}
  template <class Kernel>
  [[nodiscard]] result<void> rebind(const capture& what, std::size_t index,
                                    const Kernel& kernel) {
    static_assert(may_be_captured<Kernel>);
    return rebind_erased(what, index, &kernel, captured<Kernel>, &call<Kernel>);
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
  /// The calling thread joins the workers until it is asked to leave or the engine goes,
  /// which waits for it. What it leaves undone others do.
  /// @error{out_of_range, every place is taken} @threads{safe from any thread but the
  /// submitter}
  [[nodiscard]] result<void> serve(const std::stop_token& leave);

  /// @threads{safe from any thread; values of running tasks may lag}
  [[nodiscard]] engine_counters counters() const noexcept;
  /// Places for workers; `task_context::worker` is below.
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
  template <class Kernel>
  static constexpr bool may_be_captured = std::is_trivially_copyable_v<Kernel> &&
                                          sizeof(Kernel) <= max_capture &&
                                          alignof(Kernel) <= max_capture_alignment;
  /// Bytes to copy of a kernel.
  template <class Kernel>
  static constexpr std::size_t captured = std::is_empty_v<Kernel> ? 0 : sizeof(Kernel);
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

  friend class scope;
  void close_scope(std::uint64_t serial) noexcept;

  struct impl;
  explicit engine(std::unique_ptr<impl> state);
  std::unique_ptr<impl> impl_;
};

}  // namespace weir::runtime
