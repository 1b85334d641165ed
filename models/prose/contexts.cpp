// SPDX-License-Identifier: Apache-2.0
/// @file
/// Steps of contexts as pulses of the Stream phase.
#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <set>

#include "weir/models/prose_contexts.hpp"

namespace weir::models {

namespace {

/// Rows of the largest step.
///
/// The limit of other models, so that programs need not know the kind.
constexpr std::uint32_t max_prose_rows = 1U << 14;

/// A lane that has a context.
///
/// A lane has one context at most.
struct prose_context {
  std::uint64_t id = 0;                ///< 0: the lane is free
  bool is_known = true;                ///< `history` has all its tokens
  bool is_broken = false;              ///< a step has failed, so the state is undefined
  bool is_unproven = false;            ///< it has pulses behind the last wait for all
  std::vector<std::uint32_t> history;  ///< tokens since the context was opened
  std::uint64_t reserved = 0;
};

/// The logits of a group, which are copied before the lane goes on.
///
/// The values outlive the lane's next pulse.
struct prose_logits {
  std::uint64_t context = 0;
  std::uint32_t lane = 0;
  bool wanted = false;
  bool is_copied = false;
  std::vector<float> values;
};

/// A step that is not finished.
///
/// It may consist of several pulses.
struct prose_step {
  std::uint64_t serial = 0;
  runtime::task_id last = 0;
  std::vector<pulse_ticket> pulses;  ///< that are not finished
  std::vector<prose_logits> groups;
  std::optional<error> failure;  ///< the first one
};

class prose_lanes final : public prose_contexts {
 public:
  // The model outlives the contexts.
  explicit prose_lanes(prose& model) : model_(model), lanes_(model.config().lanes) {
    facts_.vocab = model.config().vocab;
    // The state has a fixed size, so a context has no end.
    facts_.max_context = std::numeric_limits<std::uint64_t>::max();
    facts_.context_tokens = facts_.max_context;
    facts_.max_rows = max_prose_rows;
    // Names the order of the sums.
    facts_.order = "prose-windows/2";
    facts_.instruction_set = model.instruction_set();
  }
  prose_lanes(const prose_lanes&) = delete;
  prose_lanes& operator=(const prose_lanes&) = delete;
  ~prose_lanes() override {
    // Tasks point to the records of the model.
    for (prose_step& step : steps_) {
      wait(step);
    }
  }

  const model_facts& facts() const noexcept override { return facts_; }
  result<context_id> open_context(std::uint64_t reserve_tokens) override;
  result<context_id> continue_lane(std::uint32_t lane) override;
  result<context_id> fork_context(context_id context, std::uint64_t tokens) override;
  result<std::uint64_t> reuse_prefix(context_id context,
                                     std::span<const std::uint32_t> tokens) override;
  result<void> close_context(context_id context) override {
    WEIR_TRY(const std::uint32_t lane, lane_of(context));
    // The state stays in the lane until the next context clears it, and so does its
    // failure.
    const bool is_broken = lanes_[lane].is_broken;
    lanes_[lane] = {};
    lanes_[lane].is_broken = is_broken;
    return {};
  }
  result<std::uint64_t> tokens_in(context_id context) const override {
    WEIR_TRY(const std::uint32_t lane, lane_of(context));
    // Tokens of a continued lane that came before are not counted.
    return lanes_[lane].history.size();
  }
  result<step_ticket> submit(std::span<const row_group> groups) override;
  runtime::task_id last_task(step_ticket ticket) const noexcept override {
    const prose_step* step = find_step(ticket);
    return step == nullptr ? 0 : step->last;
  }
  bool ended(step_ticket ticket) const noexcept override {
    const prose_step* step = find_step(ticket);
    // A step that is finished has not ended.
    return step != nullptr &&
           std::all_of(step->pulses.begin(), step->pulses.end(),
                       [this](pulse_ticket p) { return model_.ended(p); });
  }
  result<std::span<const float>> logits(step_ticket ticket, std::size_t group) override;
  result<void> finish(step_ticket ticket) override;

