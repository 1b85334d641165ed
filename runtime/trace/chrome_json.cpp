// SPDX-License-Identifier: Apache-2.0
/// @file
/// The trace event format that chrome://tracing and Perfetto read. The file has a size
/// limit; events from the middle of a run are left out first, because the start and the
/// end of a run are what users look at. @source{Trace Event Format, complete and metadata
/// events}
#include "trace/chrome_json.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/core.h>

#include "weir/base/text.hpp"

namespace weir::runtime {
namespace {

/// Number of the first line for spans; workers have the lower ones.
constexpr int first_span_line = 1000;
/// Bytes that are collected before they are written.
constexpr std::size_t chunk_bytes = 1U << 20;

/// Returns what a task waited for longest: the data of a predecessor or a free worker.
std::string reason(const task_record& r) {
  const std::int64_t for_data = r.waited_for == 0 ? 0 : r.ready - r.submitted;
  const std::int64_t for_worker = r.started - r.ready;
  if (for_data > 0 && for_data >= for_worker) {
    return fmt::format("data of {}", r.waited_for_name);
  }
  return r.waited_for == 0 ? "ready at once" : "a free worker";
}

/// Returns a metadata event, which names the process or a line.
std::string name_event(int line, std::string_view name, std::string_view kind) {
  return fmt::format(R"({{"name":"{}","ph":"M","pid":1,"tid":{},"args":{{"name":{}}}}})",
                     kind, line, json_quote(name));
}

/// Returns the complete event of a task; times count from `origin`.
std::string task_event(const task_record& r, std::int64_t origin) {
  return fmt::format(
      R"({{"name":{},"ph":"X","cat":"task","pid":1,"tid":{},"ts":{},"dur":{},)"
      R"("args":{{"id":{},"pulse":{},"submit":{},"ready":{},)"
      R"("waited_for":{},"waited_for_name":{},"why":{}}}}})",
      json_quote(r.name), r.worker, microseconds(r.started - origin),
      microseconds(r.ended - r.started), r.id, r.pulse,
      microseconds(r.submitted - origin), microseconds(r.ready - origin), r.waited_for,
      json_quote(r.waited_for == 0 ? "" : r.waited_for_name), json_quote(reason(r)));
}

/// Returns the complete event of a span.
std::string span_event(const trace_span& s, int line, std::int64_t origin) {
  return fmt::format(
      R"({{"name":{},"ph":"X","cat":"span","pid":1,"tid":{},"ts":{},"dur":{},)"
      R"("args":{{}}}})",
      json_quote(s.name), line, microseconds(s.start_ns - origin),
      microseconds(s.end_ns - s.start_ns));
}

/// Returns the events that are always written: the names of the lines, and the spans,
/// which are few.
std::vector<std::string> fixed_events(std::span<const trace_span> spans, unsigned workers,
                                      std::int64_t origin) {
  std::vector<std::string> out{name_event(0, "weir", "process_name")};
  for (unsigned w = 0; w < workers; ++w) {
    const std::string name =
        w == 0 ? "worker 0 (submitter)" : fmt::format("worker {}", w);
    out.push_back(name_event(static_cast<int>(w), name, "thread_name"));
  }
  std::vector<std::string> lines;
  for (const trace_span& s : spans) {
    auto found = std::find(lines.begin(), lines.end(), s.line);
    if (found == lines.end()) {
      const int line = first_span_line + static_cast<int>(lines.size());
      out.push_back(name_event(line, s.line, "thread_name"));
      found = lines.insert(lines.end(), s.line);
    }
    out.push_back(
        span_event(s, first_span_line + static_cast<int>(found - lines.begin()), origin));
  }
  return out;
}

/// Returns how many events from the start and from the end fit into `room` bytes,
/// separators included. Each side gets half of the space if not all fit.
std::pair<std::size_t, std::size_t> fit(std::span<const std::uint32_t> sizes,
                                        std::uint64_t room) {
  std::uint64_t total = 0;
  for (const std::uint32_t s : sizes) {
    total += s;
  }
  if (total <= room) {
    return {sizes.size(), 0};
  }
  std::size_t head = 0;
  for (std::uint64_t used = 0; used + sizes[head] <= room / 2; ++head) {
    used += sizes[head];
  }
  std::size_t tail = 0;
  for (std::uint64_t used = 0; used + sizes[sizes.size() - 1 - tail] <= room / 2;
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

std::string microseconds(std::int64_t ns) {
  const auto whole = static_cast<std::uint64_t>(ns < 0 ? -ns : ns);
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", whole / 1000, whole % 1000);
}

/// Formats each event twice, once for its size and once for the file: the formatted text
/// of a long run may be larger than the memory.
result<void> write_chrome_json(file_system& fs, const std::string& path,
                               std::span<const task_record> tasks,
                               std::span<const trace_span> spans, unsigned workers,
                               std::uint64_t max_bytes) {
  constexpr std::string_view opening = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  constexpr std::string_view closing = "\n]}\n";
  std::int64_t origin = tasks.empty() ? 0 : tasks.front().submitted;
  for (const task_record& r : tasks) {
    origin = std::min(origin, r.submitted);
  }
  if (tasks.empty() && !spans.empty()) {
    origin = spans.front().start_ns;
  }
  const auto fixed = fixed_events(spans, workers, origin);
  std::uint64_t taken = opening.size() + closing.size();
  for (const std::string& event : fixed) {
    taken += event.size() + 2;
  }
  std::vector<std::uint32_t> sizes;
  sizes.reserve(tasks.size());
  for (const task_record& r : tasks) {
    sizes.push_back(static_cast<std::uint32_t>(task_event(r, origin).size() + 2));
  }
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
        WEIR_CHECK(out.add(closing));
        return out.flush();
      });
}

}  // namespace weir::runtime
