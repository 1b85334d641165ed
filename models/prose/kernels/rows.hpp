// SPDX-License-Identifier: Apache-2.0
/// @file
/// Kernels that go row by row or element by element: norms, convolution, activation, loss
/// and optimizer. `table.hpp` says what each kernel computes. Included once per
/// instruction set.
///
/// Sums over a row use eight accumulators on every instruction set (`vec`), so that their
/// order is fixed. Everything else uses the widest registers (`wide`).
#pragma once

#include "prose/kernels/simd.hpp"
#include "prose/kernels/table.hpp"

namespace weir::models::WEIR_KERNEL_SPACE {

/// Added to the mean square of a row, so that a row of zeros has a finite inverse.
inline constexpr double norm_epsilon = 1e-6;

/// Root mean square, without a mean.
template <class R>
void norm_forward(matrix<const R> x, const R* gain, matrix<R> out, matrix<R> inverse,
                  int rows, int width) {
  for (int r = 0; r < rows; ++r) {
    const R* from = x.data + r * x.stride;
    R* to = out.data + r * out.stride;
    // Two accumulators hide the latency; their sum has a fixed order.
    vec<R> s0 = all(R(0));
    vec<R> s1 = s0;
    for (int c = 0; c < width; c += 2 * lanes) {
      const vec<R> a = load(from + c);
      const vec<R> b = load(from + c + lanes);
      s0 = fma(a, a, s0);
      s1 = fma(b, b, s1);
    }
    // The inverse is kept for the way back.
    const R inv = R(1) / root(sum<R>(s0 + s1) / R(width) + R(norm_epsilon));
    inverse.data[r * inverse.stride] = inv;
    // Lanes do not meet here, so wide registers are allowed.
    for (int c = 0; c < width; c += wide_lanes<R>) {
      store<R>(to + c, load_wide(from + c) * all_wide(inv) * load_wide(gain + c));
    }
  }
}

/// The gain's gradient is the sum over the rows.
template <class R>
void norm_backward(matrix<const R> x, const R* gain, matrix<const R> inverse,
                   matrix<const R> dy, matrix<const R> residual, matrix<R> dx, R* d_gain,
                   int rows, int width) {
  for (int c = 0; c < width; c += lanes) {
    store(d_gain + c, all(R(0)));
  }
  for (int r = 0; r < rows; ++r) {
    const R* row = x.data + r * x.stride;
    const R* d = dy.data + r * dy.stride;
    const vec<R> inv = all(inverse.data[r * inverse.stride]);
    // First the sum over the row, then the row itself.
    vec<R> s0 = all(R(0));
    for (int c = 0; c < width; c += lanes) {
      const vec<R> hat = load(row + c) * inv;
      const vec<R> g = load(d + c);
      store(d_gain + c, fma(g, hat, load(d_gain + c)));
      s0 = fma(g * load(gain + c), hat, s0);
    }
    // The mean of g * hat, which the derivative of the inverse brings in.
    const wide<R> mean = all_wide(sum<R>(s0) / R(width));
    const wide<R> wide_inv = all_wide(inverse.data[r * inverse.stride]);
    for (int c = 0; c < width; c += wide_lanes<R>) {
      const wide<R> hat = load_wide(row + c) * wide_inv;
      const wide<R> g = load_wide(d + c) * load_wide(gain + c) - hat * mean;
      // The gradient that went around the norm is added.
      store(dx.data + r * dx.stride + c,
            fma(g, wide_inv, load_wide(residual.data + r * residual.stride + c)));
    }
  }
}

/// Each column on its own; the taps stay in registers.
template <class R>
void conv_forward(const R* u, const R* taps, R* z, int rows, int width) {
  for (int c = 0; c < width; c += wide_lanes<R>) {
    const wide<R> c0 = load_wide(taps + c);
    const wide<R> c1 = load_wide(taps + width + c);
    const wide<R> c2 = load_wide(taps + 2 * width + c);
    const wide<R> c3 = load_wide(taps + 3 * width + c);
    // The three rows in front of the first one.
    wide<R> u3 = load_wide(u - 3 * width + c);
    wide<R> u2 = load_wide(u - 2 * width + c);
    wide<R> u1 = load_wide(u - width + c);
    for (int r = 0; r < rows; ++r) {
      const wide<R> u0 = load_wide(u + r * width + c);
      // The order of the sum is that of the taps.
      store<R>(z + r * width + c, fma(u3, c3, fma(u2, c2, fma(u1, c1, u0 * c0))));
      // Rows move on by one.
      u3 = u2;
      u2 = u1;
      u1 = u0;
    }
  }
}

/// Gradients of inputs and of taps in one pass.
template <class R>
void conv_backward(const R* u, const R* taps, const R* dz, R* du, R* d_taps, int rows,
                   int width) {
  for (int c = 0; c < width; c += wide_lanes<R>) {
    wide<R> tap[conv_taps];
    wide<R> grad[conv_taps];
    for (int j = 0; j < conv_taps; ++j) {
      tap[j] = load_wide(taps + j * width + c);
      grad[j] = all_wide(R(0));
    }
    for (int r = 0; r < rows; ++r) {
      const wide<R> d0 = load_wide(dz + r * width + c);
      // A row reaches itself and the three rows behind it.
      wide<R> s = d0 * tap[0];
      for (int j = 1; j < conv_taps; ++j) {
        s = fma(load_wide(dz + (r + j) * width + c), tap[j], s);
      }
      store<R>(du + r * width + c, s);
      // The inputs in front of the row.
      for (int j = 0; j < conv_taps; ++j) {
        grad[j] = fma(d0, load_wide(u + (r - j) * width + c), grad[j]);
      }
    }
    for (int j = 0; j < conv_taps; ++j) {
      store<R>(d_taps + j * width + c, grad[j]);
    }
  }
}

/// The rectifier stays in `x` for the way back.
template <class R>
void square_forward(matrix<R> x, matrix<R> h, int rows, int width) {
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < width; c += lanes) {
      R* from = x.data + r * x.stride + c;
      const vec<R> a = larger(load(from), all(R(0)));
      store<R>(from, a);
      store<R>(h.data + r * h.stride + c, a * a);
    }
  }
}

