// SPDX-License-Identifier: Apache-2.0
/// @file
/// Small products held in registers, for operands that lie in the first-level cache.
/// Included once per instruction set. One entry's terms are added in ascending order of
/// the inner index, whatever the rest is.
#pragma once

#include "prose/kernels/simd.hpp"

namespace weir::models::WEIR_KERNEL_SPACE {

/// Left operand: entry (row, k) is at `data[row * row_step + k * inner_step]`, so a
/// transpose costs nothing.
template <class R>
struct left {
  const R* data;
  std::ptrdiff_t row_step;
  std::ptrdiff_t inner_step;
};
template <class R>
WEIR_INLINE left<R> plain(const R* a, std::ptrdiff_t stride) {
  return {a, stride, 1};
}
template <class R>
WEIR_INLINE left<R> transposed(const R* a, std::ptrdiff_t stride) {
  return {a, 1, stride};
}

inline constexpr int tile_rows = 4;
inline constexpr int tile_vecs = 2;
template <class R>
inline constexpr int tile_cols = tile_vecs* wide_lanes<R>;

template <class R>
struct tile {
  wide<R> v[tile_rows][tile_vecs];
};

/// Calls f(r, c, offset) for every register of a tile: the offset of its first element in
/// a matrix with this stride.
template <class R, class F>
WEIR_INLINE void each_part(std::ptrdiff_t stride, F f) {
  for (int r = 0; r < tile_rows; ++r) {
    for (int c = 0; c < tile_vecs; ++c) {
      f(r, c, r * stride + c * wide_lanes<R>);
    }
  }
}

/// t += left(row .. row+3, k0 .. k1-1) * b(k0 .. k1-1, col .. col+tile_cols-1).
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

/// Whole product, tile by tile: `inner(row)` gives the range of k for the rows row ..
/// row+3, `put(row, col, tile)` takes the result.
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
/// All k in [0, n).
WEIR_INLINE auto whole(int n) {
  return [n](int) { return inner_range{0, n}; };
}
/// k up to the last row of the tile: the left operand is lower triangular.
WEIR_INLINE auto lower() {
  return [](int row) { return inner_range{0, row + tile_rows}; };
}
/// k from the first row of the tile on: the left operand is upper triangular with `n`
/// columns.
WEIR_INLINE auto upper(int n) {
  return [n](int row) { return inner_range{row, n}; };
}

/// Writes tiles to a row-major matrix.
template <class R>
WEIR_INLINE auto put_in(R* c, std::ptrdiff_t stride) {
  return [c, stride](int row, int col, const tile<R>& t) {
    each_part<R>(stride, [&](int r, int v, std::ptrdiff_t at) {
      store(c + row * stride + col + at, t.v[r][v]);
    });
  };
}
/// Adds tiles to a row-major matrix.
template <class R>
WEIR_INLINE auto add_to(R* c, std::ptrdiff_t stride) {
  return [c, stride](int row, int col, const tile<R>& t) {
    each_part<R>(stride, [&](int r, int v, std::ptrdiff_t at) {
      R* to = c + row * stride + col + at;
      store<R>(to, load_wide(to) + t.v[r][v]);
    });
  };
}

/// Lower triangle, in tiles, of a product of 64 x 64: entries in tiles right of the
/// diagonal stay as they are.
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

/// Transposes a block of 8 x 8.
template <class R>
WEIR_INLINE void transpose_block(const R* a, std::ptrdiff_t a_stride, R* out,
                                 std::ptrdiff_t out_stride) {
  vec<R> x[lanes];
  vec<R> y[lanes];
  for (int i = 0; i < lanes; ++i) {
    x[i] = load(a + i * a_stride);
  }
  for (int i = 0; i < lanes; i += 2) {  // pairs of columns
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

/// Rows of 32: sum of a[c] * b[c].
template <class R>
WEIR_INLINE R dot32(const R* a, const R* b) {
  vec<R> s = load(a) * load(b);
  s = fma(load(a + lanes), load(b + lanes), s);
  s = fma(load(a + 2 * lanes), load(b + 2 * lanes), s);
  s = fma(load(a + 3 * lanes), load(b + 3 * lanes), s);
  return sum<R>(s);
}

}  // namespace weir::models::WEIR_KERNEL_SPACE
