// SPDX-License-Identifier: Apache-2.0
/// @file
/// A run of a pipeline: makes edges and stages from a plan, gives stages turns, and keeps
/// the epoch in flight.
///
/// All functions are called by the thread of the host. `turn` is the loop of the run: it
/// never blocks; a turn without work returns false, and the host decides what to wait
/// for.
///
/// An epoch goes through these states: none (`facts.epoch` is 0), growing (begun, stages
/// contribute), complete (all have contributed and all copies have ended), and none again
/// after `committed` or `abandoned`.
#include "weir/pipeline/host/execution.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "flow/joined_sources.hpp"
#include "flow/stage_run.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/system/fp_environment.hpp"
#include "weir/pipeline/append_file.hpp"
#include "weir/pipeline/host/batch_stage.hpp"
#include "weir/pipeline/host/identity.hpp"
#include "weir/pipeline/host/stage_calls.hpp"
#include "weir/pipeline/host/task_batch.hpp"

namespace weir::flow {
namespace {

/// No item is behind it.
constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();
/// Longest time of a turn in which tasks run, and then in which kernels may be called at
/// once. The last one may take longer, as a task between two turns may.
constexpr std::int64_t max_calls_ns = 100'000;
/// Longest time for which a host waits for short tasks that other workers run.
constexpr std::int64_t max_wait_ns = 5'000;

/// Number of a port among the inlets, or among the outlets, of its stage.
std::uint32_t number_of_port(const stage_info& info, std::uint32_t port) {
  std::uint32_t number = 0;
  for (std::uint32_t p = 0; p < port; ++p) {
    number += info.ports[p].inlet == info.ports[port].inlet ? 1 : 0;
  }
  return number;
}

/// Returns the memory that the child process of a stage reaches, or null.
std::shared_ptr<slot_memory> memory_of(const stage_object& object) {
  const auto* batch = dynamic_cast<const batch_stage*>(&object);
  return batch != nullptr ? batch->memory() : nullptr;
}

}  // namespace

/// Everything that belongs to a run. Members are destroyed from the last to the first:
/// stages before the edges that they use.
struct execution::state {
  plan planned;
  execution_options options;
  std::vector<std::unique_ptr<stage_object>> objects;  ///< used by the stage runs
  run_facts facts;                                     ///< shared by all stages
  image growing;                                       ///< of the epoch in flight
  std::unique_ptr<item_recorder> recorder;
  std::vector<std::unique_ptr<edge>> edges;
  std::vector<std::unique_ptr<stage_run>> stages;
  std::vector<std::vector<output_cut>> cuts;  ///< of outputs, by stage
  std::vector<std::uint32_t> sources;
  std::vector<std::uint32_t> sinks;
  std::vector<std::uint32_t> blocking;
  joined_sources joined;
  task_batch tasks{1};  ///< tasks that are run before a turn
  std::uint64_t newest_epoch = 0;
  std::uint64_t limit = no_limit;  ///< first item that is not granted

