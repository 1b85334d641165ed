// SPDX-License-Identifier: Apache-2.0
/// @file
/// Keeps the state of streams, captures and pooled memory of a program while its
/// operations are taken one by one.
#include "serial/rules.hpp"

#include <algorithm>

namespace weir::test::serial {

rules::rules(const program& p)
    : p_(p),
      outside_(p),
      streams_(p.streams.size()),
      there_(p.buffers.size(), 0),
      inside_(p.buffers.size(), none),
      owner_(p.buffers.size(), none) {
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    streams_[s].open = !p.streams[s].late;
  }
}

bool rules::allows(const operation& o) const {
  for (const int s : o.shares) {
    if (s != none && !allows_stream(s, o)) {
      return false;
    }
  }
  if (o.stream != none && o.what != verb::open_stream && !allows_stream(o.stream, o)) {
    return false;
  }
  return allows_places(o) && allows_event(o) && allows_capture(o) && allows_memory(o) &&
         allows_update(o);
}

bool rules::allows_stream(int stream, const operation& o) const {
  const stream_state& s = at(streams_, stream);
  if (!s.open) {
    return false;
  }
  switch (o.what) {
    case verb::begin_capture: return s.graph == none && s.flagged == none;
    case verb::end_capture: return s.graph == o.graph;
    case verb::take_graph: return s.closed == o.graph && s.flagged == none;
    case verb::wait: return allows_wait(o);
    case verb::query_stream:
    case verb::synchronize: return s.graph == none;
    case verb::update_node:
    case verb::close_stream: return s.graph == none && s.flagged == none;
    case verb::take_memory:
    case verb::give_memory:
      if (s.flagged != none) {
        return false;
      }
      break;
    default: break;
  }
  if (s.graph != none) {
    return o.recorded_in == s.graph && !o.runs && o.shares.empty();
  }
  // A launch with the flag begins a recording on its stream.
  const bool begins = o.what == verb::launch && o.captures && s.flagged == none;
  return o.runs && o.shares.empty() == (o.stream != none) &&
         (begins || o.recorded_in == s.flagged);
}

bool rules::allows_wait(const operation& o) const {
  const stream_state& s = at(streams_, o.stream);
  const int of_event = event_graph(o.event);
  if (of_event == none) {
    return s.graph == none && s.flagged == none && o.recorded_in == none;
  }
  const recording* const g = graph(of_event);
  return g != nullptr && g->state == graph_state::recording && s.flagged == none &&
         (s.graph == none || s.graph == of_event) && o.recorded_in == of_event;
}

bool rules::allows_event(const operation& o) const {
  return (o.what != verb::query_event && o.what != verb::await_event) ||
         event_graph(o.event) == none;
}

bool rules::allows_places(const operation& o) const {
  if (o.what == verb::take_memory || o.what == verb::give_memory) {
    return true;  // allows_memory checks it
  }
  const int graph = o.what == verb::update_node ? o.graph : o.recorded_in;
  for (const place* const p : {&o.to, &o.from}) {
    if (p->there() && !usable(p->buffer, graph)) {
      return false;
    }
  }
  return true;
}

bool rules::allows_memory(const operation& o) const {
  if (o.what != verb::take_memory && o.what != verb::give_memory) {
    return true;
  }
  const buffer_spec& b = at(p_.buffers, o.to.buffer);
  const bool takes = o.what == verb::take_memory;
  if (o.recorded_in != none) {
    return b.of_graph && (takes ? at(owner_, o.to.buffer) == none
                                : at(inside_, o.to.buffer) == o.recorded_in);
  }
  return takes ? b.pooled && at(there_, o.to.buffer) == 0 : at(there_, o.to.buffer) != 0;
}

bool rules::allows_graph_launch(const operation& o) const {
  const std::vector<int> left = book_.left_by(o.graph);
  return o.recorded_in != none
             ? left.empty() && o.recorded_in != o.graph
             : std::none_of(left.begin(), left.end(), [&](int b) { return there(b); });
}

bool rules::allows_update(const operation& o) const {
  if (o.what != verb::update_node) {
    return true;
  }
  const recording* const g = graph(o.graph);
  const graph_step* const before = book_.node(o.graph, o.node);
  if (g == nullptr || g->state != graph_state::ready || before == nullptr ||
      before->what.what != o.becomes || before->what.stream != o.stream) {
    return false;
  }
  // The updated node must not race at its position in the graph either. A graph recorded
  // with the flag has a single stream, so nothing in it can race.
  if (g->inside == nullptr) {
    return true;
  }
  order inside(p_);
  for (const operation& recorded : g->calls) {
    if (recorded.what == verb::record) {
      inside.record(recorded.event, recorded.stream);
    } else if (recorded.what == verb::wait) {
      inside.wait(recorded.stream, recorded.event);
    } else if (const graph_step* const node = book_.node(o.graph, recorded.id)) {
      graph_step now = *node;
      if (recorded.id == o.node) {
        now.what = updated(node->what, o);
      }
      const auto touches = touches_of(p_, now);
      if (!inside.races_of(touches).empty()) {
        return false;
      }
      inside.take(recorded.stream, touches);
    }
  }
  return true;
}

