// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sum of the gradients of all devices: an all-reduce in a stream on the model's
/// engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "prose/buffers.hpp"
#include "weir/tessera/stream/collective.hpp"

namespace weir::models {

/// A mesh of devices, one summand in the memory of each device, and the stream that adds
/// the summands. The operations of the stream are tasks of the model's engine.
///
/// A stream orders its operations by a token per device chain, while the model's tasks
/// are ordered by the regions that they access. Two kinds of tasks connect the two
/// orders. In front of the all-reduce, one task per device waits for the device's summand
/// and takes the token. Behind the all-reduce, one task takes all tokens and declares
/// that it writes all summands, although it does not touch them. A task that reads a sum
/// therefore waits for the all-reduce, and fails if a summand or the all-reduce has
/// failed.
/// @threads{thread-compatible: belongs to the engine's submitter}
class device_sum {
 public:
  /// Makes a sum of `count` elements for each of `devices` devices; all are zero.
  /// @error{out_of_memory}
  [[nodiscard]] static result<std::unique_ptr<device_sum>> create(runtime::engine& engine,
                                                                  std::uint32_t devices,
                                                                  std::int64_t count);
  /// Frees the summands. All tasks that use them must have ended.
  ~device_sum();
  device_sum(const device_sum&) = delete;
  device_sum& operator=(const device_sum&) = delete;

  /// Returns the memory of a device: it holds the device's summand before the all-reduce
  /// and the sum after it.
  [[nodiscard]] const buffer<float>& part(std::size_t device) const {
    return parts_[device];
  }
  /// Submits an all-reduce at determinism level 1. The summand of device d is complete
  /// when task `ready[d]` has ended. Returns the errors of the engine and of the stream.
  [[nodiscard]] result<void> submit(std::span<const runtime::task_id> ready);

 private:
  explicit device_sum(runtime::engine& engine) : engine_(engine) {}

  runtime::engine& engine_;
  std::shared_ptr<tessera::context> context_;
  std::shared_ptr<tessera::mesh> mesh_;
  tessera::allocation_ptr memory_;
  std::vector<buffer<float>> parts_;  ///< by device; memory of `memory_`
  std::shared_ptr<tessera::stream> stream_;
};

}  // namespace weir::models
