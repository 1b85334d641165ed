// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels of the model as a table of functions, one table per instruction set, and
/// the arguments of the kernels.
///
/// Kernels work on one window of 64 rows. Matrices are row-major; memories are stored as
/// [key][value]. Names that begin with `d_` are gradients, and a name that ends with `_t`
/// is a transpose.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::models {

/// A matrix whose rows are `stride` elements apart.
template <class R>
struct matrix {
  R* data = nullptr;
  std::ptrdiff_t stride = 0;
};

/// Rows of a window.
inline constexpr int window_rows = 64;
/// Elements of a key, a value and a query of one head.
inline constexpr int head_width = 32;
/// Rows over which the convolution reaches, the present one included.
inline constexpr int conv_taps = 4;
/// Smallest frequency, in tokens per firing, at which a level is computed segment by
/// segment: see `segments.hpp`. Levels that fire more often solve a triangular system.
inline constexpr int min_segment = 8;
/// Rows of the decay table: one for each row of the window, and one for the memory after
/// it.
inline constexpr int table_rows = window_rows + 1;

/// Arguments that all levels of a head share in a window. Pointers are to dense [64][32]
/// matrices unless a comment says otherwise.
template <class R>
struct key_head {
  // Input: columns of the projections, with rows `raw_stride` apart.
  const R* raw_key = nullptr;    ///< keys before they are scaled to unit length
  const R* raw_value = nullptr;  ///< values
  const R* raw_gates = nullptr;  ///< [64][levels][2][heads]: inputs of theta and alpha
  std::ptrdiff_t raw_stride = 0;
  const R* gate_bias = nullptr;  ///< [levels][2][heads], with levels `bias_stride` apart
  std::ptrdiff_t bias_stride = 0;
  int levels = 0;
  int heads = 0;
  int head = 0;  ///< index of this head

  // Output.
  R* gates = nullptr;  ///< [levels][2][64]: inputs of this head's gates, with bias
  R* key = nullptr;    ///< keys of unit length
  R* key_t = nullptr;  ///< [32][64]
  R* value = nullptr;
  R* inverse = nullptr;  ///< [64]: 1 / length of each raw key
  R* key_key = nullptr;  ///< [64][64]: k_t . k_i, in the tiles that hold i <= t

  // Context of the lane: rows that earlier pulses computed, and where this one leaves its
  // own if the window stays open.
  R* open_key = nullptr;
  R* open_value = nullptr;
  int first = 0;           ///< first row that this pulse computes
  int last = window_rows;  ///< row behind the last one that it computes
};

/// Arguments of one level of one head in a window. Pointers are to dense [64][32]
/// matrices unless a comment says otherwise. `memory.hpp` gives the equations.
template <class R>
struct memory_head {
  int frequency = 1;          ///< tokens per firing
  int first = 0;              ///< first row that this pulse computes
  int last = window_rows;     ///< row behind the last one that it computes
  bool fires_at_end = false;  ///< a level of 64 tokens or more fires with the last row
  bool saves_states = false;  ///< a backward pass follows: keep the memories for it
  /// Backward: `d_memory` and `d_accumulator` hold gradients after the window.
  bool has_gradient_after = false;
  /// Backward: they must hold the gradients before the window in the end.
  bool wants_gradient_before = false;

  // Input of the forward kernel.
  const R* raw_query = nullptr;  ///< before they are scaled; rows `raw_stride` apart
  std::ptrdiff_t raw_stride = 0;
  const R* gates = nullptr;  ///< [2][64]: inputs of theta and alpha, with bias
  const R* key = nullptr;    ///< this and the next three: from `key_head`
  const R* key_t = nullptr;
  const R* value = nullptr;
  const R* key_key = nullptr;

  // Context of the lane.
  R* open_theta = nullptr;   ///< [64]: rows of the open window, as `key_head::open_key`
  R* open_keep = nullptr;    ///< [64]
  R* memory = nullptr;       ///< [32][32]: advances when the window is complete
  R* accumulator = nullptr;  ///< [32][32]: steps since the last firing

  // Output of the forward kernel, which the backward kernel reads.
  R* memory_before = nullptr;  ///< [32][32]: the memory before the window
  R* memory_after = nullptr;   ///< [32][32]: after the firing at the window's end
  R* query = nullptr;          ///< queries of unit length
  R* query_inverse = nullptr;  ///< [64]: 1 / length of each raw query
  R* theta = nullptr;          ///< [64]: the rate of the step, divided by the frequency
  R* theta_slope = nullptr;    ///< [64]: derivative of theta by its input
  R* keep = nullptr;           ///< [64]: the part of the memory that a firing keeps
  R* table = nullptr;          ///< [65][64]: decay of the write of row i until row t
  R* states = nullptr;         ///< [64 / frequency][32][32]: memory of each segment
  R* before = nullptr;        ///< [65]: decay of the memory before the window until row t
  R* query_key = nullptr;     ///< [64][64]: q_t . k_i, in the tiles that hold i <= t
  R* key_memory = nullptr;    ///< keys times the memory before the window
  R* query_memory = nullptr;  ///< queries times the memory before the window
  R* error = nullptr;         ///< e_t
  R* out = nullptr;           ///< rows read from the memory, `out_stride` apart
  std::ptrdiff_t out_stride = 0;

