// SPDX-License-Identifier: Apache-2.0
/// @file
/// Forward tasks of a window, from the embedding to the memories. The rest of a block is
/// in `mlp.hpp`, and the head is in `head.hpp`.
/// @source{Context stream design, 3.2}
#pragma once

#include <algorithm>

#include "prose/graph/graph.hpp"

namespace weir::models {

/// Sets of buffers that the windows of a pulse without backward work share in turn. Only
/// backward work needs the activations of all windows.
inline constexpr std::size_t window_ring = 3;

/// Sets the rows [from, to) of a matrix to zero; an empty range is allowed.
///
/// Products read whole windows.
template <class R>
void zero_rows(R* matrix, int from, int to, int width) {
  if (from < to) {
    std::fill(matrix + std::ptrdiff_t{from} * width, matrix + std::ptrdiff_t{to} * width,
              R(0));
  }
}

/// Submits the forward tasks of a lane, window by window and block by block.
///
/// The prediction that an earlier pulse left pending is scored first, before its logits
/// are replaced.
template <class R>
void graph<R>::forward(pulse_record& record, int lane) {
  lane_record& lr = record.lanes[static_cast<std::size_t>(lane)];
  if (lr.scores_pending) {
    score_pending(record, lane);
  }
  for (std::size_t i = 0; i < lr.windows.size(); ++i) {
    // Pulses that learn keep the activations of all windows.
    auto w = window_at(lane, record.builds ? i : i % window_ring);
    if (!w) {
      failed_ = std::make_shared<error>(w.error());
      return;
    }
    task_location s{&record, &lr.windows[i], *w, lane, 0, i};
    embed(s);
    // In the order of the computation; the engine orders by accesses anyway.
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
      for (int half = 0; half < 2; ++half) {
        out(s, half);
      }
      for (int half = 0; half < 2; ++half) {
        mlp(s, half);
      }
    }
    // The head in two halves.
    head(s, 0);
    head(s, 1);
  }
}

/// Submits the task that looks up the rows of the window in the embedding. In the last
/// window of a chunk it also advances the clock of the lane.
///
/// A row without a token is zero.
template <class R>
void graph<R>::embed(const task_location& s) {
  accesses_.reads(values(layout_.embedding)).writes(s.w->x[0].all());
  if (s.rows->ends_chunk) {
    accesses_.writes(context(s.lane).clock.all());
  }
  task("embed", s, [this](const task_location& here) -> result<void> {
    const R* table = value(layout_.embedding);
    R* x = here.w->x[0].data;
    for (int r = 0; r < window_rows; ++r, x += n_.width) {
      const std::int32_t id = here.rows->ids[r];
      if (id < 0) {
        std::fill_n(x, n_.width, R(0));
      } else {
        std::copy_n(table + std::ptrdiff_t{id} * n_.width, n_.width, x);
      }
    }
    // One task of the pulse writes the clock.
    if (here.rows->ends_chunk) {
      const lane_clock& after =
          here.pulse->lanes[static_cast<std::size_t>(here.lane)].after;
      std::uint64_t* clock = context(here.lane).clock.data;
      clock[0] = after.position;
      clock[1] = after.pending;
    }
    return {};
  });
}

/// Submits the task that computes the norm and the convolution of a block. Behind the
/// first block it also computes the block's input, as the sum that the block before left
/// in three parts.
///
/// The sum is not a task of its own, because it is short.
template <class R>
void graph<R>::norm_conv(const task_location& s) {
  const buffer<R>& x = s.w->x[static_cast<std::size_t>(s.b)];
  if (s.b == 0) {
    accesses_.reads(x.all());
  } else {
    reads_output(s, s.b - 1, 0, window_rows);
    accesses_.writes(x.all());
  }
  accesses_.reads(values(parameters(s).gain1, 2))
      .updates(context(s).tail.all())
      .writes(block_at(s).past.all());
  task("norm_conv", s, [this](const task_location& here) -> result<void> {
    if (here.b > 0) {
      sum_output(here, here.b - 1, 0, window_rows);
    }
    run_norm_conv(here);
    return {};
  });
}

/// Computes the new rows only. The rows before them come from `tail`, the last three rows
/// of the lane so far; the new last three rows replace it. Rows that are not new are
/// zero, because products take all 64 rows of the window.
template <class R>
void graph<R>::run_norm_conv(const task_location& s) {
  block& b = block_at(s);
  const int first = s.rows->first;
  const int last = s.rows->last;
  const std::ptrdiff_t width = n_.width;
  R* tail = context(s).tail.data;
  R* now = b.u + first * width;
  // A full window needs no zeros.
  if (partial(s)) {
    zero_rows(b.u, -3, first - 3, n_.width);
    zero_rows(b.u, last, window_rows, n_.width);
    zero_rows(b.z, 0, first, n_.width);
    zero_rows(b.z, last, window_rows, n_.width);
    std::fill_n(b.inverse1, window_rows, R(0));
  }
  // The rows before the first new one.
  std::copy_n(tail, 3 * width, now - 3 * width);
  const matrix<R> x = rows_of(s.w->x[static_cast<std::size_t>(s.b)], first);
  k_->norm_forward(constant(x), value(parameters(s).gain1), {now, width},
                   {b.inverse1 + first, 1}, last - first, n_.width);
  k_->conv_forward(now, value(parameters(s).conv), b.z + first * width, last - first,
                   n_.width);
  // Also if the window is open, as its rows are final.
  std::copy_n(b.u + (last - 3) * width, 3 * width, tail);
}

