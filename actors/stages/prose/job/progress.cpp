// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rates, scores and durable tokens of a run.
///
/// The observer of the pipeline knows items; a run is reported in tokens of a phase, bits
/// per byte and an estimate of the time that is left. The figures of the stages count
/// this process only, so what an earlier process had done (`before_`) is added.
#include "stages/prose/job/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numbers>

#include "weir/base/clock.hpp"

namespace weir::actors {
namespace {

/// The rate is that of this time.
/// @units{nanoseconds}
constexpr std::int64_t rate_window_ns = 3'000'000'000;

/// 0 for an unknown name, which is Build.
std::size_t number_of(std::string_view phase) {
  constexpr std::array all{models::pulse_phase::build, models::pulse_phase::test,
                           models::pulse_phase::stream};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (models::name_of(all[i]) == phase) {
      return i;
    }
  }
  return 0;
}

/// Returns names and shares of the lines about a mixture, "NAME: 66.67 %".
std::vector<std::string> short_shares(const std::vector<std::string>& lines) {
  std::vector<std::string> out;
  for (const std::string& line : lines) {
    // The rest of the line is not shown in the progress.
    out.push_back(line.substr(0, line.find(" of the tokens")));
  }
  return out;
}

/// Returns the bits per byte of scores in nats.
// Before the first byte there is no rate.
double bits_of(double nats, std::uint64_t bytes) {
  return bytes == 0 ? 0 : nats / std::numbers::ln2 / static_cast<double>(bytes);
}

}  // namespace

/// `before` is the run that is continued, or null.
progress_meter::progress_meter(const run_config& config, const flow::graph& graph,
                               const stored_run* before)
    : config_(config), graph_(graph), build_budget_(config.phase.build.tokens) {
  if (before != nullptr) {
    before_ = before->record;
    // The budget of the run before stays, unless the stage says another one below.
    build_budget_ = before->build_budget;
    durable_tokens_ = before_.tokens;
  }
}

/// Returns the facts of the beginning once, when all stages are open.
std::optional<run_start> progress_meter::started(const pipeline_progress& p) {
  if (started_) {
    return std::nullopt;
  }
  started_ = true;
  const stage_reports stages(graph_, p.stages);
  // The stage may have replaced "all" by a number.
  build_budget_ = stages.get<std::uint64_t>(stage_names::text, "build_budget");
  run_start s;
  s.folder = config_.folder;
  s.corpus = stages.get<std::vector<std::string>>(stage_names::text, "files");
  s.corpus_tokens = stages.get<std::uint64_t>(stage_names::text, "corpus_tokens");
  read_ = read_before();
  note_chain(stages);
  // Sources of the chain that were begun before are not told again.
  while (begun_ < chain_.size() && chain_[begun_].first < read_) {
    ++begun_;  // an earlier process has said so
  }
  s.kernel_set = stages.get<std::string>(stage_names::learn, "kernels");
  s.parameters = stages.get<std::uint64_t>(stage_names::learn, "parameters");
  return s;
}

/// The budget of all steps of a phase together.
std::uint64_t progress_meter::budget_of(std::size_t phase) const {
  const auto& order = config_.phase.order;
  // A phase can occur several times in the order.
  const auto count = static_cast<std::uint64_t>(std::count_if(
      order.begin(), order.end(),
      [&](const std::string& name) { return number_of_phase(name) == phase; }));
  // The stage counts all Build phases in its budget.
  const std::array budgets{build_budget_, config_.phase.test.tokens * count,
                           config_.phase.stream.tokens * count};
  return budgets[phase];
}

/// Pulses that were read and not yet processed by the model.
std::uint64_t progress_meter::queue_of(const pipeline_progress& p) const {
  // The counters are those of the first two stages, text and model.
  if (!p.counters || p.counters->stages.size() < 2) {
    return 0;
  }
  const auto& text = p.counters->stages[0];
  const auto& learn = p.counters->stages[1];
  // The counters are read at different moments, so the second may be ahead.
  return text.items - std::min(text.items, learn.items);
}

/// Tokens of the main source that earlier processes have read.
std::uint64_t progress_meter::read_before() const {
  std::uint64_t sum = 0;
  for (std::size_t phase = 0; phase < phase_count; ++phase) {
    sum += reads_main(phase) ? before_.used[phase].tokens : 0;
  }
  return sum;
}

/// Tokens of the main source that this process has read.
std::uint64_t progress_meter::read_since(const stage_reports& stages) const {
  std::uint64_t sum = 0;
  for (std::size_t phase = 0; phase < phase_count; ++phase) {
    // The stage has a figure for each phase.
    const auto name = models::name_of(static_cast<models::pulse_phase>(phase));
    const auto figure = fmt::format("{}_tokens", name);
    sum +=
        reads_main(phase) ? stages.get<std::uint64_t>(stage_names::accounts, figure) : 0;
  }
  return sum;
}

