// SPDX-License-Identifier: Apache-2.0
/// @file
/// The tasks of a step, each with the memory that it reads and writes. Weights never
/// change, so tasks do not declare them.
#include "llama/step.hpp"

#include <algorithm>
#include <cmath>

#include "layers/dense.hpp"

namespace weir::models {

namespace {

using layers::panel_range;
using runtime::task_context;

/// Submits the tasks of one step.
///
/// The engine orders them by what they read and write.
class step_builder {
 public:
  step_builder(runtime::engine& engine, const llama_parts& parts, llama_step& step)
      : engine_(engine), parts_(parts), step_(step), width_(parts.config.width) {}

  // The order of submission is that of the computation.
  result<void> all() {
    WEIR_CHECK(embed());
    for (std::uint32_t l = 0; l < parts_.config.layers; ++l) {
      WEIR_CHECK(attend(l));
      WEIR_CHECK(transform(parts_.weights.layers[l]));
    }
    // Ends with the task that names the step.
    return predict();
  }

 private:
  /// Returns the footprint of some columns of all rows of a buffer.
  [[nodiscard]] runtime::footprint columns(const buffer<float>& b, std::int64_t first,
                                           std::int64_t count,
                                           std::int64_t stride) const {
    return b.columns(first, count, step_.rows(), stride);
  }
  /// Returns the footprint of all rows of a buffer whose rows have `stride` elements.
  [[nodiscard]] runtime::footprint rows_in(const buffer<float>& b,
                                           std::int64_t stride) const {
    return b.part(0, step_.rows() * stride);
  }

  template <class Kernel>
  result<void> run(const char* name, const access_list& accesses, const Kernel& kernel) {
    // The last number is that of the end.
    WEIR_TRY(step_.last, engine_.submit(name, accesses.items(), kernel));
    step_.first = step_.first == 0 ? step_.last : step_.first;
    return {};
  }

  // One member function for each kind of task.
  result<void> embed();
  result<void> norm(const float* weight);
  result<void> project(const panel_matrix& matrix, std::int64_t column);
  result<void> attend(std::uint32_t layer);
  result<void> store_keys(std::uint32_t layer, const step_context& group);
  result<void> read_keys(std::uint32_t layer, const step_context& group,
                         std::uint32_t head);
  result<void> add_product(const panel_matrix& matrix, const buffer<float>& from,
                           std::int64_t from_width);
  result<void> transform(const llama_layer& layer);
  result<void> predict();
  result<void> end_with(const runtime::footprint& result);

