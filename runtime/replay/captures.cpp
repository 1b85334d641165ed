// SPDX-License-Identifier: Apache-2.0
/// @file
/// Captures and their replays. A replay submits all tasks at once: edges among its tasks
/// are known, edges to earlier replays are remembered, and all others are looked up.
///
/// One replay, step by step:
///
///   check    the capture, its size, its storages: nothing has changed if this fails
///   start    records from `idle` or new ones; `pending` as the graph says
///   link     edges to earlier replays, look-ups of single tasks; guards where needed
///   keep     storages whose accesses are not in the map
///   publish  roots start, guards are taken away
///
/// A graph may have several replays in flight; each has its own records.
#include "replay/captures.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

namespace weir::runtime {
namespace {

// Errors of wrong uses have one code.
error capture_error(std::string text) {
  return error(errc::invalid_argument, std::move(text));
}

/// Returns a number that no other engine of the process has.
std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

/// Makes the records of one replay, filled with all that does not change between replays.
std::unique_ptr<replay_instance> make_instance(const captured_graph& g,
                                               scheduler& workers) {
  auto out = std::make_unique<replay_instance>(g.size(), g.max_captured);
  out->batch.owner = &workers;
  // The edges inside the graph are shared by all its replays.
  out->batch.follower_begin = g.follower_begin.data();
  out->batch.followers = g.followers.data();
  for (std::size_t i = 0; i < g.size(); ++i) {
    task& t = out->records.tasks[i];
    t.name = g.nodes[i].name;
    t.fn = g.nodes[i].fn;
    t.urgent = g.nodes[i].urgent;
    t.worker = g.nodes[i].worker;
    t.though_poisoned = g.nodes[i].though_poisoned;
    t.tag = g.nodes[i].tag;
    t.batch = &out->batch;
  }
  return out;
}

}  // namespace

captures::captures(task_window& window, conflict_search& search, wiring& edges,
                   storage_table& storages, scheduler& workers, trace& tracer)
    : serial_(next_serial()),
      window_(window),
      search_(search),
      edges_(edges),
      storages_(storages),
      workers_(workers),
      tracer_(tracer) {
  window_.set_batch_owner(*this);
}

/// Starts to record. Until end(), tasks run as usual and are recorded at the same time.
result<void> captures::begin(const void* argument) {
  if (recording_ != nullptr) {
    return capture_error("capture not begun: expected none under way, found one");
  }
  // Recordings are kept alive as long as their tasks may run, because those point into
  // them.
  while (!recordings_.empty() && recordings_.front().end <= window_.oldest()) {
    recordings_.pop_front();
  }
  recording_ = std::make_shared<captured_graph>();
  recording_->engine_serial = serial_;
  recording_->first_id = window_.next();
  recording_->recording = window_.slots();
  // Recorded tasks find the argument as replayed ones do, through their batch.
  recording_->recording.argument = argument;
  window_.use_batch(recording_->recording);
  return {};
}

/// Ends the recording and derives its edges.
result<std::shared_ptr<captured_graph>> captures::end(capture_use use) {
  if (recording_ == nullptr) {
    return capture_error("capture not ended: expected one under way, found none");
  }
  window_.use_batch(window_.slots());
  const std::shared_ptr<captured_graph> graph = std::exchange(recording_, nullptr);
  // The tasks of the recording are in flight and point to its batch.
  recordings_.push_back({graph, window_.next()});
  graph->releases_seen = storages_.releases();
  graph->finish();
  for (const storage_id id : graph->storages) {
    const auto& kept_storages = graph->kept_storages;
    if (storages_.fresh(id) && std::find(kept_storages.begin(), kept_storages.end(),
                                         id) == kept_storages.end()) {
      graph->kept_storages.push_back(id);
    }
  }
  // A longer graph can be drawn but never be in flight as a whole.
  if (graph->size() > window_.capacity() && use == capture_use::replay) {
    return error(
        errc::out_of_range,
        fmt::format("capture is too long: expected at most {} tasks, which is the "
                    "window, found {}",
                    window_.capacity(), graph->size()));
  }
  return graph;
}

/// Submits all tasks of a capture. Everything is checked before the first change.
result<task_id> captures::replay(const std::shared_ptr<captured_graph>& graph,
                                 const void* argument) {
  if (graph == nullptr || graph->engine_serial != serial_) {
    return capture_error("replay failed: expected a capture of this engine, found none");
  }
  if (recording_ != nullptr) {
    return capture_error("replay failed: expected no capture under way, found one");
  }
  captured_graph& g = *graph;
  if (g.size() > window_.capacity()) {
    return capture_error(
        fmt::format("replay failed: expected a capture of at most {} tasks, which is the "
                    "window, found one of {} for drawing",
                    window_.capacity(), g.size()));
  }
  WEIR_CHECK(check_storages(g));
  if (g.size() == 0) {
    return task_id{0};
  }
  // Accesses of replays need no space in the map.
  window_.make_space(static_cast<std::uint32_t>(g.size()), 0);
  live_replay& r = start(graph, argument);
  link(r);
  tally<std::uint64_t>(replayed_, g.size());
  for (std::size_t why = 0; why < hazards; ++why) {
    edges_.count_edges(static_cast<hazard>(why), g.edges[why]);
  }
  for (const storage_id id : g.kept_storages) {
    storages_.keep(id, window_.next() - 1);
  }
  const task_id first = r.first;
  publish(r);
  return first;
}

/// Checks that no storage was released since the last replay. The comparison of counters
/// makes that one instruction in the usual case.
result<void> captures::check_storages(captured_graph& g) const {
  if (g.releases_seen == storages_.releases()) {
    return {};
  }
  for (const storage_id id : g.storages) {
    if (!storages_.valid(id)) {
      return error(
          errc::not_found,
          fmt::format(
              "replay with a storage that has been released: expected a live one, "
              "found index {} generation {}",
              id.index, id.generation));
    }
  }
  g.releases_seen = storages_.releases();
  return {};
}

/// Takes records for the replay and resets them. The tasks are in the window afterwards
/// but not linked or published yet.
captures::live_replay& captures::start(const std::shared_ptr<captured_graph>& graph,
                                       const void* argument) {
  captured_graph& g = *graph;
  std::unique_ptr<replay_instance> instance;
  if (g.idle.empty()) {
    instance = make_instance(g, workers_);
  } else {
    instance = std::move(g.idle.back());
    g.idle.pop_back();
  }
  instance->batch.argument = argument;
  const std::size_t count = g.size();
  // Captured values are copied only after `rebind`, or into new records.
  if (instance->version != g.version) {
    for (std::size_t i = 0; i < count; ++i) {
      std::copy_n(g.captures[i].data(), g.nodes[i].size, instance->batch.values_of(i));
    }
    instance->version = g.version;
  }
  const std::span tasks(instance->records.tasks.get(), count);
  const std::int32_t* waits_for = g.waits_for.data();
  task_id id = window_.next();
  // All that a run changes in a record is set again.
  for (task& t : tasks) {
    t.id = id++;
    t.pending.store(*waits_for++, std::memory_order_relaxed);
    t.root.store(0, std::memory_order_relaxed);
    t.history = nullptr;
    t.successors.store(0, std::memory_order_relaxed);
  }
  if (tracer_.recording()) {
    begin_histories(*instance, count);
  }
  if (workers_.board() != nullptr) {
    show_waits(*instance, count);
  }
  live_replay& r = replays_.emplace_back();
  r.tasks = tasks.data();
  r.first = window_.next();
  r.end = r.first + count;
  r.graph = graph;
  r.instance = std::move(instance);
  window_.add_batch(r);
  return r;
}

/// Begins the histories of all tasks, for the trace.
void captures::begin_histories(replay_instance& instance, std::size_t count) const {
  if (instance.histories == nullptr) {
    instance.histories = std::make_unique<task_history[]>(count);
  }
  const std::int64_t now = now_ns();
  for (std::size_t i = 0; i < count; ++i) {
    window_.begin_history(instance.records.tasks[i], instance.histories[i], now);
  }
}

// Predecessors inside the replay; those outside are added while they are linked.
void captures::show_waits(const replay_instance& instance, std::size_t count) const {
  const std::span<const task> tasks(instance.records.tasks.get(), count);
  for (const task& t : tasks) {
    workers_.board()->add(t.id, t.name);
  }
  for (const task& t : tasks) {
    for (const follower f : instance.batch.followers_of(t)) {
      workers_.board()->add_wait(tasks[f.index()].id, t.id);
    }
  }
}

/// A task without outer edges never gets the guard, so starting a replay costs nothing
/// for tasks inside the graph.
std::uint32_t& captures::edges_of(live_replay& r, std::uint32_t index) {
  task& t = r.tasks[index];
  const std::int32_t waits_for = r.graph->waits_for[index];
  // No task of the replay runs before all are linked, so nothing has been taken from a
  // count without a guard: if it is still what the graph says, this is the first edge.
  if (t.pending.load(std::memory_order_relaxed) == waits_for) {
    t.pending.store(waits_for + wiring_guard, std::memory_order_relaxed);
    touched_.push_back(index);
    edge_counts_[index] = 0;
  }
  return edge_counts_[index];
}

/// Writes the remembered edges to one earlier replay, apart from those to retired tasks.
void captures::link_after(live_replay& r, const live_replay& earlier) {
  for (const outer_edge& e : r.graph->edges_after(*earlier.graph)) {
    // The task has been retired, and its failure, if there is one, is found by the map.
    if (earlier.first + e.from < window_.oldest()) {
      continue;
    }
    std::uint32_t& edges = edges_of(r, e.to);
    task& before = earlier.tasks[e.from];
    if (workers_.board() != nullptr) {
      workers_.board()->add_wait(r.first + e.to, before.id);
    }
    // Counts the edges that were really written: an ended predecessor gives none.
    edges += static_cast<std::uint32_t>(edges_.connect_one(r.tasks[e.to], before, e.why));
  }
}

/// Looks up tasks that were submitted alone, one task after the other.
void captures::link_looked_up(live_replay& r) {
  const captured_graph& g = *r.graph;
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    const std::uint32_t begin = g.nodes[i].first_access;
    const std::uint32_t end = g.nodes[i + 1].first_access;
    task& t = r.tasks[i];
    edges_.look_up(t, std::span(g.accesses).subspan(begin, end - begin));
    if (edges_.found_any()) {
      if (workers_.board() != nullptr) {
        edges_.show_waits(t);
      }
      std::uint32_t& edges = edges_of(r, i);
      edges += edges_.connect(t);
    }
  }
}

