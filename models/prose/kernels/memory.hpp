// SPDX-License-Identifier: Apache-2.0
/// @file
/// Forward kernels of one level of one head in a window, in chunk form: products of
/// matrices instead of a loop over tokens. Included once per instruction set.
///
/// The equations, token by token: k_t, q_t and v_t are rows of keys, queries and values,
/// M is the memory, and f is the frequency of the level.
///
///     e_t = k_t M - v_t               the error of what M holds for k_t
///     A   = A + theta_t k_t^T e_t     the step is accumulated
///     M   = keep_t (M - A), A = 0     if the level fires: (t + 1) mod f = 0
///     y_t = q_t M                     before the write; behind it if f = 1
///
/// Unrolled over a window that begins with memory M0, the memory that row t sees is
///
///     M_t = before_t M0 - sum over i of table_ti theta_i k_i^T e_i
///
/// where before_t and table_ti are products of the `keep` of firings: table_ti decays the
/// write of row i until row t, and is 0 if no firing has made that write visible yet.
/// Inserting M_t into e_t gives a linear system for all errors of the window, with a unit
/// lower triangular matrix: row t needs the errors of earlier rows only. `solved_*` solve
/// it. Levels that fire rarely do without it: inside of `segments.hpp` the memory is
/// constant between firings, and for `held_*` it is constant in the whole window.
/// @source{Context stream design, 3.2}
/// @source{docs/decisions/414-context-memory-update-is-bounded.md}
#pragma once

#include "prose/kernels/product.hpp"
#include "prose/kernels/rows.hpp"