  runtime::engine& engine_;
  const llama_parts& parts_;
  llama_step& step_;
  // In 64 bits, for products with it.
  std::int64_t width_;
};

/// One task, since lookups are short.
result<void> step_builder::embed() {
  access_list a;
  a.writes(rows_in(step_.x, width_));
  return run("llama.embed", a, [parts = &parts_, step = &step_](const task_context&) {
    const std::size_t width = parts->config.width;
    for (std::size_t r = 0; r < step->tokens.size(); ++r) {
      read_output(parts->weights.embedding, step->tokens[r],
                  {step->x.data + r * width, width});
    }
  });
}

/// normed = norm of x.
///
/// One task for all rows.
result<void> step_builder::norm(const float* weight) {
  access_list a;
  a.reads(rows_in(step_.x, width_)).writes(rows_in(step_.normed, width_));
  return run("llama.norm", a,
             [parts = &parts_, step = &step_, weight](const task_context&) {
               const int width = static_cast<int>(parts->config.width);
               for (int r = 0; r < step->rows(); ++r) {
                 const std::ptrdiff_t first = std::ptrdiff_t{r} * width;
                 parts->kernels->rms_norm({step->x.data + first, weight, nullptr,
                                           step->normed.data + first, width,
                                           parts->config.epsilon});
               }
             });
}

/// Writes a product of `normed` to columns of `qkv`.
///
/// A task per tile.
result<void> step_builder::project(const panel_matrix& matrix, std::int64_t column) {
  return layers::each_tile(matrix, [&](const panel_range& range) {
    // Outputs come in panels of 16.
    const std::int64_t first = column + static_cast<std::int64_t>(range.first * 16);
    access_list a;
    a.reads(rows_in(step_.normed, width_))
        .writes(columns(step_.qkv, first, static_cast<std::int64_t>(range.count * 16),
                        parts_.qkv_width));
    return run("llama.project", a,
               [parts = &parts_, step = &step_, matrix = &matrix, range,
                first](const task_context&) {
                 // The product is written, not added.
                 layers::multiply(
                     *parts->kernels, *matrix, range,
                     {step->normed.data, static_cast<std::ptrdiff_t>(parts->config.width),
                      step->rows()},
                     step->qkv.data + first, parts->qkv_width);
               });
  });
}

/// Copies a row's keys, which lie along columns of their page, and its values.
///
/// The layout is that of the attention kernel.
void store_row(const llama_parts& parts, const float* row, std::uint32_t page,
               std::uint32_t layer, std::uint64_t slot) {
  const auto d = static_cast<std::size_t>(parts.head_width);
  const auto kv_width = static_cast<std::size_t>(parts.kv_width);
  for (std::uint32_t h = 0; h < parts.config.kv_heads; ++h) {
    // The head's keys and values are neighbours in the page.
    float* keys = parts.pages.data + parts.head_index(page, layer, h);
    float* values = keys + page_tokens * d;
    const float* key = row + parts.config.width + h * d;
    for (std::size_t i = 0; i < d; ++i) {
      keys[i * page_tokens + slot] = key[i];
      values[slot * d + i] = key[kv_width + i];
    }
  }
}

/// Rotates queries and keys of a group and stores keys and values in its pages.
///
/// One task per group, so the pages of other contexts are not touched.
result<void> step_builder::store_keys(std::uint32_t layer, const step_context& group) {
  access_list a;
  // Queries are rotated in place.
  a.updates(step_.qkv.part(std::int64_t{group.first} * parts_.qkv_width,
                           std::int64_t{group.rows} * parts_.qkv_width));
  // Only pages that get new rows.
  for (std::size_t p = group.position / page_tokens; p < group.pages.size(); ++p) {
    a.updates(parts_.pages.part(parts_.head_index(group.pages[p], layer, 0),
                                parts_.head_elements() * parts_.config.kv_heads));
  }
  // Groups stay in place while the step is in flight.
  return run(
      "llama.keys", a,
      [parts = &parts_, step = &step_, group = &group, layer](const task_context&) {
        // Keys follow queries in a row, so one loop rotates both.
        const auto heads = static_cast<int>(parts->config.heads + parts->config.kv_heads);
        for (int r = 0; r < group->rows; ++r) {
          const std::uint64_t position = group->position + static_cast<std::uint64_t>(r);
          float* row =
              step->qkv.data + std::ptrdiff_t{group->first + r} * parts->qkv_width;
          for (int h = 0; h < heads; ++h) {
            layers::rotate_head(parts->rope, position,
                                row + std::ptrdiff_t{h} * parts->head_width);
          }
          // The page of the position.
          store_row(*parts, row, group->pages[position / page_tokens], layer,
                    position % page_tokens);
        }
      });
}

/// Computes the attention of all queries of a group that share a key head.
///
/// Rows see the keys up to their own.
void attend_group(const llama_parts& parts, const llama_step& step,
                  const step_context& group, std::uint32_t layer, std::uint32_t head) {
  const auto pages = static_cast<int>(group.pages.size());
  const float** keys = scratch<const float*, 0>(pages);
  const float** values = scratch<const float*, 1>(pages);
  // The pages of a context are not contiguous.
  for (std::size_t p = 0; p < group.pages.size(); ++p) {
    keys[p] = parts.pages.data + parts.head_index(group.pages[p], layer, head);
    values[p] = keys[p] + static_cast<std::int64_t>(page_tokens) * parts.head_width;
  }
  layers::attention_call call;
  call.keys_of = keys;
  call.values_of = values;
  call.width = parts.head_width;
  call.scale = 1.0F / std::sqrt(static_cast<float>(parts.head_width));
  // This many query heads read the same keys.
  const std::uint32_t shared = parts.config.heads / parts.config.kv_heads;
  for (int r = 0; r < group.rows; ++r) {
    const std::ptrdiff_t row = group.first + r;
    // The row itself counts.
    call.keys = static_cast<int>(group.position) + r + 1;
    for (std::uint32_t h = head * shared; h < (head + 1) * shared; ++h) {
      const std::ptrdiff_t column = std::ptrdiff_t{h} * parts.head_width;
      call.query = step.qkv.data + row * parts.qkv_width + column;
      call.out = step.read.data + row * parts.config.width + column;
      parts.kernels->attention(call);
    }
  }
}

/// A task per group and key head.
result<void> step_builder::read_keys(std::uint32_t layer, const step_context& group,
                                     std::uint32_t head) {
  const std::int64_t features =
      std::int64_t{parts_.config.heads / parts_.config.kv_heads} * parts_.head_width;
  access_list a;
  a.reads(step_.qkv.sub(std::int64_t{group.first} * parts_.qkv_width, 0)
              .columns(head * features, features, group.rows, parts_.qkv_width));
  // Pages that other contexts share are only read.
  for (const std::uint32_t page : group.pages) {
    a.reads(
        parts_.pages.part(parts_.head_index(page, layer, head), parts_.head_elements()));
  }
  a.writes(step_.read.sub(group.first * width_, 0)
               .columns(head * features, features, group.rows, width_));
  return run(
      "llama.attention", a,
      [parts = &parts_, step = &step_, group = &group, layer, head](const task_context&) {
        attend_group(*parts, *step, *group, layer, head);
      });
}

/// x += product of the rows of `from`.
///
/// The sum is that of the residual stream.
result<void> step_builder::add_product(const panel_matrix& matrix,
                                       const buffer<float>& from,
                                       std::int64_t from_width) {
  return layers::each_tile(matrix, [&](const panel_range& range) {
    const auto first = static_cast<std::int64_t>(range.first * 16);
    access_list a;
    a.reads(rows_in(from, from_width))
        .updates(
            columns(step_.x, first, static_cast<std::int64_t>(range.count * 16), width_));
    return run("llama.add", a,
               [parts = &parts_, step = &step_, matrix = &matrix, range, from = from.data,
                from_width, first](const task_context&) {
                 const auto width = static_cast<std::ptrdiff_t>(parts->config.width);
                 // The tile's columns belong to this task only.
                 const auto take = [&](int row, const float* sums) {
                   float* to = step->x.data + row * width + first;
                   for (std::uint64_t i = 0; i < range.count * 16; ++i) {
                     to[i] += sums[i];
                   }
                 };
                 layers::multiply_rows(*parts->kernels, *matrix, range,
                                       {from, from_width, step->rows()}, take);
               });
  });
}

/// The first half of a layer: x += attention(norm(x)).
///
/// Groups are independent of each other.
result<void> step_builder::attend(std::uint32_t layer) {
  const llama_layer& l = parts_.weights.layers[layer];
  WEIR_CHECK(norm(l.attention_norm));
  // The three products write other columns.
  WEIR_CHECK(project(l.query, 0));
  WEIR_CHECK(project(l.key, width_));
  WEIR_CHECK(project(l.value, width_ + parts_.kv_width));
  // Keys must be stored before they are read, which the pages order.
  for (const step_context& group : step_.groups) {
    WEIR_CHECK(store_keys(layer, group));
    for (std::uint32_t h = 0; h < parts_.config.kv_heads; ++h) {
      WEIR_CHECK(read_keys(layer, group, h));
    }
  }
  return add_product(l.output, step_.read, width_);
}

/// Computes a tile of silu(gate) * up.
///
/// The gates are multiplied in place.
void gate_tile(const llama_parts& parts, const llama_step& step, const llama_layer& layer,
               const panel_range& range) {
  const auto width = static_cast<std::ptrdiff_t>(parts.config.width);
  const auto hidden = static_cast<std::ptrdiff_t>(parts.config.hidden);
  const auto columns = static_cast<int>(range.count * 16);
  float* gates = step.inner.data + range.first * 16;
  // The gates first, then the product with them row by row.
  layers::multiply(*parts.kernels, layer.gate, range,
                   {step.normed.data, width, step.rows()}, gates, hidden);
  layers::multiply_rows(*parts.kernels, layer.up, range,
                        {step.normed.data, width, step.rows()},
                        [&](int row, const float* up) {
                          float* gate = gates + row * hidden;
                          parts.kernels->silu_times(gate, up, gate, columns);
                        });
}

/// The second half of a layer: x += down(silu(gate(norm(x))) * up(norm(x))).
///
/// Gate and up have equal shapes, so they share tiles.
result<void> step_builder::transform(const llama_layer& layer) {
  WEIR_CHECK(norm(layer.mlp_norm));
  const std::int64_t hidden = parts_.config.hidden;
  WEIR_CHECK(layers::each_tile(layer.gate, [&](const panel_range& range) {
    access_list a;
    a.reads(rows_in(step_.normed, width_))
        .writes(columns(step_.inner, static_cast<std::int64_t>(range.first * 16),
                        static_cast<std::int64_t>(range.count * 16), hidden));
    return run("llama.gate", a,
               [parts = &parts_, step = &step_, layer = &layer,
                range](const task_context&) { gate_tile(*parts, *step, *layer, range); });
  }));
  return add_product(layer.down, step_.inner, hidden);
}

/// Computes the logits of the rows for which they are wanted.
///
/// The last norm gathers those rows, so that the product has no gaps.
result<void> step_builder::predict() {
  // A step that only fills contexts.
  if (step_.logit_rows == 0) {
    return end_with(rows_in(step_.x, width_));
  }
  access_list norms;
  norms.reads(rows_in(step_.x, width_))
      .writes(step_.normed.part(0, step_.logit_rows * width_));
  // One task, since the rows are few.
  WEIR_CHECK(run("llama.last_norm", norms,
                 [parts = &parts_, step = &step_](const task_context&) {
                   const auto width = static_cast<int>(parts->config.width);
                   for (const step_context& g : step->groups) {
                     if (g.logits >= 0) {
                       // The last row of the group.
                       const std::ptrdiff_t row = g.first + g.rows - 1;
                       parts->kernels->rms_norm(
                           {step->x.data + row * width, parts->weights.norm, nullptr,
                            step->normed.data + std::ptrdiff_t{g.logits} * width, width,
                            parts->config.epsilon});
                     }
                   }
                 }));
  // A task per tile of the vocabulary.
  WEIR_CHECK(layers::each_tile(parts_.weights.head, [&](const panel_range& range) {
    const auto first = static_cast<std::int64_t>(range.first * 16);
    access_list a;
    a.reads(step_.normed.part(0, step_.logit_rows * width_))
        .writes(step_.logits.columns(first, static_cast<std::int64_t>(range.count * 16),
                                     step_.logit_rows, step_.logit_stride));
    return run("llama.logits", a,
               [parts = &parts_, step = &step_, range, first](const task_context&) {
                 layers::multiply(
                     *parts->kernels, parts->weights.head, range,
                     {step->normed.data, static_cast<std::ptrdiff_t>(parts->config.width),
                      step->logit_rows},
                     step->logits.data + first, step->logit_stride);
               });
  }));
  return end_with(step_.logits.part(0, step_.logit_rows * step_.logit_stride));
}

/// Submits a task that ends behind all others of the step, so that its number names the
/// end of the step. `result` is what the last tasks write.
///
/// It does nothing.
result<void> step_builder::end_with(const runtime::footprint& result) {
  access_list a;
  a.reads(result);
  return run("llama.end", a, [](const task_context&) {});
}

}  // namespace

/// Returns when all tasks are submitted.
result<void> submit_llama_step(runtime::engine& engine, const llama_parts& parts,
                               llama_step& step) {
  step.first = 0;
  step.last = 0;
  auto submitted = step_builder(engine, parts, step).all();
  if (!submitted && step.first != 0) {
    // The tasks use the memory of the step, which the next step may get. How they end
    // does not matter: nobody reads what they compute.
    for (runtime::task_id id = step.first; id <= step.last; ++id) {
      static_cast<void>(engine.wait(id));
    }
  }
  return submitted;
}

/// The task is ordered by its pages.
result<void> submit_page_copy(runtime::engine& engine, const llama_parts& parts,
                              const page_copy& copy) {
  const std::int64_t count = parts.page_elements();
  access_list a;
  a.reads(parts.pages.part(copy.from * count, count))
      .writes(parts.pages.part(copy.to * count, count));
  // The addresses are those of the pool, which does not move.
  const float* from = parts.pages.data + copy.from * count;
  float* to = parts.pages.data + copy.to * count;
  WEIR_TRY([[maybe_unused]] const runtime::task_id id,
           engine.submit("llama.copy", a.items(), [from, to, count](const task_context&) {
             std::copy(from, from + count, to);
           }));
  return {};
}

}  // namespace weir::models
