// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operations as tasks of the engine.
#include "weir/tessera/stream/operation.hpp"

#include <exception>
#include <utility>

#include "weir/base/clock.hpp"
#include "weir/tessera/stream/context.hpp"
#include "weir/tessera/stream/point.hpp"

namespace weir::tessera {

const char graph_is_made = 0;
const char graph_runs = 0;

namespace {

thread_local bool in_step = false;    // NOLINT: of the thread is what is asked for
thread_local bool on_engine = false;  // NOLINT: the same

struct step_call {
  operation* what;
  lane_set* lanes;
  std::uint32_t lane;
  std::uint32_t index;

  void operator()(const runtime::task_context& c) const {
    if (c.argument == &graph_is_made) {
      return;
    }
    in_step = true;
    what->step(*lanes, lane, index);
    in_step = false;
    if (c.argument == nullptr) {
      on_engine = true;
      what->release();
      on_engine = false;
    }
  }
};

/// Names of tasks outlive the engine; what a kernel is called is in the profiler's trace.
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

std::uint32_t number_of_this_thread() noexcept {
  static std::atomic<std::uint32_t> last{0};
  thread_local const std::uint32_t own =
      last.fetch_add(1, std::memory_order_relaxed) + 1;  // NOLINT: of the thread
  return own;
}

bool inside_task() noexcept {
  return in_step;
}

program_callback::program_callback() noexcept : before_(std::exchange(in_step, true)) {}
program_callback::~program_callback() {
  in_step = before_;
}

bool on_worker() noexcept {
  return in_step || on_engine;
}

runtime::task_id submission::add(operation& operation, unsigned lane, std::uint32_t index,
                                 std::span<const runtime::access> accesses,
                                 std::span<const runtime::task_id> others,
                                 std::uint8_t worker) {
  if (owners_) {
    operation.retain();
  }
  return put(operation, lane, index, accesses, others, worker);
}

runtime::task_id submission::add_last(operation& operation, unsigned lane,
                                      std::uint32_t index,
                                      std::span<const runtime::access> accesses) {
  if (what_.get() == &operation) {
    static_cast<void>(what_.detach());
    return put(operation, lane, index, accesses, {}, runtime::submit_options::anywhere);
  }
  return add(operation, lane, index, accesses);
}

std::span<const runtime::access> submission::held(const operation& operation,
                                                  unsigned lane) {
  const runtime::access& own = lanes_.lane_of(lane).held;
  if (!operation.touches_more || lanes_.devices() == 1) {
    return {&own, 1};
  }
  std::vector<touched_memory> all;
  operation.touched(lane, all);
  held_.assign(1, own);
  for (const touched_memory& one : all) {
    held_.push_back(lanes_.access_to(one));
  }
  return held_;
}

runtime::task_id submission::put(operation& operation, unsigned lane, std::uint32_t index,
                                 std::span<const runtime::access> accesses,
                                 std::span<const runtime::task_id> others,
                                 std::uint8_t worker) {
  std::vector<runtime::task_id> after;
  for (const ref<point>& p : operation.waits) {
    const auto ids = p->tasks_to_wait_for();
    after.insert(after.end(), ids.begin(), ids.end());
  }
  runtime::submit_options with;
  with.urgent = lanes_.urgent || operation.urgent;
  with.worker = worker;
  if (after.empty()) {
    with.after = others;
  } else {
    after.insert(after.end(), others.begin(), others.end());
    with.after = after;
  }
  auto id = in_.to().submit(task_name(operation.kind()), accesses,
                            step_call{&operation, &lanes_, lane, index}, with);
  WEIR_EXPECT(id.has_value());  // tokens live as long as their lanes
  return *id;
}

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

operation::operation(operation_kind k) : kind_(k) {}
operation::~operation() = default;

bool operation::may_run(lane_set& lanes, unsigned lane) const {
  failure& poison = lanes.lane_of(lane).poison;
  for (const ref<point>& p : waits) {
    if (failure inherited = p->first_failure()) {
      inherited.operation = number;
      poison.merge(inherited);
    }
  }
  if (touches_more && lanes.devices() > 1) {
    std::vector<touched_memory> all;
    touched(lane, all);
    for (const touched_memory& one : all) {
      poison.merge(one.owner == touched_memory::no_lane
                       ? lanes.outside().failure_in(one)
                       : lanes.lane_of(static_cast<std::size_t>(one.owner)).poison);
    }
  }
  return !poison;
}

void operation::pass_failure_on(lane_set& lanes, unsigned lane) const {
  const failure& poison = lanes.lane_of(lane).poison;
  if (!poison || !touches_more || lanes.devices() == 1) {
    return;
  }
  std::vector<touched_memory> all;
  touched(lane, all);
  for (const touched_memory& one : all) {
    if (!one.writes) {
      continue;
    }
    if (one.owner == touched_memory::no_lane) {
      lanes.outside().add(one, poison);
    } else {
      lanes.lane_of(static_cast<std::size_t>(one.owner)).poison.merge(poison);
    }
  }
}

void operation::fail(lane& lane, error why) const {
  lane.poison.merge({std::make_shared<const error>(std::move(why)), number});
}

void operation::observe(unsigned lane, std::int64_t start_ns) const noexcept {
  if (start_ns == 0) {
    return;
  }
  const auto by = graph_of == nullptr ? observer : graph_of->observer();
  if (by != nullptr) {
    by->ended(*this, lane, start_ns, now_ns());
  }
}

std::int64_t operation::begin() const noexcept {
  const bool heard = graph_of == nullptr ? observer != nullptr : graph_of->observed();
  return heard ? now_ns() : 0;
}

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

void lane_operation::submit(submission& to) {
  const unsigned devices = to.lanes().devices();
  const bool one = only_lane >= 0 && devices > 1;
  const unsigned first = one ? static_cast<unsigned>(only_lane) : 0;
  const unsigned end = one ? first + 1 : devices;
  for (unsigned d = first; d < end; ++d) {
    to.add(*this, d, 0, to.held(*this, d));
  }
}

void lane_operation::step(lane_set& lanes, unsigned lane, std::uint32_t) noexcept {
  run_on(lanes, lane, [&] { return run(lane); });
}

void joining_operation::submit(submission& to) {
  lane_set& lanes = to.lanes();
  std::vector<runtime::access> accesses;
  for (unsigned i = 0; i < lanes.devices(); ++i) {
    accesses.push_back(holds(lanes.lane_of(i)));
  }
  to.add(*this, 0, 0, accesses);
}

void joining_operation::step(lane_set& lanes, unsigned, std::uint32_t) noexcept {
  for (unsigned i = 0; i < lanes.devices(); ++i) {
    static_cast<void>(may_run(lanes, i));
  }
  const std::int64_t start = begin();
  run(lanes);
  observe(0, start);
}

}  // namespace weir::tessera
