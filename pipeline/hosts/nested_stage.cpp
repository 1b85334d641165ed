// SPDX-License-Identifier: Apache-2.0
/// @file
/// A stage alone: makes items of the tensors that a host has, lets the stage process them
/// on its own engine, and takes from its edges what it has made.
///
/// The stage has a `stage_run` of its own with edges that nobody else sees: inlets are
/// fed from calls of the host, and what arrives at the outlets is delivered to it. Memory
/// of the host is made known to the engine by `adopt` and only named, not copied.
///
/// A call of `work` may end before all of its items are delivered, for lack of space. The
/// calls that the stage has taken stay in it (`pending`), and the host repeats them in
/// front of further ones; their inputs may then lie at another place, which `move_inputs`
/// corrects.
#include "weir/pipeline/host/nested_stage.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "flow/stage_run.hpp"
#include "weir/base/system/fp_environment.hpp"
#include "weir/pipeline/host/stage_calls.hpp"
#include "weir/pipeline/host/task_batch.hpp"

namespace weir::flow {

bool stage_run::takes_call() const noexcept {
  if (open() + 1 >= ring_size_ || (info_.face == face::looping && open() != 0)) {
    return false;
  }
  return is_outside() || (slots_available() && (emits_late() || has_output(info_.gives)));
}

/// @pre The inputs of `next_call` are filled in.
result<void> stage_run::run_alone(std::uint64_t seq) {
  call& c = current();
  c.seq = seq;
  return run(c);
}

namespace {

/// Memory regions that are known to the engine at the same time.
constexpr std::size_t max_known = 4096;
/// Largest number of items of one call of `nested_stage::work`.
constexpr std::uint32_t batch_items = 32;
/// Longest sleep while tasks run. @units{nanoseconds}
constexpr std::int64_t idle_ns = 1'000'000;
/// Time in which kernels may be called in place of tasks, from the begin of a call of
/// `nested_stage::work`, which waits for all of them in any case.
constexpr std::int64_t nested_calls_ns = 1'000'000'000;
/// Tasks in flight of the engine of one stage.
constexpr std::uint32_t task_window = 1024;

/// Removes stage and number from an error, because the host of the run adds them itself.
error without_item(error e, const std::string& name, std::uint64_t seq) {
  const bool same =
      e.cause() != nullptr && e.text() == item_error(name, seq, *e.cause()).text();
  return same ? error(*e.cause()) : std::move(e);
}

}  // namespace

/// Members are destroyed from the last to the first: the engine after everything that
/// uses it.
struct nested_stage::state {
  graph_stage source;
  planned_stage planned;
  std::unique_ptr<weir::engine> host;  // outlives everything below
  std::unique_ptr<stage_object> object;
  run_facts facts;
  image growing;
  std::vector<std::unique_ptr<edge>> inlets;
  std::vector<std::unique_ptr<edge>> outlets;
  std::unique_ptr<slot_pool> inputs;  ///< home of the slots of inputs
  std::vector<std::unique_ptr<slot>> slots;
  /// Number of the next slot; its place is the number modulo the size.
  std::size_t next_slot = 0;
  std::unique_ptr<item_pool> items;
  std::unique_ptr<stage_run> run;
  std::map<const std::byte*, runtime::storage> known;  ///< memory of others by address
  task_batch tasks{1};
  /// Failed items of the calls so far, in the order of the calls.
  std::vector<std::pair<std::uint64_t, error>> failures;
  /// Calls from the oldest that the stage has taken and whose items were not delivered.
  std::size_t pending = 0;
  std::size_t first_pending_slot = 0;  ///< of the oldest of these calls

