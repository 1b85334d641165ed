// SPDX-License-Identifier: Apache-2.0
/// @file
/// The model in double precision without an engine: every task runs at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/some_tokens.hpp"
#include "prose/graph/graph.hpp"

namespace weir::test {

using models::graph;
using models::prose_config;

/// One lane's tokens for a pulse.
struct lane_text {
  std::vector<std::uint32_t> tokens;
  std::int64_t lookahead = -1;  ///< -1: not known
};

class double_model {
 public:
  explicit double_model(const prose_config& config);

  /// Runs one pulse; returns the mean negative log-likelihood of its scored rows, in
  /// nats.
  double run(const std::vector<lane_text>& lanes, bool builds, std::uint32_t active = 0,
             std::uint64_t update = 0, std::uint64_t total = 1);
  [[nodiscard]] graph<double>& model() { return *graph_; }
  [[nodiscard]] const models::parameter_layout& layout() const {
    return graph_->layout();
  }
  double* parameters() { return graph_->state().parameters.data; }
  [[nodiscard]] std::uint64_t position(std::size_t lane) const {
    return clocks_[lane].position;
  }
  /// Everything of the contexts, to return to.
  [[nodiscard]] std::vector<double> save_contexts();
  void load_contexts(const std::vector<double>& saved);
  [[nodiscard]] const models::pulse_record& record() const { return record_; }

 private:
  template <class F>
  void each_context_buffer(F f);
  std::unique_ptr<graph<double>> graph_;
  models::pulse_record record_;
  std::vector<models::lane_clock> clocks_;
};

}  // namespace weir::test
