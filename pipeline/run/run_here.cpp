// SPDX-License-Identifier: Apache-2.0
/// @file
/// A host for pipelines on one thread.
///
/// This host does in one loop what the engine host and the I/O hosts do with actors:
/// turns, sources, blocking stages, sinks and epochs. Stages of child processes need
/// those.
#include "weir/pipeline/run_here.hpp"

#include <optional>

#include <fmt/format.h>

#include "weir/base/clock.hpp"
#include "weir/pipeline/host/batch_stage.hpp"
#include "weir/pipeline/host/execution.hpp"
#include "weir/pipeline/host/hosted_stage.hpp"
#include "weir/pipeline/host/identity.hpp"
#include "weir/pipeline/host/stage_calls.hpp"
#include "weir/pipeline/host/task_batch.hpp"

namespace weir::flow {
namespace {

/// Moves items between an execution and its sources and sinks, and makes checkpoints.
class serial_host {
 public:
  serial_host(execution& run, weir::engine& host, const here_options& options)
      : run_(run), host_(host), options_(options) {
    // Sources stop before the next barrier, which makes its place the same in every run.
    if (options.every_items != 0) {
      // The first boundary behind the place where the run begins.
      boundary_ =
          (run.reached().next_item / options.every_items + 1) * options.every_items;
      run.stop_before(boundary_);
    }
  }

  /// Runs until the last epoch is durable.
  result<here_report> loop() {
    std::int64_t idle_since = 0;
    while (!done_) {
      // Every round looks at everything once.
      // Each part may have made the next one possible.
      WEIR_TRY(bool worked, run_.turn());
      WEIR_TRY(const bool fed, feed_sources());
      WEIR_TRY(const bool called, call_blocking());
      WEIR_TRY(const bool drained, drain_sinks());
      WEIR_CHECK(advance_epoch());
      // Any progress means another round at once.
      worked = worked || fed || called || drained || done_;
      if (worked) {
        idle_since = 0;
        continue;
      }
      // Nothing moves without tasks; they run on this thread.
      if (tasks_.run(host_.base())) {
        idle_since = 0;
        continue;
      }
      const std::int64_t now = now_ns();
      idle_since = idle_since == 0 ? now : idle_since;
      // A quiet source is no stall.
      if (quiet_) {
        idle_since = now;  // the run waits for a source and not for itself
      }
      // Nothing can happen any more: the stages wait for each other.
      // Tasks of other workers could still make progress.
      if (now - idle_since > options_.stall_ns && !run_.tasks_in_flight()) {
        return error(errc::timeout,
                     fmt::format("the pipeline makes no progress: {}", run_.waiting()));
      }
      // Waits until a task of another worker ends, at most a millisecond.
      host_.base().idle(1'000'000);
    }
    // The items before the failure are in a checkpoint now.
    if (failure_) {
      return std::move(*failure_);
    }
    report_.finished = run_.all_ended();
    // The counters are those of this call, without earlier runs.
    report_.counters = run_.counters();
    for (const std::uint32_t source : run_.sources()) {
      report_.items += report_.counters.stages[source].items;
    }
    return report_;
  }

 private:
  /// Lets each source fill up to `turn_items` items. A failure of a source ends the
  /// reading of all of them, and so does the last barrier.
  result<bool> feed_sources() {
    bool any = false;
    quiet_ = false;
    for (const std::uint32_t source : run_.sources()) {
      stage_object& stage = run_.stage(source);
      // Items behind the last barrier would be written although no checkpoint has them.
      for (std::uint32_t n = 0; n < options_.turn_items && !failure_ && !last_begun_;
           ++n) {
        auto [delivered, b, more] = run_.fill(source, options_.turn_items - n);
        any = any || delivered != 0;
        n += delivered;
        // Credits or memory are used up, or the source has had its turn.
        if (b == nullptr) {
          break;
        }
        if (!more) {
          // The blank was not filled.
          run_.take_back(source);
          failure_ = std::move(more.error());
          return true;
        }
        if (!*more) {
          // The position behind the last item goes into the last image.
          WEIR_CHECK(run_.end(*b, stage.position()));
          any = true;
          break;
        }
        if (run_.took_nothing(*b)) {
          run_.take_back(source);
          quiet_ = true;  // tasks run before the source is asked again
          break;
        }
        any = true;
        WEIR_CHECK(run_.deliver(*b));
      }
      // The position is asked for at once, because the source is on this thread.
      if (run_.wants_cursor(source)) {
        WEIR_CHECK(run_.mark(source, stage.position()));
        any = true;
      }
    }
    return any;
  }

  /// For errors.
  [[nodiscard]] const std::string& name_of(std::uint32_t stage) const {
    return run_.planned().source.stages[stage].name;
  }

