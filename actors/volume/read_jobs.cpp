// SPDX-License-Identifier: Apache-2.0
/// @file
/// The second part of `read_plan`: the jobs that workers get, and what their results mean
/// for the requests.
///
/// A job is a piece of work for one worker: opening a volume, reading for a request, or
/// reading ahead. A worker has one job at a time. Results arrive in any order and may
/// come after the request has been answered (its deadline has passed) or its stream was
/// closed; such results free the worker and are dropped.
///
/// Memory that a job writes to is kept alive by `job::holder`, because a late worker may
/// still write after the request is gone.
#include <fmt/core.h>

#include <algorithm>

#include "volume/read_plan.hpp"

namespace weir::actors {

namespace {

/// Calls `take` for each entry of a map, beginning behind the key `last`, until it
/// returns true. Returns whether it has.
/// The order of keys with a remembered key gives each stream its turn.
template <class Map, class F>
bool round_robin(Map& map, typename Map::key_type last, F take) {
  auto entry = map.upper_bound(last);
  for (std::size_t i = 0; i < map.size(); ++i, ++entry) {
    entry = entry == map.end() ? map.begin() : entry;
    if (take(entry->first, entry->second)) {
      return true;
    }
  }
  return false;
}

}  // namespace

/// Registers a job of an idle worker.
/// @pre The worker is idle.
read_plan::job read_plan::begin(std::size_t worker, running r, mutable_bytes memory,
                                std::shared_ptr<const void> holder) {
  // Numbers of jobs are never used twice, so an old result cannot meet a new job.
  job j;
  j.id = ++last_job_;
  j.worker = r.worker = worker;
  j.stream = r.stream;
  j.ticket = r.ticket;
  j.offset = r.offset;
  j.memory = memory;
  j.holder = std::move(holder);
  r.size = memory.size();
  workers_[worker].job = j.id;
  jobs_.emplace(j.id, r);
  return j;
}

/// Chooses the next job for an idle worker. Openings come first, then requests that
/// somebody waits for, and reading ahead only if a worker would otherwise be idle.
// @param now  Time of the actor's clock. @units{nanoseconds}
std::optional<read_plan::job> read_plan::next_job(std::int64_t now) {
  const auto idle = std::find_if(workers_.begin(), workers_.end(),
                                 [](const worker_state& r) { return !r.lost && !r.job; });
  if (idle == workers_.end()) {
    return std::nullopt;
  }
  const auto index = static_cast<std::size_t>(idle - workers_.begin());
  if (auto j = next_opening(index, now)) {
    return j;
  }
  if (auto j = next_request(index, now)) {
    return j;
  }
  return next_ahead(index, now);
}

/// Takes the oldest opening that was not answered with a timeout in the meantime.
std::optional<read_plan::job> read_plan::next_opening(std::size_t worker,
                                                      std::int64_t now) {
  while (!openings_.empty()) {
    const ticket_id id = openings_.front();
    openings_.pop_front();
    // Its deadline may have passed while it waited.
    if (tickets_.count(id) != 0) {
      running r;
      r.ticket = id;
      r.since = now;
      return begin(worker, r, {}, nullptr);
    }
  }
  return std::nullopt;
}

/// Removes requests that were answered or have failed from the front of the line: nothing
/// more is read for them.
/// Requests that were answered late are only removed here, not where they end.
void read_plan::drop_ended(stream& s) const {
  while (!s.waiting.empty()) {
    const auto found = tickets_.find(s.waiting.front());
    if (found != tickets_.end() && !found->second.failure) {
      return;
    }
    s.waiting.pop_front();
  }
}

/// Returns a job for the oldest request of the stream whose turn it is. A request that is
/// larger than a piece becomes several jobs, which several workers may have at a time.
std::optional<read_plan::job> read_plan::next_request(std::size_t worker,
                                                      std::int64_t now) {
  std::optional<job> out;
  round_robin(streams_, turn_, [&](stream_id id, stream& s) {
    // Requests that are gone must not take a turn.
    drop_ended(s);
    if (s.waiting.empty()) {
      return false;
    }
    turn_ = id;
    // The next part of the request that no worker has.
    running r;
    r.ticket = s.waiting.front();
    r.stream = id;
    r.since = now;
    ticket& t = tickets_.at(r.ticket);
    r.offset = t.offset + t.begun;
    const std::uint64_t size = std::min(s.piece, t.size - t.begun);
    // A request without memory of the caller gets a buffer of its own. It is at most a
    // piece, so it is one job.
    if (t.target.memory.empty()) {
      t.bytes = std::make_shared<byte_vector>(static_cast<std::size_t>(size));
      out = begin(worker, r, *t.bytes, t.bytes);
    } else {
      out = begin(worker, r,
                  t.target.memory.subspan(static_cast<std::size_t>(t.begun),
                                          static_cast<std::size_t>(size)),
                  t.target.holder);
    }
    // With the last part handed out, the request leaves the line but not the table.
    t.begun += size;
    ++t.running;
    if (t.begun == t.size) {
      s.waiting.pop_front();
    }
    return true;
  });
  return out;
}

/// Returns a job that reads a piece ahead, if there is a credit and a stream whose window
/// is not full.
std::optional<read_plan::job> read_plan::next_ahead(std::size_t worker,
                                                    std::int64_t now) {
  std::optional<job> out;
  if (credits_ == 0) {
    return out;
  }
  // Slots exist from here on until the piece is pulled, so `window` bounds them per
  // stream and `credits_` over all streams.
  round_robin(streams_, turn_, [&](stream_id id, stream& s) {
    const std::uint64_t offset = s.next_ahead * s.piece;
    if (s.failure || s.next_ahead >= s.next_pull + settings_.window ||
        offset >= s.bytes) {
      return false;
    }
    turn_ = id;
    slot& ahead = s.slots[s.next_ahead];
    ahead.bytes = std::make_shared<byte_vector>(
        static_cast<std::size_t>(std::min(s.piece, s.bytes - offset)));
    --credits_;
    running r;
    r.stream = id;
    r.ahead = s.next_ahead++;
    r.offset = offset;
    r.since = now;
    out = begin(worker, r, *ahead.bytes, ahead.bytes);
    return true;
  });
  return out;
}

/// Keeps a piece that was read ahead, or answers the pull that waits for it.
/// @pre The slot of the piece exists: only `close` removes slots that are being read, and
/// then the job is ignored.
void read_plan::finish_ahead(const running& r, result<std::uint64_t> outcome) {
  stream& s = streams_.at(r.stream);
  const auto found = s.slots.find(*r.ahead);
  const ticket_id wanted = found->second.wanted_by;
  found->second.outcome = std::move(outcome);
  if (wanted != 0 && tickets_.count(wanted) != 0) {
    take_ready(s, wanted, *r.ahead);
  } else if (wanted != 0 || s.failure) {
    // The pull was answered `timeout`, or the stream has failed: the piece will never be
    // pulled.
    s.slots.erase(found);
    ++credits_;
  }
}

/// Adds the result of a job to its request. A failed request is answered when none of its
/// jobs runs any more, because they write to its memory; the failure at the lowest offset
/// counts.
void read_plan::finish_request(const running& r, result<std::uint64_t> outcome) {
  const auto found = tickets_.find(r.ticket);
  if (found == tickets_.end()) {
    return;  // the stream was closed, or the deadline has passed
  }
  ticket& t = found->second;
  --t.running;
  // Progress is reported per job, on the thread of the reader.
  if (outcome) {
    t.done += r.size;
    if (t.target.progress) {
      t.target.progress(t.done, t.size);
    }
  } else if (r.offset < t.failed_at) {
    t.failed_at = r.offset;
    t.failure = std::move(outcome).error();
  }
  // The failure waits until no worker writes to the memory any more.
  if (t.running == 0 && t.failure) {
    answer_ticket(r.ticket, std::move(*t.failure));
  } else if (t.done == t.size) {
    answer_ticket(r.ticket, volume_piece{t.offset, t.bytes, t.done});
  }
}

/// Takes the outcome of a job and frees its worker. Fewer bytes than requested count as
/// an error, `torn`, because sizes were checked against the volume when the request was
/// made. The opening of a volume answers only on failure here; its success comes through
/// `opened`.
void read_plan::finished(std::uint64_t id, result<std::uint64_t> outcome) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return;
  }
  const running r = found->second;
  jobs_.erase(found);
  workers_[r.worker].job.reset();
  if (outcome && *outcome != r.size) {
    outcome = error(errc::torn, fmt::format("reading a volume failed: expected {} bytes "
                                            "at {}, found {}",
                                            r.size, r.offset, *outcome));
  }
  // Stream 0 stands for an opening.
  if (r.stream == 0) {
    if (!outcome) {
      answer_ticket(r.ticket, std::move(outcome).error());
    }
  } else if (streams_.count(r.stream) == 0) {
    return;  // the stream was closed in the meantime, which has returned its credits
  } else if (r.ahead) {
    finish_ahead(r, std::move(outcome));
  } else {
    finish_request(r, std::move(outcome));
  }
}

/// Takes the success of an opening. Returns false if its request is no longer open, so
/// that the caller closes the volume again.
bool read_plan::opened(std::uint64_t id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return false;
  }
  workers_[found->second.worker].job.reset();
  const bool in_time = tickets_.erase(found->second.ticket) != 0;
  jobs_.erase(found);
  return in_time;
}

/// Gives up a worker that has ended or hangs. Its job fails as if the worker had answered
/// with the reason.
void read_plan::lose_worker(std::size_t worker, const error& reason) {
  workers_[worker].lost = true;
  if (workers_[worker].job) {
    finished(*workers_[worker].job, reason);
  }
}

}  // namespace weir::actors
