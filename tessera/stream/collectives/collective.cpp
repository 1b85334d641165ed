// SPDX-License-Identifier: Apache-2.0
/// @file
/// Collectives as tasks. A plan of one step is a single task of a group. Other plans have
/// the task `opening`, the steps with their predecessors, and the task `closing`. Opening
/// and closing hold the device chains of all ranks of the group; the steps run between
/// them without accesses.
#include "weir/tessera/stream/collective.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "stream/collectives/buffers.hpp"
#include "stream/collectives/rank_share.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/hash.hpp"

namespace weir::tessera {
namespace {

/// A plan, how it was chosen, and the measurement if this call is one.
///
/// The call itself is measured when it runs.
struct planned {
  std::shared_ptr<const collective::collective_plan> plan;
  collective::collective_choice how;
  std::optional<collective::tuning_trial> trial;
};

/// Returns a lookup that proposes the fastest schedule, or the next one to be measured,
/// which it stores in `trial`.
collective::tuner_lookup tuner_of(context& owner, bool measures,
                                  std::optional<collective::tuning_trial>& trial) {
  return [&owner, measures, &trial](const collective::collective_call& call, int ranks,
                                    const collective::topology& shape)
             -> result<std::optional<collective::collective_hint>> {
    WEIR_TRY(std::optional<collective::algorithm> how,
             owner.tuner().fastest(call, ranks, shape));
    // A trial is proposed only if nothing is known yet.
    if (!how && measures) {
      trial = owner.tuner().next(call, ranks, shape);
      how = trial ? std::optional(trial->how) : std::nullopt;
    }
    std::optional<collective::collective_hint> out;
    if (how) {
      out.emplace();
      out->kind = call.kind;
      out->how = *how;
    }
    return out;
  };
}

/// Returns another schedule of the call, in place, to compare results with.
///
/// The bits must be those of the first one.
result<std::shared_ptr<const collective::collective_plan>> plan_to_verify(
    stream& target, const collective::collective_plan& plan, int ranks) {
  collective::topology shape;
  shape.workers = 3;
  collective::collective_call call = plan.call();
  collective::plan_options other;
  other.how = plan.options().how == collective::algorithm::tree
                  ? collective::algorithm::ring
                  : collective::algorithm::tree;
  other.chunk_bytes = 4096;
  // Not every schedule can do every call.
  if (!collective::is_legal(other.how, call, ranks, shape)) {
    other.how = collective::algorithm::direct;
  }
  return target.context().plans().get(call, ranks, shape, other);
}

/// Returns the type in which a reduction adds its numbers.
dtype accumulates_in(const collective::reducer& sums) noexcept {
  const dtype type = sums.operation().type;
  const bool complex = type == dtype::complex64 || type == dtype::complex128;
  // Exact sums have no partial numbers.
  if (sums.rule() ==
      collective::partial_rule::none) {  // an exact sum is rounded to this type
    return complex ? dtype::complex128 : dtype::fp64;
  }
  if (sums.node_bytes() == sums.element_bytes()) {
    return type;
  }
  return complex                                          ? dtype::complex128
         : sums.node_bytes() == info_of(dtype::fp32).size ? dtype::fp32
                                                          : dtype::fp64;
}

/// Return the numbers of the C interface for a descriptor.
std::uint32_t traced_number_of(collective::algorithm how) noexcept {
  constexpr std::array<std::uint32_t, 4> numbers = {4, 1, 2, 3};  // as in tessFatbinPlan
  return numbers[static_cast<std::size_t>(how)];
}

std::uint32_t traced_number_of(collective::wire_format wire) noexcept {
  constexpr std::array<dtype, 4> types = {dtype{}, dtype::bf16, dtype::fp8_e4m3,
                                          dtype::fp8_e5m2};
  return static_cast<std::uint32_t>(types[static_cast<std::size_t>(wire)]);
}

/// Returns a digest of the settings that must be equal on all ranks: the policy, seed and
/// toggles.
std::uint64_t digest_of_descriptor(const stream& target,
                                   const numerics_policy& p) noexcept {
  const tessDeterminism determinism = target.describe(p);
  const std::array<std::uint64_t, 3> words = {
      determinism.policy, determinism.stableToggles, determinism.seed};
  return xxh3_64(std::as_bytes(std::span(words)));
}

/// Keeps the stream's descriptor of this collective.
///
/// It is what `tessStreamGetDeterminism` returns.
void note_numbers(stream& target, const numerics_policy& policy,
                  const collective::collective_plan& plan) noexcept {
  tessDeterminism determinism = target.describe(policy);
  const collective::plan_options& how = plan.options();
  determinism.algorithm = traced_number_of(how.how);
  determinism.wire = traced_number_of(how.wire);
  determinism.chunkBytes = how.chunk_bytes;
  if (plan.arithmetic()) {
    determinism.accumulate =
        static_cast<std::uint32_t>(accumulates_in(*plan.arithmetic()));
  }
  target.note(determinism);
}

/// Chooses schedule, chunk size and wire format of a call and returns its plan. A wire
/// format that the policy forbids is an error, and a forced algorithm that cannot do the
/// call is ignored if it comes from the environment.
/// @error{determinism_violation; a wire format that the policy forbids}
result<planned> plan_for(stream& target, const collective_request& request, int ranks) {
  context& owner = target.context();
  const auto& settings = owner.settings();
  collective::topology shape;
  if (!settings.topology.empty()) {
    WEIR_TRY(shape, collective::parse_topology(settings.topology));
  }
  shape.workers = static_cast<int>(owner.workers());
  const numerics_policy policy = owner.policy();
  const std::vector<collective::collective_hint> hints = owner.hints(request.axes);
  collective::choice_sources sources;
  sources.hints = hints;
  sources.forced = request.how;
  sources.wire_allowed = policy.fast_math && !policy.stable_reductions &&
                         settings.numerics != numerics_mode::strict;
  if (request.wire != collective::wire_format::plain && !sources.wire_allowed) {
    return error(errc::determinism_violation,
                 fmt::format("collective not posted: expected plain numbers between "
                             "ranks, as the policy asks, found {}",
                             collective::name_of(request.wire)))
        .hint("allowFastMath=1 and stableReductions=0 permit it");
  }
  if (!sources.forced && !settings.algorithm.empty()) {
    WEIR_TRY(const collective::algorithm forced,
             collective::algorithm_named(settings.algorithm));
    if (collective::is_legal(forced, request.call, ranks, shape)) {
      sources.forced = forced;
    }
  }
  planned out;
  // Only calls whose schedule the tuner may choose are measured; a chunk size or wire
  // format that the program sets has another cost. A share's time includes the wait for
  // other ranks, and a recorded call keeps its schedule.
  const bool measures = owner.measures(policy) && target.options().rank < 0 &&
                        request.chunk_bytes == 0 &&
                        request.wire == collective::wire_format::plain &&
                        !request.in_graph && !target.records();
  sources.tuner = tuner_of(owner, measures, out.trial);
  WEIR_TRY(out.how, collective::choose_algorithm(request.call, ranks, shape, sources));
  if (request.chunk_bytes != 0) {
    out.how.chunk_bytes = request.chunk_bytes;
  }
  if (request.wire != collective::wire_format::plain) {
    out.how.wire = request.wire;
    out.how.how = collective::algorithm::direct;
  }
  WEIR_TRY(out.plan, owner.plans().get(request.call, ranks, shape,
                                       {out.how.how, out.how.chunk_bytes, out.how.wire}));
  note_numbers(target, policy, *out.plan);
  owner.log(log_level::debug, "{} of {} {} over {} ranks: {}, chosen by {}",
            collective::name_of(request.call.kind), request.call.count,
            info_of(request.call.type).tessera, ranks, collective::name_of(out.how.how),
            collective::name_of(out.how.level));
  return out;
}

}  // namespace

/// `scratch_limit` is in bytes.
collective_operation::collective_operation(
    std::shared_ptr<const collective::collective_plan> plan,
    collective::collective_choice how, pooled_list<collective_group> groups,
    std::size_t scratch_limit)
    : operation(operation_kind::collective),
      plan_(std::move(plan)),
      how_(how),
      groups_(std::move(groups)),
      scratch_limit_(scratch_limit) {}

/// One task per group, or its steps with opening and closing.
std::uint32_t collective_operation::tasks(unsigned) const {
  const auto steps = static_cast<std::uint32_t>(plan_->steps().size());
  return static_cast<std::uint32_t>(groups_.size()) *
         ((steps <= 1 && !copies()) || runs_on_devices() ? 1 : steps + 2);
}
std::string_view collective_operation::name() const noexcept {
  return collective::name_of(plan_->call().kind);
}
std::uint64_t collective_operation::bytes() const noexcept {
  return extent(plan_->call(), 1, false);
}
memory_need collective_operation::needs() const noexcept {
  // scratch of one group; a device is in one group only
  return {plan_->scratch_bytes(), 0};
}
std::string collective_operation::details() const {
  return fmt::format(
      "\"algorithm\":\"{}\",\"chosen_by\":\"{}\",\"level\":{},\"ranks\":{}",
      collective::name_of(how_.how), collective::name_of(how_.level), plan_->call().level,
      plan_->ranks());
}
/// Bytes over the bus per byte of the buffer, as is usual for bandwidths of collectives.
double collective_operation::bus_factor() const noexcept {
  const double others = plan_->ranks() - 1;
  switch (plan_->call().kind) {
    case collective::collective_kind::all_reduce: return 2 * others / plan_->ranks();
    case collective::collective_kind::reduce_scatter:
    case collective::collective_kind::all_gather:
    case collective::collective_kind::gather:
    case collective::collective_kind::scatter:
    case collective::collective_kind::all_to_all: return others / plan_->ranks();
    case collective::collective_kind::broadcast:
    case collective::collective_kind::reduce:
    case collective::collective_kind::send: return 1;
    case collective::collective_kind::barrier: break;
  }
  return 0;
}
/// A group of shares has the streams of its ranks.
std::uint64_t collective_operation::stream_of(unsigned chain) const noexcept {
  const collective_group& g = groups_.front();
  for (std::size_t i = 0; i < g.streams.size(); ++i) {
    if (g.ranks[i] == static_cast<int>(chain)) {
      return g.streams[i];
    }
  }
  return stream_number;
}
/// Used by graphs; the state of a run is not copied.
ref<operation> collective_operation::clone() const {
  pooled_list<collective_group> groups;
  groups.reserve(groups_.size());
  for (const collective_group& g : groups_) {
    collective_group copy;
    copy.ranks = g.ranks;
    // The memory is held by the copies as well.
    copy.memory = g.memory;
    copy.inputs = g.inputs;
    copy.outputs = g.outputs;
    copy.copies_by = g.copies_by;
    copy.devices = g.devices;
    copy.by_devices = g.by_devices;
    copy.owner = g.owner;
    groups.push_back(std::move(copy));
  }
  // The memory of a graph is checked against the limit of the stream that launches it.
  const auto out = make_ref<collective_operation>(plan_, how_, std::move(groups),
                                                  static_cast<std::size_t>(-1));
  out->verify_by(verify_);
  return out;
}

// Groups of a mesh stream get its device chains at the first submission; a group of
// shares has its device chains already.
void collective_operation::submit(submission& to) {
  device_chains& chains = to.chain_count();
  for (collective_group& g : groups_) {
    if (g.chains.empty()) {
      g.chains.reserve(g.ranks.size());
      for (const int rank : g.ranks) {
        g.chains.push_back(&chains.chain_of(static_cast<unsigned>(rank)));
      }
    }
  }
  submit_groups(to);
}

/// Tasks of one group depend on each other, groups do not.
///
/// The tasks of all groups are submitted together.
void collective_operation::submit_groups(submission& to) {
  const auto steps = plan_->steps();
  // A step goes to the same worker in each collective, because its piece of the buffers
  // is in that worker's cache. Slot 0 of the engine belongs to the submitter.
  const unsigned own = std::min(to.guard().engine().workers() - 1, 128U);
  const bool in_place = own > 1 && plan_->options().how == collective::algorithm::direct;
  // On an idle engine the submitter runs the first task itself. It then wakes a worker
  // for each step; a worker would start the steps on its own processor first.
  const bool at_once = steps.size() > 1 && verify_ == nullptr && to.runs_once() &&
                       !copies() && !runs_on_devices() && to.guard().all_ended();
  std::vector<runtime::access> accesses;
  for (unsigned i = 0; i < groups_.size(); ++i) {
    const collective_group& g = groups_[i];
    accesses.clear();
    accesses.reserve(g.chains.size());
    for (const device_chain* member : g.chains) {
      accesses.push_back(holds(*member));
    }
    if ((steps.size() <= 1 && !copies()) || runs_on_devices()) {
      to.add(*this, i, whole, accesses);
      continue;
    }
    std::vector<runtime::task_id> opened;
    if (at_once) {
      step(to.chain_count(), i, opening);
    } else {
      opened.push_back(to.add(*this, i, opening, accesses));
    }
    std::vector<runtime::task_id> ids;
    // A step waits for the opening and for the steps whose results it reads.
    for (std::uint32_t s = 0; s < steps.size(); ++s) {
      std::vector<runtime::task_id> after = opened;
      for (const std::uint32_t before : plan_->after(steps[s])) {
        after.push_back(ids[before]);
      }
      const unsigned worker = in_place ? 1 + s % own : runtime::submit_options::anywhere;
      ids.push_back(to.add(*this, i, s, {}, after, static_cast<std::uint8_t>(worker)));
    }
    to.add(*this, i, closing, accesses, ids);
  }
}

// Runs in the first task of a group. The direction alternates, so that a collective
// begins with the data that the last one touched at its end and that is still in the
// caches.
void collective_operation::open(collective_group& g) noexcept {
  failure poison;
  for (device_chain* member : g.chains) {
    poison.merge(member->poison);
  }
  g.skip = static_cast<bool>(poison);
  g.broken = {};
  bool& turn = g.chains.front()->backwards;
  g.backwards = std::exchange(turn, !turn);
  // A rank has failed before.
  if (g.skip) {
    return;
  }
  if (auto ready = guarded([&] { return prepare(g); }); !ready) {
    g.broken = {std::make_shared<const error>(std::move(ready).error()), number};
  }
}

// Takes scratch when the collective begins and not when it is enqueued, so that enqueued
// collectives need no memory.
result<void> collective_operation::prepare(collective_group& g) {
  const std::size_t scratch = runs_on_devices() ? 0 : plan_->scratch_bytes();
  if (scratch > scratch_limit_) {
    return error(errc::out_of_memory,
                 fmt::format("collective not run: expected scratch of at most {} bytes, "
                             "which the stream's limit leaves, found {}",
                             scratch_limit_, scratch));
  }
  try {
    if (verify_ != nullptr && !copies()) {
      keep_inputs(g);
    }
    if (scratch != 0) {
      g.scratch.reset(new std::byte[scratch + scratch_alignment]);
    }
  } catch (const std::bad_alloc&) {
    return error(
        errc::out_of_memory,
        fmt::format("collective not run: expected {} bytes of scratch", scratch));
  }
  return {};
}

// Runs in the last task of a group. A failure of one rank becomes a failure of all ranks
// of the group, because they have no complete result either.
void collective_operation::close(collective_group& g) {
  if (verify_ != nullptr && !copies() && !g.skip && !g.broken) {
    if (auto same = guarded([&] { return verify(g); }); !same) {
      g.broken = {std::make_shared<const error>(std::move(same).error()), number};
    }
  }
  failure poison = g.broken;
  for (device_chain* member : g.chains) {
    // Failures of streams are joined with that of the collective.
    poison.merge(member->poison);
  }
  if (poison) {
    for (device_chain* member : g.chains) {
      member->poison.merge(poison);
    }
  }
  g.scratch = nullptr;
  if (trial_ && !poison && &g == &groups_.front()) {
    static_cast<void>(guarded([&]() -> result<void> {
      measured_by_->took(*trial_, now_ns() - g.started);
      return {};
    }));
  }
  if (!g.skip && g.started != 0) {
    for (const int rank : g.ranks) {
      observe(static_cast<unsigned>(rank), g.started);
    }
  }
}

/// `index` is the number of the step.
result<void> collective_operation::run_step_of(collective_group& g, std::uint32_t index) {
  collective::collective_buffers buffers;
  buffers.inputs = g.inputs_here();
  buffers.outputs = g.outputs_here();
  buffers.scratch = g.scratch == nullptr ? nullptr : aligned_address(g.scratch.get());
  buffers.backwards = g.backwards;
  return collective::run_step(*plan_, index, buffers);
}

/// The body of every task of a collective.
///
/// The task of a whole group is opening, step and closing in one.
void collective_operation::step(device_chains& chains, unsigned group,
                                std::uint32_t index) noexcept {
  collective_group& g = groups_[group];
  if (index == opening || index == whole) {
    for (const int rank : g.ranks) {
      if (static_cast<unsigned>(rank) < chains.devices() && !waits.empty()) {
        static_cast<void>(may_run(chains, static_cast<unsigned>(rank)));
      }
    }
    open(g);
    g.started = trial_ ? now_ns() : begin();
    if (!g.skip && !g.broken && (copies() || runs_on_devices())) {
      runs_on_devices() ? run_on_devices(g) : fetch(g);
      return;
    }
  }
  if (index < whole ||
      (index == whole && !plan_->steps().empty() && !runs_on_devices())) {
    if (!g.skip && !g.broken) {
      auto outcome = guarded([&] { return run_step_of(g, index == whole ? 0 : index); });
      if (!outcome) {
        break_group(g, std::move(outcome).error());
      }
    }
  }
  if (index == closing && g.on_host != nullptr) {
    write_back(g);
  } else if (index == closing || index == whole) {
    close(g);
  }
}

/// Helpers of `make_collective`.
namespace {

/// Returns the ranks of the mesh that take part in a send on the stream of one of them.
result<std::vector<int>> pair_of(const stream& target,
                                 const collective_request& request) {
  const int own = target.options().rank;
  WEIR_TRY(const std::vector<int> group,
           target.mesh()->shape.group_of(request.axes, own));
  const int source = group[static_cast<std::size_t>(request.call.root)];
  // Root and peer count within the group.
  const int receiver = group[static_cast<std::size_t>(request.call.peer)];
  if (own != source && own != receiver) {
    return error(errc::invalid_argument,
                 fmt::format("send not posted: expected the stream of rank {} or {}, "
                             "found one of rank {}",
                             source, receiver, own));
  }
  return source == receiver ? std::vector<int>{source}
                            : std::vector<int>{source, receiver};
}

/// Returns the groups of a mesh along the axes, with each rank's buffers.
pooled_list<collective_group> groups_of(const mesh& m, collective::axis_set axes,
                                        const std::optional<memory_place>& from,
                                        const std::optional<memory_place>& to,
                                        const device_use& use) {
  const auto all = m.shape.groups(axes);
  pooled_list<collective_group> groups;
  groups.reserve(all.size());
  for (const auto& ranks : all) {
    collective_group& g = groups.emplace_back();
    g.ranks.assign(ranks.begin(), ranks.end());
    use_devices(g, m, use);
    g.inputs.reserve(ranks.size());
    g.outputs.reserve(ranks.size());
    for (const int rank : ranks) {
      // The address of rank 0 stands for all.
      g.inputs.push_back(from ? from->on_rank(rank) : nullptr);
      g.outputs.push_back(to ? to->on_rank(rank) : nullptr);
    }
    g.memory.reserve(2);
    for (const auto* place : {&from, &to}) {
      if (*place) {
        g.memory.push_back((*place)->memory);
      }
    }
  }
  return groups;
}

/// Sets the buffers of a share and returns it, unless its group is broken.
///
/// The check is made again by the enqueuing.
result<ref<operation>> ready_operation(stream& target, const ref<rank_share>& share,
                                       buffer_places buffers) {
  share->source = std::move(buffers.input);
  share->target = std::move(buffers.output);
  share->scratch_limit = target.budget()->free_bytes();
  const auto in = target.context().submission_lock().enter();
  WEIR_CHECK(target.context().meetings().check(*share, target));
  return ref<operation>(share);
}

}  // namespace

// Checks a request, plans it, and makes the operation of a mesh stream, or the share of a
// rank for the stream of one rank. Returns null if a mesh stream has nothing to do.
result<ref<operation>> make_collective(stream& target, const collective_request& asked) {
  collective_request checked = asked;
  collective::collective_call& call = checked.call;
  const numerics_policy policy = target.context().policy();
  call.level = policy.level();
  call.wide = target.context().settings().numerics == numerics_mode::promote;
  const mesh& m = *target.mesh();
  int ranks = m.shape.group_size(checked.axes);
  WEIR_CHECK(collective::check_call(call, ranks));
  // A send on a stream of one rank has a group of two.
  std::vector<int> pair;
  if (call.kind == collective::collective_kind::send && target.options().rank >= 0) {
    WEIR_TRY(pair, pair_of(target, checked));
    ranks = static_cast<int>(pair.size());
    call.root = 0;
    call.peer = ranks - 1;
  }
  const bool barrier = call.kind == collective::collective_kind::barrier;
  const bool needs_memory = call.count > 0 && !barrier;
  if (!needs_memory && !barrier && target.options().rank < 0) {
    // a rank's share of no elements is enqueued, because the other ranks expect it
    return ref<operation>();
  }
  buffer_places buffers;
  if (needs_memory) {
    WEIR_TRY(buffers, places_of(target, checked, ranks));
  }
  WEIR_TRY(planned p, plan_for(target, checked, ranks));
  // Verification costs a second computation, so it must be asked for.
  std::shared_ptr<const collective::collective_plan> verify;
  if (target.context().settings().verify_determinism && needs_memory &&
      collective::reduces(call.kind) && call.level > 0) {
    WEIR_TRY(verify, plan_to_verify(target, *p.plan, ranks));
  }
  const device_use use = use_of(*p.plan, verify != nullptr);
  if (target.options().rank >= 0) {
    std::vector<int> group = std::move(pair);
    if (group.empty()) {
      WEIR_TRY(group, m.shape.group_of(checked.axes, target.options().rank));
    }
    open_devices_of(m, group, use);
    const auto share =
        make_ref<rank_share>(std::move(p.plan), p.how, checked, std::move(group),
                             digest_of_descriptor(target, policy));
    share->verify = std::move(verify);
    return ready_operation(target, share, std::move(buffers));
  }
  const auto out = make_ref<collective_operation>(
      std::move(p.plan), p.how,
      groups_of(m, checked.axes, buffers.input, buffers.output, use),
      target.budget()->free_bytes());
  out->verify_by(std::move(verify));
  if (p.trial) {
    out->measure(*p.trial, target.context());
  }
  return ref<operation>(out);
}

}  // namespace weir::tessera
