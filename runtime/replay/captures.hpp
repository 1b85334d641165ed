// SPDX-License-Identifier: Apache-2.0
/// @file
/// Recording of submissions, and the replays in flight.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "map/conflict_search.hpp"
#include "replay/captured_graph.hpp"
#include "tasks/scheduler.hpp"
#include "tasks/storage_table.hpp"
#include "tasks/task_window.hpp"
#include "tasks/wiring.hpp"

namespace weir::runtime {

/// Records captures and submits them again.
///
/// A replay is one batch of the window. Its tasks wait for three kinds of predecessors:
///
/// * Tasks of the same replay. These edges were found when the capture ended
///   (`captured_graph::finish`) and are part of the graph. `task::pending` starts with
///   their number, and the worker that ends a task takes them from
///   `task_batch::followers`: nothing is written for them.
/// * Tasks of earlier replays that are still in flight. These edges are found once for
///   each pair of graphs (`captured_graph::edges_after`) and are written each time, as
///   successors of the earlier tasks.
/// * Tasks that were submitted alone. They are looked up in the map, if it has entries.
///
/// Accesses of a replay are not registered in the map, because later replays do not look
/// there. When a task is submitted alone, or a wait asks for the users of a tensor,
/// `register_accesses` registers the accesses of all replays in flight first. Only
/// accesses that no later write of the same replay covers are registered
/// (`captured_graph::stays`).
///
/// A task with edges of the second or third kind gets `wiring_guard` on top of its
/// `pending` count when its first such edge is written (`edges_of`), and loses it in
/// `publish`. No task of the replay runs before `publish`, so until then `pending` is
/// changed by the submitter and by ends of earlier tasks that the guard covers.
///
/// Invariants: `replays_` is in the order of ids. A graph's instance is in
/// `captured_graph::idle` or in exactly one live replay. Failures of replayed tasks whose
/// accesses are not in the map are put there when the tasks are retired.
/// @threads{the submitter; the counter is safe from any thread}
class captures final : private batch_owner {
 public:
  captures(task_window& window, conflict_search& search, wiring& edges,
           storage_table& storages, scheduler& workers, trace& tracer);
  captures(const captures&) = delete;
  captures& operator=(const captures&) = delete;
  ~captures() = default;

  [[nodiscard]] bool is_recording() const noexcept { return recording_ != nullptr; }
  /// @error{invalid_argument, a capture is under way}
  [[nodiscard]] result<void> begin(const void* argument);
  /// Records a submission. @pre is_recording()
  void record(captured_graph::node kernel, const void* values,
              std::span<const access> accesses, const submit_options& with, bool manual) {
    recording_->add(kernel, values, accesses, with, manual);
  }
  /// @error{invalid_argument, no capture is under way; out_of_range, more tasks than the
  ///        window and `use` is not drawing}
  [[nodiscard]] result<std::shared_ptr<captured_graph>> end(capture_use use);

  /// Submits all tasks of a capture, and returns the id of the first; 0 if there are
  /// none.
  /// @error{invalid_argument, a capture of another engine, one for drawing, or a capture
  ///        is under way; not_found, a storage of the capture has been released}
  [[nodiscard]] result<task_id> replay(const std::shared_ptr<captured_graph>& graph,
                                       const void* argument);
  /// Registers the accesses of replays in the map, for look-ups that are to come, and
  /// makes room for this many further accesses.
  void register_accesses(std::size_t accesses);

  /// Tasks that came from replays so far.
  [[nodiscard]] const std::atomic<std::uint64_t>& replayed() const noexcept {
    return replayed_;
  }

 private:
  /// A replay some of whose tasks have not been retired.
  struct live_replay : live_batch {
    std::shared_ptr<captured_graph> graph;
    std::unique_ptr<replay_instance> instance;
    bool registered = false;  ///< its accesses are in the map
  };
  /// A capture whose tasks may still run. They point to its argument.
  struct live_recording {
    std::shared_ptr<captured_graph> graph;
    task_id end = 0;
  };

  /// @error{not_found, a storage of the graph has been released}
  [[nodiscard]] result<void> check_storages(captured_graph& g) const;
  live_replay& start(const std::shared_ptr<captured_graph>& graph, const void* argument);
  void begin_histories(replay_instance& instance, std::size_t count) const;
  /// Notes the tasks, and which of them wait for which, for the watchdog.
  void show_waits(const replay_instance& instance, std::size_t count) const;
  /// Writes the edges to what was submitted before.
  void link(live_replay& r);
  void link_after(live_replay& r, const live_replay& earlier);
  void link_looked_up(live_replay& r);
  /// Returns the number of edges that task `index` has got to the outside, for writing.
  /// Puts the wiring guard on the task when this is its first.
  [[nodiscard]] std::uint32_t& edges_of(live_replay& r, std::uint32_t index);
  void publish(live_replay& r);
  [[nodiscard]] std::size_t unregistered_accesses() const noexcept;
  void register_task(const live_replay& r, std::uint32_t index);

  void retire_failed(live_batch& batch, std::uint32_t index, task_id root) override;
  void retire_batch(live_batch& batch) override;

  std::uint64_t serial_;  ///< of this engine: captures of other engines are refused
  task_window& window_;
  conflict_search& search_;
  wiring& edges_;
  storage_table& storages_;
  scheduler& workers_;
  trace& tracer_;
  std::shared_ptr<captured_graph> recording_;  ///< null: no capture is under way
  std::deque<live_recording> recordings_;
  std::deque<live_replay> replays_;     ///< oldest first
  std::vector<std::uint32_t> touched_;  ///< tasks that `edge_counts_` counts for
  std::vector<std::uint32_t> edge_counts_;
  std::atomic<std::uint64_t> replayed_{0};
};

}  // namespace weir::runtime
