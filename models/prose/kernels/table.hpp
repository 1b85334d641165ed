// SPDX-License-Identifier: Apache-2.0
/// @file
/// The model's own kernels as a table of functions, one table per instruction set. All of
/// them work on one window of 64 rows; matrices are row-major, memories are stored as
/// [key][value].
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

inline constexpr int window_rows = 64;
inline constexpr int head_width = 32;
inline constexpr int conv_taps = 4;
/// Levels that fire this often or more rarely, but inside a window, go from firing to
/// firing; more frequent ones solve a triangular system.
inline constexpr int min_segment = 8;
/// Rows of the decay table: one per row of the window, and one for the state after it.
inline constexpr int table_rows = window_rows + 1;

/// What all levels of a head share in a window. [64][32] unless said otherwise.
template <class R>
struct key_head {
  const R* raw_key =
      nullptr;  ///< before normalisation; rows of all three are `raw_stride` apart
  const R* raw_value = nullptr;
  const R* raw_gates =
      nullptr;  ///< gate inputs: per level theta of every head, then alpha
  std::ptrdiff_t raw_stride = 0;
  const R* gate_bias = nullptr;  ///< per level as `raw_gates`, levels `bias_stride` apart
  std::ptrdiff_t bias_stride = 0;
  int levels = 0;
  int heads = 0;
  int head = 0;
  R* gates = nullptr;  ///< [levels][2][64], with bias
  R* key = nullptr;    ///< unit rows
  R* key_t = nullptr;  ///< [32][64]
  R* value = nullptr;
  R* inverse = nullptr;  ///< [64], 1 / length before normalisation
  R* key_key = nullptr;  ///< [64][64]: k_t . k_i for i <= t, in blocks
  R* open_key =
      nullptr;  ///< [64][32] rows that earlier pulses computed, and this one leaves
  R* open_value = nullptr;
  int first = 0;  ///< rows [first, last) are new
  int last = window_rows;
};

/// One level of one head in a window. Pointers to [64][32] unless said otherwise.
template <class R>
struct memory_head {
  int frequency = 1;  ///< tokens per firing
  int first = 0;      ///< rows [first, last) are new
  int last = window_rows;
  bool fires_at_end =
      false;  ///< a level of 64 tokens or more fires with the window's last row
  bool saves_states = false;        ///< save what a backward pass needs
  bool has_gradient_after = false;  ///< backward: gradients of `memory` and `accumulator`
                                    ///< after the window are given
  bool wants_gradient_before =
      false;  ///< backward: gradients before the window are wanted

  const R* raw_query = nullptr;
  std::ptrdiff_t raw_stride = 0;
  const R* gates = nullptr;  ///< [2][64] inputs of theta and alpha, with bias
  const R* key = nullptr;
  const R* key_t = nullptr;
  const R* value = nullptr;
  const R* key_key = nullptr;
  R* open_theta = nullptr;  ///< [64], as `open_key`
  R* open_keep = nullptr;

  R* memory = nullptr;         ///< [32][32], advanced when the window is complete
  R* accumulator = nullptr;    ///< [32][32], likewise
  R* memory_before = nullptr;  ///< saved
  R* memory_after = nullptr;   ///< saved, levels of 8 tokens or more: after the firing at
                               ///< the window's end
  R* query = nullptr;
  R* query_inverse = nullptr;  ///< [64]
  R* theta = nullptr;          ///< [64], divided by the frequency
  R* theta_slope = nullptr;    ///< [64], derivative by its input
  R* keep = nullptr;           ///< [64], 1 - alpha
  R* table = nullptr;  ///< [65][64] decay from the write of i to row t, 0 where it is not
                       ///< visible
  R* states = nullptr;        ///< [64 / frequency][32][32] memory before each firing
  R* before = nullptr;        ///< [65] decay from the window's start
  R* query_key = nullptr;     ///< [64][64]
  R* key_memory = nullptr;    ///< K M
  R* query_memory = nullptr;  ///< Q M
  R* error = nullptr;
  R* out = nullptr;  ///< row stride `out_stride`
  std::ptrdiff_t out_stride = 0;

