// SPDX-License-Identifier: Apache-2.0
/// @file
/// The trace of streams and calls. Recording copies a few values under a lock; all text
/// is made when the trace is written.
///
/// The recorder keeps the earliest records and counts those beyond its limit, so a long
/// run does not fill the memory.
#include "profile/recorder.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "weir/base/clock.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"
#include "weir/runtime/trace_events.hpp"

namespace weir::tessera {

using runtime::arrow_end;
using runtime::arrow_event;
using runtime::counter_event;
using runtime::duration_event;
using runtime::name_event;
using runtime::trace_line;

namespace {

/// Number of the process that stands for the host. Device n is process n + 1.
constexpr std::int64_t host = 0;

/// Returns the line of a stream on a device.
trace_line line_of(std::int32_t device, std::uint64_t stream) {
  return {std::int64_t{device} + 1, stream};
}

/// Returns a policy as text.
std::string words_of(const numerics_policy& p) {
  return fmt::format(
      "stableReductions={:d},deterministic={:d},rngStateless={:d},allowFastMath={:d}",
      p.stable_reductions, p.deterministic, p.stateless_rng, p.fast_math);
}

}  // namespace

recorder::recorder(const context& observed, std::uint64_t max_records)
    : settings_(observed.settings().listed()),
      policy_(observed.policy()),
      since_(now_ns()),
      max_records_(max_records) {}

// Called with the mutex locked. Operations and calls share the limit.
bool recorder::accept_record() noexcept {
  if (records_.size() + calls_.size() < max_records_) {
    return true;
  }
  ++dropped_;
  return false;
}

// Called by workers. Names and details are copied, because the operation may end before
// the trace is written. A record that finds no memory is counted as dropped.
void recorder::ended(const operation& operation, unsigned chain, std::int64_t start_ns,
                     std::int64_t end_ns) noexcept {
  try {
    record r{std::string(operation.name()),
             operation.details(),
             operation.kind(),
             operation.enqueuer(),
             operation.stream_of(chain),
             operation.number,
             operation.bytes(),
             operation.bus_factor(),
             operation.on_devices == nullptr ? 0 : operation.on_devices[chain],
             operation.enqueued(),
             start_ns,
             end_ns};
    const std::lock_guard lock(mutex_);
    if (accept_record()) {
      records_.push_back(std::move(r));
    }
  } catch (...) {  // no memory
    const std::lock_guard lock(mutex_);
    ++dropped_;
  }
}

// Calls that began before the recording are shown from its beginning on.
void recorder::called(const observed_call& call) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    if (accept_record()) {
      calls_.push_back(call);
      calls_.back().start_ns = std::max(call.start_ns, since_);
    }
  } catch (...) {  // no memory
    ++dropped_;
  }
}

void recorder::note_policy(const numerics_policy& policy) {
  const std::lock_guard lock(mutex_);
  last_policy_ = policy;
}

/// Adds an operation: its time on the device, and the arrow to it from the thread that
/// enqueued it. Bytes per nanosecond are gigabytes per second.
void recorder::add_events(const record& r, std::uint64_t flow,
                          std::vector<std::string>& events) const {
  // An arrow never leads back in time.
  const std::int64_t enqueued = std::min(r.enqueued, r.started) - since_;
  const std::int64_t started = r.started - since_;
  const std::int64_t took = r.ended - r.started;
  const double gigabytes =
      took > 0 ? static_cast<double>(r.bytes) / static_cast<double>(took) : 0;
  const std::string bus =
      r.bus_factor > 0 ? fmt::format(R"(,"busGB/s":{:.3f})", gigabytes * r.bus_factor)
                       : "";
  const trace_line line = line_of(r.device, r.stream);
  events.push_back(
      arrow_event({host, r.thread}, arrow_end::tail, "enqueue", "run", flow, enqueued));
  events.push_back(duration_event(
      line, operation::kind_name(r.kind), r.name, started, took,
      fmt::format(R"("operation":{},"enqueue_ns":{},"start_ns":{},"stop_ns":{},)"
                  R"("bytes":{},"GB/s":{:.3f}{}{}{})",
                  r.number, enqueued, started, r.ended - since_, r.bytes, gigabytes, bus,
                  r.details.empty() ? "" : ",", r.details)));
  events.push_back(arrow_event(line, arrow_end::head, "enqueue", "run", flow, started));
}

