// SPDX-License-Identifier: Apache-2.0
/// @file
/// One graph per device, each with parameters of its own, that step together.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "prose/device_sum.hpp"
#include "prose/graph/graph.hpp"

namespace weir::models {

/// The lanes of a model in runs of neighbours, a run for each device. Every device has
/// all that lasts beside the lanes' contexts: parameters, moments, error buffers and
/// counters. It computes the gradients of its lanes; what it steps by is the sum of all.
///
/// The runs are `lanes_per_device` long, so the sum within a run and the all-reduce over
/// the runs are the lower and the upper levels of one tree over the lanes: the bits are
/// those of one device.
/// @threads{thread-compatible: belongs to the engine's submitter}
/// @source{Context Stream, "Multi-GPU Considerations"}
class replicas {
 public:
  /// @error{invalid_argument, the lanes cannot be cut so; out_of_memory}
  [[nodiscard]] static result<std::unique_ptr<replicas>> create(
      runtime::engine& engine, const prose_config& config,
      const kernel_table<float>& kernels, std::uint32_t devices);

  /// Fills a record for each device; arguments are those of all lanes.
  void fill(std::vector<pulse_record>& records, const pulse& p,
            std::span<const prose::lane_input> lanes,
            std::span<const lane_clock> clocks) const;
  /// Submits every task of the pulse. The records stay where they are until the last one
  /// has ended.
  [[nodiscard]] result<void> submit_pulse(std::vector<pulse_record>& records);

  /// The first device's replica, and the contexts of all lanes.
  [[nodiscard]] model_state<float>& state() { return state_; }
  /// Every replica becomes what the first one is, which something else than a pulse has
  /// changed; so do the counters of pulses submitted. No task may be running.
  void spread();
  /// Whether all replicas are the same. No task may be running.
  /// @error{determinism_violation, names the device and the part that differs}
  [[nodiscard]] result<void> check() const;

  [[nodiscard]] task_runner& runner() { return graphs_.front()->runner(); }
  [[nodiscard]] const parameter_layout& layout() const {
    return graphs_.front()->layout();
  }
  [[nodiscard]] const prose_config& config() const { return config_; }
  [[nodiscard]] graph<float>& device(std::size_t index) { return *graphs_[index]; }

 private:
  explicit replicas(const prose_config& config) : config_(config) {}

  prose_config config_;
  std::unique_ptr<device_sum> sum_;  ///< null: one device
  std::vector<std::unique_ptr<graph<float>>> graphs_;
  model_state<float> state_;
};

}  // namespace weir::models
