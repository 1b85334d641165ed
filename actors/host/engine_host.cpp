// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handlers of the engine host's messages. Stages get turns and tasks run for a short
/// time; then the actor looks at its mailbox again. While nothing can be done it sleeps
/// until an I/O host answers.
#include "host/engine_host.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "volume/constants.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/file.hpp"

namespace weir::actors {
namespace {

using host_pointer = engine_host_actor::stateful_pointer<engine_host_shell>;
using outside = engine_host_shell::outside;

/// Longest time for which the actor works before it looks at its mailbox again.
constexpr std::int64_t max_work_ns = 1'000'000;
/// Longest sleep while tasks run.
constexpr std::int64_t idle_ns = 100'000;
/// Items that an I/O host gets with one message.
constexpr std::size_t batch_items = 32;
constexpr std::chrono::milliseconds tick{100};
/// Items of all stages that a trace shows from the begin of a run, and from its end.
constexpr std::size_t max_recorded_items = 20'000;
constexpr std::int64_t rate_window_ns = 3'000'000'000;

flow::execution& execution_of(host_pointer self) {
  return *self->state.config.parts->run;
}

void keep_working(host_pointer self) {
  auto& s = self->state;
  if (!s.working && !s.over) {
    s.working = true;
    self->send(self, work_atom_v);
  }
}

/// Reports the end of the run, once.
void end_run(host_pointer self, result<host_end> end) {
  auto& s = self->state;
  if (!s.over) {
    s.over = true;
    s.config.ended(std::move(end));
  }
}

void fail(host_pointer self, error cause) {
  end_run(self, std::move(cause));
}

/// Fails the run if a result is an error. Returns whether it is a success.
template <class T>
bool succeeded(host_pointer self, result<T>& r) {
  if (!r) {
    fail(self, std::move(r.error()));
  }
  return r.has_value();
}

/// Notes an answer of an I/O host.
void answered(host_pointer self, outside& o) {
  o.busy = false;
  self->state.progress_ns = now_ns();
  keep_working(self);
}

/// Sends a request to an I/O host. `then` gets the answer, of type `T`.
template <class T, class Handle, class Then, class... As>
void ask_host(host_pointer self, outside& o, const Handle& host, const char* action,
              Then then, As... as) {
  o.busy = true;
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

void take_filled(host_pointer self, outside& o, const filled_batch& batch) {
  auto& run = execution_of(self);
  for (std::size_t i = 0; i < batch.filled; ++i) {
    auto delivered = run.deliver(*o.granted[i]);
    if (!succeeded(self, delivered)) {
      return;
    }
  }
  o.quiet = batch.filled < o.granted.size() && !batch.ended && !batch.failure;
  if (batch.failure) {
    o.failed = true;
    self->state.stopping = true;
    if (!self->state.failure) {
      self->state.failure = *batch.failure;
    }
  }
  if (batch.ended) {
    run.end(*o.granted[batch.filled], batch.cursor);
  } else if (batch.filled < o.granted.size()) {
    run.take_back(o.hosted.stage);
  }
  o.granted.clear();
}

/// Returns whether a barrier is to be set where the sources stand.
bool stops_sources(const engine_host_shell& s) {
  return (s.stopping || s.epoch_due) && !s.last_epoch;
}

/// Sources get no new items while an epoch waits for all of them to stop.
bool sources_pause(const engine_host_shell& s, const flow::execution& run) {
  return (s.stopping || s.epoch_due) && !run.epoch_in_flight();
}

/// Gives a source items to fill, or asks for its cursor. Returns whether it did.
bool feed(host_pointer self, outside& o) {
  auto& s = self->state;
  auto& run = execution_of(self);
  if (o.busy) {
    return false;
  }
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
  const bool pauses = o.failed || sources_pause(s, run) || (o.quiet && stops_sources(s));
  while (!pauses && o.granted.size() < batch_items) {
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

void take_exchanged(host_pointer self, outside& o, const exchanged_batch& batch) {
  const std::size_t ended = batch.processed + (batch.failed ? 1 : 0);
  for (std::size_t i = 0; i < ended; ++i) {
    auto given = flow::execution::give_back(
        *o.exchanges[i], i < batch.processed ? nullptr : &*batch.failed);
    if (!succeeded(self, given)) {
      return;
    }
  }
  o.exchanges.erase(o.exchanges.begin(),
                    o.exchanges.begin() + static_cast<std::ptrdiff_t>(ended));
}

/// Gives a blocking stage complete items. Returns whether it did.
result<bool> process(host_pointer self, outside& o) {
  if (o.busy) {
    return false;
  }
  while (o.exchanges.size() < batch_items) {
    WEIR_TRY(flow::exchange * item, execution_of(self).next_exchange(o.hosted.stage));
    if (item == nullptr) {
      break;
    }
    o.exchanges.push_back(item);
  }
  if (o.exchanges.empty()) {
    return false;
  }
  ask_host<local<exchanged_batch>>(
      self, o, o.hosted.actor, "calling a blocking stage",
      [self, &o](const local<exchanged_batch>& batch) {
        take_exchanged(self, o, *batch);
      },
      work_atom_v, by_reference(exchange_batch{o.exchanges}));
  return true;
}

/// Gives a sink its complete items, or lets it settle. Returns whether it did.
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

/// The run has ended well, so that a trace that cannot be written is a warning.
void write_trace(engine_host_shell& s) {
  const std::string& folder = s.config.options.folder;
  if (s.config.engine.trace.mode == runtime::trace_mode::off || folder.empty()) {
    return;
  }
  s.config.parts->run->add_to_trace();
  const auto written = s.config.parts->host->base().tracer().write(
      posix_file_system(), join_path(folder, "trace.json"));
  if (!written) {
    s.report.warnings.push_back(written.error().message());
  }
}

void finish(host_pointer self) {
  auto& s = self->state;
  auto& run = execution_of(self);
  if (s.failure) {
    error& cause = *s.failure;
    if (s.config.saver && cause.hint().empty()) {
      static_cast<void>(std::move(cause).hint(
          fmt::format("the checkpoint holds the items before number {}; resume the run "
                      "when the cause is removed",
                      s.durable_items)));
    }
    fail(self, std::move(cause));
    return;
  }
  s.report.ended = run.all_ended() ? "finished" : "interrupted";
  s.report.counters = run.counters();
  s.report.item_bytes = s.report.counters.item_bytes;
  s.report.peak_item_bytes = std::max(s.report.peak_item_bytes, s.report.item_bytes);
  s.report.planned = run.planned();
  s.report.memory_bound = s.report.planned.memory_bound;
  s.report.seconds = seconds_since(s.start_ns);
  for (const std::uint32_t source : run.sources()) {
    s.report.items += s.report.counters.stages[source].items;
  }
  write_trace(s);
  end_run(self, host_end{s.report});
}

/// Ends the epoch whose image is durable.
void commit(host_pointer self) {
  auto& s = self->state;
  ++s.report.epochs;
  s.saving = false;
  s.durable_items = execution_of(self).barrier();
  execution_of(self).committed();
  if (s.last_epoch) {
    finish(self);
  }
}

/// A run goes on without the checkpoint, because the one before stands. Only the last one
/// must succeed.
void not_saved(host_pointer self, error cause) {
  auto& s = self->state;
  s.saving = false;
  s.progress_ns = now_ns();
  if (s.over) {
    return;
  }
  if (s.last_epoch) {
    fail(self, std::move(cause));
    return;
  }
  if (s.config.warning) {
    s.config.warning(fmt::format(
        "the checkpoint before item {} is left out, the one before item {} stands: {}",
        execution_of(self).barrier(), s.durable_items, cause.message()));
  }
  execution_of(self).abandoned();
  keep_working(self);
}

/// Has the image of the epoch in flight written.
result<void> save(host_pointer self) {
  auto& s = self->state;
  WEIR_TRY(const flow::image* made, execution_of(self).completed());
  if (!s.config.saver) {
    commit(self);
    return {};
  }
  s.saving = true;
  self->request(s.config.saver, caf::infinite, save_atom_v,
                by_reference(image_order{made}))
      .then(
          [self](std::uint64_t generation) {
            self->state.progress_ns = now_ns();
            self->state.report.generation = generation;
            if (!self->state.over) {
              commit(self);
            }
            keep_working(self);
          },
          [self](const caf::error& e) {
            not_saved(self, from_caf(e, "writing a checkpoint"));
          });
  return {};
}

void begin_epoch(host_pointer self, std::uint64_t next) {
  auto& s = self->state;
  s.epoch_due = false;
  s.epoch_ns = now_ns();
  execution_of(self).begin_epoch(next);
}

/// A source that failed reads no more items, so a last checkpoint is possible only if no
/// other source is ahead of it.
bool can_stop_at(const engine_host_shell& s, const flow::execution& run,
                 std::uint64_t next) {
  return std::none_of(s.sources.begin(), s.sources.end(), [&](const outside& o) {
    return o.failed && run.delivered(o.hosted.stage) < next;
  });
}

/// A barrier that was set ahead by number may stand where no source comes for now. If the
/// sources are to stop, it is taken back. Returns whether it was.
result<bool> retract_epoch(engine_host_shell& s) {
  auto& run = *s.config.parts->run;
  if (run.retract_epoch()) {
    if (const std::uint64_t every = s.config.options.every_items; every != 0) {
      s.boundary = (run.next_item() / every + 1) * every;
      run.stop_before(s.boundary);
    }
    return true;
  }
  if (s.failure && !can_stop_at(s, run, run.barrier())) {
    return std::move(*s.failure);
  }
  for (outside& o : s.sources) {
    o.quiet = false;  // another source has passed the barrier, so this one must reach it
  }
  return false;
}

/// Begins and saves epochs. Returns whether anything happened.
result<bool> advance_epoch(host_pointer self) {
  auto& s = self->state;
  auto& run = execution_of(self);
  if (s.saving || s.last_epoch) {
    if (!s.saving && run.complete()) {
      WEIR_CHECK(save(self));
      return true;
    }
    return false;
  }
  if (run.complete()) {
    WEIR_CHECK(save(self));
    return true;
  }
  const bool busy = std::any_of(s.sources.begin(), s.sources.end(),
                                [](const outside& o) { return o.busy; });
  if (run.epoch_in_flight()) {
    return stops_sources(s) && !busy ? retract_epoch(s) : result<bool>(false);
  }
  if (run.all_ended() || (s.stopping && !busy)) {
    if (s.failure && !can_stop_at(s, run, run.next_item())) {
      return std::move(*s.failure);
    }
    if (!run.all_ended() && run.next_item() == s.durable_items &&
        s.report.generation != 0) {
      s.last_epoch = true;  // the last checkpoint stands where the sources do
      finish(self);
      return true;
    }
    s.last_epoch = true;
    run.stop_before(run.next_item());
    begin_epoch(self, run.next_item());
    return true;
  }
  const std::uint64_t every = s.config.options.every_items;
  if (every != 0 && run.next_item() >= s.boundary) {
    begin_epoch(self, s.boundary);
    s.boundary += every;
    run.stop_before(s.boundary);
    return true;
  }
  if (s.epoch_due && !busy) {
    begin_epoch(self, run.next_item());
    return true;
  }
  return false;
}

/// Lets stages, I/O hosts and epochs go on. Returns whether any of them did.
result<bool> advance(host_pointer self) {
  auto& s = self->state;
  WEIR_TRY(bool worked, execution_of(self).turn());
  for (outside& o : s.sources) {
    worked = feed(self, o) || worked;
  }
  for (outside& o : s.blocking) {
    WEIR_TRY(const bool processed, process(self, o));
    worked = processed || worked;
  }
  for (outside& o : s.sinks) {
    WEIR_TRY(const bool drained, drain(self, o));
    worked = drained || worked;
  }
  WEIR_TRY(const bool epoch, advance_epoch(self));
  return worked || epoch;
}

void work_a_little(host_pointer self) {
  auto& s = self->state;
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
    if (*worked || s.tasks.run(engine)) {
      s.progress_ns = now_ns();
    } else if (execution_of(self).tasks_in_flight()) {
      engine.idle(idle_ns);
    } else {
      goes_on = false;
    }
    if (!self->mailbox().empty()) {
      break;
    }
  }
  if (goes_on) {
    keep_working(self);
  }
}

/// Returns whether an I/O host or the checkpointer has to answer.
bool waits_for_others(const engine_host_shell& s) {
  const auto busy = [](const outside& o) { return o.busy; };
  return s.saving || std::any_of(s.sources.begin(), s.sources.end(), busy) ||
         std::any_of(s.blocking.begin(), s.blocking.end(), busy) ||
         std::any_of(s.sinks.begin(), s.sinks.end(), busy);
}

void report_progress(host_pointer self) {
  auto& s = self->state;
  auto& run = execution_of(self);
  const flow::run_counters counters = run.counters();
  pipeline_progress p;
  for (const std::uint32_t source : run.sources()) {
    p.items += counters.stages[source].items;
  }
  const std::int64_t now = now_ns();
  s.recent.emplace_back(now, p.items);
  while (s.recent.size() > 2 && now - s.recent.front().first > rate_window_ns) {
    s.recent.pop_front();
  }
  const auto [begin, items] = s.recent.front();
  if (now > begin) {
    p.items_per_second =
        static_cast<double>(p.items - items) * 1e9 / static_cast<double>(now - begin);
  }
  p.epochs = s.report.epochs;
  p.durable_items = s.durable_items;
  p.bottleneck = run.bottleneck();
  s.report.peak_item_bytes = std::max(s.report.peak_item_bytes, counters.item_bytes);
  s.config.progress(std::move(p));
}

/// Does what depends on time.
void look_at_clock(host_pointer self) {
  auto& s = self->state;
  if (s.over) {
    return;
  }
  self->delayed_send(self, tick, deadline_atom_v);
  if (!s.config.parts->run) {
    return;
  }
  if (s.config.progress) {
    report_progress(self);
  }
  const std::int64_t now = now_ns();
  const double every = s.config.options.every_seconds;
  if (every > 0 && static_cast<double>(now - s.epoch_ns) * 1e-9 >= every) {
    s.epoch_due = true;
    s.epoch_ns = now;
  }
  if (now - s.progress_ns > s.config.options.stall_s * 1'000'000'000 &&
      !waits_for_others(s) && !execution_of(self).tasks_in_flight()) {
    fail(self, error(errc::timeout, fmt::format("the pipeline makes no progress: {}",
                                                execution_of(self).waiting())));
    return;
  }
  keep_working(self);
}

result<void> open_run(engine_host_shell& s) {
  pipeline_parts& parts = *s.config.parts;
  parts.host = std::make_unique<weir::engine>(s.config.engine);
  flow::execution_options options;
  options.seed = s.config.options.seed;
  options.folder = s.config.options.files;
  options.load = load_constant;
  options.skip = s.config.options.skip;
  options.recorded_items =
      s.config.engine.trace.mode == runtime::trace_mode::off ? 0 : max_recorded_items;
  WEIR_TRY(parts.run,
           flow::execution::create(s.config.planned, std::move(parts.objects),
                                   *parts.host, std::move(options), s.config.from.get()));
  const std::uint64_t every = s.config.options.every_items;
  if (every != 0) {
    s.boundary = (parts.run->next_item() / every + 1) * every;
    parts.run->stop_before(s.boundary);
  }
  s.report.resumed_item = s.durable_items = parts.run->next_item();
  s.report.generation = s.config.generation;
  return {};
}

void launch(host_pointer self) {
  auto& s = self->state;
  s.start_ns = s.epoch_ns = s.progress_ns = now_ns();
  auto opened = open_run(s);
  if (!succeeded(self, opened)) {
    return;
  }
  for (const hosted_stage& h : s.config.sources) {
    s.sources.emplace_back().hosted = h;
  }
  for (const hosted_stage& h : s.config.sinks) {
    s.sinks.emplace_back().hosted = h;
  }
  for (const hosted_stage& h : s.config.blocking) {
    s.blocking.emplace_back().hosted = h;
  }
  self->delayed_send(self, tick, deadline_atom_v);
  keep_working(self);
}

}  // namespace

engine_host_actor::behavior_type engine_host(
    host_pointer self, const std::shared_ptr<engine_host_config>& config) {
  install_defaults(self);
  self->state.config = std::move(*config);
  return {
      reacts(self, "engine host, launch", [self](launch_atom) { launch(self); }),
      reacts(self, "engine host, drain",
             [self](drain_atom) {
               self->state.stopping = true;
               keep_working(self);
             }),
      reacts(self, "engine host, work", [self](work_atom) { work_a_little(self); }),
      reacts(self, "engine host, deadline",
             [self](deadline_atom) { look_at_clock(self); }),
  };
}

}  // namespace weir::actors