  /// Calls each blocking stage for up to `turn_items` items, one at a time.
  result<bool> call_blocking() {
    bool any = false;
    for (const std::uint32_t stage : run_.blocking()) {
      for (std::uint32_t n = 0; n < options_.turn_items; ++n) {
        WEIR_TRY(exchange * item, run_.next_exchange(stage));
        if (item == nullptr) {
          break;
        }
        any = true;
        const auto made = call_work(run_.stage(stage), std::span(&item, 1));
        // A failed item is skipped or ends the run; the execution decides.
        WEIR_CHECK(execution::give_back(*item, made.failed ? &*made.failed : nullptr));
        // A partial item comes again in the next round.
        if (made.partial) {
          break;
        }
      }
    }
    return any;
  }

  /// Lets each sink write up to `turn_items` items, or settle.
  result<bool> drain_sinks() {
    bool any = false;
    for (const std::uint32_t sink : run_.sinks()) {
      stage_object& stage = run_.stage(sink);
      for (std::uint32_t n = 0; n < options_.turn_items; ++n) {
        WEIR_TRY(const ready* item, run_.next_ready(sink));
        if (item == nullptr) {
          break;
        }
        any = true;
        // The sink is on this thread and has the item at once.
        taken t(*item);
        WEIR_CHECK(call_put(stage, name_of(sink), t));
        run_.done(sink);
      }
      // Everything before the barrier is written.
      if (run_.wants_settle(sink)) {
        any = true;
        WEIR_TRY(const auto offset, call_settle(stage, name_of(sink)));
        WEIR_CHECK(run_.settled(sink, offset));
      }
    }
    return any;
  }

  /// Begins, saves and ends epochs. The last epoch of a run stands behind its last item.
  result<void> advance_epoch() {
    // The image is durable when `save` returns.
    if (run_.complete()) {
      WEIR_TRY(const image* made, run_.completed());
      // A run without a store still has epochs, so that sinks settle.
      if (options_.store != nullptr) {
        WEIR_CHECK(options_.store->save(*made));
      }
      ++report_.epochs;
      // The run ends with its last epoch.
      done_ = last_begun_;
      run_.committed();
      return {};
    }
    // One epoch at a time.
    if (run_.epoch_in_flight()) {
      return {};
    }
    const bool wants_stop = options_.stop && options_.stop();
    // The last epoch. Nothing is read behind its barrier.
    if (run_.all_ended() || wants_stop || failure_) {
      last_begun_ = true;
      return run_.begin_epoch();
    }
    // An epoch begins when the sources have reached its boundary.
    if (options_.every_items != 0 && run_.reached().next_item >= boundary_) {
      WEIR_CHECK(run_.begin_epoch());
      boundary_ += options_.every_items;
      run_.stop_before(boundary_);
    }
    return {};
  }

  execution& run_;
  weir::engine& host_;
  const here_options& options_;
  here_report report_;
  task_batch tasks_;
  bool done_ = false;
  bool quiet_ = false;            ///< a source has said that it has no item at the moment
  std::optional<error> failure_;  ///< of a source; ends the run after a checkpoint
  /// The last epoch has begun.
  bool last_begun_ = false;
  std::uint64_t boundary_ = 0;  ///< first item behind the next barrier
};

}  // namespace

/// Checks the pipeline, continues from the newest image if that is wanted, and runs it.
result<here_report> run_here(pipeline& p, const here_options& options) {
  // Before any stage does something.
  WEIR_TRY(plan planned, p.check());
  const std::string identity = identity_of(planned.source);
  std::optional<image> from;
  // Without a store there is nothing to continue from.
  if (options.resume && options.store != nullptr) {
    WEIR_TRY(from, options.store->load_newest());
    WEIR_CHECK(same_pipeline(*from, identity));
    // Nothing is left to do.
    if (from->finished) {
      here_report report;
      report.finished = true;
      return report;
    }
  }
  // The stages have not been opened yet.
  WEIR_TRY(auto stages, p.take_stages());
  // Stages with an engine of their own run on this thread as well.
  WEIR_CHECK(move_to_hosts(planned, stages, options.seed));
  runtime::engine_options engine_options;
  engine_options.workers = options.workers;
  weir::engine host(engine_options);
  execution_options run_options;
  run_options.seed = options.seed;
  run_options.folder = options.folder;
  run_options.turn_items = options.turn_items;
  run_options.load = options.load;
  run_options.kernels = options.kernels;
  run_options.skip = options.skip;
  run_options.calls_sinks = true;
  // Opens the stages and continues from the image.
  WEIR_TRY(auto run, execution::create(std::move(planned), std::move(stages), host,
                                       std::move(run_options), from ? &*from : nullptr));
  return serial_host(*run, host, options).loop();
}

}  // namespace weir::flow
