// SPDX-License-Identifier: Apache-2.0
/// @file
/// Mesh, memory and stream of the sum, and the tasks that connect the stream with the
/// model's tasks.
#include "prose/device_sum.hpp"

#include <cstring>
#include <numeric>

namespace weir::models {

result<std::unique_ptr<device_sum>> device_sum::create(runtime::engine& engine,
                                                       std::uint32_t devices,
                                                       std::int64_t count) {
  std::unique_ptr<device_sum> s(new device_sum(engine));
  tessera::runtime_settings settings;
  settings.devices = static_cast<std::int32_t>(devices);
  // Level 1 adds along a tree over the ranks. That tree continues the tree by which each
  // device adds its lanes, so the sum has the bits that one device would compute.
  settings.policy.stable_reductions = false;
  WEIR_TRY(s->context_, tessera::context::over(engine, std::move(settings)));
  std::vector<std::int32_t> ids(devices);
  std::iota(ids.begin(), ids.end(), 0);
  collective::mesh_axes axes;
  axes.dp = static_cast<int>(devices);
  WEIR_TRY(s->mesh_, s->context_->make_mesh(ids, axes));
  const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
  WEIR_TRY(s->memory_, s->context_->memory().allocate(ids, bytes, s->mesh_->number));
  for (std::byte* const data : s->memory_->instances()) {
    std::memset(data, 0, bytes);
    s->parts_.push_back(
        {reinterpret_cast<float*>(data),
         engine.adopt(data, static_cast<std::int64_t>(bytes), "gradients"), 0, count});
  }
  WEIR_TRY(s->stream_, tessera::stream::make(s->mesh_, {}));
  return s;
}

device_sum::~device_sum() {
  for (const buffer<float>& part : parts_) {
    static_cast<void>(engine_.release(part.store.id));
  }
}

result<void> device_sum::submit(std::span<const runtime::task_id> ready) {
  using runtime::access;
  using runtime::access_mode;
  tessera::collective_request sum;
  sum.call.count = static_cast<std::size_t>(parts_.front().count);
  sum.input = sum.output = memory_->data();
  WEIR_TRY(auto all_reduce, tessera::make_collective(*stream_, sum));

  auto lock = context_->port().enter();
  tessera::lane_set& lanes = stream_->chain();
  for (unsigned d = 0; d < parts_.size(); ++d) {
    // `after` orders the task behind the summand without inheriting its failure. If the
    // failure entered the stream, the stream would stay failed for all later pulses. The
    // sum of a failed summand is computed, but no task reads it: see below.
    runtime::submit_options behind;
    behind.after = {&ready[d], 1};
    const access token{lanes.of(d).token, access_mode::read_write};
    WEIR_CHECK(engine_.submit(
        "part of sum", {&token, 1}, [](const runtime::task_context&) {}, behind));
  }
  stream_->enqueue(lock, std::move(all_reduce));
  // One task for all devices updates all summands: if one summand has failed, this task
  // fails and with it whatever reads the sum on any device, since the failed summand is
  // missing in the sums of all devices.
  std::vector<access> held;
  for (unsigned d = 0; d < parts_.size(); ++d) {
    held.push_back({lanes.of(d).token, access_mode::read});
    held.push_back({parts_[d].all(), access_mode::read_write});
  }
  // A collective that fails marks all lanes as failed, so looking at the first is enough.
  const tessera::lane* first = &lanes.of(0);
  WEIR_CHECK(
      engine_.submit("sum", held, [first](const runtime::task_context&) -> result<void> {
        return first->poison ? result<void>(error(*first->poison.what)) : result<void>();
      }));
  return {};
}

}  // namespace weir::models
