// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sum of the devices' gradients: an all-reduce in a stream over the model's engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "prose/buffers.hpp"
#include "weir/tessera/stream/collective.hpp"

namespace weir::models {

/// A mesh of devices, a part of a sum in the memory of each, and the stream that adds
/// them. Its operations are tasks of the model's own engine.
///
/// The stream knows order tokens, the model's tasks know regions. They meet in tasks that
/// hold both: the one behind the all-reduce writes all parts as far as the engine is
/// concerned, so what reads a part waits for the sum, and fails if one of them has.
/// @threads{thread-compatible: belongs to the engine's submitter}
class device_sum {
 public:
  /// `count` elements on each device, all zero.
  /// @error{out_of_memory}
  [[nodiscard]] static result<std::unique_ptr<device_sum>> create(runtime::engine& engine,
                                                                  std::uint32_t devices,
                                                                  std::int64_t count);
  /// No task that uses a part may be left.
  ~device_sum();
  device_sum(const device_sum&) = delete;
  device_sum& operator=(const device_sum&) = delete;

  /// Memory of a device: its part before the sum, and the sum behind it.
  [[nodiscard]] const buffer<float>& part(std::size_t device) const {
    return parts_[device];
  }
  /// Submits a level 1 all-reduce of the parts, where device d's is ready when task
  /// `ready[d]` has ended. @error{what the engine or the stream refuses}
  [[nodiscard]] result<void> submit(std::span<const runtime::task_id> ready);

 private:
  explicit device_sum(runtime::engine& engine) : engine_(engine) {}

  runtime::engine& engine_;
  std::shared_ptr<tessera::context> context_;
  std::shared_ptr<tessera::mesh> mesh_;
  tessera::allocation_ptr memory_;
  std::vector<buffer<float>> parts_;
  std::shared_ptr<tessera::stream> stream_;
};

}  // namespace weir::models
