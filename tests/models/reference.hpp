// SPDX-License-Identifier: Apache-2.0
/// @file
/// The model as a loop over tokens in double precision, written down from its equations.
/// It is the oracle for the chunk form, and shares only the parameter layout with it.
/// @source{Context stream design, 3.2}
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "prose/layout.hpp"

namespace weir::test {

/// A model with one lane.
class reference_model {
 public:
  using row = std::vector<double>;

  reference_model(const models::prose_config& config,
                  const models::parameter_layout& layout, const double* parameters)
      : c_(config), layout_(layout), p_(parameters), blocks_(config.blocks) {
    for (auto& b : blocks_) {
      b.past.assign(3, row(c_.width, 0.0));
      b.m.assign(
          c_.frequencies.size(),
          std::vector<row>(c_.heads, row(models::head_width * models::head_width, 0.0)));
      b.a = b.m;
    }
  }

  /// Reads one token. Returns the logits of the next token.
  row step(std::uint32_t token) {
    const double* e = values(layout_.embedding) + token * c_.width;
    row x(e, e + c_.width);
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      x = block(b, x);
    }
    const row n = norm(x, values(layout_.final_gain));
    ++position_;
    return times(n, values(layout_.unembedding), c_.vocab);
  }
  /// Returns the memory of head `h` of level `l` in block `b`, as [key][value].
  [[nodiscard]] const row& memory(std::size_t b, std::size_t l, std::size_t h) const {
    return blocks_[b].m[l][h];
  }

 private:
  static constexpr int D = models::head_width;
  struct block_state {
    std::vector<row> past;            ///< last three normalised rows, oldest first
    std::vector<std::vector<row>> m;  ///< memories, [level][head]
    std::vector<std::vector<row>> a;  ///< accumulators, [level][head]
  };
  /// Step size and share that is kept, of one head and level.
  struct gate_pair {
    double theta;
    double keep;
  };