  /// Makes engine, edges and pools.
  [[nodiscard]] result<void> build(std::int64_t budget, std::uint64_t seed);
  [[nodiscard]] result<runtime::tensor> adopt(const runtime::tensor& foreign);
  [[nodiscard]] result<void> feed(const call_view& one);
  [[nodiscard]] result<void> move_inputs(std::span<const call_view> calls);
  void no_longer_pending(const call_view& one);
  [[nodiscard]] result<bool> serve();
  [[nodiscard]] std::optional<error> process(std::span<const call_view> calls);
  [[nodiscard]] std::optional<error> process_until_end(std::span<const call_view> calls);
  void finish_tasks();
  [[nodiscard]] std::size_t waiting() const;
  [[nodiscard]] result<bool> deliver_one(std::size_t call, const made_items& to);
  [[nodiscard]] processed_items deliver(std::span<const call_view> calls,
                                        std::size_t before, const made_items& to);
  [[nodiscard]] processed_items work_one(const call_view& one, const made_items& to);
  void drop_outputs();
};

// Outlets for failed items belong to the run, which also counts failures.
result<void> nested_stage::state::build(std::int64_t budget, std::uint64_t seed) {
  stage_info& info = source.info;
  std::erase_if(info.ports, [](const port_info& p) { return p.dead_letter; });
  planned.types.resize(info.ports.size());
  source.on_failure = source.on_failure == failure_policy::stop ? failure_policy::stop
                                                                : failure_policy::skip;
  source.max_failures = unlimited_failures;
  // A stage with numbers of its own gets one call at a time.
  const std::uint32_t most =
      info.own_numbering ? 1 : std::clamp(planned.slots, 1U, batch_items);
  planned.slots = most * info.gives + info.gives;
  runtime::engine_options options;
  options.workers = 1;
  options.window = task_window;
  host = std::make_unique<weir::engine>(options);
  facts.host = host.get();
  facts.calls = std::make_unique<runtime::direct_calls>(host->base());
  facts.seed = seed;
  facts.growing = &growing;
  facts.alone = true;
  if (source.on_failure != failure_policy::stop) {
    facts.failures_of = &failures;
  }
  run = std::make_unique<stage_run>(source.name, source.info, *object, facts);
  // The edges limit nothing but the number of items.
  constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max() / 2;
  for (std::size_t i = 0; i < info.inlets(); ++i) {
    edge& e = *inlets.emplace_back(std::make_unique<edge>(1, no_limit));
    run->connect_inlet(i, e, static_cast<std::uint32_t>(i), false, *run);
  }
  for (std::size_t o = 0; o < info.outlets(); ++o) {
    edge& e = *outlets.emplace_back(std::make_unique<edge>(most * info.gives, no_limit));
    run->connect_outlet(o, e, 0, *run);
  }
  WEIR_CHECK(run->allocate(source, planned, most, budget));
  WEIR_TRY(inputs, slot_pool::create(*host, 0, 0, no_limit, source.name));
  // A call that waits for tasks and one that waits to be delivered hold their inputs.
  const std::size_t calls = std::size_t{2 * most + 2} * info.takes;
  items = std::make_unique<item_pool>(calls, info.inlets());
  for (std::size_t i = 0; i < calls * info.inlets(); ++i) {
    slots.emplace_back(std::make_unique<slot>())->home = inputs.get();
  }
  return {};
}

/// Names memory of the host of the run on the engine of the stage.
// The region stays known, because the host uses few regions again and again.
result<runtime::tensor> nested_stage::state::adopt(const runtime::tensor& foreign) {
  const runtime::storage& there = foreign.store();
  auto found = known.find(there.base);
  // The host has other memory at this address now.
  if (found != known.end() && found->second.size != there.size) {
    WEIR_CHECK(host->base().release(found->second.id));
    known.erase(found);
    found = known.end();
  }
  if (found == known.end()) {
    // All are forgotten at once, which costs more later and is rare.
    if (known.size() == max_known) {
      for (const auto& [address, one] : known) {
        WEIR_CHECK(host->base().release(one.id));
      }
      known.clear();
    }
    found =
        known.emplace(there.base, host->base().adopt(there.base, there.size, "")).first;
  }
  return runtime::tensor::over(found->second, foreign.type(), foreign.shape(),
                               foreign.offset());
}

/// Lets the stage take a call.
/// @pre `takes_call` is true.
result<void> nested_stage::state::feed(const call_view& one) {
  const std::size_t count = source.info.inlets();
  facts.turn_ns = one.turn_ns;
  call& c = run->next_call();
  // Items of a call follow each other, with one tensor per inlet.
  for (std::size_t i = 0; i < one.inputs.size(); i += count) {
    item* body = nullptr;
    for (std::size_t p = 0; p < count; ++p) {
      const auto outlet = static_cast<std::uint32_t>(p);
      // The credit is given back when the call ends.
      call::input input{nullptr, inlets[p].get(), outlet, 0};
      inlets[p]->take_credit(0);
      if (one.inputs[i + p] != nullptr) {
        if (body == nullptr) {
          body = &items->take();
          body->seq = one.seq;
          body->lane = one.lane;
          body->about = *one.about;
          body->left_source_ns = one.source_ns;
          body->holders = 0;
        }
        slot& s = *slots[next_slot++ % slots.size()];
        WEIR_TRY(s.tensor, adopt(*one.inputs[i + p]));
        // It is used again when the ring has come around.
        s.names = 2;  // the slot never becomes free
        s.complete = true;
        body->slots[p] = &s;
        ++body->holders;
        input.body = body;
      }
      c.inputs.push_back(input);
    }
  }
  return run->run_alone(one.seq);
}

/// Finds the inputs of calls that the stage has taken before. The host may have put them
/// into another place, and the stage may hand them on or still read them.
/// @pre `calls` are the pending ones, from the oldest.
result<void> nested_stage::state::move_inputs(std::span<const call_view> calls) {
  // The slots of pending calls follow each other in the ring.
  std::size_t place = first_pending_slot;
  for (const call_view& one : calls) {
    for (const runtime::tensor* input : one.inputs) {
      if (input != nullptr) {
        WEIR_TRY(slots[place % slots.size()]->tensor, adopt(*input));
        ++place;
      }
    }
  }
  return {};
}

/// Notes that a call was delivered.
void nested_stage::state::no_longer_pending(const call_view& one) {
  --pending;
  first_pending_slot += static_cast<std::size_t>(std::ranges::count_if(
      one.inputs, [](const auto* input) { return input != nullptr; }));
}

/// Serves a blocking stage, which has no tasks. Returns whether there was work.
// The item is complete, because its memory belongs to the host.
result<bool> nested_stage::state::serve() {
  if (source.info.face != face::blocking) {
    return false;
  }
  WEIR_TRY(exchange * e, run->next_exchange());
  if (e == nullptr) {
    return false;
  }
  // The stage is called on this thread, which is its own.
  const auto made = call_on_ready(*object, *e);
  WEIR_CHECK(run->give_back(*e, made ? nullptr : &made.error()));
  return true;
}

/// Waits for all tasks. The engine does not forget which of them have failed.
void nested_stage::state::finish_tasks() {
  while (host->base().in_flight() != 0) {
    // Tasks of this engine run here until nothing is in flight.
    if (!tasks.run(host->base())) {
      host->base().idle(idle_ns);
    }
  }
}

/// Processes calls, and waits for the tasks of the other calls if one has failed: the
/// host may free the inputs, which these tasks read, when it has the error.
std::optional<error> nested_stage::state::process(std::span<const call_view> calls) {
  auto failed = process_until_end(calls);
  if (failed) {
    finish_tasks();
  }
  return failed;
}

/// Lets the stage process calls until all of them are complete, or one fails, or the
/// stage needs space for what it makes.
/// Returns the failure, if there is one.
std::optional<error> nested_stage::state::process_until_end(
    std::span<const call_view> calls) {
  std::optional<error> refused;
  const fp_scope scope;
  facts.calls->allow(nested_calls_ns);
  if (pending == 0) {
    first_pending_slot = next_slot;
  } else if (auto moved = move_inputs(calls.first(pending)); !moved) {
    return std::move(moved.error());
  }
  while (true) {
    while (!refused && pending < calls.size() && run->takes_call()) {
      if (auto fed = feed(calls[pending]); !fed) {
        refused = std::move(fed.error());
      } else {
        ++pending;
      }
    }
    // Gives the stage its turn, and ends what can end.
    auto served = serve();
    auto settled = run->settle();
    if (!served || !settled) {
      return served ? std::move(settled.error()) : std::move(served.error());
    }
    // Nothing is open and nothing can be fed.
    if (run->open_calls() == 0 && (refused || pending >= calls.size())) {
      return refused;
    }
    if (*served || *settled || tasks.run(host->base())) {
      continue;
    }
    // No task runs and nothing can be fed: what was made must be delivered first.
    if (host->base().in_flight() == 0) {
      return refused;  // it needs space
    }
    host->base().idle(idle_ns);
  }
}

/// Returns how many items wait to be delivered.
/// All outlets have as many entries, because items and gaps go through all of them.
std::size_t nested_stage::state::waiting() const {
  return outlets.empty() ? 0 : outlets.front()->size();
}

/// Delivers the oldest item of all outlets. Returns false if there is no space for it.
/// A number without a tensor at any outlet was skipped.
result<bool> nested_stage::state::deliver_one(std::size_t number, const made_items& to) {
  made_view one;
  one.call = number;
  one.skipped = true;
  for (std::size_t o = 0; o < outlets.size(); ++o) {
    if (const item* body = outlets[o]->front().body; body != nullptr) {
      one.skipped = false;
      one.about = &body->about;
      one.tensors[o] = &body->slots[o]->tensor;
    }
  }
  WEIR_TRY(const bool taken_now, to(one));
  if (taken_now) {
    for (const auto& e : outlets) {
      const entry popped = e->pop();
      e->give_back(popped.bytes);
      if (popped.body != nullptr) {
        let_go(*popped.body);
      }
    }
  }
  return taken_now;
}

/// Delivers the items of the calls before a number, which keep their numbers.
/// The item of a failed call is a gap, and its error follows it.
processed_items nested_stage::state::deliver(std::span<const call_view> calls,
                                             std::size_t before, const made_items& to) {
  processed_items done;
  while (done.processed < before) {
    const std::uint64_t seq = calls[done.processed].seq;
    // A sink has no outlets, and nothing is delivered.
    if (!outlets.empty()) {
      auto taken_now = deliver_one(done.processed, to);
      if (!taken_now) {
        done.failed = std::move(taken_now.error());
        return done;
      }
      if (!*taken_now) {
        return done;
      }
    }
    no_longer_pending(calls[done.processed]);
    // Failures are in the order of the calls.
    if (!failures.empty() && failures.front().first == seq) {
      done.failed = without_item(std::move(failures.front().second), source.name, seq);
      failures.erase(failures.begin());
      return done;
    }
    ++done.processed;
  }
  return done;
}

/// Processes a call of a stage whose items have numbers of their own.
/// A call that makes more than there is space for is partial and is continued.
processed_items nested_stage::state::work_one(const call_view& one,
                                              const made_items& to) {
  processed_items done;
  while (true) {
    // Works until the call has ended, or has made as much as there is space for.
    auto failed = process({&one, 1});
    if (failed) {
      done.failed = without_item(std::move(*failed), source.name, one.seq);
      return done;
    }
    // Delivers what is there, so that the stage has space again.
    while (waiting() != 0) {
      auto taken_now = deliver_one(0, to);
      if (!taken_now) {
        done.failed = std::move(taken_now.error());
        return done;
      }
      if (!*taken_now) {
        done.partial = true;
        return done;
      }
    }
    // The call has ended and everything was delivered.
    if (run->open_calls() == 0) {
      pending = 0;
      if (!failures.empty()) {
        done.failed =
            without_item(std::move(failures.front().second), source.name, one.seq);
        failures.clear();
        return done;
      }
      done.processed = 1;
      return done;
    }
  }
}

nested_stage::nested_stage(std::unique_ptr<state> s) : state_(std::move(s)) {}

// Tasks may still use memory of the object.
nested_stage::~nested_stage() {
  static_cast<void>(state_->host->wait());
}

/// @param budget  Bytes of the window behind the stage. @param fill_slots  See
/// `execution_options`.
result<std::unique_ptr<nested_stage>> nested_stage::create(
    const graph_stage& stage, const planned_stage& planned, std::int64_t budget,
    std::uint64_t seed, std::unique_ptr<stage_object> object, int fill_slots) {
  auto s = std::make_unique<state>();
  s->source = stage;
  s->planned = planned;
  s->object = std::move(object);
  s->facts.fill_slots = fill_slots;
  WEIR_CHECK(s->build(budget, seed));
  return std::unique_ptr<nested_stage>(new nested_stage(std::move(s)));
}

stage_object& nested_stage::object() noexcept {
  return *state_->object;
}
weir::engine& nested_stage::host() noexcept {
  return *state_->host;
}

/// Opens the stage on its own engine.
result<std::vector<constant_info>> nested_stage::open(const opening::facts& run) {
  opening::facts own = run;
  own.engine = state_->host.get();
  opening here(std::move(own));
  WEIR_CHECK(guarded([&] { return state_->object->open(here); }));
  return here.constants();
}

/// Processes calls and delivers what they make. Calls from `processed` on have to come
/// again, unless the stage has failed.
processed_items nested_stage::work(std::span<const call_view> calls,
                                   const made_items& to) {
  state& s = *state_;
  if (s.source.info.own_numbering) {
    processed_items all;
    for (const call_view& one : calls) {
      // The number in the message is that of the call in `calls`.
      const std::size_t number = all.processed;
      processed_items done = s.work_one(one, [&](const made_view& made) {
        made_view numbered = made;
        numbered.call = number;
        return to(numbered);
      });
      if (done.failed || done.partial) {
        done.processed = all.processed;
        return done;
      }
      ++all.processed;
    }
    return all;
  }
  // Numbers are kept: items are delivered call by call.
  auto failed = s.process(calls);
  std::size_t complete = calls.size();
  // The calls in front of the one that failed are complete.
  if (failed) {
    const auto at = std::ranges::find(calls, s.facts.failed_item, &call_view::seq);
    complete = static_cast<std::size_t>(at - calls.begin());
  }
  complete = std::min(complete, s.pending);
  // A failure of an earlier call may have been found while delivering.
  processed_items done = s.deliver(calls, complete, to);
  if (failed && !done.failed && done.processed == complete) {
    done.failed = without_item(std::move(*failed), s.source.name, s.facts.failed_item);
  }
  return done;
}

/// Lets a sink write items, one after another; their memory is complete.
processed_items nested_stage::write(std::span<const call_view> calls) {
  state& s = *state_;
  processed_items done;
  const auto put = [&](const call_view& one) -> result<void> {
    WEIR_CHECK(s.feed(one));
    WEIR_TRY(const ready* item, s.run->next_ready());
    // Its memory belongs to the host, so it is complete at once.
    WEIR_EXPECT(item != nullptr);
    taken t(*item);
    WEIR_CHECK(guarded([&] { return s.object->put(t); }));
    s.run->done();
    return {};
  };
  for (const call_view& one : calls) {
    if (auto written = put(one); !written) {
      done.failed = std::move(written.error());
      break;
    }
    ++done.processed;
  }
  return done;
}

/// Lets a source make at most `count` items and delivers each at once.
filled_items nested_stage::fill(std::uint64_t seq, std::size_t count,
                                const made_items& to) {
  state& s = *state_;
  filled_items done;
  const auto next = [&]() -> result<bool> {
    // The number of an item is that of the run.
    s.run->set_next(seq + done.filled);
    blank* b = s.run->grant(std::numeric_limits<std::uint64_t>::max());
    WEIR_EXPECT(b != nullptr);
    pull p(*b);
    auto more = guarded([&] { return s.object->next(p); });
    // The blank is taken back if the source has not filled it.
    if (!more || !*more || b->nothing_yet) {
      done.nothing_yet = more && *more;
      s.run->take_back_grants();
      return more;
    }
    WEIR_CHECK(s.run->deliver(*b));
    WEIR_TRY(const bool taken_now, s.deliver_one(done.filled, to));
    if (!taken_now) {
      return error(errc::out_of_range,
                   fmt::format("cannot hand on the item {}: expected space for it, found "
                               "none",
                               seq + done.filled));
    }
    return true;
  };
  while (done.filled < count && !done.nothing_yet) {
    auto more = next();
    if (!more) {
      done.failure = std::move(more.error());
      return done;
    }
    if (!*more) {
      // The last checkpoint of the run holds this cursor.
      done.ended = true;
      done.cursor = s.object->position();
      return done;
    }
    done.filled += done.nothing_yet ? 0 : 1;
  }
  return done;
}

/// Returns the state of the stage, with names that do not have the stage in front.
result<std::vector<image_section>> nested_stage::copy_state() {
  state& s = *state_;
  s.growing = {};
  s.facts.copies.clear();
  WEIR_CHECK(s.run->contribute_state());
  // The image must be complete, because the host copies it.
  for (const task_id id : s.facts.copies) {
    WEIR_CHECK(s.host->base().wait(id));
  }
  const std::size_t prefix = ("STATE/" + s.source.name + "/").size();
  for (image_section& one : s.growing.sections) {
    one.name.erase(0, prefix);
  }
  return std::exchange(s.growing, {}).sections;
}

/// The counterpart of `copy_state`.
result<void> nested_stage::restore_state(std::vector<image_section> from) {
  image whole;
  for (image_section& one : from) {
    one.name = "STATE/" + state_->source.name + "/" + one.name;
    whole.sections.push_back(std::move(one));
  }
  return restore_state(whole);
}

result<void> nested_stage::restore_state(const image& from) {
  return guarded([&] { return state_->run->restore_state(from); });
}

}  // namespace weir::flow