/// Connects a new replay with what is in flight: with earlier replays by edges that were
/// computed once for each pair of graphs, and with single tasks by looking the accesses
/// up in the map.
void captures::link(live_replay& r) {
  touched_.clear();
  if (edge_counts_.size() < r.graph->size()) {
    edge_counts_.resize(r.graph->size());
  }
  // If several replays of this graph are in flight, only the newest is linked to. Edges
  // of the new one to an older one are implied: the same tasks of the newest have the
  // same accesses, and were linked to the older one themselves.
  bool again = false;
  for (auto earlier = replays_.rbegin() + 1; earlier != replays_.rend(); ++earlier) {
    const bool same = earlier->graph == r.graph;
    if (!same || !again) {
      link_after(r, *earlier);
    }
    again |= same;
  }
  if (!search_.map().empty()) {
    link_looked_up(r);
  }
}

/// Lets the replay start: roots without outer edges at once, the others when their guard
/// has been taken away.
void captures::publish(live_replay& r) {
  task* const first = r.tasks;
  unsigned started = 0;
  // Roots with edges to the outside still have their guard, so their count is not zero.
  for (const std::uint32_t i : r.graph->roots) {
    if (first[i].pending.load(std::memory_order_relaxed) == 0) {
      workers_.start(first[i]);
      ++started;
    }
  }
  for (const std::uint32_t i : touched_) {
    workers_.publish(first[i], wiring_guard - static_cast<std::int32_t>(edge_counts_[i]));
  }
  workers_.wake_for_tasks(started);
}

