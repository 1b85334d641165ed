// SPDX-License-Identifier: Apache-2.0
/// @file
/// The second part of a block, forward and backward: the rows that were read from the
/// memories go through the `out` matrices and then through a two-layer part with a
/// squared rectifier.
///
/// Two tasks share each step. Each takes half of the columns or of the hidden units, and
/// with them half of the weights, so that each weight passes through the caches once.
#pragma once

#include <algorithm>

#include "prose/graph/graph.hpp"

namespace weir::models {

/// Submits x1 = x + y out, for half of the columns.
///
/// The gemm adds to a copy of x.
template <class R>
void graph<R>::out(const task_location& s, int half) {
  block& b = block_at(s);
  accesses_.reads(b.y.all())
      .reads(s.w->x[static_cast<std::size_t>(s.b)].all())
      .reads(values(parameters(s).levels[0].out, n_.levels))
      .writes(b.x1_halves[static_cast<std::size_t>(half)]);
  half_task<&graph::run_out>("out", s, half);
}

template <class R>
void graph<R>::run_out(const task_location& s, int half) {
  const block& b = block_at(s);
  const int width = n_.width;
  const int columns = width / 2;
  const int first = half * columns;
  const R* in = s.w->x[static_cast<std::size_t>(s.b)].data + first;
  R* x1 = b.x1.data + first;
  for (int r = 0; r < window_rows; ++r) {
    std::copy_n(in + r * width, columns, x1 + r * width);
  }
  // The matrices of all levels lie one behind the other, so one product covers them.
  gemm(form::plain, form::plain, window_rows, columns, n_.outs, b.y.data, n_.outs,
       value(parameters(s).levels[0].out) + first, width, R(1), x1, width);
}

/// Submits the two layers for half of the hidden units. The result is one of the three
/// summands of the block's output: x1, and one from each half.
///
/// Each half owns the rows of the weights that belong to its hidden units.
template <class R>
void graph<R>::mlp(const task_location& s, int half) {
  block& b = block_at(s);
  half_buffers<R>& t = half_at(s, half);
  accesses_.reads(b.x1.all())
      .reads(values(parameters(s).gain2, 3))
      .writes(t.wide.all())
      .writes(t.out.all());
  if (half == 0) {
    accesses_.writes(b.normed2.all());
  }
  half_task<&graph::run_mlp>("mlp", s, half);
}

template <class R>
void graph<R>::run_mlp(const task_location& s, int half) {
  const block& b = block_at(s);
  const half_buffers<R>& t = half_at(s, half);
  const block_parameters& p = parameters(s);
  const int width = n_.width;
  const int hidden = n_.half_hidden;
  // The first weight of the half.
  const std::ptrdiff_t weights = std::ptrdiff_t{half} * hidden * width;
  // Both halves need the norm and compute it; the first half keeps it for the backward
  // tasks.
  R* mine = scratch<R>(window_rows * (width + 1));
  R* normed = half == 0 ? b.normed2.data : mine;
  R* inverse = half == 0 ? b.inverse2 : mine + window_rows * width;
  k_->norm_forward({b.x1.data, width}, value(p.gain2), {normed, width}, {inverse, 1},
                   window_rows, width);
  gemm(form::plain, form::transposed, window_rows, hidden, width, normed, width,
       value(p.mlp_in) + weights, width, R(0), t.relu, hidden);
  k_->square_forward({t.relu, hidden}, {t.hidden, hidden}, window_rows, hidden);
  gemm(form::plain, form::plain, window_rows, width, hidden, t.hidden, hidden,
       value(p.mlp_out) + weights, width, R(0), t.out.data, width);
}

/// Declares that a task reads the three summands of a block's output.
template <class R>
void graph<R>::reads_output(const task_location& s, int b, int row, int rows) {
  const block& from = s.w->blocks[static_cast<std::size_t>(b)];
  const std::int64_t first = std::int64_t{row} * n_.width;
  const std::int64_t count = std::int64_t{rows} * n_.width;
  accesses_.reads(from.x1.part(first, count))
      .reads(from.halves[0].out.part(first, count))
      .reads(from.halves[1].out.part(first, count));
}

/// Called by the task that needs the sum.
template <class R>
void graph<R>::sum_output(const task_location& s, int b, int row, int rows) {
  const block& from = s.w->blocks[static_cast<std::size_t>(b)];
  const std::ptrdiff_t first = std::ptrdiff_t{row} * n_.width;
  const int count = rows * n_.width;
  R* to = s.w->x[static_cast<std::size_t>(b) + 1].data + first;
  k_->sum_of(from.halves[0].out.data + first, from.halves[1].out.data + first, to, count);
  k_->add(to, from.x1.data + first, count);
}

/// Submits the way back through the two layers for half of the hidden units. The result
/// is one half's part of the gradient of the norm's output.
///
/// The other half's part is added later.
template <class R>
void graph<R>::mlp_backward(const task_location& s, int half) {
  half_buffers<R>& t = half_at(s, half);
  accesses_.reads(s.w->d_x[static_cast<std::size_t>(s.b) + 1].all())
      .reads(values(parameters(s).mlp_in, 2))
      .reads(t.wide.all())
      .writes(t.back.all());
  half_task<&graph::run_mlp_backward>("mlp_backward", s, half);
}

template <class R>
void graph<R>::run_mlp_backward(const task_location& s, int half) {
  const half_buffers<R>& t = half_at(s, half);
  const block_parameters& p = parameters(s);
  const int width = n_.width;
  const int hidden = n_.half_hidden;
  const std::ptrdiff_t weights = std::ptrdiff_t{half} * hidden * width;
  const R* d_x = s.w->d_x[static_cast<std::size_t>(s.b) + 1].data;
  gemm(form::plain, form::transposed, window_rows, hidden, width, d_x, width,
       value(p.mlp_out) + weights, width, R(0), t.d_hidden, hidden);
  k_->square_backward({t.relu, hidden}, {t.d_hidden, hidden}, window_rows, hidden);
  gemm(form::plain, form::plain, window_rows, width, hidden, t.d_hidden, hidden,
       value(p.mlp_in) + weights, width, R(0), t.d_normed, width);
}

/// Submits the way back through the norm and the `out` matrices, for the heads of one
/// half.
///
/// The task of the first half also writes the gradient of x1.
template <class R>
void graph<R>::out_backward(const task_location& s, int half) {
  block& b = block_at(s);
  accesses_.reads(half_at(s, 0).back.all())
      .reads(half_at(s, 1).back.all())
      .reads(s.w->d_x[static_cast<std::size_t>(s.b) + 1].all())
      .reads(b.x1.all())
      .reads(b.normed2.all())
      .reads(values(parameters(s).levels[0].out, n_.levels + 1))
      .writes(half_at(s, half).d_y.all());
  if (half == 0) {
    accesses_.writes(b.d_x1.all());
  }
  half_task<&graph::run_out_backward>("out_backward", s, half);
}

template <class R>
void graph<R>::run_out_backward(const task_location& s, int half) {
  const block& b = block_at(s);
  const block_parameters& p = parameters(s);
  const int width = n_.width;
  const int size = window_rows * width;
  const int first = half * n_.first_outs;
  // Columns of the heads of the half.
  const int columns = half == 0 ? n_.first_outs : n_.outs - n_.first_outs;
  // Both halves need the gradient of x1 and compute it; the first half keeps it for the
  // tasks that follow.
  R* d_normed = scratch<R>(2 * size + width);
  R* d_x1 = half == 0 ? b.d_x1.data : d_normed + size;
  k_->sum_of(b.halves[0].d_normed, b.halves[1].d_normed, d_normed, size);
  k_->norm_backward({b.x1.data, width}, value(p.gain2), {b.inverse2, 1},
                    {d_normed, width},
                    constant(rows_of(s.w->d_x[static_cast<std::size_t>(s.b) + 1], 0)),
                    {d_x1, width}, d_x1 + size, window_rows, width);
  gemm(form::plain, form::transposed, window_rows, columns, width, d_x1, width,
       value(p.levels[0].out) + std::ptrdiff_t{first} * width, width, R(0),
       b.halves[static_cast<std::size_t>(half)].d_y.data, columns);
}

}  // namespace weir::models