  // Lanes are few, so they are searched.
 private:
  result<std::uint32_t> lane_of(context_id context) const;
  result<std::uint32_t> free_lane() const;
  const prose_step* find_step(step_ticket ticket) const noexcept;
  result<void> check_lane(std::uint32_t lane, const row_group& group) const;
  result<void> check_rows(std::span<const row_group> groups) const;
  result<prose_step> prepare(std::span<const row_group> groups);
  result<void> feed(std::span<const row_group> groups, prose_step& step);
  result<void> pulse_of(std::span<const prose::lane_input> inputs, prose_step& step);
  result<void> feed_fork(context_id fork, std::span<const std::uint32_t> tokens);
  void drop_newest();
  void wait(prose_step& step);
  void break_contexts(const prose_step& step) noexcept;
  void fail(prose_step& step, const error& cause);
  template <class Function>
  auto when_idle(const Function& function) -> decltype(function());
  result<void> copy_logits(prose_step& step);

  // Pulses of others would change the positions.
  prose& model_;
  model_facts facts_;
  std::vector<prose_context> lanes_;
  // In the order of the calls; references must stay valid.
  std::deque<prose_step> steps_;
  // Numbers are never used again.
  std::uint64_t next_context_ = 1;
  std::uint64_t next_serial_ = 1;
  std::uint64_t pulses_ = 0;
  /// A failure that the model may report once more is known to be that of a step.
  bool is_failure_known_ = false;
};

/// The number 0 marks free lanes.
result<std::uint32_t> prose_lanes::lane_of(context_id context) const {
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    if (lanes_[lane].id == context.value && context.value != 0) {
      return lane;
    }
  }
  return error(errc::not_found, fmt::format("context {}: expected an open one, found "
                                            "none with this number",
                                            context.value));
}

/// The lowest one.
result<std::uint32_t> prose_lanes::free_lane() const {
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    if (lanes_[lane].id == 0) {
      return lane;
    }
  }
  return error(errc::out_of_memory,
               fmt::format("cannot open a context: expected fewer than {} open ones, "
                           "one for each lane of the model, found as many",
                           lanes_.size()));
}

/// The memory of the lane is there already, so nothing is allocated.
result<context_id> prose_lanes::open_context(std::uint64_t reserve_tokens) {
  if (reserve_tokens == 0) {
    return error(errc::invalid_argument,
                 "cannot open a context: expected at least one token, found 0");
  }
  WEIR_TRY(const std::uint32_t lane, free_lane());
  for (prose_step& step : steps_) {
    // The lane may have had another context. A failure is told when the step is finished.
    static_cast<void>(copy_logits(step));
  }
  // Waits for the tasks of all lanes.
  WEIR_CHECK(when_idle([&] { return model_.start_context(lane, 0); }));
  lanes_[lane] = {};
  lanes_[lane].id = next_context_++;
  lanes_[lane].reserved = reserve_tokens;
  return context_id{lanes_[lane].id};
}

/// The lane goes on where a run has left it.
result<context_id> prose_lanes::continue_lane(std::uint32_t lane) {
  if (lane >= lanes_.size() || lanes_[lane].id != 0) {
    return error(errc::lane_mismatch,
                 fmt::format("cannot continue lane {}: expected one of {} lanes without "
                             "a context, found {}",
                             lane, lanes_.size(),
                             lane < lanes_.size() ? "one with a context" : "none"));
  }
  for (prose_step& step : steps_) {
    wait(step);  // it may have had a context whose steps are not finished
  }
  if (lanes_[lane].is_broken) {
    return error(errc::upstream_failed,
                 fmt::format("cannot continue lane {}: expected a lane whose steps have "
                             "succeeded, found one with a failed step",
                             lane))
        .hint("open an empty context");
  }
  // Its tokens are not known, so it cannot be forked.
  lanes_[lane].id = next_context_++;
  lanes_[lane].is_known = false;
  lanes_[lane].reserved = std::numeric_limits<std::uint64_t>::max();
  return context_id{lanes_[lane].id};
}

