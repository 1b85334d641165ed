// SPDX-License-Identifier: Apache-2.0
/// @file
/// A host for pipelines on one thread.
#include "weir/pipeline/run_here.hpp"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "weir/base/clock.hpp"
#include "weir/pipeline/identity.hpp"
#include "weir/pipeline/execution.hpp"

namespace weir::flow {
namespace {

/// Moves items between an execution and its sources and sinks, and makes checkpoints.
class serial_host {
 public:
  serial_host(execution& run, weir::engine& host, const here_options& options)
      : run_(run), host_(host), options_(options) {
    if (options.every_items != 0) {
      boundary_ = (run.next_item() / options.every_items + 1) * options.every_items;
      run.stop_before(boundary_);
    }
  }

  result<here_report> loop() {
    std::int64_t idle_since = 0;
    while (!done_) {
      WEIR_TRY(bool worked, run_.turn());
      WEIR_TRY(const bool fed, feed_sources());
      WEIR_TRY(const bool drained, drain_sinks());
      WEIR_CHECK(advance_epoch());
      worked = worked || fed || drained || done_;
      if (worked) {
        idle_since = 0;
        continue;
      }
      if (host_.base().run_one()) {
        idle_since = 0;
        continue;
      }
      if (std::exchange(source_waits_, false)) {
        idle_since = 0;  // a source may wait for its data as long as it likes
        continue;
      }
      const std::int64_t now = now_ns();
      idle_since = idle_since == 0 ? now : idle_since;
      if (now - idle_since > options_.stall_ns && !tasks_run()) {
        return error(errc::timeout,
                     fmt::format("the pipeline makes no progress: {}", run_.waiting()));
      }
      host_.base().idle(1'000'000);
    }
    report_.finished = run_.all_ended();
    report_.counters = run_.counters();
    for (const std::uint32_t source : run_.sources()) {
      report_.items += report_.counters.stages[source].items;
    }
    return report_;
  }

 private:
  [[nodiscard]] bool tasks_run() const {
    const runtime::engine_counters c = host_.base().counters();
    return c.finished + c.poisoned < c.submitted;
  }

  result<bool> feed_sources() {
    bool any = false;
    for (const std::uint32_t source : run_.sources()) {
      for (std::uint32_t n = 0; n < options_.turn_items && !stopping_; ++n) {
        blank* b = run_.grant(source);
        if (b == nullptr) {
          break;
        }
        pull p(*b);
        WEIR_TRY(const bool more, next_of(source, p));
        if (more && run_.took_nothing(*b)) {
          run_.take_back(source);
          source_waits_ = true;
          break;
        }
        any = true;
        if (!more) {
          run_.end(*b, run_.stage(source).position());
          break;
        }
        WEIR_CHECK(run_.deliver(*b));
      }
      if (run_.wants_cursor(source)) {
        WEIR_CHECK(run_.mark(source, run_.stage(source).position()));
        any = true;
      }
    }
    return any;
  }

  result<bool> next_of(std::uint32_t source, pull& p) {
    result<bool> more = false;
    try {
      more = run_.stage(source).next(p);
    } catch (const std::exception& e) {
      more = error(errc::kernel_failed, fmt::format("a stage has thrown: {}", e.what()));
    }
    return more ? std::move(more) : at_item(source, p.seq(), std::move(more.error()));
  }

  [[nodiscard]] error at_item(std::uint32_t stage, std::uint64_t seq, error cause) const {
    const errc code = cause.code();
    return error(code, fmt::format("cannot process item {} in stage \"{}\"", seq,
                                   run_.planned().source.stages[stage].name))
        .because(std::move(cause));
  }

  result<bool> drain_sinks() {
    bool any = false;
    for (const std::uint32_t sink : run_.sinks()) {
      for (std::uint32_t n = 0; n < options_.turn_items; ++n) {
        WEIR_TRY(const ready* item, run_.next_ready(sink));
        if (item == nullptr) {
          break;
        }
        any = true;
        taken t(*item);
        result<void> put;
        try {
          put = run_.stage(sink).put(t);
        } catch (const std::exception& e) {
          put = error(errc::kernel_failed, fmt::format("a stage has thrown: {}", e.what()));
        }
        if (!put) {
          return at_item(sink, t.seq(), std::move(put.error()));
        }
        run_.done(sink);
      }
      if (run_.wants_settle(sink)) {
        any = true;
        auto offset = run_.stage(sink).settle();
        if (!offset) {
          const errc code = offset.error().code();
          return error(code,
                       fmt::format("cannot make the items of stage \"{}\" durable",
                                   run_.planned().source.stages[sink].name))
              .because(std::move(offset.error()));
        }
        WEIR_CHECK(run_.settled(sink, *offset));
      }
    }
    return any;
  }

  /// Begins, saves and ends epochs. The last epoch of a run stands behind its last item.
  result<void> advance_epoch() {
    if (run_.complete()) {
      WEIR_TRY(const image* made, run_.completed());
      if (options_.store != nullptr) {
        WEIR_CHECK(options_.store->save(*made));
      }
      ++report_.epochs;
      done_ = last_begun_;
      run_.committed();
      return {};
    }
    if (run_.epoch_in_flight()) {
      return {};
    }
    const bool wants_stop = options_.stop && options_.stop();
    if (run_.all_ended() || wants_stop) {
      stopping_ = true;
      last_begun_ = true;
      run_.begin_epoch(run_.next_item());
      return {};
    }
    if (options_.every_items != 0 && run_.next_item() >= boundary_) {
      run_.begin_epoch(boundary_);
      boundary_ += options_.every_items;
      run_.stop_before(boundary_);
    }
    return {};
  }

  execution& run_;
  weir::engine& host_;
  const here_options& options_;
  here_report report_;
  bool done_ = false;
  bool stopping_ = false;
  bool last_begun_ = false;
  bool source_waits_ = false;  ///< a source had no item at its last call
  std::uint64_t boundary_ = 0;  ///< first item behind the next barrier
};

}  // namespace

result<here_report> run_here(pipeline& p, const here_options& options) {
  WEIR_TRY(plan planned, p.check());
  const std::string identity = identity_of(planned.source);
  std::optional<image> from;
  if (options.resume && options.store != nullptr) {
    WEIR_TRY(from, options.store->load_newest());
    WEIR_CHECK(same_pipeline(*from, identity));
    if (from->finished) {
      here_report report;
      report.finished = true;
      return report;
    }
  }
  WEIR_TRY(auto stages, p.take_stages());
  runtime::engine_options engine_options;
  engine_options.workers = options.workers;
  weir::engine host(engine_options);
  execution_options run_options;
  run_options.seed = options.seed;
  run_options.folder = options.folder;
  run_options.turn_items = options.turn_items;
  WEIR_TRY(auto run, execution::create(std::move(planned), std::move(stages), host,
                                       std::move(run_options),
                                       from ? &*from : nullptr));
  return serial_host(*run, host, options).loop();
}

}  // namespace weir::flow
