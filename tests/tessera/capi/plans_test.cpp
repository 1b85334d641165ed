// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests which plans for collectives modules can propose, and what kernels are told about
/// numerics.
#include <algorithm>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>

#include "support.hpp"
#include "support/temp_folder.hpp"

namespace weir::test {
namespace {

/// Builds a module with `fill` and loads it.
void load_filled(const session& s, const std::function<void(tessFatbin_t)>& fill) {
  tessFatbin_t fatbin = nullptr;
  tessModule_t module = nullptr;
  std::size_t size = 0;
  ASSERT_TESS(tessFatbinCreate(&fatbin));
  fill(fatbin);
  ASSERT_TESS(tessFatbinBuild(fatbin, nullptr, nullptr, &size));
  std::vector<char> image(size);
  ASSERT_TESS(tessFatbinBuild(fatbin, nullptr, image.data(), &size));
  ASSERT_TESS(tessModuleLoad(s.context, image.data(), size, &module));
  ASSERT_TESS(tessFatbinDestroy(fatbin));
}
/// Returns a plan for a collective with this algorithm and wire format.
tessFatbinPlan plan_of(std::uint32_t algorithm, std::uint32_t wire) {
  tessFatbinPlan out{};
  out.structSize = sizeof out;
  out.collective = 1;
  out.algorithm = algorithm;
  out.wireDtype = wire;
  return out;
}

/// Sums equal numbers over four ranks and returns whether every result is exact. A wire
/// format with fewer bits rounds them.
bool sums_exactly(session& s) {
  constexpr std::size_t count = 300;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = 1 + static_cast<float>(i) / 1024;
  }
  auto* x = s.memory<float>(count);
  EXPECT_TESS(tessMemcpyAsync(x, values.data(), count * 4, TESS_COPY_H2D, s.stream));
  EXPECT_TESS(
      tessAllReduce(s.mesh, x, count, TESS_FP32, TESS_COLL_SUM, nullptr, s.stream));
  const std::vector<float> got = s.read(x, count, 3);
  EXPECT_TESS(tessFree(s.mesh, x));
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_NEAR(got[i], 4 * values[i], 0.5) << i;
  }
  return std::equal(got.begin(), got.end(), values.begin(),
                    [](float sum, float value) { return sum == 4 * value; });
}

constexpr tessNumericsPolicy fast{0, 0, 1, 1};

// A module proposes to send numbers as bf16. Only a policy that allows rounding on the
// wire may follow the proposal; the others must ignore it without an error.
TEST(TesseraPlans, WireFormatsCountWhereThePolicyLetsThem) {
  session s(4);
  const tessFatbinPlan plan = plan_of(0, TESS_BF16);
  load_filled(s, [&](tessFatbin_t f) { ASSERT_TESS(tessFatbinAddPlan(f, &plan)); });
  EXPECT_TRUE(sums_exactly(s))
      << "the default policy forbids the wire format: no error and no rounding";
  const tessNumericsPolicy stable{1, 0, 1, 1};
  ASSERT_TESS(tessSetNumericsPolicy(s.context, &stable));
  EXPECT_TRUE(sums_exactly(s));
  ASSERT_TESS(tessSetNumericsPolicy(s.context, &fast));
  EXPECT_FALSE(sums_exactly(s));
}

TEST(TesseraPlans, StrictNumericsKeepEveryBit) {
  const environment strict({{"TESS_NUMERICS", "strict"}});
  session s(4);
  const tessFatbinPlan plan = plan_of(4, TESS_FP8_E4M3);
  load_filled(s, [&](tessFatbin_t f) { ASSERT_TESS(tessFatbinAddPlan(f, &plan)); });
  ASSERT_TESS(tessSetNumericsPolicy(s.context, &fast));
  EXPECT_TRUE(sums_exactly(s));
}

