// SPDX-License-Identifier: Apache-2.0
/// @file
/// The order in which the tasks of a pulse are submitted, and the recordings of pulses.
///
/// Two pulses of one shape submit the same tasks with the same accesses. The engine
/// therefore records the tasks of the first pulse with their dependences, and replays
/// them for the others, which saves looking up the accesses again. A replayed task gets
/// its pulse record as the argument of the replay, not from its kernel: see `pulse_of`.
#pragma once

#include <algorithm>

#include "prose/graph/graph.hpp"

namespace weir::models {

/// Pulses with more windows are not recorded: their tasks take longer than submitting
/// them.
inline constexpr std::size_t max_recorded_windows = 8;
/// Limit of the recordings. Chunks that do not end at window boundaries have many shapes.
inline constexpr std::size_t max_recordings = 64;

/// Returns the record of the pulse for which a task runs: the argument of a replay, or
/// the record with which the task was submitted.
///
/// Both have the same shape.
template <class R>
pulse_record& graph<R>::pulse_of(const runtime::task_context& context,
                                 pulse_record* submitted) {
  // The engine passes arguments as const void*; this one points to the record that
  // `submit_pulse` got, which is not const.
  auto* argument = static_cast<pulse_record*>(const_cast<void*>(context.argument));
  return argument != nullptr ? *argument : *submitted;
}

/// Everything that decides about tasks and accesses.
template <class R>
typename graph<R>::pulse_shape graph<R>::shape_of(const pulse_record& record,
                                                  pulse_part part) const {
  pulse_shape shape;
  // The numbers are small, so a character is enough.
  const auto add = [&](auto value) { shape.push_back(static_cast<char>(value)); };
  add(part);
  add(slot_);
  add(record.builds);
  for (std::uint32_t l = 0; record.builds && l < static_cast<std::uint32_t>(n_.levels);
       ++l) {
    const bool active = (record.active >> l & 1U) != 0;
    // An error buffer that is empty is no access.
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

/// Updates the counters as of the pulses submitted so far, which decide about the
/// accesses of later pulses. The tasks have their own counters, in the state.
///
/// Called after each pulse that learns.
template <class R>
void graph<R>::count_accumulated(const pulse_record& record) {
  for (std::uint32_t l = 0; l < static_cast<std::uint32_t>(n_.levels); ++l) {
    counters_.accumulated[l] =
        (record.active >> l & 1U) != 0 ? 0 : counters_.accumulated[l] + 1;
  }
}

/// Submits the tasks of a part of a pulse one by one.
///
/// Errors are noted by the functions that submit.
template <class R>
void graph<R>::submit_all(pulse_record& record, pulse_part part) {
  const int lanes = part == pulse_part::step ? 0 : n_.lanes;
  // The step has no lanes.
  for (int lane = 0; lane < lanes; ++lane) {
    forward(record, lane);
  }
  for (int lane = 0; record.builds && lane < lanes; ++lane) {
    backward(record, lane);
  }
  if (record.builds && part != pulse_part::step) {
    reduce(record);
  }
  if (record.builds && part != pulse_part::gradients) {
    measure();
    clip(record);
    step(record);
  }
}

/// Submits the tasks of a part of a pulse, and notes in the record which they are.
///
/// They are noted although memory is exhausted, because those that were submitted use the
/// record, which a later pulse gets when they have ended.
template <class R>
result<void> graph<R>::submit_tasks(pulse_record& record, pulse_part part) {
  failed_.reset();
  first_ = 0;
  // A task that was given up for lack of memory may have left some.
  accesses_.clear();
  const auto note_tasks = [&] {
    // The step follows the gradients, whose first task counts.
    record.first = part == pulse_part::step ? record.first : first_;
    record.last = last_;
  };
  try {
    submit_all(record, part);
  } catch (...) {
    note_tasks();
    throw;
  }
  note_tasks();
  if (failed_) {
    return *failed_;
  }
  return {};
}

/// Replays recorded tasks for this pulse. Their ids follow each other as in the
/// recording.
///
/// Ids of results are noted relative to the first one.
template <class R>
result<void> graph<R>::replay(pulse_record& record, pulse_part part,
                              const recording& known) {
  WEIR_TRY(const runtime::task_id first, runner_.replay(known.tasks, &record));
  record.first = part == pulse_part::step ? record.first : first;
  record.last = last_ = first + known.tasks.size() - 1;
  for (const runtime::task_id result : known.results) {
    record.results.push_back(first + result);
  }
  return {};
}

/// Submits a part of a pulse: by a replay if its shape is known, else one by one; the
/// first pulse of a shape is recorded.
///
/// A recording that fails is not kept.
template <class R>
result<void> graph<R>::submit(pulse_record& record, pulse_part part) {
  std::size_t windows = 0;
  for (const lane_record& lane : record.lanes) {
    windows += lane.windows.size();
  }
  const bool records = runner_.captures() && windows <= max_recorded_windows;
  const pulse_shape shape = records ? shape_of(record, part) : pulse_shape();
  // An empty shape is never stored.
  if (const auto known = recordings_.find(shape); known != recordings_.end()) {
    return replay(record, part, known->second);
  }
  // The table does not grow without a limit.
  if (!records || recordings_.size() >= max_recordings) {
    return submit_tasks(record, part);
  }
  const std::size_t results = record.results.size();
  WEIR_CHECK(runner_.begin_capture(&record));
  result<void> submitted;
  try {
    submitted = submit_tasks(record, part);
  } catch (...) {
    // The next pulse begins a recording of its own.
    static_cast<void>(runner_.end_capture());
    throw;
  }
  auto tasks = runner_.end_capture();
  if (submitted && tasks) {
    recording& r = recordings_[shape];
    r.tasks = std::move(*tasks);
    for (std::size_t i = results; i < record.results.size(); ++i) {
      r.results.push_back(record.results[i] - first_);
    }
  }
  return submitted;
}

/// Chooses the set of window buffers in which a pulse works. Pulses without backward work
/// alternate between two sets, so that one may begin while the other still runs. A Build
/// pulse has to wait for the steps of the pulse before it anyway, so it uses the first
/// set, which is still in the caches.
///
/// Recordings name their set.
template <class R>
void graph<R>::choose_slot(const pulse_record& record) {
  slot_ = record.builds ? 0 : (slot_ + 1) % windows_.size();
}

/// The whole pulse on one device.
template <class R>
result<void> graph<R>::submit_pulse(pulse_record& record) {
  choose_slot(record);
  auto submitted = submit(record, pulse_part::whole);
  if (record.builds) {
    count_accumulated(record);
  }
  return submitted;
}

/// The first part of a pulse whose lanes are on several devices.
template <class R>
result<void> graph<R>::submit_gradients(pulse_record& record) {
  choose_slot(record);
  const bool none = std::all_of(record.lanes.begin(), record.lanes.end(),
                                [](const lane_record& l) { return l.windows.empty(); });
  if (none && !record.builds) {
    record.first = record.last = 0;
    return {};
  }
  return submit(record, pulse_part::gradients);
}

/// The second part, behind the sum over the devices.
template <class R>
result<void> graph<R>::submit_step(pulse_record& record) {
  auto submitted = submit(record, pulse_part::step);
  count_accumulated(record);
  return submitted;
}

}  // namespace weir::models
