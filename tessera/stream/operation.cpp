// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operations as tasks of the engine: submission, the run of a step, and how failures
/// spread.
///
/// A failed operation never fails its task. The failure stays in the device chain
/// (`poison`), later operations of the device chain do not run, and a synchronization
/// returns it. Tasks of a device chain are ordered by the device chain's token, so a
/// device chain's failure needs no lock.
#include "weir/tessera/stream/operation.hpp"

#include <exception>
#include <utility>

#include "weir/base/clock.hpp"
#include "weir/tessera/stream/context.hpp"
#include "weir/tessera/stream/device_step.hpp"
#include "weir/tessera/stream/point.hpp"

namespace weir::tessera {

/// Only the addresses of these two count.
const char graph_is_made = 0;
const char graph_runs = 0;

namespace {

/// True while a step of an operation runs, in which calls that wait are refused.
thread_local bool in_step = false;    // NOLINT: one for each thread
thread_local bool on_engine = false;  // NOLINT: one for each thread

/// The step that a thread runs.
struct running_step {
  const runtime::task_context* task = nullptr;
  bool ends_later = false;  ///< a `device_step` has taken the task and its reference
};
/// Set by `step_call` for the steps that it runs.
thread_local running_step running;  // NOLINT: one for each thread

/// Releases a reference that a task had. No device is waited for meanwhile.
///
/// The operation may be destroyed by it.
void release(operation& owner) noexcept {
  const no_device_waits scope;
  on_engine = true;
  owner.release();
  on_engine = false;
}

/// The callable of a task: a step of an operation. In a graph the engine calls it with
/// the argument `graph_is_made` while the graph is recorded, which does nothing, and with
/// `graph_runs` in each run. Outside of graphs the argument is null, and the task then
/// owns a reference to the operation, which it releases.
///
/// It is small, so the engine stores it without an allocation.
struct step_call {
  operation* owner;
  device_chains* chains;
  std::uint32_t chain;
  std::uint32_t index;

