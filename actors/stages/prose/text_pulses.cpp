// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source `text.pulses`: a context stream as pulses, each with the next chunk of
/// every lane. Budgets of phases decide how long it is.
///
/// The source reads ahead of nothing: a pulse is made when the run asks for an item. Its
/// position is the number of the pulse, and everything else (cursors of the streams,
/// phases, budget) is state. The same settings, text and state give the same pulses,
/// whatever the times of arrival are.
#include <algorithm>

#include "stages/prose/accounts.hpp"
#include "stages/prose/chunk_plan.hpp"
#include "stages/prose/durations.hpp"
#include "stages/prose/factories.hpp"
#include "stages/prose/job/resume/contexts.hpp"
#include "stages/prose/pulse_item.hpp"
#include "stages/prose/text_settings.hpp"
#include "stages/prose/text_streams.hpp"
#include "stages/source_parts.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/record.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view text_pulses_name = "text.pulses";
/// Longest wait for a pipe in one call.
constexpr int wait_ms = 50;
/// Parts of the state.
constexpr const char* cursor_part = "CURSOR";
constexpr const char* conductor_part = "CONDUCTOR";
constexpr const char* budget_part = "BUDGET";
constexpr const char* steps_part = "STEPS";

/// Belongs to the thread of its I/O host.
class text_pulses final : public flow::stage_object {
 public:
  text_pulses(pulses_settings settings, file_system& fs)
      : settings_(std::move(settings)),
        shape_{settings_.stream.lanes, settings_.stream.chunk},
        fs_(fs),
        steps_(steps_of(settings_)) {}

  /// A run that continues opens its corpus in `restore_state`, behind the cursor.
  result<void> open(opening& run) override {
    const auto absolute = [&](const std::string& path) { return path_of(run, path); };
    replace_paths(settings_.source, absolute);
    // Also the sources that only phases name.
    for (auto& [name, source] : settings_.sources) {
      replace_paths(source, absolute);
    }
    // The streams are opened here for a new run, and in `restore_state` for one that goes
    // on.
    streams_.emplace(order(), steps_.sources);
    if (run.resuming()) {
      return {};
    }
    // Wrong paths are found here.
    WEIR_CHECK(streams_->open(fs_));
    phase_budget& build = settings_.budgets[0];
    // "all" is one pass over the text of the Build phase.
    if (build.tokens == one_pass) {
      build.tokens = streams_->tokens_of(build_stream());
      if (build.tokens == 0) {
        return error(errc::invalid_argument,
                     "cannot use setting \"build_tokens\" of text.pulses: expected a "
                     "number, because the source does not say how long it is, found "
                     "\"all\"");
      }
    }
    // A use for each step.
    used_.resize(steps_.steps.size());
    record_.total_updates = planned_updates();
    begin();
    return {};
  }

  /// A pipe may be quiet for any time, so the next chunk is read only when it has
  /// arrived.
  result<bool> next(pull& p) override {
    const std::int64_t begun_ns = now_ns();
    for (;;) {
      // One pulse at a time; its chunks are read in the order of the orders.
      if (orders_.empty()) {
        orders_ = plan_->take_orders(1);
      }
      while (!orders_.empty()) {
        const chunk_order& order = orders_.front();
        // The order stays, and the next call tries it again.
        WEIR_TRY(const bool ready, streams_->ready(order, wait_ms));
        if (!ready) {
          p.nothing_yet();
          return true;
        }
        WEIR_TRY(auto chunk, streams_->read(order));
        // The plan puts the chunks of a pulse together.
        WEIR_CHECK(plan_->resolve({order, std::move(chunk)}));
        orders_.erase(orders_.begin());
      }
      // All chunks of the pulse are there, or its phase has ended.
      if (auto chunks = plan_->take_pulse()) {
        WEIR_CHECK(make(p, *chunks));
        next_times_.add(now_ns() - begun_ns);
        return true;
      }
      // All phases have used their budgets.
      if (plan_->exhausted()) {
        return false;
      }
    }
  }

  /// Also makes the cursors of the streams, which may read the files, so they are made
  /// here on the thread of the source. `copy_state` only copies them.
  [[nodiscard]] flow::small_record position() const override {
    made_ = streams_->make_cursors(record_.pulses);
    return flow::small_record::holding(record_.pulses);
  }
  /// The state was restored before, so the cursor only has to agree with it.
  result<void> seek(bytes_view stored) override {
    WEIR_TRY(const auto pulses,
             record_of<std::uint64_t>(stored, text_pulses_name, "cursor"));
    if (pulses != record_.pulses) {
      return error(errc::corrupt,
                   fmt::format("cannot use the stored cursor of {}: expected pulse {}, "
                               "found {}",
                               text_pulses_name, record_.pulses, pulses));
    }
    return {};
  }

