// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sums of regions of an engine have the bits of the sums of the C interface.
#include <cmath>
#include <cstring>
#include <random>

#include "support.hpp"
#include "weir/runtime/collective/region_collective.hpp"

namespace weir::test {
namespace {

std::vector<float> numbers(int rank, std::size_t count) {
  std::mt19937_64 dice(77 + static_cast<unsigned>(rank));
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-12, 12);
  std::vector<float> out(count);
  for (float& x : out) {
    x = std::ldexp(normal(dice), exponent(dice));
  }
  return out;
}

/// Sum of all ranks' numbers, as the last rank of a mesh gets it.
std::vector<float> sum_of_mesh(int ranks, int level, std::size_t count) {
  session s(ranks);
  const tessNumericsPolicy policy{level - 1, 1, 1, 0};
  EXPECT_TESS(tessSetNumericsPolicy(s.context, &policy));
  auto* const x = s.memory<float>(count);
  for (int r = 0; r < ranks; ++r) {
    const auto own = numbers(r, count);
    EXPECT_TESS(
        tessMemcpyRankAsync(x, own.data(), count * 4, TESS_COPY_H2D, r, s.stream));
    EXPECT_TESS(tessStreamSynchronize(s.stream));
  }
  EXPECT_TESS(
      tessAllReduce(s.mesh, x, count, TESS_FP32, TESS_COLL_SUM, "world", s.stream));
  return s.read(x, count, ranks - 1);
}

/// The same sum over tensors of an engine.
std::vector<float> sum_of_regions(int ranks, int level, std::size_t count,
                                  runtime::algorithm how) {
  runtime::engine_options options;
  options.workers = 2;
  const auto e = or_throw(runtime::engine::create(options));
  std::vector<runtime::tensor> parts;
  for (int r = 0; r < ranks; ++r) {
    const auto elements = static_cast<std::int64_t>(count);
    const auto memory = or_throw(e->allocate(elements * 4, "parts"));
    parts.push_back(or_throw(runtime::tensor::over(memory, dtype::fp32, {&elements, 1})));
    std::memcpy(memory.base, numbers(r, count).data(), count * 4);
  }
  runtime::collective_call call;
  call.count = count;
  call.level = level;
  auto sum =
      or_throw(runtime::region_collective::create(*e, call, parts, parts, {how, 4096}));
  EXPECT_TRUE(sum.submit().has_value());
  EXPECT_TRUE(e->wait_all().has_value());
  const float* const last = parts.back().as<float>();
  return {last, last + count};
}

TEST(TesseraRegionSums, HaveTheBitsOfTheSumsOfTheMesh) {
  for (const int ranks : {2, 3, 8}) {
    for (const int level : {1, 2}) {
      for (const std::size_t count : {std::size_t{24}, std::size_t{20'016}}) {
        const auto expected = sum_of_mesh(ranks, level, count);
        for (const auto how : {runtime::algorithm::direct, runtime::algorithm::ring,
                               runtime::algorithm::tree}) {
          const auto got = sum_of_regions(ranks, level, count, how);
          EXPECT_EQ(std::memcmp(got.data(), expected.data(), count * 4), 0)
              << ranks << " ranks, level " << level << ", " << count << " elements by "
              << name_of(how);
        }
      }
    }
  }
}

}  // namespace
}  // namespace weir::test
