// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the kernels of the layers: values against plain loops, and equal bits on every
/// instruction set. The kernels of the baseline have vectors of 8 lanes, as those of
/// AVX2, and `sixteen_lane_table` has the code of AVX-512 with lanes that are computed
/// one by one: both orders of operations are compared on every machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernel_choice.hpp"
#include "layers/kernels/select.hpp"
#include "models/layers/sixteen_lanes.hpp"
#include "models/layers/some_weights.hpp"
#include "prose/kernels/select.hpp"
#include "support/case_count.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/math/elementary.hpp"
#include "weir/base/small_floats.hpp"
#include "weir/models/instruction_sets.hpp"

namespace weir::models::layers {
namespace {

using test::some_rows;

/// Returns the kernels that run here: those with 16 emulated lanes, those of the
/// baseline, and those of the instruction sets that this processor has.
std::vector<const layer_kernels*> tables_here() {
  std::vector<const layer_kernels*> tables{&test::sixteen_lane_table()};
  for (const char* name : {"x86-64", "x86-64-v3", "x86-64-v4"}) {
    if (auto table = select_layer_kernels(name)) {
      tables.push_back(*table);
    }
  }
  return tables;
}

std::vector<float> random_floats(std::size_t count, std::uint64_t seed) {
  const philox random(seed, 5);
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = random.normal(i);
  }
  return x;
}

bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

panel_kind kind_of(weight_type type) {
  return static_cast<panel_kind>(static_cast<int>(type));
}

TEST(LayerKernels, TypesOfPanelsHaveTheSameNumbersAsTypesOfWeights) {
  EXPECT_EQ(kind_of(weight_type::f32), panel_kind::f32);
  EXPECT_EQ(kind_of(weight_type::q8_0), panel_kind::q8_0);
  EXPECT_EQ(kind_of(weight_type::q4_1), panel_kind::q4_1);
}

/// Returns the sum that `product_call` defines: sections of 256 inputs, each of which is
/// a chain, are added in ascending order.
float sum_of_sections(const float* row, const std::vector<float>& weights) {
  float sum = 0;
  for (std::size_t begin = 0; begin < weights.size(); begin += 256) {
    float chain = 0;
    for (std::size_t k = begin; k < std::min(begin + 256, weights.size()); ++k) {
      chain = std::fma(row[k], weights[k], chain);
    }
    sum = begin == 0 ? chain : sum + chain;
  }
  return sum;
}

/// Expects that a product equals the sums that define it, on every instruction set.
void expect_product(weight_type type, int row_count, int panel_count, int inputs) {
  const panel_shape shape{type, static_cast<std::uint64_t>(16 * panel_count),
                          static_cast<std::uint64_t>(inputs)};
  const byte_vector stored = some_rows(shape, static_cast<std::uint64_t>(inputs));
  const auto matrix = test::packed("w", shape, stored, 0);
  const int stride = inputs + 3;
  const auto rows = random_floats(std::size_t(row_count) * std::size_t(stride), 9);
  std::vector<float> expected(static_cast<std::size_t>(row_count * 16 * panel_count));
  for (std::uint64_t o = 0; o < shape.outputs; ++o) {
    const auto weights = test::expected_weights(shape, stored, o);
    for (int r = 0; r < row_count; ++r) {
      expected[static_cast<std::size_t>(r) * shape.outputs + o] =
          sum_of_sections(rows.data() + std::ptrdiff_t{r} * stride, weights);
    }
  }
  for (const layer_kernels* table : tables_here()) {
    std::vector<float> out(expected.size());
    product_call call;
    call.rows = rows.data();
    call.row_stride = stride;
    call.row_count = row_count;
    call.inputs = inputs;
    call.kind = kind_of(type);
    call.panels = matrix.panels.data();
    call.panel_bytes = static_cast<std::ptrdiff_t>(shape.panel_bytes());
    call.panel_count = panel_count;
    call.out = out.data();
    call.out_stride = std::ptrdiff_t{16} * panel_count;
    table->product(call);
    EXPECT_TRUE(equal_bits(out, expected))
        << table->name << " " << name_of(type) << " rows " << row_count << " panels "
        << panel_count << " inputs " << inputs;
  }
}

TEST(LayerKernels, ProductsAreSectionsInAscendingOrderForEveryShape) {
  for (const weight_type type :
       {weight_type::f32, weight_type::q8_0, weight_type::q4_1}) {
    for (int rows = 1; rows <= 26; ++rows) {
      expect_product(type, rows, 1 + rows % 3, 64);
    }
    for (int panels = 1; panels <= 17; ++panels) {
      expect_product(type, 1, panels, 96);
    }
  }
  // Few rows and many, for which quantised weights are unpacked in sections.
  for (const weight_type type :
       {weight_type::f32, weight_type::q8_0, weight_type::q4_1}) {
    for (const int inputs : {256, 288, 512, 576}) {
      expect_product(type, 1, 9, inputs);
      expect_product(type, 13, 1, inputs);
      expect_product(type, 31, 1, inputs);
      expect_product(type, 32, 2, inputs);
      expect_product(type, 37, 1, inputs);
    }
  }
  expect_product(weight_type::f32, 2, 1, 255);
  expect_product(weight_type::f32, 1, 1, 513);
  expect_product(weight_type::f32, 3, 2, 1);
  expect_product(weight_type::f32, 1, 9, 37);
}

/// Returns the product of rows, one after another, and of panels.
/// @pre `inputs` is a multiple of 32.
std::vector<float> product_of(const layer_kernels& table, panel_kind kind,
                              const std::vector<float>& rows, const byte_vector& panels,
                              int inputs = 32) {
  const std::size_t block = kind == panel_kind::f32    ? 128
                            : kind == panel_kind::q8_0 ? 34
                                                       : 20;
  const std::size_t bytes = static_cast<std::size_t>(inputs) / 32 * 16 * block;
  product_call call;
  call.rows = rows.data();
  call.row_stride = inputs;
  call.row_count = static_cast<int>(rows.size()) / inputs;
  call.inputs = inputs;
  call.kind = kind;
  call.panels = panels.data();
  call.panel_bytes = static_cast<std::ptrdiff_t>(bytes);
  call.panel_count = static_cast<int>(panels.size() / bytes);
  call.out_stride = std::ptrdiff_t{16} * call.panel_count;
  std::vector<float> out(static_cast<std::size_t>(call.row_count * call.out_stride));
  call.out = out.data();
  table.product(call);
  return out;
}

/// Returns the number of the first output whose bits differ, or of the outputs.
std::size_t first_difference(const std::vector<float>& found,
                             const std::vector<float>& expected) {
  std::size_t at = 0;
  while (at < expected.size() && std::bit_cast<std::uint32_t>(found[at]) ==
                                     std::bit_cast<std::uint32_t>(expected[at])) {
    ++at;
  }
  return at;
}

/// Panels whose scales or minima are halves, and their products with 32 ones.
struct panels_of_halves {
  byte_vector panels;
  std::vector<float> products;
};

/// Returns panels of one block with every half, or some under sanitizers. The code of
/// each weight is 1.
/// @param use  "q8_0 scale", "q4_1 scale" or "q4_1 minimum"
panels_of_halves every_half_as(std::string_view use) {
  const bool q8 = use == "q8_0 scale";
  const byte_vector zeros(32);
  panels_of_halves out;
  for (std::size_t first = 0; first < 0x1'0000; first += 16 * test::case_step()) {
    byte_vector halves(32);
    for (std::size_t lane = 0; lane < 16; ++lane) {
      const auto half = static_cast<std::uint16_t>(first + lane);
      store_le(halves.data() + 2 * lane, half);
      // The other half of q4_1 is 0, whose sum with a negative zero is a positive one.
      const float weight = fp16_to_float(half) + (q8 ? -0.0F : 0.0F);
      float sum = 0;
      for (int k = 0; k < 32; ++k) {
        sum = std::fma(1.0F, weight, sum);
      }
      out.products.push_back(sum);
    }
    if (!q8) {
      append(out.panels, use == "q4_1 scale" ? halves : zeros);
    }
    append(out.panels, use == "q4_1 scale" ? zeros : halves);
    append(out.panels, byte_vector(q8 ? 512 : 256, q8 ? std::byte{1} : std::byte{0x11}));
  }
  return out;
}

// A product hides the sign of a zero, and makes a signalling NaN a quiet one, as every
// operation does.
TEST(LayerKernels, HalvesAreConvertedAsByTheScalarFunction) {
  for (const std::string_view use : {"q8_0 scale", "q4_1 scale", "q4_1 minimum"}) {
    const panels_of_halves all = every_half_as(use);
    const auto kind = use == "q8_0 scale" ? panel_kind::q8_0 : panel_kind::q4_1;
    const auto outputs = static_cast<std::ptrdiff_t>(all.products.size());
    // Single rows, some, and so many that panels are unpacked.
    for (const int rows : {1, 2, 32}) {
      const std::vector<float> ones(static_cast<std::size_t>(32 * rows), 1.0F);
      for (const layer_kernels* table : tables_here()) {
        const auto found = product_of(*table, kind, ones, all.panels);
        for (auto row = found.begin(); row != found.end(); row += outputs) {
          EXPECT_EQ(first_difference({row, row + outputs}, all.products),
                    all.products.size())
              << table->name << " " << use << " rows " << rows;
        }
      }
    }
  }
}

// The panel holds every byte, the scales are 1 and the minima 0. Row r is 1 at input r.
TEST(LayerKernels, CodesHaveTheirValues) {
  for (const panel_kind kind : {panel_kind::q8_0, panel_kind::q4_1}) {
    const bool q8 = kind == panel_kind::q8_0;
    byte_vector panel(q8 ? 32 : 64);
    for (std::size_t lane = 0; lane < 16; ++lane) {
      store_le(panel.data() + 2 * lane, std::uint16_t{0x3C00});
    }
    for (std::size_t i = 0; i < (q8 ? 512U : 256U); ++i) {
      panel.push_back(static_cast<std::byte>(i & 255U));
    }
    std::vector<float> rows(std::size_t{32} * 32);
    std::vector<float> expected;
    for (std::size_t k = 0; k < 32; ++k) {
      rows[33 * k] = 1;
      for (std::size_t lane = 0; lane < 16; ++lane) {
        const std::size_t code = (q8 ? k : k % 16) * 16 + lane;
        expected.push_back(q8 ? static_cast<float>(static_cast<std::int8_t>(code & 255U))
                              : static_cast<float>(k < 16 ? code & 15U : code >> 4));
      }
    }
    for (const layer_kernels* table : tables_here()) {
      EXPECT_EQ(product_of(*table, kind, rows, panel), expected) << table->name;
      for (std::size_t k = 0; k < 32; ++k) {
        const auto begin = static_cast<std::ptrdiff_t>(k);
        const std::vector<float> row(rows.begin() + 32 * begin,
                                     rows.begin() + 32 * (begin + 1));
        EXPECT_EQ(product_of(*table, kind, row, panel),
                  std::vector<float>(expected.begin() + 16 * begin,
                                     expected.begin() + 16 * (begin + 1)))
            << table->name << " input " << k;
      }
    }
  }
}

TEST(LayerKernels, NormsAreAccurateAndEqualOnEveryInstructionSet) {
  for (const int width : {1, 8, 37, 64, 576}) {
    const auto n = static_cast<std::size_t>(width);
    const auto row = random_floats(n, 1);
    const auto weight = random_floats(n, 2);
    const auto bias = random_floats(n, 3);
    double sum = 0;
    double squares = 0;
    for (const float x : row) {
      sum += static_cast<double>(x);
      squares += static_cast<double>(x) * static_cast<double>(x);
    }
    const double mean = sum / width;
    const double variance = squares / width - mean * mean;
    std::vector<std::vector<float>> results;
    for (const layer_kernels* table : tables_here()) {
      std::vector<float> out(2 * n);
      norm_call call{row.data(), weight.data(), bias.data(), out.data(), width, 1e-5F};
      table->rms_norm(call);
      call.out = out.data() + n;
      table->layer_norm(call);
      for (std::size_t i = 0; i < n; ++i) {
        const auto x = static_cast<double>(row[i]);
        const auto w = static_cast<double>(weight[i]);
        const double rms = x / std::sqrt(squares / width + 1e-5) * w;
        const double layer =
            (x - mean) / std::sqrt(variance + 1e-5) * w + static_cast<double>(bias[i]);
        ASSERT_NEAR(static_cast<double>(out[i]), rms, 1e-5) << table->name << width;
        ASSERT_NEAR(static_cast<double>(out[n + i]), layer, 1e-5) << table->name << width;
      }
      results.push_back(out);
      EXPECT_TRUE(equal_bits(results.front(), out)) << table->name << " " << width;
    }
  }
}

/// Squares of the distances of products from their values, and of those of one chain over
/// all inputs.
struct product_errors {
  double product = 0;
  double chain = 0;
};

/// Adds the errors of 16 outputs.
void add_errors(int inputs, std::uint64_t seed, product_errors& errors) {
  const panel_shape shape{weight_type::f32, 16, static_cast<std::uint64_t>(inputs)};
  const byte_vector stored = some_rows(shape, seed);
  const auto matrix = test::packed("w", shape, stored, 0);
  const auto row = random_floats(shape.inputs, seed + 1);
  std::vector<float> out(16);
  product_call call;
  call.rows = row.data();
  call.row_stride = inputs;
  call.row_count = 1;
  call.inputs = inputs;
  call.panels = matrix.panels.data();
  call.panel_bytes = static_cast<std::ptrdiff_t>(shape.panel_bytes());
  call.panel_count = 1;
  call.out = out.data();
  call.out_stride = 16;
  (*select_layer_kernels("auto"))->product(call);
  for (std::uint64_t o = 0; o < 16; ++o) {
    const auto weights = test::expected_weights(shape, stored, o);
    double sum = 0;
    float chain = 0;
    for (std::size_t k = 0; k < row.size(); ++k) {
      sum += static_cast<double>(row[k]) * static_cast<double>(weights[k]);
      chain = std::fma(row[k], weights[k], chain);
    }
    errors.product += std::pow(static_cast<double>(out[o]) - sum, 2);
    errors.chain += std::pow(static_cast<double>(chain) - sum, 2);
  }
}

TEST(LayerKernels, ProductsAreMoreExactThanOneChain) {
  for (const auto& [inputs, share] : {std::pair{1536, 0.6}, std::pair{8192, 0.35}}) {
    product_errors errors;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      add_errors(inputs, 100 * seed, errors);
    }
    EXPECT_LE(std::sqrt(errors.product), share * std::sqrt(errors.chain)) << inputs;
  }
}

