// SPDX-License-Identifier: Apache-2.0
/// @file
/// Filling the record of a pulse: the tokens of each lane are cut into windows.
#include "prose/record.hpp"

#include <algorithm>
#include <limits>

namespace weir::models {

namespace {

/// Cuts a lane's tokens into windows that are aligned to its position: the first and the
/// last window may have fewer than 64 rows. A row's target is the next token.
void plan_windows(const prose::lane_input& in, bool keeps_predictions,
                  lane_record& lane) {
  const std::uint64_t end = in.position + in.tokens.size();
  std::uint64_t position = in.position;
  lane.windows.clear();
  while (position < end) {
    window_record w;
    // Aligned to the whole context, not to the chunk.
    w.index = position / window_rows;
    const std::uint64_t start = w.index * window_rows;
    w.first = static_cast<int>(position - start);
    w.last = static_cast<int>(std::min<std::uint64_t>(window_rows, end - start));
    w.ends_chunk = start + static_cast<std::uint64_t>(w.last) == end;
    for (int r = 0; r < window_rows; ++r) {
      // Rows outside the chunk have neither token nor target.
      w.ids[r] = w.targets[r] = -1;
      if (r < w.first || r >= w.last) {
        continue;
      }
      const std::uint64_t i = start + static_cast<std::uint64_t>(r) - in.position;
      w.ids[r] = static_cast<std::int32_t>(in.tokens[i]);
      // The last token of the chunk only has a target if the caller knows it.
      if (i + 1 < in.tokens.size()) {
        w.targets[r] = static_cast<std::int32_t>(in.tokens[i + 1]);
      } else if (in.lookahead) {
        w.targets[r] = static_cast<std::int32_t>(*in.lookahead);
      }
    }
    position = start + static_cast<std::uint64_t>(w.last);
    // Reserved only if the caller asks for it.
    w.predictions.resize(keeps_predictions ? window_rows : 0);
    lane.windows.push_back(std::move(w));
  }
}

}  // namespace

/// Everything in the record is written anew, so records can be used again.
void fill_record(pulse_record& record, const pulse& p,
                 std::span<const prose::lane_input> lanes,
                 std::span<const lane_clock> clocks) {
  record.builds = p.phase == pulse_phase::build;
  record.keeps_predictions = p.keeps_predictions;
  record.active = p.active_levels;
  record.update = p.update;
  record.total_updates = p.total_updates;
  // A task computes the norm; the scored rows are counted below.
  record.gradient_norm = 0;
  record.scored = 0;
  record.results.clear();
  // The vectors keep their memory.
  record.lanes.resize(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const prose::lane_input& in = lanes[i];
    lane_record& lane = record.lanes[i];
    plan_windows(in, p.keeps_predictions, lane);
    lane.after = clocks[i];
    lane.pending_nats_q32 = 0;
    lane.pending_nats = 0;
    lane.scores_pending = lane.leaves_pending = false;
    // A lane without tokens keeps its clock.
    if (in.tokens.empty()) {
      continue;
    }
    // The first token of this chunk is the target of the waiting row.
    lane.scores_pending = clocks[i].pending != 0;
    lane.leaves_pending = !in.lookahead;
    lane.first_token = static_cast<std::int32_t>(in.tokens[0]);
    lane.after.position += in.tokens.size();
    lane.after.pending = lane.leaves_pending ? 1 : 0;
    // The waiting row of the last chunk is counted when it has been scored.
    record.scored += in.tokens.size() - (lane.leaves_pending ? 1 : 0);
  }
}

/// The rows of all windows, in order.
lane_predictions predictions_of(const lane_record& lane) {
  lane_predictions out;
  for (const window_record& w : lane.windows) {
    for (int r = w.first; r < w.last; ++r) {
      const row_prediction& row = w.predictions[static_cast<std::size_t>(r)];
      out.likeliest.push_back(row.likeliest);
      // A row without a target has no loss yet.
      out.nats.push_back(w.targets[r] >= 0 ? row.nats
                                           : std::numeric_limits<float>::quiet_NaN());
    }
  }
  if (lane.scores_pending) {
    out.pending_nats = lane.pending_nats;
  }
  return out;
}

}  // namespace weir::models
