// SPDX-License-Identifier: Apache-2.0
/// @file
/// Summary of a trace: critical path, lines of the workers, and shares of the reasons to
/// wait.
///
/// The critical path is found from its end: the task that ended last, then the task that
/// has delayed its start, and so on. A task waits for two things, the end of its last
/// predecessor and the end of the task that its worker ran before; the later of both ends
/// is the cause of the delay. Records may come from a file, so they may be incomplete or
/// damaged.
#include "weir/runtime/trace_summary.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include <fmt/core.h>

namespace weir::runtime {
namespace {

/// Returns a name, or a question mark for none.
/// Names of records may be null pointers.
const char* text_of(const char* name) {
  return name == nullptr ? "?" : name;
}

/// Finds the task for which a task waited last, whatever the reason.
class history {
 public:
  explicit history(std::span<const task_record> records) {
    for (const task_record& r : records) {
      by_id_[r.id] = &r;
      by_worker_[r.worker].push_back(&r);
    }
    for (auto& [worker, tasks] : by_worker_) {
      std::sort(tasks.begin(), tasks.end(),
                [](const auto* a, const auto* b) { return a->started < b->started; });
    }
  }
  /// Returns the task that delayed the start of `r` last: a predecessor, or the task
  /// before it on the same worker. The result starts earlier than `r`, so that damaged
  /// data cannot lead in circles. Returns null if there is none, or none that is known.
  [[nodiscard]] const task_record* before(const task_record& r) const {
    const auto found = by_id_.find(r.waited_for);
    const task_record* data = found == by_id_.end() || found->second->started >= r.started
                                  ? nullptr
                                  : found->second;
    // The predecessor is not in the trace, so it is unknown which of the two was later.
    if (r.waited_for != 0 && data == nullptr) {
      return nullptr;
    }
    // The last task of the worker that started before `r` is the one that it waited for.
    const auto& tasks = by_worker_.at(r.worker);
    const auto at =
        std::lower_bound(tasks.begin(), tasks.end(), r.started,
                         [](const auto* a, std::int64_t t) { return a->started < t; });
    const task_record* busy = at == tasks.begin() ? nullptr : *std::prev(at);
    if (data == nullptr || busy == nullptr) {
      return data == nullptr ? busy : data;
    }
    return busy->ended > data->ended ? busy : data;
  }

 private:
  std::unordered_map<std::uint64_t, const task_record*> by_id_;
  std::unordered_map<std::uint32_t, std::vector<const task_record*>> by_worker_;
};

/// Follows the delays back from the task that ended last. Their sequence is the critical
/// path.
/// Of tasks that ended at the same time, the one with the lowest id counts, so the result
/// does not depend on the order of the records.
void find_path(std::span<const task_record> records, trace_summary& out) {
  const history all(records);
  const task_record* at = &records.front();
  for (const task_record& r : records) {
    if (r.ended > at->ended || (r.ended == at->ended && r.id < at->id)) {
      at = &r;
    }
  }
  while (at != nullptr) {
    const task_record* before = all.before(*at);
    // The wait of a step counts from the end of the step before; the first one's from its
    // submission.
    const std::int64_t since = before == nullptr ? at->submitted : before->ended;
    out.critical_path.push_back(
        {at->id, text_of(at->name), at->started - since, at->ended - at->started});
    at = before;
  }
  std::reverse(out.critical_path.begin(), out.critical_path.end());
}

/// Adds the time of a task to its worker's line, spread over slices of the whole time.
/// The times of a worker's tasks do not overlap, so a share above 1 comes from rounding
/// only.
void add_to_line(trace_summary::worker_line& line, const task_record& r,
                 const trace_summary& whole) {
  ++line.tasks;
  line.busy += r.ended - r.started;
  const double slice = static_cast<double>(whole.end - whole.begin) /
                       static_cast<double>(trace_summary::slices);
  if (slice <= 0) {
    return;
  }
  const double from = static_cast<double>(r.started - whole.begin) / slice;
  const double to = static_cast<double>(r.ended - whole.begin) / slice;
  for (std::size_t i = 0; i < trace_summary::slices; ++i) {
    const auto left = static_cast<double>(i);
    // The part of slice i that the task covers; negative if it covers none.
    const double part = std::min(to, left + 1) - std::max(from, left);
    line.share[i] = std::min(1.0, line.share[i] + std::max(part, 0.0));
  }
}

/// Makes the line of each worker.
void find_lines(std::span<const task_record> records, trace_summary& out) {
  std::map<std::uint32_t, trace_summary::worker_line> lines;
  for (const task_record& r : records) {
    trace_summary::worker_line& line = lines[r.worker];
    line.worker = r.worker;
    add_to_line(line, r, out);
  }
  for (auto& [worker, line] : lines) {
    out.workers.push_back(line);
  }
}

/// Sums the waiting times by reason.
/// A task that waited for data and for a worker adds to both reasons.
void find_waits(std::span<const task_record> records, trace_summary& out) {
  std::map<std::string, trace_summary::wait> waits;
  const auto add = [&](const std::string& reason, std::int64_t ns) {
    if (ns > 0) {
      trace_summary::wait& w = waits[reason];
      w.reason = reason;
      w.sum += ns;
      ++w.tasks;
    }
  };
  for (const task_record& r : records) {
    if (r.waited_for != 0) {
      add(fmt::format("data of {}", text_of(r.waited_for_name)), r.ready - r.submitted);
    }
    add("a free worker", r.started - r.ready);
  }
  for (auto& [reason, w] : waits) {
    out.waits.push_back(std::move(w));
  }
  std::stable_sort(out.waits.begin(), out.waits.end(),
                   [](const auto& a, const auto& b) { return a.sum > b.sum; });
}

double milliseconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-6;
}

/// Returns the names on the critical path with the time that each ran there, longest
/// first.
/// The result has the form of waits, so that one function prints both tables.
std::vector<trace_summary::wait> path_names(const trace_summary& s) {
  std::map<std::string, trace_summary::wait> names;
  for (const trace_summary::step& step : s.critical_path) {
    trace_summary::wait& n = names[step.name];
    n.reason = step.name;
    n.sum += step.ran;
    ++n.tasks;
  }
  std::vector<trace_summary::wait> out;
  for (auto& [name, n] : names) {
    out.push_back(std::move(n));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.sum > b.sum; });
  return out;
}

}  // namespace

