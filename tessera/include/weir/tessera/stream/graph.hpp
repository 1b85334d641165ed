// SPDX-License-Identifier: Apache-2.0
/// @file
/// Graphs: operations that streams have recorded, and their repeated execution.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "weir/tessera/stream/operation.hpp"
#include "weir/tessera/stream/point.hpp"

namespace weir::tessera {

class context;
class device_graph;
class graph_body;
class graph_memory;
class graph_reissue;
class memory_node;
class stream;
struct mesh;

/// One recorded operation. It runs after the nodes that `after` lists.
struct graph_node {
  /// The operation.
  ref<tessera::operation> operation;
  /// Carries out the node's waits on all device chains. Set only where an update replaced
  /// an operation that had waits by one that runs on a single device chain.
  ref<point> before;
  std::size_t stream_index = 0;  ///< position of its stream in graph::streams
  /// Indices of its predecessors: the node before in its stream, and points.
  std::vector<std::size_t> after;
};

/// A finished recording: its operations, in an order in which they can run.
/// @threads{immutable}
struct graph {
  std::vector<graph_node> nodes;  ///< the operations; predecessors come first
  /// The recorded streams; the first began the recording.
  std::vector<std::shared_ptr<stream>> streams;

  /// Returns the graph in the DOT language of Graphviz.
  [[nodiscard]] std::string to_dot() const;
  /// Returns the graph as a JSON object, whose member "nodes" lists the operations.
  [[nodiscard]] std::string to_json() const;
};

/// Treatment of calls that other threads make on the streams of a capture.
enum class capture_mode : std::uint8_t {
  global,      ///< refuses them and is lost, so that nobody overlooks them
  per_thread,  ///< refuses them and goes on
  relaxed      ///< records them
};

/// The recording of one or several streams.
/// @threads{the thread that holds the submission lock}
class graph_recording : public std::enable_shared_from_this<graph_recording> {
 public:
  /// Begins a recording. The calling thread is the one that captures.
  explicit graph_recording(capture_mode mode = capture_mode::relaxed)
      : mode_(mode), thread_(std::this_thread::get_id()) {}

  /// Makes a stream take part in the recording, even if nothing is enqueued in it.
  void take_part(stream& by) { static_cast<void>(index_of(by)); }
  /// Adds an operation of a stream as a node. Does nothing after `close`.
  void add(stream& by, const ref<operation>& operation);
  /// Returns true if the point is a node of the recording.
  [[nodiscard]] bool has(const point& p) const { return points_.count(&p) != 0; }
  /// Makes the stream `waits` take part in the capture that has the point `recorded`, if
  /// it has one that has not ended.
  /// @error{invalid_argument; the capture takes no calls of this thread}
  [[nodiscard]] static result<void> join(submission_lock::guard& in,
                                         const point& recorded, stream& waits);
  /// Returns true if the calling thread may record.
  [[nodiscard]] bool takes_calls_of_this_thread() const noexcept {
    return mode_ == capture_mode::relaxed || thread_ == std::this_thread::get_id();
  }
  /// Notes that a call which the capture needed was refused, so that `finish` fails. A
  /// capture of mode `per_thread` ignores calls of other threads.
  void refuse(std::string why);
  /// Ends the recording: later operations are not added.
  void close() noexcept { closed_ = true; }
  /// Ends the recording and returns its graph. `origin` is the stream that must have
  /// begun the recording and that all others must have returned to; null: any.
  /// @error{invalid_argument; a call was refused, another stream began the recording, or
  /// a stream that joined has not returned to `origin`}
  [[nodiscard]] result<std::shared_ptr<const graph>> finish(stream* origin);
  /// Returns true if the recording has ended.
  [[nodiscard]] bool closed() const noexcept { return closed_; }

  /// Returns memory of this size that the stream has returned in this capture, or null.
  /// The memory counts as taken again. @units{bytes}
  [[nodiscard]] std::shared_ptr<graph_memory> reusable(stream& by, std::size_t bytes);
  /// Returns the memory that begins at `address` and that this capture has taken, or
  /// null.
  [[nodiscard]] std::shared_ptr<graph_memory> memory_at(const void* address) const;

 private:
  struct taken_memory {
    std::shared_ptr<graph_memory> memory;
    std::size_t freed_by = 0;  ///< 1 + stream that has returned it; 0: taken
  };

