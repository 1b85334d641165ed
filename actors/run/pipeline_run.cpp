// SPDX-License-Identifier: Apache-2.0
/// @file
/// One attempt to run a pipeline: starts the actors of the run and waits for its end.
///
/// A run consists of an engine host, one I/O host per source, sink and blocking stage, a
/// conductor, an observer and, with a folder, a saver. The actors have threads of their
/// own; the calling thread is none of them. It sleeps until an event arrives in its
/// queue, calls the functions of the user (`progress`, `warning`), and stops all actors
/// when the report or an error has come.
///
/// `run_from` is one attempt. repeated_runs.cpp goes back to a checkpoint and calls it
/// again.
#include "run/pipeline_run.hpp"

#include <algorithm>
#include <filesystem>
#include <variant>

#include <fmt/format.h>

#include "epochs/epoch_conductor.hpp"
#include "epochs/epoch_saver.hpp"
#include "host/engine_host.hpp"
#include "host/io_host.hpp"
#include "process/process_stage.hpp"
#include "progress/progress_observer.hpp"
#include "run/supervised_system.hpp"
#include "volume/constants.hpp"
#include "weir/models/instruction_sets.hpp"
#include "weir/pipeline/host/hosted_stage.hpp"
#include "weir/pipeline/host/identity.hpp"
#include "weir/pipeline/host/verification.hpp"
#include "weir/pipeline/paths.hpp"

namespace weir::actors {
namespace {

/// Returns a time in nanoseconds. A time that is longer than 126 years counts as 126
/// years, so that a deadline can be computed from it.
std::int64_t nanoseconds_of(double seconds) {
  constexpr double longest = 4e18;
  const double time = seconds * 1e9;
  return static_cast<std::int64_t>(time < longest ? time : longest);
}

/// The function of the user may be empty.
void warn(const run_options& options, const std::string& text) {
  if (options.warning) {
    options.warning(text);
  }
}

/// Returns whether the folder was made. A run that is resumed must find its folder,
/// because otherwise it would silently begin again.
result<bool> prepare_folder(const run_options& options, bool resuming) {
  std::error_code failure;
  if (std::filesystem::is_directory(options.folder, failure)) {
    return false;
  }
  if (resuming) {
    return error(
        errc::not_found,
        fmt::format("cannot resume the run \"{}\": expected a folder, found none",
                    options.folder));
  }
  std::filesystem::create_directories(options.folder, failure);
  if (failure) {
    return error(errc::io, fmt::format("cannot create the run folder \"{}\": {}",
                                       options.folder, failure.message()));
  }
  return true;
}

/// One line of text for the user.
struct host_warning {
  std::string text;
};

/// The end of a run that failed.
/// `cause` is what the caller gets.
struct host_failure {
  error cause;
  /// Counters at the end; null if the stages could not be opened.
  std::shared_ptr<const flow::run_counters> counters;
  std::optional<std::uint64_t> item;  ///< see `execution::failed_item`
};

/// An event of a pipeline's run; an error is the failure of an actor, or of a run that
/// has stalled.
using pipeline_event =
    std::variant<pipeline_progress, host_warning, pipeline_report, host_failure, error>;

/// Returns the end of a run that has failed. Only the thread of the engine host may ask
/// for it. `parts` may be gone, if the host ended before it could fail.
host_failure failure_of(error cause, const std::weak_ptr<pipeline_parts>& parts) {
  const auto living = parts.lock();
  if (!living || !living->run) {
    return {std::move(cause), nullptr, std::nullopt};
  }
  return {std::move(cause),
          std::make_shared<const flow::run_counters>(counters_of(*living)),
          living->run->failed_item()};
}

/// One call of `run_from`.
/// It belongs to the calling thread. The functions of the user are called on this thread
/// only, so they need no locks.
class pipeline_runner {
 public:
  pipeline_runner(pipeline& p, const run_options& options, run_origin origin)
      : pipeline_(p), options_(options), origin_(std::move(origin)) {
    control_ = options.control != nullptr ? options.control : &own_control_;
    events_ = std::make_shared<event_queue<pipeline_event>>(*control_);
  }

