// SPDX-License-Identifier: Apache-2.0
/// @file
/// Collects the spans of a trace for drawing.
///
/// A trace may have millions of events. Names are kept once and spans refer to them by
/// number.
#include "trace_data.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "trace_events.hpp"

namespace weir::tools {

namespace {

/// Keeps of each event only what the drawings need, so that a large trace needs little
/// memory.
class trace_builder {
 public:
  // Takes the events that drawings need: spans with a duration ("X") and the names of
  // threads ("M"). All others are passed over, also spans with times that no clock gives.
  void add(const trace_event& event) {
    if (event.phase == "X" && is_time(event.start) && is_time(event.duration) &&
        event.duration >= 0) {
      const auto [name, added] =
          names_.emplace(event.name, static_cast<std::uint32_t>(names_.size()));
      // The thread gets an entry without a name, which a later event may fill in.
      threads_.emplace(event.thread, std::string());
      // The lane is set at the end, when all threads are known.
      spans_.push_back(
          {name->second, 0, event.category != "span", event.start, event.duration});
      span_threads_.push_back(event.thread);
    } else if (event.phase == "M" && event.name == "thread_name") {
      // The name may come before or behind the spans of its thread.
      threads_[event.thread] = event.argument_name;
    }
  }
  /// Returns the data. Lanes are the threads with spans, by their numbers, and times are
  /// counted from the first span.
  [[nodiscard]] trace_data finish() &&;

 private:
  /// Returns whether a number of microseconds is a time of a clock, at most 285 years.
  /// The drawings compute with sums and quotients of such times.
  static bool is_time(double us) { return us >= -0x1p53 && us <= 0x1p53; }

  std::map<std::string, std::uint32_t> names_;  ///< number of each name
  std::map<double, std::string> threads_;  ///< name of each thread, which may be empty
  std::vector<trace_span> spans_;          ///< in the order of the file
  std::vector<double> span_threads_;       ///< thread of each span
};

trace_data trace_builder::finish() && {
  trace_data out;
  out.names.resize(names_.size());
  // The map is sorted by names, the vector by their numbers.
  for (const auto& [name, index] : names_) {
    out.names[index] = name;
  }
  // A thread that has a name but no spans gets no lane.
  std::map<double, bool> used;
  for (const double thread : span_threads_) {
    used[thread] = true;
  }
  // Threads are numbered anew, without gaps, in the order of their numbers.
  std::map<double, std::uint32_t> lanes;
  for (const auto& [thread, name] : threads_) {
    if (used.count(thread) != 0) {
      lanes[thread] = static_cast<std::uint32_t>(out.lanes.size());
      out.lanes.push_back(name.empty()
                              // A thread without a name shows its number.
                              ? fmt::format("thread {}", thread)
                              : name);
    }
  }
  // The first span in the file need not be the earliest.
  double first = spans_.empty() ? 0 : spans_.front().start;
  for (const trace_span& s : spans_) {
    first = std::min(first, s.start);
  }
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    spans_[i].lane = lanes[span_threads_[i]];
    spans_[i].start -= first;
    // The longest end decides, since spans may overlap.
    out.length = std::max(out.length, spans_[i].start + spans_[i].length);
  }
  // Drawings go through the spans from left to right.
  std::stable_sort(
      spans_.begin(), spans_.end(),
      [](const trace_span& a, const trace_span& b) { return a.start < b.start; });
  out.spans = std::move(spans_);
  return out;
}

}  // namespace

result<trace_data> read_trace(const std::string& path) {
  trace_builder builder;
  WEIR_CHECK(read_trace_events(path, [&](const trace_event& e) { builder.add(e); }));
  return std::move(builder).finish();
}

/// Returns the time of each kernel, the largest first, and by name if times are equal, so
/// that the page of a run does not depend on the order of events.
std::vector<kernel_share> kernel_shares(const trace_data& trace) {
  // One entry for each name, also for names of other spans, which are removed below.
  std::vector<kernel_share> by_name(trace.names.size());
  for (const trace_span& s : trace.spans) {
    by_name[s.name].name = s.name;
    by_name[s.name].count += s.task ? 1 : 0;
    by_name[s.name].total += s.task ? s.length : 0;
  }
  std::vector<kernel_share> out;
  // Only kernels: a name that no task has is none.
  std::copy_if(by_name.begin(), by_name.end(), std::back_inserter(out),
               [](const kernel_share& k) { return k.count > 0; });
  std::stable_sort(
      out.begin(), out.end(), [&](const kernel_share& a, const kernel_share& b) {
        return a.total != b.total ? a.total > b.total
                                  : trace.names[a.name] < trace.names[b.name];
      });
  return out;
}

}  // namespace weir::tools