/// The derivative of the square; it is 0 where the rectifier is.
template <class R>
void square_backward(matrix<const R> x, matrix<R> dh, int rows, int width) {
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < width; c += lanes) {
      R* to = dh.data + r * dh.stride + c;
      store<R>(to, load(to) * (load(x.data + r * x.stride + c) * all(R(2))));
    }
  }
}

/// Replaces the logits of a row by e^(logit - top) and returns their sum. Elements behind
/// the last whole vector are processed one by one.
///
/// All are added in an order that does not depend on the instruction set.
template <class R>
WEIR_INLINE R exponentials(R* row, int vocab, R top) {
  const int whole = vocab / lanes * lanes;
  vec<R> s = all(R(0));
  for (int c = 0; c < whole; c += lanes) {
    const vec<R> e = exponential(load(row + c) - all(top));
    store<R>(row + c, e);
    s = s + e;
  }
  R total = sum<R>(s);
  for (int c = whole; c < vocab; ++c) {
    row[c] = exponential(all(row[c] - top))[0];
    total += row[c];
  }
  return total;
}

/// Computes the loss of a row that has a target, and its probabilities or its gradient.
///
/// With a scale of 0 only the loss is computed.
template <class R>
void softmax_row(R* row, int target, int vocab, R scale, R* nats) {
  const int whole = vocab / lanes * lanes;
  // The largest logit, so that no exponential overflows.
  vec<R> m = all(row[0]);
  for (int c = 0; c < whole; c += lanes) {
    m = larger(m, load(row + c));
  }
  R top = largest<R>(m);
  for (int c = whole; c < vocab; ++c) {
    top = row[c] > top ? row[c] : top;
  }
  // Read before the row is replaced.
  const R at_target = row[target] - top;
  const R total = exponentials(row, vocab, top);
  *nats = logarithm(total) - at_target;
  if (!(scale > R(0))) {
    return;
  }
  const R factor = scale / total;
  // Probabilities times the scale, minus the scale at the target.
  for (int c = 0; c < whole; c += lanes) {
    store<R>(row + c, load(row + c) * all(factor));
  }
  for (int c = whole; c < vocab; ++c) {
    row[c] *= factor;
  }
  row[target] -= scale;
}

