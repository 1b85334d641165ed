// SPDX-License-Identifier: Apache-2.0
/// @file
/// A recorded capture, and the edges that were derived from it when it ended.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "map/predecessors.hpp"
#include "tasks/task.hpp"

namespace weir::runtime {

/// An edge from a task of an earlier replay to a task of a later one.
struct outer_edge {
  std::uint32_t to = 0;    ///< index in the later replay
  std::uint32_t from = 0;  ///< index in the earlier replay
  hazard why = hazard::raw;
};

/// The records of the tasks of one replay. They are used again by a later replay of the
/// same graph once all tasks have been retired.
struct replay_instance {
  replay_instance(std::size_t count, std::size_t max_captured)
      : records(count, max_captured) {
    records.join(batch);
  }

  task_batch batch;
  task_records records;
  std::unique_ptr<task_history[]> histories;  ///< if the engine traces
  std::uint64_t version = 0;                  ///< of the captured values in `records`
};

/// The tasks of a capture in the order of their submission, and the edges among them.
///
/// `finish` enters the accesses into a map of its own, one task after another, as the
/// engine would. From the predecessors that this finds it drops each edge that others
/// imply (`graph_edges::reduce`). What is left is constant: for each task the number of
/// predecessors in the same replay (`waits_for`) and the list of its followers. A replay
/// copies the numbers into the records and needs no look-up for them.
/// @threads{the submitter; workers read `followers` and `follower_begin` of replays in
/// flight, which are constant}
struct captured_graph {
  struct node {
    const char* name = nullptr;
    task::call_fn fn = nullptr;
    std::uint32_t size = 0;          ///< captured bytes
    std::uint32_t first_access = 0;  ///< its accesses end where the next one's begin
    bool urgent = false;
    std::uint8_t worker = submit_options::anywhere;
    bool though_poisoned = false;
    std::uint16_t tag = 0;
  };

  std::uint64_t serial = 0;         ///< of this graph, never 0
  std::uint64_t engine_serial = 0;  ///< of the engine that it belongs to
  std::vector<node> nodes;          ///< after `finish` one more than there are tasks
  std::vector<std::array<std::byte, engine::max_capture>> captures;
  std::size_t max_captured = 0;  ///< largest number of bytes that a task captured
  std::uint64_t version = 1;     ///< of `captures`
  std::vector<access> accesses;
  /// For each access, 1 if no later write of the graph covers it: tasks that are
  /// submitted after a replay have to find it.
  std::vector<std::uint8_t> stays;
  std::vector<std::uint32_t> follower_begin;
  std::vector<follower> followers;
  /// For each task, the number of its predecessors in the same replay.
  std::vector<std::int32_t> waits_for;
  std::vector<std::uint32_t> roots;  ///< tasks that wait for none of the same replay
  std::array<std::uint64_t, hazards> edges{};  ///< by hazard
  std::vector<storage_id> storages;            ///< all that the tasks access, once each
  std::vector<storage_id>
      kept_storages;                ///< those that some task only keeps, or fresh ones
  std::uint64_t releases_seen = 0;  ///< `storage_table::releases` when all were valid
  /// For the serial of an earlier graph, the edges from its tasks to tasks of this graph,
  /// without those that other edges imply.
  std::map<std::uint64_t, std::vector<outer_edge>> after;
  std::vector<std::unique_ptr<replay_instance>> idle;
  /// An edge between two of the tasks that the program asked for.
  struct asked_edge {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    hazard why = hazard::asked;
  };
  std::vector<asked_edge> asked;  ///< by `to`
  task_id first_id = 0;           ///< id of the first task when it was recorded
  task_batch recording;           ///< batch of the tasks that run while they are recorded

  [[nodiscard]] std::size_t size() const noexcept { return nodes.size() - 1; }
  /// Records a task. `kernel` has its name, its function and the size of its captured
  /// values. In a manual scope its accesses ask for no order.
  void add(node kernel, const void* values, std::span<const access> accesses_of_task,
           const submit_options& with, bool manual);
  /// Derives the edges. The graph does not change after this, but for `rebind`.
  void finish();
  /// Gives task `index` other captured values from the next replay on.
  /// @error{invalid_argument, no such task, or its kernel is another function}
  [[nodiscard]] result<void> rebind(std::size_t index, const void* values,
                                    std::size_t bytes, task::call_fn fn);
  /// Returns every edge that was found, those that others imply included, ordered by
  /// `to`.
  [[nodiscard]] std::vector<outer_edge> all_edges() const;
  /// Returns the edges from a replay of `earlier` to a later replay of this graph. They
  /// are derived at the first call for each `earlier`, by one walk over both graphs.
  [[nodiscard]] const std::vector<outer_edge>& edges_after(const captured_graph& earlier);
};

}  // namespace weir::runtime