/// Adds a call of the program.
void recorder::add_call(const observed_call& c, std::vector<std::string>& events) const {
  events.push_back(duration_event({host, c.thread}, "call", c.name, c.start_ns - since_,
                                  c.end_ns - c.start_ns,
                                  fmt::format(R"("status":"{}")", c.status)));
}

/// Adds the counter of bytes in flight of each device, from the beginnings and ends of
/// copies and collectives.
void recorder::add_counters(const std::vector<record>& all,
                            std::vector<std::string>& events) const {
  // Changes are sorted by device, then time, then bytes. So at the same time, ends (which
  // are negative) come before beginnings, and the counter does not show a false peak.
  std::vector<std::tuple<std::int32_t, std::int64_t, std::int64_t>> changes;
  for (const record& r : all) {
    if ((r.kind == operation_kind::copy || r.kind == operation_kind::collective) &&
        r.bytes != 0 && r.ended > r.started) {
      const auto bytes = static_cast<std::int64_t>(r.bytes);
      changes.emplace_back(r.device, r.started, bytes);
      changes.emplace_back(r.device, r.ended, -bytes);
    }
  }
  std::sort(changes.begin(), changes.end());
  std::int64_t in_flight = 0;
  for (const auto& [device, when, bytes] : changes) {
    in_flight += bytes;  // each device's changes add up to 0
    events.push_back(counter_event(line_of(device, 0), "bytes in flight", when - since_,
                                   fmt::format(R"("bytes":{})", in_flight)));
  }
}

// Returns the settings of the context and of the recording, as members of an object.
std::string recorder::metadata() const {
  std::string out;
  const auto add = [&](std::string_view name, std::string_view value) {
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", json_quote(name),
                       json_quote(value));
  };
  for (const auto& [name, value] : settings_) {
    add(name, value);
  }
  add("policy", words_of(policy_));
  const std::lock_guard lock(mutex_);
  if (last_policy_ && *last_policy_ != policy_) {
    add("policy_at_end", words_of(*last_policy_));
  }
  add("record_limit", std::to_string(max_records_));
  add("dropped_records", std::to_string(dropped_));
  return out;
}

// Copies the records under the lock and makes the text without it. Operations are sorted,
// so the trace does not depend on the order in which workers reported them.
std::string recorder::to_json() const {
  std::vector<record> all;
  std::vector<observed_call> calls;
  {
    const std::lock_guard lock(mutex_);
    all = records_;
    calls = calls_;
  }
  std::sort(all.begin(), all.end(), [](const record& a, const record& b) {
    return std::tie(a.started, a.stream, a.number, a.device) <
           std::tie(b.started, b.stream, b.number, b.device);
  });
  std::vector<std::string> events;
  // Devices, streams and threads that occur get their names at the end.
  std::set<std::pair<std::int32_t, std::uint64_t>> rows;
  std::set<std::uint32_t> threads;
  for (const observed_call& c : calls) {
    threads.insert(c.thread);
    add_call(c, events);
  }
  std::uint64_t flow = 0;
  for (const record& r : all) {
    rows.emplace(r.device, r.stream);
    threads.insert(r.thread);
    add_events(r, ++flow, events);
  }
  events.push_back(name_event({host, 0}, "process_name", "host"));
  for (const std::uint32_t t : threads) {
    events.push_back(name_event({host, t}, "thread_name", fmt::format("thread {}", t)));
  }
  for (const auto& [device, s] : rows) {
    const trace_line line = line_of(device, s);
    events.push_back(name_event(line, "process_name", fmt::format("device {}", device)));
    events.push_back(name_event(line, "thread_name", fmt::format("stream {}", s)));
  }
  add_counters(all, events);
  return fmt::format("{}{}{}", runtime::trace_opening(metadata()),
                     fmt::join(events, ",\n"), runtime::trace_closing);
}

// The file is replaced as a whole, so a viewer never reads half a trace.
result<void> recorder::write(const std::string& path) const {
  const std::string text = to_json();
  auto written = write_file_atomically(
      posix_file_system(), path,
      {reinterpret_cast<const std::byte*>(text.data()), text.size()});
  if (!written) {
    return error(errc::invalid_argument,
                 fmt::format("trace not written: expected a file that can be, found "
                             "\"{}\"",
                             path))
        .because(std::move(written).error());
  }
  return {};
}

}  // namespace weir::tessera
