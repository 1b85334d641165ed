// SPDX-License-Identifier: Apache-2.0
/// @file
/// Meetings of ranks, each of which calls its share of a collective on its own stream.
///
/// A share gets its number in the group when it is called, and joins the meeting of that
/// number when its stream comes to it. The stream is held meanwhile. The share that
/// arrives last submits the tasks of the whole collective, on the device chains of all
/// streams. The rendezvous knows shares as tickets: the address of a share, with a
/// reference that is returned in `settle`. Everything runs under the submission lock.
#include "stream/collectives/rank_share.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stream/collectives/buffers.hpp"
#include "stream/collectives/meeting_point.hpp"
#include "stream/deferred_calls.hpp"
#include "weir/base/clock.hpp"
#include "weir/tessera/stream/work.hpp"

namespace weir::tessera {
namespace {

/// Position of the wire format in a digest of a call.
constexpr unsigned wire_bits = 56;
constexpr const char* how_to_recover =
    "tessMeshRecover, called by every rank, makes the mesh's groups usable again";

/// Returns ranks as text for messages.
///
/// The word stands in the singular for one rank.
std::string words_of_ranks(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

/// Returns a digest of everything that the ranks of a group must agree on, except the
/// policy, which has a digest of its own. The wire format is part of it, because the
/// result depends on it.
///
/// Equal calls have equal digests, whatever their buffers are.
std::uint64_t call_digest(const rank_share& share) {
  collective::collective_call same = share.request.call;
  same.level = 0;  // it follows from the policy, which has a digest of its own
  return collective::digest_of(same) ^
         static_cast<std::uint64_t>(share.plan->options().wire) << wire_bits;
}

/// Returns the error of a share that does not run.
error not_run(errc code, const rank_share& share, std::string_view expected,
              std::string_view found) {
  return {code, fmt::format("collective not run \"{}\": expected {}, found {}",
                            share.call_name(), expected, found)};
}

/// The same text for all ranks, whenever they come.
error aborted() {
  return {errc::timeout, "that the collectives of the mesh were aborted"};
}

/// Returns the error of a share whose group does not meet any more.
///
/// The cause is that of the group.
error out_of_step(const rank_share& share, const error& why) {
  return not_run(why.code(), share,
                 fmt::format("{} to meet", words_of_ranks(share.group->ranks)),
                 why.text());
}

}  // namespace

/// The caller has checked the request.
rank_share::rank_share(std::shared_ptr<const collective::collective_plan> plan_of,
                       collective::collective_choice how_to,
                       const collective_request& request_of, std::vector<int> ranks_of,
                       std::uint64_t descriptor_of)
    : meeting_operation(operation_kind::collective),
      plan(std::move(plan_of)),
      how(how_to),
      request(request_of),
      ranks(std::move(ranks_of)),
      descriptor(descriptor_of) {}

/// Called when the stream takes the operation.
void rank_share::taken(submission_lock::guard&, stream& owner) {
  owner.context().meetings().number(*this, owner);
}

/// Called when the operation comes to its turn; the stream then waits.
///
/// The stream goes on when the meeting has an outcome.
void rank_share::admitted(submission_lock::guard& in, stream& owner) {
  waiting_stream = owner.shared_from_this();
  owner.hold();
  owner.context().meetings().join(in, ref<rank_share>(this));
}

/// The copy belongs to no group yet.
ref<operation> rank_share::clone() const {
  const auto out = make_ref<rank_share>(plan, how, request, ranks, descriptor);
  // What the constructor does not get.
  out->verify = verify;
  out->source = source;
  out->target = target;
  return out;
}

result<void> rank_share::check(const stream& owner) const {
  return owner.context().meetings().check(*this, owner);
}

/// The members are those of a trace.
std::string rank_share::details() const {
  return fmt::format("\"collective\":\"{}\",\"ranks\":{}", call_name(), ranks.size());
}

// Names everything that ranks must agree on, so that a mismatch can be seen.
std::string rank_share::description() const {
  const collective::collective_call& c = request.call;
  std::string out = fmt::format("{} of {} {}", collective::name_of(c.kind), c.count,
                                info_of(c.type).tessera);
  // Only reductions have an operation.
  if (collective::reduces(c.kind)) {
    out += fmt::format(", {}", collective::name_of(c.op));
  }
  out += fmt::format(", root {}", c.root);
  if (c.packed_shards) {
    out += ", packed shards";
  }
  if (plan->options().wire != collective::wire_format::plain) {
    out += fmt::format(", {} between ranks", collective::name_of(plan->options().wire));
  }
  return out;
}

// The error is submitted as an operation, which the stream does not hold back.
//
// The failure stays in the device chain, as that of any other operation.
void rank_share::end(submission_lock::guard& in, const error& why) {
  const auto report = make_failing(why);
  report->number = number;
  submission to(in, waiting_stream->chains(), report);
  report->submit(to);
}

// Releases the reference to the stream, which exists only while the share waits.
void rank_share::proceed(submission_lock::guard& in) {
  std::exchange(waiting_stream, nullptr)->proceed(in);
}

/// In the order of the calls, so that all ranks number alike.
void share_group::taken(submission_lock::guard& in, stream& owner) {
  for (const ref<rank_share>& share : shares_) {
    share->taken(in, owner);
  }
}

ref<operation> share_group::clone() const {
  std::vector<ref<rank_share>> copies;
  for (const ref<rank_share>& share : shares_) {
    const ref<operation> copy = share->clone();
    // A share clones itself as a share.
    copies.emplace_back(static_cast<rank_share*>(copy.get()));
  }
  return make_ref<share_group>(std::move(copies));
}

/// One share that is refused refuses them all.
result<void> share_group::check(const stream& owner) const {
  for (const ref<rank_share>& share : shares_) {
    WEIR_CHECK(share->check(owner));
  }
  return {};
}

memory_need share_group::needs() const noexcept {
  memory_need out;  // its collectives may run at the same time, so their needs add up
  for (const ref<rank_share>& share : shares_) {
    out.scratch += share->needs().scratch;
  }
  return out;
}

// The shares join one after another while the group holds the stream, so that nothing of
// the stream runs between them. The operation has taken one number for each share.
void share_group::admitted(submission_lock::guard& in, stream& owner) {
  owner.hold();  // no operation passes between two of them
  // The first of the numbers that the operation has taken.
  std::uint64_t next = number - shares_.size();
  for (const ref<rank_share>& share : shares_) {
    share->number = ++next;
    share->stream_number = stream_number;
    share->on_devices = on_devices;
    // The observer sees each share.
    share->observer = observer;
    share->enqueued_ns = enqueued_ns;
    share->enqueued_by = enqueued_by;
    share->admitted(in, owner);
  }
  // The stream may be held by shares that still wait.
  owner.proceed(in);
}

/// Without a limit, meetings wait as long as possible.
meeting_point::meeting_point(context& owner)
    : context_(owner),
      meetings_(owner.settings().rendezvous_limit_ms > 0
                    ? owner.settings().rendezvous_limit_ms * 1'000'000
                    : std::numeric_limits<std::int64_t>::max() / 2) {}

// A recovery of a rank changes its key, so its later calls meet in a new group.
meeting_point::group_key meeting_point::key_of(const rank_share& share,
                                               const stream& target) {
  const mesh& m = *target.mesh();
  // The kind is part of the key: messages of two ranks have groups of their own.
  return {m.number, m.recoveries[static_cast<std::size_t>(target.options().rank)],
          share.request.call.kind == collective::collective_kind::send, share.ranks};
}

// Gives a share its group and its number there. The group is made by the first call.
void meeting_point::number(rank_share& share, stream& target) {
  if (target.mesh()->gone) {
    return;  // `join` reports the error
  }
  auto& group = groups_[key_of(share, target)];
  if (group == nullptr) {
    group = std::make_shared<rank_group>();
    group->number = ++numbers_;
    group->ranks = share.ranks;
    // A rank that was aborted meets nobody until it has recovered.
    if (target.mesh()->is_aborted(static_cast<std::size_t>(target.options().rank))) {
      group->over = aborted();
    } else {
      const auto made =
          meetings_.add_group(group->number, static_cast<int>(group->ranks.size()));
      WEIR_EXPECT(made.has_value());  // its number is new
    }
  }
  share.group = group;
  // Numbers count the calls of this rank in the group.
  if (!group->over) {
    const int place = share.place_in_group(target.options().rank);
    const auto next = meetings_.next_sequence(group->number, place);
    WEIR_EXPECT(next.has_value());  // the group is known as long as it is not over
    share.sequence = *next;
  }
}

// A call is refused at once if its group no longer meets, so that the program learns it
// from the call.
result<void> meeting_point::check(const rank_share& share, const stream& target) {
  const auto found = groups_.find(key_of(share, target));
  std::optional<error> why;
  // A group that has ended tells its own reason.
  if (found != groups_.end()) {
    why = found->second->over;
  } else if (target.mesh()->is_aborted(static_cast<std::size_t>(target.options().rank))) {
    why = aborted();
  }
  if (!why) {
    return {};
  }
  return error(why->code(),
               fmt::format("collective not posted \"{}\": expected {} to meet, found {}",
                           share.call_name(), words_of_ranks(share.ranks), why->text()))
      .hint(how_to_recover);
}

// Answers from the state of the group that the rank's next call would join.
result<void> meeting_point::state(const mesh& m, int rank) const {
  const auto place = static_cast<std::size_t>(rank);
  const auto broken = [&](std::string_view group, const error& why) {
    return error(why.code(),
                 fmt::format("collectives of rank {} do not meet: expected {} to meet, "
                             "found {}",
                             rank, group, why.text()))
        .hint(how_to_recover);
  };
  // The mesh before its groups, since it ends them all.
  if (m.is_aborted(place)) {
    return broken("all ranks of the mesh", aborted());
  }
  for (const auto& [key, group] : groups_) {
    if (key.mesh == m.number && key.era == m.recoveries[place] && group->over &&
        std::find(key.ranks.begin(), key.ranks.end(), rank) != key.ranks.end()) {
      return broken(words_of_ranks(key.ranks), *group->over);
    }
  }
  return {};
}

// Ends all meetings of the mesh. `aborted` keeps, for each rank, its recoveries plus 1,
// so the mark loses its effect by the rank's next recovery.
void meeting_point::abort(submission_lock::guard& in, mesh& m) {
  for (std::size_t r = 0; r < m.recoveries.size(); ++r) {
    m.aborted[r] = m.recoveries[r] + 1;
  }
  std::vector<std::shared_ptr<rank_group>> all;
  for (const auto& [key, group] : groups_) {
    if (key.mesh == m.number && !group->over) {
      all.push_back(group);
    }
  }
  // The list is separate, as ending a group may change the map.
  for (const auto& group : all) {
    end(in, group, aborted());
  }
}

// Reports the arrival of a share. The reference that goes with the ticket is returned
// when the meeting has an outcome.
void meeting_point::join(submission_lock::guard& in, const ref<rank_share>& share) {
  if (over_ || share->waiting_stream->mesh()->gone) {
    share->end(in, not_run(errc::timeout, *share, "all ranks of the group",
                           "that they will not come: the mesh is gone"));
    share->proceed(in);
    return;
  }
  const rank_group& group = *share->group;
  // The group was ended meanwhile.
  if (group.over) {
    share->end(in, out_of_step(*share, *group.over));
    share->proceed(in);
    return;
  }
  collective::arrival arriving;
  arriving.group = group.number;
  arriving.sequence = share->sequence;
  arriving.rank = share->place_in_group(share->waiting_stream->options().rank);
  arriving.call = call_digest(*share);
  arriving.descriptor = share->descriptor;
  // The program may have set a limit for this call.
  arriving.patience_ns = share->request.patience_ns;
  // The ticket counts as a reference.
  share->retain();
  arriving.ticket = reinterpret_cast<std::uintptr_t>(share.get());
  auto outcome = meetings_.join(arriving, now_ns());
  // A call that cannot join, such as one of a wrong place.
  if (!outcome) {
    share->release();
    share->end(in, outcome.error());
    share->proceed(in);
  } else if (outcome->state == collective::meeting_state::waiting) {
    // The others have not come; a deferred call looks at the limit of time.
    look_later();
  } else {
    settle(in, *outcome);
  }
}

// Submits one operation on the device chains of all ranks' streams. The smallest of the
// ranks' memory limits counts. Number and observer are those of the first share.
void meeting_point::run(submission_lock::guard& in,
                        const std::vector<ref<rank_share>>& shares) {
  pooled_list<collective_group> groups(1);
  collective_group& g = groups.front();
  const rank_share& first = *shares.front();
  std::size_t scratch_limit = first.scratch_limit;
  g.ranks.assign(first.ranks.begin(), first.ranks.end());
  use_devices(g, *first.waiting_stream->mesh(),
              use_of(*first.plan, first.verify != nullptr), true);
  for (const ref<rank_share>& s : shares) {
    const int rank = s->waiting_stream->options().rank;
    // The smallest limit of all ranks.
    scratch_limit = std::min(scratch_limit, s->scratch_limit);
    // The memory must live until the end, whatever the ranks free.
    for (const auto& place : {s->source, s->target}) {
      if (place) {
        g.memory.push_back(place->memory);
      }
    }
    g.inputs.push_back(s->source ? s->source->on_rank(rank) : nullptr);
    g.outputs.push_back(s->target ? s->target->on_rank(rank) : nullptr);
    // A rank's stream has one device chain.
    g.chains.push_back(&s->waiting_stream->chains().chain_of(0));
    g.streams.push_back(s->stream_number);
  }
  // All shares have equal calls, so the plan of the first serves all.
  const auto all = make_ref<collective_operation>(first.plan, first.how,
                                                  std::move(groups), scratch_limit);
  all->verify_by(first.verify);
  all->number = first.number;
  all->stream_number = first.stream_number;
  all->on_devices = first.waiting_stream->mesh()->devices.data();
  all->observer = first.observer;
  all->enqueued_ns = first.enqueued_ns;
  all->enqueued_by = first.enqueued_by;
  // The stream of the first share only names the submission.
  submission to(in, first.waiting_stream->chains(), all);
  all->submit_groups(to);
}

namespace {

/// Describes the first share and the first one that differs from it. @pre at least two
/// shares
std::string differing(const std::vector<ref<rank_share>>& shares) {
  const auto words = [](const rank_share& s) {
    return fmt::format("\"{}\" by rank {}", s.description(),
                       s.waiting_stream->options().rank);
  };
  // The first share is that of the rank that came first.
  const rank_share& one = *shares.front();
  const auto other = std::find_if(
      shares.begin(), shares.end(),
      [&](const ref<rank_share>& s) { return call_digest(*s) != call_digest(one); });
  return fmt::format("{} and {}", words(one),
                     words(other == shares.end() ? *shares.back() : **other));
}

/// Returns the text of the error for a rank of a mismatch. Ranks that come after the
/// mismatch was found get the same text.
std::string mismatch_text(rank_group& group, std::uint64_t sequence,
                          const std::vector<ref<rank_share>>& shares) {
  const auto [known, first] = group.mismatches.try_emplace(sequence);
  if (first) {
    // As many ranks as the group has may ask for it.
    known->second = {differing(shares), group.ranks.size()};
  }
  std::string out = known->second.text;
  known->second.unheard -= shares.size();
  // Nobody will ask any more.
  if (known->second.unheard == 0) {
    group.mismatches.erase(known);
  }
  return out;
}

/// Returns the ranks of a group that have not come.
std::vector<int> missing_of(const rank_group& group,
                            const std::vector<ref<rank_share>>& shares) {
  std::vector<int> out = group.ranks;
  // Ranks that came are taken out.
  for (const ref<rank_share>& s : shares) {
    std::erase(out, s->waiting_stream->options().rank);
  }
  return out;
}

}  // namespace

// Takes the references of the tickets back first. Streams proceed at the end, after the
// collective is submitted, because their next operations must come behind it.
void meeting_point::settle(submission_lock::guard& in,
                           const collective::meeting_outcome& outcome) {
  std::vector<ref<rank_share>> shares;
  for (const std::uint64_t ticket : outcome.tickets) {
    // NOLINT: `join` made it from this pointer
    auto* const share = reinterpret_cast<rank_share*>(ticket);
    shares.emplace_back(share);
    share->release();
  }
  // All of them may have gone.
  if (shares.empty()) {
    return;
  }
  const std::shared_ptr<rank_group> group = shares.front()->group;
  // Each share gets the same reason.
  const auto end_each = [&](errc code, std::string_view expected,
                            std::string_view found) {
    for (const ref<rank_share>& s : shares) {
      s->end(in, not_run(code, *s, expected, found));
    }
  };
  switch (outcome.state) {
    case collective::meeting_state::complete: run(in, shares); break;
    case collective::meeting_state::collective_mismatch:
      end_each(errc::collective_mismatch,
               fmt::format("{} to call the same as their collective {}",
                           words_of_ranks(group->ranks), outcome.sequence + 1),
               mismatch_text(*group, outcome.sequence, shares));
      break;
    case collective::meeting_state::determinism_violation:
      end_each(errc::determinism_violation,
               "all ranks of the group under one policy, seed and set of toggles",
               "policies that differ");
      break;
    case collective::meeting_state::timeout: {
      const std::string missing = fmt::format(
          "that {} {} not come to {} {}", words_of_ranks(missing_of(*group, shares)),
          missing_of(*group, shares).size() == 1 ? "has" : "have",
          shares.front()->call_name(), outcome.sequence + 1);
      end_each(errc::timeout, fmt::format("{} in time", words_of_ranks(group->ranks)),
               missing);
      // The others of the group will not wait in vain.
      if (!over_) {
        end(in, group, {errc::timeout, missing + " in time"});
      }
      break;
    }
    default:
      for (const ref<rank_share>& s : shares) {
        s->end(in, group->over ? out_of_step(*s, *group->over)
                               : not_run(errc::timeout, *s, "all ranks of the group",
                                         "that they will not come: the mesh is gone"));
      }
  }
  for (const ref<rank_share>& s : shares) {
    s->proceed(in);
  }
}

// `over` is set first, so that shares which are told of the end report this reason.
void meeting_point::end(submission_lock::guard& in,
                        const std::shared_ptr<rank_group>& group, const error& why) {
  group->over = why;
  for (const collective::meeting_outcome& over : meetings_.drop_group(group->number)) {
    settle(in, over);
  }
}

// Groups from before the recovery of all ranks cannot meet any more and are ended.
void meeting_point::recover(submission_lock::guard& in, mesh& m, int rank) {
  for (std::size_t r = 0; r < m.recoveries.size(); ++r) {
    if (rank < 0 || r == static_cast<std::size_t>(rank)) {
      ++m.recoveries[r];
    }
  }
  const std::uint64_t oldest =
      *std::min_element(m.recoveries.begin(), m.recoveries.end());
  end_before(in, m, oldest, "that all ranks of the mesh have recovered since");
}

/// Called when the mesh is destroyed.
void meeting_point::forget(submission_lock::guard& in, mesh& m) {
  m.gone = true;
  end_before(in, m, std::numeric_limits<std::uint64_t>::max(),
             "that they will not come: the mesh is gone");
}

// Collects the groups before it ends them, because ending a group may let streams proceed
// that call `number` and change the map.
void meeting_point::end_before(submission_lock::guard& in, const mesh& m,
                               std::uint64_t era, const char* why) {
  std::vector<std::shared_ptr<rank_group>> past;
  for (auto entry = groups_.begin(); entry != groups_.end();) {
    if (entry->first.mesh == m.number && entry->first.era < era) {
      past.push_back(std::move(entry->second));
      entry = groups_.erase(entry);
    } else {
      ++entry;
    }
  }
  for (const auto& group : past) {
    if (!group->over) {
      end(in, group, {errc::timeout, why});
    }
  }
}

// Does nothing without a limit of time, or if a call is deferred to this deadline or an
// earlier one. That call defers another one while meetings wait, so that each deadline is
// met. A deferred call takes the submission lock, which a worker must not wait for.
void meeting_point::look_later() {
  const std::int64_t when = meetings_.next_deadline();
  if (when >= std::numeric_limits<std::int64_t>::max() / 2 || when >= look_at_ns_) {
    return;
  }
  look_at_ns_ = when;
  context_.deferred().later(
      // The context may be gone at that time.
      [self = context_.weak_from_this(), when] {
        if (const auto alive = self.lock()) {
          auto in = alive->submission_lock().enter();
          meeting_point& here = alive->meetings();
          // A later time belongs to another call, which still comes.
          if (here.look_at_ns_ <= when) {
            here.look_at_ns_ = std::numeric_limits<std::int64_t>::max();
          }
          for (const collective::meeting_outcome& over :
               // Only meetings whose limit has passed.
               here.meetings_.expire(now_ns())) {
            here.settle(in, over);
          }
          here.look_later();
        }
      },
      when);
}

// With the largest time, every meeting that waits counts as timed out.
void meeting_point::end_all(submission_lock::guard& in) {
  // Later calls are refused.
  over_ = true;
  for (const collective::meeting_outcome& over :
       meetings_.expire(std::numeric_limits<std::int64_t>::max())) {
    settle(in, over);
  }
}

}  // namespace weir::tessera