/// Expects that a kernel has the bits of a scalar function on every 997th number, except
/// for the bits of NaNs.
void expect_scalar_bits(
    const std::function<void(const layer_kernels&, const float*, float*, int)>& kernel,
    float (*scalar)(float)) {
  constexpr int batch = 1021;  // no multiple of a vector
  std::vector<float> in(batch);
  std::vector<float> out(batch);
  const std::uint64_t step = 997 * test::case_step();
  for (const layer_kernels* table : tables_here()) {
    if (table == &test::sixteen_lane_table()) {
      continue;  // these functions have no lanes of their own
    }
    std::uint64_t bits = 0;
    while (bits <= 0xFFFF'FFFFU) {
      for (float& x : in) {
        x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
        bits += step;
      }
      kernel(*table, in.data(), out.data(), batch);
      for (std::size_t i = 0; i < batch; ++i) {
        const float expected = scalar(in[i]);
        ASSERT_TRUE(std::bit_cast<std::uint32_t>(expected) ==
                        std::bit_cast<std::uint32_t>(out[i]) ||
                    (std::isnan(expected) && std::isnan(out[i])))
            << table->name << std::hexfloat << " " << in[i];
      }
    }
  }
}

TEST(LayerKernels, VectorFormsOfFunctionsHaveTheBitsOfTheScalarOnes) {
  expect_scalar_bits([](const layer_kernels& k, const float* in, float* out,
                        int n) { k.exponential(in, out, n); },
                     [](float x) { return math::exp(x); });
  expect_scalar_bits([](const layer_kernels& k, const float* in, float* out,
                        int n) { k.gelu(in, out, n); },
                     [](float x) { return math::gelu(x); });
  const std::vector<float> ones(1021, 1.0F);
  expect_scalar_bits([&](const layer_kernels& k, const float* in, float* out,
                         int n) { k.silu_times(in, ones.data(), out, n); },
                     [](float x) { return math::silu(x); });
}

