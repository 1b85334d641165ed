// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operations as tasks of the engine.
#include "weir/runtime/stream/operation.hpp"

#include <exception>

#include "weir/base/clock.hpp"
#include "weir/runtime/stream/context.hpp"
#include "weir/runtime/stream/point.hpp"

namespace weir::runtime {

const char graph_is_made = 0;
const char graph_runs = 0;

namespace {

thread_local bool in_step = false;  // NOLINT: of the thread is what is asked for

struct step_call {
  operation* what;
  lane_set* lanes;
  std::uint32_t lane;
  std::uint32_t index;

  void operator()(const task_context& c) const {
    if (c.argument == &graph_is_made) {
      return;
    }
    in_step = true;
    what->step(*lanes, lane, index);
    in_step = false;
    if (c.argument == nullptr) {
      what->release();
    }
  }
};

/// Names of tasks outlive the engine; what a kernel is called is in the profiler's trace.
const char* task_name(operation::kind k) noexcept {
  switch (k) {
    case operation::kind::launch: return "launch";
    case operation::kind::copy: return "copy";
    case operation::kind::fill: return "fill";
    case operation::kind::collective: return "collective";
    case operation::kind::host_function: return "host function";
    case operation::kind::marker: return "event";
    case operation::kind::other: break;
  }
  return "stream operation";
}

}  // namespace

bool inside_task() noexcept {
  return in_step;
}

task_id submission::add(operation& what, unsigned lane, std::uint32_t index,
                        std::span<const access> accesses, std::span<const task_id> others,
                        std::uint8_t worker) {
  if (owners_) {
    what.retain();
  }
  return put(what, lane, index, accesses, others, worker);
}

task_id submission::add_last(operation& what, unsigned lane, std::uint32_t index,
                             std::span<const access> accesses) {
  if (what_.get() == &what) {
    static_cast<void>(what_.detach());
    return put(what, lane, index, accesses, {}, submit_options::anywhere);
  }
  return add(what, lane, index, accesses);
}

task_id submission::put(operation& what, unsigned lane, std::uint32_t index,
                        std::span<const access> accesses, std::span<const task_id> others,
                        std::uint8_t worker) {
  std::vector<task_id> after;
  for (const ref<point>& p : what.waits) {
    // A collective has all lanes of a group in hand.
    const bool many = what.what() == operation::kind::collective;
    const auto ids = p->tasks_for(many ? nullptr : lanes_.mesh, lane);
    after.insert(after.end(), ids.begin(), ids.end());
  }
  submit_options with;
  with.urgent = lanes_.urgent || what.urgent;
  with.worker = worker;
  if (after.empty()) {
    with.after = others;
  } else {
    after.insert(after.end(), others.begin(), others.end());
    with.after = after;
  }
  auto id = in_.to().submit(task_name(what.what()), accesses,
                            step_call{&what, &lanes_, lane, index}, with);
  WEIR_EXPECT(id.has_value());  // tokens live as long as their lanes
  return *id;
}

operation::operation(kind k) : kind_(k) {}
operation::~operation() = default;

bool operation::may_run(lane_set& lanes, unsigned lane) const {
  failure& poison = lanes.at(lane).poison;
  for (const ref<point>& p : waits) {
    if (failure inherited = p->failure_for(lanes.mesh, lane)) {
      inherited.operation = number;
      poison.merge(inherited);
    }
  }
  return !poison;
}

void operation::fail(lane& of, error why) const {
  of.poison.merge({std::make_shared<const error>(std::move(why)), number});
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
  lane_set& lanes = to.lanes();
  lanes.use_host(host != host_use::none);
  for (unsigned d = 0; d < (first_only ? 1 : lanes.devices()); ++d) {
    const access& own = holds(lanes.of(d));
    if (host == host_use::none) {
      to.add(*this, d, 0, {&own, 1});
      continue;
    }
    const access both[] = {
        own,
        {lanes.host().token,
         host == host_use::reads ? access_mode::read : access_mode::read_write}};
    to.add(*this, d, 0, both);
  }
}

void lane_operation::step(lane_set& lanes, unsigned lane, std::uint32_t) noexcept {
  // What the host's memory should hold and does not is as good as a failure here.
  if (host != host_use::none && lanes.host().poison) {
    lanes.of(lane).poison.merge(lanes.host().poison);
  }
  run_on(lanes, lane, [&] { return run(lane); });
  if (host == host_use::writes) {
    lanes.host().poison.merge(lanes.of(lane).poison);
  }
}

void joining_operation::submit(submission& to) {
  lane_set& lanes = to.lanes();
  lanes.host_used = true;
  std::vector<access> accesses;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    accesses.push_back(holds(lanes.at(i)));
  }
  std::vector<task_id> others;
  for (const ref<point>& p : waits) {
    const auto ids = p->tasks_for(nullptr, 0);
    others.insert(others.end(), ids.begin(), ids.end());
  }
  to.add(*this, 0, 0, accesses, others);
}

void joining_operation::step(lane_set& lanes, unsigned, std::uint32_t) noexcept {
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    static_cast<void>(may_run(lanes, static_cast<unsigned>(i)));
  }
  const std::int64_t start = begin();
  run(lanes);
  observe(0, start);
}

}  // namespace weir::runtime