std::int64_t trace_summary::path_ran() const noexcept {
  std::int64_t sum = 0;
  for (const step& s : critical_path) {
    sum += s.ran;
  }
  return sum;
}

std::int64_t trace_summary::path_waited() const noexcept {
  std::int64_t sum = 0;
  for (const step& s : critical_path) {
    sum += s.waited;
  }
  return sum;
}

// The share is of the sum over all reasons and tasks, not of the time of the run.
double trace_summary::share_of(const wait& w) const noexcept {
  double all = 0;
  for (const wait& one : waits) {
    all += static_cast<double>(one.sum);
  }
  return all > 0 ? static_cast<double>(w.sum) / all : 0;
}

/// Summarises the records of a trace. The time begins with the first submission and ends
/// with the last kernel.
trace_summary summarize(std::span<const task_record> records) {
  trace_summary out;
  if (records.empty()) {
    return out;
  }
  out.begin = records.front().submitted;
  out.end = records.front().ended;
  for (const task_record& r : records) {
    out.begin = std::min(out.begin, r.submitted);
    out.end = std::max(out.end, r.ended);
  }
  find_path(records, out);
  find_lines(records, out);
  find_waits(records, out);
  return out;
}

/// Prints the summary as text for a terminal: the critical path, a line per worker in
/// which the darkness of a character is the busy share of a sixtieth of the time, and the
/// reasons for which tasks waited. At most ten rows of each list are printed.
std::string to_text(const trace_summary& s) {
  constexpr std::size_t max_rows = 10;
  const double whole = milliseconds(s.end - s.begin);
  const auto percent = [&](std::int64_t ns) {
    return whole == 0 ? 0 : 100 * milliseconds(ns) / whole;
  };
  std::string out = fmt::format(
      "{:.3f} ms, critical path of {} tasks: {:.3f} ms in kernels, {:.3f} ms "
      "waiting\n",
      whole, s.critical_path.size(), milliseconds(s.path_ran()),
      milliseconds(s.path_waited()));
  // Prints the first rows of a table; `part` gives the percentage of a row.
  const auto rows = [&](const std::vector<trace_summary::wait>& all, auto&& part) {
    for (std::size_t i = 0; i < std::min(all.size(), max_rows); ++i) {
      out += fmt::format("  {:>10.3f} ms {:>5.1f} %  {:>7} x  {}\n",
                         milliseconds(all[i].sum), part(all[i]), all[i].tasks,
                         all[i].reason);
    }
  };
  rows(path_names(s), [&](const auto& w) { return percent(w.sum); });
  out += "workers, each character a sixtieth of the time\n";
  for (const trace_summary::worker_line& w : s.workers) {
    std::string line;
    for (const double share : w.share) {
      // Five characters for shares of 0, 1/4, 1/2, 3/4 and 1, rounded.
      line += " .:=#"[static_cast<std::size_t>(share * 4 + 0.5)];
    }
    out += fmt::format("  {:>3} |{}| {:.1f} % busy, {} tasks\n", w.worker, line,
                       percent(w.busy), w.tasks);
  }
  out += "tasks waited, all together, for\n";
  rows(s.waits, [&](const auto& w) { return 100 * s.share_of(w); });
  return out;
}

}  // namespace weir::runtime
