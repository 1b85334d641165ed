// SPDX-License-Identifier: Apache-2.0
/// @file
/// One operation of a stream: the tasks that it submits, and the work of each task.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/tessera/stream/device_chains.hpp"
#include "weir/tessera/stream/ref.hpp"
#include "weir/tessera/stream/submission_lock.hpp"

namespace weir::tessera {

class context;
class device_step;
class operation;
class point;
class stream;
struct native_pieces;

/// Turns one operation into tasks of the engine.
/// @threads{the thread that holds the submission lock}
class submission {
 public:
  /// Begins the submission of `operation`, which lives until its last step has ended.
  submission(submission_lock::guard& in, device_chains& chains, ref<operation> operation)
      : in_(in), chains_(chains), operation_(std::move(operation)), owners_(true) {}
  /// Begins the submission of a graph, which keeps its operations alive itself.
  submission(submission_lock::guard& in, device_chains& chains)
      : in_(in), chains_(chains), owners_(false) {}

  /// Returns the right to submit.
  [[nodiscard]] submission_lock::guard& guard() const noexcept { return in_; }
  /// Returns the device chains that the tasks run on.
  [[nodiscard]] device_chains& chain_count() const noexcept { return chains_; }
  /// Returns true if the tasks run once, and false if they are recorded in a graph.
  [[nodiscard]] bool runs_once() const noexcept { return owners_; }
  /// Submits a task that runs step (`chain`, `index`) of `operation`.
  /// The task runs after the points that `operation` waits for, after `others`, and when
  /// `accesses` permit. `worker` is the preferred worker, as in `submit_options`.
  runtime::task_id add(operation& operation, unsigned chain, std::uint32_t index,
                       std::span<const runtime::access> accesses,
                       std::span<const runtime::task_id> others = {},
                       std::uint8_t worker = runtime::submit_options::anywhere);
  /// Returns the accesses of the task of one device chain of `operation`: the device
  /// chain's token and the other memory that it touches. Valid until the next call.
  [[nodiscard]] std::span<const runtime::access> held(const operation& operation,
                                                      unsigned chain);
  /// Submits the last task of the operation, as `add`. The operation may have ended and
  /// been destroyed when this returns, so the caller must not use it afterwards.
  runtime::task_id add_last(operation& operation, unsigned chain, std::uint32_t index,
                            std::span<const runtime::access> accesses);
  /// Returns the operation, or null if its last task was submitted by `add_last`.
  [[nodiscard]] operation* pending() const noexcept { return operation_.get(); }

 private:
  runtime::task_id put(operation& operation, unsigned chain, std::uint32_t index,
                       std::span<const runtime::access> accesses,
                       std::span<const runtime::task_id> others, std::uint8_t worker);