TEST(TesseraPlans, AModuleMayForbidItsOwnPlansToRound) {
  for (const int permitted : {0, 1}) {
    session s(4);
    const tessFatbinPlan plan = plan_of(1, TESS_BF16);
    load_filled(s, [&](tessFatbin_t f) {
      ASSERT_TESS(tessFatbinAddPlan(f, &plan));
      ASSERT_TESS(tessFatbinSetPolicy(f, &fast, permitted, 0));
    });
    // The program has set no policy, so the module's policy is that of the context.
    EXPECT_EQ(sums_exactly(s), permitted == 0);
  }
}

TEST(TesseraPlans, TypesThatAreNoWireFormatArePassedOver) {
  session s(4);
  ASSERT_TESS(tessSetNumericsPolicy(s.context, &fast));
  for (const int wire : {TESS_INT8, TESS_FP64, TESS_FP32}) {
    const tessFatbinPlan plan = plan_of(4, static_cast<std::uint32_t>(wire));
    load_filled(s, [&](tessFatbin_t f) { ASSERT_TESS(tessFatbinAddPlan(f, &plan)); });
    EXPECT_TRUE(sums_exactly(s)) << wire;
  }
}

/// Runs `calls` under a profiler and returns the algorithms and what chose them, in
/// order.
std::string choices(session& s, const std::function<void()>& calls) {
  const temp_folder folder;
  const std::string path = folder / "trace.json";
  tessProfiler_t profiler = nullptr;
  EXPECT_TESS(tessProfilerStart(s.context, &profiler));
  calls();
  EXPECT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_TESS(tessProfilerStop(profiler, path.c_str()));
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(TesseraPlans, AlgorithmsCountForTheirAxisTypeAndSize) {
  session s(4, {2, 1, 2, 1});
  tessFatbinPlan plan = plan_of(1, 0);
  plan.axis = "dp";
  plan.dtype = TESS_FP32;
  plan.leastBytes = 400;
  load_filled(s, [&](tessFatbin_t f) { ASSERT_TESS(tessFatbinAddPlan(f, &plan)); });
  auto* x = s.memory<float>(200);
  const auto chosen = [&](std::size_t count, int type, const char* axis) {
    return choices(s, [&] {
      ASSERT_TESS(tessAllReduce(s.mesh, x, count, type, TESS_COLL_SUM, axis, s.stream));
    });
  };
  const std::string hint = "\"algorithm\":\"ring\",\"chosen_by\":\"hint\"";
  EXPECT_NE(chosen(100, TESS_FP32, "dp").find(hint), std::string::npos);
  EXPECT_EQ(chosen(99, TESS_FP32, "dp").find(hint), std::string::npos);
  EXPECT_EQ(chosen(100, TESS_FP32, "tp").find(hint), std::string::npos);
  EXPECT_EQ(chosen(100, TESS_INT32, "dp").find(hint), std::string::npos);
}

/// Returns the choices for several equal calls, in the order of the trace, for example
/// "ring by tuner".
std::vector<std::string> decisions(session& s, float* x, std::size_t count, int calls) {
  const std::string trace = choices(s, [&] {
    for (int i = 0; i < calls; ++i) {
      ASSERT_TESS(
          tessAllReduce(s.mesh, x, count, TESS_FP32, TESS_COLL_MAX, nullptr, s.stream));
      ASSERT_TESS(tessStreamSynchronize(s.stream));
    }
  });
  static const std::regex decision(
      R"re("algorithm":"(\w+)","chosen_by":"(\w+)","level":\d,"ranks":\d)re");
  std::vector<std::string> out;
  for (std::sregex_iterator i(trace.begin(), trace.end(), decision), end; i != end; ++i) {
    out.push_back((*i)[1].str() + " by " + (*i)[2].str());
  }
  return out;
}

// Each algorithm is tried three times, then the fastest is used and stored in the cache.
// A second context that may not measure must use the stored result. A plan of a module
// comes before it.
TEST(TesseraPlans, WithoutAPlanTheFastestThatWasMeasuredCounts) {
  const temp_folder scratch;
  const std::string& folder = scratch.path();
  const environment cached({{"TESS_CACHE_DIR", folder.c_str()}, {"TESS_AUTOTUNE", "1"}});
  std::string fastest;
  {
    session s(2);
    auto* x = s.memory<float>(1000);
    // The trace has a row for each of the two ranks, so every call appears twice.
    const auto first = decisions(s, x, 1000, 9);
    for (const char* how : {"direct by tuner", "ring by tuner", "tree by tuner"}) {
      EXPECT_EQ(std::count(first.begin(), first.end(), how), 6) << how;
    }
    const auto later = decisions(s, x, 900, 3);
    ASSERT_EQ(later.size(), 6U);
    fastest = later.front();
    EXPECT_EQ(std::count(later.begin(), later.end(), fastest), 6) << "of the same size";
    EXPECT_NE(fastest.find(" by tuner"), std::string::npos);
    tessCacheStats stats{};
    stats.structSize = sizeof stats;
    while (stats.entries == 0) {  // another thread writes the entry
      ASSERT_TESS(tessCacheGetStats(s.context, &stats));
    }
  }
  const environment known({{"TESS_AUTOTUNE", "0"}});
  session s(2);
  auto* x = s.memory<float>(100'000);
  EXPECT_EQ(decisions(s, x, 1000, 1), (std::vector<std::string>(2, fastest)));
  EXPECT_EQ(decisions(s, x, 100'000, 1),
            (std::vector<std::string>(2, "direct by fallback")))
      << "nothing has been measured for this size, and measuring is switched off";
  const tessFatbinPlan plan = plan_of(2, 0);
  load_filled(s, [&](tessFatbin_t f) { ASSERT_TESS(tessFatbinAddPlan(f, &plan)); });
  EXPECT_EQ(decisions(s, x, 1000, 1), (std::vector<std::string>(2, "tree by hint")));
}

// The choice of a measurement can differ between runs. The default policy is
// deterministic and must not measure; captures must not measure either.
TEST(TesseraPlans, ADeterministicPolicyMeasuresNothingUnlessItIsAskedTo) {
  session s(2);
  auto* x = s.memory<float>(8);
  EXPECT_EQ(decisions(s, x, 8, 1).front(), "direct by fallback");
  ASSERT_TESS(tessSetNumericsPolicy(s.context, &fast));
  EXPECT_EQ(decisions(s, x, 8, 1).front(), "direct by tuner");
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessAllReduce(s.mesh, x, 8, TESS_FP32, TESS_COLL_MAX, nullptr, s.stream));
  tessGraph_t graph = nullptr;
  tessGraphExec_t exec = nullptr;
  ASSERT_TESS(tessStreamEndCapture(s.stream, &graph));
  ASSERT_TESS(tessGraphInstantiate(graph, &exec));
  const std::string trace =
      choices(s, [&] { ASSERT_TESS(tessGraphLaunch(exec, s.stream)); });
  EXPECT_NE(trace.find("\"algorithm\":\"direct\",\"chosen_by\":\"fallback\""),
            std::string::npos)
      << "a recorded call measures nothing";
}

/// Stores the description of numerics that its launch has received.
int telling_kernel(const tessBlockContext* block, const void* args) {
  **static_cast<tessDeterminism* const*>(args) = *block->determinism;
  return 0;
}

TEST(TesseraPlans, SeedAndTogglesAreWhatTheProgramSets) {
  const environment seeded({{"TESS_SEED", "5"}});
  session s;
  const registered_module m(
      s.context, {{"telling", telling_kernel, {pointer_to("out", TESS_INT64)}}});
  auto* x = s.memory<tessDeterminism>(1);
  const auto determinism = [&] {
    EXPECT_TESS(tessLaunch(m["telling"], s.mesh, {{1, 1, 1}, {1, 1, 1}, 0, 0}, &x,
                           sizeof x, s.stream));
    return s.read(x, 1)[0];
  };
  const tessDeterminism before = determinism();
  EXPECT_EQ(before.seed, 5U);
  EXPECT_EQ(before.stableToggles, 7U);
  ASSERT_TESS(tessSetDeterminism(s.context, 99, 2));
  const tessDeterminism after = determinism();
  EXPECT_EQ(after.seed, 99U);
  EXPECT_EQ(after.stableToggles, 2U);
  EXPECT_NE(after.digest, before.digest);
  EXPECT_EQ(tessSetDeterminism(s.context, 99, 8), TESS_ERR_INVALID_VALUE);
  const environment locked({{"TESS_POLICY_LOCK", "stable"}});
  session firm;
  EXPECT_EQ(tessSetDeterminism(firm.context, 1, 3), TESS_ERR_DETERMINISM_VIOLATION);
  EXPECT_TESS(tessSetDeterminism(firm.context, 1, 7));
}

TEST(TesseraPlans, ExternalMemoryHasADeviceAndAnEnd) {
  session s(2);
  std::vector<char> bytes(100, 1);
  ASSERT_TESS(tessMemRegisterExternal(s.context, bytes.data(), 100, 1));
  tessPointerAttributes a{};
  a.structSize = sizeof a;
  ASSERT_TESS(tessPointerGetAttributes(s.context, bytes.data() + 7, &a));
  EXPECT_EQ(a.kind, TESS_POINTER_IMPORTED);
  EXPECT_EQ(a.device, 1);
  EXPECT_EQ(a.offset, 7U);
  EXPECT_EQ(tessMemsetAsync(bytes.data(), 2, 101, s.stream), TESS_ERR_INVALID_VALUE);
  EXPECT_TESS(tessMemsetAsync(bytes.data(), 2, 100, s.stream));
  EXPECT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_EQ(bytes, std::vector<char>(100, 2));
  EXPECT_EQ(tessMemRegisterExternal(s.context, bytes.data() + 50, 100, 1),
            TESS_ERR_INVALID_VALUE)
      << "the range overlaps registered memory";
  EXPECT_EQ(tessMemRegisterExternal(s.context, bytes.data(), 0, 1),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessMemRegisterExternal(s.context, bytes.data(), SIZE_MAX, 1),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessMemRegisterExternal(s.context, bytes.data(), 100, 8),
            TESS_ERR_INVALID_VALUE);
  EXPECT_TESS(tessMemReleaseImported(s.context, bytes.data()));
  EXPECT_EQ(tessMemsetAsync(bytes.data(), 2, 100, s.stream), TESS_ERR_INVALID_VALUE);
}

// Each run of the graph doubles the number twice, so two runs make 16 out of 1.
TEST(TesseraPlans, AGroupOnAStreamThatRecordsIsPartOfTheRecording) {
  session s(2);
  auto* x = s.memory<int64_t>(1);
  const int64_t one = 1;
  ASSERT_TESS(tessMemcpyAsync(x, &one, 8, TESS_COPY_H2D, s.stream));
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessGroupStart());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TESS(tessAllReduce(s.mesh, x, 1, TESS_INT64, TESS_COLL_SUM, "dp", s.stream));
  }
  ASSERT_TESS(tessGroupEnd());
  tessGraph_t graph = nullptr;
  tessGraphExec_t exec = nullptr;
  std::size_t nodes = 0;
  ASSERT_TESS(tessStreamEndCapture(s.stream, &graph));
  ASSERT_TESS(tessGraphGetNodeCount(graph, &nodes));
  EXPECT_EQ(nodes, 2U);
  EXPECT_EQ(s.read(x, 1, 1)[0], 1) << "a collective in a recording group must not run";
  ASSERT_TESS(tessGraphInstantiate(graph, &exec));
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  EXPECT_EQ(s.read(x, 1, 1)[0], 16);
}

}  // namespace
}  // namespace weir::test
