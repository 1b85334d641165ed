// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Chrome trace of a run. The file has a size limit; events from the middle of a run
/// are left out first, because the start and the end of a run are what users look at.
///
/// Lines of the file: process 1 has a thread for each worker (0, 1, ...) and one for each
/// line of spans (from 1000 on). Times are microseconds since the earliest submission or
/// span.
///
/// The size is kept below the limit in this way: the names of lines, spans and arrows are
/// always written; the rest of the space is divided between the first and the last tasks.
#include "trace/chrome_json.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "weir/base/text.hpp"
#include "weir/runtime/trace_events.hpp"

namespace weir::runtime {
namespace {

/// Number of the first line for spans; workers have the lower ones.
constexpr std::uint64_t first_span_line = 1000;
/// Number of the only process.
constexpr std::int64_t process = 1;
/// Bytes that are collected before they are written.
constexpr std::size_t chunk_bytes = 1U << 20;

/// Returns what a task waited for longest: the data of a predecessor or a free worker.
/// The times before the start of a task are: submitted, ready (its last predecessor has
/// ended), started (a worker has taken it). The longer of the two waits is the reason.
std::string reason(const task_record& r) {
  const std::int64_t for_data = r.waited_for == 0 ? 0 : r.ready - r.submitted;
  const std::int64_t for_worker = r.started - r.ready;
  if (for_data > 0 && for_data >= for_worker) {
    return fmt::format("data of {}", r.waited_for_name);
  }
  return r.waited_for == 0 ? "ready at once" : "a free worker";
}

/// Returns the event of a task; times count from `origin`.
/// The argument "completed" is there only for tasks that ended after their kernel had
/// returned.
std::string task_event(const task_record& r, std::int64_t origin) {
  return duration_event(
      {process, r.worker}, "task", r.name, r.started - origin, r.ended - r.started,
      fmt::format(
          R"("id":{},"pulse":{},"submit":{},"ready":{},)"
          R"("waited_for":{},"waited_for_name":{},"why":{}{})",
          r.id, r.pulse, microseconds(r.submitted - origin),
          microseconds(r.ready - origin), r.waited_for,
          json_quote(r.waited_for == 0 ? "" : r.waited_for_name), json_quote(reason(r)),
          r.completed == 0
              ? ""
              : fmt::format(R"(,"completed":{})", microseconds(r.completed - origin))));
}

/// Returns the events that are always written: the names of the lines, and the spans,
/// which are few.
/// A line of spans gets its number and its name event when its first span appears.
std::vector<std::string> fixed_events(std::span<const trace_span> spans, unsigned workers,
                                      std::int64_t origin) {
  std::vector<std::string> out{name_event({process, 0}, "process_name", "weir")};
  for (unsigned w = 0; w < workers; ++w) {
    const std::string name =
        w == 0 ? "worker 0 (submitter)" : fmt::format("worker {}", w);
    out.push_back(name_event({process, w}, "thread_name", name));
  }
  std::vector<std::string> lines;
  for (const trace_span& s : spans) {
    const auto known = std::find(lines.begin(), lines.end(), s.line) - lines.begin();
    const std::uint64_t line = first_span_line + static_cast<std::uint64_t>(known);
    if (static_cast<std::size_t>(known) == lines.size()) {
      lines.push_back(s.line);
      out.push_back(name_event({process, line}, "thread_name", s.line));
    }
    out.push_back(duration_event({process, line}, "span", s.name, s.start_ns - origin,
                                 s.end_ns - s.start_ns));
  }
  return out;
}

/// Returns the arrows between spans that have one number, from each to the next.
/// Lines get the same numbers as in `fixed_events`, because both walk over the spans in
/// the same order. For example, an item that passes three stages has three spans with its
/// number and two arrows.
std::vector<std::string> arrow_events(std::span<const trace_span> spans,
                                      std::int64_t origin) {
  std::map<std::string_view, std::uint64_t> lines;
  std::vector<const trace_span*> joined;
  for (const trace_span& s : spans) {
    // Does nothing for a line that is known.
    lines.emplace(s.line, first_span_line + lines.size());
    if (s.arrow != 0) {
      joined.push_back(&s);
    }
  }
  std::stable_sort(joined.begin(), joined.end(), [](const auto* a, const auto* b) {
    return a->arrow != b->arrow ? a->arrow < b->arrow : a->start_ns < b->start_ns;
  });
  std::vector<std::string> out;
  for (std::size_t i = 1; i < joined.size(); ++i) {
    const trace_span& from = *joined[i - 1];
    const trace_span& to = *joined[i];
    if (from.arrow != to.arrow) {
      continue;
    }
    out.push_back(arrow_event({process, lines[from.line]}, arrow_end::tail, "item",
                              from.name, i, from.start_ns - origin));
    out.push_back(arrow_event({process, lines[to.line]}, arrow_end::head, "item", to.name,
                              i, to.start_ns - origin));
  }
  return out;
}

/// Returns how many events from the start and from the end fit into `capacity` bytes,
/// separators included. Each side gets half of the space if not all fit.
/// The loops end before they run out of events, because all events together do not fit.
std::pair<std::size_t, std::size_t> fit(std::span<const std::uint32_t> sizes,
                                        std::uint64_t capacity) {
  std::uint64_t total = 0;
  for (const std::uint32_t s : sizes) {
    total += s;
  }
  if (total <= capacity) {
    return {sizes.size(), 0};
  }
  std::size_t head = 0;
  for (std::uint64_t used = 0; used + sizes[head] <= capacity / 2; ++head) {
    used += sizes[head];
  }
  std::size_t tail = 0;
  for (std::uint64_t used = 0; used + sizes[sizes.size() - 1 - tail] <= capacity / 2;
       ++tail) {
    used += sizes[sizes.size() - 1 - tail];
  }
  return {head, tail};
}

/// Appends to a file in large pieces.
class piecewise_writer {
 public:
  explicit piecewise_writer(file& to) : to_(to) {}
  result<void> add(std::string_view text) {
    pending_ += text;
    return pending_.size() < chunk_bytes ? result<void>() : flush();
  }
  result<void> flush() {
    WEIR_CHECK(write_all(to_, offset_, as_view(pending_)));
    offset_ += pending_.size();
    pending_.clear();
    return {};
  }

