// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handlers of the engine host's messages. Stages get turns and tasks run for a short
/// time; then the actor looks at its mailbox again. While nothing can be done it sleeps
/// until an I/O host answers.
///
/// The host owns the execution of the run and is the only thread that touches it. Each
/// call of `advance` gives the stages one round, exchanges batches with the I/O hosts
/// whose answer has come, and looks at the epoch. The host of a source or a sink has one
/// request at a time (`outside::busy`), that of a blocking stage up to `max_requests`.
/// The memory that a request refers to belongs to the thread of the I/O host until the
/// answer arrives.
#include "host/engine_host.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "host/host_epochs.hpp"
#include "host/host_report.hpp"
#include "host/host_run.hpp"
#include "volume/constants.hpp"
#include "weir/base/clock.hpp"

namespace weir::actors {
namespace {

/// Longest time for which the actor works before it looks at its mailbox again.
/// @units{nanoseconds}
constexpr std::int64_t max_work_ns = 1'000'000;
/// Longest sleep while tasks run.
/// @units{nanoseconds}
constexpr std::int64_t idle_ns = 100'000;
/// Items that an I/O host gets with one message.
/// More items per message cost fewer switches between threads, but hold more items back.
constexpr std::uint32_t batch_items = 32;
/// Batches that the host of a blocking stage has at once: it begins the next one while
/// the answer to the one before is on its way.
constexpr unsigned max_requests = 2;
constexpr std::chrono::milliseconds tick{100};
/// Items of all stages that a trace shows from the start of a run, and from its end.
constexpr std::size_t max_recorded_items = 20'000;

/// Notes an answer of an I/O host.
void answered(host_pointer self, outside& o) {
  o.busy = false;
  self->state.progress_ns = now_ns();
  keep_working(self);
}

/// Sends a request to an I/O host. `then` gets the answer, of type `T`.
/// There is no deadline (`caf::infinite`): a source may wait for data for days. After the
/// end of the run an answer is dropped, because the execution may be closing.
template <class T, class Handle, class Then, class... As>
void ask_host(host_pointer self, outside& o, const Handle& host, const char* action,
              Then then, As... as) {
  o.busy = true;
  self->state.report.messages += 2;  // and the answer
  self->request(host, caf::infinite, std::move(as)...)
      .then(
          [self, &o, then](const T& value) {
            answered(self, o);
            if (!self->state.over) {
              then(value);
            }
          },
          [self, &o, action](const caf::error& e) {
            answered(self, o);
            fail(self, from_caf(e, action));
          });
}

/// Takes the items that a source has filled, its end, and its failure. The items behind
/// the filled ones go back to the run, which has not given their numbers to anybody.
void take_filled(host_pointer self, outside& o, const filled_batch& batch) {
  auto& run = execution_of(self);
  for (std::size_t i = 0; i < batch.filled; ++i) {
    auto delivered = run.deliver(*o.granted[i]);
    if (!succeeded(self, delivered)) {
      return;
    }
  }
  // The failure is kept: the items before it get a checkpoint first, and then the run
  // ends.
  if (batch.failure) {
    self->state.failure = self->state.failure ? self->state.failure : batch.failure;
  }
  // The item behind the last filled one stands for the end of the source.
  if (batch.ended) {
    auto ended = run.end(*o.granted[batch.filled], batch.cursor);
    static_cast<void>(succeeded(self, ended));
  } else if (batch.filled < o.granted.size()) {
    // A source without data at the moment has left the rest.
    run.take_back(o.hosted.stage);
  }
  o.granted.clear();
}

/// Gives a source items to fill, or asks for its cursor. Returns whether it did.
/// @param least  Items for which a message is worth its time; fewer only before a
/// barrier.
bool feed(host_pointer self, outside& o, std::uint32_t least) {
  auto& s = self->state;
  auto& run = execution_of(self);
  if (o.busy) {
    return false;
  }
  // A cursor is wanted for a barrier, and nothing may be granted before it is known.
  const std::uint32_t stage = o.hosted.stage;
  if (run.wants_cursor(stage)) {
    ask_host<local<flow::small_record>>(
        self, o, o.hosted.actor, "asking for a cursor",
        [self, stage](const local<flow::small_record>& cursor) {
          auto marked = execution_of(self).mark(stage, *cursor);
          static_cast<void>(succeeded(self, marked));
        },
        cursor_atom_v);
    return true;
  }
  // After a failure and after a request to stop, sources get nothing more.
  if (s.failure || s.orders.stopping() || !run.can_grant(stage, least)) {
    return false;
  }
  while (o.granted.size() < batch_items) {
    flow::blank* item = run.grant(stage);
    if (item == nullptr) {
      break;
    }
    o.granted.push_back(item);
  }
  if (o.granted.empty()) {
    return false;
  }
  ask_host<local<filled_batch>>(
      self, o, o.hosted.actor, "reading a source",
      [self, &o](const local<filled_batch>& batch) { take_filled(self, o, *batch); },
      fill_atom_v, by_reference(blank_batch{o.granted}));
  return true;
}

/// Takes the answer to a batch of a blocking stage. If it has ended early, its last items
/// are sent again, before those of later batches, which the host leaves alone.
void take_exchanged(host_pointer self, outside& o, std::size_t size,
                    const exchanged_batch& batch) {
  const std::size_t ended = batch.processed + (batch.failed || batch.partial ? 1 : 0);
  --o.requests;
  o.sent -= size;
  o.ended_early = (o.ended_early || ended != size) && o.requests != 0;
  for (std::size_t i = 0; i < ended; ++i) {
    auto given = flow::execution::give_back(
        *o.exchanges[i], i < batch.processed || batch.partial ? nullptr : &*batch.failed);
    if (!succeeded(self, given)) {
      return;
    }
  }
  // What has ended is dropped; the rest, at the front, is sent again before new items.
  o.exchanges.erase(o.exchanges.begin(),
                    o.exchanges.begin() + static_cast<std::ptrdiff_t>(ended));
}

/// Gives a blocking stage complete items, while it works on others, too, if there are
/// enough of them. Returns whether it did.
result<bool> process(host_pointer self, outside& o) {
  if (o.requests == max_requests || o.ended_early) {
    return false;
  }
  while (o.exchanges.size() - o.sent < batch_items) {
    WEIR_TRY(flow::exchange * item, execution_of(self).next_exchange(o.hosted.stage));
    if (item == nullptr) {
      break;
    }
    o.exchanges.push_back(item);
  }
  const std::size_t size =
      std::min(o.exchanges.size() - o.sent, std::size_t{batch_items});
  if (size < (o.requests == 0 ? 1 : o.worth_it)) {
    return false;
  }
  const auto from = o.exchanges.begin() + static_cast<std::ptrdiff_t>(o.sent);
  exchange_batch batch{{from, from + static_cast<std::ptrdiff_t>(size)}, o.requests == 0};
  ++o.requests;
  o.sent += size;
  ask_host<local<exchanged_batch>>(
      self, o, o.hosted.actor, "calling a blocking stage",
      [self, &o, size](const local<exchanged_batch>& answer) {
        take_exchanged(self, o, size, *answer);
      },
      work_atom_v, by_reference(std::move(batch)));
  return true;
}

/// Gives a sink its complete items, or lets it settle. Returns whether it did.
/// A sink settles only after it has written everything before the barrier: the execution
/// asks for it (`wants_settle`) when no item is left.
result<bool> drain(host_pointer self, outside& o) {
  auto& run = execution_of(self);
  if (o.busy) {
    return false;
  }
  const std::uint32_t stage = o.hosted.stage;
  ready_batch batch;
  while (batch.items.size() < batch_items) {
    WEIR_TRY(const flow::ready* item, run.next_ready(stage));
    if (item == nullptr) {
      break;
    }
    batch.items.push_back(item);
  }
  if (!batch.items.empty()) {
    // The sink answers with the number of written items, all of the batch on success.
    ask_host<std::uint64_t>(
        self, o, o.hosted.actor, "writing to a sink",
        [self, stage](std::uint64_t count) {
          for (std::uint64_t i = 0; i < count; ++i) {
            execution_of(self).done(stage);
          }
        },
        write_atom_v, by_reference(std::move(batch)));
    return true;
  }
  if (run.wants_settle(stage)) {
    ask_host<local<flow::small_record>>(
        self, o, o.hosted.actor, "making a sink durable",
        [self, stage](const local<flow::small_record>& offset) {
          auto settled = execution_of(self).settled(stage, *offset);
          static_cast<void>(succeeded(self, settled));
        },
        flush_atom_v);
    return true;
  }
  return false;
}

/// Lets stages, I/O hosts and epochs go on. Returns whether any of them did.
/// The order matters little, because the loop around it repeats until nothing is
/// possible.
result<bool> advance(host_pointer self) {
  auto& s = self->state;
  // Stages of the engine first: they free items that sources can get.
  WEIR_TRY(bool worked, execution_of(self).turn());
  for (outside& o : s.sources) {
    worked = feed(self, o, o.refill) || worked;
  }
  for (outside& o : s.blocking) {
    WEIR_TRY(const bool processed, process(self, o));
    worked = processed || worked;
  }
  for (outside& o : s.sinks) {
    WEIR_TRY(const bool drained, drain(self, o));
    worked = drained || worked;
  }
  // The epoch last: its conditions may have become true by the steps above.
  WEIR_TRY(const bool epoch, advance_epoch(self));
  // Running tasks will free items, so that waiting for full batches is right.
  if (worked || epoch || execution_of(self).tasks_in_flight()) {
    return worked || epoch;
  }
  // Stages behind may hold the rest of a window until they get more items.
  for (outside& o : s.sources) {
    worked = feed(self, o, 1) || worked;
  }
  return worked;
}

/// Works for at most `max_work_ns` and sends itself a message if there is more to do.
/// Between two such messages CAF delivers the other messages of the actor.
void work_a_little(host_pointer self) {
  auto& s = self->state;
  // A new message to work may be sent from now on.
  s.working = false;
  if (s.over || !s.config.parts->run) {
    return;
  }
  runtime::engine& engine = s.config.parts->host->base();
  const std::int64_t until = now_ns() + max_work_ns;
  bool goes_on = true;
  for (std::int64_t now = 0; goes_on && now < until; now = now_ns()) {
    auto worked = advance(self);
    if (!succeeded(self, worked) || s.over) {
      return;
    }
    // The thread runs tasks itself while stages have nothing to do.
    if (*worked || s.tasks.run(engine)) {
      s.progress_ns = now_ns();
    } else if (execution_of(self).tasks_in_flight()) {
      // Tasks of other workers are running; `idle` returns early when one ends.
      engine.idle(idle_ns);
    } else {
      wait_for_message(self, s.short_wait);
      goes_on = false;
    }
    // A waiting message may be an answer, which is more urgent than the next round.
    if (!self->mailbox().empty()) {
      break;
    }
  }
  if (goes_on) {
    keep_working(self);
  }
}

/// Does what depends on time.
void look_at_clock(host_pointer self) {
  auto& s = self->state;
  if (s.over) {
    return;
  }
  // The next tick is ordered first, so that a failure below cannot stop the clock.
  self->delayed_send(self, tick, deadline_atom_v);
  if (!s.config.parts->run) {
    return;
  }
  // A round of work is forced as well, so that a stage that waits for time gets its turn.
  send_samples(self);
  keep_working(self);
}

/// Returns half of the smallest window behind a source, or before a blocking stage:
/// asking for fewer items costs more messages, and asking later may leave the stages
/// behind without any.
std::uint32_t refill_of(const flow::graph& g, std::uint32_t stage) {
  std::uint32_t window = 2 * batch_items;
  for (const flow::graph_edge& e : g.edges) {
    window = e.from == stage || e.to == stage ? std::min(window, e.window_items) : window;
  }
  return std::max(window / 2, 1U);
}

/// Makes the engine and the execution and opens all stages. Afterwards the image of a
/// resumed run is accepted, and `accepted` may make lasting changes, such as writing to
/// the folder.
result<void> open_run(engine_host_shell& s) {
  pipeline_parts& parts = *s.config.parts;
  // The engine belongs to the thread that makes it, which is the thread of this actor.
  parts.host = std::make_unique<weir::engine>(s.config.engine);
  s.tasks = flow::task_batch(s.config.engine.workers);
  flow::execution_options options;
  options.seed = s.config.options.seed;
  options.folder = s.config.options.files;
  options.load = load_constant;
  options.skip = s.config.options.skip;
  options.fill_slots = s.config.options.fill_slots;
  options.kernels = s.config.options.kernels;
  // A trace that is off records no items.
  options.recorded_items =
      s.config.engine.trace.mode == runtime::trace_mode::off ? 0 : max_recorded_items;
  WEIR_TRY(parts.run,
           flow::execution::create(s.config.planned, std::move(parts.objects),
                                   *parts.host, std::move(options), s.config.from.get()));
  if (s.config.accepted) {
    WEIR_CHECK(s.config.accepted());
  }
  s.report.resumed_item = parts.run->reached().next_item;
  s.report.generation = s.config.generation;
  return {};
}

/// Begins the run. It is a message of its own, so that the actors that are named in the
/// configuration exist before the first request.
void launch(host_pointer self) {
  auto& s = self->state;
  s.start_ns = s.progress_ns = now_ns();
  auto opened = open_run(s);
  if (!succeeded(self, opened)) {
    return;
  }
  for (const hosted_stage& h : s.config.sources) {
    outside& o = s.sources.emplace_back();
    o.hosted = h;
    o.refill = refill_of(s.config.planned.source, h.stage);
  }
  for (const hosted_stage& h : s.config.sinks) {
    s.sinks.emplace_back().hosted = h;
  }
  for (const hosted_stage& h : s.config.blocking) {
    outside& o = s.blocking.emplace_back();
    o.hosted = h;
    o.worth_it = refill_of(s.config.planned.source, h.stage);
  }
  // The conductor must know the first position before it can order an epoch.
  tell_begin(self);
  send_samples(self, true);
  self->delayed_send(self, tick, deadline_atom_v);
  keep_working(self);
}

}  // namespace

engine_host_actor::behavior_type engine_host(
    host_pointer self, const std::shared_ptr<engine_host_config>& config) {
  install_defaults(self);
  // The configuration is moved out, because it holds objects with one owner.
  self->state.config = std::move(*config);
  return {
      reacts(self, "engine host, work", [self](work_atom) { work_a_little(self); }),
      reacts(self, "engine host, begin",
             [self](begin_atom, const local<epoch_order>& order) {
               take_order(self, *order);
             }),
      reacts(self, "engine host, launch", [self](launch_atom) { launch(self); }),
      reacts(self, "engine host, deadline",
             [self](deadline_atom) { look_at_clock(self); }),
  };
}

}  // namespace weir::actors