  [[nodiscard]] std::size_t index_of(stream& by);
  [[nodiscard]] bool all_reach(std::size_t last) const;
  void note_memory(const memory_node& node, std::size_t stream_index);

  capture_mode mode_;
  std::thread::id thread_;
  graph made_;
  std::vector<std::size_t> last_;  ///< 1 + last node of each stream; 0: none
  std::map<const operation*, std::size_t> points_;
  std::vector<taken_memory> memories_;
  std::string spoilt_;
  bool closed_ = false;
};

/// A graph that can run any number of times. Its runs follow one another.
/// @threads{`launch`, `retire` and `update` take the submission lock themselves}
class graph_exec : public std::enable_shared_from_this<graph_exec> {
 public:
  /// Makes an executable graph.
  /// @error{invalid_argument; the graph is empty}
  /// @error{unsupported; an operation that cannot be in a graph}
  /// @error{out_of_memory; no memory for its device chains}
  [[nodiscard]] static result<std::shared_ptr<graph_exec>> make(
      std::shared_ptr<const graph> from);
  ~graph_exec();

  /// Runs the graph after all operations of the stream.
  /// If the stream's limit leaves less memory than the graph needs, the stream fails with
  /// out_of_memory. If the stream captures, its recording gets the present graph as one
  /// node.
  /// @error{invalid_argument; a stream of another context, memory that the last run left
  /// to the program and that has not been returned, or a capture of another thread}
  /// @error{out_of_range; the graph is larger than the engine's window}
  /// @error{timeout; ranks that meet in it do not meet any more}
  /// @error{unsupported; a graph that cannot be a node of another}
  [[nodiscard]] result<void> launch(const std::shared_ptr<stream>& target);
  /// Releases a graph once all its runs have ended.
  static void retire(const std::shared_ptr<graph_exec>& exec);
  /// Replaces the operation of a node in later launches, after waiting for unfinished
  /// runs. The operation was made for the stream `made_on`.
  /// @error{invalid_argument; no such node, another kind of operation, or a stream on
  /// other devices than the recorded one}
  /// @error{unsupported; an operation that cannot be in a graph}
  [[nodiscard]] result<void> update(std::size_t node, const operation& operation,
                                    const stream& made_on);

 private:
  friend class graph_run;
  struct made_capture {
    std::weak_ptr<stream> target;
    runtime::capture tasks;
    /// The first operation enters the graph, the last one leaves it.
    std::vector<ref<operation>> frame;
  };

  graph_exec() = default;
  [[nodiscard]] std::vector<graph_node>& nodes() const noexcept;
  [[nodiscard]] result<const runtime::capture*> capture_for(submission_lock::guard& in,
                                                            stream& target);
  [[nodiscard]] memory_need needs() const;
  /// Returns the present graph as a node for the recording of another graph.
  [[nodiscard]] result<ref<operation>> as_node() const;
  /// Hands the graph's memory to the program for a run on this stream. Returns the points
  /// that the run waits for.
  [[nodiscard]] result<std::vector<ref<point>>> lend_memory(stream& to);
  [[nodiscard]] result<void> check_update(std::size_t node, const operation& operation,
                                          const stream& made_on) const;
  /// Waits for all launched runs and returns their number.
  [[nodiscard]] std::uint64_t wait_for_runs();
  [[nodiscard]] result<void> replace(std::size_t node, const operation& operation);
  /// Lets a device make a graph of its own from `body_`, if it can. Waits for the device,
  /// so the caller does not hold the submission lock.
  void renew_native();

  std::shared_ptr<const graph> from_;
  std::shared_ptr<context> context_;
  std::uint64_t runs_ = 0;  ///< number of launched runs
  /// Nodes that run in one piece. Null if `reissue_` is set.
  std::shared_ptr<graph_body> body_;
  /// Nodes that each run enqueues anew. Null if `body_` is set.
  std::unique_ptr<graph_reissue> reissue_;
  /// Tasks of `body_` by number of the stream.
  std::map<std::uint64_t, made_capture> captures_;
  /// Memory that its runs take and do not return.
  std::vector<std::shared_ptr<graph_memory>> left_;
  std::uint64_t changes_ = 0;  ///< number of updates
  /// The graph that a device runs by itself; null: the engine runs the nodes. It goes
  /// before the code and the memory that it uses.
  std::shared_ptr<device_graph> native_;
  std::int32_t native_device_ = 0;  ///< the device of `native_`
};

}  // namespace weir::tessera