  const double* values(int parameter) const { return p_ + layout_[parameter].offset; }
  /// Returns x divided by its root mean square, times the gains.
  row norm(const row& x, const double* gain) const {
    double s = 0;
    for (double v : x) {
      s += v * v;
    }
    const double inv = 1 / std::sqrt(s / static_cast<double>(x.size()) + 1e-6);
    row y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] = x[i] * inv * gain[i];
    }
    return y;
  }
  /// Returns x times the transpose of `w`, whose shape is [rows, x.size()].
  static row times(const row& x, const double* w, std::size_t rows) {
    row y(rows, 0.0);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        y[r] += w[r * x.size() + i] * x[i];
      }
    }
    return y;
  }
  /// Returns head `h` of a row, scaled to unit length.
  static row unit(const row& x, std::size_t h) {
    row y(x.begin() + static_cast<std::ptrdiff_t>(h * D),
          x.begin() + static_cast<std::ptrdiff_t>((h + 1) * D));
    double s = 0;
    for (double v : y) {
      s += v * v;
    }
    for (double& v : y) {
      v /= std::sqrt(s + 1e-6);
    }
    return y;
  }
  /// Returns q m.
  static row read(const row& m, const row& q) {
    row y(D, 0.0);
    for (int k = 0; k < D; ++k) {
      for (int v = 0; v < D; ++v) {
        y[static_cast<std::size_t>(v)] +=
            m[static_cast<std::size_t>(k * D + v)] * q[static_cast<std::size_t>(k)];
      }
    }
    return y;
  }
  /// Computes m = m + factor * k^T e.
  static void write(row& m, const row& k, const row& e, double factor) {
    for (int i = 0; i < D; ++i) {
      for (int v = 0; v < D; ++v) {
        m[static_cast<std::size_t>(i * D + v)] +=
            factor * k[static_cast<std::size_t>(i)] * e[static_cast<std::size_t>(v)];
      }
    }
  }
  /// Returns the step size and the share that the memory keeps, for one token.
  gate_pair gates(const row& z, const models::level_parameters& p, std::size_t h) const {
    const row g = times(z, values(p.gate_weight), 2 * c_.heads);
    const double* bias = values(p.gate_bias);
    const double zt = g[h] + bias[h];
    const double za = g[c_.heads + h] + bias[c_.heads + h];
    return {1 / (1 + std::exp(-zt)), (1 - 0x1p-10) / (1 + std::exp(za))};
  }
  /// Reads and writes the memory of one level of one head. Returns the row that was read.
  row level_head(block_state& s, const row& q, const row& k, const row& v, gate_pair g,
                 std::size_t l, std::size_t h) {
    row& m = s.m[l][h];
    row e = read(m, k);
    for (int i = 0; i < D; ++i) {
      e[static_cast<std::size_t>(i)] -= v[static_cast<std::size_t>(i)];
    }
    if (l == 0) {
      write(m, k, e, -g.theta);
      for (double& x : m) {
        x *= g.keep;
      }
      return read(m, q);
    }
    row y = read(m, q);
    const double c = static_cast<double>(c_.frequencies[l]);
    write(s.a[l][h], k, e, g.theta / c);
    if ((position_ + 1) % c_.frequencies[l] == 0) {
      for (std::size_t i = 0; i < m.size(); ++i) {
        m[i] = g.keep * (m[i] - s.a[l][h][i]);
        s.a[l][h][i] = 0;
      }
    }
    return y;
  }
  /// Returns a row after one block: convolution, memories of all levels and heads, and
  /// MLP.
  row block(std::size_t b, const row& x) {
    const models::block_parameters& p = layout_.blocks[b];
    block_state& s = blocks_[b];
    const row u = norm(x, values(p.gain1));
    row z(c_.width);
    for (std::size_t i = 0; i < z.size(); ++i) {
      const double* c = values(p.conv) + i;
      z[i] = c[0] * u[i] + c[c_.width] * s.past[2][i] + c[2 * c_.width] * s.past[1][i] +
             c[3 * c_.width] * s.past[0][i];
    }
    s.past = {s.past[1], s.past[2], u};
    const std::size_t inner = c_.heads * D;
    const row key = times(z, values(p.key), inner);
    const row value = times(z, values(p.value), inner);
    row x1 = x;
    for (std::size_t l = 0; l < p.levels.size(); ++l) {
      const row query = times(z, values(p.levels[l].query), inner);
      for (std::size_t h = 0; h < c_.heads; ++h) {
        const row v(value.begin() + static_cast<std::ptrdiff_t>(h * D),
                    value.begin() + static_cast<std::ptrdiff_t>((h + 1) * D));
        const row y = level_head(s, unit(query, h), unit(key, h), v,
                                 gates(z, p.levels[l], h), l, h);
        const double* out = values(p.levels[l].out) + h * D * c_.width;
        for (int i = 0; i < D; ++i) {
          for (std::size_t j = 0; j < c_.width; ++j) {
            x1[j] += y[static_cast<std::size_t>(i)] *
                     out[static_cast<std::size_t>(i) * c_.width + j];
          }
        }
      }
    }
    return mlp(p, x1);
  }
  /// Returns a row after the MLP, whose activation is the square of the positive part.
  row mlp(const models::block_parameters& p, const row& x1) const {
    row hidden = times(norm(x1, values(p.gain2)), values(p.mlp_in), c_.hidden);
    row x = x1;
    for (std::size_t i = 0; i < hidden.size(); ++i) {
      const double r = hidden[i] > 0 ? hidden[i] * hidden[i] : 0;
      for (std::size_t j = 0; j < x.size(); ++j) {
        x[j] += r * values(p.mlp_out)[i * c_.width + j];
      }
    }
    return x;
  }

  models::prose_config c_;
  const models::parameter_layout& layout_;
  const double* p_;
  std::vector<block_state> blocks_;
  std::uint64_t position_ = 0;
};

}  // namespace weir::test
