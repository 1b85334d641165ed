// SPDX-License-Identifier: Apache-2.0
/// @file
/// The record of a pulse in flight: the rows and targets that its tasks read, and the
/// results that they write.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "prose/kernels/table.hpp"
#include "prose/state.hpp"
#include "weir/models/prose.hpp"

namespace weir::models {

/// Rows of one half of a window; the head works by halves.
inline constexpr int half_rows = window_rows / 2;

/// The prediction of one row.
struct row_prediction {
  std::uint32_t likeliest = 0;  ///< id of the largest logit; the lowest one among equals
  float nats = 0;  ///< negative log-likelihood of the target; 0 if there is none
};
/// One window of one lane in a pulse. Everything but the sums of nats and the predictions
/// is set before the tasks of the pulse are submitted and does not change while they run.
struct window_record {
  int first = 0;                      ///< first row that this pulse computes
  int last = 0;                       ///< row behind the last one that it computes
  std::uint64_t index = 0;            ///< number of the window in its lane: position / 64
  bool ends_chunk = false;            ///< whether it is the last window of the chunk
  std::int32_t ids[window_rows];      ///< token of each row; -1 outside [first, last)
  std::int32_t targets[window_rows];  ///< token after each row; -1 if none is scored
  std::uint64_t nats_q32[2] = {0, 0};  ///< result of each half, in units of 2^-32 nat
  double nats[2] = {0, 0};             ///< the same sums in nats, not rounded
  /// By row, [64]: results, of which those of the rows in [first, last) are set. Empty
  /// unless the pulse keeps its predictions.
  std::vector<row_prediction> predictions;
};
/// One lane in a pulse.
struct lane_record {
  std::vector<window_record> windows;  ///< empty if the lane has no tokens
  lane_clock after;                    ///< clock of the lane after the pulse
  /// The prediction that an earlier pulse left pending is scored by the first token.
  bool scores_pending = false;
  /// The last row has no known next token; its logits are kept as pending prediction.
  bool leaves_pending = false;
  std::int32_t first_token = 0;        ///< scores the pending prediction
  std::uint64_t pending_nats_q32 = 0;  ///< result of that score
  float pending_nats = 0;              ///< the same score in nats
};
/// A pulse in flight on one device.
struct pulse_record {
  bool builds = false;              ///< whether it learns
  bool keeps_predictions = false;   ///< `pulse::keeps_predictions`
  std::uint32_t active = 0;         ///< bit l: level l steps
  std::uint64_t scored = 0;         ///< number of rows with a target, in all lanes
  std::uint64_t update = 0;         ///< `pulse::update`
  std::uint64_t total_updates = 0;  ///< `pulse::total_updates`
  double gradient_norm = 0;         ///< result: norm of the gradient before clipping
  std::vector<lane_record> lanes;
  std::vector<runtime::task_id> results;  ///< tasks that write results
  runtime::task_id last = 0;              ///< last task of the pulse
  runtime::task_id first = 0;             ///< first task of the pulse
};

/// Fills a record from the pulse and its inputs. `clocks` are the clocks of the lanes
/// before the pulse.
void fill_record(pulse_record& record, const pulse& p,
                 std::span<const prose::lane_input> lanes,
                 std::span<const lane_clock> clocks);

/// Returns the predictions of a lane, whose tasks have ended.
[[nodiscard]] lane_predictions predictions_of(const lane_record& lane);

}  // namespace weir::models
