// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests long texts without any variety: every number of the default model stays finite
/// and every memory stays bounded, in every phase. Such texts push a memory further than
/// any other, because all writes have the same key.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "models/some_tokens.hpp"
#include "weir/models/prose.hpp"

namespace weir::test {
namespace {

using namespace models;

/// Limit of the norms in these tests. Norms of a few dozen are usual.
constexpr double norm_limit = 1000;

/// Lets a new model read `tokens` tokens; `text(i)` returns token i. Returns the largest
/// norm of a memory, measured at 16 places of the text, or the error of a pulse.
template <class Text>
result<double> read(pulse_phase phase, std::uint64_t tokens, const Text& text) {
  const std::uint64_t n = phase == pulse_phase::build ? 64 : 512;
  runtime::engine_options options;
  options.workers = 1;
  WEIR_TRY(const auto engine, runtime::engine::create(options));
  prose_config config;
  config.max_chunk = static_cast<std::uint32_t>(n);
  WEIR_TRY(const auto model, prose::create(*engine, config));
  const std::uint64_t pulses = tokens / n;
  double largest = 0;
  std::vector<std::uint32_t> chunk(n);
  for (std::uint64_t u = 0; u < pulses; ++u) {
    for (std::uint64_t i = 0; i < n; ++i) {
      chunk[i] = text(u * n + i);
    }
    pulse p;
    p.id = p.update = u;
    p.phase = phase;
    p.total_updates = pulses;
    p.active_levels = active_mask(config.frequencies, u * n, (u + 1) * n);
    prose::lane_input in;
    in.tokens = chunk;
    in.lookahead = text((u + 1) * n);
    in.position = u * n;
    WEIR_TRY(const auto ticket, model->submit(p, {&in, 1}));
    WEIR_TRY([[maybe_unused]] const auto done, model->finish(ticket));
    if (u % std::max<std::uint64_t>(1, pulses / 16) == 0 || u + 1 == pulses) {
      WEIR_TRY(const memory_norm norm, model->largest_memory());
      largest = std::max(largest, norm.norm);
    }
  }
  return largest;
}

/// Test cases run in each phase.
class Endless : public ::testing::TestWithParam<pulse_phase> {};
INSTANTIATE_TEST_SUITE_P(Phases, Endless,
                         ::testing::Values(pulse_phase::build, pulse_phase::test,
                                           pulse_phase::stream),
                         [](const auto& in) { return std::string(name_of(in.param)); });

TEST_P(Endless, RunOfEachByteHasFiniteNumbersAndABoundedMemory) {
  double largest = 0;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const auto norm = read(GetParam(), 60000, [byte](std::uint64_t) { return byte; });
    ASSERT_TRUE(norm.has_value()) << "byte " << byte << ": " << norm.error().message();
    EXPECT_LE(*norm, norm_limit) << "byte " << byte;
    largest = std::max(largest, *norm);
  }
  std::cout << name_of(GetParam()) << ": largest norm over all bytes " << largest << "\n";
}

TEST_P(Endless, RandomBytesHaveFiniteNumbersAndABoundedMemory) {
  const auto bytes = some_tokens(60001, 256, 11);
  const auto norm = read(GetParam(), 60000, [&](std::uint64_t i) { return bytes[i]; });
  ASSERT_TRUE(norm.has_value()) << norm.error().message();
  EXPECT_LE(*norm, norm_limit);
  std::cout << name_of(GetParam()) << ": largest norm on random bytes " << *norm << "\n";
}

TEST_P(Endless, LineOfTenMegabytesHasFiniteNumbersAndABoundedMemory) {
  const auto norm = read(GetParam(), 10'000'000, [](std::uint64_t) { return 'x'; });
  ASSERT_TRUE(norm.has_value()) << norm.error().message();
  EXPECT_LE(*norm, norm_limit);
  std::cout << name_of(GetParam()) << ": largest norm on one line " << *norm << "\n";
}

}  // namespace
}  // namespace weir::test
