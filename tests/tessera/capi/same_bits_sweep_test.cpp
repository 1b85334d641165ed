// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that the bits of floating point sums do not depend on the algorithm, the pieces,
/// the workers, the lengths or replays, and at level 2 not on the order of ranks. With
/// WEIR_TEST_LARGE=1, also moves more than 2^31 bytes.
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string_view>

#include "support.hpp"
#include "weir/collective/region_collective.hpp"

namespace weir::test {
namespace {

constexpr std::size_t full_count = 20'011;

/// A session whose rank r holds the numbers of `order[r]`.
class summed {
 public:
  summed(int ranks, int level, int type) : session_(ranks), ranks_(ranks), type_(type) {
    const tessNumericsPolicy policy{level - 1, 1, 1, 0};
    EXPECT_TESS(tessSetNumericsPolicy(session_.context, &policy));
    from_ = session_.memory<char>(full_count * 4);
    to_ = session_.memory<char>(full_count * 4);
    std::vector<int> order(static_cast<std::size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    fill(order);
  }

  void fill(const std::vector<int>& order) {
    for (int r = 0; r < ranks_; ++r) {
      void* address = nullptr;
      EXPECT_TESS(tessStreamSynchronize(session_.stream));
      EXPECT_TESS(tessMemGetRankPtr(session_.mesh, from_, r, &address));
      std::mt19937_64 dice(77 +
                           static_cast<unsigned>(order[static_cast<std::size_t>(r)]));
      std::normal_distribution<float> normal;
      std::uniform_int_distribution<int> exponent(-12, 12);
      for (std::size_t i = 0; i < full_count; ++i) {
        const float x = std::ldexp(normal(dice), exponent(dice));
        if (type_ == TESS_FP32) {
          std::memcpy(static_cast<char*>(address) + 4 * i, &x, 4);
        } else {  // a bf16 is the upper half of a float
          std::memcpy(static_cast<char*>(address) + 2 * i,
                      reinterpret_cast<const char*>(&x) + 2, 2);
        }
      }
    }
  }

  /// Returns the sum of the first `count` elements, as the last rank receives it.
  std::vector<char> sum(std::size_t count, const char* algorithm = nullptr,
                        std::size_t chunk = 0, bool replayed = false) {
    tessCollectiveDesc d{};
    d.structSize = sizeof d;
    d.kind = TESS_COLLECTIVE_ALL_REDUCE;
    d.sendbuf = from_;
    d.recvbuf = to_;
    d.count = count;
    d.dtype = type_;
    d.algorithm = algorithm;
    d.chunkBytes = chunk;
    EXPECT_TESS(tessMemsetAsync(to_, 0xEE, full_count * 4, session_.stream));
    if (replayed) {
      replay(d);
    } else {
      EXPECT_TESS(tessCollective(session_.mesh, &d, session_.stream));
    }
    return session_.read(to_, count * (type_ == TESS_FP32 ? 4 : 2), ranks_ - 1);
  }

 private:
  void replay(const tessCollectiveDesc& d) {
    tessGraph_t graph = nullptr;
    tessGraphExec_t exec = nullptr;
    EXPECT_TESS(tessStreamBeginCapture(session_.stream));
    EXPECT_TESS(tessCollective(session_.mesh, &d, session_.stream));
    EXPECT_TESS(tessStreamEndCapture(session_.stream, &graph));
    EXPECT_TESS(tessGraphInstantiate(graph, &exec));
    for (int i = 0; i < 3; ++i) {
      EXPECT_TESS(tessGraphLaunch(exec, session_.stream));
    }
    EXPECT_TESS(tessStreamSynchronize(session_.stream));
    EXPECT_TESS(tessGraphExecDestroy(exec));
    EXPECT_TESS(tessGraphDestroy(graph));
  }

  session session_;
  int ranks_;
  int type_;
  char* from_;
  char* to_;
};

/// Number of ranks, level of determinism and type of a test.
struct same_case {
  int ranks;
  int level;
  int type;
};

/// One test for each case.
class SameBits : public testing::TestWithParam<same_case> {};

TEST_P(SameBits, WhateverTheScheduleAndTheLength) {
  const auto [ranks, level, type] = GetParam();
  const std::size_t size = type == TESS_FP32 ? 4 : 2;
  std::vector<char> whole;
  for (const char* workers : {"1", "2", "4"}) {
    const environment set({{"TESS_NUM_THREADS", workers}, {"TESS_TOPOLOGY", "2"}});
    summed s(ranks, level, type);
    if (whole.empty()) {
      whole = s.sum(full_count, "direct");
    }
    for (const char* algorithm : {"direct", "ring", "tree", "hierarchical"}) {
      if (std::string_view(algorithm) == "hierarchical" &&
          (ranks % 2 != 0 || ranks < 4)) {
        continue;  // needs two domains with several ranks each
      }
      for (const std::size_t chunk : {0U, 64U, 1000U, 65536U}) {
        ASSERT_EQ(s.sum(full_count, algorithm, chunk), whole)
            << algorithm << " in pieces of " << chunk << " on " << workers;
      }
      ASSERT_EQ(s.sum(full_count, algorithm, 4096, true), whole)
          << algorithm << " replayed";
    }
    for (const std::size_t count : {1U, 2U, 3U, 15U, 16U, 17U, 1023U, 4099U, 20'010U}) {
      const auto part = s.sum(count);
      ASSERT_EQ(part, std::vector<char>(whole.begin(),
                                        whole.begin() + std::ptrdiff_t(count * size)))
          << "the first " << count << " on " << workers;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, SameBits,
    testing::Values(same_case{2, 1, TESS_FP32}, same_case{3, 1, TESS_FP32},
                    same_case{4, 1, TESS_BF16}, same_case{8, 1, TESS_FP32},
                    same_case{4, 2, TESS_FP32}, same_case{8, 2, TESS_BF16}),
    [](const auto& info) {
      return "ranks" + std::to_string(info.param.ranks) + "level" +
             std::to_string(info.param.level) + "type" + std::to_string(info.param.type);
    });

TEST(SameBitsOfSums, AtLevelTwoEveryPermutationOfRanks) {
  summed s(5, 2, TESS_FP32);
  const auto first = s.sum(full_count);
  std::mt19937_64 dice(5);
  std::vector<int> order{0, 1, 2, 3, 4};
  for (int turn = 0; turn < 20; ++turn) {
    std::shuffle(order.begin(), order.end(), dice);
    s.fill(order);
    ASSERT_EQ(s.sum(full_count), first) << "turn " << turn;
  }
}

TEST(SameBitsOfSums, AtLevelOneTheOrderOfRanksShows) {
  summed s(5, 1, TESS_FP32);
  const auto first = s.sum(full_count);
  s.fill({4, 2, 0, 1, 3});
  EXPECT_NE(s.sum(full_count), first)
      << "the order of ranks must show at level 1, or the tests of level 2 show nothing";
}

/// Returns byte i of rank r, a mixture of both. Sums of such bytes wrap around.
unsigned char mixed_byte(int rank, std::size_t i) {
  return static_cast<unsigned char>(
      (i * 2654435761U >> 24) + static_cast<unsigned>(rank) * 77 + i / 4'294'967'291U);
}

TEST(SameBitsOfSums, CountsBeyondTwoToThe31) {
  if (std::getenv("WEIR_TEST_LARGE") == nullptr) {
    GTEST_SKIP() << "WEIR_TEST_LARGE asks for 5 GiB of memory";
  }
  constexpr std::size_t count = (std::size_t{1} << 31) + 10'007 * 2;
  session s(2);
  void* x = nullptr;
  ASSERT_TESS(tessMalloc(s.mesh, count, &x));
  std::array<unsigned char*, 2> instances{};
  const auto refill = [&] {
    for (int r = 0; r < 2; ++r) {
      void* there = nullptr;
      ASSERT_TESS(tessMemGetRankPtr(s.mesh, x, r, &there));
      instances[static_cast<std::size_t>(r)] = static_cast<unsigned char*>(there);
      for (std::size_t i = 0; i < count; ++i) {
        instances[static_cast<std::size_t>(r)][i] = mixed_byte(r, i);
      }
    }
  };
  refill();
  ASSERT_TESS(tessAllReduce(s.mesh, x, count, TESS_INT8, TESS_COLL_SUM, "dp", s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto sum = static_cast<unsigned char>(mixed_byte(0, i) + mixed_byte(1, i));
    wrong += instances[0][i] != sum || instances[1][i] != sum ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0U) << "some elements of all_reduce are wrong";
  refill();
  ASSERT_TESS(tessAllGather(s.mesh, x, count, TESS_INT8, "dp", s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned char owned = mixed_byte(i < count / 2 ? 0 : 1, i);
    wrong += instances[0][i] != owned || instances[1][i] != owned ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0U) << "some elements of all_gather are wrong";
}

/// Returns normally distributed numbers that depend on the rank.
std::vector<float> numbers_of_rank(int rank, std::size_t count) {
  std::mt19937_64 dice(77 + static_cast<unsigned>(rank));
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-12, 12);
  std::vector<float> out(count);
  for (float& x : out) {
    x = std::ldexp(normal(dice), exponent(dice));
  }
  return out;
}

/// Returns the sum of all ranks' numbers, as the last rank of a mesh receives it.
std::vector<float> sum_of_mesh(int ranks, int level, std::size_t count) {
  session s(ranks);
  const tessNumericsPolicy policy{level - 1, 1, 1, 0};
  EXPECT_TESS(tessSetNumericsPolicy(s.context, &policy));
  auto* const x = s.memory<float>(count);
  for (int r = 0; r < ranks; ++r) {
    const auto own = numbers_of_rank(r, count);
    EXPECT_TESS(
        tessMemcpyRankAsync(x, own.data(), count * 4, TESS_COPY_H2D, r, s.stream));
    EXPECT_TESS(tessStreamSynchronize(s.stream));
  }
  EXPECT_TESS(
      tessAllReduce(s.mesh, x, count, TESS_FP32, TESS_COLL_SUM, "world", s.stream));
  return s.read(x, count, ranks - 1);
}

/// Returns the same sum, computed over tensors of a task engine.
std::vector<float> sum_of_regions(int ranks, int level, std::size_t count,
                                  collective::algorithm how) {
  runtime::engine_options options;
  options.workers = 2;
  const auto e = or_throw(runtime::engine::create(options));
  std::vector<runtime::tensor> parts;
  for (int r = 0; r < ranks; ++r) {
    const auto elements = static_cast<std::int64_t>(count);
    const auto memory = or_throw(e->allocate(elements * 4, "parts"));
    parts.push_back(or_throw(runtime::tensor::over(memory, dtype::fp32, {&elements, 1})));
    std::memcpy(memory.base, numbers_of_rank(r, count).data(), count * 4);
  }
  collective::collective_call call;
  call.count = count;
  call.level = level;
  auto sum = or_throw(
      collective::region_collective::create(*e, call, parts, parts, {how, 4096}));
  EXPECT_TRUE(sum.submit().has_value());
  EXPECT_TRUE(e->wait_all().has_value());
  const float* const last = parts.back().as<float>();
  return {last, last + count};
}

TEST(SameBitsOfSums, RegionsOfAnEngineHaveThoseOfTheMesh) {
  for (const int ranks : {2, 3, 8}) {
    for (const int level : {1, 2}) {
      for (const std::size_t count : {std::size_t{24}, std::size_t{20'016}}) {
        const auto expected = sum_of_mesh(ranks, level, count);
        for (const auto how : {collective::algorithm::direct, collective::algorithm::ring,
                               collective::algorithm::tree}) {
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
