// SPDX-License-Identifier: Apache-2.0
/// @file
/// Steps of contexts as pulses of the Stream phase.
#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <limits>
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
  std::vector<std::uint32_t> history;  ///< tokens since the context was opened
  std::uint64_t reserved = 0;
};

/// The logits of a group, which are copied before the lane goes on.
///
/// The values outlive the lane's next pulse.
struct prose_logits {
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
  std::deque<pulse_ticket> pulses;  ///< that are not finished
  std::vector<prose_logits> groups;
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
  }
  prose_lanes(const prose_lanes&) = delete;
  prose_lanes& operator=(const prose_lanes&) = delete;
  ~prose_lanes() override {
    // Tasks point to the records of the model.
    for (prose_step& step : steps_) {
      (void)wait(step);  // nobody can ask for the error any more
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
    // The state stays in the lane until the next context clears it.
    lanes_[lane] = {};
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
  result<void> check_rows(std::span<const row_group> groups) const;
  result<void> feed(std::span<const row_group> groups, prose_step& step);
  result<void> pulse_of(std::span<const prose::lane_input> inputs, prose_step& step);
  result<void> wait(prose_step& step);
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
    WEIR_CHECK(copy_logits(step));  // the lane may have had another context
  }
  // Waits for the tasks of all lanes.
  WEIR_CHECK(model_.start_context(lane, 0));
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
  const std::span<const std::uint32_t> all(history);
  // Step by step, as far as the limit of rows asks for it.
  for (std::size_t at = 0; at < all.size(); at += max_prose_rows) {
    const row_group group{
        fork, all.subspan(at, std::min<std::size_t>(max_prose_rows, all.size() - at)),
        false};
    WEIR_TRY(const step_ticket ticket, submit({&group, 1}));
    WEIR_CHECK(finish(ticket));
  }
  return fork;
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

/// Nothing is changed before all groups are checked.
result<void> prose_lanes::check_rows(std::span<const row_group> groups) const {
  std::set<std::uint64_t> seen;
  std::uint64_t rows = 0;
  for (const row_group& g : groups) {
    WEIR_TRY(const std::uint32_t lane, lane_of(g.context));
    const std::uint64_t left = lanes_[lane].reserved - lanes_[lane].history.size();
    if (g.tokens.empty() || g.tokens.size() > left) {
      return error(errc::invalid_argument,
                   fmt::format("step of context {}: expected 1 to {} tokens, found {}",
                               g.context.value, left, g.tokens.size()));
    }
    // Rows of a lane follow each other, so two groups would have the same positions.
    if (!seen.insert(lane).second) {
      return error(
          errc::invalid_argument,
          fmt::format("step of context {}: expected one group of rows, found two",
                      g.context.value));
    }
    for (const std::uint32_t token : g.tokens) {
      if (token >= facts_.vocab) {
        return error(errc::invalid_argument,
                     fmt::format("step of context {}: expected tokens below {}, found {}",
                                 g.context.value, facts_.vocab, token));
      }
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
  std::size_t unfinished = step.pulses.size();
  for (prose_step& other : steps_) {
    unfinished += other.pulses.size();
  }
  // The oldest pulses may be those of this step.
  if (unfinished >= prose::max_in_flight) {
    for (prose_step& other : steps_) {
      WEIR_CHECK(wait(other));
    }
    WEIR_CHECK(wait(step));
  }
  // The number is only for messages.
  pulse p;
  p.id = pulses_++;
  p.phase = pulse_phase::stream;
  WEIR_TRY(const pulse_ticket ticket, model_.submit(p, inputs));
  // The last task of the newest pulse.
  step.last = model_.tasks(ticket).last;
  step.pulses.push_back(ticket);
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

/// Histories grow with the submission, not with the end.
result<step_ticket> prose_lanes::submit(std::span<const row_group> groups) {
  WEIR_CHECK(check_rows(groups));
  // A lane has one pending prediction, which the next tokens replace.
  for (prose_step& step : steps_) {
    WEIR_CHECK(copy_logits(step));
  }
  prose_step step;
  for (const row_group& g : groups) {
    WEIR_TRY(const std::uint32_t lane, lane_of(g.context));
    // In the order of the groups.
    step.groups.push_back({lane, g.wants_logits, false, {}});
  }
  WEIR_CHECK(feed(groups, step));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    auto& history = lanes_[step.groups[i].lane].history;
    history.insert(history.end(), groups[i].tokens.begin(), groups[i].tokens.end());
  }
  step.serial = next_serial_++;
  // From here on the caller has a ticket.
  steps_.push_back(std::move(step));
  return step_ticket{steps_.back().serial};
}

/// Waits for the pulses of a step.
result<void> prose_lanes::wait(prose_step& step) {
  // A pulse whose wait fails is over as well.
  while (!step.pulses.empty()) {
    const pulse_ticket ticket = step.pulses.front();
    step.pulses.pop_front();
    WEIR_TRY([[maybe_unused]] const pulse_result done, model_.finish(ticket));
  }
  return {};
}

/// Waits for a step and copies its logits, before something else changes the lanes.
///
/// It is called again without harm.
result<void> prose_lanes::copy_logits(prose_step& step) {
  WEIR_CHECK(wait(step));
  for (prose_logits& group : step.groups) {
    // Later steps of the lane replace the prediction.
    if (group.wanted && !group.is_copied) {
      WEIR_TRY(group.values, model_.pending_logits(group.lane));
      group.is_copied = true;
    }
  }
  return {};
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
  auto done = wait(*found);
  steps_.erase(found);
  return done;
}

}  // namespace

std::unique_ptr<prose_contexts> make_prose_contexts(prose& model) {
  return std::make_unique<prose_lanes>(model);
}

}  // namespace weir::models
