// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rates over a few seconds, stalls, and problems of stages.
#include "progress/progress_state.hpp"

#include <fmt/format.h>

namespace weir::actors {

/// Keeps at least two samples, so that a slow run has a rate, too.
pipeline_progress progress_state::take(const host_sample& s) {
  recent_.emplace_back(s.time_ns, s.items);
  while (recent_.size() > 2 && s.time_ns - recent_.front().first > rate_window_ns) {
    recent_.pop_front();
  }
  pipeline_progress p;
  p.items = s.items;
  const auto [begin, items] = recent_.front();
  if (s.time_ns > begin) {
    p.items_per_second = static_cast<double>(s.items - items) * 1e9 /
                         static_cast<double>(s.time_ns - begin);
  }
  p.epochs = s.epochs;
  p.durable_items = s.durable_items;
  p.generation = s.generation;
  p.bottleneck = s.bottleneck;
  p.stages = s.stages;
  p.counters = s.counters;
  if (s.idle_ns > stall_ns_ && !reported_) {
    stalled_ = s.waiting;
  }
  last_ = p;
  return p;
}

std::optional<error> progress_state::stall() {
  if (!stalled_) {
    return std::nullopt;
  }
  reported_ = true;
  const std::string reasons = *std::exchange(stalled_, std::nullopt);
  return error(errc::timeout, "the pipeline makes no progress: " + reasons);
}

std::vector<std::string> progress_state::new_problems(const std::vector<figures>& now) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < now.size(); ++i) {
    for (const std::string& text : now[i].problems()) {
      if (problems_.emplace(i, text).second) {
        lines.push_back(fmt::format("stage \"{}\": {}", stages_[i], text));
      }
    }
  }
  return lines;
}

std::string progress_state::line() const {
  if (recent_.empty()) {
    return "nothing was sampled yet";
  }
  return fmt::format("{} items, {:.0f} items/s, {} checkpoints, durable before item {}{}",
                     last_.items, last_.items_per_second, last_.epochs,
                     last_.durable_items,
                     last_.bottleneck.empty() ? "" : ", limited by " + last_.bottleneck);
}

}  // namespace weir::actors
