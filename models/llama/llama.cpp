// SPDX-License-Identifier: Apache-2.0
/// @file
/// The public face of Llama models: contexts, steps in flight, and checks of arguments.
#include "weir/models/llama.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>

#include "layers/kernels/select.hpp"
#include "layers/memory.hpp"
#include "llama/step.hpp"
#include "weir/base/system/memory.hpp"

namespace weir::models {

namespace {

/// Widths beyond it are not computed.
constexpr std::uint32_t max_width = 1U << 16;
/// RoPE's angles are exact below 2^18.
constexpr std::uint32_t max_positions = 1U << 17;

/// The name is that of the value in the message.
result<void> expect_between(std::string_view name, std::uint64_t value, std::uint64_t low,
                            std::uint64_t high) {
  if (value < low || value > high) {
    return error(
        errc::invalid_argument,
        fmt::format("configuration of a Llama model: expected {} between {} and {}, "
                    "found {}",
                    name, low, high, value));
  }
  return {};
}

/// The factor is not 0.
result<void> expect_multiple(std::string_view name, std::uint64_t value,
                             std::uint64_t factor) {
  if (value % factor != 0) {
    return error(errc::invalid_argument,
                 fmt::format("configuration of a Llama model: expected {} that is a "
                             "multiple of {}, found {}",
                             name, factor, value));
  }
  return {};
}

/// The memory of the contexts is one pool of pages.
class llama_model final : public step_model {
 public:
  llama_model(runtime::engine& engine, const llama_options& options, std::uint32_t pages,
              std::uint64_t max_context)
      : engine_(engine),
        max_rows_(options.max_rows),
        table_(pages, max_context),
        memory_(engine, "llama") {}

  // Tasks point to the object.
  llama_model(const llama_model&) = delete;
  llama_model& operator=(const llama_model&) = delete;

  /// Finds the weights and allocates all memory.
  result<void> set_up(const llama_config& config, const weight_source& weights,
                      const llama_options& options, std::uint32_t pages);

  // They never change.
  const model_facts& facts() const noexcept override { return facts_; }
  result<context_id> open_context(std::uint64_t reserve_tokens) override {
    return table_.open(reserve_tokens);
  }
  result<context_id> fork_context(context_id context, std::uint64_t tokens) override;
  // The pages are ordered by tasks, so they may be used again at once.
  result<void> close_context(context_id context) override {
    return table_.close(context);
  }
  result<std::uint64_t> tokens_in(context_id context) const override {
    WEIR_TRY(const llama_context* c, table_.find(context));
    // Tokens of steps in flight count.
    return c->history.size();
  }
  result<std::uint64_t> reuse_prefix(context_id context,
                                     std::span<const std::uint32_t> tokens) override {
    return table_.reuse(context, tokens);
  }
  result<step_ticket> submit(std::span<const row_group> groups) override;
  // 0 is no task.
  runtime::task_id last_task(step_ticket ticket) const noexcept override {
    const llama_step* step = find(ticket);
    return step == nullptr ? 0 : step->last;
  }
  bool ended(step_ticket ticket) const noexcept override {
    const llama_step* step = find(ticket);
    // A step that is finished has not ended.
    return step != nullptr && engine_.ended(step->last);
  }
  result<std::span<const float>> logits(step_ticket ticket, std::size_t group) override;
  result<void> finish(step_ticket ticket) override;

 private:
  // Few steps are in flight, so they are searched.
  [[nodiscard]] const llama_step* find(step_ticket ticket) const noexcept {
    for (const llama_step& s : steps_) {
      if (s.serial == ticket.serial && s.serial != 0) {
        return &s;
      }
    }
    return nullptr;
  }
  // Memory for the largest step.
  result<void> allocate_step(llama_step& step);
  result<void> check_groups(std::span<const row_group> groups) const;
  void add_rows(const row_group& group, llama_step& step);

