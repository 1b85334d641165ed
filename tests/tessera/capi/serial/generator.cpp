// SPDX-License-Identifier: Apache-2.0
/// @file
/// Generates random operations of all kinds and assembles random programs.
#include "serial/generator.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "serial/writer.hpp"

namespace weir::test::serial {
namespace {

/// Assembles a random program operation by operation.
class generator : private writer {
 public:
  using writer::writer;

  program make() {
    const std::int64_t wanted = d_.in(10, 55);
    while (count_of(p_.operations) < wanted) {
      step();
    }
    p_.calls =
        with_.merged_calls && d_.one_in(2) ? merged_calls(p_, d_) : calls_in_order(p_);
    return std::move(p_);
  }

 private:
  void step() {
    const std::int64_t kind = d_.in(1, 100);
    if (kind <= 32) {
      launch(any_stream());
    } else if (kind <= 55) {
      copy(any_stream());
    } else if (kind <= 61) {
      fill(any_stream());
    } else if (kind <= 67) {
      on_host();
    } else if (kind <= 81) {
      collective();
    } else if (kind <= 87) {
      event_or_query();
    } else if (kind <= 90) {
      memory_of_pool();
    } else if (kind <= 92) {
      stream_comes_or_goes();
    } else if (kind <= 98) {
      graph();
    } else {
      flagged_capture();
    }
  }

  // Operations on memory.

  void take_effort(operation& o) {
    o.how = static_cast<arithmetic>(d_.in(0, 3));
    o.salt = static_cast<std::uint32_t>(d_.in(1, 1'000'000));
    if (d_.in(1, 5) <= 2) {
      o.spin =
          static_cast<int>(d_.one_in(4) ? d_.in(20'000, 150'000) : d_.in(1'000, 20'000));
    }
  }

  void launch(int stream, bool captures = false) {
    auto o = stream == none ? std::nullopt : random_launch(stream);
    if (o && captures) {
      o->captures = true;
      o->recorded_in = p_.graphs++;
    }
    emit_if(std::move(o));
  }
  void copy(int stream) { emit_if(stream == none ? std::nullopt : random_copy(stream)); }
  void fill(int stream) { emit_if(stream == none ? std::nullopt : random_fill(stream)); }
  void emit_if(std::optional<operation> o) {
    if (o) {
      emit(std::move(*o));
    }
  }

  std::optional<operation> random_launch(int stream) {
    const int words = any_length();
    const auto operand = [&]() -> std::optional<place> {
      if (with_.shared_launches && d_.one_in(4)) {
        return any_on_host(words);
      }
      return any_on_device(stream, words, with_.shared_launches && d_.one_in(3));
    };
    const auto to = operand();
    const auto from = d_.one_in(4) ? std::optional(place{}) : operand();
    if (!to || !from) {
      return std::nullopt;
    }
    operation o = on(verb::launch, stream);
    o.to = *to;
    o.from = *from;
    take_effort(o);
    const int ranks = p_.mesh_of(stream).ranks();
    o.slow_rank = d_.one_in(3) ? none : pick(d_, ranks);
    o.urgent = d_.one_in(10);
    if (o.from.buffer != o.to.buffer && o.how != arithmetic::rotate && d_.one_in(5)) {
      o.blocks = static_cast<int>(d_.in(2, 4));
    }
    return o;
  }

  std::optional<operation> random_copy(int stream) {
    const int words = any_length();
    operation o = on(verb::copy, stream);
    o.way = static_cast<copy_way>(d_.in(0, with_.host_copies ? 3 : 2));
    const auto device = [&] {
      return any_on_device(stream, words, with_.peer_copies && d_.one_in(2));
    };
    const bool to_host = o.way == copy_way::to_host || o.way == copy_way::on_host;
    const bool from_host = o.way == copy_way::to_device || o.way == copy_way::on_host;
    const auto to = to_host ? std::optional(any_on_host(words)) : device();
    const auto from = from_host ? std::optional(any_on_host(words)) : device();
    if (!to || !from) {
      return std::nullopt;
    }
    o.to = *to;
    o.from = *from;
    const stream_spec& s = at(p_.streams, stream);
    if (d_.one_in(3)) {
      o.rank = s.rank != none ? s.rank : pick(d_, p_.mesh_of(stream).ranks());
    }
    return overlaps(o) ? std::nullopt : std::optional(o);
  }
  /// Returns whether a copy has overlapping source and destination on any rank.
  [[nodiscard]] bool overlaps(const operation& o) const {
    if (o.to.buffer != o.from.buffer) {
      return false;
    }
    const bool near = o.to.first < o.from.first + o.from.words &&
                      o.from.first < o.to.first + o.to.words;
    return near && (o.to.rank == o.from.rank || o.to.first != o.from.first);
  }