  submission_lock::guard& in_;
  device_chains& chains_;
  ref<operation> operation_;
  bool owners_;
  std::vector<runtime::access> accesses_;
};

/// One call of the interface by a thread of the program.
struct observed_call {
  const char* name = "";     ///< name of the function
  std::uint32_t thread = 0;  ///< number of the calling thread, from number_of_this_thread
  std::int64_t start_ns = 0;  ///< monotonic time of the call in nanoseconds
  std::int64_t end_ns = 0;    ///< monotonic time of the return in nanoseconds
  const char* status = "";    ///< name of the status that it returned
};

/// Receives the times of operations and calls.
/// @threads{called from any thread, also concurrently}
class operation_observer {
 public:
  virtual ~operation_observer() = default;
  /// Reports that a device chain has run an operation, with monotonic times in
  /// nanoseconds.
  virtual void ended(const operation& operation, unsigned chain, std::int64_t start_ns,
                     std::int64_t end_ns) noexcept = 0;
  /// Reports that a call has returned.
  virtual void called(const observed_call&) noexcept {}
};

/// Returns the number of the calling thread, counted from 1 in the order of first use.
[[nodiscard]] std::uint32_t number_of_this_thread() noexcept;

/// Memory that an operation needs besides its buffers. @units{bytes on one device}
struct memory_need {
  std::size_t scratch = 0;   ///< needed while it runs
  std::size_t in_graph = 0;  ///< needed while it is in a graph
};

/// One run of a graph, as its operations see it.
/// @threads{written by the task that enters the graph, read by tasks behind it}
struct graph_run_facts {
  std::uint64_t number = 0;  ///< number of the run in the stream that it was launched on
  std::int64_t called_ns = 0;  ///< monotonic time of the launch in nanoseconds
  std::uint32_t caller = 0;    ///< number of the thread that launched it
  /// Number of the stream that the run was launched on. Launches draw random numbers by
  /// it and `ordinal` if the policy's generator is not stateless.
  std::uint64_t stream = 0;
  std::uint64_t ordinal = 0;  ///< number of the run's first launch in that stream
};

/// Kinds of operations.
enum class operation_kind : std::uint8_t {
  launch,         ///< a kernel on a grid
  copy,           ///< a copy of memory
  fill,           ///< a fill of memory with a pattern
  collective,     ///< a collective between ranks
  host_function,  ///< a call of a function of the program
  marker,         ///< a point, which an event may refer to
  memory,         ///< a graph takes memory or returns it
  graph,          ///< a run of a graph
  other           ///< an operation of the runtime, such as the end of a stream
};

/// Base of all operations. A derived class says which tasks it has and what they do.
/// @threads{built by one thread; `step` is called by workers, one at a time for each
/// device chain}
class operation : public counted {
 public:
  /// Makes an operation of this kind, without a stream.
  explicit operation(operation_kind k);
  ~operation() override;

  /// Submits the tasks of the operation.
  virtual void submit(submission& to) = 0;
  /// Runs one task. `index` tells apart the tasks of a device chain. Failures go to the
  /// device chain.
  virtual void step(device_chains& chains, unsigned chain,
                    std::uint32_t index) noexcept = 0;
  /// Returns the number of tasks that `submit` submits on this many devices, at most or
  /// approximately.
  [[nodiscard]] virtual std::uint32_t tasks(unsigned devices) const { return devices; }
  /// Returns how many numbers of its stream it takes. `number` is the last of them.
  [[nodiscard]] virtual std::uint32_t numbers() const noexcept { return 1; }
  /// Called when the stream accepts it, in the order of calls on that stream, with the
  /// submission lock held. Operations that are only recorded do not run and get no call.
  virtual void taken(submission_lock::guard&, stream&) {}
  /// Returns true if it has a task on each of this many device chains.
  [[nodiscard]] virtual bool on_all_chains(unsigned) const noexcept { return true; }
  /// Adds the memory that its task of one device chain touches besides the memory of that
  /// device chain's device. It is called only if `touches_more` is set and the stream has
  /// several device chains, because all operations of a single device chain are in order
  /// anyway.
  virtual void touched(unsigned, std::vector<touched_memory>&) const {}
  /// Called when its tasks have been submitted, with the submission lock held.
  virtual void admitted(submission_lock::guard&, stream&) {}
  /// Returns a copy for a graph, or null if it cannot be in one.
  [[nodiscard]] virtual ref<operation> clone() const { return {}; }
  /// Returns true if it may wait for other ranks. A graph with such an operation enqueues
  /// each of its nodes anew.
  [[nodiscard]] virtual bool waits_for_ranks() const noexcept { return false; }
  /// Adds the work of its only device chain for a graph that a device runs by itself.
  /// Returns false if it needs the host, or another device, in each run.
  [[nodiscard]] virtual bool add_native_work(native_pieces&) const { return false; }
  /// Returns the number of launches whose random numbers depend on the launches before
  /// them. Each run of a graph takes this many numbers from its stream.
  [[nodiscard]] virtual std::uint32_t counted_launches() const noexcept { return 0; }
  /// Begins a run of its graph: takes its launch numbers from `next` and advances it.
  virtual void count_from(std::uint64_t, std::uint64_t& next) noexcept {
    next += counted_launches();
  }
  /// Returns the name for traces and errors.
  [[nodiscard]] virtual std::string_view name() const noexcept { return "operation"; }
  /// Returns the number of bytes that it processes on one device, or 0.
  [[nodiscard]] virtual std::uint64_t bytes() const noexcept { return 0; }
  /// Returns the memory that it needs besides its buffers.
  [[nodiscard]] virtual memory_need needs() const noexcept { return {}; }
  /// Returns the ratio of the bytes that cross a link of a ring to `bytes`, and 0 for
  /// operations that are no collectives. The ratio makes bandwidths comparable between
  /// numbers of ranks.
  /// @source{nccl-tests, PERFORMANCE.md}
  [[nodiscard]] virtual double bus_factor() const noexcept { return 0; }
  /// Returns further members of a JSON object, such as `"grid":[1,1,1]`, or an empty
  /// string.
  [[nodiscard]] virtual std::string details() const { return {}; }
  /// Returns the number of the stream that a device chain belongs to.
  [[nodiscard]] virtual std::uint64_t stream_of(unsigned) const noexcept {
    return stream_number;
  }
  /// Returns the kind.
  [[nodiscard]] operation_kind kind() const noexcept { return kind_; }
  /// Returns the name of a kind in traces and exported graphs, such as "kernel" or
  /// "copy".
  [[nodiscard]] static std::string_view kind_name(operation_kind k) noexcept;

