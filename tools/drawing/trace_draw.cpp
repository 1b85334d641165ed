// SPDX-License-Identifier: Apache-2.0
/// @file
/// Drawings of a trace: load of the threads, tasks of a few pulses, table of kernels.
///
/// Times in a trace are microseconds. All drawings have threads as rows and time from
/// left to right.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "charts.hpp"
#include "trace_data.hpp"
#include "weir/base/text.hpp"

namespace weir::tools {

namespace {

// Ends of the time axis.
constexpr double left = 160;
constexpr double right = 930;
// Number of kernels that have a colour of their own; the others share one.
constexpr std::size_t colours = 8;

/// Returns the upper edge of a row.
double lane_top(std::size_t lane, double height) {
  return 6 + static_cast<double>(lane) * (height + 10);
}

// Returns the number of each name's colour: 0 for the kernel with the most time, ..., 8
// for all kernels from the ninth on.
std::vector<std::size_t> colour_of_names(const trace_data& trace) {
  // Names without a task keep the last colour.
  std::vector<std::size_t> out(trace.names.size(), colours);
  const auto shares = kernel_shares(trace);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    out[shares[i].name] = std::min(i, colours);
  }
  return out;
}

/// Draws the axis below the rows, with ticks in a unit such as seconds.
/// @param unit  Microseconds in one unit.
void draw_time_axis(svg& s, double from, double to, double y, double unit,
                    const char* name) {
  // The bound avoids a division by zero for an empty stretch.
  const double scale = (right - left) / std::max(to - from, 1e-9);
  s.line(left, y, right, y, css("axis"));
  for (const double t : axis_ticks(0, (to - from) / unit, 8)) {
    const double x = left + t * unit * scale;
    s.line(x, y, x, y + 5, css("axis"));
    draw_text(s, x, y + 19, "tick", "middle", fmt::format("{:g} {}", t, name));
  }
}

// Divides a stretch of time among the bins of equal width that it covers.
void add_to_bins(std::vector<double>& bins, double width, double start, double end) {
  // The first bin that the stretch touches. Most stretches end in it.
  auto bin = static_cast<std::size_t>(start / width);
  for (double time = start; bin < bins.size() && time < end; ++bin) {
    // The part of the stretch that lies in this bin.
    const double edge = std::min(end, static_cast<double>(bin + 1) * width);
    bins[bin] += std::max(0.0, edge - time);
    time = std::max(time, edge);
  }
}

// Returns for each bin the microseconds in which tasks were recorded. A run may record
// single pulses only: a pause between tasks of 20 ms or more counts as not recorded, a
// shorter one as time in which the workers were idle.
std::vector<double> recorded_time(const trace_data& trace, std::size_t bins) {
  // In microseconds, like all times.
  constexpr double pause = 20'000;
  std::vector<double> out(bins, 0.0);
  double begin = 0;
  // Negative while no stretch has begun.
  double end = -1;
  for (const trace_span& s : trace.spans) {
    if (!s.task) {
      continue;
    }
    // The task begins a new stretch, so the last one is complete.
    if (end < 0 || s.start > end + pause) {
      add_to_bins(out, trace.length / static_cast<double>(bins), begin, end);
      begin = s.start;
    }
    // Tasks of several threads overlap, and the latest end counts.
    end = std::max(end, s.start + s.length);
  }
  add_to_bins(out, trace.length / static_cast<double>(bins), begin, end);
  return out;
}

/// Returns for each lane the busy time of each bin.
std::vector<std::vector<double>> busy_time(const trace_data& trace, std::size_t bins) {
  std::vector<std::vector<double>> out(trace.lanes.size(),
                                       std::vector<double>(bins, 0.0));
  for (const trace_span& s : trace.spans) {
    if (s.task) {
      add_to_bins(out[s.lane], trace.length / static_cast<double>(bins), s.start,
                  s.start + s.length);
    }
  }
  return out;
}

// Draws the spans that are not tasks, such as checkpoints.
void draw_spans(svg& s, const trace_data& trace, double height) {
  const double scale = (right - left) / trace.length;
  for (const trace_span& span : trace.spans) {
    if (!span.task) {
      s.rect(left + span.start * scale, lane_top(span.lane, height),
             // Very short spans get a width that can be seen.
             std::max(1.0, span.length * scale), height, css("busy"),
             fmt::format("{} {:.1f} ms", trace.names[span.name], span.length / 1000));
    }
  }
}

}  // namespace