  /// Runs the pipeline and returns its report. Errors before `start` change nothing in
  /// the folder; those after it go through `after_failure`.
  [[nodiscard]] result<pipeline_report> execute() {
    WEIR_TRY(planned_, pipeline_.check());
    WEIR_CHECK(flow::check_outputs(planned_.source, options_.files));
    // A checkpoint of another pipeline is refused before any stage is made.
    if (origin_.from) {
      WEIR_CHECK(flow::same_pipeline(*origin_.from, flow::identity_of(planned_.source)));
      if (origin_.from->finished) {
        WEIR_TRY(auto end, finished_before());
        WEIR_CHECK(remove_newer());
        return end;
      }
    }
    // The caller is told where the run goes on before the first event.
    if (origin_.from && options_.resumed) {
      options_.resumed({origin_.generation, origin_.from->next_item});
    }
    WEIR_TRY(system_, supervised_system::open(
                          std::chrono::seconds(60),
                          [events = events_](error e) { events->push(std::move(e)); }));
    auto started = start();
    auto end =
        started ? wait_for_end() : result<pipeline_report>(std::move(started.error()));
    // No handle of an actor may outlive the system.
    host_ = nullptr;
    conductor_ = nullptr;
    for (const std::string& name : system_->stop()) {
      warn(options_, "actor " + name + " did not end in time");
    }
    // A run that will be repeated keeps its folders and says nothing of its counters.
    const bool goes_back = origin_.goes_back && origin_.died && origin_.died->load();
    if (!end && !goes_back) {
      after_failure();
    }
    return end;
  }

 private:
  /// Stages can be taken once. A repeated run makes them again from their description.
  [[nodiscard]] auto take_stages() {
    return origin_.again ? pipeline_.remake_stages() : pipeline_.take_stages();
  }
  [[nodiscard]] result<void> start_hosts(
      flow::plan& p, std::vector<std::unique_ptr<flow::stage_object>>& objects,
      bool sinks_alone);
  [[nodiscard]] std::string checkpoint_folder() const {
    return join_path(options_.folder, "checkpoint");
  }
  [[nodiscard]] result<pipeline_report> finished_before();
  [[nodiscard]] result<void> remove_newer() const;
  void note_counters(std::shared_ptr<const flow::run_counters> now);
  void after_failure();
  void remove_new_folders();
  [[nodiscard]] result<void> start();
  [[nodiscard]] epoch_conductor_actor start_conductor();
  [[nodiscard]] progress_observer_actor start_observer();
  [[nodiscard]] std::vector<hosted_stage> spawn_hosts(
      flow::face kind, stop_group group, const std::shared_ptr<pipeline_parts>& parts);
  [[nodiscard]] result<pipeline_report> wait_for_end();

