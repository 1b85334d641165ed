// SPDX-License-Identifier: Apache-2.0
/// @file
/// The tasks of a call of a BERT model, each with the memory that it reads and writes.
/// Weights never change, so tasks do not declare them.
#include <algorithm>
#include <cmath>

#include "bert/model.hpp"
#include "layers/dense.hpp"

namespace weir::models {

namespace {

using layers::panel_range;
using runtime::task_context;

/// Rows of a task that works row by row.
///
/// Smaller blocks would cost more than the work.
constexpr int rows_per_task = 64;

/// Submits the tasks of one call.
class call_builder {
 public:
  call_builder(runtime::engine& engine, const bert_parts& parts, bert_call& call)
      // All three must outlive the tasks.
      : engine_(engine), parts_(parts), call_(call), width_(parts.config.width) {}

  // Tasks are ordered by what they read and write, so the order of submission is that of
  // the computation.
  result<void> all() {
    if (!parts_.takes_rows) {
      WEIR_CHECK(embed());
    }
    for (const bert_layer& layer : parts_.weights.layers) {
      WEIR_CHECK(encode(layer));
    }
    if (parts_.returns_runs) {
      WEIR_CHECK(pool());
    }
    // A task that ends behind all others, so that its number names the end of the call.
    // Reads what the last tasks write.
    access_list a;
    a.reads(
        parts_.returns_runs
            ? call_.means.part(0, static_cast<std::int64_t>(call_.runs.size()) * width_)
            : call_.x.part(0, call_.rows() * width_));
    return run("bert.end", a, [](const task_context&) {});
  }

 private:
  template <class Kernel>
  // The last number is that of the end.
  result<void> run(const char* name, const access_list& accesses, const Kernel& kernel) {
    WEIR_TRY(call_.last, engine_.submit(name, accesses.items(), kernel));
    call_.first = call_.first == 0 ? call_.last : call_.first;
    return {};
  }
  /// Returns the footprint of some rows of a buffer of `stride` features.
  [[nodiscard]] static runtime::footprint rows_of(const buffer<float>& b, int first,
                                                  int count, std::int64_t stride) {
    // Rows are contiguous in their buffer.
    return b.part(first * stride, count * stride);
  }
  /// Calls f(first, count) for each block of rows.
  template <class F>
  result<void> each_block(F f) {
    // The last block may be shorter.
    for (int r = 0; r < call_.rows(); r += rows_per_task) {
      WEIR_CHECK(f(r, std::min(rows_per_task, call_.rows() - r)));
    }
    return {};
  }

  // One member function for each kind of task.
  result<void> embed();
  result<void> project(const biased_matrix& m, const buffer<float>& from,
                       const buffer<float>& to, std::int64_t column,
                       std::int64_t to_stride);
  result<void> inner(const bert_layer& layer);
  result<void> attend();
  result<void> add_and_norm(const norm_weights& weights);
  result<void> encode(const bert_layer& layer);
  result<void> pool();

