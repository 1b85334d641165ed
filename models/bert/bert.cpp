// SPDX-License-Identifier: Apache-2.0
/// @file
/// The public face of BERT models: calls in flight and checks of arguments.
#include "weir/models/bert.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "bert/model.hpp"
#include "layers/kernels/select.hpp"
#include "layers/memory.hpp"

namespace weir::models {

namespace {

/// Widths beyond it are not computed.
constexpr std::uint32_t max_bert_features = 1U << 16;

/// The name is that of the value in the message.
result<void> check_range(std::string_view name, std::uint64_t value, std::uint64_t low,
                         std::uint64_t high) {
  if (value < low || value > high) {
    return error(
        errc::invalid_argument,
        fmt::format("configuration of a BERT model: expected {} between {} and {}, "
                    "found {}",
                    name, low, high, value));
  }
  return {};
}

class bert_encoder final : public encoder {
  // One engine runs the tasks of all calls.
 public:
  explicit bert_encoder(runtime::engine& engine)
      : engine_(engine), memory_(engine, "bert") {}

  /// Finds the weights and allocates all memory.
  result<void> set_up(const bert_config& config, const weight_source& weights,
                      const bert_options& options, std::uint32_t end);

  // They never change.
  const encoder_facts& facts() const noexcept override { return facts_; }
  result<step_ticket> submit(std::span<const token_run> runs,
                             std::span<const float> rows) override;
  runtime::task_id last_task(step_ticket ticket) const noexcept override {
    // 0 is no task.
    const bert_call* call = find(ticket);
    return call == nullptr ? 0 : call->last;
  }
  bool ended(step_ticket ticket) const noexcept override {
    const bert_call* call = find(ticket);
    // A call that is finished has not ended.
    return call != nullptr && engine_.ended(call->last);
  }
  result<std::span<const float>> rows(step_ticket ticket) override;
  result<void> finish(step_ticket ticket) override;

 private:
  // Few calls are in flight, so they are searched.
  [[nodiscard]] const bert_call* find(step_ticket ticket) const noexcept {
    for (const bert_call& c : calls_) {
      if (c.serial == ticket.serial && c.serial != 0) {
        return &c;
      }
    }
    return nullptr;
  }
  // Checks do not change anything, so a refused call leaves no trace.
  result<void> check_call(std::span<const token_run> runs,
                          std::span<const float> rows) const;
  result<void> check_run(const token_run& run, std::size_t number) const;