 private:
  file& to_;
  std::uint64_t offset_ = 0;
  std::string pending_;
};

}  // namespace

/// Formats each event twice, once for its size and once for the file: the formatted text
/// of a long run may be larger than the memory.
result<void> write_chrome_json(file_system& fs, const std::string& path,
                               std::span<const task_record> tasks,
                               std::span<const trace_span> spans, unsigned workers,
                               std::uint64_t max_bytes) {
  const std::string opening = trace_opening();
  // The origin is the earliest time of all, so no event has a negative time.
  std::int64_t origin = tasks.empty() ? 0 : tasks.front().submitted;
  for (const task_record& r : tasks) {
    origin = std::min(origin, r.submitted);
  }
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const bool first = tasks.empty() && i == 0;
    origin = first ? spans[i].start_ns : std::min(origin, spans[i].start_ns);
  }
  auto fixed = fixed_events(spans, workers, origin);
  for (std::string& arrow : arrow_events(spans, origin)) {
    fixed.push_back(std::move(arrow));
  }
  std::uint64_t taken = opening.size() + trace_closing.size();
  for (const std::string& event : fixed) {
    taken += event.size() + 2;
  }
  std::vector<std::uint32_t> sizes;
  sizes.reserve(tasks.size());
  for (const task_record& r : tasks) {
    sizes.push_back(static_cast<std::uint32_t>(task_event(r, origin).size() + 2));
  }
  // If the fixed events alone are too many, no task is written.
  const auto [head, tail] = fit(sizes, max_bytes > taken ? max_bytes - taken : 0);
  return write_file_atomically(
      fs, path, [&, h = head, t = tail](file& to) -> result<void> {
        piecewise_writer out(to);
        WEIR_CHECK(out.add(opening));
        for (std::size_t i = 0; i < fixed.size(); ++i) {
          WEIR_CHECK(out.add((i == 0 ? "" : ",\n") + fixed[i]));
        }
        for (std::size_t i = 0; i < tasks.size(); ++i) {
          if (i < h || i >= tasks.size() - t) {
            WEIR_CHECK(out.add(",\n" + task_event(tasks[i], origin)));
          }
        }
        WEIR_CHECK(out.add(trace_closing));
        return out.flush();
      });
}

}  // namespace weir::runtime