bool rules::capture_could_end(int stream) const {
  const recording* const g = graph(captured_in(stream));
  return g != nullptr && g->origin == stream && g->nodes > 0 &&
         g->inside->ends_in(stream);
}

bool rules::allows_capture(const operation& o) const {
  const recording* const g = graph(o.graph);
  switch (o.what) {
    case verb::begin_capture: return g == nullptr;
    case verb::end_capture: return capture_could_end(o.stream);
    case verb::take_graph: return g != nullptr && g->nodes > 0;
    case verb::launch_graph:
      return g != nullptr && g->state == graph_state::ready && allows_graph_launch(o);
    case verb::discard_graph: return g != nullptr && g->state == graph_state::ready;
    default: return true;
  }
}

std::vector<unordered> rules::races_of(const operation& o) const {
  if (!o.alters_memory()) {
    return {};
  }
  const recording* const g = o.runs ? nullptr : graph(o.recorded_in);
  return (g == nullptr ? outside_ : *g->inside).races_of(touches_of(p_, book_, o));
}

order& rules::order_of(const operation& o) {
  return o.runs ? outside_ : *graphs_.at(o.recorded_in).inside;
}

void rules::take(const operation& o) {
  if (o.what == verb::launch && o.captures && flagged_in(o.stream) == none) {
    at(streams_, o.stream).flagged = o.recorded_in;
    graphs_[o.recorded_in] = {nullptr, o.stream, 0, graph_state::recording, {}};
  }
  if (o.alters_memory()) {
    order_of(o).take(o.stream, touches_of(p_, book_, o));
    if (o.recorded_in != none) {
      ++graphs_.at(o.recorded_in).nodes;
    }
  }
  if (o.recorded_in != none && !o.runs) {
    graphs_.at(o.recorded_in).calls.push_back(o);
  }
  book_.take(o);
  switch (o.what) {
    case verb::take_memory:
    case verb::give_memory:
    case verb::launch_graph: take_memory(o); break;
    case verb::open_stream:
      at(streams_, o.stream).open = true;
      outside_.open(o.stream);
      break;
    case verb::close_stream: at(streams_, o.stream).open = false; break;
    default: take_event(o); take_capture(o);
  }
}

void rules::take_memory(const operation& o) {
  const bool takes = o.what == verb::take_memory;
  if (o.what == verb::launch_graph) {
    for (const int b : o.runs ? book_.left_by(o.graph) : std::vector<int>()) {
      at(there_, b) = 1;
    }
  } else if (o.recorded_in != none) {
    at(inside_, o.to.buffer) = takes ? o.recorded_in : none;
    at(owner_, o.to.buffer) = o.recorded_in;
  } else {
    at(there_, o.to.buffer) = takes ? 1 : 0;
  }
}

void rules::take_event(const operation& o) {
  switch (o.what) {
    case verb::record:
      event_graphs_[o.event] = o.runs ? none : o.recorded_in;
      order_of(o).record(o.event, o.stream);
      break;
    case verb::wait:
      if (!o.runs) {
        at(streams_, o.stream).graph = o.recorded_in;
      }
      order_of(o).wait(o.stream, o.event);
      break;
    case verb::await_event: outside_.await(o.event); break;
    case verb::synchronize: {
      stream_state& s = at(streams_, o.stream);
      outside_.synchronize(o.stream);
      if (s.flagged != none) {
        s.closed = s.flagged;
        s.flagged = none;
      }
      break;
    }
    default: break;
  }
}

void rules::take_capture(const operation& o) {
  switch (o.what) {
    case verb::begin_capture:
      at(streams_, o.stream).graph = o.graph;
      graphs_[o.graph] = {
          std::make_unique<order>(p_), o.stream, 0, graph_state::recording, {}};
      break;
    case verb::end_capture:
      for (stream_state& s : streams_) {
        s.graph = s.graph == o.graph ? none : s.graph;
      }
      graphs_.at(o.graph).state = graph_state::ready;
      for (int& inside : inside_) {
        inside = inside == o.graph ? none : inside;
      }
      break;
    case verb::take_graph:
      at(streams_, o.stream).closed = none;
      graphs_.at(o.graph).state = graph_state::ready;
      break;
    case verb::discard_graph: graphs_.at(o.graph).state = graph_state::unknown; break;
    default: break;
  }
}

bool rules::may_end() const {
  return std::all_of(streams_.begin(), streams_.end(),
                     [](const stream_state& s) { return s.graph == none; });
}

std::vector<int> rules::graphs() const {
  std::vector<int> out;
  for (const auto& [number, g] : graphs_) {
    if (g.state == graph_state::ready) {
      out.push_back(number);
    }
  }
  return out;
}

std::vector<int> rules::events_that_cover(const unordered& what) const {
  std::vector<int> out;
  for (const auto& [event, graph] : event_graphs_) {
    if (graph == none && outside_.covers(event, what)) {
      out.push_back(event);
    }
  }
  return out;
}

bool is_sound(const program& p) {
  rules r(p);
  for (const operation& o : p.operations) {
    if (!r.allows(o) || !r.races_of(o).empty()) {
      return false;
    }
    r.take(o);
  }
  return r.may_end();
}

}  // namespace weir::test::serial
