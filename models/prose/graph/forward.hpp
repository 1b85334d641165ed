// SPDX-License-Identifier: Apache-2.0
/// @file
/// Forward tasks of a window: embedding, blocks, head.
#pragma once

#include <algorithm>
#include <cmath>

#include "prose/graph/graph.hpp"

namespace weir::models {

/// Windows of a pulse without backward work reuse this many sets of buffers.
inline constexpr std::size_t window_ring = 3;

template <class R>
void zero_rows(R* matrix, int from, int to, int width) {
  if (from < to) {
    std::fill(matrix + std::ptrdiff_t{from} * width, matrix + std::ptrdiff_t{to} * width,
              R(0));
  }
}

/// Nats in units of 2^-32, so that sums do not depend on their order.
inline result<std::uint64_t> to_q32(double nats) {
  if (!std::isfinite(nats)) {
    return error(errc::kernel_failed,
                 "loss of a token: expected a finite number, found " +
                     std::string(std::isnan(nats) ? "nan" : "infinity"));
  }
  return static_cast<std::uint64_t>(std::max(nats, 0.0) * 0x1p32 + 0.5);
}

template <class R>
void graph<R>::forward(pulse_record& record, int lane) {
  lane_record& lr = record.lanes[static_cast<std::size_t>(lane)];
  if (lr.scores_pending) {
    score_pending(record, lane);
  }
  for (std::size_t i = 0; i < lr.windows.size(); ++i) {
    auto w = window_at(lane, record.builds ? i : i % window_ring);
    if (!w) {
      failed_ = std::make_shared<error>(w.error());
      return;
    }
    spot s{&record, &lr.windows[i], *w, lane, 0};
    embed(s);
    for (s.b = 0; s.b < n_.blocks; ++s.b) {
      norm_conv(s);
      project(s);
      for (int h = 0; h < n_.heads; ++h) {
        keys(s, h);
      }
      for (int l = 0; l < n_.levels; ++l) {
        for (int h = 0; h < n_.heads; ++h) {
          memory(s, l, h);
        }
      }
      out_mlp(s, 0);
      out_mlp(s, 1);
    }
    head(s, 0);
    head(s, 1);
  }
}

template <class R>
void graph<R>::embed(const spot& s) {
  accesses_.reads(values(layout_.embedding)).writes(s.w->x[0].all());
  if (s.rows->ends_chunk) {
    accesses_.writes(context(s.lane).clock.all());
  }
  task("embed", [this, s](const runtime::task_context&) -> result<void> {
    const R* table = value(layout_.embedding);
    R* x = s.w->x[0].p;
    for (int r = 0; r < window_rows; ++r, x += n_.width) {
      const std::int32_t id = s.rows->ids[r];
      if (id < 0) {
        std::fill_n(x, n_.width, R(0));
      } else {
        std::copy_n(table + std::ptrdiff_t{id} * n_.width, n_.width, x);
      }
    }
    if (s.rows->ends_chunk) {
      const lane_clock& after = s.pulse->lanes[static_cast<std::size_t>(s.lane)].after;
      std::uint64_t* clock = context(s.lane).clock.p;
      clock[0] = after.position;
      clock[1] = after.pending;
    }
    return {};
  });
}

template <class R>
void graph<R>::norm_conv(const spot& s) {
  accesses_.reads(s.w->x[static_cast<std::size_t>(s.b)].all())
      .reads(values(parameters(s).gain1, 2))
      .updates(context(s).tail.all())
      .writes(at(s).past.all());
  task("norm_conv", [this, s](const runtime::task_context&) -> result<void> {
    run_norm_conv(s);
    return {};
  });
}

template <class R>
void graph<R>::run_norm_conv(const spot& s) {
  block& b = at(s);
  const int first = s.rows->first;
  const int last = s.rows->last;
  const std::ptrdiff_t width = n_.width;
  R* tail = context(s).tail.p;
  R* now = b.u + first * width;
  if (partial(s)) {
    zero_rows(b.u, -3, first - 3, n_.width);
    zero_rows(b.u, last, window_rows, n_.width);
    zero_rows(b.z, 0, first, n_.width);
    zero_rows(b.z, last, window_rows, n_.width);
    std::fill_n(b.inverse1, window_rows, R(0));
  }
  std::copy_n(tail, 3 * width, now - 3 * width);
  const matrix<R> x = rows_of(s.w->x[static_cast<std::size_t>(s.b)], first);
  k_->norm_forward(constant(x), value(parameters(s).gain1), {now, width},
                   {b.inverse1 + first, 1}, last - first, n_.width);
  k_->conv_forward(now, value(parameters(s).conv), b.z + first * width, last - first,
                   n_.width);
  std::copy_n(b.u + (last - 3) * width, 3 * width, tail);
}

template <class R>
void graph<R>::project(const spot& s) {
  block& b = at(s);
  const block_parameters& p = parameters(s);
  const auto one = [&](const char* name, int parameter, int tensors, const buffer<R>& out,
                       int rows) {
    const R* weights = value(parameter);
    R* to = out.p;
    const R* z = b.z;
    const int width = n_.width;
    accesses_.reads(b.past.all()).reads(values(parameter, tensors)).writes(out.all());
    task(name, [=](const runtime::task_context&) -> result<void> {
      gemm(form::plain, form::transposed, window_rows, rows, width, z, width, weights,
           width, R(0), to, rows);
      return {};
    });
  };
  one("project_keys", p.key, 2 + n_.levels, b.keys, n_.key_stride);
  for (std::size_t l = 0; l < p.levels.size(); ++l) {
    one("project_queries", p.levels[l].query, 1, b.queries[l], n_.inner);
  }
}

template <class R>
key_head<R> graph<R>::keys_of(const spot& s, int h) {
  key_head<R> k = at(s).heads[static_cast<std::size_t>(h)].head;
  R* open = context(s).open[static_cast<std::size_t>(h)].p;
  k.open_key = open;
  k.open_value = open + window_rows * head_width;
  k.first = s.rows->first;
  k.last = s.rows->last;
  k.gate_bias = value(parameters(s).levels[0].gate_bias);
  k.bias_stride = info(parameters(s).levels[0].gate_bias).padded();
  return k;
}

template <class R>
void graph<R>::keys(const spot& s, int h) {
  block& b = at(s);
  accesses_.reads(b.keys.all())
      .reads(values(parameters(s).levels[0].gate_bias, n_.levels))
      .writes(b.heads[static_cast<std::size_t>(h)].saved.all());
  if (partial(s)) {
    accesses_.updates(context(s).open[static_cast<std::size_t>(h)].all());
  }
  task("keys", [this, s, h](const runtime::task_context&) -> result<void> {
    k_->keys(keys_of(s, h));
    return {};
  });
}

template <class R>
memory_head<R> graph<R>::memory_of(const spot& s, int l, int h) {
  const auto level = static_cast<std::size_t>(l);
  const auto head = static_cast<std::size_t>(h);
  memory_state<R>& m = context(s).memories[level][head];
  const std::uint64_t frequency = config_.frequencies[level];
  memory_head<R> r = at(s).levels[level][head].head;
  r.first = s.rows->first;
  r.last = s.rows->last;
  r.keeps = s.pulse->builds;
  r.fires_at_end =
      frequency >= window_rows && (s.rows->index + 1) * window_rows % frequency == 0;
  r.open_theta = m.open.p;
  r.open_keep = m.open.p + window_rows;
  r.memory = m.memory.p;
  r.accumulator = m.accumulator.p;
  return r;
}

template <class R>
void graph<R>::memory(const spot& s, int l, int h) {
  const auto level = static_cast<std::size_t>(l);
  const auto head = static_cast<std::size_t>(h);
  block& b = at(s);
  memory_state<R>& m = context(s).memories[level][head];
  accesses_.reads(b.queries[level].all())
      .reads(b.heads[head].saved.all())
      .uses(m.both.all(), s.rows->last == window_rows)
      .writes(b.levels[level][head].saved.all())
      .writes(b.levels[level][head].y);
  if (partial(s)) {
    accesses_.updates(m.open.all());
  }
  task("memory", [this, s, l, h](const runtime::task_context&) -> result<void> {
    k_->memory_forward(memory_of(s, l, h));
    return {};
  });
}

template <class R>
void graph<R>::out_mlp(const spot& s, int half) {
  block& b = at(s);
  const block_parameters& p = parameters(s);
  const auto in = static_cast<std::size_t>(s.b);
  accesses_.reads(half_of(b.y, half))
      .reads(half_of(s.w->x[in], half))
      .reads(values(p.levels[0].out, n_.levels + 3))
      .writes(half_of(b.mlp, half))
      .writes(half_of(s.w->x[in + 1], half));
  task("out_mlp", [this, s, half](const runtime::task_context&) -> result<void> {
    run_out_mlp(s, half);
    return {};
  });
}

template <class R>
void graph<R>::run_out_mlp(const spot& s, int half) {
  block& b = at(s);
  const block_parameters& p = parameters(s);
  const int row = half * half_rows;
  const int width = n_.width;
  const int hidden = n_.hidden;
  const matrix<R> in = rows_of(s.w->x[static_cast<std::size_t>(s.b)], row);
  const matrix<R> out = rows_of(s.w->x[static_cast<std::size_t>(s.b) + 1], row);
  const matrix<R> x1 = rows_from(b.x1, row);
  const matrix<R> normed = rows_from(b.normed2, row);
  const matrix<R> relu = rows_from(b.relu, row);
  const matrix<R> squared = rows_from(b.hidden, row);
  const auto copy = [&](matrix<R> from, matrix<R> to) {
    for (int r = 0; r < half_rows; ++r) {
      std::copy_n(from.at + r * from.step, width, to.at + r * to.step);
    }
  };
  copy(in, x1);
  gemm(form::plain, form::plain, half_rows, width, n_.outs, b.y.p + row * n_.outs,
       n_.outs, value(p.levels[0].out), width, R(1), x1.at, x1.step);
  k_->norm_forward(constant(x1), value(p.gain2), normed, rows_from(b.inverse2, row),
                   half_rows, width);
  gemm(form::plain, form::transposed, half_rows, hidden, width, normed.at, normed.step,
       value(p.mlp_in), width, R(0), relu.at, relu.step);
  k_->square_forward(relu, squared, half_rows, hidden);
  copy(x1, out);
  gemm(form::plain, form::plain, half_rows, width, hidden, squared.at, squared.step,
       value(p.mlp_out), width, R(1), out.at, out.step);
}

template <class R>
void graph<R>::head(const spot& s, int half) {
  const auto top = static_cast<std::size_t>(n_.blocks);
  accesses_.reads(half_of(s.w->x[top], half))
      .reads(values(layout_.final_gain, 2))
      .writes(half_of(s.w->head, half));
  if (s.pulse->builds) {
    accesses_.writes(half_of(s.w->d_x[top], half)).writes(half_of(s.w->d_gain, half));
  }
  if (leaves_pending(s, half)) {
    accesses_.writes(context(s.lane).pending.all());
  }
  s.pulse->results.push_back(
      task("head", [this, s, half](const runtime::task_context&) -> result<void> {
        return run_head(s, half);
      }));
}

template <class R>
result<void> graph<R>::run_head(const spot& s, int half) {
  const int row = half * half_rows;
  const matrix<R> logits = rows_from(s.w->logits, row);
  const matrix<R> normed = rows_from(s.w->normed, row);
  const matrix<R> x = rows_of(s.w->x[static_cast<std::size_t>(n_.blocks)], row);
  k_->norm_forward(constant(x), value(layout_.final_gain), normed,
                   rows_from(s.w->inverse, row), half_rows, n_.width);
  gemm(form::plain, form::transposed, half_rows, n_.vocab, n_.width, normed.at,
       normed.step, value(layout_.unembedding), n_.width, R(0), logits.at, logits.step);
  if (leaves_pending(s, half)) {
    std::copy_n(rows_from(s.w->logits, s.rows->last - 1).at, n_.vocab,
                context(s.lane).pending.p);
  }
  R scale = 0;
  if (s.pulse->builds) {
    scale = s.pulse->scored == 0 ? R(1) : R(1) / static_cast<R>(s.pulse->scored);
  }
  R nats[half_rows];
  k_->softmax(logits.at, logits.step, s.rows->targets + row, half_rows, n_.vocab, scale,
              nats);
  std::uint64_t total = 0;
  double plain = 0;
  for (R x_nats : nats) {
    WEIR_TRY(const auto one, to_q32(static_cast<double>(x_nats)));
    total += one;
    plain += static_cast<double>(x_nats);
  }
  s.rows->nats_q32[half] = total;
  s.rows->nats[half] = plain;
  if (s.pulse->builds) {
    head_gradient(s, half);
  }
  return {};
}

template <class R>
void graph<R>::head_gradient(const spot& s, int half) {
  const int row = half * half_rows;
  const int width = n_.width;
  const auto top = static_cast<std::size_t>(n_.blocks);
  const matrix<R> logits = rows_from(s.w->logits, row);
  R* d_normed = scratch<R, 0>(half_rows * width);
  R* nothing = scratch<R, 1>(width);
  std::fill_n(nothing, width, R(0));
  gemm(form::plain, form::plain, half_rows, width, n_.vocab, logits.at, logits.step,
       value(layout_.unembedding), width, R(0), d_normed, width);
  k_->norm_backward(constant(rows_of(s.w->x[top], row)), value(layout_.final_gain),
                    constant(rows_from(s.w->inverse, row)), {d_normed, width},
                    {nothing, 0}, rows_of(s.w->d_x[top], row),
                    s.w->d_gain.p + half * width, half_rows, width);
}

/// Whether this half holds the chunk's last row and nobody knows the token after it.
template <class R>
bool graph<R>::leaves_pending(const spot& s, int half) const {
  const lane_record& lane = s.pulse->lanes[static_cast<std::size_t>(s.lane)];
  return s.rows->ends_chunk && lane.leaves_pending &&
         (s.rows->last - 1) / half_rows == half;
}

template <class R>
void graph<R>::score_pending(pulse_record& record, int lane) {
  accesses_.reads(context(lane).pending.all());
  pulse_record* r = &record;
  record.results.push_back(task(
      "score_pending", [this, r, lane](const runtime::task_context&) -> result<void> {
        lane_record& lr = r->lanes[static_cast<std::size_t>(lane)];
        std::vector<R> logits(context(lane).pending.p,
                              context(lane).pending.p + n_.vocab);
        R nats = 0;
        k_->softmax(logits.data(), n_.vocab, &lr.first_token, 1, n_.vocab, R(0), &nats);
        WEIR_TRY(lr.pending_nats_q32, to_q32(static_cast<double>(nats)));
        return {};
      }));
}

}  // namespace weir::models
