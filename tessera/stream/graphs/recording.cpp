// SPDX-License-Identifier: Apache-2.0
/// @file
/// Recordings of captures: nodes, their predecessors, memory, and descriptions of a
/// recorded graph as text.
///
/// A node follows the last node of its stream and the nodes of the points that it waits
/// for. A capture is lost (`refuse`) when a call would make the graph incomplete or
/// dependent on the order of threads. All members are guarded by the submission lock.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "stream/graphs/graph_memory.hpp"
#include "weir/tessera/stream/graph.hpp"
#include "weir/tessera/stream/stream.hpp"

namespace weir::tessera {
namespace {

/// Returns the error of a capture that was lost.
error lost(std::string_view why) {
  return {
      errc::invalid_argument,
      fmt::format("capture not ended: expected one that is whole, found that {}", why)};
}

}  // namespace

// Returns the index of a stream in the recording, and adds the stream at its first use.
// `last_` has, for each stream, the index of its last node plus 1, or 0.
std::size_t graph_recording::index_of(stream& by) {
  for (std::size_t i = 0; i < made_.streams.size(); ++i) {
    // Recordings have few streams, so a search is enough.
    if (made_.streams[i].get() == &by) {
      return i;
    }
  }
  made_.streams.push_back(by.shared_from_this());
  last_.push_back(0);
  return made_.streams.size() - 1;
}

// Adds a node. A point that only exists in the capture is marked, so that calls outside
// of the capture do not wait for it.
void graph_recording::add(stream& by, const ref<operation>& operation) {
  if (closed_) {
    return;
  }
  graph_node node;
  node.stream_index = index_of(by);
  node.operation = operation;
  // The node follows the last one of its stream.
  if (last_[node.stream_index] != 0) {
    node.after.push_back(last_[node.stream_index] - 1);
  }
  for (const ref<point>& p : operation->waits) {
    const auto found = points_.find(p.get());
    if (found != points_.end()) {
      node.after.push_back(found->second);
      // A point without tasks that is not in this capture can only be in another one. The
      // graph could never wait for it.
    } else if (!p->submitted()) {
      refuse("a stream waited for a point of another capture");
    }
  }
  if (auto* p = dynamic_cast<point*>(operation.get()); p != nullptr) {
    points_.emplace(p, made_.nodes.size());
    // The point will never be reached outside of graphs, so other streams must not wait
    // for it.
    if (by.recording_only()) {
      p->capture = weak_from_this();
      p->captured = true;
    }
  }
  if (operation->kind() == operation_kind::memory) {
    note_memory(static_cast<const memory_node&>(*operation), node.stream_index);
  }
  made_.nodes.push_back(std::move(node));
  last_[made_.nodes.back().stream_index] = made_.nodes.size();
}

// Makes a stream a part of the capture in which the event at `index` was recorded. Waits
// that the stream has collected before are carried out now, since they are not part of
// the graph.
result<void> graph_recording::join(submission_lock::guard& in, const point& recorded,
                                   stream& waits) {
  const auto recording = recorded.capture.lock();
  if (recording == nullptr || recording->closed_) {
    return {};
  }
  if (!recording->takes_calls_of_this_thread()) {
    recording->refuse("a stream of another thread waited for an event of it");
    return error(errc::invalid_argument,
                 fmt::format("stream {} not made a part of a capture: expected a call of "
                             "the thread that captures, found one of another thread",
                             waits.number()))
        .hint(
            "tessStreamBeginCaptureEx begins a capture that takes calls of all threads");
  }
  // What the stream was to wait for does not belong to the graph.
  waits.flush_waits(in);
  waits.record_into(recording, true);
  recording->take_part(waits);
  return {};
}

// Only the first reason is kept. A capture that concerns one thread ignores calls of
// other threads.
void graph_recording::refuse(std::string why) {
  const bool concerned =
      mode_ != capture_mode::per_thread || takes_calls_of_this_thread();
  if (concerned && spoilt_.empty()) {
    spoilt_ = std::move(why);
  }
}

// Notes whether the memory is taken, or which stream has given it back.
void graph_recording::note_memory(const memory_node& node, std::size_t stream_index) {
  const auto found =
      std::find_if(memories_.begin(), memories_.end(),
                   [&](const taken_memory& m) { return m.memory == node.memory(); });
  // The first node with this memory makes the entry.
  taken_memory& entry = found != memories_.end()
                            ? *found
                            : memories_.emplace_back(taken_memory{node.memory(), 0});
  entry.freed_by = node.takes() ? 0 : stream_index + 1;
}

// Returns memory that the same stream has given back in this capture, of exactly this
// size. For another stream the graph would need a new order between both streams.
std::shared_ptr<graph_memory> graph_recording::reusable(stream& by, std::size_t bytes) {
  const std::size_t stream_index = index_of(by);
  for (taken_memory& m : memories_) {
    if (m.freed_by == stream_index + 1 && m.memory->bytes() == bytes) {
      m.freed_by = 0;
      return m.memory;
    }
  }
  return nullptr;
}

// Memory that the capture has given back is not found: its address is not the program's.
std::shared_ptr<graph_memory> graph_recording::memory_at(const void* address) const {
  for (const taken_memory& m : memories_) {
    if (m.freed_by == 0 && m.memory->data() == address) {
      return m.memory;
    }
  }
  return nullptr;
}

// Returns true if every operation is before node `last`, by a search from there
// backwards. Otherwise a stream that joined the capture was not waited for at its end.
bool graph_recording::all_reach(std::size_t last) const {
  std::vector<bool> reached(made_.nodes.size(), false);
  std::vector<std::size_t> open{last};
  while (!open.empty()) {
    const std::size_t index = open.back();
    open.pop_back();
    if (!reached[index]) {
      reached[index] = true;
      open.insert(open.end(), made_.nodes[index].after.begin(),
                  made_.nodes[index].after.end());
    }
  }
  for (std::size_t i = 0; i < made_.nodes.size(); ++i) {
    // A point alone does nothing that would have to be waited for. Every other operation
    // must be waited for.
    if (!reached[i] && made_.nodes[i].operation->kind() != operation_kind::marker) {
      return false;
    }
  }
  return true;
}

// Ends the capture: its streams leave it, memory that the program must not use any more
// is hidden, and the recording is checked. `origin` is the stream that ends the capture,
// or null if the recording ended without one.
result<std::shared_ptr<const graph>> graph_recording::finish(stream* origin) {
  closed_ = true;
  for (const auto& s : made_.streams) {
    if (s->recording().get() == this) {
      s->record_into(nullptr, false);
    }
  }
  for (const taken_memory& m : memories_) {
    if (m.freed_by == 0 && !m.memory->lent()) {
      m.memory->hide_address();  // a launch of the graph shows it to the program again
    }
  }
  // The first reason was kept.
  if (!spoilt_.empty()) {
    return lost(spoilt_);
  }
  if (origin != nullptr && !made_.nodes.empty()) {
    if (made_.streams.front().get() != origin) {
      return lost("another stream began it");
    }
    if (last_.front() == 0 || !all_reach(last_.front() - 1)) {
      return lost("a stream that joined it has not come back");
    }
  }
  return std::shared_ptr<const graph>(std::make_shared<graph>(std::move(made_)));
}

// One line for each node and for each edge, in the order of the recording.
std::string graph::to_dot() const {
  // The language of Graphviz.
  std::string out = "digraph graph_of_streams {\n";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    out +=
        fmt::format("  n{} [label=\"{}: {}\\nstream {}\"];\n", i, i,
                    nodes[i].operation->name(), streams[nodes[i].stream_index]->number());
    for (const std::size_t before : nodes[i].after) {
      out += fmt::format("  n{} -> n{};\n", before, i);
    }
  }
  return out + "}\n";
}

std::string graph::to_json() const {
  std::string out = "{\"nodes\":[";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const operation& recorded = *nodes[i].operation;
    const std::string details = recorded.details();
    out += fmt::format(
        "{}{{\"index\":{},\"kind\":\"{}\",\"name\":\"{}\",\"stream\":{},\"bytes\":{},"
        "\"after\":[{}]{}{}}}",
        i == 0 ? "" : ",", i, operation::kind_name(recorded.kind()), recorded.name(),
        streams[nodes[i].stream_index]->number(), recorded.bytes(),
        fmt::join(nodes[i].after, ","), details.empty() ? "" : ",", details);
  }
  return out + "]}";
}

}  // namespace weir::tessera
