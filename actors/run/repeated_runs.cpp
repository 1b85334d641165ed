// SPDX-License-Identifier: Apache-2.0
/// @file
/// The calls `run` and `resume` of pipelines: one or more attempts of `run_from`.
///
/// Two failures lead to a further attempt. A run whose child process has died goes back
/// to its newest checkpoint and goes on from there (`run_with_restarts`). A run that ends
/// because of an item goes back, too, but only to process the items before that one and
/// to make a checkpoint behind them (`keep_finished`). At the failure itself no
/// checkpoint can be made: sources are ahead of the failed item, and other stages are,
/// too.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "run/pipeline_run.hpp"
#include "weir/base/clock.hpp"
#include "weir/models/instruction_sets.hpp"
#include "weir/pipeline/paths.hpp"

namespace weir::actors {
namespace {

/// Reads the newest checkpoint, or none if there is none.
result<void> go_back(run_origin& origin) {
  // Without any checkpoint the run begins again at item 0.
  origin.from = nullptr;
  origin.generation = 0;
  if (!origin.store) {
    return {};
  }
  WEIR_TRY(const bool empty, origin.store->empty());
  if (!empty) {
    WEIR_TRY(const auto newest, origin.store->read(0));
    WEIR_TRY(auto stored, epoch_in(newest));
    origin.generation = stored.generation;
    origin.from = std::make_shared<const flow::image>(std::move(stored.state));
  }
  return {};
}

/// Returns the error of a run in which more child processes have died than `restarts`
/// allows.
error no_restart_left(std::uint32_t restarts, const error& last) {
  return error(last.code(),
               fmt::format("cannot go back to a checkpoint once more: expected at most "
                           "{} deaths of child processes (`restarts` of the run), found "
                           "another one",
                           restarts))
      .because(last);
}

/// Makes the attempt behind a failure continue from a checkpoint: it behaves as `resume`
/// does.
void repeat_from(const run_origin& origin, run_options& options) {
  options.generation = 0;
  options.resumed = nullptr;
  if (origin.from) {
    options.skip.clear();  // the checkpoint holds the ranges
  }
}

/// The failure of an item, and the attempt that it has ended.
struct failed_attempt {
  std::uint64_t item = 0;  ///< number of the item
  double seconds = 0;      ///< duration of the attempt
};

/// Returns the number of the first item that the checkpoint of a run does not hold.
std::uint64_t kept_by(const run_origin& origin) {
  return origin.from ? origin.from->next_item : 0;
}

/// Returns whether the outputs of all sinks begin empty. Only then a run without a
/// checkpoint can begin again: other sinks, such as `tgm.write` in the mode `append`,
/// would keep what they have written before.
bool outputs_begin_empty(const flow::graph& g) {
  constexpr std::array<std::string_view, 3> known{"json.write", "tgm.embeddings", "null"};
  return std::ranges::all_of(g.stages, [&](const flow::graph_stage& s) {
    return s.info.face != flow::face::sink ||
           std::ranges::find(known, s.info.name) != known.end();
  });
}

/// Tells that items are processed again, if that may take long.
void announce_repeat(const run_options& options, const run_origin& origin,
                     const failed_attempt& failed) {
  constexpr double max_quiet_seconds = 2;
  if (options.warning && failed.seconds > max_quiet_seconds) {
    options.warning(
        fmt::format("item {} has failed; the items from number {} on are "
                    "processed again for a checkpoint before it",
                    failed.item, kept_by(origin)));
  }
}

/// Runs the stages from the newest checkpoint up to item `end`, and makes a checkpoint
/// there. Progress and the trace remain those of the attempt that has failed.
/// @returns the number of an item in front of `end` that has failed, too; empty
/// otherwise.
std::optional<std::uint64_t> run_up_to(pipeline& p, const run_options& options,
                                       run_origin origin, std::uint64_t end) {
  std::optional<std::uint64_t> failed_item;
  origin.again = origin.resuming = true;
  origin.goes_back = false;
  origin.died = std::make_shared<std::atomic<bool>>(false);
  origin.failed_item = &failed_item;
  origin.end = end;
  run_options again = options;
  repeat_from(origin, again);
  again.progress = nullptr;
  again.trace = runtime::trace_mode::off;
  again.every_items = 0;
  again.every_seconds = 0;
  // An attempt that fails leaves the older checkpoint, from which the run can be resumed.
  static_cast<void>(run_from(p, again, origin));
  return failed_item;
}

/// Processes the items behind the newest checkpoint and before a failed one again, and
/// makes a checkpoint of them. Nothing is repeated if that could write an output twice.
/// @returns the number of the first item that no checkpoint holds.
result<std::uint64_t> keep_finished(pipeline& p, const run_options& options,
                                    run_origin origin, failed_attempt failed) {
  // Stages find failures in any order, so that an earlier item may fail, too.
  constexpr int max_repeats = 2;
  WEIR_TRY(const auto planned, p.check());
  if (!origin.store || planned.promise != flow::guarantee::exactly_once) {
    return std::uint64_t{0};
  }
  WEIR_CHECK(p.remake_stages());  // stages that the program has made cannot be repeated
  WEIR_CHECK(go_back(origin));
  if (!origin.from && !outputs_begin_empty(planned.source)) {
    return std::uint64_t{0};
  }
  for (int n = 0; n < max_repeats && failed.item > kept_by(origin); ++n) {
    announce_repeat(options, origin, failed);
    const auto earlier = run_up_to(p, options, origin, failed.item);
    WEIR_CHECK(go_back(origin));
    if (!earlier) {
      break;
    }
    failed.item = std::min(failed.item, *earlier);
  }
  return kept_by(origin);
}

/// Ends a run with the failure of an item. What was finished before the item becomes
/// durable, if it can be processed again.
error item_failure(pipeline& p, const run_options& options, const run_origin& origin,
                   const failed_attempt& failed, error cause) {
  const auto kept = keep_finished(p, options, origin, failed);
  if (!kept || *kept == 0 || !cause.hint().empty()) {
    return cause;
  }
  return std::move(cause).hint(
      fmt::format("the checkpoint holds the items before number {}; resume the run when "
                  "the cause is removed",
                  *kept));
}

}  // namespace

/// If a host dies, the run goes back to its last checkpoint and makes all stages again,
/// as a resumed run in another process would.
result<pipeline_report> run_with_restarts(pipeline& p, const run_options& options,
                                          run_origin origin) {
  run_options again = options;
  for (std::uint32_t restarts = 0;; ++restarts) {
    origin.died = std::make_shared<std::atomic<bool>>(false);
    origin.goes_back = restarts != options.restarts;
    std::optional<std::uint64_t> failed_item;
    origin.failed_item = &failed_item;
    const std::int64_t start_ns = now_ns();
    auto end = run_from(p, again, origin);
    if (end) {
      end->restarts = restarts;
      return end;
    }
    // Any other failure would come again, so it ends the run.
    if (!origin.died->load()) {
      return failed_item ? item_failure(p, options, origin,
                                        {*failed_item, seconds_since(start_ns)},
                                        std::move(end.error()))
                         : std::move(end);
    }
    if (!origin.goes_back) {
      return restarts == 0 ? std::move(end) : no_restart_left(restarts, end.error());
    }
    WEIR_CHECK(go_back(origin));
    if (options.warning) {
      options.warning(fmt::format("{}; the run goes back to item {} (restart {} of {})",
                                  end.error().message(), kept_by(origin), restarts + 1,
                                  options.restarts));
    }
    origin.again = origin.resuming = true;
    repeat_from(origin, again);
  }
}

namespace {

/// Runs or resumes a pipeline of the user, whose checkpoints are all of pipelines.
result<pipeline_report> execute(pipeline& p, const run_options& options, bool resuming) {
  WEIR_TRY(const auto planned, p.check());  // before a folder is made
  WEIR_CHECK(models::check_instruction_set(options.kernels));
  WEIR_CHECK(flow::check_outputs(planned.source, options.files));
  WEIR_TRY(auto found, open_checkpoints(options, resuming));
  run_origin origin;
  origin.store = std::move(found.store);
  origin.resuming = resuming;
  origin.made_folder = found.made_folder;
  origin.made_checkpoints = found.made_checkpoints;
  if (found.at) {
    WEIR_TRY(auto stored, epoch_in(*found.at));
    origin.generation = stored.generation;
    origin.from = std::make_shared<const flow::image>(std::move(stored.state));
  }
  return run_with_restarts(p, options, std::move(origin));
}

}  // namespace
}  // namespace weir::actors

namespace weir {

result<pipeline_report> run(pipeline& p, const run_options& options) {
  return actors::execute(p, options, false);
}

result<pipeline_report> resume(pipeline& p, const run_options& options) {
  return actors::execute(p, options, true);
}

}  // namespace weir
