// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sizes of the graph's buffers, and their allocation.
///
/// Buffers of a window are allocated when a pulse first needs them. All arrays that one
/// task writes are pieces of one buffer, so that the task has few accesses.
#pragma once

#include "prose/graph/graph.hpp"

#include <algorithm>

namespace weir::models {

/// The products that the kernels need, computed once.
inline graph_sizes::graph_sizes(const prose_config& c)
    : vocab(static_cast<int>(c.vocab)),
      width(static_cast<int>(c.width)),
      blocks(static_cast<int>(c.blocks)),
      levels(static_cast<int>(c.frequencies.size())),
      // All members fit, as the configuration is checked.
      heads(static_cast<int>(c.heads)),
      hidden(static_cast<int>(c.hidden)),
      lanes(static_cast<int>(c.lanes)),
      inner(heads * head_width),
      gates(2 * heads * levels),
      stack(2 * inner + gates + levels * inner),
      outs(levels * inner),
      key_columns(2 * inner + gates),
      near_levels((levels * inner - key_columns + 2 * inner - 1) / (2 * inner)),
      near(0),
      half_hidden(hidden / 2),
      first_outs((levels * heads + 1) / 2 * head_width),
      head_stride(width + 16 + align_up(vocab, 16)) {
  // The projections of a block are two products that run as two tasks: keys, values,
  // gates and the queries of the near levels, and the queries of the far levels. The
  // number of near levels makes both about equally wide.
  near_levels = std::clamp(near_levels, 1, levels);
  near = key_columns + near_levels * inner;
}

/// Cuts an array into pieces. The length of each piece is rounded up to a multiple of 16
/// elements, so that kernels may process whole blocks.
///
/// The array must be aligned for the kernels.
template <class R>
class cutter {
 public:
  /// Begins at the first element of the array.
  explicit cutter(R* first) : next_(first) {}
  /// Returns the next piece, of at least `count` elements.
  R* take(int count) {
    R* piece = next_;
    next_ += align_up(count, 16);
    return piece;
  }

