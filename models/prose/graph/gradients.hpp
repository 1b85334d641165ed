// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gradients of the weights: products of the rows that entered a layer with the gradients
/// of the rows that left it.
///
/// They are added over the windows of a chunk, from the last window to the first. The
/// task that completes a gradient also computes its sum of squares while the gradient is
/// in the cache, so that clipping does not have to read all gradients again.
#pragma once

#include <algorithm>

#include "prose/graph/graph.hpp"

namespace weir::models {

/// The footprint of neighbours.
template <class R>
runtime::footprint graph<R>::gradient_part(int lane, int parameter, int count) const {
  const parameter_info& first = info(parameter);
  const parameter_info& last = info(parameter + count - 1);
  return gradients_[static_cast<std::size_t>(lane)].all.part(
      first.offset, last.offset + last.padded() - first.offset);
}

template <class R>
runtime::footprint graph<R>::squares_part(int parameter, int count) const {
  return squares_.part(parameter, count);
}

/// Returns whether the gradients are complete after this window. They are not if other
/// lanes or other devices add to them, or if the chunk has an earlier window.
///
/// Devices add their sums by an all-reduce.
template <class R>
bool graph<R>::finishes(const task_location& s) const {
  const lane_record& lane = s.pulse->lanes[static_cast<std::size_t>(s.lane)];
  return n_.lanes == 1 && !shares_ && s.rows == &lane.windows.front();
}

/// Computes the sums of squares of `count` parameters' gradients, if these are complete.
///
/// Otherwise another task computes them from the whole sum.
template <class R>
void graph<R>::note_squares(const task_location& s, int parameter, int count) {
  if (!finishes(s)) {
    return;
  }
  for (int i = parameter; i < parameter + count; ++i) {
    squares_.data[i] = k_->squares(gradient(0, i), static_cast<int>(info(i).padded()));
  }
}

/// One product for parameters that are neighbours.
template <class R>
void graph<R>::weight_product(const task_location& s, int parameter, int count,
                              matrix<const R> a, matrix<const R> b) {
  const parameter_info& first = info(parameter);
  const parameter_info& last = info(parameter + count - 1);
  const std::int64_t rows = (last.offset + last.count() - first.offset) / first.columns;
  gemm(form::transposed, form::plain, rows, first.columns, window_rows, a.data, a.stride,
       // The first window of a chunk that is processed replaces what is there.
       b.data, b.stride, accumulates(s) ? R(1) : R(0), gradient(s.lane, parameter),
       first.columns);
  note_squares(s, parameter, count);
}

/// Adds `value` to the gradient of a vector parameter, or sets it in the chunk's last
/// window, which is the first one that is processed.
template <class R>
void graph<R>::vector_gradient(const task_location& s, int parameter, const R* value) {
  R* to = gradient(s.lane, parameter);
  const auto count = static_cast<int>(info(parameter).count());
  if (accumulates(s)) {
    for (int i = 0; i < count; ++i) {
      to[i] += value[i];
    }
  } else {
    std::copy_n(value, count, to);
  }
  note_squares(s, parameter, 1);
}

/// Submits the task of the gradients of the unembedding and the final gain.
///
/// Nobody waits for it, so it fills gaps.
template <class R>
void graph<R>::head_weights(const task_location& s) {
  accesses_.reads(s.w->head.all())
      .reads(s.w->d_gain.all())
      .updates(gradient_part(s.lane, layout_.final_gain, 2))
      .writes(squares_part(layout_.final_gain, 2));
  task(
      "head_weights", s,
      [this](const task_location& here) -> result<void> {
        weight_product(here, layout_.unembedding, 1, constant(here.w->logits),
                       constant(here.w->normed));
        R* gain = scratch<R>(n_.width);
        k_->sum_of(here.w->d_gain.data, here.w->d_gain.data + n_.width, gain, n_.width);
        vector_gradient(here, layout_.final_gain, gain);
        return {};
      },
      priority::filler);
}

/// Submits the two tasks of the gradients of the two-layer part: `mlp_out`, and `mlp_in`
/// with `gain2`.
///
/// They only read what the way back has left.
template <class R>
void graph<R>::mlp_weights(const task_location& s) {
  block& b = block_at(s);
  const block_parameters& p = parameters(s);
  const buffer<R>& d_x = s.w->d_x[static_cast<std::size_t>(s.b) + 1];
  accesses_.reads(b.halves[0].wide.all())
      .reads(b.halves[1].wide.all())
      .reads(d_x.all())
      .updates(gradient_part(s.lane, p.mlp_out))
      .writes(squares_part(p.mlp_out));
  task(
      "mlp_weights", s,
      [this](const task_location& here) -> result<void> {
        const matrix<R> d = rows_of(here.w->d_x[static_cast<std::size_t>(here.b) + 1], 0);
        halves_product(here, parameters(here).mlp_out, block_at(here).halves[0].hidden,
                       block_at(here).halves[1].hidden, constant(d));
        return {};
      },
      priority::filler);
  accesses_.reads(b.halves[0].back.all())
      .reads(b.halves[1].back.all())
      .reads(b.normed2.all())
      .reads(b.d_x1.all())
      .updates(gradient_part(s.lane, p.gain2, 2))
      .writes(squares_part(p.gain2, 2));
  task(
      "mlp_weights", s,
      [this](const task_location& here) -> result<void> {
        const block& t = block_at(here);
        halves_product(here, parameters(here).mlp_in, t.halves[0].d_hidden,
                       t.halves[1].d_hidden, {t.normed2.data, n_.width});
        vector_gradient(here, parameters(here).gain2,
                        t.d_x1.data + window_rows * n_.width);
        return {};
      },
      priority::filler);
}

/// Computes the gradient of a matrix whose rows are hidden units, as `weight_product`
/// does. The left operand is given in two parts, one for each half of the hidden units.
///
/// The gradient is complete after the second part.
template <class R>
void graph<R>::halves_product(const task_location& s, int parameter, const R* first,
                              const R* second, matrix<const R> b) {
  const int rows = n_.half_hidden;
  R* to = gradient(s.lane, parameter);
  for (const R* a : {first, second}) {
    gemm(form::transposed, form::plain, rows, n_.width, window_rows, a, rows, b.data,
         b.stride, accumulates(s) ? R(1) : R(0), to, n_.width);
    to += std::ptrdiff_t{rows} * n_.width;
  }
  note_squares(s, parameter, 1);
}

/// Submits the task of the gradients of `out` in all levels.
///
/// The levels' matrices are neighbours, so one product is enough.
template <class R>
void graph<R>::out_weights(const task_location& s) {
  block& b = block_at(s);
  const int out = parameters(s).levels[0].out;
  accesses_.reads(b.y.all())
      .reads(b.d_x1.all())
      .updates(gradient_part(s.lane, out, n_.levels))
      .writes(squares_part(out, n_.levels));
  task(
      "out_weights", s,
      [this, out](const task_location& here) -> result<void> {
        weight_product(here, out, n_.levels, {block_at(here).y.data, n_.outs},
                       {block_at(here).d_x1.data, n_.width});
        return {};
      },
      priority::filler);
}

/// Submits the task of the gradients of the far levels' queries.
///
/// Without far levels there is nothing to do.
template <class R>
void graph<R>::far_weights(const task_location& s) {
  if (n_.near_levels == n_.levels) {
    return;
  }
  block& b = block_at(s);
  const int count = n_.levels - n_.near_levels;
  const int query = parameters(s).levels[static_cast<std::size_t>(n_.near_levels)].query;
  accesses_.reads(b.d_far)
      .reads(b.past.all())
      .updates(gradient_part(s.lane, query, count))
      .writes(squares_part(query, count));
  task(
      "query_weights", s,
      [this, query, count](const task_location& here) -> result<void> {
        weight_product(here, query, count,
                       {block_at(here).d_stack.data + n_.near, n_.stack},
                       {block_at(here).z, n_.width});
        return {};
      },
      priority::filler);
}

/// Submits the task of the gradients of keys, values, gates and the near levels' queries.
/// The gradient of a gate's bias is the sum over the rows.
///
/// The bound of the sums is that of the heads.
template <class R>
void graph<R>::near_weights(const task_location& s) {
  block& b = block_at(s);
  const block_parameters& p = parameters(s);
  const int bias = p.levels[0].gate_bias;
  const int count = 2 + n_.levels + n_.near_levels;
  accesses_.reads(b.d_near)
      .reads(b.past.all())
      .updates(gradient_part(s.lane, p.key, count))
      .updates(gradient_part(s.lane, bias, n_.levels))
      .writes(squares_part(p.key, count))
      .writes(squares_part(bias, n_.levels));
  task(
      "key_weights", s,
      [this, bias, count](const task_location& here) -> result<void> {
        const R* stack = block_at(here).d_stack.data;
        weight_product(here, parameters(here).key, count, {stack, n_.stack},
                       {block_at(here).z, n_.width});
        for (int l = 0; l < n_.levels; ++l) {
          R sums[64] = {};
          const R* column = stack + 2 * n_.inner + l * 2 * n_.heads;
          for (int r = 0; r < window_rows; ++r) {
            for (int g = 0; g < 2 * n_.heads; ++g) {
              sums[g] += column[r * n_.stack + g];
            }
          }
          vector_gradient(here, bias + l, sums);
        }
        return {};
      },
      priority::filler);
}

/// Submits the task of the gradient of the embedding.
///
/// Rows with the same token are added in their order.
template <class R>
void graph<R>::embedding_weights(const task_location& s) {
  accesses_.reads(s.w->d_x[0].all())
      .updates(gradient_part(s.lane, layout_.embedding))
      .writes(squares_part(layout_.embedding));
  task("embedding_weights", s, [this](const task_location& here) -> result<void> {
    run_embedding_weights(here);
    return {};
  });
}

template <class R>
void graph<R>::run_embedding_weights(const task_location& s) {
  R* table = gradient(s.lane, layout_.embedding);
  // Most rows of the table have no token in the window.
  if (!accumulates(s)) {
    std::fill_n(table, info(layout_.embedding).padded(), R(0));
  }
  for (int r = 0; r < window_rows; ++r) {
    const std::int32_t id = s.rows->ids[r];
    if (id >= 0) {
      k_->add(table + std::ptrdiff_t{id} * n_.width, s.w->d_x[0].data + r * n_.width,
              n_.width);
    }
  }
  note_squares(s, layout_.embedding, 1);
}

}  // namespace weir::models
