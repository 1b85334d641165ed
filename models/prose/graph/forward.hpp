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
  block& b = at(s);
  accesses_.reads(s.w->x[static_cast<std::size_t>(s.b)].all())
      .reads(values(parameters(s).gain1))
      .reads(values(parameters(s).conv))
      .updates(context(s).tail.all())
      .writes(b.u.all())
      .writes(b.inverse1.all())
      .writes(b.z.all());
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
  R* now = b.u.p + (3 + first) * width;  // row `first` of the window
  if (partial(s)) {
    zero_rows(b.u.p, 0, first, n_.width);
    zero_rows(b.u.p, last + 3, window_rows + 3, n_.width);
    zero_rows(b.z.p, 0, first, n_.width);
    zero_rows(b.z.p, last, window_rows, n_.width);
    std::fill_n(b.inverse1.p, window_rows, R(0));
  }
  std::copy_n(tail, 3 * width, now - 3 * width);
  k_->norm_forward(s.w->x[static_cast<std::size_t>(s.b)].p + first * width,
                   value(parameters(s).gain1), now, b.inverse1.p + first, last - first,
                   n_.width);
  k_->conv_forward(now, value(parameters(s).conv), b.z.p + first * width, last - first,
                   n_.width);
  std::copy_n(b.u.p + last * width, 3 * width, tail);
}

template <class R>
void graph<R>::project(const spot& s) {
  block& b = at(s);
  const block_parameters& p = parameters(s);
  const auto one = [&](const char* name, int parameter, int tensors, const buffer<R>& out,
                       int rows) {
    const R* weights = value(parameter);
    R* to = out.p;
    const R* z = b.z.p;
    const int width = n_.width;
    accesses_.reads(b.z.all()).reads(values(parameter, tensors)).writes(out.all());
    task(name, [=](const runtime::task_context&) -> result<void> {
      gemm(form::plain, form::transposed, window_rows, rows, width, z, width, weights,
           width, R(0), to, rows);
      return {};
    });
  };
  one("project_keys", p.key, 1, b.keys, n_.inner);
  one("project_values", p.value, 1 + n_.levels, b.values, n_.inner + n_.gates);
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
  return k;
}

template <class R>
void graph<R>::keys(const spot& s, int h) {
  block& b = at(s);
  accesses_.reads(b.keys.columns(h * head_width, head_width, window_rows, n_.inner))
      .reads(
          b.values.columns(h * head_width, head_width, window_rows, n_.inner + n_.gates))
      .writes(b.heads[static_cast<std::size_t>(h)].saved.all());
  if (partial(s)) {
    accesses_.updates(context(s).open[static_cast<std::size_t>(h)].all());
  }
  task("keys", [this, s, h](const runtime::task_context&) -> result<void> {
    key_head<R> k = keys_of(s, h);
    k.raw_stride = n_.inner;
    k.raw_value_stride = n_.inner + n_.gates;
    k_->keys(k);
    return {};
  });
}

template <class R>
memory_head<R> graph<R>::memory_of(const spot& s, int l, int h) {
  const auto level = static_cast<std::size_t>(l);
  const auto head = static_cast<std::size_t>(h);
  block& b = at(s);
  memory_state<R>& m = context(s).memories[level][head];
  const key_head<R>& k = b.heads[head].head;
  const std::uint64_t frequency = config_.frequencies[level];
  memory_head<R> r = b.levels[level][head].head;
  r.first = s.rows->first;
  r.last = s.rows->last;
  r.keeps = s.pulse->builds;
  r.fires_at_end =
      frequency >= window_rows && (s.rows->index + 1) * window_rows % frequency == 0;
  r.raw_query = b.queries[level].p + h * head_width;
  r.raw_stride = n_.inner;
  r.gate_stride = n_.inner + n_.gates;
  r.raw_theta = b.values.p + n_.inner + l * 2 * n_.heads + h;
  r.raw_alpha = r.raw_theta + n_.heads;
  r.bias_theta = value(parameters(s).levels[level].gate_bias) + h;
  r.bias_alpha = r.bias_theta + n_.heads;
  r.key = k.key;
  r.key_t = k.key_t;
  r.value = k.value;
  r.key_key = k.key_key;
  r.open_theta = m.open.p;
  r.open_keep = m.open.p + window_rows;
  r.memory = m.memory.p;
  r.accumulator = m.accumulator.p;
  r.out_stride = n_.outs;
  const int column = l * n_.inner + h * head_width;
  r.out = b.y.p + column;
  r.d_out = b.d_y.p + column;
  r.d_query = b.d_stack.p + 2 * n_.inner + n_.gates + column;
  r.d_query_stride = n_.stack;
  return r;
}

