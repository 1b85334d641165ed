// SPDX-License-Identifier: Apache-2.0
/// @file
/// The calls `run` and `resume` of pipelines: they start the actors of a run and wait for
/// its end.
#include <algorithm>
#include <filesystem>
#include <variant>

#include <fmt/format.h>

#include "host/engine_host.hpp"
#include "host/epoch_saver.hpp"
#include "host/io_host.hpp"
#include "run/supervised_system.hpp"
#include "volume/constants.hpp"
#include "weir/actors/pipelines.hpp"
#include "weir/pipeline/host/identity.hpp"
#include "weir/pipeline/host/verification.hpp"
#include "weir/pipeline/paths.hpp"

namespace weir::actors {
namespace {

/// One line of text for the user.
struct host_warning {
  std::string text;
};

/// The end of a run that failed.
struct host_failure {
  error cause;
  /// Counters at the end; null if the stages could not be opened.
  std::shared_ptr<const flow::run_counters> counters;
};

/// An event of a pipeline's run; an error is the failure of an actor.
using pipeline_event =
    std::variant<pipeline_progress, host_warning, host_end, host_failure, error>;

/// Returns the counters of a run. Only the thread of the engine host may ask for them.
std::shared_ptr<const flow::run_counters> counters_of(
    const std::weak_ptr<pipeline_parts>& parts) {
  const auto living = parts.lock();
  return living && living->run
             ? std::make_shared<const flow::run_counters>(living->run->counters())
             : nullptr;
}

/// One call of `run` or `resume`.
class pipeline_runner {
 public:
  pipeline_runner(pipeline& p, const run_options& options, bool resuming)
      : pipeline_(p), options_(options), resuming_(resuming) {
    control_ = options.control != nullptr ? options.control : &own_control_;
    events_ = std::make_shared<event_queue<pipeline_event>>(*control_);
  }

  [[nodiscard]] result<pipeline_report> execute() {
    WEIR_TRY(planned_, pipeline_.check());
    WEIR_CHECK(flow::check_outputs(planned_.source, options_.files));
    if (!options_.folder.empty()) {
      WEIR_CHECK(prepare_folder());
      WEIR_CHECK(open_store());
    }
    if (from_ && from_->finished) {
      return finished_before();
    }
    if (from_ && options_.resumed) {
      options_.resumed({generation_, from_->next_item});
    }
    WEIR_TRY(system_, supervised_system::open(
                          std::chrono::seconds(60),
                          [events = events_](error e) { events->push(std::move(e)); }));
    WEIR_TRY(auto host, start());
    auto end = wait_for_end(host);
    host = nullptr;
    for (const std::string& name : system_->stop()) {
      warn("actor " + name + " did not end in time");
    }
    if (!end) {
      after_failure();
    }
    return end;
  }

 private:
  [[nodiscard]] result<void> prepare_folder();
  [[nodiscard]] result<void> open_store();
  [[nodiscard]] std::string checkpoint_folder() const {
    return join_path(options_.folder, "checkpoint");
  }
  [[nodiscard]] result<pipeline_report> finished_before();
  void note_counters(std::shared_ptr<const flow::run_counters> now);
  void after_failure();
  void remove_new_folders();
  [[nodiscard]] result<engine_host_actor> start();
  [[nodiscard]] std::vector<hosted_stage> spawn_hosts(
      flow::face kind, stop_group group, const std::shared_ptr<pipeline_parts>& parts);
  [[nodiscard]] result<pipeline_report> wait_for_end(const engine_host_actor& host);
  void warn(const std::string& text) const {
    if (options_.warning) {
      options_.warning(text);
    }
  }

