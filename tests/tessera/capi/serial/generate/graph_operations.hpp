// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random captures, and launches and updates of their graphs.
#pragma once

#include "serial/generate/collective_operations.hpp"

namespace weir::test::serial {

/// Adds captures and operations on graphs.
class graph_operations : protected collective_operations {
 public:
  using collective_operations::collective_operations;

 protected:
  void graph();
  void flagged_capture();

 private:
  /// Replaces a node of a graph by another operation of the same kind.
  void update(int graph);
  void launch_graph(int graph) { launch_graph(graph, any_stream()); }
  void launch_graph(int graph, int stream);
  void give_back(int buffer);

  void capture();
  /// Makes a stream wait for an event before it begins or joins a capture. The wait is no
  /// part of the capture, but it must hold for operations after the capture.
  void wait_before_capture(int stream);
  /// After a capture, reads on its streams the words whose writes were awaited before it.
  void use_what_was_awaited();
  /// Frees inside the capture most of the memory that the capture has allocated. The
  /// program frees the rest after each launch of the graph.
  void give_back_inside(const std::vector<int>& members, int graph);
  /// Allocates memory inside the capture.
  void take_inside(int stream);
  void add_member(std::vector<int>& members, int graph);
  void captured_step(int stream);
  /// Adds an operation on a stream that does not capture while another stream does.
  void plain_step();

  /// Words whose write a stream has waited for before a capture.
  struct awaited {
    int stream;
    place written;
  };

  std::vector<awaited> awaited_;
};

}  // namespace weir::test::serial
