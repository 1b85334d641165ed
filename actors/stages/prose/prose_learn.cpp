// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stage `prose.learn`: runs each pulse on a prose model and hands its score on.
///
/// A pulse is submitted to the model as tasks (`on_item`) and its result is taken when
/// they have ended (`on_done`). Up to `ahead` pulses are under way, so that the engine
/// has work while the next one is being submitted; they end in order. The model itself
/// decides nothing about time: pulses come with phase, budget and number from the source.
#include <algorithm>
#include <array>
#include <bit>
#include <deque>

#include <fmt/core.h>

#include "stages/prose/durations.hpp"
#include "stages/prose/factories.hpp"
#include "stages/prose/model_state.hpp"
#include "stages/prose/pause_meter.hpp"
#include "stages/prose/predictions/prediction_item.hpp"
#include "stages/prose/pulse_item.hpp"
#include "weir/base/clock.hpp"
#include "weir/runtime/trace.hpp"

namespace weir::actors {
namespace {

/// See the table.
struct learn_settings {
  models::prose_config model;
  std::uint32_t devices = 1;
  std::uint32_t ahead = 3;
  bool predictions = false;
};

settings_table<learn_settings> learn_table() {
  settings_table<learn_settings> table("the stage prose.learn");
  // The seed is that of the run, so it is not a setting of the stage.
  table.include("", &learn_settings::model, models::prose_settings(), {"seed"});
  table
      // The number of replicas may change, because results do not depend on it.
      .add("devices", &learn_settings::devices,
           "devices that share the lanes, each with a replica of the parameters; never "
           "changes a result")
      .range(1, 1 << 16)
      .may_change();
  table
      .add("ahead", &learn_settings::ahead,
           "pulses whose tasks the engine has at a time; never changes a result")
      .range(1, static_cast<std::int64_t>(models::prose::max_in_flight))
      .unit("pulses")
      .may_change();
  table
      .add("predictions", &learn_settings::predictions,
           "true for an outlet with the predictions of the Stream phase")
      .may_change();
  return table;
}

/// The part of the state that names the kernels; it does not count for hashes.
constexpr const char* kernels_part = "KERNELS";
/// Every hundredth pulse is kept in a long trace.
constexpr std::uint64_t kept_in_trace = 100;
/// Pulses after which a missing pulse counts as a stall.
constexpr std::uint64_t warm_pulses = 10;

/// Runs on the thread of the engine host, which is the submitter of the model's tasks.
class prose_learn final : public flow::stage_object {
 public:
  explicit prose_learn(learn_settings settings)
      : settings_(std::move(settings)),
        shape_{settings_.model.lanes, settings_.model.max_chunk} {
    // Ports by their number in the description.
    pulses_.index = 0;
    score_.index = 0;
    predictions_.index = 1;
  }

  /// The seed of the run initialises the parameters.
  result<void> open(opening& run) override {
    // The model submits its tasks to the engine of the run.
    engine_ = &run.host().base();
    models::prose_config model = settings_.model;
    // Equal seeds give equal parameters.
    model.seed = run.seed();
    WEIR_TRY(model_,
             models::prose::create(*engine_, model, run.kernels(), settings_.devices));
    return {};
  }

  /// Submits a pulse. Its tasks become those of the item, so the flow knows when it ends.
  result<void> on_item(step& s) override {
    // A source writes the item before it hands it on; only behind other stages do tasks
    // write it.
    if (!s.complete(pulses_)) {
      WEIR_CHECK(engine_->wait(s[pulses_].bytes()));
    }
    // Copied out of the item, which may be given back later.
    WEIR_TRY(auto pulse, pulse_of(s));
    models::pulse& p = pulse.facts.pulse;
    p.keeps_predictions = settings_.predictions && p.phase == models::pulse_phase::stream;
    count_stall(s, p);
    // Long traces keep the tasks of some pulses only.
    engine_->tracer().begin_pulse(p.id, p.id % kept_in_trace == 0);
    // Contexts are emptied before the tokens of the pulse.
    for (const std::uint32_t lane : pulse.resets) {
      WEIR_CHECK(model_->reset_context(lane));
    }
    WEIR_CHECK(jump_over_gaps(pulse.inputs));
    set_levels(p, pulse.inputs);
    WEIR_TRY(const auto ticket, model_->submit(p, pulse.inputs));
    // The numbers of the tasks of a pulse follow each other.
    const auto tasks = model_->tasks(ticket);
    s.adopt_tasks(tasks.first, tasks.last);
    // The result is taken in the same order.
    in_flight_.push_back({ticket, pulse.facts, now_ns()});
    return {};
  }

