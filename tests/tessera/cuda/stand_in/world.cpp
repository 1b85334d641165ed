// SPDX-License-Identifier: Apache-2.0
/// @file
/// Control of the stand-in and the checks that all of its calls have in common.
#include "tessera/cuda/stand_in/world.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/core.h>

namespace weir::tessera::stand_in {
namespace {

using cuda::status;

/// Process that has begun to use the stand-in.
pid_t owner = 0;

/// Returns true if the reference says that "any further CUDA work will return the same
/// error".
bool is_sticky(status s) {
  const int number = static_cast<int>(s);
  return s == status::illegal_address || s == status::launch_timeout ||
         s == status::assertion || (number >= 714 && number <= 719);
}

}  // namespace

thread_local std::vector<device_state*> context_stack;
thread_local bool inside_host_function = false;

world& the_world() {
  static auto* const made = [] {
    std::atexit([] { join_dying(); });  // threads of streams that were never used again
    return new world;
  }();
  return *made;
}

void report(std::string_view rule, std::string text) {
  the_world().breaches.push_back({std::string(rule), std::move(text)});
}

void join(vector_clock& into, const vector_clock& other) {
  for (const auto& [stream, number] : other) {
    std::uint64_t& known = into[stream];
    known = std::max(known, number);
  }
}

void set_up(const machine& shown, std::shared_ptr<kernel_executor> executor) {
  join_dying();
  world& w = the_world();
  const std::lock_guard lock(w.mutex);
  w.shown = shown;
  w.executor = std::move(executor);
  w.initialised = false;
  w.devices.clear();
  for (int i = 0; i < shown.devices; ++i) {
    w.devices.push_back({});
    w.devices.back().number = i;
  }
  for (const auto& [first, a] : w.memory) {
    std::free(reinterpret_cast<void*>(first));
  }
  for (const std::uintptr_t first : w.freed) {
    std::free(reinterpret_cast<void*>(first));
  }
  w.memory.clear();
  w.leaving.clear();
  w.host.clear();
  w.pools.clear();
  w.events.clear();
  w.libraries.clear();
  w.graphs.clear();
  w.graph_execs.clear();
  w.freed.clear();
  w.accesses.clear();
  w.host_clock.clear();
  w.breaches.clear();
  w.calls.clear();
  w.failures.clear();
  w.nccl_failures.clear();
  forget_communicators();
  w.blocks.seed(shown.seed);
  owner = ::getpid();
}

std::vector<breach> take_breaches() {
  const std::lock_guard lock(the_world().mutex);
  return std::exchange(the_world().breaches, {});
}

object_counts objects() {
  world& w = the_world();
  const std::lock_guard lock(w.mutex);
  object_counts counts;
  for (const device_state& d : w.devices) {
    counts.contexts += static_cast<std::size_t>(d.retained);
  }
  counts.streams = w.streams.size();
  counts.events = w.events.size();
  counts.pools = w.pools.size();
  counts.allocations = w.memory.size();
  counts.host_ranges = w.host.size();
  counts.libraries = w.libraries.size();
  counts.graphs = w.graphs.size();
  counts.graph_execs = w.graph_execs.size();
  counts.communicators = communicator_count();
  return counts;
}

void fail_call(std::string_view function, unsigned nth, status outcome) {
  const std::lock_guard lock(the_world().mutex);
  the_world().failures[std::string(function)] = {nth, outcome};
}

unsigned calls_of(std::string_view function) {
  const std::lock_guard lock(the_world().mutex);
  const auto found = the_world().calls.find(function);
  return found == the_world().calls.end() ? 0 : found->second;
}

void break_device(int device, status outcome) {
  world& w = the_world();
  const std::lock_guard lock(w.mutex);
  w.devices[static_cast<std::size_t>(device)].broken = outcome;
  for (const auto& [handle, stream] : w.streams) {
    stream->changed.notify_all();
  }
  w.ended.notify_all();  // streams that wait for an event wait no longer
}

// A call that blocks does so before it takes the lock, as calls of the driver block their
// own thread alone.
entered::entered(const char* function, need wanted) {
  world& w = the_world();
  unsigned pause_us = 0;
  {
    const std::lock_guard lock(w.mutex);
    if (w.shown.max_block_us > 0) {
      pause_us = static_cast<unsigned>(w.blocks() % (w.shown.max_block_us + 1));
    }
  }
  if (pause_us > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
  }
  lock_ = std::unique_lock(w.mutex);
  ++w.calls[function];
  if (owner != ::getpid()) {
    report("no_fork", fmt::format("{} was called in a child of fork", function));
    outcome_ = status::not_initialized;
  } else if (inside_host_function) {
    report("host_function", fmt::format("{} was called by a host function", function));
    outcome_ = status::not_permitted;
  } else if (wanted != need::nothing && !w.initialised) {
    report("initialised", fmt::format("{} was called before cuInit", function));
    outcome_ = status::not_initialized;
  } else if (wanted == need::context && context_stack.empty()) {
    report("context_current", fmt::format("{} was called without a context", function));
    outcome_ = status::invalid_context;
  } else if (wanted == need::context && device().retained == 0) {
    report("context_live",
           fmt::format("{} was called with a context that was released", function));
    outcome_ = status::context_is_destroyed;
  } else if (wanted == need::context) {
    outcome_ = device().broken;
  }
  const auto failure = w.failures.find(function);
  if (outcome_ == status::success && failure != w.failures.end() &&
      failure->second.left > 0 && --failure->second.left == 0) {
    outcome_ = failure->second.outcome;
    if (is_sticky(outcome_) && !context_stack.empty()) {
      device().broken = outcome_;
    }
  }
}

namespace {

const allocation* find_in(const std::map<std::uintptr_t, allocation>& all,
                          std::uintptr_t first, std::size_t bytes) {
  auto after = all.upper_bound(first);
  if (after == all.begin()) {
    return nullptr;
  }
  --after;
  const std::size_t offset = first - after->first;
  const bool inside =
      offset <= after->second.bytes && bytes <= after->second.bytes - offset;
  return inside ? &after->second : nullptr;
}

}  // namespace

const allocation* allocation_at(std::uintptr_t first, std::size_t bytes) {
  return find_in(the_world().memory, first, bytes);
}

bool usable_by_kernels(std::uintptr_t first, std::size_t bytes) {
  return allocation_at(first, bytes) != nullptr ||
         find_in(the_world().leaving, first, bytes) != nullptr ||
         registered(first, bytes);
}

bool registered(std::uintptr_t first, std::size_t bytes) {
  world& w = the_world();
  auto after = w.host.upper_bound(first);
  if (after == w.host.begin()) {
    return false;
  }
  --after;
  const std::size_t offset = first - after->first;
  return offset <= after->second && bytes <= after->second - offset;
}

}  // namespace weir::tessera::stand_in

extern "C" weir::tessera::cuda::status weir_stand_in_lookup(
    const char* name, void** function, int version, std::uint64_t /*flags*/,
    weir::tessera::cuda::lookup* outcome) {
  namespace stand_in = weir::tessera::stand_in;
  using weir::tessera::cuda::lookup;
  using weir::tessera::cuda::status;
  static const auto* const all = [] {
    auto* const made = new std::vector(stand_in::device_functions());
    for (const auto& more : {stand_in::memory_functions(), stand_in::stream_functions(),
                             stand_in::kernel_functions(), stand_in::graph_functions()}) {
      made->insert(made->end(), more.begin(), more.end());
    }
    return made;
  }();
  *function = nullptr;
  *outcome = lookup::symbol_not_found;
  const int shown = stand_in::the_world().shown.version;
  for (const auto& f : *all) {
    if (std::strcmp(f.name, name) != 0 || f.version > shown) {
      continue;
    }
    *outcome = f.version <= version ? lookup::success : lookup::version_not_sufficient;
    *function = f.version <= version ? f.function : nullptr;
  }
  return status::success;
}