  std::optional<operation> random_fill(int stream) {
    const int words = any_length();
    const auto to = any_on_device(stream, words, with_.peer_copies && d_.one_in(3));
    if (!to) {
      return std::nullopt;
    }
    operation o = on(verb::fill, stream);
    o.to = *to;
    o.salt = static_cast<std::uint32_t>(d_.in(0, 255));
    return o;
  }

  void on_host() {
    const bool in_stream = !d_.one_in(4);
    on_host(in_stream ? any_stream() : none, in_stream);
  }
  void on_host(int stream, bool in_stream) {
    if (in_stream && stream == none) {
      return;
    }
    operation o = on(in_stream ? verb::host_function : verb::host_write, stream);
    const int words = any_length();
    o.to = any_on_host(words);
    o.from = d_.one_in(2) ? place{} : any_on_host(words);
    take_effort(o);
    o.spin = in_stream ? o.spin : 0;
    emit(o);
  }

  // Collectives.

  void collective() {
    if (!with_.collectives) {
      return;
    }
    const std::vector<int> streams = open_streams();
    const int stream = any_of(streams);
    if (stream == none) {
      return;
    }
    if (at(p_.streams, stream).rank == none) {
      collective_on(stream);
    } else {
      // Calls several collectives in a row, so that a rank can be far ahead of the
      // others.
      for (std::int64_t i = d_.in(1, 4); i > 0; --i) {
        collective_of_ranks(at(p_.streams, stream).mesh, streams);
      }
    }
  }
  void collective_on(int stream) { emit_if(random_collective(stream)); }
  std::optional<operation> random_collective(int stream) {
    operation o = on(verb::collective, stream);
    return describe(o, stream) ? std::optional(o) : std::nullopt;
  }
  void collective_of_ranks(int mesh, const std::vector<int>& streams) {
    const int ranks = at(p_.meshes, mesh).ranks();
    operation o = on(verb::collective, none);
    const int set = pick(d_, 2);  // most ranks use their stream of this number
    int any = none;
    for (int r = 0; r < ranks; ++r) {
      std::vector<int> own;
      for (const int s : streams) {
        if (at(p_.streams, s).mesh == mesh && at(p_.streams, s).rank == r) {
          own.push_back(s);
        }
      }
      const bool same = set < count_of(own) && !d_.one_in(6);
      any = same ? at(own, set) : any_of(own);
      if (any == none) {
        return;
      }
      o.shares.push_back(any);
    }
    // Repeats the last collective often. Ranks that are out of step then pair different
    // calls without an error, which only the values in memory show.
    const bool again = last_mesh_ == mesh && d_.one_in(2);
    if (again) {
      o.collective = last_;
    }
    if (again ? !place_again(o, any) : !describe(o, any)) {
      return;
    }
    // Mostly uses memory that no other operation touches yet. Then only the order of the
    // calls orders the collective.
    const bool apart = !d_.one_in(4);
    for (int tries = 0; apart && tries < 8 && !rules_.races_of(o).empty(); ++tries) {
      if (!place_again(o, any)) {
        return;
      }
    }
    last_ = o.collective;
    last_mesh_ = mesh;
    if (o.collective.way == collective_way::send) {
      for (int r = 0; r < ranks; ++r) {  // the other ranks do not call
        at(o.shares, r) =
            r == o.collective.root || r == o.collective.peer ? at(o.shares, r) : none;
      }
    }
    emit(o);
  }

