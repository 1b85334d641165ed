// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests thousands of random schedules of a Llama model with random weights.
#include <gtest/gtest.h>

#include <cstdio>

#include "models/transformers/schedules.hpp"
#include "support/case_count.hpp"

namespace weir::models {
namespace {

TEST(LlamaSoak, BitsDoNotDependOnScheduleWorkersOrInstructionSet) {
  const auto cases = test::case_count("WEIR_LLAMA_CASES", 160);
  const test::schedule_counts counts = test::run_schedules(cases, 100'000);
  std::printf(
      "%llu schedules, %llu rows of logits compared, %llu tokens reused, up to %zu "
      "sequences in a step\n",
      static_cast<unsigned long long>(counts.schedules),
      static_cast<unsigned long long>(counts.compared),
      static_cast<unsigned long long>(counts.reused), counts.max_sequences);
  // With 160 cases these are 2,000: 12 of each with AVX2, and a tenth with the baseline.
  EXPECT_GE(counts.schedules, cases * 25 / 2);
  EXPECT_GE(counts.max_sequences, 32U);
}

}  // namespace
}  // namespace weir::models
