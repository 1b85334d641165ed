// SPDX-License-Identifier: Apache-2.0
/// @file
/// Backward kernels of one level of one head in a window, in chunk form. Included once
/// per instruction set.
///
/// `memory.hpp` and `segments.hpp` give the forward equations and the three forms of a
/// level; this file goes back through them. Gradients of the gates are first taken by
/// theta and by log(keep), because a product of decays is a sum in logarithms.
/// @source{Context stream design, 3.3, in the chunk form of 3.2}
#pragma once

#include "prose/kernels/segments.hpp"

namespace weir::models::WEIR_KERNEL_SPACE {

/// Gradients of the gates of each row, before they go back to the gates' inputs.
///
/// Filled by the three forms in the same way.
template <class R>
struct gate_gradient {
  R theta[W];
  R log_keep[W];
};

/// Solves (I + s)^T x = g for x, from the last row up; x replaces g. `s` is strictly
/// lower triangular [64][64], `g` is [64][32]. This is the transpose of `solve_lower`.
///
/// Tiles solve their own rows one after the other.
template <class R>
WEIR_INLINE void solve_upper(const R* s, R* g) {
  for (int row = W - tile_rows; row >= 0; row -= tile_rows) {
    for (int col = 0; col < D; col += tile_cols<R>) {
      tile<R> t = tile_zero<R>();
      // The part of the rows below.
      tile_add(t, transposed(s, W), row, g, D, col, row + tile_rows, W);
      for (int r = tile_rows - 1; r >= 0; --r) {
        for (int v = 0; v < tile_vecs; ++v) {
          R* part = g + row * D + col + v * wide_lanes<R>;
          wide<R> x = load_wide(part + r * D) - t.v[r][v];
          // The rows of the tile itself.
          for (int i = tile_rows - 1; i > r; --i) {
            x = fma(all_wide(-s[(row + i) * W + row + r]), load_wide(part + i * D), x);
          }
          store(part + r * D, x);
        }
      }
    }
  }
}

/// Working memory of `solved_backward`, on the stack.
///
/// It fits into the stacks of the workers.
template <class R>
struct alignas(64) solved_scratch {
  R d_y[W * D];
  R error_t[D * W];   ///< transpose of the errors
  R g[W * D];         ///< gradient of the errors, then of the system's right-hand side
  R s[W * W];         ///< weights of the reads, then of the system
  R along_g[W * W];   ///< g_t . e_i, then gradient of the scores k_t . k_i
  R along_y[W * W];   ///< dy_t . e_i, then gradient of the scores q_t . k_i
  R memory_t[D * D];  ///< transpose of the memory before the window: [value][key]
  R d_memory_t[D * D];
  R d_key[W * D];
  R d_query[W * D];
  R key_d_memory[W * D];
  R weighted[W * D];
};

/// Running sums over the rows of the decay table, from the last row up.
///
/// A firing at the end of row r decays all writes up to r in all later rows of the table.
/// The gradient of its log(keep) is therefore the sum, over the rows of the table after
/// it, of the terms of the writes that it decays.
///
/// They make the sum over later rows cheap.
template <class R>
struct decay_sums {
  alignas(64) R theta[W] = {};  ///< by write: gradient of theta
  alignas(64) R terms[W] = {};  ///< by write: sum of weight times gradient of the weight
  R before = 0;                 ///< the same sum for the memory before the window
};

/// Adds the terms of a row of the table for the writes [0, upto). `d` is the gradient of
/// table[row] * theta.
///
/// Only writes that the row can see have terms.
template <class R>
WEIR_INLINE void add_row(decay_sums<R>& sums, const memory_head<R>& h, int row,
                         const R* d, int upto) {
  const R* decay = h.table + row * W;
  in_blocks<R>(upto, [&](int i) {
    const wide<R> x = load_wide(decay + i) * load_wide(d + i);
    store<R>(sums.theta + i, load_wide(sums.theta + i) + x);
    store<R>(sums.terms + i, fma(x, load_wide(h.theta + i), load_wide(sums.terms + i)));
  });
}

/// Returns the sum of the terms of the writes before row `end`, which are those that a
/// firing at that row decays. The order of the sum is fixed.
///
/// The rest is added element by element.
template <class R>
WEIR_INLINE R terms_before(const decay_sums<R>& sums, int end) {
  vec<R> s = all(R(0));
  for (int i = 0; i < end / lanes; ++i) {
    s = s + load(sums.terms + i * lanes);
  }
  R total = sum<R>(s);
  for (int i = end / lanes * lanes; i < end; ++i) {
    total += sums.terms[i];
  }
  return total;
}

/// Computes the gradients of theta and of log(keep), and turns `along_g` and `along_y`
/// into gradients of the scores.
/// @param d_end  Gradients of the weights of the writes at the window's end; null if no
/// gradient comes from behind the window.
/// @param d_before_end  Gradient of the decay of the memory over the whole window.
template <class R>
WEIR_INLINE void decay_backward(const memory_head<R>& h, solved_scratch<R>& x,
                                const R* d_end, R d_before_end, gate_gradient<R>& out) {
  // The fastest level reads behind its own write.
  const int reads = h.frequency == 1 ? 1 : 0;
  decay_sums<R> sums;
  clear(out.log_keep, W);
  alignas(64) R d[W];
  // One row of the table for reads or for errors.
  const auto take = [&](int t, int row, R* along, const R* scores) {
    in_blocks<R>(t + 1, [&](int i) {
      const wide<R> a = -load_wide(along + t * W + i);
      store<R>(d + i, a * load_wide(scores + t * W + i));
      store<R>(along + t * W + i,
               a * load_wide(h.table + row * W + i) * load_wide(h.theta + i));
    });
    add_row(sums, h, row, d, t + 1);
  };
  // The row of the window's end comes first.
  if (d_end != nullptr) {
    add_row(sums, h, W, d_end, W);
    sums.before += h.before[W] * d_before_end;
  }
  for (int row = W; row >= 1; --row) {
    // Errors are computed before the row's own firing.
    if (row < W) {
      take(row, row, x.along_g, h.key_key);
      sums.before += h.before[row] * dot32(x.g + row * D, h.key_memory + row * D);
    }
    const int t = row - reads;
    if (t < W) {
      take(t, row, x.along_y, h.query_key);
      sums.before += h.before[row] * dot32(x.d_y + t * D, h.query_memory + t * D);
    }
    // All later rows of the table have been added.
    if (row % h.frequency == 0) {
      out.log_keep[row - 1] = sums.before + terms_before(sums, row);
    }
  }
  // Row 0 of the table is zero, so this clears the gradients of its scores and adds
  // nothing to the sums.
  take(0, 0, x.along_g, h.key_key);
  if (reads == 0) {
    take(0, 0, x.along_y, h.query_key);
  }
  copy(out.theta, sums.theta, W);
}

/// Copies a [64][32] matrix whose rows are `stride` apart to dense rows.
///
/// Dense rows are faster to multiply.
template <class R>
WEIR_INLINE void copy_rows(R* to, const R* from, std::ptrdiff_t stride) {
  for (int r = 0; r < W; ++r) {
    for (int c = 0; c < D; c += wide_lanes<R>) {
      store(to + r * D + c, load_wide(from + r * stride + c));
    }
  }
}

/// Multiplies each of 64 rows by its factor: out[r] = a[r] * factor[r].
///
/// The result may be the first operand.
template <class R>
WEIR_INLINE void scale_rows(const R* a, const R* factor, R* out) {
  for (int r = 0; r < W; ++r) {
    for (int c = 0; c < D; c += wide_lanes<R>) {
      store<R>(out + r * D + c, load_wide(a + r * D + c) * all_wide(factor[r]));
    }
  }
}

/// Goes back from the gradient of the memory after the window to the writes of the
/// window: adds to the gradients of errors and keys, and computes those of the weights
/// that the writes have at the window's end.
///
/// The decay is that of the last row of the table.
template <class R>
WEIR_INLINE void end_backward(const memory_head<R>& h, solved_scratch<R>& x, R* d_end) {
  const R* w = h.table + W * W;
  R end_weight[W];
  for (int i = 0; i < W; ++i) {
    // Writes are subtracted from the memory.
    end_weight[i] = -(w[i] * h.theta[i]);
  }
  product(plain(h.key, D), h.d_memory, D, W, D, whole(D), put_in(x.key_d_memory, D));
  for (int i = 0; i < W; ++i) {
    d_end[i] = -dot32(h.error + i * D, x.key_d_memory + i * D);
  }
  scale_rows(x.key_d_memory, end_weight, x.weighted);
  add(x.g, x.weighted, W * D);
  transpose(h.d_memory, D, D, D, x.d_memory_t, D);
  scale_rows(h.error, end_weight, x.weighted);
  product(plain(x.weighted, D), x.d_memory_t, D, W, D, whole(D), add_to(x.d_key, D));
}

/// Computes the gradient of the memory before the window, in place of that after it.
///
/// Reads and errors both have seen it.
template <class R>
WEIR_INLINE void before_backward(const memory_head<R>& h, solved_scratch<R>& x,
                                 int reads) {
  // Without a gradient behind the window, only those of reads and errors count.
  const wide<R> decay = all_wide(h.has_gradient_after ? h.before[W] : R(0));
  for (int i = 0; i < D * D; i += wide_lanes<R>) {
    store<R>(h.d_memory + i, load_wide(h.d_memory + i) * decay);
  }
  scale_rows(x.g, h.before, x.weighted);
  product(transposed(h.key, D), x.weighted, D, D, D, whole(W), add_to(h.d_memory, D));
  scale_rows(x.d_y, h.before + reads, x.weighted);
  product(transposed(h.query, D), x.weighted, D, D, D, whole(W), add_to(h.d_memory, D));
}

/// Adds the parts of the gradients of keys and queries that come from their scores.
///
/// The matrices are triangular, so half of the work is left out.
template <class R>
WEIR_INLINE void scores_backward(const memory_head<R>& h, solved_scratch<R>& x) {
  product(plain(x.along_y, W), h.key, D, W, D, lower(), add_to(x.d_query, D));
  product(transposed(x.along_y, W), h.query, D, W, D, upper(W), add_to(x.d_key, D));
  product(plain(x.along_g, W), h.key, D, W, D, lower(), add_to(x.d_key, D));
  product(transposed(x.along_g, W), h.key, D, W, D, upper(W), add_to(x.d_key, D));
}

/// Computes the parts of the gradients of queries and keys that come from reading the
/// memory before the window.
///
/// It is the first part of both gradients.
template <class R>
WEIR_INLINE void memory_parts(const memory_head<R>& h, solved_scratch<R>& x, int reads) {
  scale_rows(x.d_y, h.before + reads, x.weighted);
  product(plain(x.weighted, D), x.memory_t, D, W, D, whole(D), put_in(x.d_query, D));
  scale_rows(x.g, h.before, x.weighted);
  product(plain(x.weighted, D), x.memory_t, D, W, D, whole(D), add_to(x.d_key, D));
}

/// Backward kernel of the levels that fire every 1, 2 or 4 tokens: the inverse of
/// `solved_forward` and `solved_advance`. The transposed triangular system turns the
/// gradient of the errors into that of the right-hand side.
///
/// Errors come before scores, since these need them.
template <class R>
WEIR_INLINE void solved_backward(const memory_head<R>& h, gate_gradient<R>& gate) {
  const int reads = h.frequency == 1 ? 1 : 0;
  solved_scratch<R> x;
  R d_end[W];
  copy_rows(x.d_y, h.d_out, h.d_out_stride);
  transpose(h.error, D, W, D, x.error_t, W);
  transpose(h.memory_before, D, D, D, x.memory_t, D);
  clear(x.d_key, W * D);
  // The weights of the reads.
  weights(h, reads, h.query_key, x.s);
  product(transposed(x.s, W), x.d_y, D, W, D, upper(W),
          [&](int row, int col, const tile<R>& t) {
            each_part<R>(D, [&](int r, int v, std::ptrdiff_t part) {
              store<R>(x.g + row * D + col + part, -t.v[r][v]);
            });
          });
  R d_before_end = R(0);
  if (h.has_gradient_after) {
    end_backward(h, x, d_end);
    d_before_end = inner_product(h.d_memory, h.memory_before);
  }
  // The weights of the system replace those of the reads.
  weights(h, 0, h.key_key, x.s);
  solve_upper(x.s, x.g);
  lower_product(plain(x.g, D), x.error_t, W, W, D, x.along_g, W);
  lower_product(plain(x.d_y, D), x.error_t, W, W, D, x.along_y, W);
  decay_backward(h, x, h.has_gradient_after ? d_end : nullptr, d_before_end, gate);
  memory_parts(h, x, reads);
  scores_backward(h, x);
  if (h.wants_gradient_before) {
    before_backward(h, x, reads);
  }
  // The sign is that of the subtraction in the errors.
  for (int i = 0; i < W * D; i += wide_lanes<R>) {
    store<R>(h.d_value + i, -load_wide(x.g + i));
    store<R>(h.d_key + i, load_wide(x.d_key + i));
  }
  unit_backward(h.query, h.query_inverse, x.d_query, h.d_query, h.d_query_stride);
}

/// Computes the gradients that come through the writes of a level that fires every 64
/// tokens or more rarely. Only memories that later windows of the chunk read have any.
/// `d_error` gets the gradient of the errors.
///
/// Nothing is written as long as the memory is held.
template <class R>
WEIR_INLINE void held_writes(const memory_head<R>& h, const R* memory_t,
                             gate_gradient<R>& gate, R* d_error) {
  alignas(64) R along[W * D];
  alignas(64) R weighted[W * D];
  alignas(64) R across[D * D];
  // The firing moves the accumulated steps into the memory.
  if (h.fires_at_end) {
    gate.log_keep[W - 1] = inner_product(h.d_memory, h.memory_after);
    for (int i = 0; i < D * D; i += wide_lanes<R>) {
      const wide<R> g = load_wide(h.d_memory + i) * all_wide(h.keep[W - 1]);
      store<R>(h.d_accumulator + i, -g);
      store<R>(h.d_memory + i, g);
    }
  }
  // The steps of all rows go into the accumulator.
  product(plain(h.key, D), h.d_accumulator, D, W, D, whole(D), put_in(along, D));
  for (int i = 0; i < W; ++i) {
    gate.theta[i] = dot32(h.error + i * D, along + i * D);
  }
  scale_rows(along, h.theta, d_error);
  scale_rows(h.error, h.theta, weighted);
  transpose(h.d_accumulator, D, D, D, across, D);
  product(plain(weighted, D), across, D, W, D, whole(D), put_in(h.d_key, D));
  product(plain(d_error, D), memory_t, D, W, D, whole(D), add_to(h.d_key, D));
  for (int i = 0; i < W * D; i += wide_lanes<R>) {
    store<R>(h.d_value + i, -load_wide(d_error + i));
  }
}

/// Backward kernel of the levels that fire every 64 tokens or more rarely.
///
/// Reads need only the memory before the window.
template <class R>
WEIR_INLINE void held_backward(const memory_head<R>& h, gate_gradient<R>& gate) {
  alignas(64) R memory_t[D * D];
  alignas(64) R d_y[W * D];
  alignas(64) R d_query[W * D];
  alignas(64) R d_error[W * D];
  transpose(h.memory_before, D, D, D, memory_t, D);
  copy_rows(d_y, h.d_out, h.d_out_stride);
  product(plain(d_y, D), memory_t, D, W, D, whole(D), put_in(d_query, D));
  unit_backward(h.query, h.query_inverse, d_query, h.d_query, h.d_query_stride);
  clear(gate.theta, W);
  clear(gate.log_keep, W);
  // Without a gradient behind the window, writes have none.
  if (h.has_gradient_after) {
    held_writes(h, memory_t, gate, d_error);
  } else {
    clear(h.d_key, W * D);
    clear(h.d_value, W * D);
    clear(d_error, W * D);
  }
  if (h.wants_gradient_before) {
    if (!h.has_gradient_after) {
      clear(h.d_memory, D * D);
      clear(h.d_accumulator, D * D);
    }
    product(transposed(h.query, D), d_y, D, D, D, whole(W), add_to(h.d_memory, D));
    product(transposed(h.key, D), d_error, D, D, D, whole(W), add_to(h.d_memory, D));
  }
}

/// The backward kernel: chooses the form as `memory_forward` does, and takes the
/// gradients of the gates back to their inputs.
///
/// The gradients of other rows than those of this pulse are cleared at the end.
template <class R>
void memory_backward(const memory_head<R>& h) {
  gate_gradient<R> gate;
  alignas(64) R own_gradient[D * D];
  if (h.frequency >= min_segment && h.frequency < W) {
    memory_head<R> own = h;
    if (!h.has_gradient_after && !h.wants_gradient_before) {
      // The segments pass a gradient of the memory from one to the next; here no other
      // window needs it, and the caller has no memory for it.
      own.d_memory = own_gradient;
    }
    clear(gate.log_keep, W);
    segments_backward(own, gate.theta, gate.log_keep);
  } else if (h.frequency < W) {
    if (h.wants_gradient_before && !h.has_gradient_after) {
      clear(h.d_memory, D * D);
    }
    solved_backward(h, gate);
  } else {
    held_backward(h, gate);
  }
  // By the slopes of the gates.
  for (int r = 0; r < W; ++r) {
    h.d_theta[r] = gate.theta[r] * h.theta_slope[r];
    // keep = max_keep * sigmoid(-a), so d log(keep) / da = sigmoid(-a) - 1.
    h.d_alpha[r] = gate.log_keep[r] * (h.keep[r] * R(1 / max_keep) - R(1));
  }
  // Rows of earlier pulses are constants in this pulse, and rows behind `last` do not
  // exist yet: both have no gradients.
  const auto constant = [&](int from, int to) {
    for (int r = from; r < to; ++r) {
      clear(h.d_key + r * D, D);
      clear(h.d_value + r * D, D);
      clear(h.d_query + r * h.d_query_stride, D);
      h.d_theta[r] = R(0);
      h.d_alpha[r] = R(0);
    }
  };
  constant(0, h.first);
  constant(h.last, W);
}

}  // namespace weir::models::WEIR_KERNEL_SPACE
