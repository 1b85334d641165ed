// SPDX-License-Identifier: Apache-2.0
/// @file
/// Products of small matrices that lie in the first-level cache: tiles of the result stay
/// in registers. Included once per instruction set.
///
/// The terms of one entry are added in ascending order of the inner index, whatever the
/// tiles and registers are, so the bits do not depend on the instruction set.
#pragma once

#include "prose/kernels/simd.hpp"

namespace weir::models::WEIR_KERNEL_SPACE {

/// The left operand of a product: entry (row, k) is `data[row * row_step + k *
/// inner_step]`. A transpose is a matter of steps and costs nothing.
template <class R>
struct left {
  const R* data;
  std::ptrdiff_t row_step;
  std::ptrdiff_t inner_step;
};
/// Takes a matrix as it is stored.
template <class R>
WEIR_INLINE left<R> plain(const R* a, std::ptrdiff_t stride) {
  return {a, stride, 1};
}
/// Takes the transpose of a matrix.
template <class R>
WEIR_INLINE left<R> transposed(const R* a, std::ptrdiff_t stride) {
  return {a, 1, stride};
}

inline constexpr int tile_rows = 4;
inline constexpr int tile_vecs = 2;
template <class R>
inline constexpr int tile_cols = tile_vecs* wide_lanes<R>;

/// A part of the result, of `tile_rows` rows and `tile_cols` columns, in registers.
template <class R>
struct tile {
  wide<R> v[tile_rows][tile_vecs];
};

/// Calls f(r, c, offset) for each register of a tile. The offset is that of the
/// register's first element in a matrix with this stride, relative to the tile's first
/// element.
template <class R, class F>
WEIR_INLINE void each_part(std::ptrdiff_t stride, F f) {
  for (int r = 0; r < tile_rows; ++r) {
    for (int c = 0; c < tile_vecs; ++c) {
      f(r, c, r * stride + c * wide_lanes<R>);
    }
  }
}

/// Adds to a tile the product of rows [row, row + 4) of the left operand with columns
/// [col, col + tile_cols) of `b`, over the inner indices [k0, k1).
template <class R>
WEIR_INLINE void tile_add(tile<R>& t, left<R> a, int row, const R* b,
                          std::ptrdiff_t b_stride, int col, int k0, int k1) {
  const R* pa = a.data + row * a.row_step;
  const R* pb = b + col;
  for (int k = k0; k < k1; ++k) {
    const wide<R> b0 = load_wide(pb + k * b_stride);
    const wide<R> b1 = load_wide(pb + k * b_stride + wide_lanes<R>);
    for (int r = 0; r < tile_rows; ++r) {
      const wide<R> x = all_wide(pa[r * a.row_step + k * a.inner_step]);
      t.v[r][0] = fma(x, b0, t.v[r][0]);
      t.v[r][1] = fma(x, b1, t.v[r][1]);
    }
  }
}

template <class R>
WEIR_INLINE tile<R> tile_zero() {
  return tile<R>{};
}

/// Computes a product tile by tile. `inner(row)` returns the range of inner indices for
/// the rows [row, row + 4), which is how triangular operands save work. `put(row, col,
/// tile)` takes each tile of the result.
template <class R, class Inner, class Put>
WEIR_INLINE void product(left<R> a, const R* b, std::ptrdiff_t b_stride, int rows,
                         int cols, Inner inner, Put put) {
  for (int row = 0; row < rows; row += tile_rows) {
    const auto range = inner(row);
    for (int col = 0; col < cols; col += tile_cols<R>) {
      tile<R> t = tile_zero<R>();
      tile_add(t, a, row, b, b_stride, col, range.from, range.to);
      put(row, col, t);
    }
  }
}

struct inner_range {
  int from;
  int to;
};
/// Range for a full left operand with `n` columns.
WEIR_INLINE auto whole(int n) {
  return [n](int) { return inner_range{0, n}; };
}
/// Range for a lower triangular left operand: up to the last row of the tile.
WEIR_INLINE auto lower() {
  return [](int row) { return inner_range{0, row + tile_rows}; };
}
/// Range for an upper triangular left operand with `n` columns: from the first row of the
/// tile.
WEIR_INLINE auto upper(int n) {
  return [n](int row) { return inner_range{row, n}; };
}

/// Returns a `put` that writes the tiles to a row-major matrix.
template <class R>
WEIR_INLINE auto put_in(R* c, std::ptrdiff_t stride) {
  return [c, stride](int row, int col, const tile<R>& t) {
    each_part<R>(stride, [&](int r, int v, std::ptrdiff_t part) {
      store(c + row * stride + col + part, t.v[r][v]);
    });
  };
}
/// Returns a `put` that adds the tiles to a row-major matrix.
template <class R>
WEIR_INLINE auto add_to(R* c, std::ptrdiff_t stride) {
  return [c, stride](int row, int col, const tile<R>& t) {
    each_part<R>(stride, [&](int r, int v, std::ptrdiff_t part) {
      R* to = c + row * stride + col + part;
      store<R>(to, load_wide(to) + t.v[r][v]);
    });
  };
}

/// Computes the tiles on and left of the diagonal of a square product. Entries of other
/// tiles stay as they are.
template <class R>
WEIR_INLINE void lower_product(left<R> a, const R* b, std::ptrdiff_t b_stride, int size,
                               int inner, R* c, std::ptrdiff_t c_stride) {
  for (int row = 0; row < size; row += tile_rows) {
    for (int col = 0; col < row + tile_rows; col += tile_cols<R>) {
      tile<R> t = tile_zero<R>();
      tile_add(t, a, row, b, b_stride, col, 0, inner);
      put_in(c, c_stride)(row, col, t);
    }
  }
}

/// Transposes a block of 8 x 8 elements in registers, in three rounds of shuffles:
/// neighbouring elements, pairs, and halves of a row change places.
template <class R>
WEIR_INLINE void transpose_block(const R* a, std::ptrdiff_t a_stride, R* out,
                                 std::ptrdiff_t out_stride) {
  vec<R> x[lanes];
  vec<R> y[lanes];
  for (int i = 0; i < lanes; ++i) {
    x[i] = load(a + i * a_stride);
  }
  for (int i = 0; i < lanes; i += 2) {
    y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < lanes; i += 4) {
    for (int j = i; j < i + 2; ++j) {
      x[j] = __builtin_shufflevector(y[j], y[j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      x[j + 2] = __builtin_shufflevector(y[j], y[j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int j = 0; j < 4; ++j) {
    store<R>(out + j * out_stride,
             __builtin_shufflevector(x[j], x[j + 4], 0, 1, 2, 3, 8, 9, 10, 11));
    store<R>(out + (j + 4) * out_stride,
             __builtin_shufflevector(x[j], x[j + 4], 4, 5, 6, 7, 12, 13, 14, 15));
  }
}

/// Transposes a matrix whose dimensions are multiples of 8.
template <class R>
WEIR_INLINE void transpose(const R* a, std::ptrdiff_t a_stride, int rows, int cols,
                           R* out, std::ptrdiff_t out_stride) {
  for (int r = 0; r < rows; r += lanes) {
    for (int c = 0; c < cols; c += lanes) {
      transpose_block(a + r * a_stride + c, a_stride, out + c * out_stride + r,
                      out_stride);
    }
  }
}

/// Returns the inner product of two rows of 32 elements.
template <class R>
WEIR_INLINE R dot32(const R* a, const R* b) {
  vec<R> s = load(a) * load(b);
  s = fma(load(a + lanes), load(b + lanes), s);
  s = fma(load(a + 2 * lanes), load(b + 2 * lanes), s);
  s = fma(load(a + 3 * lanes), load(b + 3 * lanes), s);
  return sum<R>(s);
}

}  // namespace weir::models::WEIR_KERNEL_SPACE
