// SPDX-License-Identifier: Apache-2.0
/// @file
/// Graphs that run by the engine's replay.
///
/// A body copies the recorded operations into device chains of its own, one set for each
/// recorded stream, so that a run does not occupy the device chains of the streams that
/// were recorded. Two tasks frame a run. They hold all device chains of the launching
/// stream and of the body, so runs of the same body follow one another. The first passes
/// the stream's failures in, the last passes the body's failures out.
#include "stream/graphs/graph_body.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include "stream/graphs/graph_memory.hpp"
#include "weir/base/clock.hpp"
#include "weir/tessera/stream/stream.hpp"

namespace weir::tessera {

// The nodes of a graph.

/// Device chains are taken by `make`.
graph_body::graph_body(context& owner) : context_(owner.shared_from_this()) {}

result<std::shared_ptr<graph_body>> graph_body::make(context& owner, const graph& from,
                                                     const graph_run_facts* top) {
  std::shared_ptr<graph_body> out(new graph_body(owner));
  out->top_ = top != nullptr ? top : &out->run;
  // A set of device chains per recorded stream.
  out->streams = from.streams;
  for (const auto& s : from.streams) {
    WEIR_TRY(auto made, owner.take_chains(s->chain_count()));
    made->urgent = s->options().priority < 0;
    out->chains.push_back(std::move(made));
  }
  // Waits name the recorded points. Each is replaced by the copy of the point in this
  // body. Points from outside of the recording have no copy; the run waits for those as a
  // whole. Points of the recording and their copies.
  std::map<const operation*, ref<point>> points;
  const auto take_waits = [&](operation& to, const operation& recorded) {
    for (const ref<point>& p : recorded.waits) {
      if (const auto found = points.find(p.get()); found != points.end()) {
        to.waits.push_back(found->second);
      }
    }
  };
  for (const graph_node& node : from.nodes) {
    graph_node copy{{}, {}, node.stream_index, node.after};
    // A point in front of the node, if the recording has one.
    if (node.before) {
      copy.before =
          make_ref<point>(out->chains[node.stream_index]->devices(), owner.notifier());
      take_waits(*copy.before, *node.before);
      out->adopt(*copy.before, node.stream_index, out->nodes.size());
    }
    WEIR_TRY(copy.operation, copy_for_graph(*node.operation, owner, out->top_));
    take_waits(*copy.operation, *node.operation);
    out->adopt(*copy.operation, node.stream_index, out->nodes.size());
    copy.operation->urgent = node.operation->urgent;
    if (node.operation->kind() == operation_kind::marker) {
      points.emplace(node.operation.get(),
                     ref<point>(static_cast<point*>(copy.operation.get())));
    }
    if (node.operation->kind() == operation_kind::memory) {
      const auto& memory = static_cast<const memory_node&>(*node.operation).memory();
      // Each memory once.
      if (std::find(out->memories.begin(), out->memories.end(), memory) ==
          out->memories.end()) {
        out->memories.push_back(memory);
      }
    }
    out->nodes.push_back(std::move(copy));
  }
  out->sum_needs();
  return out;
}

graph_body::~graph_body() {
  for (auto& l : chains) {
    context_->return_chains(std::move(l));
  }
}

// Gives a node its identity in the graph. Inside a graph, the number of an operation is
// its position, which orders failures like the recording.
void graph_body::adopt(operation& operation, std::size_t stream_index,
                       std::size_t node) const {
  operation.number = node + 1;
  operation.graph_of = context_.get();
  operation.run_of_graph = top_;
  operation.stream_number = streams[stream_index]->number();
  operation.on_devices = streams[stream_index]->devices();
}

// A graph that is recorded by the engine keeps its operations alive itself. If the graph
// is a node of one that is enqueued anew for each run, its tasks own references as usual.
void graph_body::submit(submission& to, std::span<const ref<operation>> frame) {
  const auto put = [&](const ref<operation>& operation, device_chains& into) {
    if (to.runs_once()) {
      submission inside(to.guard(), into, operation);
      operation->submit(inside);
    } else {
      submission inside(to.guard(), into);
      operation->submit(inside);
    }
  };
  put(frame[0], to.chain_count());
  for (const graph_node& node : nodes) {
    if (node.before) {
      put(node.before, *chains[node.stream_index]);
    }
    put(node.operation, *chains[node.stream_index]);
  }
  put(frame[1], to.chain_count());
}

// The new operation takes over the waits. If it does not run on all device chains but
// waits, a point on all device chains takes the waits over instead, because later
// operations of the other device chains must wait as well.
void graph_body::replace(std::size_t node, ref<operation> operation) {
  graph_node& here = nodes[node];
  std::vector<ref<point>>& waits =
      here.before ? here.before->waits : here.operation->waits;
  if (!here.before && !waits.empty() &&
      !operation->on_all_chains(chains[here.stream_index]->devices())) {
    here.before =
        make_ref<point>(chains[here.stream_index]->devices(), context_->notifier());
    here.before->waits = waits;
    adopt(*here.before, here.stream_index, node);
  } else if (!here.before) {
    operation->waits = waits;
  }
  adopt(*operation, here.stream_index, node);
  here.operation = std::move(operation);
  sum_needs();
}

// Two tasks frame the nodes.
std::uint32_t graph_body::tasks() const {
  std::uint32_t out = 2;
  for (const graph_node& node : nodes) {
    const unsigned devices = chains[node.stream_index]->devices();
    out += node.operation->tasks(devices) + (node.before ? devices : 0);
  }
  return out;
}

// Operations of one stream run one after another, so the largest need counts; streams may
// run at the same time, so their needs add up.
void graph_body::sum_needs() {
  std::vector<std::size_t> scratch(chains.size());
  needs_ = {};
  for (const graph_node& node : nodes) {
    const memory_need need = node.operation->needs();
    // The largest need of each stream.
    scratch[node.stream_index] = std::max(scratch[node.stream_index], need.scratch);
    needs_.in_graph += need.in_graph;
  }
  needs_.scratch = std::accumulate(scratch.begin(), scratch.end(), std::size_t{0});
}

std::uint32_t graph_body::counted_launches() const noexcept {
  std::uint32_t out = 0;
  for (const graph_node& node : nodes) {
    out += node.operation->counted_launches();
  }
  return out;
}

/// Launches get consecutive numbers, in the order of the nodes.
void graph_body::count_from(std::uint64_t stream, std::uint64_t& next) noexcept {
  for (const graph_node& node : nodes) {
    node.operation->count_from(stream, next);
  }
}

// The last node of each memory decides whether the graph leaves it to the program.
std::vector<std::shared_ptr<graph_memory>> memory_left_by(
    std::span<const graph_node> nodes) {
  std::vector<std::shared_ptr<graph_memory>> out;
  for (const graph_node& node : nodes) {
    if (node.operation->kind() == operation_kind::memory) {
      const auto& memory_operation = static_cast<const memory_node&>(*node.operation);
      std::erase(out, memory_operation.memory());
      if (memory_operation.takes()) {
        // Taken by the last node, so it is left to the program.
        out.push_back(memory_operation.memory());
      }
    }
  }
  return out;
}

// Copies an operation. A graph in a graph gets a body of its own for each copy.
result<ref<operation>> copy_for_graph(const operation& operation, context& owner,
                                      const graph_run_facts* top) {
  ref<tessera::operation> copy = operation.clone();
  if (!copy) {
    return error(errc::unsupported,
                 fmt::format("graph not instantiated: expected operations that can be "
                             "in a graph, found \"{}\"",
                             operation.name()));
  }
  if (copy->kind() == operation_kind::graph) {
    return static_cast<const child_graph&>(*copy).instance(owner, top);
  }
  return copy;
}

// The tasks that enter and leave a graph.

std::array<ref<operation>, 2> graph_frame::pair(device_chains& outside,
                                                graph_body& inside) {
  return {make_ref<graph_frame>(side::enters, outside, inside),
          make_ref<graph_frame>(side::leaves, outside, inside)};
}

// Besides the device chains, the tasks hold the order token of each memory of the graph.
// Runs of different graphs that use the same memory therefore follow one another.
void graph_frame::submit(submission& to) {
  std::vector<runtime::access> accesses;
  for (unsigned i = 0; i < outside_.devices(); ++i) {
    accesses.push_back(holds(outside_.chain_of(i)));
  }
  for (const auto& chains : inside_.chains) {
    for (unsigned i = 0; i < chains->devices(); ++i) {
      accesses.push_back(holds(chains->chain_of(i)));
    }
  }
  for (const auto& memory : inside_.memories) {
    accesses.push_back(memory->token_access());
  }
  to.add(*this, 0, 0, accesses);
}

/// Called before the replay, under the submission lock.
void graph_frame::expect(const graph_run_facts& run) {
  const std::lock_guard lock(mutex_);
  runs_.push_back(run);
}

void graph_frame::step(device_chains&, unsigned, std::uint32_t) noexcept {
  if (side_ == side::enters) {
    take_next_run();
    enter();
  } else {
    leave();
  }
}

// Takes the facts of the run that was announced first. Runs enter in the order of their
// announcements, because both happen in the order of the stream.
void graph_frame::take_next_run() {
  {
    const std::lock_guard lock(mutex_);
    if (runs_.empty()) {
      return;  // the graph is a node and uses the facts of the outer graph
    }
    inside_.run = runs_.front();
    runs_.pop_front();
  }
  if (inside_.run.called_ns == 0) {
    inside_.run.called_ns = now_ns();  // no observer noted the time of the launch
  }
  // Numbers of launches follow those of the stream.
  std::uint64_t next = inside_.run.ordinal;
  inside_.count_from(inside_.run.stream, next);
}

// A stream's failure keeps the nodes from running, device chain by device chain if the
// recorded stream has the same number of device chains, and all of them otherwise.
void graph_frame::enter() {
  const failure any = outside_.first_failure();
  for (const auto& chains : inside_.chains) {
    for (unsigned i = 0; i < chains->devices(); ++i) {
      chains->chain_of(i).poison =
          corresponds(*chains) ? outside_.chain_of(i).poison : any;
    }
    if (corresponds(*chains)) {
      chains->outside().add_all(outside_.outside(), 0);
    }
  }
}

// Collects the failures of the run and clears the body's device chains for the next one.
// The failures count as those of the operation that launched the graph.
void graph_frame::leave() {
  // For a graph that is a node this is the number of the node in the outer graph.
  const std::uint64_t run = number != 0 ? number : inside_.run.number;
  for (const auto& chains : inside_.chains) {
    if (corresponds(*chains)) {
      outside_.outside().add_all(chains->outside(), run);
    }
    for (unsigned i = 0; i < chains->devices(); ++i) {
      failure left = std::exchange(chains->chain_of(i).poison, {});
      left.operation = run;  // inside, numbers are those of nodes
      // The failure belongs to the launch of the graph.
      outside_.chain_of(corresponds(*chains) ? i : 0).poison.merge(left);
    }
    static_cast<void>(chains->take_failures());
  }
}

// A graph that is a node of another.

result<ref<operation>> child_graph::instance(context& owner,
                                             const graph_run_facts* top) const {
  auto out = make_ref<child_graph>(graph_);
  WEIR_TRY(out->body_, graph_body::make(owner, *graph_, top));
  return ref<operation>(std::move(out));
}

/// The copy shares the recorded graph and gets a body by `instance`.
ref<operation> child_graph::clone() const {
  return make_ref<child_graph>(graph_);
}

std::string child_graph::details() const {
  return fmt::format("\"nodes\":{}", graph_->nodes.size());
}

// Waits are the concern of a task on each outer device chain before the frame. In a
// recorded graph the node keeps the frames alive, which the engine's tasks point to.
void child_graph::submit(submission& to) {
  if (!waits.empty()) {
    for (unsigned d = 0; d < to.chain_count().devices(); ++d) {
      to.add(*this, d, 0, {&holds(to.chain_count().chain_of(d)), 1});
    }
  }
  auto frame = graph_frame::pair(to.chain_count(), *body_);
  for (const ref<operation>& side : frame) {
    side->number = number;
    side->keeps = body_;
  }
  body_->submit(to, frame);
  if (!to.runs_once()) {
    frames_.insert(frames_.end(), frame.begin(), frame.end());
  }
}

/// Only the tasks for waits have steps.
void child_graph::step(device_chains& chains, unsigned chain, std::uint32_t) noexcept {
  static_cast<void>(may_run(chains, chain));
}

}  // namespace weir::tessera
