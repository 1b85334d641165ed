// SPDX-License-Identifier: Apache-2.0
/// @file
/// Computes the reads and writes of operations as the interface's documentation states
/// them.
#include "serial/touches.hpp"

#include <algorithm>

namespace weir::test::serial {
namespace {

/// Returns the rank of the stream's mesh whose device holds the place, or none if the
/// place does not name a device.
int chain_of(const program& p, const place& where, int stream) {
  if (!at(p.buffers, where.buffer).on_device() || where.rank == none) {
    return none;
  }
  const int device =
      at(at(p.meshes, at(p.buffers, where.buffer).mesh).devices, where.rank);
  const auto& devices = p.mesh_of(stream).devices;
  const auto found = std::find(devices.begin(), devices.end(), device);
  return found == devices.end() ? none : static_cast<int>(found - devices.begin());
}

/// Returns whether the place names each rank's own instance.
bool everywhere(const program& p, const place& where) {
  return at(p.buffers, where.buffer).on_device() && where.rank == none;
}

/// Collects the touches of an operation.
class collector_of_touches {
 public:
  explicit collector_of_touches(const program& p) : p_(p) {}

  void add(int stream, const place& where, int instance, bool writes) {
    if (where.there() && where.words > 0) {
      out.push_back({stream, where.buffer, instance, where.first, where.words, writes});
    }
  }
  void add_on(int stream, const place& where, int rank, bool writes) {
    if (where.there()) {
      add(stream, where, instance_of(p_, where, rank), writes);
    }
  }
  void add_collective(const operation& o) {
    const auto& mesh = o.shares.empty() ? p_.mesh_of(o.stream) : mesh_of_shares(o);
    for (const std::vector<int>& group : mesh.groups(o.collective.axis)) {
      for (int i = 0; i < count_of(group); ++i) {
        const int rank = at(group, i);
        const int stream = o.shares.empty() ? o.stream : at(o.shares, rank);
        if (stream != none) {
          const share_words w = words_of_share(o, i, count_of(group));
          add(stream, w.reads, rank, false);
          add(stream, w.writes, rank, true);
        }
      }
    }
  }

  std::vector<touch> out;

 private:
  [[nodiscard]] const mesh_spec& mesh_of_shares(const operation& o) const {
    return p_.mesh_of(
        *std::find_if(o.shares.begin(), o.shares.end(), [](int s) { return s != none; }));
  }
  const program& p_;
};

}  // namespace

std::vector<int> carriers_of(const program& p, const operation& o) {
  const stream_spec& stream = at(p.streams, o.stream);
  if (stream.rank != none) {
    return {stream.rank};
  }
  std::vector<int> all;
  for (int r = 0; r < p.mesh_of(o.stream).ranks(); ++r) {
    all.push_back(r);
  }
  if (o.what == verb::copy) {
    if (o.rank != none) {
      return {o.rank};
    }
    if (o.way == copy_way::to_host || !everywhere(p, o.to)) {
      const int to = chain_of(p, o.to, o.stream);
      return {std::max(to != none ? to : chain_of(p, o.from, o.stream), 0)};
    }
  } else if (o.what == verb::fill && !everywhere(p, o.to)) {
    return {0};
  }
  return all;
}

share_words words_of_share(const operation& o, int index, int ranks) {
  const collective_spec& c = o.collective;
  share_words out;
  if (c.way == collective_way::barrier) {
    return out;
  }
  const bool root = index == c.root;
  const int words = c.count * c.bytes / static_cast<int>(sizeof(word));
  const int shard = words / ranks;
  const auto all = [&](const place& of) {
    return place{of.buffer, none, of.first, words};
  };
  const auto own = [&](const place& of, bool packed) {
    return place{of.buffer, none, of.first + (packed ? 0 : index * shard), shard};
  };
  switch (c.way) {
    case collective_way::all_reduce: return {all(o.from), all(o.to)};
    case collective_way::reduce_scatter:
      return {all(o.from), own(o.to, c.packs_output())};
    case collective_way::all_gather: return {own(o.from, c.packs_input()), all(o.to)};
    case collective_way::broadcast: return {root ? all(o.from) : place{}, all(o.to)};
    case collective_way::reduce: return {all(o.from), root ? all(o.to) : place{}};
    case collective_way::gather:
      return {own(o.from, c.packs_input()), root ? all(o.to) : place{}};
    case collective_way::scatter:
      return {root ? all(o.from) : place{}, own(o.to, c.packs_output())};
    case collective_way::all_to_all: return {all(o.from), all(o.to)};
    case collective_way::send:
      return {root ? all(o.from) : place{}, index == c.peer ? all(o.to) : place{}};
    case collective_way::barrier: break;
  }
  return out;
}

namespace {

/// Adds the touches of an operation that is not a launch of a graph.
void add_touches(collector_of_touches& c, const program& p, const operation& o) {
  switch (o.what) {
    case verb::launch:
    case verb::copy:
    case verb::fill:
      for (const int rank : carriers_of(p, o)) {
        c.add_on(o.stream, o.to, rank, true);
        c.add_on(o.stream, o.from, rank, false);
      }
      break;
    case verb::host_function:
    case verb::host_write:
      c.add_on(o.stream, o.to, 0, true);
      c.add_on(o.stream, o.from, 0, false);
      break;
    case verb::collective: c.add_collective(o); break;
    case verb::take_memory:
    case verb::give_memory:
      for (int i = 0; i < p.instances(o.to.buffer); ++i) {
        c.add(o.stream, o.to, i, true);
      }
      break;
    default: break;
  }
}

/// Adds the touches of all nodes of a graph, as operations of the stream on which the
/// graph is launched.
void add_graph(std::vector<touch>& out, const program& p,
               const std::vector<graph_step>& steps, int stream) {
  std::vector<int> kept;  // buffers that the graph allocates and frees
  for (const graph_step& step : steps) {
    if (step.what.what == verb::give_memory) {
      kept.push_back(step.what.to.buffer);
    }
  }
  for (const graph_step& step : steps) {
    std::vector<touch> own;
    if (step.what.what == verb::launch_graph) {
      add_graph(own, p, step.inside, stream);
    } else {
      collector_of_touches c(p);
      add_touches(c, p, step.what);
      own = std::move(c.out);
    }
    for (touch t : own) {
      if (std::find(kept.begin(), kept.end(), t.buffer) == kept.end()) {
        t.stream = stream;
        out.push_back(t);
      }
    }
  }
}

}  // namespace

std::vector<touch> touches_of(const program& p, const graph_step& node) {
  std::vector<touch> out;
  if (node.what.what == verb::launch_graph) {
    add_graph(out, p, node.inside, node.what.stream);
  } else {
    collector_of_touches c(p);
    add_touches(c, p, node.what);
    out = std::move(c.out);
  }
  return out;
}

std::vector<touch> touches_of(const program& p, const graph_book& graphs,
                              const operation& o) {
  if (o.what == verb::launch_graph) {
    std::vector<touch> out;
    add_graph(out, p, graphs.of(o.graph), o.stream);
    return out;
  }
  collector_of_touches c(p);
  add_touches(c, p, o);
  return std::move(c.out);
}

}  // namespace weir::test::serial