  // Outlives the model.
  runtime::engine& engine_;
  std::uint32_t max_rows_;
  // Lookups do not change it, but have one function.
  mutable page_table table_;
  llama_parts parts_;
  model_facts facts_;
  std::array<llama_step, max_in_flight> steps_;
  // 0 marks a free step.
  std::uint64_t next_serial_ = 1;
  /// Destroyed first: it waits for the tasks, which use the other members.
  layers::owned_buffers memory_;
};

/// All steps have memory of their own.
result<void> llama_model::allocate_step(llama_step& step) {
  const auto rows = static_cast<std::int64_t>(max_rows_);
  const auto width = static_cast<std::int64_t>(parts_.config.width);
  // Panels may have more outputs than there are tokens.
  step.logit_stride =
      static_cast<std::int64_t>(parts_.weights.head.shape.panels() * panel_outputs);
  WEIR_TRY(step.x, memory_.allocate(rows * width));
  WEIR_TRY(step.normed, memory_.allocate(rows * width));
  WEIR_TRY(step.qkv, memory_.allocate(rows * parts_.qkv_width));
  WEIR_TRY(step.read, memory_.allocate(rows * width));
  WEIR_TRY(step.inner,
           memory_.allocate(rows * static_cast<std::int64_t>(parts_.config.hidden)));
  WEIR_TRY(step.logits, memory_.allocate(rows * step.logit_stride));
  return {};
}

/// Rotary tables are made for the longest context.
result<void> llama_model::set_up(const llama_config& config, const weight_source& weights,
                                 const llama_options& options, std::uint32_t pages) {
  WEIR_TRY(parts_.kernels, layers::select_layer_kernels(options.kernels));
  WEIR_TRY(parts_.weights, find_llama_weights(config, weights));
  parts_.config = config;
  parts_.head_width = static_cast<int>(config.width / config.heads);
  parts_.kv_width = parts_.head_width * static_cast<int>(config.kv_heads);
  // Query, key and value stand side by side.
  parts_.qkv_width = static_cast<int>(config.width) + 2 * parts_.kv_width;
  parts_.rope =
      layers::make_rope_table(parts_.head_width, config.max_context, config.rope_base);
  // All pages are one buffer.
  WEIR_TRY(parts_.pages, memory_.allocate(parts_.page_elements() * pages));
  for (llama_step& step : steps_) {
    WEIR_CHECK(allocate_step(step));
  }
  // What the caller may know.
  facts_.vocab = config.vocab;
  facts_.max_context = config.max_context;
  facts_.bytes_per_token =
      static_cast<std::uint64_t>(parts_.page_elements()) * sizeof(float) / page_tokens;
  facts_.context_tokens = pages * page_tokens;
  facts_.max_rows = max_rows_;
  // Names the order of the sums, so that results can be compared.
  facts_.order = "fma-k256/1";
  facts_.instruction_set = parts_.kernels->name;
  return {};
}

/// The copy of a page is ordered behind the steps that write it.
result<context_id> llama_model::fork_context(context_id context, std::uint64_t tokens) {
  std::vector<page_copy> copies;
  WEIR_TRY(const context_id id, table_.fork(context, tokens, copies));
  // At most one page is shared in part.
  for (const page_copy& copy : copies) {
    if (auto copied = submit_page_copy(engine_, parts_, copy); !copied) {
      // Nobody else knows the number of the context.
      static_cast<void>(table_.close(id));
      return std::move(copied).error();
    }
  }
  return id;
}

/// Nothing is changed before all groups are checked.
result<void> llama_model::check_groups(std::span<const row_group> groups) const {
  std::set<std::uint64_t> seen;
  std::uint64_t rows = 0;
  for (const row_group& g : groups) {
    WEIR_TRY(const llama_context* context, table_.find(g.context));
    // The history never is longer than the reservation.
    const std::uint64_t left = context->reserved - context->history.size();
    if (g.tokens.empty() || g.tokens.size() > left) {
      return error(
          errc::invalid_argument,
          fmt::format("step of context {}: expected 1 to {} tokens, of which it "
                      "reserved {}, found {}",
                      g.context.value, left, context->reserved, g.tokens.size()));
    }
    // The rows of a group follow the context, so two would have the same place.
    if (!seen.insert(g.context.value).second) {
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
  if (rows == 0 || rows > max_rows_) {
    return error(
        errc::invalid_argument,
        fmt::format("rows of a step: expected 1 to {}, found {}", max_rows_, rows));
  }
  return {};
}

/// Adds the rows of a group to a step. The context does not change yet.
void llama_model::add_rows(const row_group& group, llama_step& step) {
  // Checked before.
  const llama_context& context = **table_.find(group.context);
  step_context g;
  // The rows stand behind those of the groups before.
  g.position = context.history.size();
  g.first = step.rows();
  g.rows = static_cast<int>(group.tokens.size());
  // Pages with at least one token, those of this step included.
  const auto pages = (g.position + group.tokens.size() + page_tokens - 1) / page_tokens;
  g.pages.assign(context.pages.begin(),
                 context.pages.begin() + static_cast<std::ptrdiff_t>(pages));
  // Only the last row of a group has logits.
  if (group.wants_logits) {
    g.logits = step.logit_rows++;
  }
  step.tokens.insert(step.tokens.end(), group.tokens.begin(), group.tokens.end());
  step.groups.push_back(std::move(g));
}

/// The contexts advance with the call, not with its end.
result<step_ticket> llama_model::submit(std::span<const row_group> groups) {
  WEIR_CHECK(check_groups(groups));
  llama_step* step = nullptr;
  for (llama_step& s : steps_) {
    // Any free one.
    step = s.serial == 0 ? &s : step;
  }
  if (step == nullptr) {
    return error(errc::invalid_argument,
                 fmt::format("step of a model: expected fewer than {} unfinished steps, "
                             "found as many; finish one first",
                             max_in_flight));
  }
  // The vectors keep their memory.
  step->tokens.clear();
  step->groups.clear();
  step->logit_rows = 0;
  for (const row_group& g : groups) {
    add_rows(g, *step);
  }
  // A step that the engine refuses leaves neither tokens nor known pages behind.
  WEIR_CHECK(submit_llama_step(engine_, parts_, *step));
  // The pages are known from here on, though tasks have yet to fill them.
  for (const row_group& g : groups) {
    table_.append(**table_.find(g.context), g.tokens);
  }
  // A step whose submission failed stays free.
  step->serial = next_serial_++;
  return step_ticket{step->serial};
}

/// Waits for the step.
result<std::span<const float>> llama_model::logits(step_ticket ticket,
                                                   std::size_t group) {
  const llama_step* step = find(ticket);
  if (step == nullptr || group >= step->groups.size() || step->groups[group].logits < 0) {
    return error(errc::not_found,
                 fmt::format("logits of step {}, group {}: expected an unfinished step "
                             "whose group wants logits, found none",
                             ticket.serial, group));
  }
  WEIR_CHECK(engine_.wait(step->last));
  // The row may be longer, because of the panels.
  return std::span<const float>(
      step->logits.data + step->groups[group].logits * step->logit_stride, facts_.vocab);
}

/// Contexts stay as they are.
result<void> llama_model::finish(step_ticket ticket) {
  for (llama_step& s : steps_) {
    if (s.serial == ticket.serial && s.serial != 0) {
      // The step is free even if a task has failed.
      s.serial = 0;
      return engine_.wait(s.last);
    }
  }
  return error(errc::not_found,
               fmt::format("end of step {}: expected an unfinished step, "
                           "found none with this number",
                           ticket.serial));
}

/// Returns the number of pages of all contexts.
result<std::uint32_t> pages_of(const llama_config& c, const llama_options& options) {
  if (options.context_tokens != 0) {
    return static_cast<std::uint32_t>((options.context_tokens + page_tokens - 1) /
                                      page_tokens);
  }
  const std::uint64_t page_bytes = std::uint64_t{2} * sizeof(float) * page_tokens *
                                   (c.width / c.heads) * c.kv_heads * c.layers;
  const std::uint64_t bytes =
      options.kv_memory != 0 ? options.kv_memory : default_kv_memory();
  if (bytes < page_bytes) {
    return error(errc::out_of_memory,
                 fmt::format("memory of keys and values: expected at least {} bytes, "
                             "which {} tokens take, found {}",
                             page_bytes, page_tokens, bytes));
  }
  const std::uint64_t useful =
      options.max_contexts *
      ((std::uint64_t{c.max_context} + page_tokens - 1) / page_tokens);
  return static_cast<std::uint32_t>(std::min(bytes / page_bytes, useful));
}

}  // namespace

/// Limits come before rules, so that the divisions are sound.
result<void> check_config(const llama_config& c) {
  WEIR_CHECK(expect_between("a vocabulary", c.vocab, 1, 1U << 24));
  WEIR_CHECK(expect_between("a width", c.width, 16, max_width));
  WEIR_CHECK(expect_between("hidden features", c.hidden, 16, max_width));
  WEIR_CHECK(expect_between("layers", c.layers, 1, 1024));
  WEIR_CHECK(expect_between("a longest context", c.max_context, 1, max_positions));
  WEIR_CHECK(expect_between("query heads", c.heads, 1, c.width / 16));
  WEIR_CHECK(expect_between("key heads", c.kv_heads, 1, c.heads));
  // Query heads share key heads in equal groups.
  WEIR_CHECK(expect_multiple("query heads", c.heads, c.kv_heads));
  WEIR_CHECK(expect_multiple("a width", c.width, std::uint64_t{16} * c.heads));
  WEIR_CHECK(expect_multiple("hidden features", c.hidden, 16));
  WEIR_CHECK(
      expect_between("a head width", c.width / c.heads, 16, layers::max_head_width));
  // The comparison is false for NaN.
  if (!(c.rope_base > 1 && c.rope_base < 1e12 && c.epsilon > 0 && c.epsilon < 1)) {
    return error(
        errc::invalid_argument,
        fmt::format("configuration of a Llama model: expected a base of RoPE "
                    "between 1 and 1e12 and an epsilon between 0 and 1, found {} "
                    "and {}",
                    c.rope_base, c.epsilon));
  }
  return {};
}

std::uint64_t default_kv_memory() noexcept {
  return default_kv_memory(memory_of_machine().available);
}

std::uint64_t default_kv_memory(std::uint64_t available) noexcept {
  constexpr std::uint64_t largest = std::uint64_t{4} << 30;
  return std::min(available / 4, largest);
}

result<std::unique_ptr<step_model>> make_llama(runtime::engine& engine,
                                               const llama_config& config,
                                               const weight_source& weights,
                                               const llama_options& options) {
  WEIR_CHECK(check_config(config));
  WEIR_CHECK(expect_between("rows of a step", options.max_rows, 1, 1U << 14));
  WEIR_CHECK(expect_between("tokens of all contexts", options.context_tokens, 0,
                            std::uint64_t{1} << 32));
  WEIR_CHECK(expect_between("contexts at a time", options.max_contexts, 1, 1U << 16));
  WEIR_TRY(const std::uint32_t pages, pages_of(config, options));
  auto model = std::make_unique<llama_model>(engine, options, pages, config.max_context);
  WEIR_CHECK(model->set_up(config, weights, options, pages));
  return std::unique_ptr<step_model>(std::move(model));
}

}  // namespace weir::models
