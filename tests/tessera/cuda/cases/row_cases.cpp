// SPDX-License-Identifier: Apache-2.0
/// @file
/// Expected results of the kernels on rows and matrices.
///
/// The exponential is the one of the C library in double precision, rounded to fp32. The
/// kernels use an own function whose error is below 0.501 units in the last place, so
/// nearly all results are the same; the inputs were chosen so that all are.
#include <cmath>

#include "cases/case_support.hpp"

namespace weir::tessera::test {
namespace {

float rounded_exp(float x) {
  return static_cast<float>(std::exp(static_cast<double>(x)));
}

// Sums of 32 lanes, added in halves.
double lane_sum(const std::vector<double>& values) {
  std::vector<double> lanes(32);
  for (std::size_t i = 0; i < values.size(); ++i) {
    lanes[i % 32] += values[i];
  }
  for (std::size_t half = 16; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) {
      lanes[l] += lanes[l + half];
    }
  }
  return lanes[0];
}

std::string softmax_case(const kernel_runner& run, shape grid, shape block,
                         std::size_t rows, std::size_t columns, bool specials) {
  std::vector<float> x = some_floats(rows * columns, 5);
  if (specials) {
    x[1] = __builtin_inff();
    x[columns] = __builtin_nanf("");
    for (std::size_t i = 0; i < columns; ++i) {
      x[2 * columns + i] = -__builtin_inff();
    }
    x[3 * columns + 2] = -__builtin_inff();
  }
  std::vector<float> y(rows * columns, -1.0F);
  std::vector<float> expected(rows * columns);
  for (std::size_t r = 0; r < rows; ++r) {
    const float* in = x.data() + r * columns;
    float largest = in[0];
    for (std::size_t i = 1; i < columns; ++i) {
      largest = largest < in[i] ? in[i] : largest;
    }
    std::vector<double> weights(columns);
    for (std::size_t i = 0; i < columns; ++i) {
      weights[i] = static_cast<double>(rounded_exp(in[i] - largest));
    }
    const auto scale = static_cast<float>(1.0 / lane_sum(weights));
    for (std::size_t i = 0; i < columns; ++i) {
      expected[r * columns + i] = plain(static_cast<float>(weights[i]) * scale);
    }
  }
  launch_maker m("softmax", grid, block);
  m.memory(x).memory(y);
  m.number(static_cast<std::int32_t>(rows)).number(static_cast<std::int32_t>(columns));
  const std::string fault = run(m.made());
  return fault.empty() ? difference(y, expected) : fault;
}

std::string layer_norm_case(const kernel_runner& run, shape grid, shape block,
                            std::size_t rows, std::size_t columns) {
  std::vector<float> x = some_floats(rows * columns, 6);
  x[columns - 1] = __builtin_nanf("");
  const std::vector<float> gain = some_floats(columns, 7);
  const std::vector<float> shift = some_floats(columns, 8);
  std::vector<float> y(rows * columns);
  std::vector<float> expected(rows * columns);
  const auto n = static_cast<double>(columns);
  for (std::size_t r = 0; r < rows; ++r) {
    const float* in = x.data() + r * columns;
    std::vector<double> values(in, in + columns);
    const double mean = lane_sum(values) / n;
    for (double& v : values) {
      v = (v - mean) * (v - mean);
    }
    const double variance = lane_sum(values) / n;
    const double scale = 1.0 / std::sqrt(variance + static_cast<double>(1e-5F));
    for (std::size_t i = 0; i < columns; ++i) {
      const auto unit = static_cast<float>((static_cast<double>(in[i]) - mean) * scale);
      const float product = unit * gain[i];
      expected[r * columns + i] = plain(product + shift[i]);
    }
  }
  launch_maker m("layer_norm", grid, block);
  m.memory(x).memory(gain).memory(shift).memory(y);
  m.number(static_cast<std::int32_t>(rows)).number(static_cast<std::int32_t>(columns));
  m.number(1e-5F);
  const std::string fault = run(m.made());
  return fault.empty() ? difference(y, expected) : fault;
}

std::string matmul_case(const kernel_runner& run, shape grid, shape block, std::size_t m,
                        std::size_t n, std::size_t k) {
  const std::vector<float> a = some_floats(m * k, 9);
  std::vector<float> b = some_floats(k * n, 10);
  b[n / 2] = __builtin_inff();
  std::vector<float> c(m * n, -1.0F);
  std::vector<float> expected(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::size_t p = 0; p < k; ++p) {
        sum = std::fma(a[i * k + p], b[p * n + j], sum);
      }
      expected[i * n + j] = plain(sum);
    }
  }
  launch_maker launch("matmul", grid, block);
  launch.memory(a).memory(b).memory(c);
  for (const std::size_t size : {m, n, k}) {
    launch.number(static_cast<std::int32_t>(size));
  }
  const std::string fault = run(launch.made());
  return fault.empty() ? difference(c, expected) : fault;
}