/// Keys and values in blocks of 64. Behind the last key they are NaN: no result may
/// depend on them.
struct blocks {
  std::vector<std::vector<float>> memory;
  std::vector<const float*> keys;
  std::vector<const float*> values;
};

blocks make_blocks(const std::vector<float>& keys, const std::vector<float>& values,
                   std::size_t count, std::size_t width) {
  blocks b;
  const std::size_t n = (count + 63) / 64;
  b.memory.assign(
      2 * n, std::vector<float>(64 * width, std::numeric_limits<float>::quiet_NaN()));
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t d = 0; d < width; ++d) {
      b.memory[2 * (k / 64)][d * 64 + k % 64] = keys[k * width + d];
      b.memory[2 * (k / 64) + 1][k % 64 * width + d] = values[k * width + d];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    b.keys.push_back(b.memory[2 * i].data());
    b.values.push_back(b.memory[2 * i + 1].data());
  }
  return b;
}

std::vector<double> plain_attention(const std::vector<float>& query,
                                    const std::vector<float>& keys,
                                    const std::vector<float>& values, std::size_t count,
                                    std::size_t width, double scale) {
  std::vector<double> scores(count);
  double total = 0;
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t d = 0; d < width; ++d) {
      scores[k] +=
          static_cast<double>(query[d]) * static_cast<double>(keys[k * width + d]);
    }
    scores[k] = std::exp(scores[k] * scale);
    total += scores[k];
  }
  std::vector<double> out(width);
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t d = 0; d < width; ++d) {
      out[d] += scores[k] / total * static_cast<double>(values[k * width + d]);
    }
  }
  return out;
}

