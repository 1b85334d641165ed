// SPDX-License-Identifier: Apache-2.0
/// @file
/// The progress of a run, from that of its pipeline and the figures of its stages.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "stages/prose/job/stored_run.hpp"
#include "weir/actors/pipelines.hpp"
#include "weir/actors/run.hpp"

namespace weir::actors {

/// Looks up figures of stages by the names of the stages.
/// @threads{thread-compatible; refers to its arguments}
class stage_reports {
 public:
  /// @param graph    Graph with the names of the stages.
  /// @param reports  In the order of the graph; may be empty.
  stage_reports(const flow::graph& graph, const std::vector<figures>& reports)
      : graph_(graph), reports_(reports) {}

  /// Returns a figure, or a null pointer if there is none of this type.
  template <class T>
  [[nodiscard]] const T* find(std::string_view stage, std::string_view figure) const {
    for (std::size_t i = 0; i < graph_.stages.size() && i < reports_.size(); ++i) {
      if (graph_.stages[i].name == stage) {
        return reports_[i].find<T>(figure);
      }
    }
    return nullptr;
  }
  /// Returns a figure, or a default value if there is none of this type.
  template <class T>
  [[nodiscard]] T get(std::string_view stage, std::string_view figure) const {
    const T* found = find<T>(stage, figure);
    return found != nullptr ? *found : T();
  }

 private:
  const flow::graph& graph_;
  const std::vector<figures>& reports_;
};

/// A source of a chain.
struct chained_source {
  std::string name;
  std::uint64_t first = 0;  ///< number of its first token in the stream
};

/// Makes progress for the user of a run.
/// @threads{thread-compatible}
class progress_meter {
 public:
  /// @param config  Configuration of the run.
  /// @param graph   Graph of its stages; must outlive the object.
  /// @param before  What the run continues; null for a new one.
  progress_meter(const run_config& config, const flow::graph& graph,
                 const stored_run* before);
  /// Returns what is known of the run before its first pulse, once, from the first
  /// progress.
  [[nodiscard]] std::optional<run_start> started(const pipeline_progress& p);
  /// Returns the sources with which the stream of the run has gone on since the last
  /// call.
  [[nodiscard]] std::vector<chained_source> take_begun();
  /// Returns the progress of the run; nothing before its first pulse.
  [[nodiscard]] std::optional<run_progress> take(const pipeline_progress& p);

 private:
  /// Numbers at some time, for the rate and the score since then.
  struct sample {
    std::int64_t time_ns = 0;
    std::uint64_t tokens = 0;
    double nats = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] std::uint64_t budget_of(std::size_t phase) const;
  /// Returns the tokens of the stream of the run that were consumed before this process.
  [[nodiscard]] std::uint64_t read_before() const;
  /// Returns the tokens of the stream of the run that this process has consumed.
  [[nodiscard]] std::uint64_t read_since(const stage_reports& stages) const;
  /// Returns whether a phase reads the stream of the run.
  [[nodiscard]] bool reads_main(std::size_t phase) const;
  /// Takes the starts of the sources of the chain, which may become known later.
  void note_chain(const stage_reports& stages);
  /// Returns the number of pulses that are read and not taken by the model.
  [[nodiscard]] std::uint64_t queue_of(const pipeline_progress& p) const;

  const run_config& config_;
  const flow::graph& graph_;
  conductor_record before_;  ///< as of the checkpoint that is continued
  std::uint64_t build_budget_ = 0;
  bool started_ = false;
  std::uint64_t durable_tokens_ = 0;
  std::vector<chained_source> chain_;  ///< sources that follow, as far as they are known
  std::size_t begun_ = 0;              ///< sources of it that were begun
  std::uint64_t read_ = 0;             ///< tokens of the stream of the run
  std::deque<sample> recent_;
  run_progress last_;
};

}  // namespace weir::actors