  /// Copies what `position` and the last item have left.
  result<void> copy_state(flow::state_writer& to) override {
    // A failure of `position` shows here, because that function cannot fail.
    WEIR_CHECK(made_);
    record_writer budget;
    // A run that goes on keeps its number, even if "all" is longer then.
    budget.put(settings_.budgets[0].tokens);
    streams_->for_each_cursor(
        [&](const std::string& part, bytes_view cursor) { put(to, part, cursor); });
    put(to, conductor_part, encode(record_));
    put(to, budget_part, budget.view());
    put(to, steps_part, encode(used_));
    return {};
  }
  /// Continues behind the state: streams, record, steps and budget, in this order.
  result<void> restore_state(const flow::state_reader& from) override {
    // Parts that came later may be missing in older checkpoints.
    WEIR_TRY(const auto lanes, streams_->restore(fs_, [&](const std::string& part) {
      return optional_part(from, part, part != cursor_part);
    }));
    WEIR_TRY(const bytes_view record, from.part(conductor_part));
    WEIR_TRY(record_, decode_conductor(record));
    // Lanes of the checkpoint and of this run may differ.
    deal_resets(lanes);
    WEIR_TRY(const auto steps, optional_part(from, steps_part, true));
    WEIR_TRY(used_, steps ? decode_steps(*steps)
                          : result<std::vector<phase_use>>(std::vector<phase_use>(
                                record_.used.begin(), record_.used.end())));
    // Steps that were added since begin without use.
    used_.resize(std::max(used_.size(), steps_.steps.size()));
    WEIR_TRY(const bytes_view stored, from.part(budget_part));
    WEIR_TRY(const std::uint64_t budget, decode_number(stored, budget_part));
    take_budget(budget);
    begin();
    return {};
  }

  /// Figures of the corpus and of the time of calls.
  void report(figures& to) const override {
    const opened_corpus& corpus = streams_->main();
    // Facts of the text first, times last.
    to.set("files", corpus.files);
    to.set("corpus_tokens", corpus.tokens);
    to.set("chain", corpus.chain);
    to.set("chain_starts", chain_starts());
    to.set("corpus_identity", corpus.identity);
    to.set("build_budget", build_budget());
    to.set("next_p50_seconds", next_times_.quantile(0.5));
    to.set("next_p99_seconds", next_times_.quantile(0.99));
    if (auto shares = shares_of(*streams_->main().stream); !shares.empty()) {
      to.set("mix", std::move(shares));
    }
  }