  /// Takes the result of the oldest pulse and hands its score on.
  result<void> on_done(step& s) override {
    const flight f = in_flight_.front();
    in_flight_.pop_front();
    // Its tasks have ended, so this does not wait.
    WEIR_TRY(const models::pulse_result r, model_->finish(f.ticket));
    const std::int64_t ended_ns = now_ns();
    // The clock of the pulse includes the time that its tasks have waited.
    pulse_times_.add(ended_ns - f.begun_ns);
    first_ns_ = first_ns_ == 0 ? f.begun_ns : first_ns_;
    last_ns_ = ended_ns;
    pauses_.ended(ended_ns, copied_);
    copied_ = false;
    // From here on the model waits for a pulse.
    if (in_flight_.empty()) {
      idle_since_ns_ = s.turn_time();
    }
    // The order is that of `score_word`.
    const std::array<std::uint64_t, score_words> words{
        static_cast<std::uint64_t>(f.facts.pulse.phase),
        f.facts.tokens,
        r.scored,
        r.nats_q32,
        f.facts.ends_of_text,
        std::bit_cast<std::uint64_t>(r.gradient_norm),
        f.facts.build_budget,
        shape_.tokens()};
    // The memory that `make` returns has no users, so it is written without a task, which
    // would wake a worker.
    WEIR_TRY(const auto to, s.make(score_, score_words));
    std::copy(words.begin(), words.end(), to.bytes().as<std::uint64_t>());
    // Pulses of other phases have a gap at the outlet.
    if (f.facts.pulse.keeps_predictions) {
      WEIR_CHECK(make_predictions(s, r));
    }
    return s.emit();
  }

  /// The state of a model is a set of regions in several storages, of which the model
  /// makes a few sections.
  /// The copies are tasks: the run goes on while they are made, and the image is complete
  /// when they have ended.
  result<void> copy_state(flow::state_writer& to) override {
    if (settings_.devices > 1) {
      WEIR_CHECK(model_->check_replicas());  // all pulses before the barrier have ended
    }
    // Memory in the image for each section.
    std::vector<mutable_bytes> parts;
    for (const models::state_section& section : model_->sections()) {
      parts.push_back(to.add(section_name(section), section.bytes));
    }
    // Tasks behind those of the pulses so far.
    WEIR_TRY(const auto tasks, model_->submit_copies(parts));
    for (const task_id id : tasks) {
      to.filled_by(id);
    }
    copied_ = true;
    // So that a resumed run can tell whether its results may differ.
    const bytes_view kernels = as_view(model_->kernel_set());
    std::copy(kernels.begin(), kernels.end(),
              to.add(kernels_part, kernels.size()).begin());
    return {};
  }
  /// Restores all sections. Other kernels are a warning and no error.
  result<void> restore_state(const flow::state_reader& from) override {
    // Other kernels may round differently, and then the run does not repeat bit for bit.
    WEIR_TRY(const bytes_view kernels, from.part(kernels_part));
    if (as_text(kernels) != model_->kernel_set()) {
      problem_ = fmt::format(
          "{}: the checkpoint was computed with kernels {}, this is {}; results may "
          "differ in their bits",
          name_of(errc::build_mismatch), as_text(kernels), model_->kernel_set());
    }
    // The names are those of `copy_state`.
    return restore_model(*model_,
                         [&](const std::string& name) { return from.part(name); });
  }