  std::vector<ref<point>> waits;  ///< points of other streams that it waits for
  std::uint64_t number = 0;       ///< number in its stream, from 1 on
  bool urgent = false;            ///< its tasks go before those of other operations
  bool touches_more = false;      ///< `touched` adds memory
  /// Number of the enqueueing thread, if there is an observer.
  std::uint32_t enqueued_by = 0;
  std::shared_ptr<const void> keeps;  ///< object that lives until the last step has ended
  std::uint64_t stream_number = 0;    ///< number of its stream
  /// Device ordinal of each device chain, once it has a stream.
  const std::int32_t* on_devices = nullptr;
  /// Monotonic time of enqueueing, if there is an observer.
  std::int64_t enqueued_ns = 0;
  std::shared_ptr<operation_observer> observer;  ///< receives its times; null: none
  /// Context whose observers receive each run, if it is in a graph; null otherwise.
  const context* graph_of = nullptr;
  /// Run of the graph that it is in; null: it is in no graph.
  const graph_run_facts* run_of_graph = nullptr;

  /// Returns the monotonic time at which it, or the run of its graph, was enqueued.
  [[nodiscard]] std::int64_t enqueued() const noexcept {
    return run_of_graph == nullptr ? enqueued_ns : run_of_graph->called_ns;
  }
  /// Returns the number of the thread that enqueued it, or the run of its graph.
  [[nodiscard]] std::uint32_t enqueuer() const noexcept {
    return run_of_graph == nullptr ? enqueued_by : run_of_graph->caller;
  }

