// SPDX-License-Identifier: Apache-2.0
/// @file
/// The task engine: takes tasks with the regions that they read and write, and starts
/// each task when its last conflicting predecessor has ended. The result is that of
/// running the tasks one after another, whatever the timing.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/runtime/access.hpp"
#include "weir/runtime/engine_options.hpp"
#include "weir/runtime/tensor.hpp"
#include "weir/runtime/trace.hpp"

namespace weir::runtime {

class completion_table;

/// The right and the duty to end one task. `task_context::later` makes it; `complete`
/// uses it up. If it is destroyed or overwritten before, the task fails as `abandoned`.
/// It may outlive its engine.
/// @threads{`complete` and `awaited`: safe from any thread; the rest: thread-compatible}
class completion {
 public:
  /// Makes a handle that names no task.
  completion() noexcept = default;
  /// Takes over the task of another handle, which names none afterwards.
  completion(completion&& from) noexcept;
  /// Drops the own task and takes over that of another handle.
  completion& operator=(completion&& from) noexcept;
  /// Drops the task: unless it has been completed, it fails as `abandoned`.
  ~completion();

  /// Returns the number of the task; 0 if the handle names none.
  [[nodiscard]] task_id task() const noexcept { return id_; }
  /// Returns true if the engine lives and still waits for the task's completion.
  [[nodiscard]] bool awaited() const noexcept;

 private:
  friend class scheduler;
  friend result<void> complete(const completion& handle, result<void> outcome);
  completion(std::shared_ptr<completion_table> table, task_id id,
             const char* name) noexcept
      : table_(std::move(table)), id_(id), name_(name) {}
  void drop() noexcept;

  std::shared_ptr<completion_table> table_;
  task_id id_ = 0;
  const char* name_ = "";
};

/// Ends the task of a handle, once its kernel has returned; an error is the failure of
/// the task. May be called while the kernel still runs. Waits for nothing, takes no lock
/// and, on success, allocates nothing. On a thread that runs tasks of the engine it
/// releases the successors itself; elsewhere a worker does so soon, or the submitter when
/// it waits next if there is no other worker.
/// @error{internal; the task has been completed before} @error{invalid_argument; the
/// handle names no task} @error{stopping; the engine has ended}
/// @threads{safe from any thread}
result<void> complete(const completion& handle, result<void> outcome = {});

struct task;

/// Facts that a kernel gets from the engine beside its captures.
struct task_context {
  task_id id = 0;       ///< number of the task
  unsigned worker = 0;  ///< thread that runs it, in [0, workers)
  /// Argument of `replay` or `begin_capture`; null for all other tasks.
  const void* argument = nullptr;

  /// Makes a context of no task, for kernels that are called without an engine.
  task_context() = default;
  /// Makes such a context with these facts.
  task_context(task_id number, unsigned on_worker, const void* with = nullptr) noexcept
      : id(number), worker(on_worker), argument(with) {}
  /// Copies the facts; `later` belongs to the context that the kernel was given.
  task_context(const task_context& from) noexcept
      : task_context(from.id, from.worker, from.argument) {}
  task_context& operator=(const task_context&) = delete;

  /// Lets the task end when the handle is completed, and not before its kernel has
  /// returned. The worker goes on with other tasks meanwhile; the task keeps its place in
  /// the window, its turn among tasks that commute, and the bytes that it has declared. A
  /// failure of the kernel is a failure of the task, whatever the completion says.
  /// @pre called once, while the kernel runs, on its thread and with its own context; a
  /// contract violation otherwise, which is a failure of the task
  /// @throws std::bad_alloc without memory for the engine's table of such tasks
  [[nodiscard]] completion later() const;
  /// Returns true if the kernel is called because of `submit_options::though_poisoned`:
  /// the task failed before, because an earlier one did, and its bytes are undefined.
  /// @pre called before `later`, on the thread of the kernel and with its own context
  [[nodiscard]] bool poisoned() const noexcept;