 private:
  /// Returns the first tokens of the sources that follow the first one, as far as they
  /// are known. Behind a live source they become known when it ends.
  [[nodiscard]] std::vector<std::string> chain_starts() const {
    const auto starts = streams_->main().stream->source().chained_starts();
    std::vector<std::string> out;
    // The first source begins at 0.
    for (std::size_t i = 1; i < starts.size(); ++i) {
      out.push_back(fmt::to_string(starts[i]));
    }
    return out;
  }
  /// The order for the main corpus; other streams replace its source.
  [[nodiscard]] corpus_order order() const {
    return {settings_.source, settings_.sources,  settings_.stream,
            settings_.grown,  settings_.contexts, settings_.chain};
  }
  /// Deals what is due to the contexts of the lanes before to those of the lanes now.
  void deal_resets(std::uint32_t before) {
    if (before == shape_.lanes) {
      return;
    }
    // With other lanes, a reset that is due follows the context of the lane.
    const std::vector<std::uint8_t> due = std::move(record_.reset_due);
    // A lane without a context of its own has nothing due.
    record_.reset_due.assign(shape_.lanes, 0);
    for (std::uint32_t lane = 0; lane < shape_.lanes; ++lane) {
      const auto from = context_source(settings_.contexts, lane, before);
      record_.reset_due[lane] = from && *from < due.size() ? due[*from] : 0;
    }
  }
  /// Returns a part of a state; nothing if it `may_lack` and the state does not have it.
  static result<std::optional<bytes_view>> optional_part(const flow::state_reader& from,
                                                         const std::string& part,
                                                         bool may_lack) {
    auto found = from.part(part);
    if (!found && !(may_lack && found.error().code() == errc::corrupt)) {
      return std::move(found).error();
    }
    return found ? std::optional<bytes_view>(*found) : std::nullopt;
  }
  /// Returns the stream that Build reads; the one of the run if there is no Build.
  [[nodiscard]] std::size_t build_stream() const {
    for (const phase_step& one : steps_.steps) {
      if (one.phase == 0) {
        return one.stream;
      }
    }
    return 0;
  }
  /// Returns the tokens of all Build phases.
  [[nodiscard]] std::uint64_t build_budget() const {
    const auto count = std::count_if(steps_.steps.begin(), steps_.steps.end(),
                                     [](const phase_step& s) { return s.phase == 0; });
    // A phase that occurs twice has its budget twice.
    return settings_.budgets[0].tokens * static_cast<std::uint64_t>(count);
  }
  /// Returns the Build pulses so far, and as many as the rest of the budgets needs.
  [[nodiscard]] std::uint64_t planned_updates() const {
    std::uint64_t sum = record_.used[0].pulses;
    for (std::size_t i = 0; i < steps_.steps.size(); ++i) {
      // Only Build steps change the parameters.
      if (steps_.steps[i].phase != 0) {
        continue;
      }
      phase_budget rest = settings_.budgets[0];
      // The limit of pulses can be reached first.
      const bool over = rest.pulses != 0 && used_[i].pulses >= rest.pulses;
      rest.tokens -= std::min(rest.tokens, used_[i].tokens);
      rest.pulses -= std::min(rest.pulses, used_[i].pulses);
      sum += over ? 0 : max_pulses(rest, shape_.tokens());
    }
    return sum;
  }
  /// Takes the budget of the Build phase of a run that continues. "All" is one pass of
  /// the text as it is now; a pipe does not say how long that is.
  /// @param stored  Budget in the state.
  void take_budget(std::uint64_t stored) {
    phase_budget& build = settings_.budgets[0];
    if (build.tokens == one_pass) {
      // A pipe gives 0.
      const std::uint64_t tokens = streams_->tokens_of(build_stream());
      build.tokens = tokens != 0 ? tokens : stored;
    }
    // A run with the same budgets keeps its plan, even if "all" is longer now.
    if (settings_.replan) {
      record_.total_updates = planned_updates();
    }
  }
  /// Adds a part of the state.
  static void put(flow::state_writer& to, const std::string& part, bytes_view bytes) {
    // The part has exactly these bytes.
    std::copy(bytes.begin(), bytes.end(), to.add(part, bytes.size()).begin());
  }
  /// Plans the chunks behind those of the record.
  void begin() {
    record_.reset_due.resize(shape_.lanes, 0);
    // From the uses on, not from the beginning.
    plan_.emplace(
        chunk_plan::settings{shape_.lanes, shape_.chunk, settings_.budgets, steps_.steps},
        used_);
  }
  /// Returns the lanes whose contexts are emptied before this pulse, and notes those that
  /// are to be emptied before their next chunk. A boundary at the start of a chunk
  /// belongs to this pulse, and a later one in it to the next. The command of a live
  /// source empties a context under any policy.
  [[nodiscard]] std::vector<std::uint32_t> note_boundaries(const pulse_chunks& chunks) {
    std::vector<std::uint32_t> resets;
    const bool never = settings_.stream.boundary == storage::boundary_policy::never;
    for (std::uint32_t lane = 0; lane < shape_.lanes; ++lane) {
      // The lane has no chunk in this pulse.
      if (!chunks.lanes[lane]) {
        continue;
      }
      const auto& boundaries = chunks.lanes[lane]->boundaries;
      // A boundary before the first token empties the context before this pulse.
      const bool before = !boundaries.empty() && boundaries.front() == 0;
      const bool by_policy = !never && (record_.reset_due[lane] != 0 || before);
      if (by_policy || chunks.lanes[lane]->new_context) {
        resets.push_back(lane);
      }
      // A boundary inside the chunk empties it before the next chunk of the lane.
      const bool behind = !boundaries.empty() && boundaries.back() > 0;
      record_.reset_due[lane] = behind && !never ? 1 : 0;
    }
    return resets;
  }
  /// Fills the item of a pulse and counts it.
  result<void> make(pull& p, pulse_chunks& chunks) {
    const auto words = static_cast<std::int64_t>(shape_.words());
    WEIR_TRY(const auto to, p.fill_bytes(0, dtype::uint32, std::span(&words, 1)));
    // The facts are those before this pulse is counted.
    pulse_facts facts;
    facts.pulse.id = record_.pulses;
    facts.pulse.phase = static_cast<models::pulse_phase>(chunks.phase);
    // Pulses of Build so far.
    facts.pulse.update = record_.used[0].pulses;
    facts.pulse.total_updates = record_.total_updates;
    facts.tokens = chunks.tokens();
    facts.ends_of_text = chunks.ends_of_text(streams_->separator_of(chunks.stream));
    facts.build_budget = build_budget();
    facts.phase_pulse = record_.used[chunks.phase].pulses;
    // Positions of the lanes over all streams.
    streams_->commit(chunks);
    write_pulse({to.as<std::uint32_t>(), shape_.words()}, shape_, facts, chunks.lanes,
                note_boundaries(chunks));
    // Phase and step count the same pulse.
    for (phase_use* used : {&record_.used[chunks.phase], &used_[chunks.step]}) {
      used->tokens += facts.tokens;
      used->pulses += 1;
    }
    record_.tokens += facts.tokens;
    record_.pulses += 1;
    return {};
  }