  const R* d_out = nullptr;  ///< row stride `d_out_stride`
  std::ptrdiff_t d_out_stride = 0;
  R* d_query = nullptr;  ///< before normalisation, row stride `d_query_stride`
  std::ptrdiff_t d_query_stride = 0;
  R* d_key = nullptr;  ///< after normalisation
  R* d_value = nullptr;
  R* d_theta = nullptr;        ///< [64], of the gate's input
  R* d_alpha = nullptr;        ///< [64]
  R* d_memory = nullptr;       ///< [32][32], in: after the window, out: before it
  R* d_accumulator = nullptr;  ///< likewise
};

/// Numbers of one level's step, computed once per pulse.
template <class R>
struct step_plan {
  R scale = 0;  ///< of the gradient: clipping
  R mean = 0;   ///< 1 / pulses accumulated, this one included
  R rate = 0;
  R correction1 = 0;  ///< 1 / (1 - beta1^t)
  R correction2 = 0;  ///< 1 / sqrt(1 - beta2^t)
  R beta1 = 0;
  R beta2 = 0;
  R epsilon = 0;
};

/// One instruction set's kernels. Widths and counts are multiples of 16 but for `vocab`
/// and the activation's, which are of 8.
template <class R>
struct kernel_table {
  const char* name;
  /// out = x / rms(x) * gain; inverse[r] = 1 / rms.
  void (*norm_forward)(matrix<const R> x, const R* gain, matrix<R> out, matrix<R> inverse,
                       int rows, int width);
  /// dx = residual + gradient of the norm; d_gain is set to the sum over rows.
  void (*norm_backward)(matrix<const R> x, const R* gain, matrix<const R> inverse,
                        matrix<const R> dy, matrix<const R> residual, matrix<R> dx,
                        R* d_gain, int rows, int width);
  /// z[t] = sum_j taps[j] u[t - j]; `u` has 3 rows before row 0.
  void (*conv_forward)(const R* u, const R* taps, R* z, int rows, int width);
  /// du[t] = sum_j taps[j] dz[t + j]; `dz` has 3 rows after the last. d_taps is set.
  void (*conv_backward)(const R* u, const R* taps, const R* dz, R* du, R* d_taps,
                        int rows, int width);
  /// h = max(x, 0)^2, x = max(x, 0).
  void (*square_forward)(matrix<R> x, matrix<R> h, int rows, int width);
  /// dh *= 2 x.
  void (*square_backward)(matrix<const R> x, matrix<R> dh, int rows, int width);
  /// Row by row: probabilities replace logits; returns -log p of `target` (any row with
  /// target < 0 becomes 0). With `scale` > 0 a row becomes its gradient (p - 1{target}) *
  /// scale.
  void (*softmax)(R* logits, std::ptrdiff_t stride, const std::int32_t* targets, int rows,
                  int vocab, R scale, R* nats);
  void (*keys)(const key_head<R>& head);
  /// d_raw = gradient of the unit norm for d = sum of `parts` over levels; values are
  /// summed alike.
  void (*keys_backward)(const key_head<R>& head, const R* const* d_keys,
                        const R* const* d_values, int levels, R* d_raw_key,
                        R* d_raw_value, std::ptrdiff_t stride);
  void (*memory_forward)(const memory_head<R>& head);
  void (*memory_backward)(const memory_head<R>& head);
  /// a += b.
  void (*add)(R* a, const R* b, int count);
  /// out = a + b.
  void (*sum_of)(const R* a, const R* b, R* out, int count);
  /// Sum of squares, in one fixed order for a given count.
  double (*squares)(const R* a, int count);
  /// AdamW on one range. `buffer` may be null: nothing was accumulated.
  void (*step)(R* p, const R* g, R* m, R* v, R* buffer, int count,
               const step_plan<R>& plan, R decay);
  /// buffer += scale * g.
  void (*accumulate)(R* buffer, const R* g, int count, R scale);
};

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