namespace weir::models::WEIR_KERNEL_SPACE {

// Short names, because almost every line of the kernels uses them.
inline constexpr int W = window_rows;
inline constexpr int D = head_width;

/// Scales 64 rows to unit length; inverse[r] = 1 / length of row r.
template <class R>
WEIR_INLINE void unit_forward(const R* raw, std::ptrdiff_t stride, R* out, R* inverse) {
  for (int r = 0; r < W; ++r) {
    const R* x = raw + r * stride;
    const R inv = R(1) / root(dot32(x, x) + R(norm_epsilon));
    inverse[r] = inv;
    for (int c = 0; c < D; c += wide_lanes<R>) {
      store<R>(out + r * D + c, load_wide(x + c) * all_wide(inv));
    }
  }
}

/// Goes back through `unit_forward`: d_raw = (d - y (y . d)) / length, row by row. `y`
/// are the unit rows and `d` their gradient.
template <class R>
WEIR_INLINE void unit_backward(const R* y, const R* inverse, const R* d, R* d_raw,
                               std::ptrdiff_t stride) {
  for (int r = 0; r < W; ++r) {
    const wide<R> along = all_wide(dot32(y + r * D, d + r * D));
    for (int c = 0; c < D; c += wide_lanes<R>) {
      const wide<R> across = load_wide(d + r * D + c) - load_wide(y + r * D + c) * along;
      store<R>(d_raw + r * stride + c, across * all_wide(inverse[r]));
    }
  }
}

// These two stand for the functions of <algorithm>: see `simd.hpp` about inline functions
// of other headers.
template <class R>
WEIR_INLINE void copy(R* to, const R* from, int count) {
  for (int i = 0; i < count; ++i) {
    to[i] = from[i];
  }
}
template <class R>
WEIR_INLINE void clear(R* to, int count) {
  for (int i = 0; i < count; ++i) {
    to[i] = R(0);
  }
}

/// Exchanges rows with the context of the lane. Rows [0, first) were computed by earlier
/// pulses and come from `open`. The new rows [first, last) are kept there for later
/// pulses unless the window is complete; then `open` is cleared for the next window.
template <class R>
WEIR_INLINE void exchange_open(R* rows, R* open, int width, int first, int last) {
  copy(rows, open, first * width);
  if (last < W) {
    copy(open + first * width, rows + first * width, (last - first) * width);
  } else if (first > 0) {
    clear(open, W * width);
  }
}

/// Copies the gate inputs of this head, with their biases, to dense rows: per level theta
/// of all rows, then alpha of all rows.
template <class R>
WEIR_INLINE void gather_gates(const key_head<R>& h) {
  for (int l = 0; l < h.levels; ++l) {
    for (int g = 0; g < 2; ++g) {
      const int column = g * h.heads + h.head;
      const R* from = h.raw_gates + l * 2 * h.heads + column;
      const R bias = h.gate_bias[l * h.bias_stride + column];
      R* to = h.gates + (l * 2 + g) * W;
      for (int r = 0; r < W; ++r) {
        to[r] = from[r * h.raw_stride] + bias;
      }
    }
  }
}

/// The kernel that prepares what all levels of a head share: unit keys, values, gate
/// inputs, and the scores of keys with keys.
template <class R>
void keys(const key_head<R>& h) {
  gather_gates(h);
  unit_forward(h.raw_key, h.raw_stride, h.key, h.inverse);
  for (int r = 0; r < W; ++r) {
    copy(h.value + r * D, h.raw_value + r * h.raw_stride, D);
  }
  exchange_open(h.key, h.open_key, D, h.first, h.last);
  exchange_open(h.value, h.open_value, D, h.first, h.last);
  transpose(h.key, D, W, D, h.key_t, W);
  lower_product(plain(h.key, D), h.key_t, W, W, D, h.key_key, W);
}

/// The kernel that goes back from the gradients of keys and values to the projections.
template <class R>
void keys_backward(const key_head<R>& h, const R* const* d_keys, const R* const* d_values,
                   int levels, R* d_raw_key, R* d_raw_value, std::ptrdiff_t stride) {
  alignas(64) R d[W * D];
  for (int i = 0; i < W * D; i += wide_lanes<R>) {
    wide<R> k = load_wide(d_keys[0] + i);
    wide<R> v = load_wide(d_values[0] + i);
    for (int l = 1; l < levels; ++l) {
      k = k + load_wide(d_keys[l] + i);
      v = v + load_wide(d_values[l] + i);
    }
    store<R>(d + i, k);
    store<R>(d_raw_value + i / D * stride + i % D, v);
  }
  unit_backward(h.key, h.inverse, d, d_raw_key, stride);
}

/// Largest part of a memory that a firing keeps. Even a gate whose sigmoid rounds to 1
/// forgets a little, so that the norm of a memory has a bound.
/// @source{docs/decisions/414-context-memory-update-is-bounded.md}
inline constexpr double max_keep = 1 - 0x1p-10;

/// Computes theta, its derivative and keep of all rows from the gate inputs.
template <class R>
WEIR_INLINE void gates(const memory_head<R>& h) {
  const R per_token = R(1) / R(h.frequency);
  for (int r = 0; r < W; r += lanes) {
    const vec<R> zt = load(h.gates + r);
    const vec<R> za = load(h.gates + W + r);
    const vec<R> s = sigmoid<R>(zt);
    store<R>(h.theta + r, s * all(per_token));
    store<R>(h.theta_slope + r, s * (all(R(1)) - s) * all(per_token));
    store<R>(h.keep + r, sigmoid<R>(-za) * all(R(max_keep)));
  }
  exchange_open(h.theta, h.open_theta, 1, h.first, h.last);
  exchange_open(h.keep, h.open_keep, 1, h.first, h.last);
}

/// Decays below this limit become 0. A level that forgets almost everything would
/// otherwise fill the table with denormal numbers, and arithmetic with those takes about
/// a hundred times as long.
inline constexpr double min_decay = 1e-30;
/// Returns the decay, or 0 if it is below `least`; element by element.
template <class V>
WEIR_INLINE V forget(V decay, V least) {
  return decay < least ? V{} : decay;
}

/// Fills `table` and `before`. Row t of the table is row t - 1 times the factor of a
/// firing between them; a firing also makes the writes since the last one visible. Row 64
/// describes the memory after the window.
template <class R>
WEIR_INLINE void decay_table(const memory_head<R>& h) {
  clear(h.table, W);
  h.before[0] = R(1);
  for (int t = 1; t <= W; ++t) {
    const R* last = h.table + (t - 1) * W;
    R* row = h.table + t * W;
    const bool fired = t % h.frequency == 0;
    const R factor = fired ? h.keep[t - 1] : R(1);
    for (int i = 0; i < W; i += wide_lanes<R>) {
      const wide<R> decay = load_wide(last + i) * all_wide(factor);
      store<R>(row + i, forget(decay, all_wide(R(min_decay))));
    }
    h.before[t] = forget(h.before[t - 1] * factor, R(min_decay));
    for (int i = t - h.frequency; fired && i < t; ++i) {
      row[i] = forget(factor, R(min_decay));
    }
  }
}

/// Computes out[t][i] = table[t + shift][i] * theta[i] * scores[t][i], which is lower
/// triangular. Right of the diagonal, `out` is written up to the end of the diagonal's
/// block of 16 columns only; triangular products read no further.
template <class R>
WEIR_INLINE void weights(const memory_head<R>& h, int shift, const R* scores, R* out) {
  for (int t = 0; t < W; ++t) {
    const R* decay = h.table + (t + shift) * W;
    in_blocks<R>(t + 1, [&](int i) {
      store<R>(out + t * W + i, load_wide(decay + i) * load_wide(h.theta + i) *
                                    load_wide(scores + t * W + i));
    });
  }
}

/// Solves (I + s) x = e for x by forward substitution; x replaces e. `s` is strictly
/// lower triangular [64][64], `e` is [64][32]. Four rows at a time: the part of earlier
/// tiles is a product, and only the four rows depend on each other.
template <class R>
WEIR_INLINE void solve_lower(const R* s, R* e) {
  for (int row = 0; row < W; row += tile_rows) {
    for (int col = 0; col < D; col += tile_cols<R>) {
      tile<R> t = tile_zero<R>();
      tile_add(t, plain(s, W), row, e, D, col, 0, row);
      for (int r = 0; r < tile_rows; ++r) {
        for (int v = 0; v < tile_vecs; ++v) {
          R* part = e + row * D + col + v * wide_lanes<R>;
          wide<R> x = load_wide(part + r * D) - t.v[r][v];
          for (int i = 0; i < r; ++i) {
            x = fma(all_wide(-s[(row + r) * W + row + i]), load_wide(part + i * D), x);
          }
          store(part + r * D, x);
        }
      }
    }
  }
}

/// Computes the errors and the read rows of a level that fires every 1, 2 or 4 tokens, by
/// the triangular system. `key_memory` and `query_memory` hold k_t M0 and q_t M0.
template <class R>
WEIR_INLINE void solved_forward(const memory_head<R>& h) {
  const int reads = h.frequency == 1 ? 1 : 0;  // level 0 reads after its own write
  alignas(64) R s[W * W];
  decay_table(h);
  weights(h, 0, h.key_key, s);
  for (int t = 0; t < W; ++t) {
    for (int c = t * D; c < (t + 1) * D; c += wide_lanes<R>) {
      const wide<R> m = load_wide(h.key_memory + c);
      store<R>(h.error + c, fma(all_wide(h.before[t]), m, -load_wide(h.value + c)));
    }
  }
  solve_lower(s, h.error);
  lower_product(plain(h.query, D), h.key_t, W, W, D, h.query_key, W);
  weights(h, reads, h.query_key, s);
  product(plain(s, W), h.error, D, W, D, lower(),
          [&](int row, int col, const tile<R>& t) {
            R* out = h.out + row * h.out_stride + col;
            each_part<R>(h.out_stride, [&](int r, int v, std::ptrdiff_t part) {
              const R* m = h.query_memory + (row + r) * D + col + v * wide_lanes<R>;
              const wide<R> b = all_wide(h.before[row + r + reads]);
              store<R>(out + part, fma(b, load_wide(m), -t.v[r][v]));
            });
          });
}

/// Advances the memory over a complete window: M = before_64 M0 minus the sum of the
/// writes with the weights of row 64 of the table.
template <class R>
WEIR_INLINE void solved_advance(const memory_head<R>& h) {
  alignas(64) R weighted[W * D];
  const R* w = h.table + W * W;
  for (int i = 0; i < W; ++i) {
    for (int c = i * D; c < (i + 1) * D; c += wide_lanes<R>) {
      store<R>(weighted + c, load_wide(h.error + c) * all_wide(w[i] * h.theta[i]));
    }
  }
  const wide<R> decay = all_wide(h.before[W]);
  product(transposed(h.key, D), weighted, D, D, D, whole(W),
          [&](int row, int col, const tile<R>& t) {
            each_part<R>(D, [&](int r, int v, std::ptrdiff_t part) {
              R* m = h.memory + row * D + col + part;
              store<R>(m, fma(decay, load_wide(m), -t.v[r][v]));
            });
          });
}

/// Advances a level that fires every 64 tokens or more rarely over a complete window. The
/// memory was constant in the window; its steps are added to the accumulator, and if the
/// level fires they are taken from the memory.
template <class R>
WEIR_INLINE void held_advance(const memory_head<R>& h) {
  alignas(64) R weighted[W * D];
  for (int i = 0; i < W; ++i) {
    for (int c = i * D; c < (i + 1) * D; c += wide_lanes<R>) {
      store<R>(weighted + c, load_wide(h.error + c) * all_wide(h.theta[i]));
    }
  }
  product(transposed(h.key, D), weighted, D, D, D, whole(W), add_to(h.accumulator, D));
  if (!h.fires_at_end) {
    return;
  }
  const wide<R> keep = all_wide(h.keep[W - 1]);
  for (int i = 0; i < D * D; i += wide_lanes<R>) {
    store<R>(h.memory + i,
             (load_wide(h.memory + i) - load_wide(h.accumulator + i)) * keep);
    store<R>(h.accumulator + i, all_wide(R(0)));
  }
  if (h.saves_states) {
    copy(h.memory_after, h.memory, D * D);
  }
}

}  // namespace weir::models::WEIR_KERNEL_SPACE