template <class R>
void graph<R>::memory(const spot& s, int l, int h) {
  const auto level = static_cast<std::size_t>(l);
  const auto head = static_cast<std::size_t>(h);
  block& b = at(s);
  memory_state<R>& m = context(s).memories[level][head];
  const bool complete = s.rows->last == window_rows;
  accesses_
      .reads(b.queries[level].columns(h * head_width, head_width, window_rows, n_.inner))
      .reads(b.values.columns(n_.inner + l * 2 * n_.heads, 2 * n_.heads, window_rows,
                              n_.inner + n_.gates))
      .reads(values(parameters(s).levels[level].gate_bias))
      .reads(b.heads[head].saved.all())
      .uses(m.memory.all(), complete)
      .uses(m.accumulator.all(), complete)
      .writes(b.levels[level][head].saved.all())
      .writes(
          b.y.columns(l * n_.inner + h * head_width, head_width, window_rows, n_.outs));
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
  const auto rows = [&](const buffer<R>& matrix, int width) {
    return matrix.part(std::int64_t{half} * half_rows * width,
                       std::int64_t{half_rows} * width);
  };
  const auto in = static_cast<std::size_t>(s.b);
  accesses_.reads(rows(b.y, n_.outs))
      .reads(rows(s.w->x[in], n_.width))
      .reads(values(p.levels[0].out, n_.levels))
      .reads(values(p.gain2, 3))
      .writes(rows(b.x1, n_.width))
      .writes(rows(b.inverse2, 1))
      .writes(rows(b.normed2, n_.width))
      .writes(rows(b.relu, n_.hidden))
      .writes(rows(b.hidden, n_.hidden))
      .writes(rows(s.w->x[in + 1], n_.width));
  task("out_mlp", [this, s, half](const runtime::task_context&) -> result<void> {
    run_out_mlp(s, half);
    return {};
  });
}

template <class R>
void graph<R>::run_out_mlp(const spot& s, int half) {
  block& b = at(s);
  const block_parameters& p = parameters(s);
  const auto in = static_cast<std::size_t>(s.b);
  const int row = half * half_rows;
  const int width = n_.width;
  const int hidden = n_.hidden;
  R* x1 = b.x1.p + row * width;
  R* x = s.w->x[in + 1].p + row * width;
  R* relu = b.relu.p + row * hidden;
  R* squared = b.hidden.p + row * hidden;
  R* normed = b.normed2.p + row * width;
  std::copy_n(s.w->x[in].p + row * width, half_rows * width, x1);
  gemm(form::plain, form::plain, half_rows, width, n_.outs, b.y.p + row * n_.outs,
       n_.outs, value(p.levels[0].out), width, R(1), x1, width);
  k_->norm_forward(x1, value(p.gain2), normed, b.inverse2.p + row, half_rows, width);
  gemm(form::plain, form::transposed, half_rows, hidden, width, normed, width,
       value(p.mlp_in), width, R(0), relu, hidden);
  k_->square_forward(relu, squared, half_rows * hidden);
  std::copy_n(x1, half_rows * width, x);
  gemm(form::plain, form::plain, half_rows, width, hidden, squared, hidden,
       value(p.mlp_out), width, R(1), x, width);
}

template <class R>
void graph<R>::head(const spot& s, int half) {
  const auto rows = [&](const buffer<R>& matrix, int width) {
    return matrix.part(std::int64_t{half} * half_rows * width,
                       std::int64_t{half_rows} * width);
  };
  const auto top = static_cast<std::size_t>(n_.blocks);
  const lane_record& lane = s.pulse->lanes[static_cast<std::size_t>(s.lane)];
  accesses_.reads(rows(s.w->x[top], n_.width))
      .reads(values(layout_.final_gain, 2))
      .writes(rows(s.w->inverse, 1))
      .writes(rows(s.w->normed, n_.width))
      .writes(rows(s.w->logits, n_.logit_stride));
  if (s.pulse->builds) {
    accesses_.writes(rows(s.w->d_x[top], n_.width))
        .writes(s.w->d_gain.part(std::int64_t{half} * n_.width, n_.width));
  }
  if (s.rows->ends_chunk && lane.leaves_pending &&
      (s.rows->last - 1) / half_rows == half) {
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
  const int width = n_.width;
  R* logits = s.w->logits.p + row * n_.logit_stride;
  R* normed = s.w->normed.p + row * width;
  k_->norm_forward(s.w->x[static_cast<std::size_t>(n_.blocks)].p + row * width,
                   value(layout_.final_gain), normed, s.w->inverse.p + row, half_rows,
                   width);
  gemm(form::plain, form::transposed, half_rows, n_.vocab, width, normed, width,
       value(layout_.unembedding), width, R(0), logits, n_.logit_stride);
  keep_pending(s, half);
  R scale = 0;
  if (s.pulse->builds) {
    scale = s.pulse->scored == 0 ? R(1) : R(1) / static_cast<R>(s.pulse->scored);
  }
  R nats[half_rows];
  k_->softmax(logits, n_.logit_stride, s.rows->targets + row, half_rows, n_.vocab, scale,
              nats);
  std::uint64_t total = 0;
  double plain = 0;
  for (R x : nats) {
    WEIR_TRY(const auto one, to_q32(static_cast<double>(x)));
    total += one;
    plain += static_cast<double>(x);
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
  std::vector<R> scratch(static_cast<std::size_t>(2 * half_rows * width), R(0));
  R* d_normed = scratch.data();
  const R* nothing = scratch.data() + half_rows * width;
  gemm(form::plain, form::plain, half_rows, width, n_.vocab,
       s.w->logits.p + row * n_.logit_stride, n_.logit_stride, value(layout_.unembedding),
       width, R(0), d_normed, width);
  k_->norm_backward(s.w->x[top].p + row * width, value(layout_.final_gain),
                    s.w->inverse.p + row, d_normed, nothing,
                    s.w->d_x[top].p + row * width, s.w->d_gain.p + half * width,
                    half_rows, width);
}

template <class R>
void graph<R>::keep_pending(const spot& s, int half) {
  const lane_record& lane = s.pulse->lanes[static_cast<std::size_t>(s.lane)];
  const int last = s.rows->last - 1;
  if (s.rows->ends_chunk && lane.leaves_pending && last / half_rows == half) {
    std::copy_n(s.w->logits.p + last * n_.logit_stride, n_.vocab,
                context(s.lane).pending.p);
  }
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
