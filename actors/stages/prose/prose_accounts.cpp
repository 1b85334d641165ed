// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stage `prose.accounts`: sums scores of pulses and makes the learning curve.
///
/// The stage answers late (`on_done`): a pulse is counted when its score is complete. It
/// hands the curve on only when a window has ended; all other pulses are gaps.
#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "stages/prose/accounts.hpp"
#include "stages/prose/factories.hpp"
#include "stages/prose/pulse_item.hpp"
#include "weir/base/clock.hpp"

namespace weir::actors {
namespace {

/// Parts of the state.
constexpr const char* metrics_part = "METRICS";
constexpr const char* build_part = "BUILD_TOKENS";

/// See the table.
struct accounts_settings {
  std::uint64_t curve_window = 0;
};

/// The curve has about 256 points unless the setting says otherwise.
settings_table<accounts_settings> accounts_table() {
  settings_table<accounts_settings> table("the stage prose.accounts");
  table
      .add("curve_window", &accounts_settings::curve_window,
           "Build tokens of a point of the curve; 0: 1/256 of the budget, but at least a "
           "pulse")
      .unit("tokens");
  return table;
}

/// Runs on the thread of the engine host.
class prose_accounts final : public flow::stage_object {
 public:
  explicit prose_accounts(accounts_settings settings) : settings_(settings) {
    // Ports by their number in the description.
    score_.index = 0;
    tokens_.index = 0;
    bits_.index = 1;
  }

  /// The engine also gives the time of its kernels.
  result<void> open(opening& run) override {
    engine_ = &run.host().base();
    return {};
  }
  /// Everything happens in `on_done`.
  result<void> on_item(step&) override { return {}; }

  /// Counts a pulse and hands the curve on if it has a new point.
  result<void> on_done(step& s) override {
    // prose.learn writes the score before it hands it on; only behind other stages do
    // tasks write it.
    if (!s.complete(score_)) {
      WEIR_CHECK(engine_->wait(s[score_].bytes()));
    }
    const auto words = s.value(score_);
    // The phase is used as an index, and the item may come from any stage.
    const std::uint64_t phase = word(words, score_word::phase);
    if (phase >= phase_count) {
      return error(errc::corrupt,
                   fmt::format("cannot count the score of a pulse: expected a phase from "
                               "0 to {} in its first word, found {}",
                               phase_count - 1, phase))
          .hint("prose.learn makes such items");
    }
    pulse_score score;
    score.phase = static_cast<models::pulse_phase>(phase);
    // Sums of nats are integers, so their order does not matter.
    score.tokens = word(words, score_word::tokens);
    score.nats_q32 = word(words, score_word::nats_q32);
    const std::uint64_t scored = word(words, score_word::scored);
    // An end-of-text token is scored and is no byte of the text.
    score.bytes = scored - std::min(scored, word(words, score_word::ends_of_text));
    // Rules are the same in every pulse of a run.
    score_rules rules;
    rules.build_budget = word(words, score_word::build_budget);
    // The window is part of the settings, or follows from the first pulse.
    rules.curve_window =
        settings_.curve_window != 0
            ? settings_.curve_window
            : curve_window_of(word(words, score_word::pulse_tokens), rules.build_budget);
    // The curve grows at its end only.
    const std::size_t points = accounts_.curve.size();
    accounts_.count(score, build_tokens_, rules);
    note(s, score);
    if (accounts_.curve.size() == points) {
      s.skip();
      return {};
    }
    return emit_curve(s);
  }

  /// Copies sums and curve, and the number of Build tokens.
  result<void> copy_state(flow::state_writer& to) override {
    // Sums are integers, so they are stored without rounding.
    const byte_vector metrics = encode(accounts_);
    std::copy(metrics.begin(), metrics.end(),
              to.add(metrics_part, metrics.size()).begin());
    store_le(to.add(build_part, sizeof(build_tokens_)).data(), build_tokens_);
    // The progress then shows the tokens of the checkpoint.
    copied_ = seen_;
    return {};
  }
  /// Continues the sums. `before_` keeps the times of earlier processes apart.
  result<void> restore_state(const flow::state_reader& from) override {
    WEIR_TRY(const bytes_view metrics, from.part(metrics_part));
    WEIR_TRY(accounts_, decode_accounts(metrics));
    WEIR_TRY(const bytes_view build, from.part(build_part));
    WEIR_TRY(build_tokens_, decode_number(build, build_part));
    // The report says how often the run was resumed.
    accounts_.resumed += 1;
    before_ = accounts_;
    return {};
  }

  /// The counts of pulses and tokens are those of this process.
  void report(figures& to) const override {
    // Earlier processes are added by the reader of the figures.
    to.set("pulses", seen_.pulses);
    to.set("tokens", seen_.tokens);
    to.set("checkpoint_pulses", copied_.pulses);
    to.set("checkpoint_tokens", copied_.tokens);
    // Figures of phases exist only after a pulse.
    if (seen_.pulses != 0) {
      to.set("phase", std::string(models::name_of(phase_)));
      to.set("phase_tokens", phase_tokens_[static_cast<std::size_t>(phase_)]);
      for (std::size_t i = 0; i < phase_count; ++i) {
        const auto phase = static_cast<models::pulse_phase>(i);
        to.set(fmt::format("{}_tokens", models::name_of(phase)), phase_tokens_[i]);
      }
      to.set("phase_bits_per_byte", phase_sum().bits_per_byte());
      // The fraction has 32 bits.
      to.set("nats", static_cast<double>(nats_.whole) +
                         static_cast<double>(nats_.fraction) * 0x1p-32);
      to.set("bytes", nats_.bytes);
    }
    // The curve is drawn whole, with the points of earlier processes.
    figures::curve curve{"learning curve", "tokens of Build", "bits per byte", {}};
    for (const curve_window& w : accounts_.curve) {
      curve.points.emplace_back(static_cast<double>(w.tokens), w.sum.bits_per_byte());
    }
    if (!curve.points.empty()) {
      to.draw(std::move(curve));
    }
  }

