// SPDX-License-Identifier: Apache-2.0
/// @file
/// Graphs: operations as streams recorded them, and how they run again as a whole.
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
class graph_body;
class graph_memory;
class graph_reissue;
class memory_node;
class stream;
struct mesh;

/// One recorded operation. Nodes of one stream are in order; others by `after`.
struct graph_node {
  ref<operation> what;
  /// Carries out the waits of the node on all lanes. Only set where an update has put an
  /// operation that runs on one lane in the place of another that had waits.
  ref<point> before;
  std::size_t chain = 0;           ///< which of the streams
  std::vector<std::size_t> after;  ///< nodes: the one before in its stream, and points
};

/// A recording that has ended: what was recorded, in an order that works.
/// @threads{immutable}
struct graph {
  std::vector<graph_node> nodes;
  std::vector<std::shared_ptr<stream>> streams;  ///< by chain; the first began it

  [[nodiscard]] std::string to_dot() const;
  [[nodiscard]] std::string to_json() const;
};

/// What a capture does about calls that other threads make on its streams.
enum class capture_mode : std::uint8_t {
  global,      ///< refuses them and is lost, so that nobody overlooks them
  per_thread,  ///< refuses them and goes on
  relaxed      ///< records them
};

/// What one or several streams record into.
/// @threads{whoever has the session}
class graph_recording : public std::enable_shared_from_this<graph_recording> {
 public:
  /// Of a capture that the calling thread begins.
  explicit graph_recording(capture_mode mode = capture_mode::relaxed)
      : mode_(mode), thread_(std::this_thread::get_id()) {}

  /// The stream records into it from now on, whether it is given anything or not.
  void take_part(stream& by) { static_cast<void>(chain_of(by)); }
  void add(stream& by, const ref<operation>& what);
  /// The point is one of its nodes.
  [[nodiscard]] bool has(const point& p) const { return points_.count(&p) != 0; }
  /// A stream that waits for a point inside a capture joins it.
  /// @error{invalid_argument, the capture takes no calls of this thread}
  [[nodiscard]] static result<void> join(submission_port::session& in, const point& at,
                                         stream& waits);
  /// The calling thread may record.
  [[nodiscard]] bool takes_calls_of_this_thread() const noexcept {
    return mode_ == capture_mode::relaxed || thread_ == std::this_thread::get_id();
  }
  /// A call was refused that the capture would have needed: it is lost, unless another
  /// thread made the call and that is none of this capture's business.
  void refuse(std::string why);
  /// Nothing more is added; streams that still record forget it.
  void close() noexcept { closed_ = true; }
  /// @error{invalid_argument, it was spoilt, or streams that joined have not come back to
  /// `origin`}
  [[nodiscard]] result<std::shared_ptr<const graph>> finish(stream* origin);
  [[nodiscard]] bool closed() const noexcept { return closed_; }

  /// Memory of so many bytes that the stream has given back in this capture, or null.
  [[nodiscard]] std::shared_ptr<graph_memory> reusable(stream& by, std::size_t bytes);
  /// What was taken in this capture and begins there, or null.
  [[nodiscard]] std::shared_ptr<graph_memory> memory_at(const void* at) const;

 private:
  struct taken_memory {
    std::shared_ptr<graph_memory> what;
    std::size_t freed_by = 0;  ///< chain + 1; 0: it has not been given back
  };

  [[nodiscard]] std::size_t chain_of(stream& by);
  [[nodiscard]] bool all_reach(std::size_t last) const;
  void note_memory(const memory_node& node, std::size_t chain);

  capture_mode mode_;
  std::thread::id thread_;
  graph made_;
  std::vector<std::size_t> last_;  ///< node + 1 by chain, 0: none
  std::map<const operation*, std::size_t> points_;
  std::vector<taken_memory> memories_;
  std::string spoilt_;
  bool closed_ = false;
};

/// A graph that can run, any number of times. Its runs go one after another.
/// @threads{whoever has the session}
class graph_exec : public std::enable_shared_from_this<graph_exec> {
 public:
  /// @error{unsupported, an operation that cannot be in a graph; out_of_memory}
  [[nodiscard]] static result<std::shared_ptr<graph_exec>> make(
      std::shared_ptr<const graph> from);
  ~graph_exec();

  /// Runs it behind everything that the stream has. Where the stream's limit leaves less
  /// than it needs, that is a failure of the stream's (out_of_memory). If the stream
  /// captures, its recording gets the graph as one node, as it is now.
  /// @error{invalid_argument, another context, memory that its last run has left to the
  /// program and that is not given back, or a capture of another thread; out_of_range,
  /// larger than the window; timeout, ranks that meet in it do not meet any more;
  /// unsupported, a graph that cannot be a node of another}
  [[nodiscard]] result<void> launch(const std::shared_ptr<stream>& on);
  /// Lets go of it once all runs have ended.
  static void retire(const std::shared_ptr<graph_exec>& what);
  /// From the next launch on, the node does this instead, which was made for `made_on`.
  /// Waits for runs in flight.
  /// @error{invalid_argument, no such node, another kind of operation, or a stream on
  /// other devices than the recorded one; unsupported, what cannot be in a graph}
  [[nodiscard]] result<void> update(std::size_t node, const operation& what,
                                    const stream& made_on);

 private:
  friend class graph_run;
  struct made_capture {
    std::weak_ptr<stream> on;
    runtime::capture tasks;
    std::vector<ref<operation>> frame;  ///< enters and leaves
  };

  graph_exec() = default;
  [[nodiscard]] std::vector<graph_node>& nodes() const noexcept;
  [[nodiscard]] result<const runtime::capture*> capture_for(submission_port::session& in,
                                                            stream& on);
  [[nodiscard]] memory_need needs() const;
  /// The graph as it is now, for the recording of another.
  [[nodiscard]] result<ref<operation>> as_node() const;
  /// A run on this stream is about to leave memory to the program; the points that the
  /// run has to wait for.
  [[nodiscard]] result<std::vector<ref<point>>> lend_memory(stream& to);
  [[nodiscard]] result<void> check_update(std::size_t node, const operation& what,
                                          const stream& made_on) const;
  /// Waits for the runs that were launched so far; their number.
  [[nodiscard]] std::uint64_t wait_for_runs();
  [[nodiscard]] result<void> replace(std::size_t node, const operation& what);

  std::shared_ptr<const graph> from_;
  std::shared_ptr<context> of_;
  std::uint64_t runs_ = 0;  ///< launched
  /// One of the two: nodes that run in one piece, or nodes that each run enqueues anew.
  std::shared_ptr<graph_body> body_;
  std::unique_ptr<graph_reissue> reissue_;
  std::map<std::uint64_t, made_capture> captures_;  ///< of `body_`, by stream's number
  /// What its runs take and do not give back.
  std::vector<std::shared_ptr<graph_memory>> left_;
};

}  // namespace weir::tessera