TEST(LayerKernels, AttentionIsAccurateAndEqualOnEveryInstructionSet) {
  for (const std::size_t width : {16U, 32U, 64U, 80U}) {
    const std::size_t max_keys = 700;
    const auto query = random_floats(width, 1);
    const auto keys = random_floats(max_keys * width, 2);
    const auto values = random_floats(max_keys * width, 3);
    for (const std::size_t count : {1U, 3U, 17U, 64U, 65U, 256U, 257U, 512U, 700U}) {
      const blocks b = make_blocks(keys, values, count, width);
      const auto expected = plain_attention(query, keys, values, count, width, 0.25);
      std::vector<float> first;
      for (const layer_kernels* table : tables_here()) {
        std::vector<float> out(width);
        table->attention({query.data(), b.keys.data(), b.values.data(),
                          static_cast<int>(count), static_cast<int>(width), 0.25F,
                          out.data()});
        for (std::size_t d = 0; d < width; ++d) {
          ASSERT_NEAR(static_cast<double>(out[d]), expected[d], 2e-5)
              << table->name << " " << count;
        }
        first = first.empty() ? out : first;
        EXPECT_TRUE(equal_bits(first, out)) << table->name << " " << count;
      }
    }
  }
}

TEST(LayerKernels, InstructionSetsAreChosenByName) {
  const auto here = instruction_sets_here();
  EXPECT_EQ(or_throw(select_layer_kernels("auto"))->name, here.back());
  EXPECT_EQ(or_throw(select_kernels("auto"))->name, here.back());
  for (const std::string_view name : instruction_sets()) {
    const bool has = std::ranges::count(here, name) != 0;
    ASSERT_EQ(select_layer_kernels(name).has_value(), has) << name;
    EXPECT_EQ(check_instruction_set(name).has_value(), has) << name;
    if (has) {
      EXPECT_EQ((*select_layer_kernels(name))->name, name);
      EXPECT_EQ(or_throw(select_kernels(name))->name, name);
    }
  }
  EXPECT_EQ(select_layer_kernels("avx1024").error().code(), errc::invalid_argument);
}

