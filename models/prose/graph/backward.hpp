// SPDX-License-Identifier: Apache-2.0
/// @file
/// Backward tasks of a window that carry gradients from layer to layer. The gradients of
/// the weights are in `gradients.hpp`.
/// @source{Context stream design, 3.3}
#pragma once

#include <algorithm>

#include "prose/graph/graph.hpp"

namespace weir::models {

/// Submits the backward tasks of a lane, from the last window of its chunk to the first.
/// In each block the tasks of the chain come first; the gradients of weights follow,
/// because no later layer waits for them.
///
/// Errors are noted, and reported by the submission.
template <class R>
void graph<R>::backward(pulse_record& record, int lane) {
  lane_record& lr = record.lanes[static_cast<std::size_t>(lane)];
  for (std::size_t i = lr.windows.size(); i-- > 0;) {
    auto w = window_at(lane, i);
    if (!w) {
      failed_ = std::make_shared<error>(w.error());
      return;
    }
    task_location s{&record, &lr.windows[i], *w, lane, 0, i};
    head_weights(s);
    // From the last block to the first.
    for (s.b = n_.blocks - 1; s.b >= 0; --s.b) {
      // Both halves of the part with two layers.
      for (int half = 0; half < 2; ++half) {
        mlp_backward(s, half);
      }
      out_backward(s, 0);
      if (n_.first_outs < n_.outs) {
        out_backward(s, 1);
      }
      for (int l = 0; l < n_.levels; ++l) {
        for (int h = 0; h < n_.heads; ++h) {
          memory_backward(s, l, h);
        }
      }
      for (int h = 0; h < n_.heads; ++h) {
        keys_backward(s, h);
      }
      stack_backward(s, 0);
      stack_backward(s, 1);
      conv_backward(s);
      mlp_weights(s);
      out_weights(s);
      far_weights(s);
      near_weights(s);
    }
    s.b = 0;
    embedding_weights(s);
  }
}

/// Submits the backward task of one level of one head. Between the windows of a chunk,
/// the gradient of the memory is passed on in `between`, which belongs to the lane: the
/// task reads the gradient after the window from it and leaves the one before the window.
///
/// A level that nobody reads later has no gradient behind the window.
template <class R>
void graph<R>::memory_backward(const task_location& s, int l, int h) {
  const auto level = static_cast<std::size_t>(l);
  const auto head = static_cast<std::size_t>(h);
  block& b = block_at(s);
  const lane_record& lane = s.pulse->lanes[static_cast<std::size_t>(s.lane)];
  // Other windows of the chunk come before or after this one.
  const bool precedes = s.rows != &lane.windows.front();
  const bool follows = !s.rows->ends_chunk;
  const buffer<R>& between = gradients_[static_cast<std::size_t>(s.lane)]
                                 .memories[static_cast<std::size_t>(s.b)][level][head];
  const level_buffers<R>& own = b.levels[level][head];
  accesses_.reads(own.d_y)
      .reads(own.saved.all())
      .reads(b.heads[head].saved.all())
      .writes(own.d_saved.all())
      .writes(own.d_query);
  if (precedes || follows) {
    accesses_.updates(between.all());
  }
  // Memory and accumulator are one buffer.
  R* d_memory = between.data;
  task(
      "memory_backward", s,
      [this, l, h, precedes, follows,
       d_memory](const task_location& here) -> result<void> {
        memory_head<R> m = memory_of(here, l, h);
        m.wants_gradient_before = precedes;
        m.has_gradient_after = follows;
        m.d_memory = d_memory;
        m.d_accumulator = d_memory + head_width * head_width;
        k_->memory_backward(m);
        return {};
      },
      priority::chain, h);
}

/// Submits the task that adds the gradients of a head's keys and values over its levels.
/// The task of head 0 also copies the gradients of all gates, because the columns of the
/// heads' gates are interleaved and one footprint covers them all.
///
/// The sum has the order of the levels.
template <class R>
void graph<R>::keys_backward(const task_location& s, int h) {
  block& b = block_at(s);
  const auto head = static_cast<std::size_t>(h);
  for (const auto& level : b.levels) {
    for (std::size_t i = 0; i < level.size(); ++i) {
      // Head 0 reads the gates of all heads.
      if (h == 0 || i == head) {
        accesses_.reads(level[i].d_saved.all());
      }
    }
  }
  accesses_.reads(b.heads[head].saved.all())
      .writes(b.heads[head].d_key)
      .writes(b.heads[head].d_value);
  if (h == 0) {
    accesses_.writes(b.d_gates);
  }
  task(
      "keys_backward", s,
      [this, h](const task_location& here) -> result<void> {
        if (h == 0) {
          gates_backward(block_at(here));
        }
        run_keys_backward(here, h);
        return {};
      },
      priority::chain, h);
}

/// Copies the gradients of all gates of a block to their columns of `d_stack`.
///
/// The columns are those of the gates in the projections.
template <class R>
void graph<R>::gates_backward(block& b) {
  for (int h = 0; h < n_.heads; ++h) {
    for (int l = 0; l < n_.levels; ++l) {
      const memory_head<R>& m =
          b.levels[static_cast<std::size_t>(l)][static_cast<std::size_t>(h)].head;
      R* theta = b.d_stack.data + 2 * n_.inner + l * 2 * n_.heads + h;
      R* alpha = theta + n_.heads;
      for (int r = 0; r < window_rows; ++r) {
        theta[r * n_.stack] = m.d_theta[r];
        alpha[r * n_.stack] = m.d_alpha[r];
      }
    }
  }
}

template <class R>
void graph<R>::run_keys_backward(const task_location& s, int h) {
  block& b = block_at(s);
  const R* d_keys[max_levels];
  const R* d_values[max_levels];
  for (int l = 0; l < n_.levels; ++l) {
    const memory_head<R>& m =
        b.levels[static_cast<std::size_t>(l)][static_cast<std::size_t>(h)].head;
    d_keys[l] = m.d_key;
    d_values[l] = m.d_value;
  }
  // Key and value of a head are a fixed distance apart.
  R* d_key = b.d_stack.data + h * head_width;
  k_->keys_backward(keys_of(s, h), d_keys, d_values, n_.levels, d_key, d_key + n_.inner,
                    n_.stack);
}

/// Submits the product that carries the gradients of keys, values, gates and queries back
/// through their weights, for half of the columns of z.
template <class R>
void graph<R>::stack_backward(const task_location& s, int half) {
  block& b = block_at(s);
  const block_parameters& p = parameters(s);
  // One product covers all weights, which are neighbours.
  accesses_.reads(b.d_stack.all())
      .reads(values(p.key, 2 + 2 * n_.levels))
      .writes(b.d_z_halves[static_cast<std::size_t>(half)]);
  task(
      "stack_backward", s,
      [this, half](const task_location& here) -> result<void> {
        const block& t = block_at(here);
        const int columns = n_.width / 2;
        const int first = half * columns;
        gemm(form::plain, form::plain, window_rows, columns, n_.stack, t.d_stack.data,
             n_.stack, value(parameters(here).key) + first, n_.width, R(0),
             t.d_z.data + first, n_.width);
        return {};
      },
      priority::chain, half);
}

/// Submits the task that goes back through the convolution and the norm. A row of the
/// convolution reaches three rows further, so the task needs the gradients of the first
/// three rows of the next window, if the chunk has one.
///
/// The gradients of taps and gain are vectors.
template <class R>
void graph<R>::conv_backward(const task_location& s) {
  block& b = block_at(s);
  const block_parameters& p = parameters(s);
  const auto in = static_cast<std::size_t>(s.b);
  accesses_.updates(b.d_z.all())
      .reads(b.past.all())
      .reads(s.w->x[in].all())
      .reads(b.d_x1.all())
      .reads(values(p.gain1, 2))
      .writes(s.w->d_x[in].all())
      .updates(gradient_part(s.lane, p.gain1, 2))
      .writes(squares_part(p.gain1, 2));
  const R* rows_after = nullptr;
  if (!s.rows->ends_chunk) {
    const auto& windows = s.pulse->lanes[static_cast<std::size_t>(s.lane)].windows;
    // The next window was processed before this one.
    const auto next = static_cast<std::size_t>(s.rows - windows.data()) + 1;
    const buffer<R>& d_z =
        windows_[slot_][static_cast<std::size_t>(s.lane)][next]->blocks[in].d_z;
    accesses_.reads(d_z.part(0, 3 * std::int64_t{n_.width}));
    rows_after = d_z.data;
  }
  task("conv_backward", s, [this, rows_after](const task_location& here) -> result<void> {
    // The rows behind the window, which `run_conv_backward` reads.
    R* last_rows = block_at(here).d_z.data + window_rows * n_.width;
    if (rows_after != nullptr) {
      std::copy_n(rows_after, 3 * n_.width, last_rows);
    } else {
      std::fill_n(last_rows, 3 * n_.width, R(0));
    }
    run_conv_backward(here);
    return {};
  });
}

template <class R>
void graph<R>::run_conv_backward(const task_location& s) {
  block& b = block_at(s);
  const block_parameters& p = parameters(s);
  const auto in = static_cast<std::size_t>(s.b);
  const int width = n_.width;
  // Gradients of inputs, taps and gain, in one piece.
  R* d_u = scratch<R>((window_rows + conv_taps + 1) * width);
  R* d_taps = d_u + window_rows * width;
  R* d_gain = d_taps + conv_taps * width;
  k_->conv_backward(b.u, value(p.conv), b.d_z.data, d_u, d_taps, window_rows, width);
  k_->norm_backward(constant(rows_of(s.w->x[in], 0)), value(p.gain1), {b.inverse1, 1},
                    {d_u, width}, {b.d_x1.data, width}, rows_of(s.w->d_x[in], 0), d_gain,
                    window_rows, width);
  // The convolution first, in the order of the parameters.
  vector_gradient(s, p.conv, d_taps);
  vector_gradient(s, p.gain1, d_gain);
}

}  // namespace weir::models
