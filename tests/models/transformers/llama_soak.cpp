// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests thousands of random schedules of a Llama model with random weights.
#include <gtest/gtest.h>

#include "layers/kernels/select.hpp"
#include "models/transformers/schedules.hpp"
#include "support/case_count.hpp"

namespace weir::models {
namespace {

TEST(LlamaSoak, BitsDoNotDependOnScheduleWorkersOrInstructionSet) {
  const llama_config config = test::small_llama();
  const auto weights = test::llama_weights_of(config, weight_type::q8_0);
  const auto all = test::sequences_alone(config, weights, {5, 64, 127, 290});
  const char* best = (*layers::select_layer_kernels("auto"))->name;
  const char* second = layers::select_layer_kernels("x86-64-v3") ? "x86-64-v3" : best;
  std::uint64_t seed = 1000;
  for (const char* kernels : {best, second}) {
    for (unsigned workers = 1; workers <= 4; ++workers) {
      const auto engine = test::engine_with(workers);
      const auto model =
          or_throw(make_llama(*engine, config, weights, {kernels, 2048, 160}));
      for (std::uint64_t i = 0; i < test::case_count("WEIR_LLAMA_CASES", 250); ++i) {
        test::feed_at_random(*model, all, ++seed);
      }
    }
  }
}

}  // namespace
}  // namespace weir::models