  pipeline& pipeline_;
  const run_options& options_;
  bool resuming_;
  run_control own_control_;
  run_control* control_ = nullptr;
  std::shared_ptr<event_queue<pipeline_event>> events_;
  std::unique_ptr<supervised_system> system_;
  flow::plan planned_;
  std::shared_ptr<epoch_store> store_;
  std::shared_ptr<const flow::image> from_;
  std::uint64_t generation_ = 0;   ///< generation of `from_`
  bool made_folder_ = false;       ///< this call has made the run folder
  bool made_checkpoints_ = false;  ///< this call has made the folder of checkpoints
  bool opened_ = false;            ///< the stages were opened
  pipeline_progress last_;         ///< progress that was seen last
};

/// A run that is resumed must find its folder, because otherwise it would silently begin
/// again.
result<void> pipeline_runner::prepare_folder() {
  std::error_code failure;
  if (std::filesystem::is_directory(options_.folder, failure)) {
    return {};
  }
  if (resuming_) {
    return error(
        errc::not_found,
        fmt::format("cannot resume the run \"{}\": expected a folder, found none",
                    options_.folder));
  }
  made_folder_ = std::filesystem::create_directories(options_.folder, failure);
  if (failure) {
    return error(errc::io, fmt::format("cannot create the run folder \"{}\": {}",
                                       options_.folder, failure.message()));
  }
  return {};
}

/// Takes the lock of the checkpoints and loads the one to continue from.
result<void> pipeline_runner::open_store() {
  made_checkpoints_ = !posix_file_system().exists(checkpoint_folder());
  WEIR_TRY(auto opened, epoch_store::open(posix_file_system(), checkpoint_folder(),
                                          options_.description));
  store_ = std::make_shared<epoch_store>(std::move(opened));
  store_->keep(std::max<std::uint32_t>(2, options_.keep));
  WEIR_TRY(const bool empty, store_->empty());
  if (empty) {
    return {};
  }
  if (!resuming_) {
    return error(errc::already_exists,
                 fmt::format("cannot begin a run in \"{}\": expected a folder without "
                             "checkpoints, found some",
                             options_.folder))
        .hint("resume the run, or take another folder");
  }
  WEIR_TRY(auto stored, store_->load(options_.generation));
  for (const std::string& text : stored.skipped) {
    warn("a checkpoint is not used: " + text);
  }
  WEIR_CHECK(flow::same_pipeline(stored.state, flow::identity_of(planned_.source)));
  if (options_.generation != 0) {
    // The sinks are about to be cut to the older generation, so newer ones do not fit.
    WEIR_CHECK(store_->remove_newer(stored.generation));
  }
  generation_ = stored.generation;
  from_ = std::make_shared<const flow::image>(std::move(stored.state));
  return {};
}

/// A run that has finished is not begun again if its sinks are complete.
result<pipeline_report> pipeline_runner::finished_before() {
  pipeline_report r;
  WEIR_TRY(const auto objects, pipeline_.take_stages());
  flow::execution_options options;
  options.seed = options_.seed;
  options.folder = options_.files;
  options.load = load_constant;
  weir::engine host;
  WEIR_TRY(r.unverified,
           flow::verify_outputs(planned_.source, objects, host, options, *from_));
  r.ended = "finished";
  r.finished_before = true;
  r.generation = generation_;
  r.resumed_item = from_->next_item;
  r.memory_bound = planned_.memory_bound;
  r.planned = planned_;
  r.counters.stages.resize(planned_.source.stages.size());
  r.counters.edges.resize(planned_.source.edges.size());
  return r;
}

/// Notes the counters at a failure. There are none if the stages could not be opened.
void pipeline_runner::note_counters(std::shared_ptr<const flow::run_counters> now) {
  opened_ = now != nullptr;
  if (!opened_) {
    return;
  }
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
  if (!opened_ && !resuming_) {
    remove_new_folders();
  }
}

// Folders that hold something are not removed.
void pipeline_runner::remove_new_folders() {
  std::error_code ignored;
  store_.reset();
  if (made_checkpoints_) {
    std::filesystem::remove(join_path(checkpoint_folder(), "lock"), ignored);
    std::filesystem::remove(checkpoint_folder(), ignored);
  }
  if (made_folder_) {
    std::filesystem::remove(options_.folder, ignored);
  }
}

std::vector<hosted_stage> pipeline_runner::spawn_hosts(
    flow::face kind, stop_group group, const std::shared_ptr<pipeline_parts>& parts) {
  std::vector<hosted_stage> hosts;
  for (std::uint32_t i = 0; i < planned_.source.stages.size(); ++i) {
    const flow::graph_stage& s = planned_.source.stages[i];
    if (s.info.face == kind) {
      hosts.push_back(
          {i, system_->spawn_io(s.name.c_str(), group, io_host,
                                io_host_config{parts->objects[i].get(), s.name, parts})});
    }
  }
  return hosts;
}

result<engine_host_actor> pipeline_runner::start() {
  auto parts = std::make_shared<pipeline_parts>();
  WEIR_TRY(parts->objects, pipeline_.take_stages());
  auto config = std::make_shared<engine_host_config>();
  config->sources = spawn_hosts(flow::face::source, stop_group::source, parts);
  config->sinks = spawn_hosts(flow::face::sink, stop_group::sink, parts);
  config->blocking = spawn_hosts(flow::face::blocking, stop_group::sink, parts);
  const std::weak_ptr<pipeline_parts> weak = parts;
  config->parts = std::move(parts);
  config->planned = planned_;
  config->from = from_;
  config->generation = generation_;
  config->engine.workers = options_.workers;
  config->engine.trace.mode = options_.trace;
  config->options = options_;
  if (store_) {
    config->saver = system_->spawn_io("epoch_saver", stop_group::sink, epoch_saver,
                                      epoch_saver_config{store_});
  }
  if (options_.progress) {
    config->progress = [events = events_, weak](pipeline_progress p) {
      p.counters = counters_of(weak);
      events->push(std::move(p));
    };
  }
  config->warning = [events = events_](std::string text) {
    events->push(host_warning{std::move(text)});
  };
  config->ended = [events = events_, weak](result<host_end> end) {
    if (end) {
      events->push(std::move(*end));
    } else {
      events->push(host_failure{std::move(end.error()), counters_of(weak)});
    }
  };
  return system_->spawn_io("engine_host", stop_group::engine, engine_host,
                           std::move(config));
}

/// Passes a request to stop on once. The first failure, of any actor, ends the wait.
result<pipeline_report> pipeline_runner::wait_for_end(const engine_host_actor& host) {
  bool drained = false;
  system_->send(host, launch_atom_v);
  while (true) {
    if (control_->stop_requested() && !drained) {
      drained = true;
      system_->send(host, drain_atom_v);
    }
    for (pipeline_event& e : events_->wait()) {
      if (auto* failed = std::get_if<error>(&e)) {
        opened_ = true;  // it may have been, so that nothing is removed
        return std::move(*failed);
      }
      if (auto* failed = std::get_if<host_failure>(&e)) {
        note_counters(std::move(failed->counters));
        return std::move(failed->cause);
      }
      if (auto* end = std::get_if<host_end>(&e)) {
        end->report.generation = store_ ? std::max(store_->generation(), generation_) : 0;
        for (const std::string& text : end->report.warnings) {
          warn(text);
        }
        return std::move(end->report);
      }
      if (auto* warning = std::get_if<host_warning>(&e)) {
        warn(warning->text);
      } else if (options_.progress) {
        last_ = std::get<pipeline_progress>(e);
        options_.progress(last_);
      }
    }
  }
}

}  // namespace
}  // namespace weir::actors

namespace weir {

result<pipeline_report> run(pipeline& p, const run_options& options) {
  return actors::pipeline_runner(p, options, false).execute();
}

result<pipeline_report> resume(pipeline& p, const run_options& options) {
  return actors::pipeline_runner(p, options, true).execute();
}

}  // namespace weir
