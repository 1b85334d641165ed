// SPDX-License-Identifier: Apache-2.0
/// @file
/// A graph as tasks of the engine. Its nodes have device chains of their own.
///
/// A body is shared by all streams on which the graph is launched. Its runs follow one
/// another, since they share its device chains.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "weir/tessera/stream/graph.hpp"

namespace weir::tessera {

/// A graph whose nodes run as one recorded sequence of tasks.
/// @threads{the thread that holds the submission lock}
class graph_body : public std::enable_shared_from_this<graph_body> {
 public:
  /// Makes a graph of copies of the recorded operations, which report to the observers of
  /// `owner`. `top` is the run that they belong to; null means `run`, which the frame
  /// sets.
  /// @error{unsupported; an operation that cannot be in a graph}
  /// @error{out_of_memory; no memory for the device chains}
  [[nodiscard]] static result<std::shared_ptr<graph_body>> make(
      context& owner, const graph& from, const graph_run_facts* top = nullptr);
  ~graph_body();
  graph_body(const graph_body&) = delete;
  graph_body& operator=(const graph_body&) = delete;

  /// Submits the tasks of the nodes between those of the two operations of `frame`.
  void submit(submission& to, std::span<const ref<operation>> frame);
  /// Replaces the operation of a node. Nobody else refers to the new operation.
  void replace(std::size_t node, ref<operation> operation);

  /// Returns the approximate number of tasks of a run.
  [[nodiscard]] std::uint32_t tasks() const;
  /// Returns the memory that a run needs.
  [[nodiscard]] const memory_need& needs() const noexcept { return needs_; }
  /// Returns the number of launches that take numbers from the stream of a run.
  [[nodiscard]] std::uint32_t counted_launches() const noexcept;
  /// Gives the launches of a run their numbers from `next` on, in the stream of number
  /// `stream`.
  void count_from(std::uint64_t stream, std::uint64_t& next) noexcept;

  /// Operations and their predecessors.
  std::vector<graph_node> nodes;
  std::vector<std::shared_ptr<stream>> streams;  ///< the recorded streams
  /// Device chains of the nodes of each recorded stream.
  std::vector<std::unique_ptr<device_chains>> chains;
  /// Memory that nodes take or return, without duplicates.
  std::vector<std::shared_ptr<graph_memory>> memories;
  graph_run_facts run;  ///< the present run, if the frame sets it

 private:
  explicit graph_body(context& owner);
  /// Gives an operation its number, stream and run in this graph.
  void adopt(operation& operation, std::size_t stream_index, std::size_t node) const;
  /// Computes the memory that a run needs.
  void sum_needs();

  std::shared_ptr<context> context_;
  const graph_run_facts* top_ = nullptr;
  memory_need needs_;
};

/// Returns the memory that a graph takes and does not return. Nodes are in their order.
[[nodiscard]] std::vector<std::shared_ptr<graph_memory>> memory_left_by(
    std::span<const graph_node> nodes);

/// A task that holds all device chains of a stream and all device chains of a graph. The
/// first of a run passes the stream's failures to the graph; the last passes the graph's
/// failures to the stream, as failures of the run. Only the task that enters is told of
/// runs (`expect`).
/// @threads{`expect`: the thread that holds the submission lock; `step`: a worker}
class graph_frame final : public operation {
 public:
  /// Which of the two tasks of a run this is.
  enum class side : std::uint8_t { enters, leaves };

  graph_frame(side which, device_chains& outside, graph_body& inside)
      : operation(operation_kind::other),
        side_(which),
        outside_(outside),
        inside_(inside) {}

  /// Makes the first and the last task of runs that are launched from these device
  /// chains.
  [[nodiscard]] static std::array<ref<operation>, 2> pair(device_chains& outside,
                                                          graph_body& inside);
  /// Announces a run, whose nodes will see these facts. Runs enter in the order of these
  /// calls. A run that was not announced leaves the facts unchanged.
  void expect(const graph_run_facts& run);

  void submit(submission& to) override;
  void step(device_chains&, unsigned, std::uint32_t) noexcept override;

 private:
  /// Passes the failures of the stream to the device chains of the graph.
  void enter();
  /// Passes the failures of the graph to the stream, and clears them.
  void leave();
  /// Sets the facts of the run that enters.
  void take_next_run();
  /// Returns true if device chain i of the graph has the same device as device chain i of
  /// the stream.
  [[nodiscard]] bool corresponds(const device_chains& chains) const noexcept {
    return chains.devices() == outside_.devices();
  }

  side side_;
  device_chains& outside_;
  graph_body& inside_;
  std::mutex mutex_;
  /// announced runs that have not entered, guarded by `mutex_`
  std::deque<graph_run_facts> runs_;
};

/// A node that is itself a graph.
class child_graph final : public operation {
 public:
  /// Makes a recorded node, which cannot run.
  explicit child_graph(std::shared_ptr<const graph> child)
      : operation(operation_kind::graph), graph_(std::move(child)) {}

  /// Returns a node that can run, in the graph whose run is `top`; null: in no graph.
  /// Errors are those of graph_body::make.
  [[nodiscard]] result<ref<operation>> instance(context& owner,
                                                const graph_run_facts* top) const;
  [[nodiscard]] ref<operation> clone() const override;
  [[nodiscard]] std::string_view name() const noexcept override { return "graph"; }
  [[nodiscard]] std::string details() const override;
  void submit(submission& to) override;
  void step(device_chains& chains, unsigned chain, std::uint32_t) noexcept override;
  [[nodiscard]] std::uint32_t tasks(unsigned) const override {
    return body_ == nullptr ? 0 : body_->tasks();
  }
  [[nodiscard]] memory_need needs() const noexcept override {
    return body_ == nullptr ? memory_need{} : body_->needs();
  }
  [[nodiscard]] std::uint32_t counted_launches() const noexcept override {
    return body_ == nullptr ? 0 : body_->counted_launches();
  }
  void count_from(std::uint64_t stream, std::uint64_t& next) noexcept override {
    body_->count_from(stream, next);
  }

 private:
  std::shared_ptr<const graph> graph_;
  std::shared_ptr<graph_body> body_;    ///< the tasks; null for a recorded node
  std::vector<ref<operation>> frames_;  ///< keeps the frames of recorded tasks alive
};

/// Returns a copy of an operation for a graph that runs. Other errors are those of
/// graph_body::make.
/// @error{unsupported; the operation cannot be in a graph}
[[nodiscard]] result<ref<operation>> copy_for_graph(const operation& operation,
                                                    context& owner,
                                                    const graph_run_facts* top);

}  // namespace weir::tessera