  /// Figures of this process.
  void report(figures& to) const override {
    to.set("kernels", std::string(model_->kernel_set()));
    to.set("instruction_set", std::string(model_->instruction_set()));
    to.set("parameters", model_->parameter_count());
    to.set("stall_seconds", static_cast<double>(stall_ns_) * 1e-9);
    to.set("checkpoint_stall_ms", pauses_.pause_ms());
    to.set("pulse_p50_seconds", pulse_times_.quantile(0.5));
    to.set("pulse_p99_seconds", pulse_times_.quantile(0.99));
    // From the first pulse of this process to the last.
    to.set("pulse_seconds", static_cast<double>(last_ns_ - first_ns_) * 1e-9);
    if (!problem_.empty()) {
      to.problem(problem_);
    }
  }

 private:
  /// A pulse that is submitted and not finished.
  struct flight {
    models::pulse_ticket ticket;
    pulse_facts facts;
    std::int64_t begun_ns = 0;  ///< when it was submitted
  };

  /// Reads the pulse of an item whose bytes are there.
  [[nodiscard]] result<read_pulse> pulse_of(const step& s) const {
    const auto item = s[pulses_];
    // Lanes and chunk say where everything is in the words.
    return read_item({item.bytes().as<const std::uint32_t>(),
                      static_cast<std::size_t>(item.extent(0))},
                     shape_);
  }
  /// Makes the item of the outlet `predictions`. Other pulses have a gap there.
  /// The pulse is read once more, because its item still exists.
  result<void> make_predictions(step& s, const models::pulse_result& r) {
    WEIR_TRY(const read_pulse pulse, pulse_of(s));
    const auto size = static_cast<std::int64_t>(prediction_words(shape_));
    WEIR_TRY(const auto to, s.make(predictions_, size));
    // Written without a task, as the score.
    write_predictions({to.bytes().as<std::uint32_t>(), prediction_words(shape_)}, shape_,
                      pulse, r.predictions);
    return {};
  }
  /// Counts the time for which the model had no pulse because none had arrived. The first
  /// pulses of a process wait for files to be opened, so they do not count.
  void count_stall(const step& s, const models::pulse& p) {
    // The engine had nothing of this stage at the moment.
    // Only Build is measured.
    if (in_flight_.empty() && taken_ >= warm_pulses &&
        p.phase == models::pulse_phase::build) {
      stall_ns_ += s.turn_time() - idle_since_ns_;
    }
    ++taken_;
  }
  /// A lane whose text goes on behind pulses that the run skips begins there with an
  /// empty context.
  /// Only a gap can make the position of the text larger than that of the model.
  result<void> jump_over_gaps(const std::vector<models::prose::lane_input>& inputs) {
    for (std::uint32_t lane = 0; lane < inputs.size(); ++lane) {
      const models::prose::lane_input& input = inputs[lane];
      // Positions never go back.
      if (!input.tokens.empty() && input.position > model_->position(lane)) {
        WEIR_CHECK(model_->start_context(lane, input.position));
      }
    }
    return {};
  }
  /// The levels that a Build pulse steps follow from the positions of its tokens.
  void set_levels(models::pulse& p,
                  std::vector<models::prose::lane_input>& inputs) const {
    for (std::uint32_t lane = 0; lane < inputs.size(); ++lane) {
      models::prose::lane_input& input = inputs[lane];
      // A lane without tokens stays where it is.
      if (input.tokens.empty()) {
        input.position = model_->position(lane);
      } else if (p.phase == models::pulse_phase::build) {
        // A level is active if one of its lanes steps.
        p.active_levels |=
            models::active_mask(settings_.model.frequencies, input.position,
                                input.position + input.tokens.size());
      }
    }
  }