/// Rows without a target have neither loss nor gradient.
template <class R>
void softmax(R* logits, std::ptrdiff_t stride, const std::int32_t* targets, int rows,
             int vocab, R scale, R* nats) {
  for (int r = 0; r < rows; ++r) {
    R* row = logits + r * stride;
    if (targets[r] >= 0) {
      softmax_row(row, targets[r], vocab, scale, nats + r);
      continue;
    }
    nats[r] = R(0);
    for (int c = 0; c < vocab && scale > R(0); ++c) {
      row[c] = R(0);
    }
  }
}

/// The count is a multiple of the padding.
template <class R>
void add(R* a, const R* b, int count) {
  for (int i = 0; i < count; i += wide_lanes<R>) {
    store<R>(a + i, load_wide(a + i) + load_wide(b + i));
  }
}

/// Both operands may be the same array as the result.
template <class R>
void sum_of(const R* a, const R* b, R* out, int count) {
  for (int i = 0; i < count; i += wide_lanes<R>) {
    store<R>(out + i, load_wide(a + i) + load_wide(b + i));
  }
}

/// Adds squares in blocks of 512 elements in the type of the elements, and the sums of
/// the blocks in double, so that the error does not grow with the size of the parameter.
template <class R>
double squares(const R* a, int count) {
  double total = 0;
  for (int block = 0; block < count; block += 512) {
    const int end = block + 512 < count ? block + 512 : count;
    // Four chains hide the latency.
    vec<R> s[4] = {all(R(0)), all(R(0)), all(R(0)), all(R(0))};
    int i = block;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      for (int j = 0; j < 4; ++j) {
        const vec<R> x = load(a + i + j * lanes);
        s[j] = fma(x, x, s[j]);
      }
    }
    // Elements behind the last whole block of vectors.
    R rest = R(0);
    for (; i < end; ++i) {
      rest += a[i] * a[i];
    }
    total += static_cast<double>(sum<R>((s[0] + s[1]) + (s[2] + s[3]))) +
             static_cast<double>(rest);
  }
  return total;
}

/// One AdamW step. With `Accumulated`, the gradient is the mean of the error buffer and
/// the present gradient, and the buffer is emptied.
///
/// The arrays have the same length, with their padding.
template <class R, bool Accumulated>
void step_range(R* p, const R* g, R* m, R* v, R* buffer, int count,
                const step_plan<R> plan, R decay) {
  // The pull towards zero does not depend on the gradient.
  const wide<R> shrink = all_wide(R(1) - plan.rate * decay);
  const wide<R> gain = all_wide(plan.rate * plan.correction1);
  for (int i = 0; i < count; i += wide_lanes<R>) {
    wide<R> d = load_wide(g + i) * all_wide(plan.scale);
    // The branch is decided when the code is compiled.
    if (Accumulated) {
      d = (load_wide(buffer + i) + d) * all_wide(plan.mean);
      store(buffer + i, all_wide(R(0)));
    }
    const wide<R> m0 = load_wide(m + i);
    // The mean of gradients, as m + (1 - beta1) (d - m).
    const wide<R> m1 = fma(d - m0, all_wide(R(1) - plan.beta1), m0);
    const wide<R> v1 =
        fma(load_wide(v + i), all_wide(plan.beta2), d * d * all_wide(R(1) - plan.beta2));
    store<R>(m + i, m1);
    store<R>(v + i, v1);
    // The root of the second moment, corrected, and a small number.
    const wide<R> below =
        fma(root(v1), all_wide(plan.correction2), all_wide(plan.epsilon));
    store<R>(p + i, load_wide(p + i) * shrink - gain * m1 / below);
  }
}

/// A null buffer means that nothing was accumulated.
template <class R>
void step(R* p, const R* g, R* m, R* v, R* buffer, int count, const step_plan<R>& plan,
          R decay) {
  if (buffer != nullptr) {
    step_range<R, true>(p, g, m, v, buffer, count, plan, decay);
  } else {
    step_range<R, false>(p, g, m, v, buffer, count, plan, decay);
  }
}

/// The gradient is scaled like that of a step.
template <class R>
void accumulate(R* buffer, const R* g, int count, R scale) {
  for (int i = 0; i < count; i += wide_lanes<R>) {
    store<R>(buffer + i, fma(load_wide(g + i), all_wide(scale), load_wide(buffer + i)));
  }
}

}  // namespace weir::models::WEIR_KERNEL_SPACE
