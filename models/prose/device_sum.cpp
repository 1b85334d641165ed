// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of the sum and their all-reduce.
#include "prose/device_sum.hpp"

#include <utility>

namespace weir::models {

/// Devices are those of one engine, with one part each.
result<std::unique_ptr<device_sum>> device_sum::create(runtime::engine& engine,
                                                       std::uint32_t devices,
                                                       std::int64_t count) {
  std::unique_ptr<device_sum> s(new device_sum(engine));
  const auto bytes = count * static_cast<std::int64_t>(sizeof(float));
  std::vector<runtime::tensor> parts;
  for (std::uint32_t d = 0; d < devices; ++d) {
    // The memory is released by the destructor, also if a later step fails.
    WEIR_TRY(const runtime::storage memory, engine.allocate(bytes, "gradients"));
    s->parts_.push_back({reinterpret_cast<float*>(memory.base), memory, 0, count});
    WEIR_TRY(parts.emplace_back(),
             runtime::tensor::over(memory, dtype::fp32, {&count, 1}));
  }
  // One sum over the parts of all devices.
  collective::collective_call call;
  call.count = static_cast<std::size_t>(count);
  call.level = 1;  // the tree over lanes goes on
  WEIR_TRY(s->sum_, collective::region_collective::create(engine, call, parts, parts));
  return s;
}

device_sum::~device_sum() {
  // The tasks of the sum point to the parts.
  sum_.reset();
  for (const buffer<float>& part : parts_) {
    static_cast<void>(engine_.release(part.store.id));
  }
}

/// The first call records the tasks, and later ones replay them.
result<void> device_sum::submit() {
  if (recorded_.valid()) {
    return engine_.replay(recorded_).map([](runtime::task_id) {});
  }
  // The collective submits the same tasks each time.
  WEIR_CHECK(engine_.begin_capture());
  auto submitted = sum_->submit();
  auto tasks = engine_.end_capture();
  // A recording that failed is made again by the next call.
  if (submitted && tasks) {
    recorded_ = std::move(*tasks);
  }
  return submitted;
}

}  // namespace weir::models
