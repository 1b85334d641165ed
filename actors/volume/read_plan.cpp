// SPDX-License-Identifier: Apache-2.0
/// @file
/// The first part of `read_plan`: requests, credits, deadlines and answers. The jobs of
/// the workers are in `read_jobs.cpp`.
///
/// The plan is the reader without actors: it gets requests, results and the time, and
/// returns jobs and answers. A stream has two ways of reading. Pulls deliver it piece by
/// piece, in order, and pieces are read ahead into slots. `read` and `fill` take any
/// range and do not touch the sequence.
///
/// Every request is a ticket with a deadline. A request leaves the table when it is
/// answered, whatever its jobs still do.
#include "volume/read_plan.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "shim/time_behind.hpp"

namespace weir::actors {

namespace {

/// For texts.
double seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

}  // namespace

/// All workers are idle at first.
read_plan::read_plan(settings s, std::size_t workers)
    : settings_(s), credits_(s.credits), workers_(workers) {}

/// Pieces are whole payloads of blocks, so that no block is read and verified twice.
read_plan::stream_id read_plan::add_stream(std::string name, std::uint64_t bytes,
                                           std::uint32_t payload,
                                           std::int64_t deadline_ns) {
  stream s;
  s.name = std::move(name);
  s.bytes = bytes;
  s.piece = align_up<std::uint64_t>(std::max<std::uint64_t>(settings_.piece, 1),
                                    std::max<std::uint32_t>(payload, 1));
  s.deadline_ns = deadline_ns > 0 ? deadline_ns : settings_.deadline_ns;
  streams_.emplace(++last_stream_, std::move(s));
  return last_stream_;
}

/// Closes a stream. Every request that is unanswered gets an error, and the buffers of
/// pieces that were read ahead are free again. A worker that still reads for the stream
/// is not interrupted: its result is dropped when it comes.
void read_plan::close(stream_id id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) {
    return;
  }
  std::vector<ticket_id> unanswered;
  for (const auto& [number, t] : tickets_) {
    if (t.stream == id) {
      unanswered.push_back(number);
    }
  }
  for (const ticket_id number : unanswered) {
    answer_ticket(number,
                  error(errc::interrupted, fmt::format("reading {} failed: the stream "
                                                       "was closed",
                                                       found->second.name)));
  }
  // Slots of pieces that are being read count as well; their memory stays alive with the
  // job.
  credits_ += found->second.slots.size();
  streams_.erase(found);
}

/// Returns whether a worker has had its job for longer than the deadline of requests.
/// Such a worker may still answer; it counts as absent only as long as it does not.
bool read_plan::is_stuck(const worker_state& r, std::int64_t now) const {
  return r.job && now - jobs_.at(*r.job).since > settings_.deadline_ns;
}

/// A request that no worker could take would only run into its deadline, so it is refused
/// at once, with the state of all workers as a hint.
result<void> read_plan::check_workers(std::int64_t now) const {
  const bool any =
      std::any_of(workers_.begin(), workers_.end(),
                  [&](const worker_state& r) { return !r.lost && !is_stuck(r, now); });
  if (any) {
    return {};
  }
  return error(errc::timeout,
               fmt::format("reading a volume failed: expected one of {} workers to "
                           "answer, found that none does",
                           workers_.size()))
      .hint(describe(now));
}

/// Returns the stream if it may take one more request: it is open, it has fewer requests
/// than the limit, and at least one worker answers.
result<read_plan::stream*> read_plan::usable(stream_id id, std::int64_t now) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) {
    return error(errc::not_found,
                 fmt::format("reading stream {} failed: expected an open one, found {} "
                             "others",
                             id, streams_.size()));
  }
  if (found->second.requests >= settings_.requests) {
    return error(errc::out_of_range,
                 fmt::format("reading {} failed: expected at most {} unanswered "
                             "requests, found one more",
                             found->second.name, settings_.requests));
  }
  WEIR_CHECK(check_workers(now));
  return &found->second;
}

/// The deadline counts from the request, not from the first job.
read_plan::ticket_id read_plan::add_ticket(stream& s, ticket t, std::int64_t now) {
  t.deadline = time_behind(now, s.deadline_ns);
  ++s.requests;
  tickets_.emplace(++last_ticket_, std::move(t));
  return last_ticket_;
}

