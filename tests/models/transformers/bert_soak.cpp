// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests thousands of random batches of a BERT model with random weights.
#include <gtest/gtest.h>

#include <cstdio>

#include "models/transformers/bert_schedules.hpp"
#include "support/case_count.hpp"

namespace weir::models {
namespace {

TEST(BertSoak, BitsDoNotDependOnBatchPartsWorkersOrInstructionSet) {
  const auto cases = test::case_count("WEIR_BERT_CASES", 160);
  const test::batch_counts counts = test::run_batches(cases, 100'000);
  std::printf("%llu schedules, %llu embeddings compared, up to %zu texts in a call\n",
              static_cast<unsigned long long>(counts.schedules),
              static_cast<unsigned long long>(counts.compared), counts.largest_run);
  // With 160 cases these are 2,000: 12 of each with AVX2, and a tenth with the baseline.
  EXPECT_GE(counts.schedules, cases * 25 / 2);
  EXPECT_GE(counts.largest_run, 32U);
}

}  // namespace
}  // namespace weir::models