/// Returns how many accesses register_accesses() would register at most.
std::size_t captures::unregistered_accesses() const noexcept {
  std::size_t out = 0;
  for (const live_replay& r : replays_) {
    if (!r.registered) {
      const captured_graph& g = *r.graph;
      out += g.accesses.size() -
             g.nodes[std::max(window_.oldest(), r.first) - r.first].first_access;
    }
  }
  return out;
}

/// Registers accesses of replays in flight. Tasks run first if the map lacks space.
void captures::register_accesses(std::size_t accesses) {
  while (search_.map().space() < unregistered_accesses() + accesses) {
    window_.run_oldest();
  }
  for (live_replay& r : replays_) {
    if (r.registered) {
      continue;
    }
    // Tasks in front of this one have left the window and need no entries.
    const std::uint64_t retired = std::max(window_.oldest(), r.first) - r.first;
    for (auto i = static_cast<std::uint32_t>(retired); i < r.graph->size(); ++i) {
      register_task(r, i);
    }
    r.registered = true;
  }
}

// Only accesses that no later write of the same replay covers are of interest to others.
void captures::register_task(const live_replay& r, std::uint32_t index) {
  const captured_graph& g = *r.graph;
  task& t = r.tasks[index];
  for (std::uint32_t a = g.nodes[index].first_access; a < g.nodes[index + 1].first_access;
       ++a) {
    if (g.stays[a] != 0) {
      search_.insert(g.accesses[a], t.id);
      ++t.accesses;
    }
  }
}

/// Keeps the failure of a replayed task for later readers of the bytes it should have
/// written.
void captures::retire_failed(live_batch& batch, std::uint32_t index, task_id root) {
  const auto& r = static_cast<const live_replay&>(batch);
  if (r.registered) {
    return;  // the map has the accesses, and notes the failure when it retires them
  }
  const captured_graph& g = *r.graph;
  for (std::uint32_t a = g.nodes[index].first_access; a < g.nodes[index + 1].first_access;
       ++a) {
    if (g.stays[a] != 0 && g.accesses[a].mode != access_mode::read) {
      search_.map().add_failed(g.accesses[a].bytes, root);
    }
  }
}

/// Keeps the records for the next replay of the graph. Replays are retired in order.
void captures::retire_batch(live_batch& batch) {
  auto& r = static_cast<live_replay&>(batch);
  // Records are freed with the graph.
  r.graph->idle.push_back(std::move(r.instance));
  replays_.pop_front();
}

}  // namespace weir::runtime
