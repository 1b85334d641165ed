// SPDX-License-Identifier: Apache-2.0
/// @file
/// Captures and their replays: all tasks at once, edges among them ready, edges to
/// earlier replays remembered, all others looked up.
#include <algorithm>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "tasks/engine_impl.hpp"

namespace weir::runtime {
namespace {

error capture_error(std::string what) {
  return error(errc::invalid_argument, std::move(what));
}

std::unique_ptr<replay_instance> make_instance(const captured_graph& g) {
  auto out = std::make_unique<replay_instance>(g.size(), g.most_captured);
  out->batch.follower_begin = g.follower_begin.data();
  out->batch.followers = g.followers.data();
  for (std::size_t i = 0; i < g.size(); ++i) {
    task& t = out->records.tasks[i];
    t.name = g.nodes[i].name;
    t.fn = g.nodes[i].fn;
    t.urgent = g.nodes[i].urgent;
    t.worker = g.nodes[i].worker;
    t.batch = &out->batch;
  }
  return out;
}

}  // namespace

result<void> engine::begin_capture(const void* argument) {
  impl& s = *impl_;
  if (s.recording != nullptr) {
    return capture_error("capture not begun: expected none under way, found one");
  }
  while (!s.recordings.empty() && s.recordings.front().end <= s.oldest) {
    s.recordings.pop_front();
  }
  s.recording = std::make_shared<captured_graph>();
  s.recording->engine_serial = s.serial;
  s.recording->first_id = s.next;
  s.recording->recording = s.slots;
  s.recording->recording.argument = argument;
  return {};
}

result<capture> engine::end_capture(capture_use use) {
  impl& s = *impl_;
  if (s.recording == nullptr) {
    return capture_error("capture not ended: expected one under way, found none");
  }
  const std::shared_ptr<captured_graph> graph = std::move(s.recording);
  s.recording = nullptr;
  s.recordings.push_back({graph, s.next});  // its tasks point to its argument
  graph->releases_seen = s.releases;
  graph->finish();
  for (const storage_id id : graph->storages) {
    const auto& kept = graph->kept;
    if (s.storages.fresh(id) && std::find(kept.begin(), kept.end(), id) == kept.end()) {
      graph->kept.push_back(id);
    }
  }
  if (graph->size() > s.window && use == capture_use::replay) {
    return error(
        errc::out_of_range,
        fmt::format("capture is too long: expected at most {} tasks, which is the "
                    "window, found {}",
                    s.window, graph->size()));
  }
  return capture(graph);
}

result<void> engine::rebind_erased(const capture& what, std::size_t index,
                                   const void* captures, std::size_t size, call_fn fn) {
  if (what.graph_ == nullptr || index >= what.size()) {
    return capture_error(
        fmt::format("captured values not replaced: expected a task below {}, found {}",
                    what.size(), index));
  }
  captured_graph& g = *what.graph_;
  if (g.nodes[index].fn != fn) {
    return capture_error(
        fmt::format("captured values not replaced: expected a kernel of the type of task "
                    "{} \"{}\", found another",
                    index, g.nodes[index].name));
  }
  std::memcpy(g.captures[index].data(), captures, size);
  ++g.version;
  return {};
}

result<task_id> engine::replay(const capture& what, const void* argument) {
  impl& s = *impl_;
  if (what.graph_ == nullptr || what.graph_->engine_serial != s.serial) {
    return capture_error("replay failed: expected a capture of this engine, found none");
  }
  if (s.recording != nullptr) {
    return capture_error("replay failed: expected no capture under way, found one");
  }
  captured_graph& g = *what.graph_;
  if (g.size() > s.window) {
    return capture_error(
        fmt::format("replay failed: expected a capture of at most {} tasks, which is the "
                    "window, found one of {} for drawing",
                    s.window, g.size()));
  }
  WEIR_CHECK(s.check(g));
  if (g.size() == 0) {
    return task_id{0};
  }
  s.make_room(static_cast<std::uint32_t>(g.size()), 0);
  impl::live_replay& r = s.start_replay(what.graph_, argument);
  s.link_replay(r);
  tally<std::uint64_t>(s.tallies.submitted, g.size());
  tally<std::uint64_t>(s.tallies.replayed, g.size());
  for (std::size_t why = 0; why < hazards; ++why) {
    tally(s.tallies.edges[why], g.edges[why]);
  }
  for (const storage_id id : g.kept) {
    s.storages.keep(id, s.next - 1);
  }
  const task_id first = r.first;
  s.publish_replay(r);
  return first;
}

result<void> engine::impl::check(captured_graph& g) const {
  if (g.releases_seen == releases) {
    return {};
  }
  for (const storage_id id : g.storages) {
    if (!storages.valid(id)) {
      return error(
          errc::not_found,
          fmt::format(
              "replay with a storage that has been released: expected a live one, "
              "found index {} generation {}",
              id.index, id.generation));
    }
  }
  g.releases_seen = releases;
  return {};
}

engine::impl::live_replay& engine::impl::start_replay(
    const std::shared_ptr<captured_graph>& g, const void* argument) {
  std::unique_ptr<replay_instance> instance;
  if (g->idle.empty()) {
    instance = make_instance(*g);
  } else {
    instance = std::move(g->idle.back());
    g->idle.pop_back();
  }
  instance->batch.argument = argument;
  const std::size_t count = g->size();
  if (instance->version != g->version) {
    for (std::size_t i = 0; i < count; ++i) {
      std::copy_n(g->captures[i].data(), g->nodes[i].size, instance->batch.values_of(i));
    }
    instance->version = g->version;
  }
  const std::span tasks(instance->records.tasks.get(), count);
  const std::int32_t* waits_for = g->waits_for.data();
  task_id id = next;
  for (task& t : tasks) {
    t.id = id++;
    t.pending.store(*waits_for++, std::memory_order_relaxed);
    t.root.store(0, std::memory_order_relaxed);
    t.history = nullptr;
    t.successors.store(0, std::memory_order_relaxed);
  }
  if (tracer.recording()) {
    if (instance->histories == nullptr) {
      instance->histories = std::make_unique<task_history[]>(count);
    }
    const std::int64_t now = now_ns();
    for (std::size_t i = 0; i < count; ++i) {
      begin_history(instance->records.tasks[i], instance->histories[i], now);
    }
  }
  if (dog != nullptr) {
    show_waits(*instance, count);
  }
  replays.push_back({g, std::move(instance), next, next + count, false});
  next += count;
  return replays.back();
}

void engine::impl::show_waits(const replay_instance& r, std::size_t count) {
  const std::span<const task> tasks(r.records.tasks.get(), count);
  for (const task& t : tasks) {
    workers.board()->add(t.id, t.name);
  }
  for (const task& t : tasks) {
    for (const follower f : r.batch.followers_of(t)) {
      workers.board()->add_wait(tasks[f.index()].id, t.id);
    }
  }
}

std::uint32_t& engine::impl::edges_of(live_replay& r, std::uint32_t index) {
  task& t = r.instance->records.tasks[index];
  const std::int32_t waits_for = r.graph->waits_for[index];
  // No task of the replay runs before all are linked, so this is its first edge.
  if (t.pending.load(std::memory_order_relaxed) == waits_for) {
    t.pending.store(waits_for + wiring_guard, std::memory_order_relaxed);
    touched.push_back(index);
    edge_counts[index] = 0;
  }
  return edge_counts[index];
}

void engine::impl::link_after(live_replay& r, const live_replay& earlier) {
  for (const outer_edge& e : r.graph->edges_after(*earlier.graph)) {
    if (earlier.first + e.from < oldest) {
      continue;
    }
    std::uint32_t& edges = edges_of(r, e.to);
    task& before = earlier.instance->records.tasks[e.from];
    if (dog != nullptr) {
      workers.board()->add_wait(r.first + e.to, before.id);
    }
    edges += static_cast<std::uint32_t>(
        wire_one(r.instance->records.tasks[e.to], before, e.why));
  }
}

void engine::impl::link_looked_up(live_replay& r) {
  const captured_graph& g = *r.graph;
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    const std::uint32_t begin = g.nodes[i].first_access;
    const std::uint32_t end = g.nodes[i + 1].first_access;
    task& t = r.instance->records.tasks[i];
    look_up(t, std::span(g.accesses).subspan(begin, end - begin), false, nullptr);
    if (!search.found().empty()) {
      if (dog != nullptr) {
        show_waits(t);
      }
      std::uint32_t& edges = edges_of(r, i);
      edges += wire(t);
    }
  }
}

