// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about products of panels, beside oneDNN's sgemm with one thread, for the kernels
/// as each of two compilers makes them.
#include <dlfcn.h>
#include <dnnl.h>

#include <stdexcept>

#include "layers/kernels/select.hpp"
#include "models/rows.hpp"
#include "weir/base/error.hpp"
#include "weir/base/philox.hpp"
#include "weir/models/panels.hpp"

extern "C" {
const weir::models::layers::layer_kernels* weir_panels_gcc_v3();
const weir::models::layers::layer_kernels* weir_panels_gcc_v4();
#ifdef WEIR_BENCH_CLANG
const weir::models::layers::layer_kernels* weir_panels_clang_v3();
const weir::models::layers::layer_kernels* weir_panels_clang_v4();
#endif
}

namespace weir::bench {

namespace {

using models::layers::layer_kernels;

constexpr int rows_of_products = 128;
/// Outputs and inputs of the products of a layer of SmolLM2.
constexpr std::pair<int, int> shapes[] = {
    {960, 576}, {576, 576}, {3072, 576}, {576, 1536}};

/// The operands of one product.
struct operands {
  operands(int n, int k)
      : outputs(n),
        inputs(k),
        rows(std::size_t(rows_of_products) * std::size_t(k)),
        weights(std::size_t(n) * std::size_t(k)),
        panels(weights.size() * sizeof(float)),
        out(std::size_t(rows_of_products) * std::size_t(n)) {
    const philox random(1, 2);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i] = random.normal(i);
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] = random.normal(rows.size() + i);
    }
    const models::panel_shape shape{models::weight_type::f32, std::uint64_t(n),
                                    std::uint64_t(k)};
    or_throw(models::pack_panels("weights", shape, as_bytes(weights), 0, 0, panels));
  }
  static bytes_view as_bytes(const std::vector<float>& values) {
    return {reinterpret_cast<const std::byte*>(values.data()),
            values.size() * sizeof(float)};
  }

  int outputs;
  int inputs;
  std::vector<float> rows;
  std::vector<float> weights;
  byte_vector panels;
  std::vector<float> out;
};

void multiply_panels(const layer_kernels& kernels, operands& o) {
  models::layers::product_call call;
  call.rows = o.rows.data();
  call.row_stride = o.inputs;
  call.row_count = rows_of_products;
  call.inputs = o.inputs;
  call.panels = o.panels.data();
  call.panel_bytes = std::ptrdiff_t{16} * o.inputs * std::ptrdiff_t{sizeof(float)};
  call.panel_count = o.outputs / 16;
  call.out = o.out.data();
  call.out_stride = o.outputs;
  kernels.product(call);
}

void multiply_dnnl(operands& o) {
  if (dnnl_sgemm('N', 'T', rows_of_products, o.outputs, o.inputs, 1.0F, o.rows.data(),
                 o.inputs, o.weights.data(), o.inputs, 0.0F, o.out.data(),
                 o.outputs) != dnnl_success) {
    throw std::runtime_error("dnnl_sgemm failed");
  }
}

measured product_ratio(const layer_kernels& kernels) {
  if (const auto limit =
          reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) {
    limit(1);
  }
  std::vector<operands> all;
  double work = 0;
  for (const auto& [n, k] : shapes) {
    all.emplace_back(n, k);
    work += 2e-9 * rows_of_products * n * k;
  }
  std::vector<double> own;
  std::vector<double> theirs;
  for (int round = -2; round < 4 * rounds; ++round) {
    const double mine = seconds_of([&] {
      for (operands& o : all) {
        multiply_panels(kernels, o);
      }
    });
    const double other = seconds_of([&] {
      for (operands& o : all) {
        multiply_dnnl(o);
      }
    });
    if (round >= 0) {
      own.push_back(mine);
      theirs.push_back(other);
    }
  }
  std::fprintf(stderr, "  own %.4g, oneDNN %.4g GFLOP/s\n", work / median(own),
               work / median(theirs));
  return rate_ratio(own, theirs, work, at_least(0.9));
}

/// Returns the table for the best instruction set of this processor.
const layer_kernels& best_of(const layer_kernels* (*third)(),
                             const layer_kernels* (*fourth)()) {
  const std::string name = or_throw(models::layers::select_layer_kernels("auto"))->name;
  if (name != "x86-64-v3" && name != "x86-64-v4") {
    throw std::runtime_error("expected a processor with AVX2, found " + name);
  }
  return name == "x86-64-v4" ? *fourth() : *third();
}

}  // namespace

void add_panel_rows(program& bench) {
  bench.add("panel_product_ratio_gcc", "ratio", no_bar, [] {
    return product_ratio(best_of(&weir_panels_gcc_v3, &weir_panels_gcc_v4));
  });
  bench.add("panel_product_ratio_clang", "ratio", no_bar, [] {
#ifdef WEIR_BENCH_CLANG
    return product_ratio(best_of(&weir_panels_clang_v3, &weir_panels_clang_v4));
#else
    throw std::runtime_error("expected clang++ beside the build's compiler, found none");
    return measured(0);
#endif
  });
}

}  // namespace weir::bench
