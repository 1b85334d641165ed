// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a capture has recorded, and what has been worked out from it once and for all.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "map/predecessors.hpp"
#include "tasks/task.hpp"

namespace weir::runtime {

/// A task of a later replay that waits for one of an earlier replay.
struct outer_edge {
  std::uint32_t to = 0;    ///< of the later one
  std::uint32_t from = 0;  ///< of the earlier one
  hazard why = hazard::raw;
};

/// Tasks of one replay in flight. Used again once all have been retired.
struct replay_instance {
  replay_instance(std::size_t count, std::size_t most_captured)
      : records(count, most_captured) {
    records.join(batch);
  }

  task_batch batch;
  task_records records;
  std::unique_ptr<task_history[]> histories;  ///< if the engine traces
  std::uint64_t version = 0;                  ///< of the captured values in `tasks`
};

/// @threads{thread-compatible; workers read followers}
struct captured_graph {
  struct node {
    const char* name = nullptr;
    task::call_fn fn = nullptr;
    std::uint32_t size = 0;          ///< bytes captured
    std::uint32_t first_access = 0;  ///< its accesses end where the next one's begin
    bool urgent = false;
    std::uint8_t worker = submit_options::anywhere;
  };

  std::uint64_t serial = 0;         ///< of this graph, never 0
  std::uint64_t engine_serial = 0;  ///< of the engine that it belongs to
  std::vector<node> nodes;          ///< one more than tasks
  std::vector<std::array<std::byte, engine::max_capture>> captures;
  std::size_t most_captured = 0;  ///< bytes, by one task
  std::uint64_t version = 1;      ///< of `captures`
  std::vector<access> accesses;
  /// By access: no later write of the graph covers it, so that it is to be found by those
  /// that come after.
  std::vector<std::uint8_t> stays;
  std::vector<std::uint32_t> follower_begin;
  std::vector<follower> followers;
  /// By task: how many of the same replay it waits for. Every replay reads all of it.
  std::vector<std::int32_t> waits_for;
  std::vector<std::uint32_t> roots;  ///< tasks that wait for none of the same replay
  std::array<std::uint64_t, hazards> edges{};  ///< by hazard
  std::vector<storage_id> storages;            ///< that it accesses, each once
  std::vector<storage_id> kept;     ///< those of them that some tasks only keep
  std::uint64_t releases_seen = 0;  ///< the storages were valid after so many releases
  /// By serial of an earlier replay's graph: what this one waits for there, without what
  /// other edges imply.
  std::map<std::uint64_t, std::vector<outer_edge>> after;
  std::vector<std::unique_ptr<replay_instance>> idle;
  /// Order that the program asked for between two of the tasks.
  struct asked_edge {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    hazard why = hazard::asked;
  };
  std::vector<asked_edge> asked;  ///< by `to`
  task_id first_id = 0;           ///< of the tasks that ran while they were recorded
  task_batch recording;  ///< what the tasks have that run while they are recorded

  [[nodiscard]] std::size_t size() const noexcept { return nodes.size() - 1; }
  /// Records a task: `kernel` says its name, function and bytes of captured values. In a
  /// manual scope its accesses ask for no order.
  void add(node kernel, const void* values, std::span<const access> of,
           const submit_options& with, bool manual);
  /// Works out who waits for whom.
  void finish();
  /// Gives task `index` other captured values from the next replay on.
  /// @error{invalid_argument, no such task, or its kernel is another function}
  [[nodiscard]] result<void> rebind(std::size_t index, const void* values,
                                    std::size_t bytes, task::call_fn fn);
  /// Every edge that was found, before those that others imply were dropped; by `to`.
  [[nodiscard]] std::vector<outer_edge> all_edges() const;
  /// What this graph's tasks wait for in a replay of `earlier` that ran before.
  [[nodiscard]] const std::vector<outer_edge>& edges_after(const captured_graph& earlier);
};

}  // namespace weir::runtime