 private:
  R* next_;
};

// Elements of a memory, of the rows of a head, and of the products of rows with rows.
inline constexpr int square_size = head_width * head_width;
inline constexpr int rows_size = window_rows * head_width;
inline constexpr int scores_size = window_rows * window_rows;

/// Nothing is allocated later but buffers of windows.
template <class R>
result<std::unique_ptr<graph<R>>> graph<R>::create(task_runner runner,
                                                   const prose_config& config,
                                                   const kernel_table<R>& kernels,
                                                   const buffer<R>& shared_sum) {
  // Lanes are added in the order of a tree.
  WEIR_TRY(const auto over_lanes, collective::reducer::make({dtype_of<R>}));
  std::unique_ptr<graph> g(new graph(std::move(runner), config, kernels, over_lanes,
                                     shared_sum.data != nullptr));
  WEIR_TRY(g->state_, make_state<R>(g->runner_, config, g->layout_));
  WEIR_CHECK(g->allocate_gradients(shared_sum));
  // Two sets, for pulses that overlap.
  g->windows_.resize(2);
  for (auto& slot : g->windows_) {
    slot.resize(config.lanes);
  }
  return g;
}

template <class R>
result<void> graph<R>::allocate_gradients(const buffer<R>& shared_sum) {
  for (int lane = 0; lane < n_.lanes; ++lane) {
    lane_gradients<R> g;
    // The first lane collects the sum, in memory that devices share.
    if (lane == 0 && shares_) {
      g.all = shared_sum;
    } else {
      WEIR_TRY(g.all, runner_.template allocate<R>(layout_.size(), "gradients"));
    }
    g.memories.resize(static_cast<std::size_t>(n_.blocks));
    for (auto& levels : g.memories) {
      levels.resize(static_cast<std::size_t>(n_.levels));
      for (auto& level : levels) {
        for (int h = 0; h < n_.heads; ++h) {
          // Memory and accumulator of a level, as in the state.
          WEIR_TRY(auto m, runner_.template allocate<R>(2 * square_size, "gradients"));
          level.push_back(m);
        }
      }
    }
    gradients_.push_back(std::move(g));
  }
  const auto count = static_cast<std::int64_t>(layout_.all().size());
  // One number for each parameter, in double precision.
  WEIR_TRY(squares_, runner_.template allocate<double>(count, "gradients"));
  WEIR_TRY(plan_, runner_.template allocate<step_plan<R>>(n_.levels, "gradients"));
  return {};
}

/// Allocates the buffers of one level of one head. Which of them exist depends on the
/// form in which the level is computed: see `memory_forward`.
template <class R>
result<level_buffers<R>> graph<R>::allocate_level(std::uint64_t frequency) {
  // Levels below the limit are solved as a system.
  const bool solved = frequency < min_segment;
  const bool segments = !solved && frequency < window_rows;
  level_buffers<R> l;
  // Padding makes five pieces of up to 65 elements at most 80 elements long.
  std::int64_t count = square_size + 2 * rows_size + 5 * 80;
  // Only buffers of the form are allocated.
  if (solved) {
    count += 2 * rows_size + scores_size + table_rows * window_rows;
  } else {
    count += square_size;
  }
  if (segments) {
    count += window_rows / static_cast<int>(frequency) * square_size;
  }
  WEIR_TRY(l.saved, runner_.template allocate<R>(count, "activations"));
  WEIR_TRY(l.d_saved,
           runner_.template allocate<R>(2 * rows_size + 2 * window_rows, "activations"));
  // The order must be the same each time, as nothing else names the pieces.
  cutter<R> cut(l.saved.data);
  memory_head<R>& h = l.head;
  h.frequency = static_cast<int>(frequency);
  h.memory_before = cut.take(square_size);
  h.query = cut.take(rows_size);
  h.error = cut.take(rows_size);
  h.query_inverse = cut.take(window_rows);
  h.theta = cut.take(window_rows);
  h.theta_slope = cut.take(window_rows);
  h.keep = cut.take(window_rows);
  if (solved) {
    // Products with the memory before the window.
    h.key_memory = cut.take(rows_size);
    h.query_memory = cut.take(rows_size);
    h.before = cut.take(table_rows);
    h.query_key = cut.take(scores_size);
    h.table = cut.take(table_rows * window_rows);
  } else {
    // The memory after a window, and after each segment.
    h.memory_after = cut.take(square_size);
  }
  if (segments) {
    h.states = cut.take(window_rows / static_cast<int>(frequency) * square_size);
  }
  // Gradients for one task of the keys.
  h.d_key = l.d_saved.data;
  h.d_value = h.d_key + rows_size;
  h.d_theta = h.d_value + rows_size;
  h.d_alpha = h.d_theta + window_rows;
  return l;
}

/// What all levels of a head share.
template <class R>
result<void> graph<R>::allocate_heads(block& b) {
  const int gates = 2 * n_.levels * window_rows;
  const int size = 3 * rows_size + window_rows + scores_size + gates;
  for (int h = 0; h < n_.heads; ++h) {
    key_buffers<R> k;
    WEIR_TRY(k.saved, runner_.template allocate<R>(size, "activations"));
    const int column = h * head_width;
    // Columns of the gradients of the projections.
    k.d_key = b.d_stack.columns(column, head_width, window_rows, n_.stack);
    k.d_value = b.d_stack.columns(n_.inner + column, head_width, window_rows, n_.stack);
    cutter<R> cut(k.saved.data);
    k.head.key = cut.take(rows_size);
    k.head.key_t = cut.take(rows_size);
    k.head.value = cut.take(rows_size);
    k.head.inverse = cut.take(window_rows);
    k.head.key_key = cut.take(scores_size);
    k.head.gates = cut.take(gates);
    // The kernel reads the projections in place.
    k.head.raw_key = b.near.data + column;
    k.head.raw_value = k.head.raw_key + n_.inner;
    k.head.raw_gates = b.near.data + 2 * n_.inner;
    k.head.raw_stride = n_.near;
    k.head.levels = n_.levels;
    k.head.heads = n_.heads;
    k.head.head = h;
    b.heads.push_back(k);
  }
  return {};
}

/// Points the kernel's arguments of a level to the parts of shared arrays that are its
/// own: columns of the projections, of `y`, and of their gradients.
template <class R>
void graph<R>::place_level(block& b, int l, int h, level_buffers<R>& buffers) {
  // The columns of the levels follow each other.
  const int column = l * n_.inner + h * head_width;
  const bool second = column >= n_.first_outs;
  // The gradient of `y` is written by two tasks, so it has two buffers.
  const buffer<R>& d_y = b.halves[second ? 1 : 0].d_y;
  const int d_stride = second ? n_.outs - n_.first_outs : n_.first_outs;
  const int d_column = second ? column - n_.first_outs : column;
  const bool far = l >= n_.near_levels;
  const key_head<R>& k = b.heads[static_cast<std::size_t>(h)].head;
  memory_head<R>& m = buffers.head;
  // Queries of far levels are in another product.
  m.raw_query = far ? b.far.data + column - n_.near_levels * n_.inner
                    : b.near.data + n_.key_columns + column;
  m.raw_stride = far ? n_.stack - n_.near : n_.near;
  m.gates = k.gates + 2 * l * window_rows;
  // The keys are those of the head, for all levels.
  m.key = k.key;
  m.key_t = k.key_t;
  m.value = k.value;
  m.key_key = k.key_key;
  m.out = b.y.data + column;
  m.out_stride = n_.outs;
  m.d_out = d_y.data + d_column;
  m.d_out_stride = d_stride;
  m.d_query = b.d_stack.data + n_.key_columns + column;
  m.d_query_stride = n_.stack;
  buffers.y = b.y.columns(column, head_width, window_rows, n_.outs);
  buffers.d_y = d_y.columns(d_column, head_width, window_rows, d_stride);
  buffers.d_query =
      b.d_stack.columns(n_.key_columns + column, head_width, window_rows, n_.stack);
}

/// Must come after the heads, whose arrays the levels use.
template <class R>
result<void> graph<R>::allocate_levels(block& b) {
  for (int l = 0; l < n_.levels; ++l) {
    std::vector<level_buffers<R>> level;
    for (int h = 0; h < n_.heads; ++h) {
      WEIR_TRY(auto buffers,
               allocate_level(config_.frequencies[static_cast<std::size_t>(l)]));
      place_level(b, l, h, buffers);
      level.push_back(buffers);
    }
    b.levels.push_back(std::move(level));
  }
  return {};
}

template <class R>
result<void> graph<R>::allocate_halves(block& b) {
  constexpr std::int64_t w = window_rows;
  for (int half = 0; half < 2; ++half) {
    half_buffers<R>& t = b.halves[static_cast<std::size_t>(half)];
    const std::int64_t wide = w * n_.half_hidden;
    // The second half may have no heads.
    const int outs = half == 0 ? n_.first_outs : n_.outs - n_.first_outs;
    WEIR_TRY(t.wide, runner_.template allocate<R>(2 * wide, "activations"));
    WEIR_TRY(t.out, runner_.template allocate<R>(w * n_.width, "activations"));
    WEIR_TRY(t.back, runner_.template allocate<R>(wide + w * n_.width, "activations"));
    if (outs > 0) {
      WEIR_TRY(t.d_y, runner_.template allocate<R>(w * outs, "activations"));
    }
    // Both arrays of a layer in one buffer.
    t.relu = t.wide.data;
    t.hidden = t.wide.data + wide;
    t.d_hidden = t.back.data;
    t.d_normed = t.back.data + wide;
  }
  return {};
}

template <class R>
result<void> graph<R>::allocate_block(block& b) {
  // Allocates a matrix.
  const auto get = [&](buffer<R>& to, int rows, int columns) -> result<void> {
    if (columns == 0) {
      return {};  // `far` is empty if all levels are near
    }
    WEIR_TRY(to,
             runner_.template allocate<R>(std::int64_t{rows} * columns, "activations"));
    return {};
  };
  constexpr int w = window_rows;
  WEIR_CHECK(get(b.past, 1, (w + 3 + w) * n_.width + w));
  // Three rows in front of the window, then the rows themselves.
  b.u = b.past.data + 3 * n_.width;
  b.z = b.u + w * n_.width;
  b.inverse1 = b.z + w * n_.width;
  WEIR_CHECK(get(b.near, w, n_.near));
  WEIR_CHECK(get(b.far, w, n_.stack - n_.near));
  WEIR_CHECK(get(b.y, w, n_.outs));
  WEIR_CHECK(get(b.x1, w, n_.width));
  WEIR_CHECK(get(b.normed2, w, n_.width + 1));
  b.inverse2 = b.normed2.data + w * n_.width;
  WEIR_CHECK(get(b.d_x1, w + 1, n_.width));
  WEIR_CHECK(get(b.d_stack, w, n_.stack));
  WEIR_CHECK(get(b.d_z, w + 3, n_.width));
  // Parts that tasks declare.
  b.d_gates = b.d_stack.columns(2 * n_.inner, n_.key_columns - 2 * n_.inner, w, n_.stack);
  b.d_near = b.d_stack.columns(0, n_.near, w, n_.stack);
  b.d_far = b.d_stack.columns(n_.near, n_.stack - n_.near, w, n_.stack);
  for (int half = 0; half < 2; ++half) {
    const int first = half * n_.width / 2;
    b.x1_halves[static_cast<std::size_t>(half)] =
        b.x1.columns(first, n_.width / 2, w, n_.width);
    b.d_z_halves[static_cast<std::size_t>(half)] =
        b.d_z.columns(first, n_.width / 2, w, n_.width);
  }
  WEIR_CHECK(allocate_halves(b));
  WEIR_CHECK(allocate_heads(b));
  // Heads before levels, and both behind the projections.
  return allocate_levels(b);
}

template <class R>
result<void> graph<R>::allocate_window(window& w) {
  // One more than there are blocks: the input of each, and the output of the last.
  for (int b = 0; b <= n_.blocks; ++b) {
    const std::int64_t size = std::int64_t{window_rows} * n_.width;
    WEIR_TRY(auto x, runner_.template allocate<R>(size, "activations"));
    WEIR_TRY(auto d, runner_.template allocate<R>(size, "activations"));
    w.x.push_back(x);
    w.d_x.push_back(d);
  }
  for (int b = 0; b < n_.blocks; ++b) {
    w.blocks.emplace_back();
    WEIR_CHECK(allocate_block(w.blocks.back()));
  }
  // Norm, inverse and logits of a row are neighbours.
  WEIR_TRY(w.head, runner_.template allocate<R>(
                       std::int64_t{window_rows} * n_.head_stride, "activations"));
  w.normed = {w.head.data, n_.head_stride};
  w.inverse = {w.head.data + n_.width, n_.head_stride};
  w.logits = {w.head.data + n_.width + 16, n_.head_stride};
  WEIR_TRY(w.d_gain,
           runner_.template allocate<R>(2 * std::int64_t{n_.width}, "activations"));
  return {};
}

/// Windows are only added, so addresses stay valid.
template <class R>
result<window_buffers<R>*> graph<R>::window_at(int lane, std::size_t index) {
  auto& all = windows_[slot_][static_cast<std::size_t>(lane)];
  while (all.size() <= index) {
    auto w = std::make_unique<window>();
    WEIR_CHECK(allocate_window(*w));
    all.push_back(std::move(w));
  }
  return all[index].get();
}

/// The parameters must be neighbours.
template <class R>
runtime::footprint graph<R>::values(int parameter, int count) const {
  const parameter_info& first = info(parameter);
  const parameter_info& last = info(parameter + count - 1);
  return state_.parameters.part(first.offset, last.offset + last.padded() - first.offset);
}

}  // namespace weir::models
