// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rings of task records, which bound the memory of a trace. Each worker writes to its
/// own ring, so recording needs no synchronisation; reading happens when no task runs.
///
/// Each worker has three lists, whose memory is reserved at the start:
///
///   head  tasks of the first `window_ns` of the run (all tasks in the mode `all`)
///   kept  tasks of pulses that were marked
///   tail  the newest tasks, in a ring
///
/// `records` puts them together; of the tails it takes those that ended in the last
/// `window_ns` of the run.
#include "weir/runtime/trace.hpp"

#include <algorithm>

#include "trace/chrome_json.hpp"

namespace weir::runtime {
namespace {

/// Approximate size of an event in the file in bytes. The largest size of the file then
/// limits the memory for records.
constexpr std::uint64_t typical_event_bytes = 256;
/// Smallest number of records per worker, whatever the size of the file.
constexpr std::uint64_t fewest_records = 64;

}  // namespace

struct trace::impl {
  /// Records of one worker: those of the start of the run, those of marked pulses, and
  /// the latest ones in a ring.
  struct alignas(64) ring {
    std::vector<task_record> head;
    std::vector<task_record> kept;
    std::vector<task_record> tail;
    std::size_t oldest = 0;  ///< index of the oldest record in the tail, once it is full
  };

  trace_options options;
  std::size_t capacity = 0;  ///< records per worker in the head, and in the tail
  std::vector<std::unique_ptr<ring>> rings;
  std::vector<trace_span> spans;
  std::atomic<std::int64_t> origin{0};

  /// Returns the start of the run, which the first recorded task sets.
  [[nodiscard]] std::int64_t origin_of(const task_record& r) noexcept {
    std::int64_t known = origin.load(std::memory_order_relaxed);
    if (known == 0 &&
        origin.compare_exchange_strong(known, r.started, std::memory_order_relaxed)) {
      known = r.started;
    }
    return known;
  }
};

/// Reserves memory for the records of each worker, so that recording does not allocate:
/// for the first ones, for those of marked pulses, and for the newest ones.
trace::trace(const trace_options& options, unsigned workers)
    : impl_(std::make_unique<impl>()) {
  // A trace that is off has rings without memory.
  impl_->options = options;
  recording_.store(options.mode != trace_mode::off, std::memory_order_relaxed);
  for (unsigned w = 0; w < workers; ++w) {
    impl_->rings.push_back(std::make_unique<impl::ring>());
  }
  if (options.mode == trace_mode::off) {
    return;
  }
  impl_->capacity = static_cast<std::size_t>(
      std::max(options.max_bytes / typical_event_bytes / 2, fewest_records));
  for (auto& r : impl_->rings) {  // the system provides pages when they are written to
    r->head.reserve(impl_->capacity);
    r->tail.reserve(impl_->capacity);
    r->kept.reserve(impl_->capacity / 2);
  }
}

trace::~trace() = default;

// Called by the thread that submits; tasks take over the number when they are submitted.
void trace::begin_pulse(std::uint64_t pulse, bool keep) {
  pulse_ = pulse;
  keep_ = keep;
}

/// Puts a record into the first part that takes it: head, marked pulses, tail. Allocates
/// no memory, because all parts were reserved.
void trace::record(unsigned worker, const task_record& r) noexcept {
  impl::ring& to = *impl_->rings[worker];
  const bool all = impl_->options.mode == trace_mode::all;
  const bool early = all || r.ended - impl_->origin_of(r) <= impl_->options.window_ns;
  if (early && to.head.size() < impl_->capacity) {
    to.head.push_back(r);
  } else if (r.keep && !all && to.kept.size() < impl_->capacity / 2) {
    to.kept.push_back(r);
  } else if (to.tail.size() < impl_->capacity) {
    to.tail.push_back(r);
  } else if (impl_->capacity > 0) {
    to.tail[to.oldest] = r;
    to.oldest = (to.oldest + 1) % impl_->capacity;
  }
}

// Called when no other thread adds spans. Spans beyond the capacity are dropped.
void trace::span(std::string_view line, std::string_view name, std::int64_t start_ns,
                 std::int64_t end_ns, std::uint64_t arrow) {
  if (recording() && impl_->spans.size() < impl_->capacity) {
    impl_->spans.push_back(
        {std::string(line), std::string(name), start_ns, end_ns, arrow});
  }
}

/// Collects the records of all workers, sorted by start.
std::vector<task_record> trace::records() const {
  std::vector<task_record> out;
  std::int64_t last = 0;
  // The end of the run is the end of the newest task of all workers.
  for (const auto& r : impl_->rings) {
    for (const task_record& t : r->tail) {
      last = std::max(last, t.ended);
    }
  }
  const bool all = impl_->options.mode == trace_mode::all;
  for (const auto& r : impl_->rings) {
    out.insert(out.end(), r->head.begin(), r->head.end());
    out.insert(out.end(), r->kept.begin(), r->kept.end());
    std::copy_if(r->tail.begin(), r->tail.end(), std::back_inserter(out),
                 [&](const task_record& t) {
                   return all || last - t.ended <= impl_->options.window_ns;
                 });
  }
  std::sort(out.begin(), out.end(), [](const task_record& a, const task_record& b) {
    return a.started != b.started ? a.started < b.started : a.id < b.id;
  });
  return out;
}

// Called when no task runs, because the rings are read without a lock.
result<void> trace::write(file_system& fs, const std::string& path) const {
  const std::vector<task_record> tasks = records();
  const auto workers = static_cast<unsigned>(impl_->rings.size());
  return write_chrome_json(fs, path, tasks, impl_->spans, workers,
                           impl_->options.max_bytes);
}

}  // namespace weir::runtime
