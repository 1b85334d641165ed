// SPDX-License-Identifier: Apache-2.0
/// @file
/// Graphs in which ranks meet.
#pragma once

#include <memory>
#include <vector>

#include "weir/tessera/stream/graph.hpp"

namespace weir::tessera {

/// A graph that cannot run in one piece, since a rank's share of a collective may wait
/// for other ranks for any time, and the engine's tasks must not. So each run puts copies
/// of all nodes into streams that the graph has for itself, one for each recorded stream.
/// There a share holds back what is behind it, and takes its place among the collectives
/// that the rank calls.
/// @threads{whoever has the session}
class graph_reissue {
 public:
  /// @error{unsupported, an operation that cannot be in a graph; out_of_memory}
  [[nodiscard]] static result<std::unique_ptr<graph_reissue>> make(context& of,
                                                                   const graph& from);

  /// @error{timeout, ranks that meet in it do not meet any more}
  [[nodiscard]] result<void> check() const;
  /// Operations for one run. Without the session. @error as of copy_for_graph
  [[nodiscard]] result<std::vector<ref<operation>>> copies() const;
  /// Runs them behind everything that the stream has, and the stream goes on behind them.
  void run(submission_port::session& in, stream& on, std::vector<ref<operation>> copies);
  /// Nothing more comes; what has been enqueued still runs. Without the session.
  void close();

  [[nodiscard]] std::uint32_t tasks() const;
  [[nodiscard]] memory_need needs() const;

  std::vector<graph_node> nodes;  ///< as recorded

 private:
  explicit graph_reissue(context& of) : of_(of) {}
  void begin(submission_port::session& in, stream& on);
  void end(submission_port::session& in, stream& on);

  context& of_;
  std::vector<std::shared_ptr<stream>> streams_;  ///< by chain
  std::vector<ref<point>> ends_;                  ///< of the last run, by chain
};

}  // namespace weir::tessera