/// A phase without a source of its own reads the main one.
bool progress_meter::reads_main(std::size_t phase) const {
  const run_phases& p = config_.phase;
  // In the order of the numbers of phases.
  return std::array{&p.build_source, &p.test_source, &p.stream_source}[phase]->empty();
}

/// Adds the sources of the chain that the stage has told since the last time.
void progress_meter::note_chain(const stage_reports& stages) {
  using strings = std::vector<std::string>;
  // Both lists grow at their end only.
  const auto names = stages.get<strings>(stage_names::text, "chain");
  const auto starts = stages.get<strings>(stage_names::text, "chain_starts");
  for (std::size_t i = chain_.size(); i < names.size() && i < starts.size(); ++i) {
    chain_.push_back({names[i], std::stoull(starts[i])});
  }
}

/// Returns the sources of the chain that began since the last call, by the tokens read.
std::vector<chained_source> progress_meter::take_begun() {
  std::vector<chained_source> begun;
  // A source has begun when more tokens were read than before it.
  for (; begun_ < chain_.size() && chain_[begun_].first < read_; ++begun_) {
    begun.push_back(chain_[begun_]);
  }
  return begun;
}

/// Returns the progress, or nothing before the first pulse.
std::optional<run_progress> progress_meter::take(const pipeline_progress& p) {
  const stage_reports stages(graph_, p.stages);
  const auto count = [&](const char* figure) {
    return stages.get<std::uint64_t>(stage_names::accounts, figure);
  };
  const auto* phase = stages.find<std::string>(stage_names::accounts, "phase");
  if (phase == nullptr) {
    return std::nullopt;
  }
  const std::size_t number = number_of(*phase);
  read_ = read_before() + read_since(stages);
  note_chain(stages);
  run_progress now = last_;
  now.phase = *phase;
  now.phase_tokens = before_.used[number].tokens + count("phase_tokens");
  now.phase_budget = budget_of(number);
  now.tokens = before_.tokens + count("tokens");
  now.pulses = before_.pulses + count("pulses");
  const sample s{now_ns(), now.phase_tokens,
                 stages.get<double>(stage_names::accounts, "nats"), count("bytes")};
  if (now.phase != last_.phase) {
    recent_.clear();
  }
  const double since = recent_.empty() ? 0 : s.nats - recent_.back().nats;
  const std::uint64_t bytes = recent_.empty() ? 0 : s.bytes - recent_.back().bytes;
  now.bits_per_byte = bytes == 0 ? now.bits_per_byte : bits_of(since, bytes);
  recent_.push_back(s);
  while (recent_.size() > 2 && s.time_ns - recent_.front().time_ns > rate_window_ns) {
    recent_.pop_front();
  }
  const double seconds = static_cast<double>(s.time_ns - recent_.front().time_ns) * 1e-9;
  if (seconds > 0) {
    now.tokens_per_second =
        static_cast<double>(s.tokens - recent_.front().tokens) / seconds;
  }
  now.cumulative_bits_per_byte =
      stages.get<double>(stage_names::accounts, "phase_bits_per_byte");
  now.pulse_p99_seconds = stages.get<double>(stage_names::learn, "pulse_p99_seconds");
  now.stall_seconds = stages.get<double>(stage_names::learn, "stall_seconds");
  now.queue_depth = queue_of(p);
  now.mix = short_shares(stages.get<std::vector<std::string>>(stage_names::text, "mix"));
  now.seconds_left = 0;
  if (now.tokens_per_second > 0 && now.phase_budget > now.phase_tokens) {
    now.seconds_left =
        static_cast<double>(now.phase_budget - now.phase_tokens) / now.tokens_per_second;
  }
  // The figures of the checkpoint are exact if they belong to the durable one.
  if (p.durable_items == before_.pulses + count("checkpoint_pulses")) {
    durable_tokens_ = before_.tokens + count("checkpoint_tokens");
  } else if (p.durable_items > before_.pulses) {
    // Another checkpoint is on its way. All pulses but the last of a phase are full.
    const std::uint64_t full = config_.stream.chunk * config_.stream.lanes;
    durable_tokens_ =
        std::min(now.tokens, before_.tokens + (p.durable_items - before_.pulses) * full);
  }
  now.durable_generation = p.generation;
  now.durable_tokens = p.generation == 0 ? 0 : durable_tokens_;
  last_ = now;
  return now;
}

}  // namespace weir::actors