  learn_settings settings_;
  /// Lanes and tokens of a full pulse.
  pulse_shape shape_;
  in<std::uint32_t, 1> pulses_;
  out<std::uint64_t, 1> score_;
  out<std::uint32_t, 1> predictions_;  ///< only if the setting says so
  runtime::engine* engine_ = nullptr;
  /// Null before `open`.
  std::unique_ptr<models::prose> model_;
  std::deque<flight> in_flight_;    ///< the oldest first
  std::uint64_t taken_ = 0;         ///< pulses of this process
  std::int64_t idle_since_ns_ = 0;  ///< turn in which the last pulse in flight ended
  /// See `count_stall`. @units{nanoseconds}
  std::int64_t stall_ns_ = 0;
  duration_counts pulse_times_;  ///< from the submission of a pulse to its end
  std::int64_t first_ns_ = 0;    ///< submission of the first pulse; 0 before it
  std::int64_t last_ns_ = 0;     ///< end of the last pulse
  /// Measures what a checkpoint costs.
  pause_meter pauses_;
  std::string problem_;  ///< the checkpoint was made by other kernels; may be empty
  bool copied_ = false;  ///< the state was copied since the last pulse ended
};

/// Further paragraphs of the reference of `prose.learn`.
constexpr std::string_view prose_learn_details =
    R"(The outlet `score` has the type `u64[8]`: number of the phase, tokens, scored
tokens, negative log-likelihood in 2^-32 nat, end-of-text tokens among the scored ones,
bits of the f64 norm of the gradient, tokens of the Build phase, and tokens of a full
pulse. The seed of the initial parameters is that of the run.

With `predictions = true` the outlet `predictions` has an item for each pulse of the
Stream phase, for prose.predictions, and gaps for all others. Without it nothing is
computed for it.

`lanes` and `max_chunk` are the `lanes` and `chunk` of the source, and `vocab` is 257
if the source emits end-of-text tokens: between files, or with `end = "loop"`. The
window of the stage is the number of pulses that are read ahead. The state consists of
the parts PARAM, MOMENT, ERRBUF, LEVEL_STEPS and CTX/lane/i.)";

/// A small pipeline with `prose.learn`.
constexpr std::string_view prose_learn_example = R"([[stage]]
name = "text"
use = "text.pulses"
files = ["a.txt", "b.txt"]
build_tokens = "all"

[[stage]]
name = "learn"
use = "prose.learn"
vocab = 257
width = 32
blocks = 1
hidden = 32
window = "4 items"

[[stage]]
name = "sink"
use = "tgm.write"
path = "scores.tgm"
)";

}  // namespace

/// Makes the stage and checks model and devices, so that a mistake is found before the
/// run.
result<void> make_prose_learn(flow::described_stage& made, const given_settings& given) {
  made.info.name = "prose.learn";
  made.info.documentation =
      "learns from the pulses of text.pulses, or predicts them, and scores each";
  made.info.face = flow::face::late;
  made.info.details = prose_learn_details;
  made.info.example = prose_learn_example;
  WEIR_TRY(learn_settings settings, flow::read_settings(made.info, learn_table(), given));
  // Checked before the run begins, as in `prose::create`.
  WEIR_CHECK(models::check_config(settings.model));
  if (auto run = models::lanes_per_device(settings.model.lanes, settings.devices); !run) {
    return std::move(run).error();
  }
  const pulse_shape shape{settings.model.lanes, settings.model.max_chunk};
  // The shape follows from the settings.
  WEIR_TRY(flow::port_type pulses, flow::port_type::parse(shape.type()));
  WEIR_TRY(flow::port_type score,
           flow::port_type::parse(fmt::format("u64[{}]", score_words)));
  made.info.ports = {{"pulses", std::move(pulses), true},
                     {"score", std::move(score), false}};
  if (settings.predictions) {
    WEIR_TRY(flow::port_type type, flow::port_type::parse(prediction_type(shape)));
    made.info.ports.push_back({"predictions", std::move(type), false});
  }
  made.info.state = {{"PARAM", true},       {"MOMENT", true}, {"ERRBUF", true},
                     {"LEVEL_STEPS", true}, {"CTX", true},    {kernels_part, false}};
  // The flow then calls `on_item` again before the pulses before have ended.
  made.info.max_open_calls = settings.ahead;
  made.object = std::make_unique<prose_learn>(std::move(settings));
  return {};
}

}  // namespace weir::actors
