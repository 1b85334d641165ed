// SPDX-License-Identifier: Apache-2.0
/// @file
/// Graphs with collectives of streams that are bound to ranks.
///
/// Runs cost more than those of graph_body, because each enqueues all operations again.
#pragma once

#include <memory>
#include <vector>

#include "weir/tessera/stream/graph.hpp"

namespace weir::tessera {

/// A graph whose runs enqueue copies of all nodes in streams of the graph.
/// A rank's share of a collective may wait for other ranks for any time, which tasks of
/// the engine must not do. Each recorded stream therefore has a stream of its own in the
/// graph. A share there holds back the operations behind it, and counts among the
/// collectives that its rank calls.
/// @threads{the thread that holds the submission lock}
class graph_reissue {
 public:
  /// Makes a graph with streams of its own.
  /// @error{unsupported; an operation that cannot be in a graph}
  /// @error{out_of_memory; no memory for the streams}
  [[nodiscard]] static result<std::unique_ptr<graph_reissue>> make(context& owner,
                                                                   const graph& from);

  /// Checks that a run can take place. @error{timeout; ranks that meet in it do not meet
  /// any more}
  [[nodiscard]] result<void> check() const;
  /// Returns operations for one run. The caller does not hold the submission lock. Errors
  /// are those of copy_for_graph.
  [[nodiscard]] result<std::vector<ref<operation>>> copies() const;
  /// Runs `copies` after all operations of the stream, whose later operations wait for
  /// them.
  void run(submission_lock::guard& in, stream& target,
           std::vector<ref<operation>> copies);
  /// Ends the streams; enqueued operations still run. The caller does not hold the
  /// submission lock.
  void close();

  /// Returns the approximate number of tasks of a run.
  [[nodiscard]] std::uint32_t tasks() const;
  /// Returns the memory that a run needs.
  [[nodiscard]] memory_need needs() const;

  std::vector<graph_node> nodes;  ///< the recorded nodes

 private:
  explicit graph_reissue(context& owner) : context_(owner) {}
  /// Orders a run behind the stream's operations and the last run.
  void begin(submission_lock::guard& in, stream& target);
  /// Orders the stream's later operations behind the run, and clears its failures.
  void end(submission_lock::guard& in, stream& target);

  context& context_;
  /// The graph's stream for each recorded stream.
  std::vector<std::shared_ptr<stream>> streams_;
  std::vector<ref<point>> ends_;  ///< end of the last run in each stream
};

}  // namespace weir::tessera