  // `on_engine` is set while the reference is released, because the operation may be the
  // last to hold a context, which must not be destroyed on a worker.
  void operator()(const runtime::task_context& c) const {
    // The call while a graph is recorded.
    if (c.argument == &graph_is_made) {
      return;
    }
    // Steps are not nested.
    running = {&c, false};
    in_step = true;
    owner->step(*chains, chain, index);
    in_step = false;
    // A device has the step, and ends the task itself.
    const bool ended = !running.ends_later;
    running = {};
    // In a graph, the operation belongs to the graph.
    if (ended && c.argument == nullptr) {
      release(*owner);
    }
  }
};

/// Returns the name of the engine's tasks. These names must outlive the engine, so they
/// are constants. The names of kernels are in the profiler's trace.
///
/// Profilers show them for the tasks of the engine.
const char* task_name(operation_kind k) noexcept {
  switch (k) {
    case operation_kind::launch: return "launch";
    case operation_kind::copy: return "copy";
    case operation_kind::fill: return "fill";
    case operation_kind::collective: return "collective";
    case operation_kind::host_function: return "host function";
    case operation_kind::marker: return "event";
    case operation_kind::memory: return "memory";
    case operation_kind::graph: return "graph";
    case operation_kind::other: break;
  }
  return "stream operation";
}

}  // namespace

/// Numbers begin with 1, and are never used again.
std::uint32_t number_of_this_thread() noexcept {
  static std::atomic<std::uint32_t> last{0};
  thread_local const std::uint32_t own =
      last.fetch_add(1, std::memory_order_relaxed) + 1;  // NOLINT: one for each thread
  return own;
}

/// True for kernels, for functions in streams, and for callbacks of the program.
bool inside_task() noexcept {
  return in_step;
}

/// May be nested.
program_callback::program_callback() noexcept : before_(std::exchange(in_step, true)) {}
program_callback::~program_callback() {
  in_step = before_;
}

/// Such a thread must not wait for devices.
bool on_worker() noexcept {
  return in_step || on_engine || no_device_waits::active();
}

// Each task holds a reference to its operation unless a graph does. The task releases it.
//
// The worker is one that the task must run on, or any.
runtime::task_id submission::add(operation& operation, unsigned chain,
                                 std::uint32_t index,
                                 std::span<const runtime::access> accesses,
                                 std::span<const runtime::task_id> others,
                                 std::uint8_t worker) {
  // Taken before the task exists, as it may end at once.
  if (owners_) {
    operation.retain();
  }
  return put(operation, chain, index, accesses, others, worker);
}

// The last task takes over the reference of the submission itself, which saves two atomic
// changes of the count for the common operation with one task.
//
// Only for an operation that is not needed after the call.
runtime::task_id submission::add_last(operation& operation, unsigned chain,
                                      std::uint32_t index,
                                      std::span<const runtime::access> accesses) {
  // The submission may be for another operation.
  if (operation_.get() == &operation) {
    static_cast<void>(operation_.detach());
    return put(operation, chain, index, accesses, {}, runtime::submit_options::anywhere);
  }
  return add(operation, chain, index, accesses);
}

// Adds the tokens and memory of other device chains only if the operation needs them:
// most operations have their own device chain's token alone.
//
// The result is valid until the next call.
std::span<const runtime::access> submission::held(const operation& operation,
                                                  unsigned chain) {
  const runtime::access& own = chains_.chain_of(chain).held;
  // One device needs no other tokens, because its device chain orders everything.
  if (!operation.touches_more || chains_.devices() == 1) {
    return {&own, 1};
  }
  std::vector<touched_memory> all;
  operation.touched(chain, all);
  accesses_.assign(1, own);
  for (const touched_memory& one : all) {
    accesses_.push_back(chains_.access_to(one));
  }
  return accesses_;
}

// Submits one task. It runs after the points that the operation waits for and after
// `others`.
//
// The engine orders tasks by accesses as well.
runtime::task_id submission::put(operation& operation, unsigned chain,
                                 std::uint32_t index,
                                 std::span<const runtime::access> accesses,
                                 std::span<const runtime::task_id> others,
                                 std::uint8_t worker) {
  // Points that are reached have no tasks to wait for.
  std::vector<runtime::task_id> after;
  for (const ref<point>& p : operation.waits) {
    const auto ids = p->tasks_to_wait_for();
    after.insert(after.end(), ids.begin(), ids.end());
  }
  // Urgent tasks are taken first by the workers.
  runtime::submit_options with;
  with.urgent = chains_.urgent || operation.urgent;
  with.worker = worker;
  // Most operations wait for no points, and the list need not be copied.
  if (after.empty()) {
    with.after = others;
  } else {
    after.insert(after.end(), others.begin(), others.end());
    with.after = after;
  }
  auto id = in_.engine().submit(task_name(operation.kind()), accesses,
                                step_call{&operation, &chains_, chain, index}, with);
  // tokens, which the accesses name, live as long as their device chains
  WEIR_EXPECT(id.has_value());
  return *id;
}

/// Used in traces, so the names must not change.
std::string_view operation::kind_name(operation_kind k) noexcept {
  switch (k) {
    case operation_kind::launch: return "kernel";
    case operation_kind::copy: return "copy";
    case operation_kind::fill: return "fill";
    case operation_kind::collective: return "collective";
    case operation_kind::host_function: return "host";
    case operation_kind::marker: return "event";
    case operation_kind::memory: return "memory";
    case operation_kind::graph: return "graph";
    case operation_kind::other: break;
  }
  return "other";
}

/// The members have their defaults.
operation::operation(operation_kind k) : kind_(k) {}
operation::~operation() = default;

// Called at the beginning of a device chain's first task. Collects the failures of
// everything that the operation depends on.
//
// Returns false if the operation must not run.
bool operation::may_run(device_chains& chains, unsigned chain) const {
  failure& poison = chains.chain_of(chain).poison;
  // The number tells which operation inherited the failure.
  for (const ref<point>& p : waits) {
    if (failure inherited = p->first_failure()) {
      inherited.operation = number;
      poison.merge(inherited);
    }
  }
  // Memory of other device chains may have been left in a bad state.
  if (touches_more && chains.devices() > 1) {
    std::vector<touched_memory> all;
    touched(chain, all);
    for (const touched_memory& one : all) {
      poison.merge(one.owner == touched_memory::no_chain
                       ? chains.outside().failure_in(one)
                       : chains.chain_of(static_cast<std::size_t>(one.owner)).poison);
    }
  }
  // A device chain that has failed runs nothing until a synchronization.
  return !poison;
}

// Memory that the operation should have written is as good as failed: readers on other
// device chains and of the host's memory must not use old contents.
//
// Memory that is only read stays good.
void operation::pass_failure_on(device_chains& chains, unsigned chain) const {
  const failure& poison = chains.chain_of(chain).poison;
  // One device chain needs no passing on.
  if (!poison || !touches_more || chains.devices() == 1) {
    return;
  }
  std::vector<touched_memory> all;
  touched(chain, all);
  for (const touched_memory& one : all) {
    if (!one.writes) {
      continue;
    }
    if (one.owner == touched_memory::no_chain) {
      chains.outside().add(one, poison);
    } else {
      chains.chain_of(static_cast<std::size_t>(one.owner)).poison.merge(poison);
    }
  }
}

/// The first failure of a device chain stays.
void operation::fail(device_chain& chain, error why) const {
  chain.poison.merge({std::make_shared<const error>(std::move(why)), number});
}

// Operations in a graph ask for the observer in each run, since it may have changed.
//
// The time 0 means that nobody listened at the beginning.
void operation::observe(unsigned chain, std::int64_t start_ns) const noexcept {
  if (start_ns == 0) {
    return;
  }
  const auto by = graph_of == nullptr ? observer : graph_of->observer();
  if (by != nullptr) {
    by->ended(*this, chain, start_ns, now_ns());
  }
}

/// The clock is read only if somebody listens.
std::int64_t operation::begin() const noexcept {
  const bool heard = graph_of == nullptr ? observer != nullptr : graph_of->observed();
  return heard ? now_ns() : 0;
}

// Turns the exception that is being handled into an error: an operation fails, but never
// the task that runs it.
//
// Must be called inside a handler.
error operation::thrown() noexcept {
  try {
    throw;
  } catch (const std::exception& e) {
    return {errc::kernel_failed,
            std::string("operation failed: it threw an exception: ") + e.what()};
  } catch (...) {
    return {errc::kernel_failed,
            "operation failed: it threw an exception of unknown type"};
  }
}

// Tasks of a graph have no reference to their operation, because the graph has it.
//
// The step's function returns, and the task stays open.
device_step::device_step(operation& owner, outcome_call at_end)
    : owner_(owner), at_end_(std::move(at_end)) {
  WEIR_EXPECT(running.task != nullptr);
  // The task is completed by its number.
  task_ = running.task->later();
  owns_ = running.task->argument == nullptr;
  running.ends_later = true;
}

completion device_step::piece(std::shared_ptr<const void> keeps) {
  const std::uint32_t number = given_++;
  completion done = [self = shared_from_this(), number,
                     keeps = std::move(keeps)](result<void> outcome) {
    self->ended(number, std::move(outcome));
  };
  const std::lock_guard lock(mutex_);
  ++left_;
  return done;
}

void device_step::give(device_backend& to, const device_work& work,
                       std::shared_ptr<const void> keeps) {
  completion done = piece(std::move(keeps));
  try {
    to.submit(work, done);
  } catch (...) {
    done(operation::thrown());
  }
}

/// The first refusal stays, if no piece has failed.
void device_step::refuse(error why) {
  const std::lock_guard lock(mutex_);
  if (!why_) {
    why_ = std::move(why);
  }
}

// Of several failures that of the lowest piece is kept, so that the reported failure does
// not depend on timing.
void device_step::ended(std::uint32_t piece, result<void> outcome) {
  {
    const std::lock_guard lock(mutex_);
    // The lowest piece so far.
    if (!outcome && piece < first_failed_) {
      first_failed_ = piece;
      why_ = std::move(outcome).error();
    }
    if (--left_ > 0) {
      return;
    }
  }
  finish();
}

// The task still holds its device chains, so `at_end_` may write their failures. The
// reference goes before the task ends, as in a task that ends with its step.
//
// Called once, by the thread of the last piece.
void device_step::finish() noexcept {
  at_end_(std::move(why_));
  if (owns_) {
    release(owner_);
  }
  static_cast<void>(runtime::complete(task_));
}

// A copy that only one device chain carries out has a task on that device chain alone.
//
// Device chains without a task go on at once.
void chain_operation::submit(submission& to) {
  const unsigned devices = to.chain_count().devices();
  const bool one = only_chain >= 0 && devices > 1;
  // One device chain, or all of them.
  const unsigned first = one ? static_cast<unsigned>(only_chain) : 0;
  const unsigned end = one ? first + 1 : devices;
  for (unsigned d = first; d < end; ++d) {
    to.add(*this, d, 0, to.held(*this, d));
  }
}

/// The function is that of the derived class.
void chain_operation::step(device_chains& chains, unsigned chain,
                           std::uint32_t) noexcept {
  run_on(chains, chain, [&] { return run(chain); });
}

// The task writes the tokens of all device chains, so it runs when all of them have
// reached it.
//
// One task for the whole operation.
void joining_operation::submit(submission& to) {
  device_chains& chains = to.chain_count();
  std::vector<runtime::access> accesses;
  // Writing the token orders the task behind all others of the device chain.
  for (unsigned i = 0; i < chains.devices(); ++i) {
    accesses.push_back(holds(chains.chain_of(i)));
  }
  to.add(*this, 0, 0, accesses);
}

// Failures are collected but do not prevent the run: derived classes decide.
//
// The failures are those of each device chain.
void joining_operation::step(device_chains& chains, unsigned, std::uint32_t) noexcept {
  for (unsigned i = 0; i < chains.devices(); ++i) {
    static_cast<void>(may_run(chains, i));
  }
  const std::int64_t start = begin();
  run(chains);
  observe(0, start);
}

}  // namespace weir::tessera
