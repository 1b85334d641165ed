// SPDX-License-Identifier: Apache-2.0
/// @file
/// One operation of a stream: what it is made of as tasks, and what each of them does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/tessera/stream/lane_set.hpp"
#include "weir/tessera/stream/ref.hpp"
#include "weir/tessera/stream/submission_port.hpp"

namespace weir::tessera {

class context;
class operation;
class point;
class stream;

/// Turns one operation into tasks.
/// @threads{whoever has the session}
class submission {
 public:
  /// Its steps keep `what` alive.
  submission(submission_port::session& in, lane_set& lanes, ref<operation> what)
      : in_(in), lanes_(lanes), what_(std::move(what)), owners_(true) {}
  /// Of a graph, whose steps keep nothing alive.
  submission(submission_port::session& in, lane_set& lanes)
      : in_(in), lanes_(lanes), owners_(false) {}

  [[nodiscard]] submission_port::session& session() const noexcept { return in_; }
  [[nodiscard]] lane_set& lanes() const noexcept { return lanes_; }
  /// Its tasks are for now, not for a graph.
  [[nodiscard]] bool runs_once() const noexcept { return owners_; }
  /// A task that runs step (`lane`, `index`) of `what` with these lanes in hand, and
  /// after what the operation waits for, and after `others`. `worker`: who had better run
  /// it, as of `submit_options`.
  runtime::task_id add(operation& what, unsigned lane, std::uint32_t index,
                       std::span<const runtime::access> accesses,
                       std::span<const runtime::task_id> others = {},
                       std::uint8_t worker = runtime::submit_options::anywhere);
  /// What the task of one lane of `what` holds: the lane's token, and what else it
  /// touches. Valid until the next call.
  [[nodiscard]] std::span<const runtime::access> held(const operation& what,
                                                      unsigned lane);
  /// As `add`, for the last task of the operation, which may have ended and be gone when
  /// this returns: nobody else touches what a worker is about to use.
  runtime::task_id add_last(operation& what, unsigned lane, std::uint32_t index,
                            std::span<const runtime::access> accesses);
  /// The operation, unless its last task has been added.
  [[nodiscard]] operation* pending() const noexcept { return what_.get(); }

 private:
  runtime::task_id put(operation& what, unsigned lane, std::uint32_t index,
                       std::span<const runtime::access> accesses,
                       std::span<const runtime::task_id> others, std::uint8_t worker);

  submission_port::session& in_;
  lane_set& lanes_;
  ref<operation> what_;
  bool owners_;
  std::vector<runtime::access> held_;
};

/// One call of the interface by a thread of the program.
struct observed_call {
  const char* name = "";
  std::uint32_t thread = 0;  ///< as of number_of_this_thread
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  const char* status = "";  ///< what it returned
};

/// Who hears how long operations and calls took.
class operation_observer {
 public:
  virtual ~operation_observer() = default;
  virtual void ended(const operation& what, unsigned lane, std::int64_t start_ns,
                     std::int64_t end_ns) noexcept = 0;
  virtual void called(const observed_call&) noexcept {}
};

/// A small number that this thread alone has, from 1 on in the order of first use.
[[nodiscard]] std::uint32_t number_of_this_thread() noexcept;

/// What an operation needs beside the memory that it was given, bytes on one device.
struct memory_need {
  std::size_t scratch = 0;   ///< while it runs
  std::size_t in_graph = 0;  ///< as long as it is in a graph
};

/// One run of a graph, for the operations in it.
/// @threads{written by the task that enters the graph, read by tasks behind it}
struct graph_run_facts {
  std::uint64_t number = 0;    ///< of the run in the stream that it was launched on
  std::int64_t called_ns = 0;  ///< when it was launched
  std::uint32_t caller = 0;    ///< number of the thread that launched it
  /// What launches draw random numbers by if these are not stateless.
  std::uint64_t stream = 0;   ///< number of the stream that it was launched on
  std::uint64_t ordinal = 0;  ///< of the first of them in that stream
};

/// @threads{built by one thread; `step` by workers, one at a time for each lane}
class operation : public counted {
 public:
  enum class kind : std::uint8_t {
    launch,
    copy,
    fill,
    collective,
    host_function,
    marker,
    memory,  ///< a graph takes memory or gives it back
    graph,
    other
  };

