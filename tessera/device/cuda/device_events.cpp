// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ends of operations, which events tell, and the loss of a device.
///
/// An operation is in one of three states: in the batch of its stream (given to the
/// driver, without an event), in a flight (behind an event), or ended. Streams end in
/// order, so only the first flight of each is asked.
#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "device/cuda/device_thread.hpp"
#include "device/cuda/slab.hpp"
#include "device/cuda/status_table.hpp"

namespace weir::tessera::cuda {
namespace {

/// An event that cannot be recorded or asked is tried again. The device is given up after
/// this many failures, because the end of its work can then not be learnt any more.
constexpr unsigned max_failed_queries = 8;

}  // namespace

// An operation that has begun in part ends with its error behind the part's event,
// because the memory is in use until then.
void device_thread::give(driver_stream& to, operation made, status outcome, bool begun) {
  if (outcome == status::success) {
    to.batch.push_back(std::move(made));
    ++to.outstanding;
    return;
  }
  // The driver refuses everything from now on.
  if (kind_of(outcome) == status_kind::sticky) {
    lose(outcome, made.label);
    end_failed(made, *lost());
    return;
  }
  error failure = failure_of(api_, outcome, made.label);
  // The event of the batch tells when the part has ended.
  if (begun) {
    made.failure = std::move(failure);
    to.batch.push_back(std::move(made));
    ++to.outstanding;
    return;
  }
  end_failed(made, failure);
}

/// Events are used again; null with an outcome other than success.
event_handle device_thread::take_event(status& outcome) {
  event_handle taken = nullptr;
  outcome = status::success;
  if (events_.empty()) {
    outcome = api_.event_create(&taken, event_disable_timing);
  } else {
    taken = events_.back();
    events_.pop_back();
  }
  return taken;
}

// Without an event the end of the batch would stay unknown. An error here therefore
// leaves the batch open, and the next step tries again.
void device_thread::close_batches() {
  for (driver_stream& l : streams_) {
    if (l.batch.empty() || is_lost_) {
      continue;
    }
    status s = status::success;
    const event_handle event = take_event(s);
    if (s == status::success) {
      s = api_.event_record(event, l.stream);
      // The event goes back, since it was not recorded.
      if (s != status::success) {
        events_.push_back(event);
      }
    }
    if (s == status::success) {
      l.flights.push_back({event, std::move(l.batch)});
      l.batch.clear();
    } else if (kind_of(s) == status_kind::sticky ||
               ++l.failed_queries > max_failed_queries) {
      // The device is given up after several attempts.
      lose(s, l.batch.front().label);
    }
  }
  if (is_lost_) {
    fail_everything();
  }
}

/// Returns whether anything has ended.
bool device_thread::poll() {
  bool moved = false;
  for (driver_stream& l : streams_) {
    moved = poll(l) || moved;
  }
  if (is_lost_) {
    fail_everything();
  }
  // Streams of persistent kernels go with them. A stream of a persistent kernel serves
  // that kernel alone.
  for (auto at = streams_.begin(); at != streams_.end();) {
    if (at->once && at->outstanding == 0) {
      if (!at->native) {
        (void)api_.stream_destroy(at->stream);
      }
      at = streams_.erase(at);
    } else {
      ++at;
    }
  }
  return moved;
}

/// Asks the flights of one stream.
bool device_thread::poll(driver_stream& l) {
  bool moved = false;
  while (!l.flights.empty() && !is_lost_) {
    driver_stream::flight& first = l.flights.front();
    const status s = api_.event_query(first.event);
    if (s != status::success) {
      // "Not ready" is neither a success nor a failure.
      const status_kind kind = kind_of(s);
      l.failed_queries += kind == status_kind::returned ? 1U : 0U;
      // Another library may have changed its stream; the device itself is not lost.
      if (l.native && l.failed_queries > max_failed_queries) {
        const error failure = failure_of(api_, s, outstanding_labels());
        for (operation& o : first.operations) {
          end_failed(o, failure);
        }
        l.outstanding -= first.operations.size();
        (void)api_.event_destroy(first.event);  // not used again
        l.flights.pop_front();
        return true;
      }
      if (kind == status_kind::sticky || l.failed_queries > max_failed_queries) {
        lose(s, outstanding_labels());
      }
      return moved;
    }
    l.failed_queries = 0;
    events_.push_back(first.event);
    // All operations in front of the event have ended.
    for (operation& o : first.operations) {
      end(o);
    }
    l.outstanding -= first.operations.size();
    l.flights.pop_front();
    moved = true;
  }
  return moved;
}

// The event is recorded during the call, so the work that it covers is what the program
// has submitted before. The stream of the driver goes when the event has occurred; its
// stream stays with its owner, which may even destroy it before.
result<void> device_thread::follow(stream_handle native, completion done) {
  return call([&]() -> result<void> {
    const std::string label =
        fmt::format("wait for native stream {:#x} on {}",
                    reinterpret_cast<std::uintptr_t>(native), facts_.name);
    // A stream that captures runs nothing, so an event in it would never occur.
    capture_status captures = capture_status::none;
    status s = api_.stream_is_capturing(native, &captures);
    if (s == status::success && captures != capture_status::none) {
      return error(errc::invalid_argument,
                   fmt::format("cannot {}: expected a stream that does not capture, "
                               "found one that does",
                               label))
          .hint("call before its capture begins or after it has ended");
    }
    event_handle event = nullptr;
    if (s == status::success) {
      event = take_event(s);
    }
    if (s == status::success) {
      s = api_.event_record(event, native);
      if (s != status::success) {
        events_.push_back(event);
      }
    }
    if (s == status::invalid_handle || s == status::invalid_context) {
      return error(errc::invalid_argument,
                   fmt::format("cannot {}: expected a stream of the primary context of "
                               "the device, found {}",
                               label, text_of(api_, s)));
    }
    if (s != status::success) {
      return returned_or_lost(s, label);
    }
    operation covered;
    covered.label = label;
    covered.done = std::move(done);
    driver_stream own;
    own.stream = native;
    own.once = true;
    own.native = true;
    own.outstanding = 1;
    own.flights.emplace_back();
    own.flights.back().event = event;
    own.flights.back().operations.push_back(std::move(covered));
    streams_.push_back(std::move(own));
    return {};
  });
}

/// Called for operations that have come to their end, well or not.
void device_thread::end(operation& ended) {
  result<void> outcome;
  if (ended.failure) {
    outcome = *std::move(ended.failure);
  }
  // A kernel writes a report only if a block has failed.
  if (ended.report != nullptr) {
    const kernel_report found = *ended.report;
    if (outcome && found.failure != 0) {
      // The number of the block is turned into its indices.
      const auto x = static_cast<std::uint32_t>(ended.grid[0]);
      const auto y = static_cast<std::uint32_t>(ended.grid[1]);
      outcome = error(errc::kernel_failed,
                      fmt::format("{}: expected a return value of 0, found {} in block "
                                  "({}, {}, {})",
                                  ended.label, found.failure, found.block % x,
                                  found.block / x % y, found.block / x / y));
    }
    // The place of the report is free for another launch.
    const auto* const first = reinterpret_cast<const kernel_report*>(slab_.data());
    free_reports_.push_back(static_cast<std::uint32_t>(ended.report - first));
  }
  // Gives back what the operation used.
  if (ended.at_end) {
    ended.at_end(outcome.has_value());
  }
  ended_.emplace_back(std::move(ended.done), std::move(outcome));
}

/// Called for operations that will never end.
void device_thread::end_failed(operation& ended, const error& failure) {
  if (ended.report != nullptr) {
    const auto* const first = reinterpret_cast<const kernel_report*>(slab_.data());
    free_reports_.push_back(static_cast<std::uint32_t>(ended.report - first));
  }
  if (ended.at_end) {
    ended.at_end(false);
  }
  ended_.emplace_back(std::move(ended.done), failure);
}

// The driver does not say which operation has failed, only that one of those in flight
// has.
std::string device_thread::outstanding_labels() const {
  constexpr std::size_t shown = 3;
  std::string text;
  std::size_t count = 0;
  for (const driver_stream& l : streams_) {
    for (const driver_stream::flight& f : l.flights) {
      for (const operation& o : f.operations) {
        if (count < shown) {
          text += (count == 0 ? "" : " or ") + o.label;
        }
        ++count;
      }
    }
  }
  return count > shown ? fmt::format("{} or {} others", text, count - shown) : text;
}

/// The first loss counts. All later calls get this error.
void device_thread::lose(status s, const std::string& label) {
  if (is_lost_) {
    return;
  }
  is_lost_ = true;
  error failure =
      error(errc::device_lost,
            fmt::format("{} is lost: expected success of {}, found {}", facts_.name,
                        label.empty() ? "the driver" : label, text_of(api_, s)))
          .hint("start the program again");
  const std::lock_guard lock(mutex_);
  lost_ = std::move(failure);
}

/// The error of work that still ran when the device was closed.
error device_thread::closed_too_early() const {
  return {errc::device_lost,
          fmt::format("{} was closed: expected the end of its work, found it running "
                      "after the time limit",
                      facts_.name)};
}

/// Completions of everything are due; they are called by `deliver`.
void device_thread::fail_everything() {
  const error failure = lost().value_or(closed_too_early());
  for (driver_stream& l : streams_) {
    for (driver_stream::flight& f : l.flights) {
      events_.push_back(f.event);
      for (operation& o : f.operations) {
        end_failed(o, failure);
      }
    }
    for (operation& o : l.batch) {
      end_failed(o, failure);
    }
    l.flights.clear();
    l.batch.clear();
    l.outstanding = 0;
  }
  for (auto& [work, done] : waiting_) {
    ended_.emplace_back(std::move(done), failure);
  }
  waiting_.clear();
  // Pieces of staged copies are among the operations above.
  for (const auto& copy : staged_) {
    ended_.emplace_back(std::move(copy->done), failure);
  }
  staged_.clear();
}

}  // namespace weir::tessera::cuda