 private:
  friend class scheduler;
  task_context(task_id number, unsigned on_worker, const void* with, task& own) noexcept
      : id(number), worker(on_worker), argument(with), postponable_(&own) {}
  mutable task* postponable_ = nullptr;  ///< null once the task ends later
};

struct captured_graph;

/// A recorded sequence of submissions, which can be submitted again as a whole. Copies
/// name the same recording. It belongs to the engine that made it, and may outlive it.
/// @threads{thread-compatible}
class capture {
 public:
  /// Makes a capture that names no recording.
  capture() = default;
  /// Returns the number of tasks of one replay.
  [[nodiscard]] std::size_t size() const noexcept;
  /// Returns true if it names a recording.
  [[nodiscard]] bool valid() const noexcept { return graph_ != nullptr; }
  /// Returns the tasks and edges as text for Graphviz. Each edge has its reason (RAW,
  /// WAR, WAW or asked) and both footprints; edges that others imply are included.
  [[nodiscard]] std::string to_dot() const;
  /// Returns the tasks and edges as an SVG picture, in which edges show their reasons.
  [[nodiscard]] std::string to_svg() const;

 private:
  friend class engine;
  explicit capture(std::shared_ptr<captured_graph> graph) : graph_(std::move(graph)) {}
  std::shared_ptr<captured_graph> graph_;
};

/// Source of the predecessors of tasks in a scope. `automatic`: their accesses. `manual`:
/// `submit_options::after` alone; accesses are neither looked up nor remembered, and only
/// keep their storages.
enum class scope_kind : std::uint8_t { automatic, manual };

/// Purpose of a capture. A capture for drawing may have any number of tasks.
enum class capture_use : std::uint8_t { replay, drawing };

class engine;

/// An open scope of an engine. Its destructor closes it and all scopes inside it.
/// @threads{thread-compatible; belongs to the submitter}
class scope {
 public:
  /// Makes an object without an open scope.
  scope() = default;
  /// Takes over an open scope.
  scope(scope&& from) noexcept;
  /// Closes the own scope and takes over another.
  scope& operator=(scope&& from) noexcept;
  ~scope() { close(); }
  /// Closes the scope and gives up all fresh memory that was made in it. Does not wait.
  void close() noexcept;

 private:
  friend class engine;
  scope(engine* owner, std::uint64_t serial) : engine_(owner), serial_(serial) {}
  engine* engine_ = nullptr;
  std::uint64_t serial_ = 0;
};

/// A task engine. One thread, the submitter, calls all members except `counters`,
/// `serve`, `window` and `wake`. A program with several submitters has an engine for
/// each.
/// @threads{thread-compatible: one submitter; kernels run on any worker}
class engine {
 public:
  /// Largest size of the captures of a kernel in bytes. Captures are copied and never
  /// destroyed.
  static constexpr std::size_t max_capture = 128;
  /// Largest alignment of the captures of a kernel in bytes.
  static constexpr std::size_t max_capture_alignment = 64;

  /// Makes an engine and starts its threads.
  /// @error{invalid_argument; no workers, a `max_workers` below `workers`, a negative
  /// heap, or a window that is no power of two} @error{out_of_memory; no memory for its
  /// tables}
  [[nodiscard]] static result<std::unique_ptr<engine>> create(
      const engine_options& options);
  /// Waits for the kernels that run, and at most for `engine_options::drain` for the
  /// completion of tasks whose kernels have returned. What is not completed by then ends
  /// as `stopping`. Tasks that have not started never run.
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Allocates zeroed memory, aligned to 64 bytes. `owner` groups memory in reports.
  /// @units{bytes} @error{out_of_memory; the allocation fails}
  [[nodiscard]] result<storage> allocate(std::int64_t bytes, std::string_view owner);
  /// Makes a storage of memory of the caller, who keeps it until the storage is released.
  /// An empty `owner` leaves the bytes out of reports.
  [[nodiscard]] storage adopt(std::byte* base, std::int64_t bytes,
                              std::string_view owner);
  /// Waits for the tasks of a storage and frees it. Its id is not used again.
  /// @error{not_found; no such storage or generation}
  [[nodiscard]] result<void> release(storage_id id);

  /// Adds a function that is called beside `engine_options::poller` and under the same
  /// rules, and returns its number.
  [[nodiscard]] std::uint64_t add_poller(std::function<bool()> poller);
  /// Removes a function of `add_poller`, and waits while a thread is inside of it.
  /// @pre not called by a poller
  void remove_poller(std::uint64_t number) noexcept;