  /// Chooses kind, elements and buffers. Returns false if no memory fits.
  bool describe(operation& o, int stream) {
    collective_spec& c = o.collective;
    const mesh_spec& mesh = p_.mesh_of(stream);
    c.way = static_cast<collective_way>(d_.in(0, 9));
    const bool whole = c.way == collective_way::send || d_.one_in(2);
    c.axis = whole ? "world" : d_.one_in(2) ? "tp" : "dp";
    const int ranks = count_of(mesh.groups(c.axis).front());
    c.op = pick(d_, 4);
    c.bytes = 1 << pick(d_, 4);
    c.root = pick(d_, ranks);
    c.peer = pick(d_, ranks);
    if (c.way == collective_way::send && c.peer == c.root) {
      return false;
    }
    c.packed = d_.one_in(4) && ranks > 1;
    c.own_address = d_.one_in(4);
    constexpr std::array<const char*, 6> algorithms = {nullptr,  nullptr, nullptr,
                                                       "direct", "ring",  "tree"};
    // A requested algorithm must support the kind of the collective. All-reduce is the
    // kind that supports all of them.
    c.algorithm =
        c.way == collective_way::all_reduce ? at(algorithms, pick(d_, 6)) : nullptr;
    c.chunk_bytes = d_.one_in(4) ? 32 : 0;
    const int step = ranks * (c.bytes == 8 ? 2 : 1);  // a shard has whole words
    const int words = step * (1 + pick(d_, d_.one_in(2) ? 1 : std::max(24 / step, 1)));
    c.count = words * static_cast<int>(sizeof(word)) / c.bytes;
    return c.way == collective_way::barrier || place_buffers(o, stream, ranks);
  }
  bool place_again(operation& o, int stream) {
    const auto groups = p_.mesh_of(stream).groups(o.collective.axis);
    return o.collective.way == collective_way::barrier ||
           place_buffers(o, stream, count_of(groups.front()));
  }
  bool place_buffers(operation& o, int stream, int ranks) {
    collective_spec& c = o.collective;
    const int words = c.count * c.bytes / static_cast<int>(sizeof(word));
    const auto room = [&](bool packed) { return packed ? words / ranks : words; };
    const auto to = collective_place(stream, room(c.packs_output()));
    const auto from = collective_place(stream, room(c.packs_input()));
    if (!to || !from) {
      return false;
    }
    o.to = *to;
    o.from = *from;
    const bool packs = c.packs_input() || c.packs_output();
    const bool near = o.to.buffer == o.from.buffer &&
                      o.to.first < o.from.first + o.from.words &&
                      o.from.first < o.to.first + o.to.words;
    if (near && packs) {
      return false;
    }
    if (near || (!packs && d_.one_in(2))) {
      o.from = o.to;
    }
    return true;
  }
  std::optional<place> collective_place(int stream, int words) {
    std::vector<int> all;
    for (int b = 0; b < count_of(p_.buffers); ++b) {
      if (p_.fits(b, stream) && usable(b, stream) && at(p_.buffers, b).words >= words) {
        all.push_back(b);
      }
    }
    return all.empty() ? std::nullopt
                       : std::optional(any_range(any_of(all), none, words));
  }

  // Events, queries, streams and pooled memory.

  void event_or_query() {
    const int stream = any_stream();
    const int event = pick(d_, shared_events);
    if (stream == none) {
      return;
    }
    const std::int64_t kind = d_.in(1, 10);
    operation o = on(kind <= 5   ? verb::record
                     : kind == 6 ? verb::wait
                     : kind == 7 ? verb::query_event
                     : kind == 8 ? verb::query_stream
                     : kind == 9 ? verb::synchronize
                                 : verb::await_event,
                     stream);
    if (o.what == verb::query_stream || o.what == verb::synchronize) {
      if (rules_.flagged_in(stream) != none) {
        return;
      }
      o.recorded_in = none;
    } else {
      o.event = event;
    }
    if (o.what == verb::query_event || o.what == verb::await_event) {
      o.stream = none;
      o.recorded_in = none;
    }
    emit(o);
  }