void engine::impl::link_replay(live_replay& r) {
  touched.clear();
  if (edge_counts.size() < r.graph->size()) {
    edge_counts.resize(r.graph->size());
  }
  // Three replays of one graph: what the last waits for in the first, the second has
  // written again, or has waited for itself.
  bool again = false;
  for (auto earlier = replays.rbegin() + 1; earlier != replays.rend(); ++earlier) {
    const bool same = earlier->graph == r.graph;
    if (!same || !again) {
      link_after(r, *earlier);
    }
    again |= same;
  }
  if (!search.map().empty()) {
    link_looked_up(r);
  }
}

void engine::impl::publish_replay(live_replay& r) {
  task* const first = r.instance->records.tasks.get();
  unsigned started = 0;
  // Tasks with edges to the outside still have their guard, so they are not taken for
  // ready ones.
  for (const std::uint32_t i : r.graph->roots) {
    if (first[i].pending.load(std::memory_order_relaxed) == 0) {
      workers.start(first[i]);
      ++started;
    }
  }
  for (const std::uint32_t i : touched) {
    workers.publish(first[i], wiring_guard - static_cast<std::int32_t>(edge_counts[i]));
  }
  workers.wake_for_tasks(started);
}

std::size_t engine::impl::unshown_accesses() const noexcept {
  std::size_t out = 0;
  for (const live_replay& r : replays) {
    if (!r.shown) {
      const captured_graph& g = *r.graph;
      out +=
          g.accesses.size() - g.nodes[std::max(oldest, r.first) - r.first].first_access;
    }
  }
  return out;
}