  /// Opens a scope inside the innermost open one. It may hold more tasks than the window.
  /// @error{invalid_argument; an automatic scope inside a manual one}
  [[nodiscard]] result<scope> open_scope(std::string_view name,
                                         scope_kind kind = scope_kind::automatic);
  /// Takes memory for a result from a ring of fixed size, aligned to 64 bytes and with
  /// undefined content. It lives until its scope ends or `give_up`, and its tasks have
  /// ended. Runs tasks while the ring is full. @units{bytes}
  /// @error{out_of_range; larger than the heap}
  /// @error{out_of_memory; an open scope holds the memory that is needed; returned at
  /// once, with the scope and the size of heap that would be enough}
  [[nodiscard]] result<storage> fresh(std::int64_t bytes);
  /// Makes a tensor of the same type and shape in fresh memory, in the scope of `before`
  /// if that is fresh memory too. Writers of it do not wait for tasks that use `before`.
  /// @error{invalid_argument; `before` is no row-major whole storage}
  /// @error{out_of_memory; see `fresh`}
  [[nodiscard]] result<tensor> fresh_like(const tensor& before);
  /// Gives `before` up if it is fresh memory, then makes a tensor as `fresh_like`.
  /// @error{invalid_argument; see `fresh_like`} @error{out_of_memory; see `fresh`}
  [[nodiscard]] result<tensor> renew(const tensor& before);
  /// Ends the life of fresh memory before its scope ends: tasks that were submitted so
  /// far use it, later tasks cannot. Does nothing the second time. Does not wait.
  /// @error{not_found; never a storage} @error{invalid_argument; no fresh memory}
  [[nodiscard]] result<void> give_up(storage_id id);

  /// Begins a batch. Ready tasks are held back until `end_batch`, or until this thread
  /// waits, and then start together: one hand-over to the workers instead of many.
  void begin_batch() noexcept;
  /// Ends a batch and starts its ready tasks.
  void end_batch();

  /// Submits one task and returns its number. `name` must outlive the engine (a literal).
  /// `kernel` is called once as `result<void>(const task_context&)` or `void(const
  /// task_context&)`; it must be trivially copyable and at most `max_capture` bytes. An
  /// exception from it is a failure of the task. Runs other tasks while the window is
  /// full.
  /// @error{not_found; a stale storage id} @error{out_of_range; more accesses than fit}
  /// @error{invalid_argument; `options.after` names a task that was not submitted}
  template <class Kernel>
  [[nodiscard]] result<task_id> submit(const char* name, std::span<const access> accesses,
                                       const Kernel& kernel,
                                       const submit_options& options = {}) {
    static_assert(may_be_captured<Kernel>);
    return submit_erased(name, accesses, {&kernel, captured<Kernel>, &call<Kernel>},
                         options);
  }

  /// Retires tasks that have ended, and returns how many tasks the window takes before a
  /// submission has to wait.
  [[nodiscard]] std::uint32_t free_slots();
  /// Retires tasks that have ended if there is need, and returns true if the window and
  /// the table of accesses take a task of so many accesses without waiting.
  [[nodiscard]] bool accepts(std::size_t accesses);
  /// Returns the largest number of tasks in flight. @threads{safe from any thread}
  [[nodiscard]] std::uint32_t window() const noexcept;

  /// Begins a capture: submissions until `end_capture` are recorded, and run as usual.
  /// Their kernels find `argument` in the context. @error{invalid_argument; a capture has
  /// begun already}
  [[nodiscard]] result<void> begin_capture(const void* argument = nullptr);
  /// Returns true if a capture has begun and not ended.
  [[nodiscard]] bool is_capturing() const noexcept;
  /// Ends the capture and returns it. @error{invalid_argument; no capture has begun}
  /// @error{out_of_range; it has more tasks than the window and is not for drawing}
  [[nodiscard]] result<capture> end_capture(capture_use use = capture_use::replay);
  /// Submits the recorded tasks again, as a whole and without look-ups among them, with
  /// the same names, accesses and captures. Kernels find `argument` in their context.
  /// Returns the number of the first task; the others follow it (0 if there are no
  /// tasks). The effect is that of submitting each task again.
  /// @error{invalid_argument; no capture of this engine, one for drawing, or a capture
  /// has begun} @error{not_found; a storage of it has been released}
  [[nodiscard]] result<task_id> replay(const capture& recorded,
                                       const void* argument = nullptr);
  /// Replaces the captures of task `index` in all later replays.
  /// @error{invalid_argument; no such task, or its kernel is of another type}
  template <class Kernel>
  [[nodiscard]] result<void> rebind(const capture& recorded, std::size_t index,
                                    const Kernel& kernel) {
    static_assert(may_be_captured<Kernel>);
    return rebind_erased(recorded, index, &kernel, captured<Kernel>, &call<Kernel>);
  }

