// SPDX-License-Identifier: Apache-2.0
/// @file
/// Meetings of the ranks of a group: comparing their calls, running the collective, and
/// the answer to each rank.
///
/// Every rank of a group sends its share of the next collective. Shares meet in the
/// rendezvous (`meetings_`) by their sequence number per rank. When all have arrived with
/// equal calls and policies, each share is enqueued on the stream of its rank, and the
/// collective itself runs there; the end of its operations is reported by `ended_call_`,
/// after which `take_answers` returns its answer.
///
/// A share has three states: it waits in the meeting (no `end`), it runs (`end` is set),
/// or it was answered and is gone.
#include "collective/collective_state.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "shim/time_behind.hpp"
#include "weir/tessera/stream/work.hpp"

namespace weir::actors {

namespace {

/// The rendezvous can serve many groups; an actor uses it for one, with this number.
constexpr std::uint64_t group_number = 1;

/// Encodes a policy as a number, so that the rendezvous can compare it.
/// Each flag has its own bit, so equal numbers mean equal policies.
std::uint64_t digest_of_policy(const tessera::numerics_policy& p) noexcept {
  return (p.stable_reductions ? 1U : 0U) | (p.deterministic ? 2U : 0U) |
         (p.stateless_rng ? 4U : 0U) | (p.fast_math ? 8U : 0U);
}

/// Describes a policy for error messages.
std::string text_of(const tessera::numerics_policy& p) {
  return fmt::format("policy of level {}{}{}", p.level(),
                     p.stateless_rng ? "" : ", random numbers with a state",
                     p.fast_math ? ", fast math" : "");
}

/// Describes a call for error messages.
std::string text_of(const collective::collective_call& c) {
  const std::string call = fmt::format("{} of {} {}", collective::name_of(c.kind),
                                       c.count, info_of(c.type).tessera);
  if (collective::reduces(c.kind)) {
    return fmt::format("{} by {}", call, collective::name_of(c.op));
  }
  return fmt::format("{} with root {} and peer {}", call, c.root, c.peer);
}

/// Returns a digest of everything in a call that must be equal on all ranks. The level of
/// determinism does not count: the policy in the descriptor gives it.
// The digest is only compared inside this process.
std::uint64_t digest_of_call(collective::collective_call c) noexcept {
  c.level = 0;
  return collective::digest_of(c);
}

}  // namespace

/// Makes the group, with one stream for each of its ranks, so that the shares of
/// different ranks run side by side.
result<std::unique_ptr<collective_state>> collective_state::make(
    collective_spec spec, std::function<void()> ended) {
  if (spec.mesh == nullptr) {
    return error(errc::invalid_argument,
                 fmt::format("collective group \"{}\" not opened: expected a mesh, found "
                             "none",
                             spec.name));
  }
  std::unique_ptr<collective_state> out(
      new collective_state(std::move(spec), std::move(ended)));
  const collective_spec& s = out->spec_;
  WEIR_TRY(out->ranks_, s.mesh->shape.group_of(s.axes, s.member));
  for (const int rank : out->ranks_) {
    tessera::stream_options bound;
    bound.rank = rank;
    WEIR_TRY(auto queue, tessera::stream::make(s.mesh, bound));
    out->queues_.push_back(std::move(queue));
  }
  WEIR_CHECK(
      out->meetings_.add_group(group_number, static_cast<int>(out->ranks_.size())));
  return out;
}

collective_state::~collective_state() {
  // Closing a stream enqueues an operation, which needs memory.
  for (const auto& queue : queues_) {
    try {
      queue->close();
    } catch (const std::bad_alloc&) {
      queue->context().log(tessera::log_level::info,
                           "stream not closed: expected memory for its end");
    }
  }
}

/// Returns an error of this group. `expected_found` continues "expected ".
/// Every error of a group names it in the text and in the location.
error collective_state::refusal(errc code, std::string expected_found) const {
  return error(code, fmt::format("collective not run in group \"{}\": expected {}",
                                 spec_.name, expected_found))
      .located(fmt::format("collective \"{}\"", spec_.name));
}

/// Lets a rank take part in the next collective. Its call and policy travel as digests,
/// which all ranks of a meeting must have in common. Returns the number under which the
/// answer will come.
result<collective_state::ticket> collective_state::join(const join_order& order,
                                                        std::int64_t now_ns) {
  const auto found = std::find(ranks_.begin(), ranks_.end(), order.rank);
  if (found == ranks_.end()) {
    return refusal(errc::invalid_argument,
                   fmt::format("a rank of the group, found rank {}", order.rank));
  }
  share s;
  // The axes are those of the group, whatever the request says.
  s.order = order;
  s.place = static_cast<std::size_t>(found - ranks_.begin());
  s.order.request.axes = spec_.axes;
  // The operation is made before the share counts: a share that is refused here has no
  // place in the sequence of the rank's collectives.
  WEIR_TRY(s.operation, tessera::make_collective(*queues_[s.place], s.order.request));
  // The sequence number counts the collectives of this rank, so ranks need not arrive in
  // order.
  WEIR_TRY(s.sequence, meetings_.next_sequence(group_number, static_cast<int>(s.place)));
  collective::arrival arrival;
  arrival.group = group_number;
  arrival.rank = static_cast<int>(s.place);
  arrival.sequence = s.sequence;
  arrival.call = digest_of_call(order.request.call);
  arrival.descriptor = digest_of_policy(order.descriptor);
  arrival.ticket = ++tickets_;
  shares_.emplace(arrival.ticket, std::move(s));
  auto outcome = meetings_.join(arrival, now_ns);
  // The rendezvous refuses for example a second share of a rank in one meeting.
  if (!outcome) {
    shares_.erase(arrival.ticket);
    return std::move(outcome).error();
  }
  decide(*outcome, now_ns);
  return arrival.ticket;
}

/// Acts on the outcome of a meeting. A complete meeting under the context's policy begins
/// to run; every other outcome is an error for all ranks. Ranks that arrive later at a
/// failed meeting get the same error, so it is kept until the last one has.
void collective_state::decide(const collective::meeting_outcome& outcome,
                              std::int64_t now_ns) {
  if (outcome.tickets.empty()) {
    return;
  }
  if (outcome.state == collective::meeting_state::complete) {
    const auto& policy = shares_.at(outcome.tickets.front()).order.descriptor;
    // Equal policies can still differ from that of the context, which kernels obey.
    if (policy == spec_.mesh->context->policy()) {
      for (const ticket t : outcome.tickets) {
        begin(shares_.at(t), now_ns);
      }
      return;
    }
  }
  auto found = failures_.find(outcome.sequence);
  if (found == failures_.end()) {
    // The reason is computed once, while the shares that it describes still exist.
    found =
        failures_
            .emplace(outcome.sequence, failed_meeting{failure_of(outcome), ranks_.size()})
            .first;
  }
  for (const ticket t : outcome.tickets) {
    answers_.push_back({t, found->second.reason});
    shares_.erase(t);
    --found->second.unanswered;
  }
  if (found->second.unanswered == 0) {
    failures_.erase(found);
  }
}

/// Enqueues a share on the queue of its rank: it waits for its points, runs its part of
/// the collective, and reports its end. An order's holder is kept alive until then.
/// A point that cannot be waited for makes the share fail in the stream, so that the
/// other ranks, which run already, get an error and do not hang.
void collective_state::begin(share& s, std::int64_t now_ns) {
  tessera::stream& queue = *queues_[s.place];
  for (const event_ptr& point : s.order.wait_points) {
    if (auto waits = queue.wait(*point); !waits) {
      queue.enqueue(tessera::make_failing(std::move(waits).error()));
    }
  }
  // A collective that needs no work for this rank has no operation.
  if (s.operation) {
    queue.enqueue(std::exchange(s.operation, {}));
  }
  if (s.order.holder) {
    queue.enqueue(tessera::make_ref<keep_alive_operation>(s.order.holder));
  }
  // `end` stands behind everything else, so it takes the failures of the whole share.
  s.end = tessera::make_ref<synchronize_operation>(ended_call_);
  s.deadline_ns = time_behind(now_ns, spec_.deadline_ns);
  queue.enqueue(s.end);
}

/// Describes the first two shares whose calls or policies differ.
/// Digests are compared, because calls have fields that need not be equal.
std::string collective_state::difference(const std::vector<ticket>& tickets) const {
  const share& first = shares_.at(tickets.front());
  const auto other = std::find_if(tickets.begin(), tickets.end(), [&](const ticket t) {
    const join_order& o = shares_.at(t).order;
    return digest_of_call(o.request.call) != digest_of_call(first.order.request.call) ||
           !(o.descriptor == first.order.descriptor);
  });
  // A difference is always found; the first share stands in if it were not.
  const share& second = shares_.at(other == tickets.end() ? tickets.front() : *other);
  const auto text = [](const share& s) {
    return fmt::format("rank {} with {} under a {}", s.order.rank,
                       text_of(s.order.request.call), text_of(s.order.descriptor));
  };
  return fmt::format("{} and {}", text(first), text(second));
}

/// Lists the ranks that are not among the shares.
std::string collective_state::missing(const std::vector<ticket>& tickets) const {
  std::vector<int> present;
  for (const ticket t : tickets) {
    present.push_back(shares_.at(t).order.rank);
  }
  std::string out;
  for (const int rank : ranks_) {
    if (std::find(present.begin(), present.end(), rank) == present.end()) {
      out += fmt::format("{}{}", out.empty() ? "" : ", ", rank);
    }
  }
  return out;
}

/// Returns the error for the ranks of a meeting that does not run, by its outcome.
error collective_state::failure_of(const collective::meeting_outcome& outcome) const {
  switch (outcome.state) {
    case collective::meeting_state::collective_mismatch:
      return refusal(errc::collective_mismatch,
                     fmt::format("all ranks to make equal calls, found {}",
                                 difference(outcome.tickets)));
    case collective::meeting_state::determinism_violation:
      return refusal(errc::determinism_violation,
                     fmt::format("all ranks to have one policy, found {}",
                                 difference(outcome.tickets)));
    // Complete, but under another policy than the context has.
    case collective::meeting_state::complete:
      return refusal(
          errc::determinism_violation,
          fmt::format("the {} of the context, found a {}",
                      text_of(spec_.mesh->context->policy()),
                      text_of(shares_.at(outcome.tickets.front()).order.descriptor)));
    default:
      return refusal(
          errc::timeout,
          fmt::format("{} ranks to join within {} ms, found {}: rank {} did not join",
                      ranks_.size(), spec_.deadline_ns / 1'000'000,
                      outcome.tickets.size(), missing(outcome.tickets)));
  }
}

/// Returns the answer to a share that has ended.
/// The sequence number is the answer of success.
result<std::uint64_t> collective_state::outcome_of(const share& s) const {
  if (!s.end->failures()) {
    return s.sequence;
  }
  const error& cause = *s.end->failures().error;
  return refusal(cause.code(), fmt::format("the share of rank {} to succeed, found that "
                                           "it or what it waited for failed",
                                           s.order.rank))
      .because(cause);
}

/// Returns the answers that are ready. A meeting for which some ranks did not come in
/// time fails for all of them. A share that runs for too long gets an error, but cannot
/// be stopped, so the end of its operation is not reported any more.
std::vector<collective_state::answer> collective_state::take_answers(
    std::int64_t now_ns) {
  for (const auto& expired : meetings_.expire(now_ns)) {
    decide(expired, now_ns);
  }
  // Every share that has begun is looked at; shares that only wait have their deadline in
  // the meeting.
  for (auto s = shares_.begin(); s != shares_.end();) {
    const bool begun = static_cast<bool>(s->second.end);
    const bool done = begun && s->second.end->done();
    if (done) {
      answers_.push_back({s->first, outcome_of(s->second)});
    } else if (begun && s->second.deadline_ns <= now_ns) {
      answers_.push_back(
          {s->first,
           refusal(errc::timeout,
                   fmt::format("the share of rank {} to end within {} ms of the meeting, "
                               "found it running",
                               s->second.order.rank, spec_.deadline_ns / 1'000'000))
               .hint("the share still runs; only its answer is late")});
    } else {
      ++s;
      continue;
    }
    s = shares_.erase(s);
  }
  return std::exchange(answers_, {});
}

/// The earliest of the meetings and of the running shares.
std::int64_t collective_state::next_deadline() const noexcept {
  std::int64_t out = meetings_.next_deadline();
  for (const auto& [number, s] : shares_) {
    if (s.end) {
      out = std::min(out, s.deadline_ns);
    }
  }
  return out;
}

/// Counts the shares for the status line.
std::string collective_state::describe() const {
  const auto running = std::count_if(shares_.begin(), shares_.end(), [](const auto& s) {
    return static_cast<bool>(s.second.end);
  });
  return fmt::format("collective \"{}\" of {} ranks: {} shares run, {} wait for others",
                     spec_.name, ranks_.size(), running,
                     static_cast<std::ptrdiff_t>(shares_.size()) - running);
}

}  // namespace weir::actors