void engine::impl::show_replays(std::size_t accesses) {
  while (search.map().room() < unshown_accesses() + accesses) {
    workers.help_until_ended(at(oldest));
    retire(window);
  }
  for (live_replay& r : replays) {
    if (r.shown) {
      continue;
    }
    const std::uint64_t retired = std::max(oldest, r.first) - r.first;
    for (auto i = static_cast<std::uint32_t>(retired); i < r.graph->size(); ++i) {
      show_task(r, i);
    }
    r.shown = true;
  }
}

void engine::impl::show_task(const live_replay& r, std::uint32_t index) {
  const captured_graph& g = *r.graph;
  task& t = r.instance->records.tasks[index];
  for (std::uint32_t a = g.nodes[index].first_access; a < g.nodes[index + 1].first_access;
       ++a) {
    if (g.stays[a] != 0) {
      search.insert(g.accesses[a], t.id);
      ++t.accesses;
    }
  }
}

void engine::impl::keep_failed(const live_replay& r, std::uint32_t index, task_id root) {
  const captured_graph& g = *r.graph;
  for (std::uint32_t a = g.nodes[index].first_access; a < g.nodes[index + 1].first_access;
       ++a) {
    if (g.stays[a] != 0 && g.accesses[a].mode != access_mode::read) {
      search.map().add_failed(g.accesses[a].bytes, root);
    }
  }
}

bool engine::impl::retire_replay(live_replay& r) {
  while (true) {
    task* const tasks = r.instance->records.tasks.get();
    const std::span left(tasks + (oldest - r.first), tasks + (r.end - r.first));
    const auto next_left = std::find_if(left.begin(), left.end(),
                                        [](const task& t) { return !t.is_spent(); });
    oldest += static_cast<task_id>(next_left - left.begin());
    if (next_left == left.end()) {
      break;
    }
    task& t = *next_left;
    if (!t.ended()) {
      return false;
    }
    const task_id root = t.root.load(std::memory_order_relaxed);
    if (!r.shown && root != 0) {
      keep_failed(r, static_cast<std::uint32_t>(oldest - r.first), root);
    }
    retire_one(t);
  }
  r.graph->idle.push_back(std::move(r.instance));
  replays.pop_front();
  return true;
}

}  // namespace weir::runtime