  /// Runs tasks on this thread until the task has ended.
  /// @error{kernel_failed; its kernel failed; the cause is the error of the kernel}
  /// @error{upstream_failed; it did not run, because an earlier task failed}
  [[nodiscard]] result<void> wait(task_id id);
  /// Waits for every task that writes the tensor.
  /// @error{kernel_failed; one of them failed} @error{upstream_failed; one did not run}
  [[nodiscard]] result<void> wait(const tensor& t);
  /// Waits for all tasks and returns the first failure, by number, since the last
  /// `wait_all`. Until then the regions that failed tasks write poison their readers and
  /// later writers.
  /// @error{kernel_failed; a kernel failed}
  [[nodiscard]] result<void> wait_all();
  /// Returns true if the task has run, has failed or was poisoned.
  [[nodiscard]] bool ended(task_id id) const noexcept;
  /// Runs one ready task on this thread. Returns false if none was ready.
  bool run_one();
  /// Waits until a task ends or becomes ready, until `wake`, or until the time has
  /// passed.
  /// @units{timeout_ns: nanoseconds}
  void idle(std::int64_t timeout_ns);
  /// Ends a call of `idle`. @threads{safe from any thread}
  void wake() noexcept;
  /// Runs tasks on the calling thread until it is asked to leave or the engine ends. The
  /// end of the engine waits for it. Tasks that it leaves are run by others.
  /// @error{out_of_range; there are `max_workers` workers} @threads{safe from any thread
  /// but the submitter}
  [[nodiscard]] result<void> serve(const std::stop_token& leave);

  /// Returns the counters. @threads{safe from any thread; values of running tasks may
  /// lag}
  [[nodiscard]] engine_counters counters() const noexcept;
  /// Returns how many tasks have been submitted and not ended. @threads{see `counters`}
  [[nodiscard]] std::uint64_t in_flight() const noexcept;
  /// Returns how many tasks have failed, or were not run because another one had failed:
  /// `counters().failed + counters().poisoned` in less time. @threads{see `counters`}
  [[nodiscard]] std::uint64_t failures() const noexcept;
  /// Number of tags that tasks can have.
  static constexpr std::uint16_t max_tags = 64;
  /// Gives a tag to the tasks that are submitted from now on; those of a replay have the
  /// tags of its capture. At first the tag is 0, and larger ones than the last one count
  /// as the last one. @threads{the submitter}
  void tag_tasks(std::uint16_t tag) noexcept;
  /// Returns the time inside kernels by tag, of all threads together, in nanoseconds.
  /// Zeros if `engine_options::kernel_time` is false and no task is traced. Of short
  /// kernels that `direct_calls` calls, some are timed and stand for the others.
  /// @threads{see `counters`}
  [[nodiscard]] std::array<std::int64_t, max_tags> kernel_times() const noexcept;
  /// Returns the largest number of workers; `task_context::worker` is below it.
  [[nodiscard]] unsigned workers() const noexcept;
  /// Returns the bytes of each owner, in the order of their first allocation.
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> memory() const;
  /// Returns the trace of this engine.
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
  [[nodiscard]] result<void> rebind_erased(const capture& recording, std::size_t index,
                                           const void* captures, std::size_t size,
                                           call_fn fn);

  friend class direct_calls;
  friend class scope;
  void close_scope(std::uint64_t serial) noexcept;

  struct impl;
  explicit engine(std::unique_ptr<impl> state);
  std::unique_ptr<impl> impl_;
};

}  // namespace weir::runtime
