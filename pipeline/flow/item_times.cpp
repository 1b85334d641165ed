// SPDX-License-Identifier: Apache-2.0
/// @file
/// Samples of latencies, and records of items for traces.
///
/// A latency is the time from the source of an item to the checkpoint that makes its
/// output durable. It is known only at the checkpoint, so the times at which items left
/// their source are kept until then, in a sample of bounded size.
///
/// `open_`: written since the last barrier; `settled_`: written before a barrier whose
/// checkpoint is not durable yet.
#include "flow/item_times.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace weir::flow {
namespace {

/// Samples of a barrier at most.
constexpr std::size_t max_samples = 4096;

}  // namespace

/// Class k counts latencies from 2^k to below 2^(k+1) nanoseconds; the last one counts
/// all above. Returns the upper end of the class.
std::uint64_t latency_counts::quantile_ns(double share) const noexcept {
  std::uint64_t all = 0;
  for (const std::uint64_t count : items) {
    all += count;
  }
  // The smallest number of items that are a share of all.
  const double wanted = share * static_cast<double>(all);
  std::uint64_t seen = 0;
  for (std::size_t k = 0; k < items.size(); ++k) {
    seen += items[k];
    // Above the last class there is only the largest latency.
    if (items[k] != 0 && static_cast<double>(seen) >= wanted) {
      return k + 1 < items.size() ? std::min(largest_ns, std::uint64_t{2} << k)
                                  : largest_ns;
    }
  }
  return 0;
}

/// Keeps every second sample, each of which then stands for twice as many items.
/// Samples stay evenly spread over the items.
void sink_latency::thin_out(sample& s) {
  // Sample i of the thinner list is sample 2i.
  for (std::size_t i = 0; 2 * i < s.times.size(); ++i) {
    s.times[i] = s.times[2 * i];
  }
  s.times.resize((s.times.size() + 1) / 2);
  s.stride *= 2;
}

/// Called for every `stride`-th item that a sink has written.
void sink_latency::take_sample(std::int64_t left_source_ns) {
  open_.times.reserve(max_samples);
  if (open_.times.size() == max_samples) {
    thin_out(open_);
  }
  open_.times.push_back(left_source_ns);
  open_.left_out = open_.stride - 1;
}

/// Samples whose checkpoint could not be written stay in front of the new ones.
// Both samples must have the same stride before they are joined.
void sink_latency::settled() {
  // The denser list is thinned out until both have one stride.
  while (!settled_.times.empty() && settled_.stride < open_.stride) {
    thin_out(settled_);
  }
  while (settled_.stride > open_.stride) {
    thin_out(open_);
  }
  settled_.stride = open_.stride;
  settled_.times.insert(settled_.times.end(), open_.times.begin(), open_.times.end());
  while (settled_.times.size() > max_samples) {
    thin_out(settled_);
  }
  open_.times.clear();
  open_.stride = 1;
  open_.left_out = 0;
}

/// Called when a checkpoint is durable.
void sink_latency::durable(std::int64_t now_ns) {
  for (const std::int64_t time : settled_.times) {
    // A latency of 0 would belong to no class.
    const auto latency =
        static_cast<std::uint64_t>(std::max<std::int64_t>(now_ns - time, 1));
    counts_.add(latency, settled_.stride);
  }
  settled_ = {};
}

/// Keeps the first items of a run and the newest ones, in a ring.
void item_recorder::record(std::uint32_t stage, std::uint64_t seq, std::int64_t start_ns,
                           std::int64_t end_ns) {
  const stretch one{stage, seq, start_ns, end_ns};
  // The first items show how a run begins.
  if (first_.size() < max_items_) {
    first_.push_back(one);
  } else if (newest_.size() < max_items_) {
    newest_.push_back(one);
  } else if (max_items_ != 0) {
    newest_[oldest_] = one;
    oldest_ = (oldest_ + 1) % max_items_;
  }
}

/// Stretches of one line must not overlap, so that a stage which works on several items
/// at a time has several lines.
/// Each stretch gets the first line that is free at its start.
void item_recorder::add_to(runtime::trace& to, const std::vector<std::string>& names,
                           const std::vector<std::uint32_t>& numberings) const {
  std::vector<stretch> all = first_;
  all.insert(all.end(), newest_.begin(), newest_.end());
  // By stage and then by time.
  std::stable_sort(all.begin(), all.end(), [](const stretch& a, const stretch& b) {
    return a.stage != b.stage ? a.stage < b.stage : a.start_ns < b.start_ns;
  });
  std::vector<std::int64_t> ends;  // of the lines of the stage so far
  for (std::size_t i = 0; i < all.size(); ++i) {
    const stretch& one = all[i];
    if (i == 0 || all[i - 1].stage != one.stage) {
      ends.clear();
    }
    // Lines of a stage are tried from the first on.
    std::size_t line = 0;
    while (line < ends.size() && ends[line] > one.start_ns) {
      ++line;
    }
    ends.resize(std::max(ends.size(), line + 1));
    ends[line] = one.end_ns;
    // An arrow joins the stages that see the same item, which have one numbering.
    // Bits from 48 on tell numberings apart.
    const std::uint64_t arrow =
        (std::uint64_t{numberings[one.stage]} << 48U) + one.seq + 1;
    to.span(line == 0 ? fmt::format("stage {}", names[one.stage])
                      : fmt::format("stage {} ({})", names[one.stage], line + 1),
            fmt::format("item {}", one.seq), one.start_ns, one.end_ns, arrow);
  }
}

}  // namespace weir::flow
