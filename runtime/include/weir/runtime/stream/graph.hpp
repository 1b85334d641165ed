// SPDX-License-Identifier: Apache-2.0
/// @file
/// Graphs: operations as streams recorded them, and how they run again as a whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weir/runtime/stream/operation.hpp"
#include "weir/runtime/stream/point.hpp"

namespace weir::runtime {

class context;
class stream;

/// One recorded operation. Nodes of one stream are in order; others by `after`.
struct graph_node {
  ref<operation> what;
  std::size_t chain = 0;           ///< which of the streams
  std::vector<std::size_t> after;  ///< nodes: the one before in its stream, and points
};

/// A recording that has ended: what was recorded, in an order that works.
/// @threads{immutable}
struct graph {
  std::vector<graph_node> nodes;
  std::vector<std::shared_ptr<stream>> streams;  ///< by chain; the first began it

  [[nodiscard]] std::string to_dot() const;
  [[nodiscard]] std::string to_json() const;
};

/// What one or several streams record into.
/// @threads{whoever has the session}
class graph_recording : public std::enable_shared_from_this<graph_recording> {
 public:
  /// The stream records into it from now on, whether it is given anything or not.
  void take_part(stream& by) { static_cast<void>(chain_of(by)); }
  void add(stream& by, const ref<operation>& what);
  /// The point is one of its nodes.
  [[nodiscard]] bool has(const point& p) const { return points_.count(&p) != 0; }
  /// A stream that waits for a point inside a capture joins it.
  static void join(submission_port::session& in, const point& at, stream& waits);
  void spoil(std::string why);
  /// Nothing more is added; streams that still record forget it.
  void close() noexcept { closed_ = true; }
  /// @error{invalid_argument, it was spoilt, or streams that joined have not come back to
  /// `origin`}
  [[nodiscard]] result<std::shared_ptr<const graph>> finish(stream* origin);
  [[nodiscard]] bool closed() const noexcept { return closed_; }

 private:
  [[nodiscard]] std::size_t chain_of(stream& by);
  [[nodiscard]] bool all_reach(std::size_t last) const;

  graph made_;
  std::vector<std::size_t> last_;  ///< node + 1 by chain, 0: none
  std::map<const operation*, std::size_t> points_;
  std::string spoilt_;
  bool closed_ = false;
};

/// A graph that can run, in its own lanes, any number of times.
/// @threads{whoever has the session}
class graph_exec : public std::enable_shared_from_this<graph_exec> {
 public:
  /// @error{unsupported, an operation that cannot be in a graph; out_of_memory}
  [[nodiscard]] static result<std::shared_ptr<graph_exec>> make(
      std::shared_ptr<const graph> from);
  ~graph_exec();

  /// Runs it behind everything that the stream has. Where the stream's limit leaves less
  /// than it needs, that is a failure of the stream's (out_of_memory).
  /// @error{invalid_argument, another mesh; out_of_range, larger than the window}
  [[nodiscard]] result<void> launch(const std::shared_ptr<stream>& on);
  /// Lets go of it once all runs have ended.
  static void retire(const std::shared_ptr<graph_exec>& what);
  [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }
  /// From the next launch on, the node does this instead, which was made for `made_on`.
  /// Waits for runs in flight.
  /// @error{invalid_argument, no such node, another kind of operation, or a stream on
  /// other devices than the recorded one; unsupported, what cannot be in a graph}
  [[nodiscard]] result<void> update(std::size_t node, ref<operation> what,
                                    const stream& made_on);

 private:
  friend class graph_run;
  struct made_capture {
    std::weak_ptr<stream> on;
    capture tasks;
    std::vector<ref<operation>> frame;  ///< enters and leaves
  };

  graph_exec() = default;
  /// Makes an operation one of this graph.
  void adopt(operation& what, const stream& recorded_on) const;
  [[nodiscard]] result<const capture*> capture_for(submission_port::session& in,
                                                   stream& on);

  [[nodiscard]] result<void> check_update(std::size_t node, const operation& what,
                                          const stream& made_on) const;
  /// Waits for the runs that were launched so far; their number.
  [[nodiscard]] std::uint64_t wait_for_runs();
  void replace(std::size_t node, ref<operation> what);
  void sum_needs();

  std::shared_ptr<const graph> from_;
  std::shared_ptr<context> of_;
  std::uint64_t runs_ = 0;              ///< launched
  std::atomic<std::int64_t> began_{0};  ///< when the run that goes on entered
  std::vector<graph_node> nodes_;
  /// Copies of all nodes, and scratch of the largest of each chain, for these may run at
  /// the same time.
  std::size_t needs_ = 0;
  std::vector<std::unique_ptr<lane_set>> lanes_;    ///< by chain
  std::map<std::uint64_t, made_capture> captures_;  ///< by number of the stream
};

}  // namespace weir::runtime