  explicit operation(kind k);
  ~operation() override;

  virtual void submit(submission& to) = 0;
  virtual void step(lane_set& lanes, unsigned lane, std::uint32_t index) noexcept = 0;
  /// Tasks that `submit` submits on so many devices, or about so.
  [[nodiscard]] virtual std::uint32_t tasks(unsigned devices) const { return devices; }
  /// How many of its stream's operations it stands for; the last has its number.
  [[nodiscard]] virtual std::uint32_t numbers() const noexcept { return 1; }
  /// Called when its stream takes it, in the order of the calls on that stream, with the
  /// session in hand. Operations that are only recorded are not run and not called.
  virtual void taken(submission_port::session&, stream&) {}
  /// Whether it has a task on each of so many lanes.
  [[nodiscard]] virtual bool on_all_lanes(unsigned) const noexcept { return true; }
  /// Adds the memory that its task of one lane touches besides the memory of that lane's
  /// device. It is called only if `touches_more` is set and the stream has several lanes,
  /// because all operations of a single lane are in order anyway.
  virtual void touched(unsigned, std::vector<touched_memory>&) const {}
  /// Called when it has been submitted to its stream's lanes, with the session in hand.
  virtual void admitted(submission_port::session&, stream&) {}
  /// The same once more, for a graph. Null if it cannot be in one.
  [[nodiscard]] virtual ref<operation> clone() const { return {}; }
  /// It may wait for ranks for any time, so a graph with it does not run in one piece.
  [[nodiscard]] virtual bool waits_for_ranks() const noexcept { return false; }
  /// Launches in it whose random numbers depend on how many were before them, so that
  /// each run of a graph takes as many numbers of its stream's counter.
  [[nodiscard]] virtual std::uint32_t counted_launches() const noexcept { return 0; }
  /// A run of its graph begins: it takes its numbers from `next`, which moves on.
  virtual void count_from(std::uint64_t, std::uint64_t& next) noexcept {
    next += counted_launches();
  }
  [[nodiscard]] virtual std::string_view name() const noexcept { return "operation"; }
  [[nodiscard]] virtual std::uint64_t bytes() const noexcept { return 0; }
  [[nodiscard]] virtual memory_need needs() const noexcept { return {}; }
  /// By how much the bytes that cross a link of a ring exceed `bytes`, which tells how
  /// well a collective uses what it runs on, however many ranks it has. 0 for others.
  /// @source{nccl-tests, PERFORMANCE.md}
  [[nodiscard]] virtual double bus_factor() const noexcept { return 0; }
  /// Members of a JSON object that say more, e.g. `"grid":[1,1,1]`; may be empty.
  [[nodiscard]] virtual std::string details() const { return {}; }
  /// Number of the stream that a lane of it belongs to.
  [[nodiscard]] virtual std::uint64_t stream_of(unsigned) const noexcept {
    return stream_number;
  }
  [[nodiscard]] kind what() const noexcept { return kind_; }
  /// What traces and exports of graphs call a kind: "kernel", "copy" and so on.
  [[nodiscard]] static std::string_view kind_name(kind k) noexcept;

  std::vector<ref<point>> waits;  ///< points of other streams
  std::uint64_t number = 0;       ///< in its stream
  bool urgent = false;
  bool touches_more = false;                 ///< `touched` has something to add
  std::uint32_t enqueued_by = 0;             ///< number of the thread, if observed
  std::shared_ptr<const void> keeps;         ///< lives until the last step has ended
  std::uint64_t stream_number = 0;           ///< number of its stream
  const std::int32_t* on_devices = nullptr;  ///< ordinals by lane, once it has a stream
  std::int64_t enqueued_ns = 0;              ///< if somebody observes
  std::shared_ptr<operation_observer> observer;
  /// Of an operation in a graph: whose observers hear of each run, and the run.
  const context* graph_of = nullptr;
  const graph_run_facts* run_of_graph = nullptr;