/// Requests the next piece of the sequence. At the end of the stream the answer is a
/// piece of 0 bytes, as often as it is asked for. After a failed pull, all later ones
/// fail with the same error.
result<read_plan::ticket_id> read_plan::pull(stream_id id, std::int64_t now) {
  WEIR_TRY(stream* const s, usable(id, now));
  if (s->failure) {
    return *s->failure;
  }
  ticket t;
  t.stream = id;
  t.pulls = true;
  t.offset = s->next_pull * s->piece;
  t.size = t.offset < s->bytes ? std::min(s->piece, s->bytes - t.offset) : 0;
  const bool ended = t.size == 0;
  const std::uint64_t offset = t.offset;
  const ticket_id number = add_ticket(*s, std::move(t), now);
  // The end needs no worker.
  if (ended) {
    answer_ticket(number, volume_piece{std::min(offset, s->bytes), nullptr, 0});
    return number;
  }
  return take_ready(*s, number, s->next_pull++);
}

/// Lets a pull take piece `index`. If the piece was read, the pull is answered. If it is
/// being read, it will be answered then. Otherwise it waits in line for a worker.
/// Called for a pull when it is made, and by `finish_ahead` when its piece has come.
read_plan::ticket_id read_plan::take_ready(stream& s, ticket_id id, std::uint64_t index) {
  // What is pulled now need not be read ahead.
  s.next_ahead = std::max(s.next_ahead, s.next_pull);
  const auto found = s.slots.find(index);
  // Reading ahead has not come so far; a worker reads the piece for this pull.
  if (found == s.slots.end()) {
    s.waiting.push_back(id);
    return id;
  }
  if (!found->second.outcome) {
    found->second.wanted_by = id;
    return id;
  }
  // The slot is free again, and the answer takes its buffer along.
  const slot ready = std::move(found->second);
  s.slots.erase(found);
  ++credits_;
  if (*ready.outcome) {
    answer_ticket(id, volume_piece{index * s.piece, ready.bytes, **ready.outcome});
  } else {
    answer_ticket(id, ready.outcome->error());
  }
  return id;
}

/// Adds a request of `read` or `fill` to the line of its stream. Nothing to read is
/// answered at once.
read_plan::ticket_id read_plan::queue(stream& s, ticket t, std::int64_t now) {
  const bool nothing = t.size == 0;
  const std::uint64_t offset = t.offset;
  const ticket_id number = add_ticket(s, std::move(t), now);
  if (nothing) {
    answer_ticket(number, volume_piece{offset, nullptr, 0});
  } else {
    s.waiting.push_back(number);
  }
  return number;
}

/// Requests a range, which is cut to one piece and to the end of the stream.
result<read_plan::ticket_id> read_plan::read(stream_id id, std::uint64_t offset,
                                             std::uint64_t bytes, std::int64_t now) {
  WEIR_TRY(stream* const s, usable(id, now));
  if (offset >= s->bytes && bytes > 0) {
    return error(errc::out_of_range,
                 fmt::format("reading {} failed: expected an offset below {}, found {}",
                             s->name, s->bytes, offset));
  }
  ticket t;
  t.stream = id;
  t.offset = offset;
  t.size = offset < s->bytes ? std::min({bytes, s->piece, s->bytes - offset}) : 0;
  return queue(*s, std::move(t), now);
}

/// Requests a range that is read straight into the memory of the caller. It has to lie
/// inside the stream completely, since a part of it would be of no use.
result<read_plan::ticket_id> read_plan::fill(stream_id id, std::uint64_t offset,
                                             fill_target target, std::int64_t now) {
  WEIR_TRY(stream* const s, usable(id, now));
  if (offset > s->bytes || target.memory.size() > s->bytes - offset) {
    return error(errc::out_of_range,
                 fmt::format("reading {} failed: expected a range inside {} bytes, found "
                             "{} bytes at {}",
                             s->name, s->bytes, target.memory.size(), offset));
  }
  ticket t;
  t.stream = id;
  t.offset = offset;
  t.size = target.memory.size();
  t.target = std::move(target);
  return queue(*s, std::move(t), now);
}