  // Outlives the encoder.
  runtime::engine& engine_;
  bert_parts parts_;
  encoder_facts facts_;
  std::array<bert_call, max_in_flight> calls_;
  // 0 marks a free call.
  std::uint64_t next_serial_ = 1;
  /// Destroyed first: it waits for the tasks, which use the other members.
  layers::owned_buffers memory_;
};

result<void> bert_encoder::set_up(const bert_config& config, const weight_source& weights,
                                  const bert_options& options, std::uint32_t end) {
  // Kernels are chosen before weights, whose panels fit all of them.
  WEIR_TRY(parts_.kernels, layers::select_layer_kernels(options.kernels));
  WEIR_TRY(parts_.weights, find_bert_weights(config, weights, options.first_layer, end));
  parts_.config = config;
  parts_.head_width = static_cast<int>(config.width / config.heads);
  // A part behind the first one begins with rows.
  parts_.takes_rows = options.first_layer != 0;
  // Only the last part may pool.
  parts_.returns_runs = end == config.layers && options.pool;
  facts_ = {config.vocab,      config.width,        config.max_tokens,   options.max_rows,
            parts_.takes_rows, parts_.returns_runs, parts_.kernels->name};
  const auto elements = std::int64_t{options.max_rows} * config.width;
  // Memory is allocated once, for the largest call.
  for (bert_call& call : calls_) {
    WEIR_TRY(call.x, memory_.allocate(elements));
    WEIR_TRY(call.sum, memory_.allocate(elements));
    // Query, key and value stand side by side.
    WEIR_TRY(call.qkv, memory_.allocate(3 * elements));
    WEIR_TRY(call.read, memory_.allocate(elements));
    WEIR_TRY(call.inner,
             memory_.allocate(std::int64_t{options.max_rows} * config.hidden));
    // At most as many runs as rows.
    WEIR_TRY(call.means, memory_.allocate(parts_.returns_runs ? elements : 1));
  }
  return {};
}

result<void> bert_encoder::check_run(const token_run& run, std::size_t number) const {
  // Positions have embeddings up to this number.
  if (run.tokens.empty() || run.tokens.size() > facts_.max_tokens) {
    return error(errc::invalid_argument,
                 fmt::format("run {} of an encoder: expected 1 to {} tokens, found {}",
                             number, facts_.max_tokens, run.tokens.size()));
  }
  // Also a part that takes rows checks the ids.
  const auto unknown = std::find_if(run.tokens.begin(), run.tokens.end(),
                                    [&](std::uint32_t t) { return t >= facts_.vocab; });
  if (unknown != run.tokens.end()) {
    return error(errc::invalid_argument,
                 fmt::format("run {} of an encoder: expected tokens below {}, found {}",
                             number, facts_.vocab, *unknown));
  }
  return {};
}

result<void> bert_encoder::check_call(std::span<const token_run> runs,
                                      std::span<const float> rows) const {
  // The sum cannot overflow: each run is limited.
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    WEIR_CHECK(check_run(runs[i], i));
    tokens += runs[i].tokens.size();
  }
  if (tokens == 0 || tokens > facts_.max_rows) {
    return error(
        errc::invalid_argument,
        fmt::format("tokens of all runs of an encoder: expected 1 to {}, found {}",
                    facts_.max_rows, tokens));
  }
  // Rows come from the part before, so their number is known.
  const std::size_t expected = facts_.takes_rows ? tokens * facts_.width : 0;
  if (rows.size() != expected) {
    return error(
        errc::invalid_argument,
        fmt::format("rows for a part of an encoder: expected {} elements, found {}",
                    expected, rows.size()));
  }
  return {};
}

result<step_ticket> bert_encoder::submit(std::span<const token_run> runs,
                                         std::span<const float> rows) {
  WEIR_CHECK(check_call(runs, rows));
  // The caller waits for a call by finishing it.
  const auto free = std::find_if(calls_.begin(), calls_.end(),
                                 [](const bert_call& c) { return c.serial == 0; });
  if (free == calls_.end()) {
    return error(
        errc::invalid_argument,
        fmt::format("call of an encoder: expected fewer than {} unfinished calls, "
                    "found as many; finish one first",
                    max_in_flight));
  }
  free->tokens.clear();
  free->runs.clear();
  for (const token_run& run : runs) {
    // Runs stand one behind the other in the rows.
    free->runs.push_back({free->rows(), static_cast<int>(run.tokens.size())});
    free->tokens.insert(free->tokens.end(), run.tokens.begin(), run.tokens.end());
  }
  // No task uses the buffers of a call that is finished.
  std::copy(rows.begin(), rows.end(), free->x.data);
  // The tasks may begin at once.
  WEIR_CHECK(submit_bert_call(engine_, parts_, *free));
  free->serial = next_serial_++;
  return step_ticket{free->serial};
}

/// The rows are valid until the call is finished.
result<std::span<const float>> bert_encoder::rows(step_ticket ticket) {
  const bert_call* call = find(ticket);
  if (call == nullptr) {
    return error(errc::not_found,
                 fmt::format("rows of call {}: expected an unfinished call "
                             "of the encoder, found none",
                             ticket.serial));
  }
  WEIR_CHECK(engine_.wait(call->last));
  // The rows of the runs, in their order.
  if (facts_.returns_runs) {
    return std::span<const float>(call->means.data, call->runs.size() * facts_.width);
  }
  return std::span<const float>(call->x.data, call->tokens.size() * facts_.width);
}

result<void> bert_encoder::finish(step_ticket ticket) {
  for (bert_call& c : calls_) {
    if (c.serial == ticket.serial && c.serial != 0) {
      // The call is free even if a task has failed.
      c.serial = 0;
      return engine_.wait(c.last);
    }
  }
  return error(errc::not_found,
               fmt::format("end of call {}: expected an unfinished call of "
                           "the encoder, found none",
                           ticket.serial));
}

}  // namespace

/// Limits come before rules, so that the divisions are sound.
result<void> check_config(const bert_config& c) {
  WEIR_CHECK(check_range("a vocabulary", c.vocab, 1, 1U << 24));
  WEIR_CHECK(check_range("a width", c.width, 16, max_bert_features));
  WEIR_CHECK(check_range("hidden features", c.hidden, 16, max_bert_features));
  WEIR_CHECK(check_range("layers", c.layers, 1, 1024));
  WEIR_CHECK(check_range("tokens of a run", c.max_tokens, 1, 1U << 16));
  WEIR_CHECK(check_range("heads", c.heads, 1, c.width / 16));
  WEIR_CHECK(check_range("types of tokens", c.token_types, 1, max_bert_features));
  // Panels and kernels work on groups of 16.
  if (c.width % (16 * c.heads) != 0 || c.hidden % 16 != 0 ||
      c.width / c.heads > layers::max_head_width) {
    return error(errc::invalid_argument,
                 fmt::format("configuration of a BERT model: expected widths that are "
                             "multiples of 16, also of each head, found width {}, hidden "
                             "features {}, heads {}",
                             c.width, c.hidden, c.heads));
  }
  // The comparison is false for NaN.
  if (!(c.epsilon >= 0 && c.epsilon < 1)) {
    return error(
        errc::invalid_argument,
        fmt::format("configuration of a BERT model: expected an epsilon from 0 to "
                    "below 1, found {}",
                    c.epsilon));
  }
  return {};
}

/// The part may reach behind the last layer, where it ends.
result<std::unique_ptr<encoder>> make_bert(runtime::engine& engine,
                                           const bert_config& config,
                                           const weight_source& weights,
                                           const bert_options& options) {
  WEIR_CHECK(check_config(config));
  WEIR_CHECK(check_range("tokens of a call", options.max_rows, 1, 1U << 16));
  WEIR_CHECK(check_range("a first layer", options.first_layer, 0, config.layers - 1));
  WEIR_CHECK(check_range("layers of a part", options.layers, 1, UINT32_MAX));
  // UINT32_MAX takes all that follow.
  const std::uint32_t count =
      std::min(options.layers, config.layers - options.first_layer);
  auto model = std::make_unique<bert_encoder>(engine);
  WEIR_CHECK(model->set_up(config, weights, options, options.first_layer + count));
  return std::unique_ptr<encoder>(std::move(model));
}

}  // namespace weir::models