/// Draws the busy share of each thread over the run. A bin in which nothing was recorded
/// stays empty, since a thread that was not traced is not idle.
std::string draw_load(const trace_data& trace) {
  constexpr std::size_t bins = 300;
  constexpr double height = 34;
  const double bottom = lane_top(trace.lanes.size(), height);
  svg s = begin_figure(960, bottom + 26, "Load of the threads over the run");
  // Without any time there is only the empty figure.
  if (trace.length <= 0) {
    return std::move(s).finish();
  }
  const auto recorded = recorded_time(trace, bins);
  const auto busy = busy_time(trace, bins);
  const double step = (right - left) / bins;
  for (std::size_t lane = 0; lane < trace.lanes.size(); ++lane) {
    const double top = lane_top(lane, height);
    draw_text(s, left - 8, top + height / 2 + 4, "label", "end", trace.lanes[lane]);
    for (std::size_t bin = 0; bin < bins; ++bin) {
      if (recorded[bin] > 0) {
        const double x = left + step * static_cast<double>(bin);
        // Tasks that were recorded twice or overlap could give more than the whole.
        const double part = std::min(1.0, busy[lane][bin] / recorded[bin]);
        s.rect(x, top, step, height, css("idle"));
        // The share grows from the bottom of the row.
        s.rect(x, top + height * (1 - part), step, height * part, css("busy"));
      }
    }
  }
  draw_spans(s, trace, height);
  draw_time_axis(s, 0, trace.length, bottom - 4, 1e6, "s");
  return std::move(s).finish();
}

/// Draws single tasks of a short stretch of the trace, one row per thread.
std::string draw_tasks(const trace_data& trace, double microseconds) {
  constexpr double height = 30;
  const std::size_t lanes = trace.lanes.size();
  const double bottom = lane_top(lanes, height);
  svg s = begin_figure(960, bottom + 26, "Tasks of a few pulses");
  // The stretch begins with the last quarter of the tasks: caches are warm there, and the
  // end of the run, where workers run out of tasks, is still far.
  const std::size_t first = trace.spans.size() - trace.spans.size() / 4;
  const double from = first < trace.spans.size() ? trace.spans[first].start : 0;
  // The stretch ends with the trace, but has one microsecond at least.
  const double to = std::min(from + microseconds, std::max(trace.length, from + 1));
  const double scale = (right - left) / (to - from);
  const auto colour = colour_of_names(trace);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    draw_text(s, left - 8, lane_top(lane, height) + height / 2 + 4, "label", "end",
              trace.lanes[lane]);
    s.rect(left, lane_top(lane, height), right - left, height, css("idle"));
  }
  // Spans are sorted, so the first one behind the stretch ends the loop.
  for (std::size_t i = first; i < trace.spans.size() && trace.spans[i].start < to; ++i) {
    const trace_span& t = trace.spans[i];
    // A task that goes beyond the stretch is cut.
    const double end = std::min(t.start + t.length, to);
    s.rect(left + (t.start - from) * scale, lane_top(t.lane, height),
           // Even the shortest task stays visible as a thin line.
           std::max(0.3, (end - t.start) * scale), height,
           css(fmt::format("k{}", colour[t.name])),
           fmt::format("{} {:.1f} us", trace.names[t.name], t.length));
  }
  draw_time_axis(s, from, to, bottom - 4, 1000, "ms");
  return std::move(s).finish();
}

/// Writes a table of the kernels with their share of all kernel time. Colours are those
/// of the drawing of tasks; kernels beyond the number of colours share one.
std::string kernel_table(const trace_data& trace) {
  double all = 0;
  const auto shares = kernel_shares(trace);
  for (const kernel_share& k : shares) {
    all += k.total;
  }
  std::string out =
      "<table><tr><th>kernel</th><th class=\"n\">tasks</th><th class=\"n\">mean, us</th>"
      "<th class=\"n\">total, ms</th><th class=\"n\">share</th></tr>\n";
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const kernel_share& k = shares[i];
    out += fmt::format(
        "<tr><td><svg class=\"key\" viewBox=\"0 0 10 10\"><rect width=\"10\" "
        "height=\"10\" "
        "class=\"k{}\"/></svg> {}</td><td class=\"n\">{}</td><td class=\"n\">{:.1f}</td>"
        "<td class=\"n\">{:.1f}</td><td class=\"n\">{:.1f} %</td></tr>\n",
        // The colours are given by rank, as in the drawing.
        std::min(i, colours), xml_escape(trace.names[k.name]), k.count,
        k.total / static_cast<double>(std::max<std::uint64_t>(k.count, 1)),
        k.total / 1000, all > 0 ? 100 * k.total / all : 0);
  }
  return out + "</table>\n";
}

}  // namespace weir::tools
