// SPDX-License-Identifier: Apache-2.0
/// @file
/// The model in double precision and without an engine, so that each task runs when it is
/// submitted. Tests compare it with formulas to many digits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/some_tokens.hpp"
#include "prose/graph/graph.hpp"

namespace weir::test {

using models::graph;
using models::prose_config;

/// The tokens of one lane in a pulse.
struct lane_text {
  std::vector<std::uint32_t> tokens;
  std::int64_t lookahead = -1;  ///< token behind the last one; -1 if it is not known
};

/// A model that runs one pulse at a time.
class double_model {
 public:
  /// Makes a model with initial parameters and empty contexts.
  explicit double_model(const prose_config& config);

  /// Runs one pulse. Returns the mean negative log-likelihood of its scored rows in nats.
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
  /// Returns the contexts and positions of all lanes as a list of numbers.
  [[nodiscard]] std::vector<double> save_contexts();
  /// Restores the contexts and positions that `save_contexts` returned.
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
