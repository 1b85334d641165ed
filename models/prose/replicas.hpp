// SPDX-License-Identifier: Apache-2.0
/// @file
/// The replicas of a model: one graph per device, each with its own copy of the
/// parameters, all of which step in the same way.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "prose/device_sum.hpp"
#include "prose/graph/graph.hpp"

namespace weir::models {

/// A model whose lanes are spread over devices.
///
/// Each device has a run of neighbouring lanes with their contexts, and a copy of
/// everything else that outlives a pulse: parameters, moments, error buffers and
/// counters. It computes the gradients of its lanes. Every device then steps by the sum
/// of the gradients of all lanes, so that the copies stay equal.
///
/// Each run has `lanes_per_device` lanes. The sum within a run and the all-reduce over
/// the runs are then the lower and the upper levels of one tree over all lanes, and the
/// bits do not depend on the number of devices.
/// @threads{thread-compatible: belongs to the engine's submitter}
/// @source{Context Stream, "Multi-GPU Considerations"}
class replicas {
 public:
  /// Allocates a graph for each device.
  /// @error{invalid_argument, the lanes cannot be spread over this number of devices}
  /// @error{out_of_memory}
  [[nodiscard]] static result<std::unique_ptr<replicas>> create(
      runtime::engine& engine, const prose_config& config,
      const kernel_table<float>& kernels, std::uint32_t devices);

  /// Fills a record for each device. `lanes` and `clocks` are those of all lanes.
  void fill(std::vector<pulse_record>& records, const pulse& p,
            std::span<const prose::lane_input> lanes,
            std::span<const lane_clock> clocks) const;
  /// Submits all tasks of a pulse. They point to the records, which must stay at their
  /// addresses until the last task has ended.
  [[nodiscard]] result<void> submit_pulse(std::vector<pulse_record>& records);

  /// Returns the replica of the first device, with the contexts of all lanes.
  [[nodiscard]] model_state<float>& state() { return state_; }
  /// Copies the first replica to the others, and its counters to the counters of
  /// submitted pulses. The caller calls it after any change of the first replica that no
  /// pulse made. No task may be running.
  void spread();
  /// Checks that all replicas are equal. No task may be running.
  /// @error{determinism_violation, names the device and the part that differs}
  [[nodiscard]] result<void> check() const;

  /// Returns the task runner, by which one can wait for the tasks of all devices.
  [[nodiscard]] task_runner& runner() { return graphs_.front()->runner(); }
  [[nodiscard]] const parameter_layout& layout() const {
    return graphs_.front()->layout();
  }
  [[nodiscard]] const prose_config& config() const { return config_; }
  /// Returns the graph of a device.
  [[nodiscard]] graph<float>& device(std::size_t index) { return *graphs_[index]; }

 private:
  explicit replicas(const prose_config& config) : config_(config) {}

  prose_config config_;
  std::unique_ptr<device_sum> sum_;                    ///< null if there is one device
  std::vector<std::unique_ptr<graph<float>>> graphs_;  ///< by device
  model_state<float> state_;                           ///< see `state`
};

}  // namespace weir::models