  pulses_settings settings_;
  pulse_shape shape_;
  file_system& fs_;
  planned_steps steps_;
  /// Mutable because `position` makes the cursors.
  mutable std::optional<text_streams> streams_;  ///< set by `open`
  /// Made by `begin`, when the budgets are known.
  std::optional<chunk_plan> plan_;
  chunk_orders orders_;          ///< chunks of the next pulse that have not been read
  conductor_record record_;      ///< as of the last item
  std::vector<phase_use> used_;  ///< by step, as of the last item
  duration_counts next_times_;   ///< of the calls that made a pulse
  mutable result<void> made_;    ///< whether `position` could make the cursors
};

/// Further paragraphs of the reference of `text.pulses`.
constexpr std::string_view text_pulses_details =
    R"(Outlet `pulses` has the type `u32[k]`, where k follows from `lanes` and `chunk`.
A phase ends with its budget or with its text, and the source ends with the last phase.

The cursor is the number of the pulse. The state holds the cursor of the context
stream with its last tokens, the sums of the phases, and the budget that "all" stands
for. A resumed run compares the text before the cursor with these tokens and with a
hash of all of it.

A table `[stage.source.NAME]` describes a source to which others refer by its name; it
has the keys of a table `[source.NAME]` of a run.)";

/// A small pipeline with `text.pulses`.
constexpr std::string_view text_pulses_example = R"([[stage]]
name = "text"
use = "text.pulses"
files = ["a.txt", "b.txt"]
build_tokens = "all"

[[stage]]
name = "sink"
use = "null"
)";

}  // namespace

/// Makes the source. Sources that forget their tokens cannot be resumed exactly.
result<void> make_text_pulses(flow::described_stage& made, const given_settings& given,
                              file_system& fs) {
  made.info = source_info(std::string(text_pulses_name),
                          "reads a context stream as pulses of tokens for a text model");
  made.info.details = text_pulses_details;
  made.info.example = text_pulses_example;
  WEIR_TRY(pulses_settings settings, read_pulses_settings(made.info, given));
  WEIR_TRY(const std::string warning, storage::check_config(settings.stream));
  static_cast<void>(warning);  // the source does not know the periods of the model
  std::vector<std::string> others = steps_of(settings).sources;
  others.insert(others.end(), settings.chain.begin(), settings.chain.end());
  if (forgets_tokens(settings.source, settings.sources) ||
      std::ranges::any_of(others, [&](const std::string& name) {
        return forgets_tokens(settings.sources.at(name), settings.sources);
      })) {
    made.info.promise = flow::guarantee::none;
  }
  const pulse_shape shape{settings.stream.lanes, settings.stream.chunk};
  WEIR_TRY(flow::port_type type, flow::port_type::parse(shape.type()));
  made.info.ports = {{"pulses", std::move(type), false}};
  // The parts of the state have fixed names.
  for (const char* part : {cursor_part, conductor_part, budget_part, steps_part}) {
    made.info.state.push_back({part, false});
  }
  // A cursor for each further stream.
  for (const std::string& name : steps_of(settings).sources) {
    made.info.state.push_back({cursor_part_of(name), false});
  }
  made.object = std::make_unique<text_pulses>(std::move(settings), fs);
  return {};
}

}  // namespace weir::actors
