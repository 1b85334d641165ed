// SPDX-License-Identifier: Apache-2.0
/// @file
/// Meetings of ranks: who comes, what runs, who is told what.
#include "collective/collective_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "weir/tessera/stream/work.hpp"

namespace weir::actors {

namespace {

constexpr std::uint64_t the_group = 1;

std::uint64_t digest_of_policy(const tessera::numerics_policy& p) noexcept {
  return (p.stable_reductions ? 1U : 0U) | (p.deterministic ? 2U : 0U) |
         (p.stateless_rng ? 4U : 0U) | (p.fast_math ? 8U : 0U);
}

std::string text_of(const tessera::numerics_policy& p) {
  return fmt::format("policy of level {}{}{}", p.level(),
                     p.stateless_rng ? "" : ", random numbers with a state",
                     p.fast_math ? ", fast math" : "");
}

std::string text_of(const collective::collective_call& c) {
  const std::string what = fmt::format("{} of {} {}", collective::name_of(c.kind),
                                       c.count, info_of(c.type).tessera);
  if (collective::reduces(c.kind)) {
    return fmt::format("{} by {}", what, collective::name_of(c.op));
  }
  return fmt::format("{} with root {} and peer {}", what, c.root, c.peer);
}

/// What ranks compare. The level is a matter of the descriptor.
std::uint64_t digest_of_call(collective::collective_call c) noexcept {
  c.level = 0;
  return collective::digest_of(c);
}

}  // namespace

result<std::unique_ptr<collective_state>> collective_state::make(
    collective_spec spec, std::function<void()> ended) {
  if (spec.on == nullptr) {
    return error(errc::invalid_argument,
                 fmt::format("collective group \"{}\" not opened: expected a mesh, found "
                             "none",
                             spec.name));
  }
  std::unique_ptr<collective_state> out(
      new collective_state(std::move(spec), std::move(ended)));
  const collective_spec& s = out->spec_;
  WEIR_TRY(out->ranks_, s.on->shape.group_of(s.axes, s.member));
  for (const int rank : out->ranks_) {
    tessera::stream_options bound;
    bound.rank = rank;
    WEIR_TRY(auto queue, tessera::stream::make(s.on, bound));
    out->queues_.push_back(std::move(queue));
  }
  WEIR_CHECK(out->meetings_.add_group(the_group, static_cast<int>(out->ranks_.size())));
  return out;
}

collective_state::~collective_state() {
  for (const auto& queue : queues_) {
    try {
      queue->close();
    } catch (const std::bad_alloc&) {
      queue->of().log(tessera::log_level::info,
                      "stream not closed: expected memory for its end");
    }
  }
}

error collective_state::refusal(errc code, std::string expected_found) const {
  return error(code, fmt::format("collective not run in group \"{}\": expected {}",
                                 spec_.name, expected_found))
      .at(fmt::format("collective \"{}\"", spec_.name));
}

result<collective_state::ticket> collective_state::join(const join_order& order,
                                                        std::int64_t now_ns) {
  const auto at = std::find(ranks_.begin(), ranks_.end(), order.rank);
  if (at == ranks_.end()) {
    return refusal(errc::invalid_argument,
                   fmt::format("a rank of the group, found rank {}", order.rank));
  }
  share s;
  s.order = order;
  s.place = static_cast<std::size_t>(at - ranks_.begin());
  s.order.what.axes = spec_.axes;
  WEIR_TRY(s.what, tessera::make_collective(*queues_[s.place], s.order.what));
  WEIR_TRY(s.sequence, meetings_.next_sequence(the_group, static_cast<int>(s.place)));
  collective::arrival who;
  who.group = the_group;
  who.rank = static_cast<int>(s.place);
  who.sequence = s.sequence;
  who.call = digest_of_call(order.what.call);
  who.descriptor = digest_of_policy(order.descriptor);
  who.ticket = ++tickets_;
  shares_.emplace(who.ticket, std::move(s));
  auto met = meetings_.join(who, now_ns);
  if (!met) {
    shares_.erase(who.ticket);
    return std::move(met).error();
  }
  decide(*met, now_ns);
  return who.ticket;
}

void collective_state::decide(const collective::meeting_outcome& what,
                              std::int64_t now_ns) {
  if (what.tickets.empty()) {
    return;
  }
  if (what.state == collective::meeting_state::complete) {
    const auto& asked = shares_.at(what.tickets.front()).order.descriptor;
    if (asked == spec_.on->of->policy()) {
      for (const ticket t : what.tickets) {
        begin(shares_.at(t), now_ns);
      }
      return;
    }
  }
  auto found = verdicts_.find(what.sequence);
  if (found == verdicts_.end()) {
    found = verdicts_.emplace(what.sequence, verdict{why(what), ranks_.size()}).first;
  }
  for (const ticket t : what.tickets) {
    answers_.push_back({t, found->second.why});
    shares_.erase(t);
    --found->second.to_hear;
  }
  if (found->second.to_hear == 0) {
    verdicts_.erase(found);
  }
}

void collective_state::begin(share& s, std::int64_t now_ns) {
  tessera::stream& queue = *queues_[s.place];
  for (const event_ptr& point : s.order.after) {
    if (auto waits = queue.wait(*point); !waits) {
      queue.enqueue(tessera::make_failing(std::move(waits).error()));
    }
  }
  if (s.what) {
    queue.enqueue(std::exchange(s.what, {}));
  }
  if (s.order.holder) {
    queue.enqueue(tessera::make_ref<keeping>(s.order.holder));
  }
  s.end = tessera::make_ref<settling>(ended_call_);
  s.deadline_ns = now_ns + spec_.deadline_ns;
  queue.enqueue(s.end);
}

std::string collective_state::difference(const std::vector<ticket>& tickets) const {
  const share& first = shares_.at(tickets.front());
  const auto other = std::find_if(tickets.begin(), tickets.end(), [&](const ticket t) {
    const join_order& o = shares_.at(t).order;
    return digest_of_call(o.what.call) != digest_of_call(first.order.what.call) ||
           !(o.descriptor == first.order.descriptor);
  });
  const share& second = shares_.at(other == tickets.end() ? tickets.front() : *other);
  const auto text = [](const share& s) {
    return fmt::format("rank {} with {} under a {}", s.order.rank,
                       text_of(s.order.what.call), text_of(s.order.descriptor));
  };
  return fmt::format("{} and {}", text(first), text(second));
}

std::string collective_state::missing(const std::vector<ticket>& tickets) const {
  std::vector<int> there;
  for (const ticket t : tickets) {
    there.push_back(shares_.at(t).order.rank);
  }
  std::string out;
  for (const int rank : ranks_) {
    if (std::find(there.begin(), there.end(), rank) == there.end()) {
      out += fmt::format("{}{}", out.empty() ? "" : ", ", rank);
    }
  }
  return out;
}

error collective_state::why(const collective::meeting_outcome& what) const {
  switch (what.state) {
    case collective::meeting_state::collective_mismatch:
      return refusal(
          errc::collective_mismatch,
          fmt::format("all ranks to call the same, found {}", difference(what.tickets)));
    case collective::meeting_state::determinism_violation:
      return refusal(
          errc::determinism_violation,
          fmt::format("all ranks under one policy, found {}", difference(what.tickets)));
    case collective::meeting_state::complete:
      return refusal(
          errc::determinism_violation,
          fmt::format("the {} of the context, found a {}",
                      text_of(spec_.on->of->policy()),
                      text_of(shares_.at(what.tickets.front()).order.descriptor)));
    default:
      return refusal(errc::timeout,
                     fmt::format("{} ranks within {} ms, found {}: no word of rank {}",
                                 ranks_.size(), spec_.deadline_ns / 1'000'000,
                                 what.tickets.size(), missing(what.tickets)));
  }
}

result<std::uint64_t> collective_state::outcome_of(const share& s) const {
  if (!s.end->found()) {
    return s.sequence;
  }
  const error& cause = *s.end->found().what;
  return refusal(cause.code(), fmt::format("the share of rank {} to succeed, found that "
                                           "it or what it waited for failed",
                                           s.order.rank))
      .because(cause);
}

std::vector<collective_state::answer> collective_state::take_answers(
    std::int64_t now_ns) {
  for (const auto& over : meetings_.expire(now_ns)) {
    decide(over, now_ns);
  }
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
               .hint("its work goes on")});
    } else {
      ++s;
      continue;
    }
    s = shares_.erase(s);
  }
  return std::exchange(answers_, {});
}

std::int64_t collective_state::next_deadline() const noexcept {
  std::int64_t out = meetings_.next_deadline();
  for (const auto& [number, s] : shares_) {
    if (s.end) {
      out = std::min(out, s.deadline_ns);
    }
  }
  return out;
}

std::string collective_state::describe() const {
  const auto running = std::count_if(shares_.begin(), shares_.end(), [](const auto& s) {
    return static_cast<bool>(s.second.end);
  });
  return fmt::format("collective \"{}\" of {} ranks: {} shares run, {} wait for others",
                     spec_.name, ranks_.size(), running,
                     static_cast<std::ptrdiff_t>(shares_.size()) - running);
}

}  // namespace weir::actors
