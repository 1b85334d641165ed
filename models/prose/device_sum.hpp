// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sum of the devices' gradients: an all-reduce over regions of the model's engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "buffers.hpp"
#include "weir/collective/region_collective.hpp"

namespace weir::models {

/// A part of a sum for each device, and the all-reduce that adds the parts.
///
/// The parts are regions of the engine, so the sum waits for the tasks that write them
/// and the tasks that read them wait for the sum. If one of the former fails, the latter
/// are not run.
/// @threads{thread-compatible: belongs to the engine's submitter}
class device_sum {
 public:
  /// `count` elements on each device, all zero. @error{out_of_memory}
  [[nodiscard]] static result<std::unique_ptr<device_sum>> create(runtime::engine& engine,
                                                                  std::uint32_t devices,
                                                                  std::int64_t count);
  /// Waits for the tasks that use a part.
  ~device_sum();
  device_sum(const device_sum&) = delete;
  device_sum& operator=(const device_sum&) = delete;

  /// Memory of a device: its part before the sum, and the sum after it.
  [[nodiscard]] const buffer<float>& part(std::size_t device) const {
    return parts_[device];
  }
  /// Submits a level 1 all-reduce of the parts. The first time, the tasks are recorded;
  /// after that they are replayed.
  /// @error{as engine::submit; as engine::replay}
  [[nodiscard]] result<void> submit();

 private:
  explicit device_sum(runtime::engine& engine) : engine_(engine) {}

  runtime::engine& engine_;
  std::vector<buffer<float>> parts_;
  std::optional<collective::region_collective> sum_;
  runtime::capture recorded_;
};

}  // namespace weir::models
