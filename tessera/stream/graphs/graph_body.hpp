// SPDX-License-Identifier: Apache-2.0
/// @file
/// The nodes of a graph in lanes of their own, as tasks of the engine.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "weir/tessera/stream/graph.hpp"

namespace weir::tessera {

/// A graph whose nodes can run in one piece.
/// @threads{whoever has the session}
class graph_body : public std::enable_shared_from_this<graph_body> {
 public:
  /// Copies of the recorded operations. They report to the observers of `of`; `top` is
  /// the run that they belong to, null: the body's own, as its frame is told of it.
  /// @error{unsupported, an operation that cannot be in a graph; out_of_memory}
  [[nodiscard]] static result<std::shared_ptr<graph_body>> make(
      context& of, const graph& from, const graph_run_facts* top = nullptr);
  ~graph_body();
  graph_body(const graph_body&) = delete;
  graph_body& operator=(const graph_body&) = delete;

  /// Submits the nodes as tasks, between those of the two operations of `frame`.
  void submit(submission& to, std::span<const ref<operation>> frame);
  /// Makes an operation, which nobody else has, a node of this graph in the place of
  /// another.
  void replace(std::size_t node, ref<operation> what);

  /// Tasks of one run, or about so many.
  [[nodiscard]] std::uint32_t tasks() const;
  [[nodiscard]] const memory_need& needs() const noexcept { return needs_; }
  /// Launches that take numbers of the counter of the stream that a run is launched on.
  [[nodiscard]] std::uint32_t counted_launches() const noexcept;
  void count_from(std::uint64_t stream, std::uint64_t& next) noexcept;

  std::vector<graph_node> nodes;
  std::vector<std::shared_ptr<stream>> streams;  ///< by chain, as recorded
  std::vector<std::unique_ptr<lane_set>> lanes;  ///< by chain
  /// What its nodes take and give back, each once.
  std::vector<std::shared_ptr<graph_memory>> memories;
  graph_run_facts run;  ///< the one that goes on, if it is told of it

 private:
  explicit graph_body(context& of);
  void adopt(operation& what, std::size_t chain, std::size_t node) const;
  void sum_needs();

  std::shared_ptr<context> of_;
  const graph_run_facts* top_ = nullptr;
  memory_need needs_;
};

/// What a graph does not give back, given the nodes in their order.
[[nodiscard]] std::vector<std::shared_ptr<graph_memory>> memory_left_by(
    std::span<const graph_node> nodes);

/// A task that all lanes of a stream and all lanes of a graph meet in. The one that
/// enters takes over the stream's failures; the one that leaves gives failures back as
/// those of the run.
class graph_frame final : public operation {
 public:
  enum class side : std::uint8_t { enters, leaves };

  graph_frame(side which, lane_set& outside, graph_body& inside)
      : operation(kind::other), side_(which), outside_(outside), inside_(inside) {}

  /// The two of a graph that is launched from these lanes.
  [[nodiscard]] static std::array<ref<operation>, 2> pair(lane_set& outside,
                                                          graph_body& inside);
  /// A run comes whose nodes are to look at these facts. Runs enter in the order of these
  /// calls. Without any, the facts are left as they are.
  void expect(const graph_run_facts& run);

  void submit(submission& to) override;
  void step(lane_set&, unsigned, std::uint32_t) noexcept override;

 private:
  void enter();
  void leave();
  void take_next_run();
  /// Lane i of the graph is that of the same device as lane i of the stream.
  [[nodiscard]] bool corresponds(const lane_set& lanes) const noexcept {
    return lanes.devices() == outside_.devices();
  }

  side side_;
  lane_set& outside_;
  graph_body& inside_;
  std::mutex mutex_;
  std::deque<graph_run_facts> runs_;
};

/// A node that is a graph.
class child_graph final : public operation {
 public:
  /// As it is recorded.
  explicit child_graph(std::shared_ptr<const graph> what)
      : operation(kind::graph), what_(std::move(what)) {}

  /// One that runs, as a node of the graph whose run `top` is; null: of none.
  /// @error as of graph_body::make
  [[nodiscard]] result<ref<operation>> instance(context& of,
                                                const graph_run_facts* top) const;
  [[nodiscard]] ref<operation> clone() const override;
  [[nodiscard]] std::string_view name() const noexcept override { return "graph"; }
  [[nodiscard]] std::string details() const override;
  void submit(submission& to) override;
  void step(lane_set& lanes, unsigned lane, std::uint32_t) noexcept override;
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
  std::shared_ptr<const graph> what_;
  std::shared_ptr<graph_body> body_;  ///< of one that runs
  std::vector<ref<operation>> frames_;
};

/// The same operation for a graph that runs. @error{unsupported, it cannot be in one}
/// @error as of graph_body::make
[[nodiscard]] result<ref<operation>> copy_for_graph(const operation& what, context& of,
                                                    const graph_run_facts* top);

}  // namespace weir::tessera
