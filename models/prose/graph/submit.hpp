// SPDX-License-Identifier: Apache-2.0
/// @file
/// The order in which a pulse's tasks are submitted. Pulses of one shape submit the same
/// tasks with the same accesses, so the engine records the first and replays the others.
#pragma once

#include "prose/graph/graph.hpp"

namespace weir::models {

/// Larger pulses have tasks enough to hide the look-ups.
inline constexpr std::size_t most_windows_recorded = 8;
/// Chunks that do not divide into windows have many shapes.
inline constexpr std::size_t most_recordings = 64;

template <class R>
pulse_record& graph<R>::pulse_of(const runtime::task_context& context,
                                 pulse_record* submitted) {
  // The argument is what `submit_pulse` got, which is not constant.
  auto* argument = static_cast<pulse_record*>(const_cast<void*>(context.argument));
  return argument != nullptr ? *argument : *submitted;
}

template <class R>
typename graph<R>::pulse_shape graph<R>::shape_of(const pulse_record& record) const {
  pulse_shape shape;
  const auto add = [&](auto value) { shape.push_back(static_cast<char>(value)); };
  add(slot_);
  add(record.builds);
  for (std::uint32_t l = 0; record.builds && l < static_cast<std::uint32_t>(n_.levels);
       ++l) {
    const bool active = (record.active >> l & 1U) != 0;
    add((active ? 1 : 0) + (active && counters_.accumulated[l] > 0 ? 2 : 0));
  }
  for (const lane_record& lane : record.lanes) {
    add((lane.scores_pending ? 1 : 0) + (lane.leaves_pending ? 2 : 0));
    add(lane.windows.size());
    for (const window_record& w : lane.windows) {
      add(w.first);
      add(w.last);
    }
  }
  return shape;
}

template <class R>
void graph<R>::count_accumulated(const pulse_record& record) {
  for (std::uint32_t l = 0; l < static_cast<std::uint32_t>(n_.levels); ++l) {
    counters_.accumulated[l] =
        (record.active >> l & 1U) != 0 ? 0 : counters_.accumulated[l] + 1;
  }
}

template <class R>
result<void> graph<R>::submit_tasks(pulse_record& record) {
  failed_.reset();
  first_ = 0;
  for (int lane = 0; lane < n_.lanes; ++lane) {
    forward(record, lane);
  }
  if (record.builds) {
    for (int lane = 0; lane < n_.lanes; ++lane) {
      backward(record, lane);
    }
    reduce(record);
    clip(record);
    step(record);
  }
  record.first = first_;
  record.last = last_;
  if (failed_) {
    return *failed_;
  }
  return {};
}

template <class R>
result<void> graph<R>::replay(pulse_record& record, const recording& known) {
  WEIR_TRY(record.first, place_.replay(known.tasks, &record));
  record.last = last_ = record.first + known.tasks.size() - 1;
  for (const runtime::task_id result : known.results) {
    record.results.push_back(record.first + result);
  }
  return {};
}

template <class R>
result<void> graph<R>::submit_pulse(pulse_record& record) {
  slot_ = (slot_ + 1) % windows_.size();
  std::size_t windows = 0;
  for (const lane_record& lane : record.lanes) {
    windows += lane.windows.size();
  }
  const bool records = place_.captures() && windows <= most_windows_recorded;
  const pulse_shape shape = records ? shape_of(record) : pulse_shape();
  result<void> submitted;
  if (const auto known = recordings_.find(shape); known != recordings_.end()) {
    submitted = replay(record, known->second);
  } else if (records && recordings_.size() < most_recordings) {
    WEIR_CHECK(place_.begin_capture(&record));
    submitted = submit_tasks(record);
    auto tasks = place_.end_capture();
    if (submitted && tasks) {
      recording& r = recordings_[shape];
      r.tasks = std::move(*tasks);
      for (const runtime::task_id id : record.results) {
        r.results.push_back(id - record.first);
      }
    }
  } else {
    submitted = submit_tasks(record);
  }
  if (record.builds) {
    count_accumulated(record);
  }
  return submitted;
}

}  // namespace weir::models