 protected:
  /// Adds to the device chain the failures of points that it waited for and of memory
  /// that it touches. Returns true if the device chain has no failure, so that it may
  /// run.
  [[nodiscard]] bool may_run(device_chains& chains, unsigned chain) const;
  /// Marks the memory that it should have written as failed, if its device chain has a
  /// failure. The last task of a device chain calls this.
  void pass_failure_on(device_chains& chains, unsigned chain) const;
  /// Records a failure of this operation in a device chain.
  void fail(device_chain& chain, error why) const;
  /// Runs `body` on a device chain that has no failure. An exception from it becomes a
  /// failure.
  template <class Body>
  void run_on(device_chains& chains, unsigned chain, Body&& body) noexcept {
    if (may_run(chains, chain)) {
      const std::int64_t start = begin();
      if (result<void> outcome = guarded(body); !outcome) {
        fail(chains.chain_of(chain), std::move(outcome).error());
      }
      observe(chain, start);
    }
    pass_failure_on(chains, chain);
  }
  /// Gives work of a device chain that has no failure to a device by
  /// `give(device_step&)`, which returns an error if it cannot. The task of the step ends
  /// when the device has ended all of it. The operation may have been destroyed when this
  /// returns. Its definition is in device_step.hpp.
  template <class Give>
  void run_later(device_chains& chains, unsigned chain, Give&& give) noexcept;
  /// Calls `body` and returns its result.
  /// @error{kernel_failed; it threw an exception}
  template <class Body>
  [[nodiscard]] static result<void> guarded(Body&& body) noexcept {
    try {
      return body();
    } catch (...) {
      return thrown();
    }
  }
  /// Returns the monotonic time if there is an observer, and 0 otherwise.
  [[nodiscard]] std::int64_t begin() const noexcept;
  /// Reports the time since `start_ns` to the observer, unless `start_ns` is 0.
  void observe(unsigned chain, std::int64_t start_ns) const noexcept;
  /// Returns the access to the device chain's token for writing.
  [[nodiscard]] static const runtime::access& holds(const device_chain& chain) noexcept {
    return chain.held;
  }

 private:
  friend class device_step;
  /// Returns the exception that is being handled as an error.
  [[nodiscard]] static error thrown() noexcept;

  operation_kind kind_;
};

/// Base of operations that do the same work on each device chain, or on a single one.
class chain_operation : public operation {
 public:
  /// Makes an operation of this kind.
  using operation::operation;
  /// Submits a task for each device chain that it runs on.
  void submit(submission& to) override;
  /// Runs the work of one device chain, unless the device chain has a failure.
  void step(device_chains& chains, unsigned chain, std::uint32_t index) noexcept override;
  [[nodiscard]] std::uint32_t tasks(unsigned devices) const override {
    return only_chain < 0 ? devices : 1;
  }
  [[nodiscard]] bool on_all_chains(unsigned devices) const noexcept override {
    return only_chain < 0 || devices == 1;
  }

  int only_chain =
      -1;  ///< the single device chain that it runs on; -1: all device chains

 protected:
  /// Does the work of one device chain. The error may have any code: it becomes a failure
  /// of the device chain.
  virtual result<void> run(unsigned chain) = 0;
};

/// Base of operations with a single task that holds all device chains.
class joining_operation : public operation {
 public:
  /// Makes an operation of this kind.
  using operation::operation;
  /// Submits the task.
  void submit(submission& to) override;
  /// Runs the work, even if device chains have failures.
  void step(device_chains& chains, unsigned chain, std::uint32_t index) noexcept override;
  [[nodiscard]] std::uint32_t tasks(unsigned) const override { return 1; }

 protected:
  /// Does the work. It finds failures in the device chains.
  virtual void run(device_chains& chains) = 0;
};

/// Returns true inside kernels, functions in streams and other work of operations, and in
/// a scope of `program_callback`.
[[nodiscard]] bool inside_task() noexcept;

/// A scope in which the runtime calls a function of the program. That function may call
/// the runtime again, but may neither enqueue nor wait, because the caller may hold state
/// that these calls need.
/// @threads{belongs to the thread that made it}
class program_callback {
 public:
  /// Begins the scope.
  program_callback() noexcept;
  ~program_callback();
  program_callback(const program_callback&) = delete;
  program_callback& operator=(const program_callback&) = delete;

 private:
  bool before_;
};

/// Returns true while a worker runs a step or releases objects that the step has used,
/// and in completions of devices. An object whose destructor waits for the workers must
/// not be destroyed then.
[[nodiscard]] bool on_worker() noexcept;

/// Value of `task_context::argument` for the steps of a graph that is being recorded.
/// Such steps do nothing.
extern const char graph_is_made;
/// Value of `task_context::argument` for the steps of a graph that runs.
extern const char graph_runs;

}  // namespace weir::tessera
