// SPDX-License-Identifier: Apache-2.0
/// @file
/// A whole run on CAF's deterministic scheduler. There are no threads; a seed decides
/// which actor handles its next message.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/fake_model.hpp"
#include "checkpointer/checkpointer.hpp"
#include "checkpointer/contents.hpp"
#include "conductor/conductor.hpp"
#include "observer/observer.hpp"
#include "orchestrator/orchestrator.hpp"
#include "source/rank.hpp"
#include "source/stream_hub.hpp"
#include "stepped_system.hpp"
#include "support/faulty_files.hpp"
#include "support/temp_folder.hpp"

namespace weir::test {

/// Settings of a run in a test, with the faults to inject.
struct harness_options {
  std::uint32_t seed = 0;
  std::uint32_t lanes = 1;
  std::uint32_t ranks = 1;
  std::uint64_t prefetch = 16;
  std::uint32_t batch = 1;  ///< pulses in one message
  std::uint64_t tokens = 1000;
  std::uint64_t every_tokens = 0;
  std::optional<std::uint64_t> fail_at;  ///< pulse whose kernel fails
  /// Step of the scheduler at which the run is asked to end.
  std::optional<std::uint64_t> drain_at;
  file_system* corpus_files = &posix_file_system();  ///< file system of the corpus
  bool silent_ranks = false;                         ///< ranks never answer
  std::int64_t (*now)() = nullptr;                   ///< clock of the Conductor
};

/// A rank that answers no request. It takes its number because CAF 0.17.6 binds a
/// reference to a null pointer for an actor without arguments, which UBSan reports.
struct silent_rank_shell {
  std::vector<caf::typed_response_promise<actors::local<actors::chunk_replies>>> asked;
};
/// Keeps every request without answering it.
inline actors::rank_actor::behavior_type silent_rank(
    actors::rank_actor::stateful_pointer<silent_rank_shell> self,
    std::uint32_t /*rank*/) {
  return {[self](actors::pull_atom, const actors::local<actors::chunk_orders>&) {
    self->state.asked.push_back(
        self->make_response_promise<actors::local<actors::chunk_replies>>());
    return self->state.asked.back();
  }};
}

/// The actors of one run, with a model that hashes its tokens.
class harness : private stepped_system {
 public:
  harness(faulty_files& fs, const std::string& folder, const harness_options& o)
      : stepped_system(o.seed), options_(o), log_(std::make_shared<fake_log>()) {
    log_->fail_at = o.fail_at;
    open(fs, folder);
  }
  ~harness() {
    conductor_ = nullptr;
    hub_ = nullptr;
    orchestrator_ = nullptr;
    checkpointer_ = nullptr;
    stop();
  }

  /// Runs to the end. Returns nothing if no message is left before the end.
  std::optional<actors::conductor_end> run() {
    if (open_failure_) {
      end_.emplace();
      end_->failure = open_failure_;
      return end_;
    }
    self()->send(conductor_, actors::launch_atom_v);
    for (std::uint64_t i = 0; i < 1'000'000; ++i) {
      if (options_.drain_at == i) {
        self()->send(conductor_, actors::drain_atom_v);
      }
      if (end_ || !step()) {
        break;
      }
    }
    return end_;
  }
  /// Lets time pass: timers fire, and all messages that follow are handled.
  std::optional<actors::conductor_end> pass(std::chrono::seconds time) {
    advance(time);
    while (!end_ && step()) {
    }
    return end_;
  }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  [[nodiscard]] const fake_log& log() const { return *log_; }
  [[nodiscard]] std::optional<error> open_failure() const { return open_failure_; }

 private:
  /// Opens the checkpoint, the stream and the model, and spawns their actors. A failure
  /// is kept in `open_failure_`.
  void open(faulty_files& fs, const std::string& folder) {
    using namespace actors;
    // The lock of the folder is a real file, so the folder must exist.
    std::filesystem::create_directories(folder + "/checkpoint");
    checkpointer_ = spawn(checkpointer_io, checkpointer_config{&fs});
    hub_ = spawn(stream_hub_io, hub_config{options_.corpus_files});
    orchestrator_config engine;
    std::shared_ptr<const storage::checkpoint> newest;
    auto store =
        ask<local<store_info>>(checkpointer_, open_atom_v,
                               by_reference(store_spec{folder + "/checkpoint", true}));
    if (!store) {
      open_failure_ = store.error();
      return;
    }
    newest = (*store)->newest;
    stream_spec spec{{folder + "/text"}, true, {}, std::nullopt};
    spec.config.lanes = options_.lanes;
    spec.config.ranks = options_.ranks;
    conductor_config c;
    if (newest) {
      spec.cursor = newest->cursor();
      const auto stored = or_throw(read_run(*newest));
      c.record = stored.record;
      c.accounts = stored.accounts;
      c.durable_generation = newest->header().generation;
    }
    auto stream = ask<local<stream_info>>(hub_, open_atom_v, by_reference(spec));
    if (!stream) {
      open_failure_ = stream.error();
      return;
    }
    engine.factory = [log = log_](const model_spec& m) -> result<built_model> {
      std::uint64_t start = 0;
      if (m.checkpoint) {
        WEIR_TRY(const auto* stored, m.checkpoint->find("PARAM"));
        start = load_le<std::uint64_t>(stored->data.data());
      }
      return built_model{std::make_unique<fake_model>(log, start), {}};
    };
    orchestrator_ = spawn(orchestrator, engine);
    model_spec m;
    m.checkpoint = newest;
    or_throw(ask<local<model_info>>(orchestrator_, open_atom_v, by_reference(m)));
    start(std::move(c));
  }

  /// Spawns the ranks, the observer and the Conductor.
  void start(actors::conductor_config c) {
    using namespace actors;
    c.settings.frequencies = {1, 8, 64, 512};
    c.settings.lanes = options_.lanes;
    c.settings.prefetch = options_.prefetch;
    c.settings.batch = options_.batch;
    c.settings.window = std::max<std::size_t>(c.settings.window, options_.batch);
    c.settings.budgets[0].tokens = options_.tokens;
    c.settings.every_tokens = options_.every_tokens;
    for (std::uint32_t r = 0; r < options_.ranks; ++r) {
      if (options_.silent_ranks) {
        c.ranks.push_back(spawn(silent_rank, r));
        continue;
      }
      c.ranks.push_back(spawn(
          rank_io, rank_config{r, options_.ranks, hub_, std::chrono::seconds(600)}));
    }
    c.now = options_.now;
    c.hub = hub_;
    c.orchestrator = orchestrator_;
    c.checkpointer = checkpointer_;
    c.observer = spawn(observer, observer_config{});
    c.contents.sections = {{models::region_kind::parameter, 0, 0, 8}};
    c.contents.config = "seed = 1\n";
    c.ended = [this](conductor_end end) { end_ = std::move(end); };
    c.warning = [this](std::string text) { warnings_.push_back(std::move(text)); };
    conductor_ = spawn(conductor, std::move(c));
  }

  harness_options options_;
  std::shared_ptr<fake_log> log_;
  actors::conductor_actor conductor_;
  actors::stream_hub_actor hub_;
  actors::orchestrator_actor orchestrator_;
  actors::checkpointer_actor checkpointer_;
  std::optional<actors::conductor_end> end_;
  std::optional<error> open_failure_;
  std::vector<std::string> warnings_;
};

}  // namespace weir::test