  [[nodiscard]] std::shared_ptr<slot_memory> memory_near(std::uint32_t stage) const;
  [[nodiscard]] result<void> build();
  [[nodiscard]] result<void> open_stages(const image* from);
  void call_tasks_at_once();
  [[nodiscard]] bool contributed() const;
  [[nodiscard]] bool copies_ended() const;
  [[nodiscard]] result<void> contribute_ended();
};

/// Returns the memory from which the slots of a stage come: that of its own child
/// process, or of the first child behind it.
/// Items then need no copy on their way to the child.
std::shared_ptr<slot_memory> execution::state::memory_near(std::uint32_t stage) const {
  auto memory = memory_of(*objects[stage]);
  // A stage with a child process behind it makes its items in the child's memory.
  for (const graph_edge& e : planned.source.edges) {
    if (!memory && e.from == stage) {
      memory = memory_of(*objects[e.to]);
    }
  }
  return memory;
}

/// Makes edges and stages, and connects them.
result<void> execution::state::build() {
  const graph& g = planned.source;
  // Items that are made before the first turn need a time as well.
  facts.turn_ns = now_ns();
  if (options.recorded_items != 0) {
    recorder = std::make_unique<item_recorder>(options.recorded_items);
    facts.recorder = recorder.get();
  }
  // The edges have the windows of the plan, which the check has enlarged.
  for (const graph_edge& e : g.edges) {
    edges.push_back(std::make_unique<edge>(e.window_items, e.window_bytes));
  }
  // Stages and edges have the numbers of the plan.
  for (std::size_t i = 0; i < g.stages.size(); ++i) {
    stages.push_back(std::make_unique<stage_run>(g.stages[i].name, g.stages[i].info,
                                                 *objects[i], facts));
    stages.back()->index = static_cast<std::uint32_t>(i);
  }
  // Edges know ports by their number among inlets or outlets.
  for (std::size_t i = 0; i < g.edges.size(); ++i) {
    const graph_edge& e = g.edges[i];
    const std::uint32_t outlet = number_of_port(g.stages[e.from].info, e.outlet);
    const std::uint32_t inlet = number_of_port(g.stages[e.to].info, e.inlet);
    stages[e.from]->connect_outlet(outlet, *edges[i], e.delay, *stages[e.to]);
    stages[e.to]->connect_inlet(inlet, *edges[i], outlet, e.delay != 0, *stages[e.from]);
  }
  // Sizes of pools and rings follow from the windows around each stage.
  for (std::uint32_t i = 0; i < stages.size(); ++i) {
    std::uint32_t open_calls = 1;
    std::int64_t budget = 1;
    for (const graph_edge& e : g.edges) {
      // The largest window in front of the stage bounds its open calls.
      open_calls = e.to == i ? std::max(open_calls, e.window_items) : open_calls;
      budget = e.from == i ? std::max(budget, e.window_bytes) : budget;
    }
    // One call more than the window holds, unless the stage limits them.
    const std::uint32_t max_calls = g.stages[i].info.max_open_calls;
    open_calls = max_calls == 0 ? open_calls + 1 : std::min(max_calls, open_calls + 1);
    stages[i]->share(memory_near(i));
    WEIR_CHECK(stages[i]->allocate(g.stages[i], planned.stages[i], open_calls, budget));
    const face kind = g.stages[i].info.face;
    if (kind == face::source) {
      sources.push_back(i);
    } else if (kind == face::sink) {
      sinks.push_back(i);
    } else if (kind == face::blocking) {
      blocking.push_back(i);
    }
  }
  joined.find(g, stages);
  return {};
}

/// Opens the stages in their order, and lets them continue from the image or begin.
result<void> execution::state::open_stages(const image* from) {
  for (const auto& s : stages) {
    const cut_scope scope;
    opening run({facts.host, options.folder, from != nullptr, options.seed, options.load,
                 options.kernels});
    const auto opened = guarded([&]() -> result<void> {
      WEIR_CHECK(s->object().open(run));
      // The constants are noted first, because `restore` compares them with the image.
      s->set_constants(run.constants());
      WEIR_CHECK(from != nullptr ? s->restore(*from) : s->fill_feedback());
      // The position before the first item, for a barrier that comes before it.
      return s->joined() ? s->mark_begin() : result<void>();
    });
    // What a stage cuts off its output on opening is reported with its figures.
    cuts.push_back(scope.cuts());
    if (!opened) {
      const errc code = opened.error().code();
      return error(code, fmt::format("cannot open stage \"{}\"", s->name()))
          .because(opened.error());
    }
  }
  if (from != nullptr) {
    newest_epoch = from->epoch;
  }
  return {};
}

/// Returns whether the tasks that fill the image have ended.
bool execution::state::copies_ended() const {
  return std::all_of(facts.copies.begin(), facts.copies.end(),
                     [&](task_id id) { return facts.host->base().ended(id); });
}

/// Returns whether every stage has added its part to the epoch in flight.
bool execution::state::contributed() const {
  return std::all_of(stages.begin(), stages.end(),
                     [](const auto& s) { return s->contributed(); });
}

/// Stages that have ended see no barrier. Their state does not change any more, so it
/// is part of every image from then on.
result<void> execution::state::contribute_ended() {
  // A sink that has to settle contributes when it has.
  for (const auto& s : stages) {
    if (facts.epoch != 0 && s->ended() && !s->contributed() && !s->wants_settle()) {
      WEIR_CHECK(s->contribute_final());
    }
  }
  return {};
}

/// See `create`.
execution::execution(std::unique_ptr<state> s) : state_(std::move(s)) {}

/// Stages and items are destroyed before the engine, so their tasks have to end first.
execution::~execution() {
  static_cast<void>(state_->facts.host->wait());
}

/// Makes and opens all stages. Nothing runs before the first turn.
result<std::unique_ptr<execution>> execution::create(
    plan p, std::vector<std::unique_ptr<stage_object>> stages, weir::engine& host,
    execution_options options, const image* from) {
  WEIR_EXPECT(stages.size() == p.source.stages.size());
  auto s = std::make_unique<state>();
  s->planned = std::move(p);
  s->options = std::move(options);
  s->objects = std::move(stages);
  s->facts.host = &host;
  s->facts.calls = std::make_unique<runtime::direct_calls>(host.base());
  s->facts.seed = s->options.seed;
  s->facts.fill_slots = s->options.fill_slots;
  s->facts.calls_sinks = s->options.calls_sinks;
  s->facts.growing = &s->growing;
  WEIR_TRY(s->facts.skipped, skipped_items::create(s->options.skip, from));
  WEIR_CHECK(s->build());
  WEIR_CHECK(s->open_stages(from));
  return std::unique_ptr<execution>(new execution(std::move(s)));
}

/// Lets kernels be called in place of tasks in this turn. None is called while a task is
/// in flight, so that the host first runs those that earlier turns have submitted: with
/// one worker nothing else runs them. With several workers the host does so if all of
/// them are short.
void execution::state::call_tasks_at_once() {
  runtime::engine& base = facts.host->base();
  const bool alone = base.workers() == 1;
  const std::int64_t end = facts.turn_ns + (alone ? max_calls_ns : max_wait_ns);
  if (alone || facts.calls->only_short()) {
    while (base.in_flight() != 0 && now_ns() < end && (tasks.run(base) || !alone)) {
    }
  }
  facts.calls->allow(max_calls_ns);
}

/// Stages let go of what has ended, and then work in the order of the pipeline, so that
/// an item passes all stages in one turn. They see the environment of kernels, which is
/// set once because that takes long; sinks see that of the thread. True if any did work.
result<bool> execution::turn() {
  state& s = *state_;
  s.facts.turn_ns = now_ns();
  s.call_tasks_at_once();
  bool any = false;
  // Slots whose copies have ended are free from now on.
  s.facts.let_go_of_copied_items();
  std::optional<fp_scope> scope(std::in_place);
  // In the order of the pipeline, so that memory is free for the stages in front.
  for (const std::uint32_t i : s.planned.order) {
    if (s.stages[i]->open_calls() != 0) {
      WEIR_TRY(const bool ended, s.stages[i]->settle());
      any = any || ended;
    }
  }
  // Sources are driven by the host, with `grant` and `deliver`, or with `fill`.
  for (const bool sinks : {false, true}) {
    for (const std::uint32_t i : s.planned.order) {
      const face kind = s.planned.source.stages[i].info.face;
      if (kind != face::source && (kind == face::sink) == sinks) {
        WEIR_TRY(const bool worked, s.stages[i]->work(s.options.turn_items));
        any = any || worked;
      }
    }
    scope.reset();
  }
  WEIR_CHECK(s.contribute_ended());
  return any;
}

const std::vector<std::uint32_t>& execution::sources() const noexcept {
  return state_->sources;
}
const std::vector<std::uint32_t>& execution::sinks() const noexcept {
  return state_->sinks;
}
const std::vector<std::uint32_t>& execution::blocking() const noexcept {
  return state_->blocking;
}
stage_object& execution::stage(std::uint32_t index) noexcept {
  return state_->stages[index]->object();
}

/// A source that has not contributed to the epoch in flight gets nothing, so that its
/// barrier stands behind what it has.
blank* execution::grant(std::uint32_t source) {
  stage_run& s = *state_->stages[source];
  // The barrier of the source is still to come.
  const bool waits = state_->facts.epoch != 0 && !s.contributed();
  return waits ? nullptr : s.grant(state_->limit);
}
/// Items that need more than most do are left to the host.
source_turn execution::fill(std::uint32_t source, std::uint32_t limit) {
  stage_run& s = *state_->stages[source];
  source_turn done;
  if (state_->facts.epoch == 0 || s.contributed()) {
    s.fill_plainly(limit, state_->limit, done);
  }
  if (done.last == nullptr && done.delivered != limit) {
    done.last = grant(source);
    if (done.last != nullptr) {
      done.more = call_next(s.object(), s.name(), *done.last);
    }
  }
  return done;
}
bool execution::can_grant(std::uint32_t source, std::uint32_t count) const noexcept {
  return state_->stages[source]->can_grant(count, state_->limit);
}
/// An item of a joined source may release items of all sources of its group.
result<void> execution::deliver(blank& filled) {
  stage_run& s = *filled.stage;
  if (!s.joined()) {
    return s.deliver(filled);
  }
  WEIR_CHECK(s.deliver(filled));
  return state_->joined.release(s.index);
}
bool execution::took_nothing(const blank& item) noexcept {
  return item.nothing_yet;
}
void execution::take_back(std::uint32_t source) {
  state_->stages[source]->take_back_grants();
}
result<void> execution::end(blank& unused, const small_record& cursor) {
  // The end also releases items that the others have read.
  stage_run& s = *unused.stage;
  s.end_source(unused, cursor);
  return state_->joined.release(s.index);
}
/// The cursor is asked for when all granted items have come back.
bool execution::wants_cursor(std::uint32_t source) const noexcept {
  const stage_run& s = *state_->stages[source];
  return state_->facts.epoch != 0 && !s.contributed() && !s.ended() && !s.has_grants();
}
result<void> execution::mark(std::uint32_t source, const small_record& cursor) {
  return state_->stages[source]->mark(cursor);
}

result<exchange*> execution::next_exchange(std::uint32_t stage) {
  return state_->stages[stage]->next_exchange();
}
result<void> execution::give_back(exchange& item, const error* failed) {
  return item.output.stage->give_back(item, failed);
}

result<const ready*> execution::next_ready(std::uint32_t sink) {
  return state_->stages[sink]->next_ready();
}
void execution::done(std::uint32_t sink) {
  state_->stages[sink]->done();
}
bool execution::wants_settle(std::uint32_t sink) const noexcept {
  return state_->stages[sink]->wants_settle();
}
result<void> execution::settled(std::uint32_t sink, const small_record& offset) {
  state_->stages[sink]->latency.settled();
  return state_->stages[sink]->settled(offset);
}

/// Sources are at different items; `items` is the sum, `next_item` the largest.
stand execution::reached() const noexcept {
  stand now;
  for (const std::uint32_t i : state_->sources) {
    now.next_item = std::max(now.next_item, state_->stages[i]->delivered());
    now.items += state_->stages[i]->delivered();
  }
  now.ended = all_ended();
  return now;
}

void execution::stop_before(std::uint64_t next) noexcept {
  state_->limit = next;
}

/// Begins an epoch: the new image takes over the memory of the image before, and joined
/// sources are marked at once, because their positions are known.
result<void> execution::begin_epoch() {
  state& s = *state_;
  // One epoch at a time.
  WEIR_EXPECT(s.facts.epoch == 0);
  s.facts.epoch = ++s.newest_epoch;
  s.facts.spare = std::exchange(s.growing, {}).sections;
  s.growing.epoch = s.facts.epoch;
  s.growing.finished = all_ended();
  image_section& section = s.growing.sections.emplace_back();
  section.name = identity_section;
  // The identity comes first, so that it is compared first.
  append(section.data, as_view(identity_of(s.planned.source)));
  section.shape = {static_cast<std::int64_t>(section.data.size())};
  // Ranges that are skipped belong to the state of the run.
  s.facts.skipped.store(s.growing);
  for (const std::uint32_t i : s.sources) {
    if (stage_run& source = *s.stages[i]; source.joined() && !source.ended()) {
      WEIR_CHECK(source.mark_here());
    }
  }
  return {};
}
/// The place of the newest barrier, in the units of `reached`.
stand execution::barrier() const noexcept {
  stand there;
  for (const std::uint32_t i : state_->sources) {
    there.next_item = std::max(there.next_item, state_->stages[i]->marked());
    there.items += state_->stages[i]->marked();
  }
  there.ended = state_->growing.finished;
  return there;
}
bool execution::epoch_in_flight() const noexcept {
  return state_->facts.epoch != 0;
}

bool execution::complete() const noexcept {
  const state& s = *state_;
  return s.facts.epoch != 0 && s.contributed() && s.copies_ended();
}

/// Returns the image. Its copies have ended, and a failed one is an error here.
result<const image*> execution::completed() {
  WEIR_EXPECT(complete());
  // Waiting returns at once; it tells whether the copy has failed.
  for (const task_id id : state_->facts.copies) {
    WEIR_CHECK(state_->facts.host->base().wait(id));
  }
  state_->growing.next_item = barrier().next_item;
  return &state_->growing;
}

/// Items before the barrier are durable now.
void execution::committed() {
  for (const std::uint32_t sink : state_->sinks) {
    state_->stages[sink]->latency.durable(now_ns());
  }
  abandoned();
}

/// The image is dropped, and its memory serves the next one.
void execution::abandoned() {
  state_->facts.epoch = 0;
  state_->facts.copies.clear();
}

bool execution::all_ended() const noexcept {
  // A stage with open calls may still make items.
  return std::all_of(state_->stages.begin(), state_->stages.end(),
                     [](const auto& s) { return s->ended() && s->open_calls() == 0; });
}

/// A stage counts the items that it takes as the stages in front of it do, and all
/// sources share numbering 0.
std::optional<std::uint64_t> execution::failed_item() const noexcept {
  const state& s = *state_;
  if (!s.facts.failed_stage) {
    return std::nullopt;
  }
  const planned_stage& failed = s.planned.stages[*s.facts.failed_stage];
  for (const std::uint32_t in : failed.in) {
    const graph_edge& e = s.planned.source.edges[in];
    if (s.planned.stages[e.from].numbering != 0) {
      return std::nullopt;
    }
  }
  return s.facts.failed_item;
}

bool execution::tasks_in_flight() const noexcept {
  return state_->facts.host->base().in_flight() != 0;
}

/// Stages that wait for each other are the whole reason, so only they are named.
/// Otherwise each stage is listed with its reason.
std::string execution::waiting() const {
  const auto text_of = [](const std::vector<const stage_run*>& stages) {
    std::string text;
    for (const stage_run* s : stages) {
      text += fmt::format("{}\"{}\" waits for {}", text.empty() ? "" : "; ", s->name(),
                          s->waiting_for().reason);
    }
    return text;
  };
  std::vector<const stage_run*> all;
  for (const auto& s : state_->stages) {
    std::vector<const stage_run*> path;
    const stage_run* next = s.get();
    // Follows the stages that have to act. A stage that occurs twice closes a circle.
    while (next != nullptr && std::ranges::find(path, next) == path.end()) {
      path.push_back(next);
      next = next->waiting_for().other;
    }
    if (next != nullptr) {
      return "stages wait for each other: " +
             text_of({std::ranges::find(path, next), path.end()});
    }
    all.push_back(s.get());
  }
  return text_of(all);
}

/// Returns the last stage that has work, seen from the end: stages in front of it wait
/// for it.
std::string execution::bottleneck() const {
  const auto& order = state_->planned.order;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    const stage_run& s = *state_->stages[*i];
    if (!s.ended() && s.limits_rate()) {
      return s.name();
    }
  }
  return {};
}

