// SPDX-License-Identifier: Apache-2.0
/// @file
/// Meetings of ranks: who comes, who is told what.
#include "stream/rank_share.hpp"

#include <utility>

#include <fmt/format.h>

#include "weir/base/clock.hpp"
#include "weir/runtime/stream/meeting_point.hpp"
#include "weir/runtime/stream/work.hpp"

namespace weir::runtime {
namespace {

constexpr unsigned wire_bits = 56;

/// A number that ranks of one group, and no others, have in common.
std::uint64_t group_number(const mesh& m, axis_set axes, int lowest) {
  return m.number << 32 | std::uint64_t{axes} << 24 | static_cast<std::uint64_t>(lowest);
}
/// The same for the two of a send: no axis has that number.
std::uint64_t pair_number(const mesh& m, int source, int target) {
  static_assert(max_ranks <= 1 << 12);
  return m.number << 32 | static_cast<std::uint64_t>(source) << 12 |
         static_cast<std::uint64_t>(target);
}
std::uint64_t number_of(const mesh& m, const rank_share& share) {
  return share.request.call.kind == collective_kind::send
             ? pair_number(m, share.ranks.front(), share.ranks.back())
             : group_number(m, share.request.axes, share.ranks.front());
}

error why_ended(const meeting_outcome& what, std::string_view name) {
  const auto text = [&](std::string_view expected, std::string_view found) {
    return fmt::format("collective not run \"{}\": expected {}, found {}", name, expected,
                       found);
  };
  switch (what.state) {
    case meeting_state::collective_mismatch:
      return {errc::collective_mismatch,
              text("all ranks of the group to call the same", "calls that differ")};
    case meeting_state::determinism_violation:
      return {errc::determinism_violation,
              text("all ranks of the group under one policy", "policies that differ")};
    case meeting_state::cancelled:
      return {errc::timeout, text("all ranks of the group",
                                  "that they will not come: the mesh is gone")};
    default:
      return {errc::timeout, text("all ranks of the group in time",
                                  fmt::format("{} of them", what.tickets.size()))};
  }
}

}  // namespace

rank_share::rank_share(std::shared_ptr<const collective_plan> plan_of,
                       collective_choice how_to, const collective_request& what,
                       std::vector<int> group, std::uint64_t descriptor_of)
    : lane_operation(kind::other),
      plan(std::move(plan_of)),
      how(how_to),
      request(what),
      ranks(std::move(group)),
      descriptor(descriptor_of) {}

void rank_share::admitted(submission_port::session& in, stream& of) {
  on = of.shared_from_this();
  of.hold();
  of.of().meetings().join(in, ref<rank_share>(this));
}

void rank_share::end(submission_port::session& in, const error& why) {
  const auto report = make_failing(why);
  report->number = number;
  submission to(in, on->chain(), report);
  report->submit(to);
}

void rank_share::proceed(submission_port::session& in) {
  std::exchange(on, nullptr)->proceed(in);
}

void share_group::admitted(submission_port::session& in, stream& of) {
  of.hold();  // nothing passes between two of them
  std::uint64_t next = number - shares_.size();
  for (const ref<rank_share>& share : shares_) {
    share->number = ++next;
    share->stream_number = stream_number;
    share->on_devices = on_devices;
    share->observer = observer;
    share->enqueued_ns = enqueued_ns;
    share->admitted(in, of);
  }
  of.proceed(in);
}

meeting_point::meeting_point(context& of)
    : of_(of),
      meetings_(of.settings().rendezvous_limit_ms > 0
                    ? of.settings().rendezvous_limit_ms * 1'000'000
                    : std::numeric_limits<std::int64_t>::max() / 2) {}

void meeting_point::join(submission_port::session& in, const ref<rank_share>& share) {
  const mesh& m = *share->on->on();
  const int rank = share->on->options().rank;
  if (over_ || m.gone) {
    meeting_outcome none;
    none.state = meeting_state::cancelled;
    share->end(in, why_ended(none, name_of(share->request.call.kind)));
    share->proceed(in);
    return;
  }
  const std::uint64_t group = number_of(m, *share);
  if (meetings_.add_group(group, static_cast<int>(share->ranks.size()))) {
    groups_[m.number].push_back(group);
  }
  const auto place = static_cast<int>(
      std::find(share->ranks.begin(), share->ranks.end(), rank) - share->ranks.begin());
  collective_call same = share->request.call;
  same.level = 0;  // a matter of the policy, which has a digest of its own
  arrival who;
  who.group = group;
  who.rank = place;
  // How numbers travel is what ranks have to agree on too, where they are rounded.
  who.call = digest_of(same) ^ static_cast<std::uint64_t>(share->plan->options().wire)
                                   << wire_bits;
  who.descriptor = share->descriptor;
  who.patience_ns = share->request.patience_ns;
  share->retain();
  who.ticket = reinterpret_cast<std::uintptr_t>(share.get());
  auto outcome = [&]() -> result<meeting_outcome> {
    WEIR_TRY(who.sequence, meetings_.next_sequence(group, place));
    return meetings_.join(who, now_ns());
  }();
  if (!outcome) {
    share->release();
    share->end(in, outcome.error());
    share->proceed(in);
  } else if (outcome->state == meeting_state::waiting) {
    look_later();
  } else {
    tell(in, *outcome);
  }
}

void meeting_point::tell(submission_port::session& in, const meeting_outcome& what) {
  std::vector<ref<rank_share>> shares;
  for (const std::uint64_t ticket : what.tickets) {
    auto* const share = reinterpret_cast<rank_share*>(ticket);  // NOLINT: as put in
    shares.emplace_back(share);
    share->release();
  }
  if (shares.empty()) {
    return;
  }
  if (what.state == meeting_state::complete) {
    room_list<collective_group> groups(1);
    collective_group& g = groups.front();
    const rank_share& first = *shares.front();
    std::size_t scratch_limit = first.scratch_limit;
    g.ranks.assign(first.ranks.begin(), first.ranks.end());
    for (const ref<rank_share>& s : shares) {
      const int rank = s->on->options().rank;
      scratch_limit = std::min(scratch_limit, s->scratch_limit);
      for (const auto& place : {s->source, s->target}) {
        if (place) {
          g.memory.push_back(place->memory);
        }
      }
      g.inputs.push_back(s->source ? s->source->on_rank(rank) : nullptr);
      g.outputs.push_back(s->target ? s->target->on_rank(rank) : nullptr);
      g.lanes.push_back(&s->on->chain().of(0));
      g.streams.push_back(s->stream_number);
    }
    const auto all = make_ref<collective_operation>(first.plan, first.how,
                                                    std::move(groups), scratch_limit);
    all->verify_by(first.verify);
    all->number = first.number;
    all->stream_number = first.stream_number;
    all->on_devices = first.on->on()->devices.data();
    all->observer = first.observer;
    all->enqueued_ns = first.enqueued_ns;
    submission to(in, first.on->chain(), all);
    all->submit_groups(to);
  } else {
    for (const ref<rank_share>& s : shares) {
      s->end(in, why_ended(what, name_of(s->request.call.kind)));
    }
  }
  for (const ref<rank_share>& s : shares) {
    s->proceed(in);
  }
}

void meeting_point::forget(submission_port::session& in, mesh& m) {
  m.gone = true;
  const auto known = groups_.extract(m.number);
  if (known.empty()) {
    return;
  }
  for (const std::uint64_t group : known.mapped()) {
    for (const meeting_outcome& over : meetings_.drop_group(group)) {
      tell(in, over);
    }
  }
}

void meeting_point::look_later() {
  const std::int64_t when = meetings_.next_deadline();
  if (when >= std::numeric_limits<std::int64_t>::max() / 2) {
    return;
  }
  of_.cleaner().later(
      [self = of_.weak_from_this()] {
        if (const auto alive = self.lock()) {
          auto in = alive->port().enter();
          meeting_point& here = alive->meetings();
          for (const meeting_outcome& over : here.meetings_.expire(now_ns())) {
            here.tell(in, over);
          }
        }
      },
      when);
}

void meeting_point::end_all(submission_port::session& in) {
  over_ = true;
  for (const meeting_outcome& over :
       meetings_.expire(std::numeric_limits<std::int64_t>::max())) {
    tell(in, over);
  }
}

}  // namespace weir::runtime
