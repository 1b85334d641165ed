// SPDX-License-Identifier: Apache-2.0
/// @file
/// The head of a window, in one task for each half of its rows: logits, loss, and the
/// gradient that goes back from them.
#pragma once

#include <algorithm>
#include <cmath>

#include "prose/graph/graph.hpp"

namespace weir::models {

/// Converts nats to units of 2^-32 nat, rounded. Sums of integers do not depend on the
/// order of their terms. Rounding can make a loss slightly negative; it then counts as 0.
/// @error{kernel_failed, not a finite number}
inline result<std::uint64_t> to_q32(double nats) {
  if (!std::isfinite(nats)) {
    return error(errc::kernel_failed,
                 "loss of a token: expected a finite number, found " +
                     std::string(std::isnan(nats) ? "nan" : "infinity"));
  }
  return static_cast<std::uint64_t>(std::max(nats, 0.0) * 0x1p32 + 0.5);
}

/// Submits the task of one half. Its input is the output of the last block, which that
/// block left in three parts.
///
/// Both halves write different rows.
template <class R>
void graph<R>::head(const task_location& s, int half) {
  const auto top = static_cast<std::size_t>(n_.blocks);
  reads_output(s, n_.blocks - 1, half * half_rows, half_rows);
  accesses_.writes(half_of(s.w->x[top], half))
      .reads(values(layout_.final_gain, 2))
      .writes(half_of(s.w->head, half));
  if (s.pulse->builds) {
    accesses_.writes(half_of(s.w->d_x[top], half)).writes(half_of(s.w->d_gain, half));
  }
  if (leaves_pending(s, half)) {
    accesses_.writes(context(s.lane).pending.all());
  }
  s.pulse->results.push_back(task(
      "head", s,
      [this, half](const task_location& here) -> result<void> {
        return run_head(here, half);
      },
      priority::chain, half));
}

/// Computes logits and losses of half of the rows. In a Build pulse the gradients of the
/// logits then replace the logits, scaled so that the loss is the mean over all rows.
///
/// The pending prediction is kept before the logits are replaced.
template <class R>
result<void> graph<R>::run_head(const task_location& s, int half) {
  const int row = half * half_rows;
  sum_output(s, n_.blocks - 1, row, half_rows);
  const matrix<R> logits = rows_from(s.w->logits, row);
  const matrix<R> normed = rows_from(s.w->normed, row);
  const matrix<R> x = rows_of(s.w->x[static_cast<std::size_t>(n_.blocks)], row);
  k_->norm_forward(constant(x), value(layout_.final_gain), normed,
                   rows_from(s.w->inverse, row), half_rows, n_.width);
  gemm(form::plain, form::transposed, half_rows, n_.vocab, n_.width, normed.data,
       normed.stride, value(layout_.unembedding), n_.width, R(0), logits.data,
       logits.stride);
  if (leaves_pending(s, half)) {
    std::copy_n(rows_from(s.w->logits, s.rows->last - 1).data, n_.vocab,
                context(s.lane).pending.data);
  }
  R scale = 0;
  // Without gradients the factor is 0.
  if (s.pulse->builds) {
    scale = s.pulse->scored == 0 ? R(1) : R(1) / static_cast<R>(s.pulse->scored);
  }
  note_likeliest(s, row, logits);
  R nats[half_rows];
  k_->softmax(logits.data, logits.stride, s.rows->targets + row, half_rows, n_.vocab,
              scale, nats);
  std::uint64_t total = 0;
  double plain = 0;
  for (R x_nats : nats) {
    WEIR_TRY(const auto units, to_q32(static_cast<double>(x_nats)));
    total += units;
    plain += static_cast<double>(x_nats);
  }
  // Rows without a target have the loss 0.
  for (std::size_t r = 0; r < half_rows && !s.rows->predictions.empty(); ++r) {
    s.rows->predictions[static_cast<std::size_t>(row) + r].nats =
        std::max(static_cast<float>(nats[r]), 0.0F);
  }
  s.rows->nats_q32[half] = total;
  // Both sums are kept: one to add exactly, one to report.
  s.rows->nats[half] = plain;
  if (s.pulse->builds) {
    head_gradient(s, half);
  }
  return {};
}

/// Notes the largest logit of each row that the pulse computes, if it keeps predictions.
/// The softmax overwrites the logits, so that this comes before it.
/// @param row  First row of the half, to which `logits` belong.
template <class R>
void graph<R>::note_likeliest(const task_location& s, int row, matrix<R> logits) {
  if (s.rows->predictions.empty()) {
    return;
  }
  const int end = std::min(s.rows->last, row + half_rows);
  for (int r = std::max(s.rows->first, row); r < end; ++r) {
    const R* of_row = logits.data + (r - row) * logits.stride;
    const R* largest = std::max_element(of_row, of_row + n_.vocab);
    s.rows->predictions[static_cast<std::size_t>(r)].likeliest =
        static_cast<std::uint32_t>(largest - of_row);
  }
}

/// Carries the gradients of the logits back through the unembedding and the final norm.
/// The head has no residual path around its norm, so a row of zeros, with stride 0,
/// stands for it.
///
/// Its gradients of the gain are added by `head_weights`.
template <class R>
void graph<R>::head_gradient(const task_location& s, int half) {
  const int row = half * half_rows;
  const int width = n_.width;
  const auto top = static_cast<std::size_t>(n_.blocks);
  const matrix<R> logits = rows_from(s.w->logits, row);
  R* d_normed = scratch<R, 0>(half_rows * width);
  R* no_residual = scratch<R, 1>(width);
  std::fill_n(no_residual, width, R(0));
  gemm(form::plain, form::plain, half_rows, width, n_.vocab, logits.data, logits.stride,
       value(layout_.unembedding), width, R(0), d_normed, width);
  k_->norm_backward(constant(rows_of(s.w->x[top], row)), value(layout_.final_gain),
                    constant(rows_from(s.w->inverse, row)), {d_normed, width},
                    {no_residual, 0}, rows_of(s.w->d_x[top], row),
                    s.w->d_gain.data + half * width, half_rows, width);
}

/// Returns whether this half has the last row of the chunk and the token after that row
/// is not known yet.
///
/// It is the only row of the chunk without a target.
template <class R>
bool graph<R>::leaves_pending(const task_location& s, int half) const {
  const lane_record& lane = s.pulse->lanes[static_cast<std::size_t>(s.lane)];
  return s.rows->ends_chunk && lane.leaves_pending &&
         (s.rows->last - 1) / half_rows == half;
}

/// Submits the task that scores a prediction that an earlier pulse left pending. It works
/// on a copy of the logits, because the softmax overwrites its operand.
///
/// The loss belongs to this pulse.
template <class R>
void graph<R>::score_pending(pulse_record& record, int lane) {
  accesses_.reads(context(lane).pending.all());
  pulse_record* r = &record;
  record.results.push_back(task(
      "score_pending",
      [this, r, lane](const runtime::task_context& context) -> result<void> {
        lane_record& lr = pulse_of(context, r).lanes[static_cast<std::size_t>(lane)];
        const R* pending = this->context(lane).pending.data;
        std::vector<R> logits(pending, pending + n_.vocab);
        R nats = 0;
        k_->softmax(logits.data(), n_.vocab, &lr.first_token, 1, n_.vocab, R(0), &nats);
        WEIR_TRY(lr.pending_nats_q32, to_q32(static_cast<double>(nats)));
        lr.pending_nats = std::max(static_cast<float>(nats), 0.0F);
        return {};
      }));
}

}  // namespace weir::models