/// Requests the opening of a volume, which any worker can do. There is no stream yet, so
/// the limit of requests does not apply.
result<read_plan::ticket_id> read_plan::open(std::int64_t now, std::int64_t deadline_ns) {
  WEIR_CHECK(check_workers(now));
  ticket t;
  t.deadline = time_behind(now, deadline_ns > 0 ? deadline_ns : settings_.deadline_ns);
  tickets_.emplace(++last_ticket_, std::move(t));
  openings_.push_back(last_ticket_);
  return last_ticket_;
}

/// Ends the sequence of pulls of a stream: later pulls get the same error, and pieces
/// that were read ahead are dropped.
/// Slots that are still being read stay until their jobs end; see `finish_ahead`.
void read_plan::end_sequence(stream& s, const error& reason) {
  if (s.failure) {
    return;
  }
  s.failure = reason;
  credits_ += std::erase_if(
      s.slots, [](const auto& each) { return each.second.outcome.has_value(); });
}

/// Ends a request with its outcome. A pull that failed ends the sequence, because the
/// pieces behind a gap must not be delivered as if they followed.
void read_plan::answer_ticket(ticket_id id, result<volume_piece> outcome) {
  const auto found = tickets_.find(id);
  if (found == tickets_.end()) {
    return;
  }
  const auto owner = streams_.find(found->second.stream);
  if (owner != streams_.end()) {
    --owner->second.requests;
    if (!outcome && found->second.pulls) {
      end_sequence(owner->second, outcome.error());
    }
  }
  tickets_.erase(found);
  answers_.push_back({id, std::move(outcome)});
}

/// Describes a request that was not answered in time. The hint says what each worker is
/// doing.
// The ticket of an opening has no stream.
error read_plan::overdue(const ticket& t, std::int64_t now) const {
  const auto owner = streams_.find(t.stream);
  if (owner == streams_.end()) {
    return error(errc::timeout,
                 fmt::format("opening a volume failed: expected an answer within {:.3g} "
                             "s, found none",
                             seconds(settings_.deadline_ns)))
        .hint(describe(now));
  }
  return error(errc::timeout,
               fmt::format("reading {} bytes of {} at {} failed: expected them within "
                           "{:.3g} s, found {} bytes read",
                           t.size, owner->second.name, t.offset,
                           seconds(owner->second.deadline_ns), t.done))
      .hint(describe(now));
}

/// Answers all requests whose deadline has passed with a timeout. Their numbers are
/// collected first, because an answer changes the table.
void read_plan::expire(std::int64_t now) {
  std::vector<ticket_id> late;
  for (const auto& [id, t] : tickets_) {
    if (t.deadline <= now) {
      late.push_back(id);
    }
  }
  for (const ticket_id id : late) {
    answer_ticket(id, overdue(tickets_.at(id), now));
  }
}

/// The actor sets its timer to this time; nothing if no request is open.
std::optional<std::int64_t> read_plan::next_deadline() const {
  const auto first = std::min_element(
      tickets_.begin(), tickets_.end(),
      [](const auto& x, const auto& y) { return x.second.deadline < y.second.deadline; });
  return first == tickets_.end() ? std::nullopt : std::optional(first->second.deadline);
}

std::vector<read_plan::answer> read_plan::take_answers() {
  return std::exchange(answers_, {});
}

std::size_t read_plan::ahead(stream_id id) const {
  const auto found = streams_.find(id);
  return found == streams_.end() ? 0 : found->second.slots.size();
}

/// Describes the plan in one line: counts, and what each busy or lost worker is doing.
std::string read_plan::describe(std::int64_t now) const {
  std::string text =
      fmt::format("{} streams, {} requests unanswered, {} of {} credits free",
                  streams_.size(), tickets_.size(), credits_, settings_.credits);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const worker_state& r = workers_[i];
    if (r.lost) {
      text += fmt::format("; worker {} has ended", i);
    } else if (r.job) {
      const running& j = jobs_.at(*r.job);
      const auto owner = streams_.find(j.stream);
      text += fmt::format(
          "; worker {} at byte {} of {} for {:.3g} s", i, j.offset,
          owner == streams_.end() ? std::string("a volume") : owner->second.name,
          seconds(now - j.since));
    }
  }
  return text;
}

}  // namespace weir::actors