  runtime::engine& engine_;
  const bert_parts& parts_;
  bert_call& call_;
  // In 64 bits, for products with it.
  std::int64_t width_;
};

/// Writes the normed sum of the embeddings of a row's token, position and type.
///
/// The type is that of the first sentence.
void embed_row(const bert_parts& parts, std::uint32_t token, std::uint64_t position,
               float* row) {
  const std::size_t width = parts.config.width;
  // The scratch memory belongs to the thread.
  float* place = scratch<float, 2>(static_cast<int>(width));
  const bert_weights& w = parts.weights;
  read_output(w.words, token, {row, width});
  read_output(w.positions, position, {place, width});
  // The order of the sum is that of other programs.
  for (std::size_t i = 0; i < width; ++i) {
    row[i] = row[i] + w.type[i] + place[i];
  }
  parts.kernels->layer_norm({row, w.norm.weight, w.norm.bias, row,
                             static_cast<int>(width), parts.config.epsilon});
}

/// A task per run.
result<void> call_builder::embed() {
  for (const bert_run& bert_run : call_.runs) {
    access_list a;
    a.writes(rows_of(call_.x, bert_run.first, bert_run.rows, width_));
    // The positions begin with 0 in each run.
    WEIR_CHECK(run(
        "bert.embed", a, [parts = &parts_, call = &call_, bert_run](const task_context&) {
          const auto width = static_cast<std::ptrdiff_t>(parts->config.width);
          for (int r = 0; r < bert_run.rows; ++r) {
            const std::ptrdiff_t row = bert_run.first + r;
            embed_row(*parts, call->tokens[static_cast<std::size_t>(row)],
                      static_cast<std::uint64_t>(r), call->x.data + row * width);
          }
        }));
  }
  return {};
}

/// Writes a product and its bias to columns of `to`.
///
/// The outputs of the matrix are cut into tiles, each a task.
result<void> call_builder::project(const biased_matrix& m, const buffer<float>& from,
                                   const buffer<float>& to, std::int64_t column,
                                   std::int64_t to_stride) {
  // The rows of `from` have no gaps.
  const auto inputs = static_cast<std::int64_t>(m.matrix.shape.inputs);
  return layers::each_tile(m.matrix, [&](const panel_range& range) {
    const auto count = static_cast<std::int64_t>(range.count * panel_outputs);
    const auto first = static_cast<std::int64_t>(range.first * panel_outputs);
    access_list a;
    // All rows are read, but only columns are written.
    a.reads(rows_of(from, 0, call_.rows(), inputs))
        .writes(to.columns(column + first, count, call_.rows(), to_stride));
    const layers::row_block rows{from.data, inputs, call_.rows()};
    return run("bert.project", a,
               // The bias is that of the tile.
               [parts = &parts_, m = &m, range, rows, count, bias = m.bias + first,
                out = to.data + column + first, to_stride](const task_context&) {
                 layers::multiply_rows(*parts->kernels, m->matrix, range, rows,
                                       [&](int row, const float* sums) {
                                         float* into = out + row * to_stride;
                                         for (std::int64_t i = 0; i < count; ++i) {
                                           // The bias is added after the sum.
                                           into[i] = sums[i] + bias[i];
                                         }
                                       });
               });
  });
}

/// inner = gelu(product of x + bias). Both steps in one task, while the tile is in the
/// caches.
result<void> call_builder::inner(const bert_layer& layer) {
  const auto hidden = static_cast<std::int64_t>(parts_.config.hidden);
  return layers::each_tile(layer.inner.matrix, [&](const panel_range& range) {
    const auto count = static_cast<std::int64_t>(range.count * panel_outputs);
    const auto first = static_cast<std::int64_t>(range.first * panel_outputs);
    access_list a;
    a.reads(rows_of(call_.x, 0, call_.rows(), width_))
        .writes(call_.inner.columns(first, count, call_.rows(), hidden));
    return run(
        "bert.inner", a,
        [parts = &parts_, call = &call_, m = &layer.inner, range, first, count,
         hidden](const task_context&) {
          const layers::row_block rows{call->x.data,
                                       static_cast<std::ptrdiff_t>(parts->config.width),
                                       call->rows()};
          layers::multiply_rows(
              *parts->kernels, m->matrix, range, rows, [&](int row, const float* sums) {
                float* into = call->inner.data + row * hidden + first;
                for (std::int64_t i = 0; i < count; ++i) {
                  into[i] = sums[i] + m->bias[first + i];
                }
                // In place.
                parts->kernels->gelu(into, into, static_cast<int>(count));
              });
        });
  });
}

/// Copies the keys and values of a head of a run to blocks of 64 rows, in the order in
/// which the kernel reads them.
///
/// Values stay row by row.
void gather_head(const bert_parts& parts, const bert_call& call, const bert_run& of_run,
                 std::ptrdiff_t column, float* keys, float* values) {
  const auto width = static_cast<std::ptrdiff_t>(parts.config.width);
  const std::ptrdiff_t d = parts.head_width;
  for (std::ptrdiff_t r = 0; r < of_run.rows; ++r) {
    const float* row = call.qkv.data + (of_run.first + r) * 3 * width + column;
    // The first element of the block of the row.
    const std::ptrdiff_t block = r / layers::block_keys * layers::block_keys * d;
    for (std::ptrdiff_t i = 0; i < d; ++i) {
      // Keys along columns, so that a register holds the same feature of 16 keys.
      keys[block + i * layers::block_keys + r % layers::block_keys] = row[width + i];
      values[r * d + i] = row[2 * width + i];
    }
  }
}

/// Computes the attention of one head in one run. Every row reads every row.
///
/// The scratch memory grows to the largest run of the thread.
void attend_run(const bert_parts& parts, const bert_call& call, const bert_run& of_run,
                int head) {
  const std::ptrdiff_t d = parts.head_width;
  // The last block may be filled in part; the kernel reads no further.
  const int blocks = (of_run.rows + layers::block_keys - 1) / layers::block_keys;
  const auto elements = static_cast<int>(blocks * layers::block_keys * d);
  float* keys = scratch<float, 0>(elements);
  float* values = scratch<float, 1>(elements);
  gather_head(parts, call, of_run, head * d, keys, values);
  const float** key_blocks = scratch<const float*, 0>(blocks);
  const float** value_blocks = scratch<const float*, 1>(blocks);
  // The kernel takes blocks by address, as pages of other models are not contiguous.
  for (std::ptrdiff_t b = 0; b < blocks; ++b) {
    key_blocks[b] = keys + b * layers::block_keys * d;
    value_blocks[b] = values + b * layers::block_keys * d;
  }
  layers::attention_call a;
  a.keys_of = key_blocks;
  a.values_of = value_blocks;
  a.keys = of_run.rows;
  a.width = parts.head_width;
  // The usual scale of a head.
  a.scale = 1.0F / std::sqrt(static_cast<float>(d));
  const auto width = static_cast<std::ptrdiff_t>(parts.config.width);
  // One query after another.
  for (std::ptrdiff_t r = of_run.first; r < of_run.first + of_run.rows; ++r) {
    a.query = call.qkv.data + r * 3 * width + head * d;
    a.out = call.read.data + r * width + head * d;
    parts.kernels->attention(a);
  }
}

/// A task per run and head.
result<void> call_builder::attend() {
  const auto heads = static_cast<int>(parts_.config.heads);
  for (const bert_run& bert_run : call_.runs) {
    for (int h = 0; h < heads; ++h) {
      const std::int64_t column = std::int64_t{h} * parts_.head_width;
      // Columns of the rows of the run.
      const auto part = [&](const buffer<float>& b, std::int64_t first,
                            std::int64_t stride) {
        return b.sub(bert_run.first * stride, 0)
            .columns(first, parts_.head_width, bert_run.rows, stride);
      };
      access_list a;
      // Query, key and value of the head.
      a.reads(part(call_.qkv, column, 3 * width_))
          .reads(part(call_.qkv, width_ + column, 3 * width_))
          .reads(part(call_.qkv, 2 * width_ + column, 3 * width_))
          .writes(part(call_.read, column, width_));
      WEIR_CHECK(run("bert.attention", a,
                     [parts = &parts_, call = &call_, bert_run, h](const task_context&) {
                       attend_run(*parts, *call, bert_run, h);
                     }));
    }
  }
  return {};
}

/// x = norm(sum + x).
///
/// In blocks of rows.
result<void> call_builder::add_and_norm(const norm_weights& weights) {
  return each_block([&](int first, int count) {
    access_list a;
    a.reads(rows_of(call_.sum, first, count, width_))
        .updates(rows_of(call_.x, first, count, width_));
    return run(
        "bert.norm", a,
        [parts = &parts_, call = &call_, weights, first, count](const task_context&) {
          const auto width = static_cast<std::ptrdiff_t>(parts->config.width);
          for (std::ptrdiff_t r = first; r < first + count; ++r) {
            float* x = call->x.data + r * width;
            const float* sum = call->sum.data + r * width;
            for (std::ptrdiff_t i = 0; i < width; ++i) {
              // The sum stands in front of the norm, in place.
              x[i] = sum[i] + x[i];
            }
            parts->kernels->layer_norm({x, weights.weight, weights.bias, x,
                                        static_cast<int>(width), parts->config.epsilon});
          }
        });
  });
}

/// One layer, in the order of its steps.
result<void> call_builder::encode(const bert_layer& layer) {
  const std::int64_t stride = 3 * width_;
  // The three products write other columns, so they run at the same time.
  WEIR_CHECK(project(layer.query, call_.x, call_.qkv, 0, stride));
  WEIR_CHECK(project(layer.key, call_.x, call_.qkv, width_, stride));
  WEIR_CHECK(project(layer.value, call_.x, call_.qkv, 2 * width_, stride));
  WEIR_CHECK(attend());
  WEIR_CHECK(project(layer.attended, call_.read, call_.sum, 0, width_));
  WEIR_CHECK(add_and_norm(layer.attention_norm));
  // The second half of the layer.
  WEIR_CHECK(inner(layer));
  WEIR_CHECK(project(layer.outer, call_.inner, call_.sum, 0, width_));
  return add_and_norm(layer.norm);
}

/// A task per run.
result<void> call_builder::pool() {
  for (std::size_t i = 0; i < call_.runs.size(); ++i) {
    const bert_run bert_run = call_.runs[i];
    const std::int64_t to = static_cast<std::int64_t>(i) * width_;
    access_list a;
    a.reads(rows_of(call_.x, bert_run.first, bert_run.rows, width_))
        .writes(call_.means.part(to, width_));
    // The mean of all rows, with the length 1.
    WEIR_CHECK(run("bert.pool", a,
                   [call = &call_, bert_run, to, width = width_](const task_context&) {
                     const auto features = static_cast<std::size_t>(width);
                     pool_mean({call->x.data + bert_run.first * width,
                                static_cast<std::size_t>(bert_run.rows) * features},
                               {call->means.data + to, features});
                   }));
  }
  return {};
}

}  // namespace

/// Sums in the order of the rows, so that the result does not depend on threads.
void pool_mean(std::span<const float> rows, std::span<float> mean) noexcept {
  const std::size_t width = mean.size();
  std::fill(mean.begin(), mean.end(), 0.0F);
  for (std::size_t r = 0; r < rows.size(); r += width) {
    for (std::size_t i = 0; i < width; ++i) {
      mean[i] += rows[r + i];
    }
  }
  // At least one row.
  const auto count = static_cast<float>(rows.size() / width);
  double squares = 0;
  for (float& value : mean) {
    value /= count;
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  // A bound keeps a mean of zeros from being divided by 0.
  const auto length = static_cast<float>(std::max(std::sqrt(squares), 1e-12));
  for (float& value : mean) {
    value /= length;
  }
}

/// Returns when all tasks are submitted.
result<void> submit_bert_call(runtime::engine& engine, const bert_parts& parts,
                              bert_call& call) {
  call.first = 0;
  call.last = 0;
  auto submitted = call_builder(engine, parts, call).all();
  if (!submitted && call.first != 0) {
    // The tasks use the buffers of the call, which the next call may get. How they end
    // does not matter: nobody reads what they compute.
    for (runtime::task_id id = call.first; id <= call.last; ++id) {
      static_cast<void>(engine.wait(id));
    }
  }
  return submitted;
}

}  // namespace weir::models
