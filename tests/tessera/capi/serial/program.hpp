// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs of the C interface as data: what the generator makes, the interpreter and the
/// runner execute, and the shrinker cuts down.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/random_views.hpp"

namespace weir::test::serial {

/// Memory consists of words of this type: copies, kernels and ranges count in them.
using word = std::uint32_t;

/// Nothing, where a number of a thing is asked for.
inline constexpr int none = -1;

template <class List>
auto& at(List& list, int i) {
  return list[static_cast<std::size_t>(i)];
}
template <class List>
int count_of(const List& list) {
  return static_cast<int>(list.size());
}

struct mesh_spec {
  std::vector<int> devices;
  int tp = 1;
  int dp = 1;

  [[nodiscard]] int ranks() const { return count_of(devices); }
  /// The groups along "tp", "dp" or "world": ranks, ascending.
  [[nodiscard]] std::vector<std::vector<int>> groups(std::string_view axis) const;
};

enum class memory_kind : std::uint8_t { device, pinned, registered, plain };

struct buffer_spec {
  memory_kind kind = memory_kind::device;
  int mesh = none;  ///< of device memory
  int words = 0;
  bool pooled = false;    ///< taken and given back in a stream's order
  bool of_graph = false;  ///< taken in a capture

  /// It is not there from the beginning.
  [[nodiscard]] bool comes() const { return pooled || of_graph; }
  [[nodiscard]] bool on_device() const { return kind == memory_kind::device; }
};

struct stream_spec {
  int mesh = 0;
  int rank = none;    ///< the rank that it is bound to
  bool late = false;  ///< created by an operation, not before the program
  bool urgent = false;
};

/// A range of words as a call names it.
struct place {
  int buffer = none;
  /// The rank whose instance is named by its own address; none: each rank means its own.
  /// The address of rank 0 is the one that stands for all, so this is never 0.
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
  host_write,  ///< by the program's thread itself
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
  take_graph,  ///< the recording that launches with the flag have made
  launch_graph,
  discard_graph,
  update_node,  ///< of an executable graph
};
inline constexpr int verbs = 22;
[[nodiscard]] std::string_view name_of(verb what);

enum class copy_way : std::uint8_t { to_device, to_host, on_device, on_host };

/// In the order of tessCollectiveKind.
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

/// Counts are of elements of `bytes` bytes, as the interface counts them.
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
  bool packed = false;       ///< shards stand in buffers of their own
  bool own_address = false;  ///< ranks that call it name their own instances

  [[nodiscard]] bool packs_input() const {
    return packed && (way == collective_way::all_gather || way == collective_way::gather);
  }
  [[nodiscard]] bool packs_output() const {
    return packed &&
           (way == collective_way::reduce_scatter || way == collective_way::scatter);
  }
};

/// One operation. Which of the members mean something depends on the verb.
struct operation {
  verb what = verb::launch;
  int id = 0;  ///< stays the same when operations before it go
  int stream = none;
  int event = none;
  int graph = none;
  place to;
  place from;
  // launches, functions of the host, writes and fills
  arithmetic how = arithmetic::mix;
  std::uint32_t salt = 0;
  int spin = 0;          ///< how long it takes its time, in rounds of arithmetic
  int slow_rank = none;  ///< none: all of them take it
  int blocks = 1;
  bool captures = false;  ///< a launch with TESS_LAUNCH_CAPTURE
  bool urgent = false;    ///< a launch with TESS_LAUNCH_LOW_LATENCY
  // copies
  copy_way way = copy_way::on_device;
  int rank = none;  ///< of tessMemcpyRankAsync
  // collectives
  collective_spec collective;
  /// By rank of the mesh: the stream of the rank's own share. Empty: one call on
  /// `stream`.
  std::vector<int> shares;
  // captures
  int recorded_in = none;  ///< the graph that records it
  bool runs = true;        ///< also at its call
  // updates
  int node = none;              ///< id of the recorded operation
  verb becomes = verb::launch;  ///< the kind of that

  [[nodiscard]] bool alters_memory() const {
    return what <= verb::host_write || what == verb::collective ||
           what == verb::launch_graph || what == verb::take_memory ||
           what == verb::give_memory;
  }
};

/// One call of the interface: an operation, or one rank's share of it.
struct call {
  int operation = 0;
  int rank = none;
};

struct program {
  int devices = 1;
  std::vector<mesh_spec> meshes;
  std::vector<buffer_spec> buffers;
  std::vector<stream_spec> streams;
  int events = 0;
  int graphs = 0;
  /// In the order in which the interpreter executes them.
  std::vector<operation> operations;
  /// In the order in which the program makes them: ranks are ahead of each other.
  std::vector<call> calls;

  [[nodiscard]] const mesh_spec& mesh_of(int stream) const {
    return at(meshes, at(streams, stream).mesh);
  }
  /// Instances of a buffer: one for each rank, or the one of the host.
  [[nodiscard]] int instances(int buffer) const {
    const buffer_spec& b = at(buffers, buffer);
    return b.on_device() ? at(meshes, b.mesh).ranks() : 1;
  }
  /// Whether its address stands for each rank's own instance on this stream.
  [[nodiscard]] bool fits(int buffer, int stream) const {
    const buffer_spec& b = at(buffers, buffer);
    return b.on_device() && at(meshes, b.mesh).devices == mesh_of(stream).devices;
  }
};

/// For people: one line for each thing and each operation, then the order of the calls if
/// it is another one.
[[nodiscard]] std::string text_of(const program& what);
[[nodiscard]] std::string text_of(const program& of, const operation& what);

/// Calls in an order that each rank could have made on its own: those of one stream, of
/// one rank or about one event stay in order, and none passes a call that concerns the
/// program's thread.
[[nodiscard]] std::vector<call> merged_calls(const program& what, dice& d);
/// One after another.
[[nodiscard]] std::vector<call> calls_in_order(const program& what);

}  // namespace weir::test::serial
