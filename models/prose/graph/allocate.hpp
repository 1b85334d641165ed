// SPDX-License-Identifier: Apache-2.0
/// @file
/// Allocation of the graph's buffers, and the order in which a pulse's tasks are
/// submitted.
#pragma once

#include "prose/graph/graph.hpp"

#include <algorithm>

namespace weir::models {

inline graph_sizes::graph_sizes(const prose_config& c)
    : vocab(static_cast<int>(c.vocab)),
      width(static_cast<int>(c.width)),
      blocks(static_cast<int>(c.blocks)),
      levels(static_cast<int>(c.frequencies.size())),
      heads(static_cast<int>(c.heads)),
      hidden(static_cast<int>(c.hidden)),
      lanes(static_cast<int>(c.lanes)),
      inner(heads * head_width),
      gates(2 * heads * levels),
      stack(2 * inner + gates + levels * inner),
      outs(levels * inner),
      logit_stride(align_up(vocab, 16)) {}

/// Cuts an array into pieces of multiples of 16 elements.
template <class R>
class cutter {
 public:
  explicit cutter(R* from) : at_(from) {}
  R* take(int count) {
    R* piece = at_;
    at_ += align_up(count, 16);
    return piece;
  }

 private:
  R* at_;
};

inline constexpr int square_size = head_width * head_width;
inline constexpr int rows_size = window_rows * head_width;
inline constexpr int scores_size = window_rows * window_rows;

template <class R>
result<std::unique_ptr<graph<R>>> graph<R>::create(task_place place,
                                                   const prose_config& config,
                                                   const kernel_table<R>& kernels) {
  std::unique_ptr<graph> g(new graph(std::move(place), config, kernels));
  WEIR_TRY(g->state_, make_state<R>(g->place_, config, g->layout_));
  WEIR_CHECK(g->allocate_gradients());
  g->groups_ = step_groups(g->layout_);
  g->windows_.resize(2);
  for (auto& slot : g->windows_) {
    slot.resize(config.lanes);
  }
  return g;
}

template <class R>
result<void> graph<R>::allocate_gradients() {
  for (int lane = 0; lane < n_.lanes; ++lane) {
    lane_gradients<R> g;
    WEIR_TRY(g.all, place_.template allocate<R>(layout_.size(), "gradients"));
    g.memories.resize(static_cast<std::size_t>(n_.blocks));
    for (auto& levels : g.memories) {
      levels.resize(static_cast<std::size_t>(n_.levels));
      for (auto& level : levels) {
        for (int h = 0; h < n_.heads; ++h) {
          WEIR_TRY(auto m, place_.template allocate<R>(2 * square_size, "gradients"));
          level.push_back(m);
        }
      }
    }
    gradients_.push_back(std::move(g));
  }
  const auto count = static_cast<std::int64_t>(layout_.all().size());
  WEIR_TRY(squares_, place_.template allocate<double>(count, "gradients"));
  WEIR_TRY(plan_, place_.template allocate<step_plan<R>>(n_.levels, "gradients"));
  return {};
}

template <class R>
result<level_buffers<R>> graph<R>::allocate_level(std::uint64_t frequency) {
  const bool solved = frequency < window_rows;
  level_buffers<R> l;
  const int rows = solved ? 4 : 2;
  const int vectors = 4 + 1;
  std::int64_t count = square_size + rows * rows_size + vectors * 80;
  if (solved) {
    count += scores_size + table_rows * window_rows;
  }
  WEIR_TRY(l.saved, place_.template allocate<R>(count, "activations"));
  WEIR_TRY(l.d_shared, place_.template allocate<R>(2 * rows_size, "activations"));
  WEIR_TRY(l.d_gates, place_.template allocate<R>(2 * window_rows, "activations"));
  cutter<R> cut(l.saved.p);
  memory_head<R>& h = l.head;
  h.frequency = static_cast<int>(std::min<std::uint64_t>(frequency, window_rows));
  h.memory_before = cut.take(square_size);
  h.query = cut.take(rows_size);
  h.error = cut.take(rows_size);
  h.query_inverse = cut.take(window_rows);
  h.theta = cut.take(window_rows);
  h.theta_slope = cut.take(window_rows);
  h.keep = cut.take(window_rows);
  if (solved) {
    h.key_memory = cut.take(rows_size);
    h.query_memory = cut.take(rows_size);
    h.before = cut.take(table_rows);
    h.query_key = cut.take(scores_size);
    h.table = cut.take(table_rows * window_rows);
  }
  h.d_key = l.d_shared.p;
  h.d_value = l.d_shared.p + rows_size;
  h.d_theta = l.d_gates.p;
  h.d_alpha = l.d_gates.p + window_rows;
  return l;
}

template <class R>
result<void> graph<R>::allocate_heads(block& b) {
  for (int h = 0; h < n_.heads; ++h) {
    key_buffers<R> k;
    WEIR_TRY(k.saved, place_.template allocate<R>(
                          3 * rows_size + window_rows + scores_size, "activations"));
    cutter<R> cut(k.saved.p);
    k.head.key = cut.take(rows_size);
    k.head.key_t = cut.take(rows_size);
    k.head.value = cut.take(rows_size);
    k.head.inverse = cut.take(window_rows);
    k.head.key_key = cut.take(scores_size);
    k.head.raw_key = b.keys.p + h * head_width;
    k.head.raw_value = b.values.p + h * head_width;
    b.heads.push_back(k);
  }
  for (int l = 0; l < n_.levels; ++l) {
    std::vector<level_buffers<R>> level;
    for (int h = 0; h < n_.heads; ++h) {
      WEIR_TRY(auto one,
               allocate_level(config_.frequencies[static_cast<std::size_t>(l)]));
      one.head.frequency =
          static_cast<int>(config_.frequencies[static_cast<std::size_t>(l)]);
      level.push_back(one);
    }
    b.levels.push_back(std::move(level));
  }
  return {};
}

template <class R>
result<void> graph<R>::allocate_block(block& b) {
  const auto get = [&](buffer<R>& to, int rows, int columns) -> result<void> {
    WEIR_TRY(to,
             place_.template allocate<R>(std::int64_t{rows} * columns, "activations"));
    return {};
  };
  constexpr int w = window_rows;
  WEIR_CHECK(get(b.u, w + 3, n_.width));
  WEIR_CHECK(get(b.inverse1, w, 1));
  WEIR_CHECK(get(b.z, w, n_.width));
  WEIR_CHECK(get(b.keys, w, n_.inner));
  WEIR_CHECK(get(b.values, w, n_.inner + n_.gates));
  b.queries.resize(static_cast<std::size_t>(n_.levels));
  for (auto& q : b.queries) {
    WEIR_CHECK(get(q, w, n_.inner));
  }
  WEIR_CHECK(allocate_heads(b));
  WEIR_CHECK(get(b.y, w, n_.outs));
  WEIR_CHECK(get(b.x1, w, n_.width));
  WEIR_CHECK(get(b.inverse2, w, 1));
  WEIR_CHECK(get(b.normed2, w, n_.width));
  WEIR_CHECK(get(b.relu, w, n_.hidden));
  WEIR_CHECK(get(b.hidden, w, n_.hidden));
  WEIR_CHECK(get(b.d_hidden, w, n_.hidden));
  WEIR_CHECK(get(b.d_x1, w, n_.width));
  WEIR_CHECK(get(b.d_gain2, 2, n_.width));
  WEIR_CHECK(get(b.d_y, w, n_.outs));
  WEIR_CHECK(get(b.d_stack, w, n_.stack));
  WEIR_CHECK(get(b.d_z, w + 3, n_.width));
  return {};
}

template <class R>
result<void> graph<R>::allocate_window(window& w) {
  for (int b = 0; b <= n_.blocks; ++b) {
    const std::int64_t size = std::int64_t{window_rows} * n_.width;
    WEIR_TRY(auto x, place_.template allocate<R>(size, "activations"));
    WEIR_TRY(auto d, place_.template allocate<R>(size, "activations"));
    w.x.push_back(x);
    w.d_x.push_back(d);
  }
  for (int b = 0; b < n_.blocks; ++b) {
    w.blocks.emplace_back();
    WEIR_CHECK(allocate_block(w.blocks.back()));
  }
  const std::int64_t rows = window_rows;
  WEIR_TRY(w.inverse, place_.template allocate<R>(rows, "activations"));
  WEIR_TRY(w.normed, place_.template allocate<R>(rows * n_.width, "activations"));
  WEIR_TRY(w.logits, place_.template allocate<R>(rows * n_.logit_stride, "activations"));
  WEIR_TRY(w.d_gain,
           place_.template allocate<R>(2 * std::int64_t{n_.width}, "activations"));
  return {};
}

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

template <class R>
runtime::footprint graph<R>::values(int parameter, int count) const {
  const parameter_info& first = info(parameter);
  const parameter_info& last = info(parameter + count - 1);
  return state_.parameters.part(first.offset, last.offset + last.padded() - first.offset);
}

template <class R>
result<void> graph<R>::submit_pulse(pulse_record& record) {
  slot_ = (slot_ + 1) % windows_.size();
  failed_.reset();
  first_ = 0;
  for (int lane = 0; lane < n_.lanes; ++lane) {
    forward(record, lane);
  }
  if (record.builds) {
    for (int lane = 0; lane < n_.lanes; ++lane) {
      backward(record, lane);
    }
    reduce(record);
    clip(record);
    step(record);
  }
  record.first = first_;
  record.last = last_;
  if (failed_) {
    return *failed_;
  }
  return {};
}

}  // namespace weir::models
