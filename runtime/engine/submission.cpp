// SPDX-License-Identifier: Apache-2.0
/// @file
/// One submission: a record in the window, predecessors, edges, publication. Steps that
/// can fail come first, so a refused submission changes nothing.
#include <algorithm>

#include "engine/engine_impl.hpp"

namespace weir::runtime {
namespace {

constexpr std::uint32_t usual_accesses = 16;  // per task
constexpr std::uint32_t usual_edges = 16;     // per task, beyond its first block

/// Returns the capacity of the map: the option, or a usual number for each task.
std::uint32_t accesses_of(const engine_options& o) {
  return o.accesses != 0 ? o.accesses : o.window * usual_accesses;
}

/// Returns the number of blocks for successors, computed in the same way.
std::size_t blocks_of(const engine_options& o) {
  const std::size_t edges = o.edges != 0 ? o.edges : o.window * std::size_t{usual_edges};
  return (edges + successor_block::capacity - 1) / successor_block::capacity;
}

}  // namespace

/// Builds the parts of the engine. The members refer to each other, so the order of their
/// declaration counts. The workers come behind all parts that they use, because their
/// threads start at once.
engine::impl::impl(const engine_options& o)
    : options(o),
      tracer(o.trace, std::max(o.workers, o.max_workers)),
      search(accesses_of(o), o.window),
      checks(storages, search.map()),
      blocks(blocks_of(o)),
      groups(o.window),
      window(o, search.map(), blocks, groups, failures, tracer, workers),
      edges(search, storages, window, groups, blocks, failures, workers),
      fresh(o.heap, storages, search.map(), window),
      captured(window, search, edges, storages, workers, tracer),
      workers(o, failures, tracer) {
  if (o.watchdog_ns > 0) {
    start_watchdog();
  }
}

/// The straight path. It contains only the steps that every submission needs;
/// submit_special() has these steps in the same order and those of rare modes between
/// them.
[[gnu::always_inline]] inline result<task_id> engine::impl::submit_usual(
    const char* name, std::span<const access> accesses, const erased_kernel& kernel,
    const submit_options& with) {
  // Runs and retires tasks if the window is full. This ends, because older tasks never
  // wait for newer ones.
  if (!window.has_space(accesses.size())) {
    window.make_space(1, accesses.size());
  }
  task& t = window.prepare(name, kernel.fn, kernel.captures, kernel.size, with);
  edges.enter_plain(t, accesses);
  window.advance();
  const task_id id = t.id;
  const std::uint32_t waits_for = edges.connect_in_slots(t);
  publish(t, waits_for);
  return id;
}

/// The path with all steps of rare modes.
[[gnu::always_inline]] inline result<task_id> engine::impl::submit_special(
    const char* name, std::span<const access> accesses, const erased_kernel& kernel,
    const submit_options& with) {
  const bool plain = checks.all_plain(accesses);
  if (!plain && !checks.allowed(accesses)) {
    return checks.refusal(accesses);
  }
  if (!with.after.empty()) {
    WEIR_CHECK(admission::check_predecessors(with.after, window.next()));
  }
  if (!window.has_space(accesses.size())) {
    window.make_space(1, accesses.size());
  }
  // The map must contain the accesses of replays before it is searched.
  if (window.has_batches()) {
    captured.register_accesses(accesses.size());
  }
  task& t = window.prepare(name, kernel.fn, kernel.captures, kernel.size, with);
  const bool manual = fresh.is_manual();
  if (manual) {
    edges.enter_manual(t, accesses);
  } else if (plain) {
    edges.enter_plain(t, accesses);
  } else {
    edges.enter_any(t, accesses);
  }
  for (const task_id before : with.after) {
    edges.add_asked(t, before, manual);
  }
  window.advance();
  if (workers.board() != nullptr) {
    workers.board()->add(t.id, name);
    edges.show_waits(t);
  }
  const std::uint32_t waits_for = edges.connect(t);
  if (captured.is_recording()) {
    captured_graph::node node{name, kernel.fn, static_cast<std::uint32_t>(kernel.size)};
    node.tag = t.tag;
    captured.record(node, kernel.captures, accesses, with, manual);
  }
  const task_id id = t.id;
  publish(t, waits_for);
  return id;
}

/// Both paths are compiled into this function: a call would cost as much as a step.
result<task_id> engine::submit_erased(const char* name, std::span<const access> accesses,
                                      const erased_kernel& kernel,
                                      const submit_options& with) {
  return impl_->is_usual(accesses, with)
             ? impl_->submit_usual(name, accesses, kernel, with)
             : impl_->submit_special(name, accesses, kernel, with);
}

}  // namespace weir::runtime