/// A state cannot be cut, so the fork reads its tokens again.
result<context_id> prose_lanes::fork_context(context_id context, std::uint64_t tokens) {
  WEIR_TRY(const std::uint32_t source, lane_of(context));
  const prose_context& from = lanes_[source];
  if (!from.is_known || tokens > from.history.size()) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot fork context {}: expected at least {} known tokens, "
                    "found {}",
                    context.value, tokens, from.is_known ? from.history.size() : 0));
  }
  // A copy, because the new context may move others.
  const std::vector<std::uint32_t> history(
      from.history.begin(), from.history.begin() + static_cast<std::ptrdiff_t>(tokens));
  WEIR_TRY(const context_id fork, open_context(from.reserved));
  result<void> fed;
  try {
    fed = feed_fork(fork, history);
  } catch (...) {
    // Nobody else knows the number of the context.
    static_cast<void>(close_context(fork));
    throw;
  }
  if (!fed) {
    static_cast<void>(close_context(fork));
    return std::move(fed).error();
  }
  return fork;
}

/// Submits the tokens of a fork step by step, as far as the limit of rows asks for it.
result<void> prose_lanes::feed_fork(context_id fork,
                                    std::span<const std::uint32_t> tokens) {
  for (std::size_t at = 0; at < tokens.size(); at += max_prose_rows) {
    const std::size_t count = std::min<std::size_t>(max_prose_rows, tokens.size() - at);
    const row_group group{fork, tokens.subspan(at, count), false};
    WEIR_TRY(const step_ticket ticket, submit({&group, 1}));
    WEIR_CHECK(finish(ticket));
  }
  return {};
}

/// The state of a prefix is not kept, so nothing is known.
result<std::uint64_t> prose_lanes::reuse_prefix(context_id context,
                                                std::span<const std::uint32_t>) {
  WEIR_TRY(const std::uint32_t lane, lane_of(context));
  if (!lanes_[lane].is_known || !lanes_[lane].history.empty()) {
    return error(
        errc::invalid_argument,
        fmt::format("reuse of a prefix by context {}: expected an empty context, "
                    "found one with tokens",
                    context.value));
  }
  return std::uint64_t{0};
}

/// A finished step has no record.
const prose_step* prose_lanes::find_step(step_ticket ticket) const noexcept {
  const auto found = std::find_if(steps_.begin(), steps_.end(), [&](const prose_step& s) {
    return s.serial == ticket.serial;
  });
  return found == steps_.end() ? nullptr : &*found;
}

/// Checks the rows of one group.
result<void> prose_lanes::check_lane(std::uint32_t lane, const row_group& group) const {
  const prose_context& context = lanes_[lane];
  if (context.is_broken) {
    return error(errc::upstream_failed,
                 fmt::format("step of context {}: expected a context whose steps have "
                             "succeeded, found one with a failed step",
                             group.context.value))
        .hint("close the context and open another one");
  }
  const std::uint64_t left = context.reserved - context.history.size();
  if (group.tokens.empty() || group.tokens.size() > left) {
    return error(errc::invalid_argument,
                 fmt::format("step of context {}: expected 1 to {} tokens, found {}",
                             group.context.value, left, group.tokens.size()));
  }
  for (const std::uint32_t token : group.tokens) {
    if (token >= facts_.vocab) {
      return error(errc::invalid_argument,
                   fmt::format("step of context {}: expected tokens below {}, found {}",
                               group.context.value, facts_.vocab, token));
    }
  }
  return {};
}

/// Nothing is changed before all groups are checked.
result<void> prose_lanes::check_rows(std::span<const row_group> groups) const {
  std::set<std::uint64_t> seen;
  std::uint64_t rows = 0;
  for (const row_group& g : groups) {
    WEIR_TRY(const std::uint32_t lane, lane_of(g.context));
    WEIR_CHECK(check_lane(lane, g));
    // Rows of a lane follow each other, so two groups would have the same positions.
    if (!seen.insert(lane).second) {
      return error(
          errc::invalid_argument,
          fmt::format("step of context {}: expected one group of rows, found two",
                      g.context.value));
    }
    rows += g.tokens.size();
  }
  // The sum of the groups.
  if (rows == 0 || rows > max_prose_rows || steps_.size() >= max_in_flight) {
    return error(errc::invalid_argument,
                 fmt::format("step of a model: expected 1 to {} rows and fewer than {} "
                             "unfinished steps, found {} and {}",
                             max_prose_rows, max_in_flight, rows, steps_.size()));
  }
  return {};
}