  pipeline& pipeline_;
  const run_options& options_;
  run_origin origin_;
  run_control own_control_;
  run_control* control_ = nullptr;
  std::shared_ptr<event_queue<pipeline_event>> events_;
  std::unique_ptr<supervised_system> system_;
  engine_host_actor host_;
  epoch_conductor_actor conductor_;
  flow::plan planned_;      ///< as the run sees it, see `flow::move_to_hosts`
  flow::plan checked_;      ///< as its author has written it
  bool opened_ = false;     ///< the stages were opened
  pipeline_progress last_;  ///< progress that was seen last
};

/// Moves stages to their own engines and to child processes, which live as long as this
/// thread. @param sinks_alone  True if the run had finished, so that only sinks compare
/// their outputs.
result<void> pipeline_runner::start_hosts(
    flow::plan& p, std::vector<std::unique_ptr<flow::stage_object>>& objects,
    bool sinks_alone) {
  // These options are those that a child process cannot find out by itself.
  process_options options;
  options.seed = options_.seed;
  options.folder = options_.files;
  options.fill_slots = options_.fill_slots;
  options.deadline_ns = nanoseconds_of(static_cast<double>(options_.deadline_s));
  options.plugins = flow::stages().files();
  options.died = origin_.died;
  return flow::move_to_hosts(
      p, objects, options_.seed,
      [&](const flow::plan& of_run,
          std::uint32_t stage) -> result<std::unique_ptr<flow::stage_object>> {
        // A sink compares its output with its own files; stages in front of it are not
        // called.
        if (sinks_alone && of_run.source.stages[stage].info.face != flow::face::sink) {
          return std::make_unique<flow::stage_object>();
        }
        return make_process_stage(of_run, stage, options);
      },
      options_.fill_slots);
}

/// A run that has finished is not begun again if its sinks are complete.
result<pipeline_report> pipeline_runner::finished_before() {
  pipeline_report r;
  // The stages exist only for this comparison and end with this function.
  WEIR_TRY(auto objects, take_stages());
  // Moving changes the plan, and `planned_` must stay as its author has written it.
  flow::plan moved = planned_;
  WEIR_CHECK(start_hosts(moved, objects, true));
  flow::execution_options options;
  options.seed = options_.seed;
  options.folder = options_.files;
  options.load = load_constant;
  options.kernels = options_.kernels;
  weir::engine host;
  WEIR_TRY(r.unverified,
           flow::verify_outputs(planned_.source, objects, host, options, *origin_.from));
  r.ended = "finished";
  r.finished_before = true;
  r.generation = origin_.generation;
  r.resumed_item = origin_.from->next_item;
  r.memory_bound = planned_.memory_bound;
  r.planned = planned_;
  // Nothing was processed, but the report has an entry for every stage and edge.
  r.counters.stages.resize(planned_.source.stages.size());
  r.counters.edges.resize(planned_.source.edges.size());
  return r;
}

/// Removes the generations behind the one that the user has chosen: the sinks were cut to
/// it, so newer ones do not fit. A sink that refuses leaves them as they are.
result<void> pipeline_runner::remove_newer() const {
  return options_.generation != 0 && origin_.store
             ? origin_.store->remove_newer(origin_.generation)
             : result<void>();
}

/// Notes the counters at a failure. There are none if the stages could not be opened.
void pipeline_runner::note_counters(std::shared_ptr<const flow::run_counters> now) {
  opened_ = now != nullptr;
  if (!opened_) {
    return;
  }
  // Progress is counted in items of sources, as in the samples of the observer.
  last_.items = 0;
  for (std::size_t i = 0; i < now->stages.size(); ++i) {
    if (planned_.source.stages[i].info.face == flow::face::source) {
      last_.items += now->stages[i].items;
    }
  }
  last_.counters = std::move(now);
}

/// Tells the counters at the failure. A run whose stages could not be opened has done
/// nothing, so that its new folders go.
void pipeline_runner::after_failure() {
  if (opened_ && options_.progress) {
    options_.progress(last_);
  }
  if (!opened_ && !origin_.resuming) {
    remove_new_folders();
  }
}

// Folders that hold something are not removed.
void pipeline_runner::remove_new_folders() {
  std::error_code ignored;
  // The store holds the lock of the folder, which is removed below.
  origin_.store.reset();
  if (origin_.made_checkpoints) {
    std::filesystem::remove(join_path(checkpoint_folder(), "lock"), ignored);
    std::filesystem::remove(checkpoint_folder(), ignored);
  }
  if (origin_.made_folder) {
    std::filesystem::remove(options_.folder, ignored);
  }
}

/// Starts an I/O host for each stage of a kind. The hosts share the ownership of `parts`,
/// because a source may still be in a call when everything else has ended.
std::vector<hosted_stage> pipeline_runner::spawn_hosts(
    flow::face kind, stop_group group, const std::shared_ptr<pipeline_parts>& parts) {
  std::vector<hosted_stage> hosts;
  for (std::uint32_t i = 0; i < planned_.source.stages.size(); ++i) {
    const flow::graph_stage& s = planned_.source.stages[i];
    if (s.info.face == kind) {
      hosts.push_back(
          {i, system_->spawn_io(s.name.c_str(), group, io_host,
                                io_host_config{parts->objects[i].get(), s.name,
                                               &parts->busy_ns[i], parts})});
    }
  }
  return hosts;
}

/// Without a folder there is no saver: epochs still begin, so that sinks settle, and no
/// image is written.
epoch_conductor_actor pipeline_runner::start_conductor() {
  epoch_conductor_config config;
  config.rules.every_items = options_.every_items;
  config.rules.every_ns = nanoseconds_of(options_.every_seconds);
  config.rules.end = origin_.end;
  if (origin_.store) {
    config.saver = system_->spawn_io("epoch_saver", stop_group::sink, epoch_saver,
                                     epoch_saver_config{origin_.store});
  }
  config.warning = [events = events_](std::string text) {
    events->push(host_warning{std::move(text)});
  };
  return system_->spawn("epoch_conductor", stop_group::conductor, epoch_conductor,
                        std::move(config));
}

/// All functions of the configuration only add an event to the queue, because they are
/// called on a thread of the actor system.
progress_observer_actor pipeline_runner::start_observer() {
  progress_observer_config config;
  config.stall_ns = nanoseconds_of(static_cast<double>(options_.stall_s));
  if (options_.progress) {
    config.progress = [events = events_](pipeline_progress p) {
      events->push(std::move(p));
    };
  }
  for (const flow::graph_stage& one : planned_.source.stages) {
    config.stages.push_back(one.name);
  }
  config.warning = [events = events_](std::string text) {
    events->push(host_warning{std::move(text)});
  };
  config.ended = [events = events_](pipeline_report r) { events->push(std::move(r)); };
  config.stalled = [events = events_](error e) { events->push(std::move(e)); };
  return system_->spawn("progress_observer", stop_group::conductor, progress_observer,
                        std::move(config));
}

/// Starts the actors. The engine host comes last, because its configuration names all
/// others, and does nothing before the launch.
result<void> pipeline_runner::start() {
  auto parts = std::make_shared<pipeline_parts>();
  WEIR_TRY(parts->objects, take_stages());
  // The report shows the plan of the author, without the changes for child processes.
  checked_ = planned_;
  WEIR_CHECK(start_hosts(planned_, parts->objects, false));
  parts->busy_ns = std::vector<std::atomic<std::int64_t>>(parts->objects.size());
  conductor_ = start_conductor();
  auto config = std::make_shared<engine_host_config>();
  config->sources = spawn_hosts(flow::face::source, stop_group::source, parts);
  config->sinks = spawn_hosts(flow::face::sink, stop_group::sink, parts);
  config->blocking = spawn_hosts(flow::face::blocking, stop_group::sink, parts);
  // The host owns the parts; the function that reports a failure must not keep them
  // alive.
  const std::weak_ptr<pipeline_parts> weak = parts;
  config->parts = std::move(parts);
  config->planned = planned_;
  config->from = origin_.from;
  config->generation = origin_.generation;
  config->engine.workers = options_.workers;
  config->engine.trace.mode = options_.trace;
  config->options = options_;
  config->conductor = conductor_;
  config->observer = start_observer();
  config->stored = origin_.store != nullptr;
  config->ends_early = origin_.end != epoch_order::no_boundary;
  config->accepted = [this] { return remove_newer(); };
  config->failed = [events = events_, weak](error e) {
    events->push(failure_of(std::move(e), weak));
  };
  host_ = system_->spawn_io("engine_host", stop_group::engine, engine_host,
                            std::move(config));
  return {};
}

/// Passes a request to stop on once. The first failure, of any actor, ends the wait.
result<pipeline_report> pipeline_runner::wait_for_end() {
  bool drained = false;
  system_->send(host_, launch_atom_v);
  while (true) {
    if (control_->stop_requested() && !drained) {
      drained = true;
      // The conductor answers with an order for a last epoch, after which the run ends.
      system_->send(conductor_, drain_atom_v);
    }
    for (pipeline_event& e : events_->wait()) {
      if (auto* failed = std::get_if<error>(&e)) {
        opened_ = true;  // it may have been, so that nothing is removed
        // The error of a single actor says nothing about the state of the others.
        return std::move(*failed);
      }
      if (auto* failed = std::get_if<host_failure>(&e)) {
        note_counters(std::move(failed->counters));
        if (origin_.failed_item != nullptr) {
          *origin_.failed_item = failed->item;
        }
        return std::move(failed->cause);
      }
      if (auto* end = std::get_if<pipeline_report>(&e)) {
        // The generation of the store is 0 until this run has written a checkpoint.
        end->generation =
            origin_.store ? std::max(origin_.store->generation(), origin_.generation) : 0;
        end->planned = checked_;
        for (const std::string& text : end->warnings) {
          warn(options_, text);
        }
        return std::move(*end);
      }
      if (auto* warning = std::get_if<host_warning>(&e)) {
        warn(options_, warning->text);
      } else if (options_.progress) {
        last_ = std::get<pipeline_progress>(e);
        options_.progress(last_);
      }
    }
  }
}

}  // namespace

/// Prepares the folder of a run: makes it, takes its lock, and reads the checkpoint from
/// which a resumed run continues. A folder without checkpoints is not an error on
/// resuming, because a run may be killed before its first one.
result<run_checkpoints> open_checkpoints(const run_options& options, bool resuming) {
  run_checkpoints out;
  if (options.folder.empty()) {
    return out;
  }
  WEIR_TRY(out.made_folder, prepare_folder(options, resuming));
  const std::string folder = join_path(options.folder, "checkpoint");
  out.made_checkpoints = !posix_file_system().exists(folder);
  WEIR_TRY(auto opened,
           epoch_store::open(posix_file_system(), folder, options.description));
  out.store = std::make_shared<epoch_store>(std::move(opened));
  // Two generations at least, so that a damaged newest one has a predecessor.
  out.store->keep(std::max<std::uint32_t>(2, options.keep));
  WEIR_TRY(const bool empty, out.store->empty());
  if (empty) {
    return out;
  }
  if (!resuming) {
    return error(errc::already_exists,
                 fmt::format("cannot begin a run in \"{}\": expected a folder without "
                             "checkpoints, found some",
                             options.folder))
        .hint("resume the run, or take another folder");
  }
  WEIR_TRY(out.at, out.store->read(options.generation));
  // Newer checkpoints that are damaged were passed over; the user should know.
  for (const error& one : out.at->skipped()) {
    warn(options, "a checkpoint is not used: " + one.message());
  }
  return out;
}

// Used by the text model too, which brings checkpoints of its own.
result<pipeline_report> run_from(pipeline& p, const run_options& options,
                                 run_origin origin) {
  return pipeline_runner(p, options, std::move(origin)).execute();
}

}  // namespace weir::actors