  void memory_of_pool() {
    std::vector<int> pooled;
    for (int b = 0; b < count_of(p_.buffers); ++b) {
      if (at(p_.buffers, b).pooled || (at(p_.buffers, b).of_graph && rules_.there(b))) {
        pooled.push_back(b);
      }
    }
    const int b = any_of(pooled);
    std::vector<int> streams;
    for (const int s : open_streams()) {
      if (b != none && at(p_.streams, s).mesh == at(p_.buffers, b).mesh &&
          at(p_.streams, s).rank == none) {
        streams.push_back(s);
      }
    }
    const int stream = any_of(streams);
    if (stream == none) {
      return;
    }
    operation o = on(rules_.there(b) ? verb::give_memory : verb::take_memory, stream);
    o.to = {b, none, 0, at(p_.buffers, b).words};
    o.salt = static_cast<std::uint32_t>(d_.in(0, 255));
    emit(o);
  }

  void stream_comes_or_goes() {
    std::vector<int> closed;
    for (int s = 0; s < count_of(p_.streams); ++s) {
      if (!rules_.open(s) && at(p_.streams, s).late && !closed_.at(s)) {
        closed.push_back(s);
      }
    }
    if (!closed.empty()) {
      push(on(verb::open_stream, any_of(closed)));
      return;
    }
    const std::vector<int> open = open_streams();
    const int s = any_of(open);
    if (count_of(open) < 2 || !with_.late_streams || at(p_.streams, s).rank != none ||
        rules_.flagged_in(s) != none || !d_.one_in(3)) {
      return;
    }
    record(new_event(), s);  // later operations can wait for this event
    closed_.mark(s);
    push(on(verb::close_stream, s));
  }

  // Graphs.

  void graph() {
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
  /// Replaces a node of a graph by another operation of the same kind.
  void update(int graph) {
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
  void launch_graph(int graph) { launch_graph(graph, any_stream()); }
  void launch_graph(int graph, int stream) {
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
  void give_back(int buffer) {
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

  void capture() {
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
  /// Makes a stream wait for an event before it begins or joins a capture. The wait is no
  /// part of the capture, but it must hold for operations after the capture.
  void wait_before_capture(int stream) {
    if (!with_.waits_before_captures) {
      record(new_event(), stream);  // the event covers all that the stream waits for
      return;
    }
    if (d_.one_in(2)) {
      return;
    }
    const int event = new_event();
    const int other = any_stream();
    delay_a_lane(other);
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
  /// After a capture, reads on its streams the words whose writes were awaited before it.
  void use_what_was_awaited() {
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
  /// Frees inside the capture most of the memory that the capture has allocated. The
  /// program frees the rest after each launch of the graph.
  void give_back_inside(const std::vector<int>& members, int graph) {
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
  /// Allocates memory inside the capture.
  void take_inside(int stream) {
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
  void add_member(std::vector<int>& members, int graph) {
    const int s = any_stream();
    if (s != none && rules_.flagged_in(s) == none && rules_.captured_in(s) == none) {
      wait_before_capture(s);
      join(any_of(members), s, graph);
      members.push_back(s);
    }
  }
  void captured_step(int stream) {
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
  /// Adds an operation on a stream that does not capture while another stream does.
  void plain_step() {
    const int stream = any_stream();
    if (d_.one_in(2)) {
      launch(stream);
    } else {
      copy(stream);
    }
  }

  void flagged_capture() {
    const int stream = any_stream();
    if (!with_.flagged_captures || stream == none ||
        at(p_.streams, stream).rank != none || rules_.flagged_in(stream) != none) {
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

  /// A set of streams that have been destroyed.
  class marks {
   public:
    void mark(int s) { list_.push_back(s); }
    [[nodiscard]] bool at(int s) const {
      return std::find(list_.begin(), list_.end(), s) != list_.end();
    }

   private:
    std::vector<int> list_;
  };

  /// Words whose write a stream has waited for before a capture.
  struct awaited {
    int stream;
    place written;
  };

  marks closed_;
  std::vector<awaited> awaited_;
  collective_spec last_;  ///< the last collective called on rank streams
  int last_mesh_ = none;
};

}  // namespace

program random_program(std::uint64_t seed, const features& with) {
  return generator(seed, with).make();
}

}  // namespace weir::test::serial