/// Submits a pulse. If too many are in flight, waits for the oldest ones.
///
/// The phase learns nothing.
result<void> prose_lanes::pulse_of(std::span<const prose::lane_input> inputs,
                                   prose_step& step) {
  std::size_t unfinished = 0;
  for (const prose_step& one : steps_) {
    unfinished += one.pulses.size();
  }
  // The oldest pulses may be those of this step.
  if (unfinished >= prose::max_in_flight) {
    for (prose_step& one : steps_) {
      wait(one);
    }
    // Further pulses would fail as well. Failures of other steps are theirs.
    if (step.failure) {
      return *step.failure;
    }
  }
  // The number is only for messages.
  pulse p;
  p.id = pulses_++;
  p.phase = pulse_phase::stream;
  WEIR_TRY(const pulse_ticket ticket, model_.submit(p, inputs));
  // There is space for all pulses in flight.
  step.pulses.push_back(ticket);
  // The last task of the newest pulse.
  step.last = model_.tasks(ticket).last;
  return {};
}

/// Submits the tokens of all groups, a chunk of each lane in a pulse.
///
/// Lanes without tokens in a pulse have an empty input.
result<void> prose_lanes::feed(std::span<const row_group> groups, prose_step& step) {
  const std::size_t chunk = model_.config().max_chunk;
  std::size_t longest = 0;
  for (const row_group& g : groups) {
    longest = std::max(longest, g.tokens.size());
  }
  for (std::size_t at = 0; at < longest; at += chunk) {
    std::vector<prose::lane_input> inputs(lanes_.size());
    // Each lane's clock is that after all pulses submitted so far.
    for (std::uint32_t lane = 0; lane < inputs.size(); ++lane) {
      inputs[lane].position = model_.position(lane);
    }
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const auto tokens = groups[i].tokens;
      if (at < tokens.size()) {
        prose::lane_input& input = inputs[step.groups[i].lane];
        const std::size_t count = std::min(chunk, tokens.size() - at);
        input.tokens = tokens.subspan(at, count);
        // The token behind the chunk is known, so no prediction stays pending.
        if (at + count < tokens.size()) {
          input.lookahead = tokens[at + count];
        }
      }
    }
    WEIR_CHECK(pulse_of(inputs, step));
  }
  return {};
}

/// Makes a step and reserves all its memory, so that nothing fails for lack of memory
/// between the first pulse and the ticket. Changes nothing that a caller can see.
result<prose_step> prose_lanes::prepare(std::span<const row_group> groups) {
  prose_step step;
  step.pulses.reserve(prose::max_in_flight);
  step.groups.reserve(groups.size());
  for (const row_group& g : groups) {
    WEIR_TRY(const std::uint32_t lane, lane_of(g.context));
    // In the order of the groups.
    step.groups.push_back({g.context.value, lane, g.wants_logits, false, {}});
    auto& history = lanes_[lane].history;
    const std::size_t needed = history.size() + g.tokens.size();
    if (needed > history.capacity()) {
      // As when a vector grows by itself, copies take a constant time for each token.
      history.reserve(std::max(needed, 2 * history.capacity()));
    }
  }
  return step;
}

/// Forgets the newest step, which could not be submitted as a whole. The pulses before
/// the refused one have changed the lanes of its contexts, and the refused one may have.
void prose_lanes::drop_newest() {
  break_contexts(steps_.back());
  wait(steps_.back());
  steps_.pop_back();
}

/// Histories grow with the submission, not with the end.
result<step_ticket> prose_lanes::submit(std::span<const row_group> groups) {
  // A lane has one pending prediction, which the next tokens replace. A failure is told
  // when its step is finished, and breaks the contexts of that step alone.
  for (prose_step& step : steps_) {
    static_cast<void>(copy_logits(step));
  }
  WEIR_CHECK(check_rows(groups));
  WEIR_TRY(prose_step prepared, prepare(groups));
  steps_.push_back(std::move(prepared));
  prose_step& step = steps_.back();
  for (const prose_logits& g : step.groups) {
    lanes_[g.lane].is_unproven = true;
  }
  result<void> fed;
  try {
    fed = feed(groups, step);
  } catch (...) {
    drop_newest();
    throw;
  }
  if (!fed) {
    drop_newest();
    return std::move(fed).error();
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    auto& history = lanes_[step.groups[i].lane].history;
    history.insert(history.end(), groups[i].tokens.begin(), groups[i].tokens.end());
  }
  // From here on the caller has a ticket.
  step.serial = next_serial_++;
  return step_ticket{step.serial};
}

