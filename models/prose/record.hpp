// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a pulse is to its tasks: rows, targets and results, fixed before the first task
/// is submitted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "prose/kernels/table.hpp"
#include "prose/state.hpp"
#include "weir/models/prose.hpp"

namespace weir::models {

inline constexpr int half_rows = window_rows / 2;

/// A pulse's part in one window of one lane: fixed before its tasks are submitted.
struct window_record {
  int first = 0;  ///< rows [first, last) are new
  int last = 0;
  std::uint64_t index = 0;             ///< window number of the lane: position / 64
  bool ends_chunk = false;             ///< the chunk's last window
  std::int32_t ids[window_rows];       ///< tokens, -1 outside the rows
  std::int32_t targets[window_rows];   ///< next tokens, -1 where none is scored
  std::uint64_t nats_q32[2] = {0, 0};  ///< written by the head's halves
  double nats[2] = {0, 0};             ///< the same sums, not rounded
};
struct lane_record {
  std::vector<window_record> windows;
  lane_clock after;
  bool scores_pending = false;
  bool leaves_pending = false;
  std::int32_t first_token = 0;
  std::uint64_t pending_nats_q32 = 0;
};
/// A pulse in flight.
struct pulse_record {
  bool builds = false;
  std::uint32_t active = 0;
  std::uint64_t scored = 0;  ///< rows with a target, all lanes
  std::uint64_t update = 0;
  std::uint64_t total_updates = 0;
  double gradient_norm = 0;
  std::vector<lane_record> lanes;
  std::vector<runtime::task_id> results;  ///< tasks that `finish` waits for
  runtime::task_id last = 0;              ///< last task of the pulse
  runtime::task_id first = 0;
};

/// Fills a record from the pulse and its inputs; `clocks` are the lanes' before it.
void fill_record(pulse_record& record, const pulse& p,
                 std::span<const prose::lane_input> lanes,
                 std::span<const lane_clock> clocks);

}  // namespace weir::models
