// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decides which operation may come next in a program: the interface must allow it, and
/// it must not race with an earlier one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serial/order.hpp"

namespace weir::test::serial {

/// Follows a program operation by operation and knows which operations may follow.
class rules {
 public:
  /// Keeps a reference to `p`, whose meshes, buffers and streams must be complete. Its
  /// operations are looked up when a graph is launched.
  explicit rules(const program& p);

  /// Returns whether the interface allows the operation at this point.
  [[nodiscard]] bool allows(const operation& o) const;
  /// Returns the orders that are missing between earlier operations and this one.
  [[nodiscard]] std::vector<unordered> races_of(const operation& o) const;
  void take(const operation& o);
  /// Returns whether the program may end at this point.
  [[nodiscard]] bool may_end() const;

  [[nodiscard]] bool open(int stream) const { return at(streams_, stream).open; }
  /// Returns the graph into which the stream is captured, or none if its operations run.
  [[nodiscard]] int captured_in(int stream) const { return at(streams_, stream).graph; }
  /// Returns the graph that records the operations which the stream also runs.
  [[nodiscard]] int flagged_in(int stream) const { return at(streams_, stream).flagged; }
  /// Returns the graph whose recording a synchronization has ended and that the program
  /// has not taken yet.
  [[nodiscard]] int closed_in(int stream) const { return at(streams_, stream).closed; }
  /// Returns whether the buffer is allocated at this point.
  [[nodiscard]] bool there(int buffer) const {
    return !at(p_.buffers, buffer).comes() || at(there_, buffer) != 0;
  }
  /// Returns whether an operation may use the buffer. `graph` is the graph that captures
  /// the operation, or none if it runs.
  [[nodiscard]] bool usable(int buffer, int graph) const {
    const buffer_spec& b = at(p_.buffers, buffer);
    return b.of_graph && graph != none  ? at(inside_, buffer) == graph
           : b.comes() && graph != none ? false  // a graph outlives it
                                        : there(buffer);
  }
  /// Returns whether any capture has allocated the buffer.
  [[nodiscard]] bool taken_by_graph(int buffer) const {
    return at(owner_, buffer) != none;
  }
  [[nodiscard]] const graph_book& book() const { return book_; }
  [[nodiscard]] std::vector<int> graphs() const;
  [[nodiscard]] bool capture_could_end(int stream) const;
  /// Returns the events, recorded outside of captures, for which a wait would order
  /// `what`.
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
    std::vector<operation> calls;  ///< operations of a capture, including those on events
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
  std::vector<char> there_;  ///< by buffer: whether it is allocated
  std::vector<int> inside_;  ///< by buffer: the capture that holds it now
  std::vector<int> owner_;   ///< by buffer: the graph that allocates it
  graph_book book_;
  std::map<int, int> event_graphs_;  ///< by event: the graph in which it was recorded
  std::map<int, recording> graphs_;
};

/// Returns whether the interface allows the whole program and nothing in it races.
[[nodiscard]] bool is_sound(const program& p);

}  // namespace weir::test::serial