/// Keeps the contexts of a step, and the lanes of those that were closed, from being used
/// further.
void prose_lanes::break_contexts(const prose_step& step) noexcept {
  for (const prose_logits& g : step.groups) {
    prose_context& lane = lanes_[g.lane];
    lane.is_broken = lane.is_broken || lane.id == g.context || lane.id == 0;
  }
}

/// Notes that a step has failed. Its first failure is kept.
void prose_lanes::fail(prose_step& step, const error& cause) {
  break_contexts(step);
  if (!step.failure) {
    step.failure = cause;
  }
}

/// Waits for the pulses of a step, also for those behind one that has failed: a pulse
/// that is not finished keeps its place among those in flight.
void prose_lanes::wait(prose_step& step) {
  while (!step.pulses.empty()) {
    const pulse_ticket ticket = step.pulses.front();
    // A pulse whose wait fails is over as well.
    step.pulses.erase(step.pulses.begin());
    if (const auto done = model_.finish(ticket); !done) {
      is_failure_known_ = true;
      fail(step, done.error());
    }
  }
}

/// Calls a function of the model that waits for all tasks.
///
/// The wait reports a failure of an earlier task once, whichever context it belongs to,
/// and the results of later waits for single tasks do not show it any more. All pulses
/// are therefore waited for before. If none of them has had the failure, it is that of a
/// task without a result, and all contexts that it may belong to are broken.
template <class Function>
auto prose_lanes::when_idle(const Function& function) -> decltype(function()) {
  for (prose_step& step : steps_) {
    wait(step);
  }
  auto done = function();
  if (!done && !is_failure_known_) {
    for (prose_step& step : steps_) {
      fail(step, done.error());
    }
    for (prose_context& context : lanes_) {
      context.is_broken = context.is_broken || context.is_unproven;
    }
  }
  if (!done) {
    done = function();
  }
  is_failure_known_ = false;
  for (prose_context& context : lanes_) {
    context.is_unproven = false;
  }
  return done;
}

/// Waits for a step and copies its logits, before something else changes the lanes.
///
/// It is called again without harm.
result<void> prose_lanes::copy_logits(prose_step& step) {
  wait(step);
  for (prose_logits& group : step.groups) {
    // Later steps of the lane replace the prediction.
    if (group.wanted && !group.is_copied && !step.failure) {
      auto values = when_idle([&] { return model_.pending_logits(group.lane); });
      if (!values) {
        fail(step, values.error());
      }
      // The wait may have found that the step has failed.
      if (!step.failure) {
        group.values = *std::move(values);
        group.is_copied = true;
      }
    }
  }
  return step.failure ? result<void>(*step.failure) : result<void>();
}

/// The values stay until the step is finished.
result<std::span<const float>> prose_lanes::logits(step_ticket ticket,
                                                   std::size_t group) {
  for (prose_step& step : steps_) {
    if (step.serial == ticket.serial && group < step.groups.size() &&
        step.groups[group].wanted) {
      WEIR_CHECK(copy_logits(step));
      return std::span<const float>(step.groups[group].values);
    }
  }
  return error(errc::not_found,
               fmt::format("logits of step {}, group {}: expected an unfinished step "
                           "whose group wants logits, found none",
                           ticket.serial, group));
}

/// Logits that nobody has asked for are lost.
result<void> prose_lanes::finish(step_ticket ticket) {
  const auto found = std::find_if(steps_.begin(), steps_.end(), [&](const prose_step& s) {
    return s.serial == ticket.serial;
  });
  if (found == steps_.end()) {
    return error(errc::not_found,
                 fmt::format("end of step {}: expected an unfinished step, found none "
                             "with this number",
                             ticket.serial));
  }
  // The step goes even if a task has failed.
  wait(*found);
  const std::optional<error> failure = std::move(found->failure);
  steps_.erase(found);
  return failure ? result<void>(*failure) : result<void>();
}

}  // namespace

std::unique_ptr<prose_contexts> make_prose_contexts(prose& model) {
  return std::make_unique<prose_lanes>(model);
}

}  // namespace weir::models
