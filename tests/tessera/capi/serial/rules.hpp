// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which operation may come next in a program: what the interface allows, and what would
/// not race.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serial/order.hpp"

namespace weir::test::serial {

/// Follows a program operation by operation.
class rules {
 public:
  /// Meshes, buffers and streams of `p` are complete; its operations are looked up where
  /// a graph is launched.
  explicit rules(const program& p);

  /// Whether the interface allows it here.
  [[nodiscard]] bool allows(const operation& o) const;
  /// What it would race with.
  [[nodiscard]] std::vector<unordered> races_of(const operation& o) const;
  void take(const operation& o);
  /// Whether the program may end here.
  [[nodiscard]] bool may_end() const;

  [[nodiscard]] bool open(int stream) const { return at(streams_, stream).open; }
  /// The graph that the stream records instead of running; none if it runs.
  [[nodiscard]] int captured_in(int stream) const { return at(streams_, stream).graph; }
  /// The graph that records what the stream runs.
  [[nodiscard]] int flagged_in(int stream) const { return at(streams_, stream).flagged; }
  /// The graph whose recording a synchronization has closed, until it is taken.
  [[nodiscard]] int closed_in(int stream) const { return at(streams_, stream).closed; }
  /// Whether the program has the buffer.
  [[nodiscard]] bool there(int buffer) const {
    return !at(p_.buffers, buffer).comes() || at(there_, buffer) != 0;
  }
  /// Whether an operation that this graph records (none: one that runs) may use it.
  [[nodiscard]] bool usable(int buffer, int graph) const {
    const buffer_spec& b = at(p_.buffers, buffer);
    return b.of_graph && graph != none  ? at(inside_, buffer) == graph
           : b.comes() && graph != none ? false  // a graph outlives it
                                        : there(buffer);
  }
  /// Whether a capture has ever taken it.
  [[nodiscard]] bool taken_by_graph(int buffer) const {
    return at(owner_, buffer) != none;
  }
  [[nodiscard]] const graph_book& book() const { return book_; }
  [[nodiscard]] std::vector<int> graphs() const;
  [[nodiscard]] bool capture_could_end(int stream) const;
  /// An event, recorded outside of captures, whose wait would wait for this.
  [[nodiscard]] std::vector<int> events_that_cover(const unordered& what) const;

 private:
  enum class graph_state : std::uint8_t { unknown, recording, ready };
  struct stream_state {
    bool open = true;
    int graph = none;
    int flagged = none;
    int closed = none;
  };
  struct recording {
    std::unique_ptr<order> inside;
    int origin = none;
    int nodes = 0;
    graph_state state = graph_state::unknown;
    std::vector<operation> calls;  ///< of a capture, events too
  };

  [[nodiscard]] bool allows_stream(int stream, const operation& o) const;
  [[nodiscard]] bool allows_places(const operation& o) const;
  [[nodiscard]] bool allows_wait(const operation& o) const;
  [[nodiscard]] bool allows_event(const operation& o) const;
  [[nodiscard]] bool allows_capture(const operation& o) const;
  [[nodiscard]] bool allows_memory(const operation& o) const;
  [[nodiscard]] bool allows_update(const operation& o) const;
  [[nodiscard]] bool allows_graph_launch(const operation& o) const;
  void take_memory(const operation& o);
  void take_event(const operation& o);
  void take_capture(const operation& o);
  [[nodiscard]] order& order_of(const operation& o);
  [[nodiscard]] int event_graph(int event) const {
    const auto found = event_graphs_.find(event);
    return found == event_graphs_.end() ? none : found->second;
  }
  [[nodiscard]] const recording* graph(int g) const {
    const auto found = graphs_.find(g);
    return found == graphs_.end() ? nullptr : &found->second;
  }

  const program& p_;
  order outside_;
  std::vector<stream_state> streams_;
  std::vector<char> there_;  ///< of buffers that come and go
  std::vector<int> inside_;  ///< the capture that has the buffer now
  std::vector<int> owner_;   ///< the graph that takes the buffer
  graph_book book_;
  std::map<int, int> event_graphs_;  ///< of events that have been recorded
  std::map<int, recording> graphs_;
};

/// Whether the interface allows the whole program and nothing in it races.
[[nodiscard]] bool is_sound(const program& p);

}  // namespace weir::test::serial
