// SPDX-License-Identifier: Apache-2.0
/// @file
/// Kernels of the levels that fire every 8, 16 or 32 tokens, and the forward kernel that
/// chooses between the forms. Included once per instruction set.
///
/// Between two firings the memory is constant. A window is cut into segments that end
/// with a firing; each segment is a few products, and no triangular system is needed. The
/// memory at the start of each segment is kept for the backward kernel.
/// @source{Context stream design, 3.2 and 3.3}
#pragma once

#include "prose/kernels/memory.hpp"

namespace weir::models::WEIR_KERNEL_SPACE {

/// Returns the sum of the products of the elements of two memories.
///
/// Used for the gradient of a decay.
template <class R>
WEIR_INLINE R inner_product(const R* a, const R* b) {
  R sum = R(0);
  for (int i = 0; i < D; ++i) {
    sum += dot32(a + i * D, b + i * D);
  }
  return sum;
}

/// Multiplies each of `rows` rows of 32 elements by its factor.
template <class R>
WEIR_INLINE void scale_some(const R* a, const R* factor, R* out, int rows) {
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < D; c += wide_lanes<R>) {
      store<R>(out + r * D + c, load_wide(a + r * D + c) * all_wide(factor[r]));
    }
  }
}

/// Returns a `put` that computes to = factor * from + sign * product.
///
/// The operands may be the same memory.
template <class R>
WEIR_INLINE auto blend_in(const R* from, R factor, R sign, R* to) {
  return [=](int row, int col, const tile<R>& t) {
    each_part<R>(D, [&](int r, int v, std::ptrdiff_t part) {
      const std::ptrdiff_t i = row * D + col + part;
      store<R>(to + i,
               fma(all_wide(factor), load_wide(from + i), all_wide(sign) * t.v[r][v]));
    });
  };
}

/// Computes errors, read rows and the memory after each segment. If the window is not
/// complete, it stops at the segment that the new rows do not fill.
template <class R>
WEIR_INLINE void segments_forward(const memory_head<R>& h) {
  // The rows of a segment.
  const int rows = h.frequency;
  alignas(64) R weighted[W * D];
  copy(h.states, h.memory, D * D);
  for (int first = 0; first < W; first += rows) {
    R* m = h.states + first / rows * D * D;
    R* out = h.out + first * h.out_stride;
    R* error = h.error + first * D;
    const R* key = h.key + first * D;
    const R* value = h.value + first * D;
    // Reads come before the writes of the segment.
    product(plain(h.query + first * D, D), m, D, rows, D, whole(D),
            put_in(out, h.out_stride));
    product(plain(key, D), m, D, rows, D, whole(D),
            [&](int row, int col, const tile<R>& t) {
              each_part<R>(D, [&](int r, int v, std::ptrdiff_t part) {
                const std::ptrdiff_t i = row * D + col + part;
                store<R>(error + i, t.v[r][v] - load_wide(value + i));
              });
            });
    // The steps are weighted by their rates.
    scale_some(error, h.theta + first, weighted, rows);
    const int last = first + rows;
    // The segment is complete.
    if (last < h.last || h.last == W) {
      R* next = last == W ? h.memory_after : m + D * D;
      const R keep = h.keep[last - 1];
      product(transposed(key, D), weighted, D, D, D, whole(rows),
              blend_in(m, keep, -keep, next));
    } else {
      return;  // the rows after this segment are not there yet
    }
  }
  // Only a complete window changes the state.
  copy(h.memory, h.memory_after, D * D);
}

