// SPDX-License-Identifier: Apache-2.0
/// @file
/// Collectives of streams on the stand-ins: with the policies that fix the order of sums
/// they have the bits of processors, and with a free order NCCL runs them.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <random>

#include <fmt/core.h>

#include "cpu_kernels/executor.hpp"
#include "ptx/executor.hpp"
#include "streams/gpu_context.hpp"

namespace weir::test {
namespace {

using tessera::stand_in::kernel_executor;

constexpr int ranks = 3;
constexpr std::size_t count = 30;

/// Results of collectives, one after another, as bytes of each rank.
using results = std::vector<byte_vector>;

/// Runs sums, maxima, a reduce-scatter and a gather of numbers on each rank of a mesh
/// under a policy and returns what the ranks have then.
results run_collectives(tessContext_t context, const tessNumericsPolicy& policy) {
  EXPECT_TESS(tessSetNumericsPolicy(context, &policy));
  const std::array<int, ranks> ids = {0, 1, 2};
  tessMesh_t mesh = nullptr;
  tessStream_t stream = nullptr;
  EXPECT_TESS(tessMeshCreate(context, ids.data(), ranks, {1, 1, ranks, 1}, &mesh));
  EXPECT_TESS(tessStreamCreate(mesh, 0, &stream));
  void* x = nullptr;
  EXPECT_TESS(tessMalloc(mesh, count * sizeof(float), &x));
  std::mt19937 random(7);
  results out;
  for (const int type : {TESS_FP32, TESS_INT32}) {
    for (int call = 0; call < 5; ++call) {
      for (int r = 0; r < ranks; ++r) {
        std::vector<std::uint32_t> values(count);
        for (std::uint32_t& v : values) {
          const auto small = static_cast<std::int32_t>(random() % 2000) - 1000;
          const float fraction = static_cast<float>(small) * 0.3F;
          std::memcpy(&v,
                      type == TESS_FP32 ? static_cast<const void*>(&fraction) : &small,
                      sizeof v);
        }
        EXPECT_TESS(tessMemcpyRankAsync(x, values.data(), count * sizeof(float),
                                        TESS_COPY_H2D, r, stream));
        EXPECT_TESS(tessStreamSynchronize(stream));
      }
      switch (call) {
        case 0:
          EXPECT_TESS(tessAllReduce(mesh, x, count, type, TESS_COLL_SUM, "dp", stream));
          break;
        case 1:
          EXPECT_TESS(tessAllReduce(mesh, x, count, type, TESS_COLL_MAX, "dp", stream));
          break;
        case 2:
          EXPECT_TESS(
              tessReduceScatter(mesh, x, count, type, TESS_COLL_SUM, "dp", stream));
          EXPECT_TESS(tessAllGather(mesh, x, count, type, "dp", stream));
          break;
        case 3: EXPECT_TESS(tessAllGather(mesh, x, count, type, "dp", stream)); break;
        default: EXPECT_TESS(tessBroadcast(mesh, x, count, type, 1, stream)); break;
      }
      for (int r = 0; r < ranks; ++r) {
        byte_vector& of_rank = out.emplace_back(count * sizeof(float));
        EXPECT_TESS(tessMemcpyRankAsync(of_rank.data(), x, of_rank.size(), TESS_COPY_D2H,
                                        r, stream));
        EXPECT_TESS(tessStreamSynchronize(stream));
      }
    }
  }
  EXPECT_TESS(tessFree(mesh, x));
  EXPECT_TESS(tessStreamDestroy(stream));
  EXPECT_TESS(tessMeshDestroy(mesh));
  return out;
}

results on_processor(const tessNumericsPolicy& policy) {
  tessContext_t context = nullptr;
  EXPECT_TESS(tessInit(&context));
  results out = run_collectives(context, policy);
  EXPECT_TESS(tessShutdown(context));
  return out;
}

constexpr tessNumericsPolicy exact_sums{1, 1, 1, 0};
constexpr tessNumericsPolicy tree_sums{0, 1, 1, 0};
constexpr tessNumericsPolicy free_order{0, 0, 1, 0};

TEST(GpuCollectives, HaveTheBitsOfProcessorsIfTheOrderOfSumsIsFixed) {
  for (const bool from_ptx : {false, true}) {
    for (const tessNumericsPolicy& policy : {exact_sums, tree_sums}) {
      std::shared_ptr<kernel_executor> executor;
      if (from_ptx) {
        executor = std::make_shared<tessera::ptx::ptx_executor>(3);
      } else {
        executor = std::make_shared<tessera::kernel_machine::source_executor>(3);
      }
      tessera::stand_in::machine shown;
      shown.devices = ranks;
      shown.max_delay_us = 20;
      const gpu_context context(shown, executor);
      EXPECT_EQ(run_collectives(context.get(), policy), on_processor(policy));
      EXPECT_GT(tessera::stand_in::calls_of("cuLaunchKernelEx"), 0U)
          << "the devices did not run the sums";
      EXPECT_EQ(tessera::stand_in::calls_of("ncclAllReduce"), 0U);
    }
  }
}

// Sums of small numbers are exact in every order; the stand-in for NCCL adds in fp32, and
// the fractions of these have a rounding error, so only whole numbers are compared.
TEST(GpuCollectives, UseNcclIfTheOrderOfSumsIsFree) {
  tessera::stand_in::machine shown;
  shown.devices = ranks;
  const gpu_context context(
      shown, std::make_shared<tessera::kernel_machine::source_executor>(3));
  const results found = run_collectives(context.get(), free_order);
  const results expected = on_processor(free_order);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = found.size() / 2; i < found.size(); ++i) {
    EXPECT_EQ(found[i], expected[i]) << "result " << i;
  }
  EXPECT_GT(tessera::stand_in::calls_of("ncclAllReduce"), 0U);
}

// Listed kernels have no code for sums, so the ranks meet in memory of the host.
TEST(GpuCollectives, MeetOnTheHostWhereDevicesCannotRunThem) {
  class no_kernels final : public kernel_executor {
   public:
    result<tessera::stand_in::module_id> load(std::span<const std::byte>) override {
      return error(errc::corrupt, "line 1: expected nothing");
    }
    void unload(tessera::stand_in::module_id) noexcept override {}
    result<tessera::stand_in::function_facts> find(tessera::stand_in::module_id,
                                                   std::string_view) override {
      return error(errc::not_found, "no kernel");
    }
    result<tessera::stand_in::launch_report> launch(
        const tessera::stand_in::launch_request&) override {
      return error(errc::internal, "no kernel");
    }
  };
  tessera::stand_in::machine shown;
  shown.devices = ranks;
  shown.max_delay_us = 20;
  const gpu_context context(shown, std::make_shared<no_kernels>());
  EXPECT_EQ(run_collectives(context.get(), exact_sums), on_processor(exact_sums));
  EXPECT_EQ(tessera::stand_in::calls_of("cuLaunchKernelEx"), 0U);
}

}  // namespace
}  // namespace weir::test
