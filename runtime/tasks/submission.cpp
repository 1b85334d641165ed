// SPDX-License-Identifier: Apache-2.0
/// @file
/// From a submission to a wired task: slot, look-ups, registration, edges, publication.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "tasks/engine_impl.hpp"

namespace weir::runtime {
namespace {

/// Keeps a task from starting while it is being wired.
constexpr std::int32_t guard = 1 << 30;
/// Retired per submission: more than one, so that a backlog shrinks.
constexpr std::uint32_t retired_per_submission = 4;
constexpr std::uint32_t expected_accesses = 4;
constexpr std::uint64_t most_freed_at_once = 64;

}  // namespace

engine::impl::impl(const engine_options& o)
    : options(o),
      window(o.window),
      tasks(std::make_unique<task[]>(o.window)),
      map(o.window * expected_accesses),
      predecessors(o.window),
      tracer(o.trace, o.workers),
      workers(o.workers, o.window, failures, tracer) {
  if (o.trace.mode != trace_mode::off) {
    histories = std::make_unique<task_record[]>(o.window);
    for (std::uint32_t i = 0; i < o.window; ++i) {
      tasks[i].history = &histories[i];
    }
  }
}

result<void> engine::impl::check(std::span<const access> accesses) const {
  for (const access& a : accesses) {
    const footprint& bytes = a.bytes;
    if (bytes.empty()) {
      continue;
    }
    if (!storages.valid(bytes.id)) {
      return error(
          errc::not_found,
          fmt::format("submission with an unknown storage: expected a live one, found "
                      "index {} generation {}",
                      bytes.id.index, bytes.id.generation));
    }
    if (bytes.lo < 0 || bytes.hi > storages.size(bytes.id)) {
      return error(
          errc::out_of_range,
          fmt::format("submission leaves its storage: expected bytes below {}, found "
                      "[{}, {})",
                      storages.size(bytes.id), bytes.lo, bytes.hi));
    }
  }
  return {};
}

void engine::impl::make_room() {
  retire(retired_per_submission);
  if (next - oldest < window) {
    return;
  }
  tally<std::uint64_t>(tallies.window_stalls);
  // Several at once: starting and stopping to help costs more than many tasks.
  const std::uint64_t batch =
      std::clamp<std::uint64_t>(window / 8, 1, most_freed_at_once);
  workers.help_until_ended(slot(oldest + batch - 1));
  while (next - oldest >= window) {
    workers.help_until_ended(slot(oldest));
    retire(window);
  }
}

void engine::impl::retire(std::uint32_t most) {
  while (most-- > 0 && oldest < next && slot(oldest).ended()) {
    retire_oldest();
  }
}

void engine::impl::retire_oldest() {
  task& t = slot(oldest);
  const task_id root = t.root.load(std::memory_order_relaxed);
  if (root != 0) {
    failures.retire(t.id, t.name, root);
  }
  map.retire(t.first_entry, root);
  t.first_entry = no_entry;
  return_edges(t);
  ++oldest;
}

task& engine::impl::prepare(const char* name, const void* captures, std::size_t size,
                            task::call_fn fn) {
  task& t = slot(next);
  t.id = next;
  t.fn = fn;
  t.name = name;
  t.root.store(0, std::memory_order_relaxed);
  t.pending.store(guard, std::memory_order_relaxed);
  t.traced = tracer.recording();
  if (t.traced) {
    task_record& h = *t.history;
    h = task_record{};
    h.name = name;
    h.id = next;
    h.submitted = now_ns();
    tracer.stamp(h);
  }
  std::memcpy(t.captures.data(), captures, size);
  // Nobody can reach the slot before an edge or the queue shows it.
  t.successors.store(nullptr, std::memory_order_relaxed);
  return t;
}

void engine::impl::gather_kind(task& t, const access& a, bool writers, hazard why,
                               task_id& floor) {
  const bool writes = a.mode != access_mode::read;
  candidates.clear();
  covered.clear();
  map.conflicts(a.bytes, writers, [&](std::uint32_t ref, const dependency_map::entry& e) {
    if (e.failed()) {
      t.poison(e.root());
    } else {
      candidates.push_back(e.task);
      if (writers && e.task > floor && map.covering(ref, a.bytes)) {
        floor = e.task;
      }
    }
    if (writes && map.covered_by(a.bytes, ref)) {
      covered.push_back(ref);
    }
  });
  // What is older than a writer of all these bytes is ordered before that writer already.
  for (const task_id id : candidates) {
    if (id >= floor) {
      predecessors.add(id, why);
    }
  }
  for (const std::uint32_t ref : covered) {
    map.prune(ref);
  }
  tally<std::uint64_t>(tallies.pruned, covered.size());
}

void engine::impl::gather(task& t, const access& a) {
  tally<std::uint64_t>(tallies.lookups);
  const bool reads = a.mode != access_mode::write;
  task_id floor = 0;  // newest writer of all the bytes
  gather_kind(t, a, true, reads ? hazard::raw : hazard::waw, floor);
  if (a.mode != access_mode::read) {
    gather_kind(t, a, false, hazard::war, floor);
  }
}

void engine::impl::register_accesses(task& t, std::span<const access> accesses) {
  t.first_entry = no_entry;
  for (const access& a : accesses) {
    if (!a.bytes.empty()) {
      t.first_entry =
          map.insert(a.bytes, a.mode != access_mode::read, t.id, t.first_entry);
    }
  }
}

edge& engine::impl::edge_of(task& t, std::uint32_t index) {
  if (index < inline_edges) {
    return t.edges[index];
  }
  const std::size_t room = t.spill == nullptr ? 0 : t.spill->edges.size();
  const std::size_t place = room == 0 ? 0 : (index - inline_edges) % room;
  if (place == 0) {
    if (free_chunks == nullptr) {
      chunks.push_back(std::make_unique<edge_chunk>());
      free_chunks = chunks.back().get();
    }
    edge_chunk* chunk = free_chunks;
    free_chunks = chunk->next;
    chunk->next = t.spill;
    t.spill = chunk;
  }
  return t.spill->edges[place];
}

void engine::impl::return_edges(task& t) {
  while (t.spill != nullptr) {
    edge_chunk* chunk = t.spill;
    t.spill = chunk->next;
    chunk->next = free_chunks;
    free_chunks = chunk;
  }
}

std::int32_t engine::impl::wire(task& t) {
  std::uint32_t edges = 0;
  for (const predecessor_list::item& p : predecessors.items()) {
    task& before = slot(p.id);
    edge& e = edge_of(t, edges);
    e.set(t, p.why != hazard::war);
    if (!workers.add_successor(before, e)) {
      const task_id root = before.root.load(std::memory_order_relaxed);
      if (root != 0 && e.carries_failure()) {
        t.poison(root);
      }
      continue;
    }
    ++edges;
    tally<std::uint64_t>(p.why == hazard::raw   ? tallies.edges_raw
                         : p.why == hazard::war ? tallies.edges_war
                                                : tallies.edges_waw);
  }
  return static_cast<std::int32_t>(edges);
}

result<task_id> engine::submit_erased(const char* name, std::span<const access> accesses,
                                      const void* captures, std::size_t size,
                                      call_fn fn) {
  impl& s = *impl_;
  WEIR_CHECK(s.check(accesses));
  s.make_room();
  task& t = s.prepare(name, captures, size, fn);
  s.predecessors.start(t.id);
  for (const access& a : accesses) {
    if (!a.bytes.empty()) {
      s.gather(t, a);
    }
  }
  s.register_accesses(t, accesses);
  ++s.next;
  const std::int32_t edges = s.wire(t);
  tally<std::uint64_t>(s.tallies.submitted);
  s.tallies.exact_tests.store(s.map.tests(), std::memory_order_relaxed);
  s.tallies.maybe.store(s.map.maybe(), std::memory_order_relaxed);
  const task_id id = t.id;
  s.workers.publish(t, guard - edges);
  return id;
}

}  // namespace weir::runtime