/// The forward kernel. It chooses the form by the frequency of the level: below
/// `min_segment` the triangular system, below 64 the segments, and else the form for a
/// memory that is constant in the window.
template <class R>
void memory_forward(const memory_head<R>& h) {
  unit_forward(h.raw_query, h.raw_stride, h.query, h.query_inverse);
  gates(h);
  // The segments keep the first memory by themselves.
  if (h.saves_states && (h.frequency < min_segment || h.frequency >= W)) {
    copy(h.memory_before, h.memory, D * D);
  }
  const bool complete = h.last == W;
  if (h.frequency >= min_segment && h.frequency < W) {
    segments_forward(h);
    return;
  }
  // Fast levels.
  if (h.frequency < W) {
    product(plain(h.key, D), h.memory, D, W, D, whole(D), put_in(h.key_memory, D));
    product(plain(h.query, D), h.memory, D, W, D, whole(D), put_in(h.query_memory, D));
    solved_forward(h);
    if (complete) {
      solved_advance(h);
    }
    return;
  }
  // Slow levels.
  product(plain(h.query, D), h.memory, D, W, D, whole(D), put_in(h.out, h.out_stride));
  if (!complete) {
    return;
  }
  product(plain(h.key, D), h.memory, D, W, D, whole(D),
          [&](int row, int col, const tile<R>& t) {
            each_part<R>(D, [&](int r, int v, std::ptrdiff_t part) {
              const std::ptrdiff_t i = row * D + col + part;
              store<R>(h.error + i, t.v[r][v] - load_wide(h.value + i));
            });
          });
  held_advance(h);
}

/// Backward kernel of the segments, from the last to the first. `h.d_memory` holds the
/// gradient of the memory after the segment and then of the memory before it. As long as
/// no later row has read a memory (`alive` is false), its writes have no gradients.
///
/// The memory after the window is that of the forward kernel.
template <class R>
WEIR_INLINE void segments_backward(const memory_head<R>& h, R* theta, R* log_keep) {
  const int rows = h.frequency;
  alignas(64) R memory_t[D * D];
  alignas(64) R wanted[D * D];  // gradient of the accumulated steps
  alignas(64) R wanted_t[D * D];
  alignas(64) R d_error[W * D];
  alignas(64) R weighted[W * D];
  alignas(64) R d_query[W * D];
  alignas(64) R d_y[W * D];
  R* g = h.d_memory;
  bool alive = h.has_gradient_after;
  if (!alive) {
    clear(g, D * D);
  }
  for (int first = W - rows; first >= 0; first -= rows) {
    const R* m = h.states + first / rows * D * D;
    const R* key = h.key + first * D;
    const R* error = h.error + first * D;
    const int last = first + rows - 1;
    R* d_key = h.d_key + first * D;
    for (int r = first; r <= last; ++r) {
      copy(d_y + r * D, h.d_out + r * h.d_out_stride, D);
    }
    transpose(m, D, D, D, memory_t, D);
    product(plain(d_y + first * D, D), memory_t, D, rows, D, whole(D),
            put_in(d_query + first * D, D));
    if (alive) {
      // The decay's gradient is the product of the memory and its gradient.
      log_keep[last] = inner_product(g, last + 1 == W ? h.memory_after : m + D * D);
      for (int i = 0; i < D * D; i += wide_lanes<R>) {
        store<R>(wanted + i, load_wide(g + i) * all_wide(-h.keep[last]));
      }
      transpose(wanted, D, D, D, wanted_t, D);
      product(plain(key, D), wanted, D, rows, D, whole(D), put_in(weighted, D));
      for (int r = 0; r < rows; ++r) {
        theta[first + r] = dot32(error + r * D, weighted + r * D);
      }
      scale_some(weighted, h.theta + first, d_error, rows);
      scale_some(error, h.theta + first, weighted, rows);
      product(plain(weighted, D), wanted_t, D, rows, D, whole(D), put_in(d_key, D));
      product(plain(d_error, D), memory_t, D, rows, D, whole(D), add_to(d_key, D));
      product(transposed(key, D), d_error, D, D, D, whole(rows),
              blend_in(g, h.keep[last], R(1), g));
      for (int i = 0; i < rows * D; i += wide_lanes<R>) {
        store<R>(h.d_value + first * D + i, -load_wide(d_error + i));
      }
    } else {
      clear(d_key, rows * D);
      clear(h.d_value + first * D, rows * D);
      clear(theta + first, rows);
    }
    if (first > 0 || h.wants_gradient_before) {
      product(transposed(h.query + first * D, D), d_y + first * D, D, D, D, whole(rows),
              add_to(g, D));
      alive = true;
    }
  }
  unit_backward(h.query, h.query_inverse, d_query, h.d_query, h.d_query_stride);
}

}  // namespace weir::models::WEIR_KERNEL_SPACE