float lane_product(const float* a, const float* b, std::size_t n) {
  std::array<float, 8> lanes{};
  float rest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    float& to = i < n / 8 * 8 ? lanes[i % 8] : rest;
    to = std::fma(a[i], b[i], to);
  }
  const float even = (lanes[0] + lanes[4]) + (lanes[2] + lanes[6]);
  const float odd = (lanes[1] + lanes[5]) + (lanes[3] + lanes[7]);
  return (even + odd) + rest;
}

// One row of the result: keys in tiles of 64, the sums relative to the largest score.
void attend(const float* q, const float* k, const float* v, std::size_t L, std::size_t D,
            float scale, float* o) {
  float largest = -__builtin_inff();
  float weight = 0;
  for (std::size_t first = 0; first < L; first += 64) {
    const std::size_t last = first + 64 < L ? first + 64 : L;
    std::vector<float> scores;
    const float before = largest;
    for (std::size_t j = first; j < last; ++j) {
      scores.push_back(lane_product(q, k + j * D, D) * scale);
      largest = scores.back() > largest ? scores.back() : largest;
    }
    const float shrink = rounded_exp(before - largest);
    weight *= shrink;
    for (std::size_t d = 0; d < D; ++d) {
      o[d] *= shrink;
    }
    for (std::size_t j = first; j < last; ++j) {
      const float w = rounded_exp(scores[j - first] - largest);
      weight += w;
      for (std::size_t d = 0; d < D; ++d) {
        o[d] = std::fma(w, v[j * D + d], o[d]);
      }
    }
  }
  for (std::size_t d = 0; d < D; ++d) {
    o[d] = plain(o[d] / weight);
  }
}

std::string attention_case(const kernel_runner& run, shape grid, shape block,
                           std::size_t heads, std::size_t L, std::size_t D) {
  const std::vector<float> q = some_floats(heads * L * D, 11);
  std::vector<float> k = some_floats(heads * L * D, 12);
  const std::vector<float> v = some_floats(heads * L * D, 13);
  k[D - 1] = __builtin_nanf("");
  std::vector<float> o(heads * L * D, -1.0F);
  std::vector<float> expected(heads * L * D);
  for (std::size_t row = 0; row < heads * L; ++row) {
    const std::size_t head = row / L * L * D;
    attend(q.data() + row * D, k.data() + head, v.data() + head, L, D, 0.31F,
           expected.data() + row * D);
  }
  launch_maker m("flash_attention_fused", grid, block);
  m.memory(q).memory(k).memory(v).memory(o);
  for (const std::size_t size : {std::size_t{1}, heads, L, D}) {
    m.number(static_cast<std::int32_t>(size));
  }
  m.number(0.31F);
  const std::string fault = run(m.made());
  return fault.empty() ? difference(o, expected) : fault;
}

}  // namespace

void add_row_cases(std::vector<kernel_case>& cases, bool large) {
  const shape grid = large ? shape{3, 2, 1} : shape{2, 1, 1};
  const shape block = large ? shape{128, 1, 1} : shape{5, 1, 1};
  cases.push_back({"softmax", true, [=](const kernel_runner& run) {
                     return softmax_case(run, grid, block, large ? 9 : 3,
                                         large ? 300 : 37, false);
                   }});
  cases.push_back({"softmax of unusual numbers", true, [=](const kernel_runner& run) {
                     return softmax_case(run, grid, block, 4, 9, true);
                   }});
  cases.push_back({"layer_norm", true, [=](const kernel_runner& run) {
                     return layer_norm_case(run, grid, block, large ? 9 : 3,
                                            large ? 300 : 37);
                   }});
  cases.push_back({"matmul", true, [=](const kernel_runner& run) {
                     return large ? matmul_case(run, grid, block, 37, 65, 50)
                                  : matmul_case(run, grid, {32, 1, 1}, 9, 17, 19);
                   }});
  cases.push_back({"flash_attention_fused", true, [=](const kernel_runner& run) {
                     return large ? attention_case(run, grid, block, 2, 130, 24)
                                  : attention_case(run, grid, block, 2, 9, 11);
                   }});
  if (!large) {
    cases.push_back(
        {"flash_attention_fused, two tiles", true, [=](const kernel_runner& run) {
           return attention_case(run, {8, 1, 1}, {3, 1, 1}, 1, 66, 2);
         }});
  }
}

}  // namespace weir::tessera::test