  // The backward kernel.
  const R* d_out = nullptr;  ///< input; rows `d_out_stride` apart
  std::ptrdiff_t d_out_stride = 0;
  R* d_query = nullptr;  ///< of the raw queries; rows `d_query_stride` apart
  std::ptrdiff_t d_query_stride = 0;
  R* d_key = nullptr;  ///< of the keys of unit length
  R* d_value = nullptr;
  R* d_theta = nullptr;        ///< [64]: of the input of theta
  R* d_alpha = nullptr;        ///< [64]: of the input of alpha
  R* d_memory = nullptr;       ///< [32][32]: input after the window, output before it
  R* d_accumulator = nullptr;  ///< [32][32]: input after the window, output before it
};

/// Numbers of one level's AdamW step, which are computed once per pulse.
template <class R>
struct step_plan {
  R scale = 0;        ///< factor that clips the gradient
  R mean = 0;         ///< 1 / number of accumulated pulses, this one included
  R rate = 0;         ///< step size
  R correction1 = 0;  ///< 1 / (1 - beta1^t)
  R correction2 = 0;  ///< 1 / sqrt(1 - beta2^t)
  R beta1 = 0;
  R beta2 = 0;
  R epsilon = 0;
};

/// The kernels of one instruction set. Widths and counts are multiples of 16, except that
/// those of `square_*` are multiples of 8 and `vocab` may be any number.
/// @threads{safe to call concurrently, on different memory}
template <class R>
struct kernel_table {
  const char* name;  ///< instruction set, e.g. "x86-64-v3"
  /// Computes out = x / rms(x) * gain; inverse[r] = 1 / rms of row r.
  void (*norm_forward)(matrix<const R> x, const R* gain, matrix<R> out, matrix<R> inverse,
                       int rows, int width);
  /// Computes dx = residual + gradient through the norm. `d_gain` is set to the sum over
  /// the rows.
  void (*norm_backward)(matrix<const R> x, const R* gain, matrix<const R> inverse,
                        matrix<const R> dy, matrix<const R> residual, matrix<R> dx,
                        R* d_gain, int rows, int width);
  /// Computes z[t] = sum_j taps[j] u[t - j]. `u` has 3 rows before row 0.
  void (*conv_forward)(const R* u, const R* taps, R* z, int rows, int width);
  /// Computes du[t] = sum_j taps[j] dz[t + j]. `dz` has 3 rows after the last one.
  /// `d_taps` is set to the sum over the rows.
  void (*conv_backward)(const R* u, const R* taps, const R* dz, R* du, R* d_taps,
                        int rows, int width);
  /// Computes x = max(x, 0) in place, and h = x^2.
  void (*square_forward)(matrix<R> x, matrix<R> h, int rows, int width);
  /// Computes dh = dh * 2 x in place.
  void (*square_backward)(matrix<const R> x, matrix<R> dh, int rows, int width);
  /// Computes nats[r] = -log p of the target, row by row, or 0 for a row whose target is
  /// negative. With `scale` > 0 the gradient (p - 1{target}) * scale replaces the logits
  /// of a row, or zeros if it has no target. With `scale` = 0 the logits become
  /// undefined.
  void (*softmax)(R* logits, std::ptrdiff_t stride, const std::int32_t* targets, int rows,
                  int vocab, R scale, R* nats);
  /// Computes the output of `key_head`.
  void (*keys)(const key_head<R>& head);
  /// Adds the gradients of keys and values over the levels, in order, and takes those of
  /// the keys back through the scaling to unit length.
  void (*keys_backward)(const key_head<R>& head, const R* const* d_keys,
                        const R* const* d_values, int levels, R* d_raw_key,
                        R* d_raw_value, std::ptrdiff_t stride);
  /// Computes the forward output of `memory_head`, and advances the memory if the window
  /// is complete.
  void (*memory_forward)(const memory_head<R>& head);
  /// Computes the gradients of `memory_head`.
  void (*memory_backward)(const memory_head<R>& head);
  /// Computes a = a + b.
  void (*add)(R* a, const R* b, int count);
  /// Computes out = a + b.
  void (*sum_of)(const R* a, const R* b, R* out, int count);
  /// Returns the sum of squares, added in an order that only depends on the count.
  double (*squares)(const R* a, int count);
  /// Steps the parameters `p` by AdamW, with gradients `g`, moments `m` and `v`, and
  /// weight decay `decay`. `buffer` is the error buffer, or null if nothing was
  /// accumulated in it.
  void (*step)(R* p, const R* g, R* m, R* v, R* buffer, int count,
               const step_plan<R>& plan, R decay);
  /// Computes buffer = buffer + scale * g.
  void (*accumulate)(R* buffer, const R* g, int count, R scale);
};

// The tables, defined by one file per instruction set.
namespace level_base {
[[nodiscard]] const kernel_table<float>& table_float();
[[nodiscard]] const kernel_table<double>& table_double();
}  // namespace level_base
namespace level_v3 {
[[nodiscard]] const kernel_table<float>& table_float();
[[nodiscard]] const kernel_table<double>& table_double();
}  // namespace level_v3
namespace level_v4 {
[[nodiscard]] const kernel_table<float>& table_float();
}

}  // namespace weir::models