 private:
  /// Returns a word of a score by its meaning.
  static std::uint64_t word(const view<const std::uint64_t, 1>& words, score_word which) {
    return words[static_cast<std::size_t>(which)];
  }
  /// Returns the scores of the phase so far.
  [[nodiscard]] nat_sum phase_sum() const {
    // Sums of all processes.
    switch (phase_) {
      case models::pulse_phase::build: return accounts_.build;
      case models::pulse_phase::test: return accounts_.test;
      case models::pulse_phase::stream: return accounts_.stream;
    }
    return {};
  }
  /// Counts what is reported and is no part of the results.
  void note(const step& s, const pulse_score& score) {
    // Not part of the state.
    seen_.pulses += 1;
    seen_.tokens += score.tokens;
    phase_ = score.phase;
    phase_tokens_[static_cast<std::size_t>(phase_)] += score.tokens;
    nats_.add(score.nats_q32, score.bytes);
    // Time counts only in the Build phase.
    if (score.phase != models::pulse_phase::build) {
      return;
    }
    build_tokens_ += score.tokens;
    // The first pulse begins the time of the phase.
    begin_ns_ = begin_ns_ == 0 ? s.source_time() : begin_ns_;
    accounts_.build_ns = before_.build_ns + (now_ns() - begin_ns_);
    // Kernel time of the engine includes other stages of the run.
    accounts_.kernel_ns = before_.kernel_ns + engine_->counters().kernel_ns;
  }
  /// Hands on the whole curve so far. The memory that `make` returns has no users, so the
  /// values are written without a task.
  result<void> emit_curve(step& s) {
    // An item of its own for each curve, so the extents differ.
    const auto points = static_cast<std::int64_t>(accounts_.curve.size());
    WEIR_TRY(const auto tokens, s.make(tokens_, points));
    WEIR_TRY(const auto bits, s.make(bits_, points));
    auto to_tokens = tokens.elements<std::uint64_t>();
    auto to_bits = bits.elements<double>();
    for (std::size_t i = 0; i < accounts_.curve.size(); ++i) {
      to_tokens[i] = accounts_.curve[i].tokens;
      to_bits[i] = accounts_.curve[i].sum.bits_per_byte();
    }
    return s.emit();
  }

  /// The window of the curve, if the user has set it.
  accounts_settings settings_;
  runtime::engine* engine_ = nullptr;
  /// The inlet, and the outlets of the curve.
  in<std::uint64_t, 1> score_;
  out<std::uint64_t, 1> tokens_;
  out<double, 1> bits_;
  /// Sums since the beginning of the run.
  /// Part of the state.
  run_accounts accounts_;
  std::uint64_t build_tokens_ = 0;  ///< Build tokens of the pulses so far
  run_accounts before_;             ///< as of the checkpoint that the run continues
  std::int64_t begin_ns_ = 0;       ///< when the first pulse left its source; 0 before it
  /// Pulses and tokens of this process.
  struct amount {
    std::uint64_t pulses = 0;
    std::uint64_t tokens = 0;
  };
  amount seen_;
  amount copied_;  ///< as of the newest checkpoint of this process
  models::pulse_phase phase_ = models::pulse_phase::build;
  std::array<std::uint64_t, phase_count> phase_tokens_{};  ///< by phase
  nat_sum nats_;  ///< of all scores of this process
};

/// Further paragraphs of the reference of `prose.accounts`.
constexpr std::string_view prose_accounts_details =
    R"(When a window of the curve is complete, it hands on the whole curve so far
through the outlets `tokens`, Build tokens at the end of each window (`u64[?]`), and
`bits_per_byte`, the mean within each window (`f64[?]`); all other pulses are gaps.

The state holds the sums and the curve.)";

/// A small pipeline with `prose.accounts`.
constexpr std::string_view prose_accounts_example = R"([[stage]]
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
name = "accounts"
use = "prose.accounts"

[[stage]]
name = "curve"
use = "tgm.replace"
path = "curve.tgm"
objects = ["tokens", "bits_per_byte"]
inlets = { tokens = "accounts.tokens", bits_per_byte = "accounts.bits_per_byte" }
)";

}  // namespace

/// Makes the stage. It has two outlets, which get an item at the same time.
result<void> make_prose_accounts(flow::described_stage& made,
                                 const given_settings& given) {
  made.info.name = "prose.accounts";
  made.info.documentation =
      "sums the scores of prose.learn, and hands the learning curve on when it grows";
  made.info.face = flow::face::late;
  made.info.details = prose_accounts_details;
  made.info.example = prose_accounts_example;
  made.info.state = {{metrics_part, false}, {build_part, false}};
  WEIR_TRY(const accounts_settings settings,
           flow::read_settings(made.info, accounts_table(), given));
  WEIR_TRY(flow::port_type score,
           flow::port_type::parse(fmt::format("u64[{}]", score_words)));
  WEIR_TRY(flow::port_type tokens, flow::port_type::parse("u64[?]"));
  WEIR_TRY(flow::port_type bits, flow::port_type::parse("f64[?]"));
  made.info.ports = {{"score", std::move(score), true},
                     {"tokens", std::move(tokens), false},
                     {"bits_per_byte", std::move(bits), false}};
  made.info.state = {{metrics_part, false}, {build_part, false}};
  made.object = std::make_unique<prose_accounts>(settings);
  return {};
}

}  // namespace weir::actors