/// Times of tasks are those that the engine has measured by tag.
run_counters execution::counters() const {
  run_counters all;
  const auto times = state_->facts.host->base().kernel_times();
  for (const auto& s : state_->stages) {
    all.stages.push_back(s->counters);
    // Stages outside the engine add the time of their hosts elsewhere.
    all.stages.back().busy_ns = times[s->tag()];
    all.item_bytes += s->slot_bytes();
  }
  for (const auto& e : state_->edges) {
    all.edges.push_back(e->counters());
  }
  for (const std::uint32_t sink : state_->sinks) {
    all.latencies.push_back(state_->stages[sink]->latency.counts());
  }
  return all;
}

/// For tests and reports: credits of every edge and where they are.
std::vector<edge_credits> execution::credits() const {
  std::vector<edge_credits> all;
  const graph& g = state_->planned.source;
  for (std::size_t i = 0; i < g.edges.size(); ++i) {
    const edge& e = *state_->edges[i];
    edge_credits& one = all.emplace_back();
    one.window = g.edges[i].window_items;
    // Credits that are out are items that somebody holds.
    one.free = one.window - e.alive();
    for (std::size_t n = 0; n < e.size(); ++n) {
      const entry_kind kind = e.peek(n).kind;
      one.waiting += kind == entry_kind::item || kind == entry_kind::gap ? 1 : 0;
    }
    one.held = state_->stages[g.edges[i].to]->held_of(e);
  }
  return all;
}

/// Adds the recorded items to the trace of the engine.
void execution::add_to_trace() const {
  if (!state_->recorder) {
    return;
  }
  std::vector<std::string> names;
  std::vector<std::uint32_t> numberings;
  // Names and numberings by the number of the stage.
  for (std::size_t i = 0; i < state_->stages.size(); ++i) {
    names.push_back(state_->stages[i]->name());
    numberings.push_back(state_->planned.stages[i].numbering);
  }
  state_->recorder->add_to(state_->facts.host->base().tracer(), names, numberings);
}

/// @param outside  Also asks stages on other threads, which must be idle.
std::vector<figures> execution::reports(bool outside) const {
  std::vector<figures> all(state_->objects.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const face kind = state_->planned.source.stages[i].info.face;
    const bool inside =
        kind != face::source && kind != face::sink && kind != face::blocking;
    if (inside || outside) {
      state_->objects[i]->report(all[i]);
      add_cuts(state_->cuts[i], all[i]);
    }
  }
  return all;
}

const plan& execution::planned() const noexcept {
  return state_->planned;
}

}  // namespace weir::flow
