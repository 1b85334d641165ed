// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs of the C interface as data. The generator makes them, the interpreter and the
/// runner execute them, and the shrinker makes them smaller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/random_views.hpp"

namespace weir::test::serial {

/// The unit of memory. Copies, kernels and ranges are counted in words.
using word = std::uint32_t;

/// Stands for an absent index.
inline constexpr int none = -1;

/// Returns element i; spares the casts of indices.
template <class List>
auto& at(List& list, int i) {
  return list[static_cast<std::size_t>(i)];
}
template <class List>
int count_of(const List& list) {
  return static_cast<int>(list.size());
}

/// A mesh: its devices and the sizes of its axes.
struct mesh_spec {
  std::vector<int> devices;
  int tp = 1;
  int dp = 1;

  [[nodiscard]] int ranks() const { return count_of(devices); }
  /// Returns the groups of ranks along "tp", "dp" or "world", each in ascending order.
  [[nodiscard]] std::vector<std::vector<int>> groups(std::string_view axis) const;
};

enum class memory_kind : std::uint8_t { device, pinned, registered, plain };

/// A buffer of words on the host or on the devices of a mesh.
struct buffer_spec {
  memory_kind kind = memory_kind::device;
  int mesh = none;  ///< for device memory only
  int words = 0;
  bool pooled = false;    ///< allocated and freed in the order of a stream
  bool of_graph = false;  ///< allocated in a capture

  /// Returns whether the buffer is allocated and freed by operations of the program.
  [[nodiscard]] bool comes() const { return pooled || of_graph; }
  [[nodiscard]] bool on_device() const { return kind == memory_kind::device; }
};

/// A stream of a mesh, or of one of its ranks.
struct stream_spec {
  int mesh = 0;
  int rank = none;    ///< the rank that the stream is bound to
  bool late = false;  ///< created by an operation, not before the program
  bool urgent = false;
};

/// A range of words, as a call names it.
struct place {
  int buffer = none;
  /// The rank whose instance is named by that instance's address. `none`: each rank uses
  /// its own instance, which the address of rank 0 means. Therefore never 0.
  int rank = none;
  int first = 0;
  int words = 0;

  [[nodiscard]] bool there() const { return buffer != none; }
};

enum class arithmetic : std::uint8_t { add, exclusive_or, rotate, mix };

enum class verb : std::uint8_t {
  launch,
  copy,
  fill,
  host_function,
  host_write,  ///< the program's thread writes
  record,
  wait,
  query_event,
  await_event,  ///< tessEventSynchronize
  query_stream,
  synchronize,
  collective,
  take_memory,  ///< tessMallocAsync
  give_memory,  ///< tessFreeAsync
  open_stream,
  close_stream,
  begin_capture,
  end_capture,
  take_graph,  ///< takes the graph recorded by launches with the flag
  launch_graph,
  discard_graph,
  update_node,  ///< changes a node of an executable graph
};
inline constexpr int verbs = 22;
[[nodiscard]] std::string_view name_of(verb what);

enum class copy_way : std::uint8_t { to_device, to_host, on_device, on_host };

/// Kinds of collectives, in the order of tessCollectiveKind.
enum class collective_way : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  send,
  barrier,
};

/// Parameters of a collective. Counts are in elements of `bytes` bytes, as in the
/// interface.
struct collective_spec {
  collective_way way = collective_way::all_reduce;
  int op = 0;  ///< 0 sum, 1 max, 2 min, 3 product
  int bytes = 4;
  int count = 0;
  const char* axis = "world";
  int root = 0;
  int peer = 0;
  const char* algorithm = nullptr;
  int chunk_bytes = 0;
  bool packed = false;       ///< shards are in buffers of their own
  bool own_address = false;  ///< each rank passes the address of its own instance

  [[nodiscard]] bool packs_input() const {
    return packed && (way == collective_way::all_gather || way == collective_way::gather);
  }
  [[nodiscard]] bool packs_output() const {
    return packed &&
           (way == collective_way::reduce_scatter || way == collective_way::scatter);
  }
};

/// One operation. The verb determines which members have a meaning.
struct operation {
  verb what = verb::launch;
  int id = 0;  ///< does not change when other operations are removed
  int stream = none;
  int event = none;
  int graph = none;
  place to;
  place from;
  // For launches, host functions, writes and fills:
  arithmetic how = arithmetic::mix;
  std::uint32_t salt = 0;
  int spin = 0;          ///< extra rounds of arithmetic that make it slower
  int slow_rank = none;  ///< the only slow rank; none: all are slow
  int blocks = 1;
  bool captures = false;  ///< a launch with TESS_LAUNCH_CAPTURE
  bool urgent = false;    ///< a launch with TESS_LAUNCH_LOW_LATENCY
  // For copies:
  copy_way way = copy_way::on_device;
  int rank = none;  ///< rank argument of tessMemcpyRankAsync
  // For collectives:
  collective_spec collective;
  /// The stream on which each rank of the mesh calls its share, by rank. Empty if there
  /// is one call on `stream` for all ranks.
  std::vector<int> shares;
  // For captures:
  int recorded_in = none;  ///< the graph that records the operation
  bool runs = true;        ///< false if the operation is only recorded
  // For updates:
  int node = none;              ///< id of the recorded operation
  verb becomes = verb::launch;  ///< kind of the recorded operation

  [[nodiscard]] bool alters_memory() const {
    return what <= verb::host_write || what == verb::collective ||
           what == verb::launch_graph || what == verb::take_memory ||
           what == verb::give_memory;
  }
};

/// One call of the interface: an operation, or the share of one rank in it.
struct call {
  int operation = 0;
  int rank = none;
};

/// A program: its objects, its operations, and the order of its calls.
struct program {
  int devices = 1;
  std::vector<mesh_spec> meshes;
  std::vector<buffer_spec> buffers;
  std::vector<stream_spec> streams;
  int events = 0;
  int graphs = 0;
  /// In the order in which the interpreter executes them.
  std::vector<operation> operations;
  /// In the order in which the program calls them. A rank may be ahead of others.
  std::vector<call> calls;

  [[nodiscard]] const mesh_spec& mesh_of(int stream) const {
    return at(meshes, at(streams, stream).mesh);
  }
  /// Returns the number of instances of a buffer: one per rank, or one on the host.
  [[nodiscard]] int instances(int buffer) const {
    const buffer_spec& b = at(buffers, buffer);
    return b.on_device() ? at(meshes, b.mesh).ranks() : 1;
  }
  /// Returns whether the buffer's address means each rank's own instance on this stream.
  [[nodiscard]] bool fits(int buffer, int stream) const {
    const buffer_spec& b = at(buffers, buffer);
    return b.on_device() && at(meshes, b.mesh).devices == mesh_of(stream).devices;
  }
};

/// Returns the program as text: a line for each object and each operation, then the order
/// of the calls if it differs from the order of the operations.
[[nodiscard]] std::string text_of(const program& what);
[[nodiscard]] std::string text_of(const program& of, const operation& what);

/// Returns the calls in a random order that independent ranks could produce. Calls on one
/// stream, of one rank or about one event keep their order, and no call passes a call
/// that concerns the program's thread.
[[nodiscard]] std::vector<call> merged_calls(const program& what, dice& d);
/// Returns the calls in the order of the operations.
[[nodiscard]] std::vector<call> calls_in_order(const program& what);

}  // namespace weir::test::serial