/// Submits the two products that compute keys, values, gates and queries of a block: one
/// for keys, values, gates and near queries, and one for far queries.
template <class R>
void graph<R>::project(const task_location& s) {
  const block& b = block_at(s);
  const block_parameters& p = parameters(s);
  // Both products have the same form.
  const auto submit_product = [&](const char* name, int parameter, int tensors,
                                  const buffer<R>& to, int columns) {
    accesses_.reads(b.past.all()).reads(values(parameter, tensors)).writes(to.all());
    task(
        name,
        [z = b.z, weights = value(parameter), out = to.data, columns,
         width = n_.width](const runtime::task_context&) -> result<void> {
          gemm(form::plain, form::transposed, window_rows, columns, width, z, width,
               weights, width, R(0), out, columns);
          return {};
        },
        priority::chain, parameter == p.key ? 0 : 1);
  };
  submit_product("project_keys", p.key, 2 + n_.levels + n_.near_levels, b.near, n_.near);
  if (n_.near_levels < n_.levels) {
    const auto first = static_cast<std::size_t>(n_.near_levels);
    // The queries of the far levels are neighbours.
    submit_product("project_queries", p.levels[first].query, n_.levels - n_.near_levels,
                   b.far, n_.stack - n_.near);
  }
}

/// Returns the arguments of the `keys` kernel for a head.
///
/// Rows of an open window come from the state.
template <class R>
key_head<R> graph<R>::keys_of(const task_location& s, int h) {
  key_head<R> k = block_at(s).heads[static_cast<std::size_t>(h)].head;
  R* open = context(s).open[static_cast<std::size_t>(h)].data;
  k.open_key = open;
  k.open_value = open + window_rows * head_width;
  k.first = s.rows->first;
  k.last = s.rows->last;
  k.gate_bias = value(parameters(s).levels[0].gate_bias);
  k.bias_stride = info(parameters(s).levels[0].gate_bias).padded();
  return k;
}

/// Submits the task that prepares what all levels of a head share.
///
/// An open window also keeps the rows in the state.
template <class R>
void graph<R>::keys(const task_location& s, int h) {
  block& b = block_at(s);
  const auto head = static_cast<std::size_t>(h);
  accesses_.reads(b.near.all())
      .reads(values(parameters(s).levels[0].gate_bias, n_.levels))
      .writes(b.heads[head].saved.all());
  if (partial(s)) {
    accesses_.updates(context(s).open[head].all());
  }
  task(
      "keys", s,
      [this, h](const task_location& here) -> result<void> {
        k_->keys(keys_of(here, h));
        return {};
      },
      priority::chain, h);
}

/// Returns the arguments of the memory kernels for one level of one head.
///
/// The state is that of the lane.
template <class R>
memory_head<R> graph<R>::memory_of(const task_location& s, int l, int h) {
  const auto level = static_cast<std::size_t>(l);
  const auto head = static_cast<std::size_t>(h);
  memory_state<R>& m = context(s).memories[level][head];
  const std::uint64_t frequency = config_.frequencies[level];
  memory_head<R> r = block_at(s).levels[level][head].head;
  r.first = s.rows->first;
  r.last = s.rows->last;
  r.saves_states = s.pulse->builds;
  // Slow levels fire at the ends of some windows.
  r.fires_at_end =
      frequency >= window_rows && (s.rows->index + 1) * window_rows % frequency == 0;
  r.open_theta = m.open.data;
  r.open_keep = m.open.data + window_rows;
  r.memory = m.memory.data;
  r.accumulator = m.accumulator.data;
  return r;
}

/// Submits the forward task of one level of one head. It only reads the memory as long as
/// the window is open, and updates it when the window is complete.
///
/// Different heads and levels run at the same time.
template <class R>
void graph<R>::memory(const task_location& s, int l, int h) {
  const auto level = static_cast<std::size_t>(l);
  const auto head = static_cast<std::size_t>(h);
  block& b = block_at(s);
  memory_state<R>& m = context(s).memories[level][head];
  accesses_.reads(l < n_.near_levels ? b.near.all() : b.far.all())
      .reads(b.heads[head].saved.all())
      .uses(m.both.all(), s.rows->last == window_rows)
      .writes(b.levels[level][head].saved.all())
      .writes(b.levels[level][head].y);
  if (partial(s)) {
    accesses_.updates(m.open.all());
  }
  task(
      "memory", s,
      [this, l, h](const task_location& here) -> result<void> {
        k_->memory_forward(memory_of(here, l, h));
        return {};
      },
      priority::chain, h);
}

}  // namespace weir::models
