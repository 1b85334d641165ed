// SPDX-License-Identifier: Apache-2.0
/// @file
/// The graph of a pipeline as its author has written it, and the plan that the check
/// derives from it: types, windows, numberings, memory and the guarantee.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/pipeline/stage_info.hpp"

namespace weir::flow {

/// Treatment of an item that fails: a task of it, or the stage itself.
enum class failure_policy : std::uint8_t {
  stop,  ///< the run ends with an error that names stage and item
  skip,  ///< the number becomes a gap; only for stages without state
  /// As `skip`, and the item leaves through an outlet for failed items, see
  /// `add_dead_letters`.
  dead_letter
};

/// Value of `graph_stage::max_failures` without a limit.
inline constexpr std::uint64_t unlimited_failures = ~std::uint64_t{0};

/// Window that an edge has unless its author sets one.
inline constexpr std::uint32_t default_window_items = 8;
/// Bytes that an edge has unless its author sets them.
inline constexpr std::int64_t default_window_bytes = std::int64_t{64} << 20;

/// A stage in a graph.
struct graph_stage {
  std::string name;   ///< name of the stage in the pipeline, unique
  stage_info info;    ///< description of the stage
  std::string place;  ///< place of its definition for messages, `file:line`; may be empty
  failure_policy on_failure = failure_policy::stop;  ///< treatment of failed items
  /// Failed items after which the next one stops the run, counted over resumed runs.
  std::uint64_t max_failures = unlimited_failures;
  host_kind host = host_kind::automatic;  ///< where the stage works, see `host_of`
  stage_origin origin{};                  ///< how the stage is made again by name
};

/// Returns where a stage works, which is never `automatic`.
/// @threads{pure}
[[nodiscard]] host_kind host_of(const graph_stage& s) noexcept;

/// Returns the name of a kind of host in files and messages, such as `own`.
/// @threads{pure}
[[nodiscard]] std::string_view name_of(host_kind kind) noexcept;

/// An edge from an outlet to an inlet.
struct graph_edge {
  std::uint32_t from = 0;    ///< index of the stage that makes the items
  std::uint32_t outlet = 0;  ///< index among `stage_info::ports` of that stage
  std::uint32_t to = 0;      ///< index of the stage that takes the items
  std::uint32_t inlet = 0;   ///< index among `stage_info::ports` of that stage
  std::uint32_t delay = 0;   ///< 0, or the delay of a feedback edge in items
  /// Largest number of items that are alive on the edge.
  std::uint32_t window_items = default_window_items;
  /// Largest number of bytes that are alive on the edge; one item may exceed it alone.
  /// @units{bytes}
  std::int64_t window_bytes = default_window_bytes;
  std::string place;  ///< place of its definition for messages; may be empty
};

/// A pipeline before its check.
/// @threads{a value}
struct graph {
  std::string name;                 ///< name of the pipeline
  std::vector<graph_stage> stages;  ///< in the order of their definition
  std::vector<graph_edge> edges;    ///< in the order of their definition
};

/// A stage after the check.
struct planned_stage {
  std::vector<std::uint32_t> in;   ///< for each inlet the index of its edge
  std::vector<std::uint32_t> out;  ///< edges that begin at the stage, by outlet
  std::vector<port_type> types;    ///< type of each port after unification
  std::vector<port_type> scratch;  ///< type of each piece of scratch, all extents fixed
  std::uint32_t numbering = 0;     ///< numbering of the items that it makes
  /// Largest number of items of the stage that are alive at the same time.
  std::uint32_t slots = 0;
  /// For each port of the stage the bytes of its memory: for an outlet all its slots, for
  /// an inlet 0. @units{bytes}
  std::vector<std::int64_t> bytes;
};

/// A pipeline after its check: everything that a run needs to know beside the stages.
/// @threads{a value}
struct plan {
  graph source;                       ///< the graph, with enlarged windows
  std::vector<planned_stage> stages;  ///< in the order of `source.stages`
  std::vector<std::uint32_t> order;   ///< stages, each behind the stages that feed it
  std::vector<std::string> notes;     ///< enlarged edges, outlets without an edge
  std::int64_t memory_bound = 0;      ///< bytes of items; states are not known yet
  flow::guarantee promise = guarantee::exactly_once;  ///< weakest of all stages
  std::string weakest;  ///< stage that sets `promise`; empty if strongest
};

/// Checks a graph and plans its run.
///
/// Letters of types unify along edges, so that a clash is found before the first item.
/// An edge that is too small for the stages behind it, so that the run would stall, gets
/// a larger window, and a note says so.
/// @error{invalid_argument, two stages, or two ports of a stage, have one name, types
/// clash, an inlet has no edge or two, a cycle has no delay, a stage joins items of two
/// numberings, a loop holds as many items as its delay or more, or a stage with state
/// should skip failed items; the message names both ends}
/// @error{out_of_range, a window or the memory would need 2^63 bytes or more}
/// @threads{safe to call concurrently}
[[nodiscard]] result<plan> check(graph g);

/// Returns the result of the check as text for a terminal: types along all edges,
/// windows, the bound on memory in bytes, the guarantee and the notes.
[[nodiscard]] std::string describe(const plan& p);

}  // namespace weir::flow
