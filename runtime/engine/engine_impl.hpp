// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of an engine, and how a submission passes through them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/admission.hpp"
#include "map/conflict_search.hpp"
#include "replay/captures.hpp"
#include "scopes/fresh_memory.hpp"
#include "tasks/exclusion.hpp"
#include "tasks/failure_log.hpp"
#include "tasks/scheduler.hpp"
#include "tasks/storage_table.hpp"
#include "tasks/successor_pool.hpp"
#include "tasks/task_window.hpp"
#include "tasks/watchdog.hpp"
#include "tasks/wiring.hpp"
#include "weir/runtime/calls/direct_calls.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// An engine is made of parts with one duty each. A part knows those above it in the list
/// of members; `workers` alone comes last, because its threads must end before the parts
/// that they use are destroyed.
/// @threads{the submitter, but for `ended_tasks`, `in_flight` and what the parts say}
struct engine::impl {
  explicit impl(const engine_options& o);

  /// Returns true if a submission can take the straight path: no mode is on that needs a
  /// further step, no predecessor was named, and all accesses are plain and allowed.
  [[nodiscard]] bool is_usual(std::span<const access> accesses,
                              const submit_options& with) const noexcept {
    return with.after.empty() && has_no_mode() && checks.all_plain(accesses);
  }
  /// Returns true if no mode is on that needs a further step.
  [[nodiscard]] bool has_no_mode() const noexcept {
    return !window.has_batches() && !captured.is_recording() && !fresh.is_manual() &&
           workers.board() == nullptr;
  }
  /// Submits on the straight path. @pre is_usual(accesses, with)
  [[nodiscard]] result<task_id> submit_usual(const char* name,
                                             std::span<const access> accesses,
                                             const erased_kernel& kernel,
                                             const submit_options& with);
  /// Submits with all the steps that modes ask for: predecessors that the program named,
  /// replays in flight, a capture under way, a manual scope, a watchdog, and accesses
  /// that commute or ask for no order.
  [[nodiscard]] result<task_id> submit_special(const char* name,
                                               std::span<const access> accesses,
                                               const erased_kernel& kernel,
                                               const submit_options& with);

  /// Returns true if a call on this thread has the effect of a task with these accesses:
  /// the task would wait for no other, and nothing else looks at it.
  [[nodiscard]] bool is_like_call(std::span<const borrowed_access> accesses) noexcept {
    return is_at_rest() && !tracer.recording() && has_no_mode() &&
           checks.all_plain(accesses);
  }
  /// Returns true if no task is in flight and none has failed. Only a submission can
  /// change that, so the workers are asked again only behind one.
  [[nodiscard]] bool is_at_rest() noexcept {
    const std::uint64_t submitted = window.submitted().load(std::memory_order_relaxed);
    if (submitted != at_rest_behind) {
      if (in_flight() != 0 || workers.has_failures()) {
        return false;
      }
      at_rest_behind = submitted;
    }
    return true;
  }
  /// Counts a call in place of a task. @pre is_at_rest()
  void count_call() noexcept {
    ++at_rest_behind;
    window.count_call();
    workers.count_call();
  }

  /// Lets a wired task start once the predecessors that it waits for have ended. The
  /// record may be used again from then on.
  void publish(task& t, std::uint32_t waits_for) {
    if (waits_for == 0) {
      workers.publish(t);
    } else {
      workers.publish(t, wiring_guard - static_cast<std::int32_t>(waits_for));
    }
  }

  /// Returns the number of tasks of all kinds that have ended. @threads{safe from any
  /// thread}
  [[nodiscard]] std::uint64_t ended_tasks() const noexcept;
  /// Returns the number of tasks that have not ended. @threads{safe from any thread; may
  /// lag}
  [[nodiscard]] std::uint64_t in_flight() const noexcept;
  void start_watchdog();
  /// Runs tasks until the task has ended, and returns its failure if it has one.
  [[nodiscard]] result<void> wait_for(task_id id);
  /// Returns the ids of tasks in flight that write the bytes or, with `readers_too`, read
  /// them. Sets `failed` to the oldest failure that was left in the bytes, or 0.
  [[nodiscard]] std::vector<task_id> users(const footprint& bytes, bool readers_too,
                                           task_id& failed);
  /// Runs tasks until no task uses the storage any more.
  void wait_for_users(storage_id id);

  engine_options options;
  failure_log failures;
  trace tracer;
  storage_table storages;
  conflict_search search;
  admission checks;
  successor_pool blocks;
  exclusion_groups groups;
  task_window window;
  wiring edges;
  fresh_memory fresh;
  captures captured;
  scheduler workers;
  std::unique_ptr<watchdog> dog;
  /// Number of submissions behind which `is_at_rest` was true last.
  std::uint64_t at_rest_behind = ~std::uint64_t{0};
};

}  // namespace weir::runtime
