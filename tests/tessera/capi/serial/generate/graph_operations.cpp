// SPDX-License-Identifier: Apache-2.0
/// @file
/// Captures with their members, waits and memory.
#include "serial/generate/graph_operations.hpp"

namespace weir::test::serial {

void graph_operations::graph() {
  const std::vector<int> ready = rules_.graphs();
  if (ready.empty() || d_.one_in(3)) {
    capture();
    return;
  }
  if (d_.one_in(5)) {
    operation o = on(verb::discard_graph, none);
    o.graph = any_of(ready);
    emit(o);
    return;
  }
  const int one = any_of(ready);
  if (with_.updates && d_.one_in(2)) {
    update(one);
  }
  launch_graph(one);
  if (d_.one_in(2)) {
    launch_graph(any_of(ready));
  }
}

void graph_operations::update(int graph) {
  std::vector<int> nodes;
  for (const graph_step& step : rules_.book().of(graph)) {
    const verb v = step.what.what;
    if (v == verb::launch || v == verb::copy || v == verb::fill ||
        v == verb::collective) {
      nodes.push_back(step.what.id);
    }
  }
  const int id = any_of(nodes);
  if (id == none) {
    return;
  }
  const operation before = rules_.book().node(graph, id)->what;
  if (!rules_.open(before.stream) || rules_.captured_in(before.stream) != none ||
      rules_.flagged_in(before.stream) != none) {
    return;
  }
  for (int tries = 0; tries < 6; ++tries) {
    auto o = before.what == verb::launch ? random_launch(before.stream)
             : before.what == verb::copy ? random_copy(before.stream)
             : before.what == verb::fill ? random_fill(before.stream)
                                         : random_collective(before.stream);
    if (!o || o->collective.way == collective_way::barrier) {
      continue;
    }
    o->becomes = o->what;
    o->what = verb::update_node;
    o->graph = graph;
    o->node = id;
    if (rules_.allows(*o)) {
      push(std::move(*o));
      return;
    }
  }
}

void graph_operations::launch_graph(int graph, int stream) {
  if (stream == none) {
    return;
  }
  for (const int b : rules_.book().left_by(graph)) {
    if (rules_.there(b)) {  // the launch before has left the buffer allocated
      give_back(b);
    }
  }
  operation o = on(verb::launch_graph, stream);
  o.graph = graph;
  emit(o);
}

void graph_operations::give_back(int buffer) {
  std::vector<int> streams;
  for (const int s : open_streams()) {
    if (at(p_.streams, s).mesh == at(p_.buffers, buffer).mesh &&
        at(p_.streams, s).rank == none && rules_.flagged_in(s) == none) {
      streams.push_back(s);
    }
  }
  const int stream = any_of(streams);
  if (stream != none) {
    operation o = on(verb::give_memory, stream);
    o.to = {buffer, none, 0, at(p_.buffers, buffer).words};
    emit(o);
  }
}

void graph_operations::capture() {
  const int origin = any_stream();
  if (!with_.plain_captures || origin == none || rules_.flagged_in(origin) != none) {
    return;
  }
  awaited_.clear();
  wait_before_capture(origin);
  operation begin = on(verb::begin_capture, origin);
  const int graph = p_.graphs++;
  begin.graph = graph;
  push(begin);
  std::vector<int> members{origin};
  for (std::int64_t i = d_.in(2, 8); i > 0; --i) {
    if (d_.one_in(4)) {
      add_member(members, graph);
    }
    captured_step(any_of(members));
    if (d_.one_in(4)) {
      plain_step();
    }
  }
  give_back_inside(members, graph);
  for (const int s : members) {
    if (s != origin && !rules_.capture_could_end(origin)) {
      join(s, origin, graph);
    }
  }
  if (!rules_.capture_could_end(origin)) {
    on_host(origin, true);  // makes sure that no capture is empty
  }
  operation end = on(verb::end_capture, origin);
  end.graph = graph;
  end.recorded_in = none;
  end.runs = true;
  push(end);
  use_what_was_awaited();
  launch_graph(graph);
  if (with_.updates && d_.one_in(2)) {
    update(graph);
  }
  if (d_.one_in(2)) {
    launch_graph(graph);
  }
}

void graph_operations::wait_before_capture(int stream) {
  if (!with_.waits_before_captures) {
    record(new_event(), stream);  // the event covers all that the stream waits for
    return;
  }
  if (d_.one_in(2)) {
    return;
  }
  const int event = new_event();
  const int other = any_stream();
  delay_a_chain(other);
  if (auto o = other == stream ? std::nullopt : random_launch(other)) {
    o->spin = static_cast<int>(d_.in(50'000, 200'000));
    emit(*o);
    awaited_.push_back({stream, o->to});
  }
  record(event, other);
  operation wait = on(verb::wait, stream);
  wait.event = event;
  emit(wait);
}

void graph_operations::use_what_was_awaited() {
  for (const auto& [stream, written] : awaited_) {
    if (written.rank != none || !usable(written.buffer, stream) || d_.one_in(4)) {
      continue;
    }
    const bool host = !at(p_.buffers, written.buffer).on_device();
    if (!host && !p_.fits(written.buffer, stream)) {
      continue;
    }
    operation o = on(verb::launch, stream);
    const auto to = any_on_device(stream, written.words, false);
    if (to && to->buffer != written.buffer) {
      o.to = *to;
      o.from = written;
      o.salt = static_cast<std::uint32_t>(d_.in(1, 1'000'000));
      emit(o);
    }
  }
  awaited_.clear();
}

void graph_operations::give_back_inside(const std::vector<int>& members, int graph) {
  for (int b = 0; b < count_of(p_.buffers); ++b) {
    if (!at(p_.buffers, b).of_graph || !rules_.usable(b, graph) || d_.one_in(3)) {
      continue;
    }
    std::vector<int> streams;
    for (const int s : members) {
      if (at(p_.streams, s).mesh == at(p_.buffers, b).mesh &&
          at(p_.streams, s).rank == none) {
        streams.push_back(s);
      }
    }
    if (const int stream = any_of(streams); stream != none) {
      operation o = on(verb::give_memory, stream);
      o.to = {b, none, 0, at(p_.buffers, b).words};
      emit(o);
    }
  }
}

void graph_operations::take_inside(int stream) {
  std::vector<int> free;
  for (int b = 0; b < count_of(p_.buffers); ++b) {
    if (at(p_.buffers, b).of_graph && !rules_.taken_by_graph(b) &&
        at(p_.streams, stream).mesh == at(p_.buffers, b).mesh) {
      free.push_back(b);
    }
  }
  const int b = any_of(free);
  if (b == none || at(p_.streams, stream).rank != none) {
    return;
  }
  operation o = on(verb::take_memory, stream);
  o.to = {b, none, 0, at(p_.buffers, b).words};
  o.salt = static_cast<std::uint32_t>(d_.in(0, 255));
  emit(o);
}

void graph_operations::add_member(std::vector<int>& members, int graph) {
  const int s = any_stream();
  if (s != none && rules_.flagged_in(s) == none && rules_.captured_in(s) == none) {
    wait_before_capture(s);
    join(any_of(members), s, graph);
    members.push_back(s);
  }
}

void graph_operations::captured_step(int stream) {
  if (rules_.captured_in(stream) != none && d_.one_in(4)) {
    take_inside(stream);
  }
  if (with_.child_graphs && d_.one_in(4)) {
    std::vector<int> ready;
    for (const int g : rules_.graphs()) {
      if (rules_.book().left_by(g).empty()) {
        ready.push_back(g);
      }
    }
    if (!ready.empty()) {
      operation o = on(verb::launch_graph, stream);
      o.graph = any_of(ready);
      emit(o);
      return;
    }
  }
  const std::int64_t kind = d_.in(1, 10);
  if (kind <= 4) {
    launch(stream);
  } else if (kind <= 7) {
    copy(stream);
  } else if (kind == 8) {
    on_host(stream, true);
  } else if (kind == 9 && with_.collectives && at(p_.streams, stream).rank == none) {
    collective_on(stream);
  } else {
    fill(stream);
  }
}

void graph_operations::plain_step() {
  const int stream = any_stream();
  if (d_.one_in(2)) {
    launch(stream);
  } else {
    copy(stream);
  }
}

void graph_operations::flagged_capture() {
  const int stream = any_stream();
  if (!with_.flagged_captures || stream == none || at(p_.streams, stream).rank != none ||
      rules_.flagged_in(stream) != none) {
    return;
  }
  const int graph = p_.graphs;
  launch(stream, true);
  if (rules_.flagged_in(stream) != graph) {
    return;
  }
  for (std::int64_t i = d_.in(1, 5); i > 0; --i) {
    captured_step(stream);
    if (d_.one_in(3)) {
      plain_step();
    }
  }
  operation end = on(verb::synchronize, stream);
  end.recorded_in = none;
  push(end);
  operation take = on(verb::take_graph, stream);
  take.graph = graph;
  push(take);
  launch_graph(graph);
}

}  // namespace weir::test::serial
