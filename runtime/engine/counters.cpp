// SPDX-License-Identifier: Apache-2.0
/// @file
/// The state of an engine that is visible from outside: counters, and the report of the
/// watchdog. Counters are read one by one while tasks run, so they belong to slightly
/// different moments.
#include <algorithm>
#include <cstdio>

#include <fmt/core.h>

#include "engine/engine_impl.hpp"

namespace weir::runtime {

/// Collects the counters of all parts.
engine_counters engine::counters() const noexcept {
  const impl& s = *impl_;
  const auto get = [](const auto& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  engine_counters out;
  out.submitted = get(s.window.submitted());
  out.replayed = get(s.captured.replayed());
  out.edges_raw = s.edges.edges(hazard::raw);
  out.edges_war = s.edges.edges(hazard::war);
  out.edges_waw = s.edges.edges(hazard::waw);
  out.edges_asked = s.edges.edges(hazard::asked) + s.edges.edges(hazard::manual);
  out.lookups = get(s.edges.lookups());
  const dependency_map::counters& found = s.search.map().counted();
  out.candidates = get(found.candidates);
  out.exact_tests = get(found.tests);
  out.maybe = get(found.maybe);
  out.pruned = get(found.pruned);
  out.edges_pruned = s.search.implied();
  out.window_stalls = get(s.window.window_stalls());
  out.access_stalls = get(s.window.access_stalls());
  out.edge_stalls = get(s.edges.edge_stalls());
  out.heap_stalls = get(s.fresh.stalls());
  for (unsigned w = 0; w < s.workers.workers(); ++w) {
    const worker_tally& t = s.workers.tally_of(w);
    out.finished += t.finished.load(std::memory_order_acquire);
    out.failed += get(t.failed);
    out.poisoned += get(t.poisoned);
    out.postponed += get(t.postponed);
    out.parks += get(t.parks);
  }
  // Ticks are summed first and converted once, since converting reads the clock.
  std::int64_t ticks = 0;
  for (unsigned w = 0; w < s.workers.workers(); ++w) {
    const kernel_times_by_tag& times = s.workers.times_of(w);
    for (std::size_t tag = 0; tag < max_tags; ++tag) {
      ticks += get(times.ticks[tag]);
      out.kernel_ns += get(times.ns[tag]);
    }
  }
  out.kernel_ns += s.workers.clock().to_ns(ticks);
  return out;
}

std::array<std::int64_t, engine::max_tags> engine::kernel_times() const noexcept {
  const scheduler& workers = impl_->workers;
  std::array<std::int64_t, max_tags> out{};
  for (std::size_t tag = 0; tag < max_tags; ++tag) {
    std::int64_t ticks = 0;
    for (unsigned w = 0; w < workers.workers(); ++w) {
      ticks += workers.times_of(w).ticks[tag].load(std::memory_order_relaxed);
      out[tag] += workers.times_of(w).ns[tag].load(std::memory_order_relaxed);
    }
    if (ticks != 0) {
      out[tag] += workers.clock().to_ns(ticks);  // this reads the clock
    }
  }
  return out;
}

std::uint64_t engine::in_flight() const noexcept {
  return impl_->in_flight();
}

// Failed and poisoned tasks since the beginning. The number only grows.
std::uint64_t engine::failures() const noexcept {
  std::uint64_t out = 0;
  for (unsigned w = 0; w < impl_->workers.workers(); ++w) {
    const worker_tally& t = impl_->workers.tally_of(w);
    out += t.failed.load(std::memory_order_relaxed) +
           t.poisoned.load(std::memory_order_relaxed);
  }
  return out;
}

// Tags that are too large share the last one.
void engine::tag_tasks(std::uint16_t tag) noexcept {
  impl_->window.use_tag(std::min<std::uint16_t>(tag, max_tags - 1));
}

/// Sums over all workers; no shared counter is written when a task ends. The effects of
/// the kernels of the tasks that are counted happen before the call returns, so that the
/// objects which they used may be destroyed.
std::uint64_t engine::impl::ended_tasks() const noexcept {
  std::uint64_t out = 0;
  for (unsigned w = 0; w < workers.workers(); ++w) {
    out += workers.tally_of(w).finished.load(std::memory_order_acquire);
  }
  return out;
}

/// Returns the number of tasks in flight. The two counters are read one after the other,
/// so the result may lag. The ended tasks are counted first: all of them were submitted
/// before, so the number that is read then is not smaller and the difference does not
/// wrap.
std::uint64_t engine::impl::in_flight() const noexcept {
  const std::uint64_t ended = ended_tasks();
  const std::uint64_t submitted = window.submitted().load(std::memory_order_acquire);
  return submitted > ended ? submitted - ended : 0;
}

/// Starts the watchdog's thread. Its functions read atomics only.
void engine::impl::start_watchdog() {
  watchdog::view view;
  view.ended = [this] { return ended_tasks(); };
  view.busy = [this] { return in_flight() != 0; };
  view.describe = [this] {
    const std::uint64_t left = in_flight();
    return fmt::format("{}; {} tasks have not ended{}",
                       workers.board()->describe_workers(), left,
                       workers.board()->describe_waits());
  };
  view.report = options.on_stall;
  if (view.report == nullptr) {
    view.report = [](const std::string& text) {
      std::fprintf(stderr, "weir: %s\n", text.c_str());
    };
  }
  dog = std::make_unique<watchdog>(options.watchdog_ns, std::move(view));
}

}  // namespace weir::runtime