TEST(LayerKernels, AnInstructionSetThatIsMissingIsRefusedWithThoseThatAreThere) {
  // Of processors of each level, so that the refusals are seen on every machine.
  const auto refusal = [](std::string_view name, int level) {
    const auto chosen = choose_instruction_set(name, level);
    EXPECT_TRUE(chosen || chosen.error().code() == errc::invalid_argument);
    return chosen ? "" : chosen.error().text();
  };
  EXPECT_EQ(
      refusal("x86-64-v4", 3),
      "cannot choose kernels: expected auto or an instruction set of this processor "
      "(x86-64, x86-64-v3), found x86-64-v4");
  EXPECT_EQ(
      refusal("x86-64-v3", 1),
      "cannot choose kernels: expected auto or an instruction set of this processor "
      "(x86-64), found x86-64-v3");
  EXPECT_EQ(refusal("x86-64-v4", 4), "");
  EXPECT_EQ(or_throw(choose_instruction_set("auto", 1)), kernel_level::base);
  EXPECT_EQ(or_throw(choose_instruction_set("auto", 3)), kernel_level::v3);
  EXPECT_EQ(or_throw(choose_instruction_set("auto", 4)), kernel_level::v4);
  EXPECT_EQ(or_throw(choose_instruction_set("x86-64", 4)), kernel_level::base);
}