  [[nodiscard]] std::int64_t enqueued() const noexcept {
    return run_of_graph == nullptr ? enqueued_ns : run_of_graph->called_ns;
  }
  [[nodiscard]] std::uint32_t enqueuer() const noexcept {
    return run_of_graph == nullptr ? enqueued_by : run_of_graph->caller;
  }

 protected:
  /// Notes failures of what it waited for and of memory that it touches. True if the lane
  /// is to run it.
  [[nodiscard]] bool may_run(lane_set& lanes, unsigned lane) const;
  /// Marks the memory that this operation should have written as failed, if its lane has
  /// a failure. The last task of a lane calls this.
  void pass_failure_on(lane_set& lanes, unsigned lane) const;
  /// Poisons the lane.
  void fail(lane& of, error why) const;
  /// Runs `body` on a lane unless it is poisoned. An exception from it is a failure.
  template <class Body>
  void run_on(lane_set& lanes, unsigned lane, Body&& body) noexcept {
    if (may_run(lanes, lane)) {
      const std::int64_t start = begin();
      if (result<void> outcome = guarded(body); !outcome) {
        fail(lanes.of(lane), std::move(outcome).error());
      }
      observe(lane, start);
    }
    pass_failure_on(lanes, lane);
  }
  template <class Body>
  [[nodiscard]] static result<void> guarded(Body&& body) noexcept {
    try {
      return body();
    } catch (...) {
      return thrown();
    }
  }
  /// Time, if somebody observes.
  [[nodiscard]] std::int64_t begin() const noexcept;
  void observe(unsigned lane, std::int64_t start_ns) const noexcept;
  /// The lane's token, for writing.
  [[nodiscard]] static const runtime::access& holds(const lane& of) noexcept {
    return of.held;
  }

 private:
  /// The exception that is being handled, as an error.
  [[nodiscard]] static error thrown() noexcept;

  kind kind_;
};

/// Operations that do one thing on each lane, or on one of them.
class lane_operation : public operation {
 public:
  using operation::operation;
  void submit(submission& to) override;
  void step(lane_set& lanes, unsigned lane, std::uint32_t index) noexcept override;
  [[nodiscard]] std::uint32_t tasks(unsigned devices) const override {
    return only_lane < 0 ? devices : 1;
  }
  [[nodiscard]] bool on_all_lanes(unsigned devices) const noexcept override {
    return only_lane < 0 || devices == 1;
  }

  int only_lane = -1;  ///< on this lane alone; -1: on all of them

 protected:
  virtual result<void> run(unsigned lane) = 0;
};

/// Operations that need all lanes at once.
class joining_operation : public operation {
 public:
  using operation::operation;
  void submit(submission& to) override;
  void step(lane_set& lanes, unsigned lane, std::uint32_t index) noexcept override;
  [[nodiscard]] std::uint32_t tasks(unsigned) const override { return 1; }

 protected:
  virtual void run(lane_set& lanes) = 0;
};

/// True in kernels, functions in streams and all else that workers run for operations,
/// and in scopes of `program_callback`.
[[nodiscard]] bool inside_task() noexcept;

/// A scope in which the runtime calls a function of the program, which may call the
/// runtime again. It may neither enqueue nor wait: the caller may be in the middle of
/// something.
class program_callback {
 public:
  program_callback() noexcept;
  ~program_callback();
  program_callback(const program_callback&) = delete;
  program_callback& operator=(const program_callback&) = delete;

 private:
  bool before_;
};

/// True while a worker runs a step or releases what the step has used. An object whose
/// destructor waits for the workers must not be destroyed then.
[[nodiscard]] bool on_worker() noexcept;

/// Tells steps of a graph that is being made from those of one that runs; both are what
/// `task_context::argument` points at.
extern const char graph_is_made;
extern const char graph_runs;

}  // namespace weir::tessera