/// Returns what each kernel of a table computes from equal random inputs.
std::map<std::string, std::vector<float>> results_of(const layer_kernels& table) {
  std::map<std::string, std::vector<float>> out;
  for (const weight_type type :
       {weight_type::f32, weight_type::q8_0, weight_type::q4_1}) {
    for (const auto& [row_count, inputs] :
         {std::pair{1, 576}, std::pair{7, 96}, std::pair{13, 288}, std::pair{32, 576}}) {
      const panel_shape shape{type, std::uint64_t{16} * 9,
                              static_cast<std::uint64_t>(inputs)};
      const auto matrix = test::packed("w", shape, some_rows(shape, 4), 0);
      const auto rows = random_floats(std::size_t(row_count) * std::size_t(inputs), 9);
      out["product " + std::string(name_of(type)) + " " + std::to_string(row_count)] =
          product_of(table, kind_of(type), rows, matrix.panels, inputs);
    }
  }
  constexpr std::size_t width = 80;
  constexpr int keys = 700;
  const auto x = random_floats(1021, 1);
  const auto y = random_floats(1021, 2);
  const auto z = random_floats(1021, 3);
  const auto count = static_cast<int>(x.size());
  for (const char* name : {"rms_norm", "layer_norm", "silu", "gelu", "exp"}) {
    out[name].resize(x.size());
  }
  table.rms_norm({x.data(), y.data(), z.data(), out["rms_norm"].data(), count, 1e-5F});
  table.layer_norm(
      {x.data(), y.data(), z.data(), out["layer_norm"].data(), count, 1e-5F});
  table.silu_times(x.data(), y.data(), out["silu"].data(), count);
  table.gelu(x.data(), out["gelu"].data(), count);
  table.exponential(x.data(), out["exp"].data(), count);
  const blocks b = make_blocks(random_floats(keys * width, 5),
                               random_floats(keys * width, 6), keys, width);
  out["attention"].resize(width);
  table.attention({x.data(), b.keys.data(), b.values.data(), keys, width, 0.25F,
                   out["attention"].data()});
  return out;
}

TEST(LayerKernels, TablesOfAvx2AndAvx512GiveEqualBits) {
  const auto wide = select_layer_kernels("x86-64-v4");
  if (!wide) {
    GTEST_SKIP() << "AVX-512: not on this processor";
  }
  const auto expected = results_of(*or_throw(select_layer_kernels("x86-64-v3")));
  for (const auto& [name, found] : results_of(**wide)) {
    EXPECT_TRUE(equal_bits(found, expected.at(name))) << name;
  }
}

}  // namespace
}  // namespace weir::models::layers
