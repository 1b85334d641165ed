// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the contract of the C interface: structure sizes, version numbers, lifetimes of
/// contexts, the numerics policy, and the status of bad arguments.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "support.hpp"
#include "support/temp_folder.hpp"
#include "weir/tessera/module/cache.hpp"

namespace weir::test {
namespace {

static_assert(sizeof(tessMeshAxes) == 16);
static_assert(sizeof(tessNumericsPolicy) == 16);
static_assert(sizeof(tessLaunchConfig) == 40 &&
              offsetof(tessLaunchConfig, shmemBytes) == 24 &&
              offsetof(tessLaunchConfig, flags) == 32);
static_assert(TESS_OK == 0 && TESS_ERR_INVALID_VALUE == 1 &&
              TESS_ERR_CACHE_CORRUPT == 11);
static_assert(TESS_MEM_GLOBAL == 0 && TESS_MEM_PINNED_HOST == 1);
static_assert(TESS_COPY_H2D == 0 && TESS_COPY_D2H == 1 && TESS_COPY_D2D == 2);
static_assert(TESS_COLL_SUM == 0 && TESS_COLL_MAX == 1 && TESS_COLL_MIN == 2);

int idle_kernel(const tessBlockContext*, const void*) {
  return 0;
}
/// Stores the description of numerics that its launch has received.
int describing_kernel(const tessBlockContext* block, const void* args) {
  auto* out = *static_cast<tessDeterminism* const*>(args);
  *out = *block->determinism;
  return 0;
}
std::vector<registered_module::entry> contract_kernels() {
  return {{"idle", idle_kernel, {}},
          {"describing", describing_kernel, {pointer_to("out", TESS_INT64)}},
          {"wide",
           idle_kernel,
           {value("a", TESS_INT8, 1), value("b", TESS_INT64, 8),
            value("c", TESS_INT16, 2), value("d", TESS_FP32, 4)}}};
}

TEST(TesseraContract, ReportsItsVersionBeforeInitialization) {
  int major = -1;
  int minor = -1;
  EXPECT_EQ(tessGetVersion(&major, &minor, nullptr), TESS_OK);
  EXPECT_EQ(major, 1);
  EXPECT_EQ(minor, 0);
  EXPECT_EQ(tessGetVersion(nullptr, nullptr, nullptr), TESS_OK);
}

TEST(TesseraContract, CallsWithoutAContextAreNotInitialized) {
  void* p = nullptr;
  tessEvent_t e = nullptr;
  EXPECT_EQ(tessEventCreate(&e), TESS_ERR_NOT_INITIALIZED);
  EXPECT_EQ(tessHostAlloc(8, &p, TESS_MEM_PINNED_HOST), TESS_ERR_NOT_INITIALIZED);
  EXPECT_EQ(tessInit(nullptr), TESS_ERR_INVALID_VALUE);
  EXPECT_STRNE(tessGetLastErrorMessage(), "");
}

TEST(TesseraContract, ContextsCoexistAndComeBack) {
  for (int i = 0; i < 20; ++i) {
    session a;
    session b(2);
    const registered_module m(a.context, contract_kernels());
    EXPECT_TESS(tessLaunch(m["idle"], a.mesh, {{3, 1, 1}, {1, 1, 1}, 0, 0}, nullptr, 0,
                           a.stream));
    EXPECT_EQ(
        tessLaunch(m["idle"], b.mesh, {{3, 1, 1}, {1, 1, 1}, 0, 0}, nullptr, 0, b.stream),
        TESS_ERR_INVALID_VALUE)
        << "a kernel of another context is refused";
    tessEvent_t e = nullptr;
    EXPECT_TESS(tessEventCreate(&e));
    EXPECT_TESS(tessEventRecord(e, a.stream));
    EXPECT_EQ(tessStreamWaitEvent(b.stream, e), TESS_ERR_INVALID_VALUE);
    EXPECT_TESS(tessEventDestroy(e));
  }
}

TEST(TesseraContract, HandlesOfAContextDieWithIt) {
  session s(2);
  auto m = std::make_unique<registered_module>(s.context, contract_kernels());
  tessKernel_t idle = (*m)["idle"];
  EXPECT_EQ(idle, (*m)["idle"]) << "the same kernel has the same handle each time";
  const tessContext_t context = std::exchange(s.context, nullptr);
  EXPECT_TESS(tessShutdown(context));
  EXPECT_EQ(tessShutdown(context), TESS_ERR_NOT_INITIALIZED);
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessMeshDestroy(s.mesh), TESS_ERR_NOT_INITIALIZED);
  EXPECT_EQ(tessModuleUnload(m->module), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessLaunch(idle, s.mesh, {{1, 1, 1}, {1, 1, 1}, 0, 0}, nullptr, 0, s.stream),
            TESS_ERR_NOT_INITIALIZED);
}

TEST(TesseraContract, ALaunchLikeTheLastOneStillWantsHandlesThatLive) {
  const session s(2);
  const registered_module m(s.context, contract_kernels());
  const tessKernel_t idle = m["idle"];
  const int ids[] = {0, 1};
  tessMesh_t twin = nullptr;  // another mesh with the same devices
  EXPECT_TESS(tessMeshCreate(s.context, ids, 2, {1, 1, 2, 1}, &twin));
  const auto launch = [&](tessMesh_t mesh) {
    return tessLaunch(idle, mesh, {{1, 1, 1}, {1, 1, 1}, 0, 0}, nullptr, 0, s.stream);
  };
  EXPECT_TESS(launch(s.mesh));
  EXPECT_EQ(launch(twin), TESS_ERR_INVALID_VALUE);
  EXPECT_TESS(tessMeshDestroy(twin));
  EXPECT_EQ(launch(twin), TESS_ERR_NOT_INITIALIZED);
  EXPECT_TESS(launch(s.mesh));
  EXPECT_TESS(tessModuleUnload(m.module));
  EXPECT_EQ(launch(s.mesh), TESS_ERR_INVALID_VALUE);
  EXPECT_TESS(tessStreamSynchronize(s.stream));
}

TEST(TesseraContract, LaunchesInARowEachHaveTheirOwnTermsAndNumber) {
  session s;
  const registered_module m(s.context, contract_kernels());
  auto* const described = s.memory<tessDeterminism>(5);
  const auto launch = [&](int i, int blocks, unsigned flags) {
    tessDeterminism* const address = described + i;
    return tessLaunch(m["describing"], s.mesh, {{blocks, 1, 1}, {1, 1, 1}, 0, flags},
                      &address, sizeof address, s.stream);
  };
  const tessNumericsPolicy loose{0, 0, 1, 0};
  EXPECT_TESS(tessSetNumericsPolicy(s.context, &loose));
  EXPECT_TESS(launch(0, 1, 0));
  EXPECT_TESS(launch(1, 1, TESS_LAUNCH_DETERMINISTIC));
  EXPECT_EQ(tessLaunch(m["describing"], s.mesh, {{1, 1, 1}, {1, 1, 1}, 0, 0}, described,
                       4, s.stream),
            TESS_ERR_INVALID_VALUE)
      << "arguments that are too short are refused, and the launch gets no number";
  EXPECT_TESS(launch(2, 1, 0));
  EXPECT_TESS(tessSetDeterminism(s.context, 77, 7));
  EXPECT_TESS(launch(3, 1, 0));
  EXPECT_TESS(launch(4, 1, 0));
  tessDeterminism last{};
  last.structSize = sizeof last;
  EXPECT_TESS(tessStreamGetDeterminism(s.stream, &last));
  const auto seen = s.read(described, 5);
  const std::uint32_t levels[] = {0, 1, 0, 0, 0};
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].ordinal, i);
    EXPECT_EQ(seen[i].level, levels[i]) << i;
    EXPECT_EQ(seen[i].seed, i < 3 ? 0U : 77U) << i;
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(seen[i].digest, seen[j].digest) << i << " and " << j;
    }
  }
  EXPECT_EQ(last.ordinal, 4U);
  EXPECT_EQ(last.digest, seen[4].digest);
}

TEST(TesseraContract, MeshesWantTheirAxesToMultiplyToTheirDevices) {
  session s;
  tessMesh_t m = nullptr;
  const int ids[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto make = [&](int n, tessMeshAxes axes) {
    return tessMeshCreate(s.context, ids, n, axes, &m);
  };
  EXPECT_TESS(make(8, {2, 1, 4, 0}));
  EXPECT_EQ(make(8, {2, 1, 3, 0}), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(make(8, {-2, 1, -4, 0}), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(make(8, {0, 0, 0, 0}), TESS_ERR_INVALID_VALUE);
  EXPECT_TESS(make(1, {0, 0, 0, 0}));
  EXPECT_EQ(make(0, {0, 0, 0, 0}), TESS_ERR_INVALID_VALUE);
  const int twice[] = {1, 1};
  EXPECT_EQ(tessMeshCreate(s.context, twice, 2, {2, 1, 1, 1}, &m),
            TESS_ERR_INVALID_VALUE);
  const int beyond[] = {8};
  EXPECT_EQ(tessMeshCreate(s.context, beyond, 1, {1, 1, 1, 1}, &m),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessMeshCreate(nullptr, ids, 1, {1, 1, 1, 1}, &m), TESS_ERR_NOT_INITIALIZED);
  EXPECT_EQ(tessMeshCreate(s.context, nullptr, 1, {1, 1, 1, 1}, &m),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessMeshCreate(s.context, ids, 1, {1, 1, 1, 1}, nullptr),
            TESS_ERR_INVALID_VALUE);
}

TEST(TesseraContract, RanksLieWithTheFirstAxisFastest) {
  session s(8, {2, 1, 4, 1});
  int coords[4];
  ASSERT_TESS(tessMeshRankCoords(s.mesh, 5, coords));
  EXPECT_EQ(coords[0], 1);
  EXPECT_EQ(coords[2], 2);
  int ranks[8];
  int count = 8;
  ASSERT_TESS(tessMeshAxisGroup(s.mesh, "dp", 5, ranks, &count));
  EXPECT_EQ(std::vector<int>(ranks, ranks + count), (std::vector<int>{1, 3, 5, 7}));
  count = 1;
  EXPECT_EQ(tessMeshAxisGroup(s.mesh, "dp", 5, ranks, &count), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(count, 4);
  EXPECT_EQ(tessMeshAxisGroup(s.mesh, "xp", 5, ranks, &count), TESS_ERR_INVALID_VALUE);
}

TEST(TesseraContract, LaunchesRefuseShapesAndArgumentsThatAreWrong) {
  session s;
  const registered_module m(s.context, contract_kernels());
  std::vector<char> args(64, 1);
  const auto launch = [&](const char* kernel, tessLaunchConfig c, std::size_t bytes) {
    return tessLaunch(m[kernel], s.mesh, c, args.data(), bytes, s.stream);
  };
  const tessLaunchConfig good{{1, 1, 1}, {0, 0, 0}, 0, 0};
  EXPECT_TESS(launch("idle", good, 0));
  EXPECT_EQ(launch("idle", {{0, 1, 1}, {1, 1, 1}, 0, 0}, 0), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(launch("idle", {{1, -1, 1}, {1, 1, 1}, 0, 0}, 0), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(launch("idle", {{1, 1, 1}, {-1, 1, 1}, 0, 0}, 0), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(launch("idle", {{1, 1, 1}, {1 << 20, 1, 1}, 0, 0}, 0),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(launch("idle", {{1, 1, 1}, {1, 1, 1}, SIZE_MAX, 0}, 0),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(launch("idle", {{1, 1, 1}, {1, 1, 1}, 0, 32}, 0), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(launch("idle", good, 8), TESS_ERR_INVALID_VALUE);
  // The parameters are at the offsets 0, 8, 16 and 20; the structure ends at 24.
  EXPECT_TESS(launch("wide", good, 24));
  EXPECT_EQ(launch("wide", good, 23), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(launch("wide", good, 25), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessLaunch(m["wide"], s.mesh, good, nullptr, 24, s.stream),
            TESS_ERR_INVALID_VALUE);
  tessParamInfo p{};
  p.structSize = sizeof p;
  ASSERT_TESS(tessKernelGetParam(m["wide"], 3, &p));
  EXPECT_EQ(p.offset, 20U);
  EXPECT_STREQ(p.name, "d");
  tessKernel_t none = nullptr;
  EXPECT_EQ(tessKernelGet(m.module, "absent", &none), TESS_ERR_INVALID_VALUE);
}

TEST(TesseraContract, PacksArgumentsByTheKernelsRecords) {
  session s;
  const registered_module m(s.context, contract_kernels());
  const int8_t a = 1;
  const int64_t b = -2;
  const int16_t c = 3;
  const float d = 4;
  const void* values[] = {&a, &b, &c, &d};
  std::size_t size = 0;
  ASSERT_TESS(tessPackArgs(m["wide"], values, 4, nullptr, &size));
  ASSERT_EQ(size, 24U);
  std::vector<unsigned char> buffer(size);
  ASSERT_TESS(tessPackArgs(m["wide"], values, 4, buffer.data(), &size));
  EXPECT_EQ(buffer[0], 1);
  EXPECT_EQ(buffer[8], 0xFE);
  EXPECT_EQ(buffer[16], 3);
  EXPECT_EQ(buffer[23], 0x40);
  EXPECT_EQ(tessPackArgs(m["wide"], values, 3, buffer.data(), &size),
            TESS_ERR_INVALID_VALUE);
}

TEST(TesseraContract, PolicyIsCheckedKeptAndLocked) {
  {
    session s;
    tessNumericsPolicy p{};
    ASSERT_TESS(tessGetNumericsPolicy(s.context, &p));
    EXPECT_EQ(p.stableReductions + p.deterministic + p.rngStateless, 3);
    EXPECT_EQ(p.allowFastMath, 0);
    p = {0, 0, 0, 1};
    ASSERT_TESS(tessSetNumericsPolicy(s.context, &p));
    p = {};
    ASSERT_TESS(tessGetNumericsPolicy(s.context, &p));
    EXPECT_EQ(p.allowFastMath, 1);
    EXPECT_EQ(p.deterministic, 0);
    p.deterministic = 2;
    EXPECT_EQ(tessSetNumericsPolicy(s.context, &p), TESS_ERR_INVALID_VALUE);
  }
  {
    const environment floor({{"TESS_DETERMINISTIC", "1"}});
    session s;
    tessNumericsPolicy p{1, 0, 1, 0};
    EXPECT_TESS(tessSetNumericsPolicy(s.context, &p));
    EXPECT_TESS(tessGetNumericsPolicy(s.context, &p));
    EXPECT_EQ(p.deterministic, 1)
        << "TESS_DETERMINISTIC is a lower bound for the policy, and the call succeeds";
  }
  {
    const environment locked({{"TESS_POLICY_LOCK", "nofastmath,deterministic"}});
    session s;
    tessNumericsPolicy p{1, 0, 1, 0};
    EXPECT_EQ(tessSetNumericsPolicy(s.context, &p), TESS_ERR_DETERMINISM_VIOLATION);
    p = {1, 1, 1, 1};
    EXPECT_EQ(tessSetNumericsPolicy(s.context, &p), TESS_ERR_DETERMINISM_VIOLATION);
    p = {0, 1, 0, 0};
    EXPECT_TESS(tessSetNumericsPolicy(s.context, &p));
  }
}

TEST(TesseraContract, KernelsSeeTheDescriptorOfTheirLaunch) {
  const environment seed({{"TESS_SEED", "77"}});
  session s;
  const registered_module m(s.context, contract_kernels());
  auto* memory = s.memory<tessDeterminism>(1);
  std::vector<tessDeterminism> seen;
  for (const tessNumericsPolicy& p :
       {tessNumericsPolicy{1, 1, 1, 0}, {0, 1, 1, 0}, {0, 0, 1, 1}}) {
    ASSERT_TESS(tessSetNumericsPolicy(s.context, &p));
    ASSERT_TESS(tessLaunch(m["describing"], s.mesh, {{1, 1, 1}, {1, 1, 1}, 0, 0}, &memory,
                           sizeof memory, s.stream));
    seen.push_back(s.read(memory, 1)[0]);
    tessDeterminism reported{};
    reported.structSize = sizeof reported;
    ASSERT_TESS(tessStreamGetDeterminism(s.stream, &reported));
    EXPECT_EQ(reported.digest, seen.back().digest);
  }
  EXPECT_EQ(seen[0].level, 2U);
  EXPECT_EQ(seen[1].level, 1U);
  EXPECT_EQ(seen[2].level, 0U);
  EXPECT_EQ(seen[2].fastMath, 1U);
  EXPECT_EQ(seen[0].policy, 7U);
  EXPECT_EQ(seen[1].policy, 6U);
  EXPECT_EQ(seen[2].policy, 12U);
  EXPECT_EQ(seen[0].algorithm, 0U) << "a launch has no collective algorithm";
  EXPECT_EQ(seen[0].seed, 77U);
  EXPECT_EQ(seen[1].ordinal, seen[0].ordinal + 1);
  EXPECT_NE(seen[0].digest, seen[1].digest);
}

TEST(TesseraContract, GarbageIsNoModule) {
  session s;
  tessModule_t m = nullptr;
  const unsigned char four[] = {0xCA, 0xFE, 0xBA, 0xBE};
  EXPECT_EQ(tessModuleLoad(s.context, four, 4, &m), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessModuleLoad(s.context, nullptr, 4, &m), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessModuleLoad(s.context, four, 0, &m), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessModuleLoad(nullptr, four, 4, &m), TESS_ERR_NOT_INITIALIZED);
}

TEST(TesseraContract, ExplainsAModule) {
  session s;
  const registered_module m(s.context, contract_kernels());
  std::size_t size = 0;
  ASSERT_TESS(tessExplain(m.module, nullptr, &size));
  std::string text(size, '\0');
  ASSERT_TESS(tessExplain(m.module, text.data(), &size));
  EXPECT_NE(text.find("\"describing\""), std::string::npos);
  size = 3;
  EXPECT_EQ(tessExplain(m.module, text.data(), &size), TESS_ERR_INVALID_VALUE);
}

TEST(TesseraContract, EveryCallRefusesWhatNamesNothing) {
  session s;
  tessEvent_t e = nullptr;
  ASSERT_TESS(tessEventCreate(&e));
  int n = 0;
  float ms = 0;
  std::size_t size = 0;
  void* p = nullptr;
  const auto bogus_stream = reinterpret_cast<tessStream_t>(0x1234567);
  for (tessStream_t stream : {static_cast<tessStream_t>(nullptr), bogus_stream,
                              reinterpret_cast<tessStream_t>(e)}) {
    EXPECT_EQ(tessStreamDestroy(stream), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessStreamSynchronize(stream), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessStreamQuery(stream, &n), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessEventRecord(e, stream), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessStreamWaitEvent(stream, e), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessMemcpyAsync(&n, &n, 4, TESS_COPY_D2D, stream), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessMemsetAsync(&n, 0, 4, stream), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessLaunchHostFunc(
                  stream, [](void*) {}, nullptr),
              TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessAllReduce(s.mesh, &n, 1, TESS_INT32, TESS_COLL_SUM, nullptr, stream),
              TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessBarrier(s.mesh, nullptr, stream), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessStreamBeginCapture(stream), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessStreamGetLastMessage(stream, nullptr, &size), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessMallocAsync(&p, 8, stream), TESS_ERR_INVALID_VALUE);
  }
  for (tessEvent_t event :
       {static_cast<tessEvent_t>(nullptr), reinterpret_cast<tessEvent_t>(s.stream)}) {
    EXPECT_EQ(tessEventDestroy(event), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessEventRecord(event, s.stream), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessStreamWaitEvent(s.stream, event), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessEventSynchronize(event), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessEventQuery(event, &n), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessEventElapsedTime(&ms, event, e), TESS_ERR_INVALID_VALUE);
  }
  for (tessMesh_t mesh :
       {static_cast<tessMesh_t>(nullptr), reinterpret_cast<tessMesh_t>(s.context)}) {
    EXPECT_EQ(tessMeshDestroy(mesh), TESS_ERR_NOT_INITIALIZED);
    EXPECT_EQ(tessStreamCreate(mesh, 0, &s.stream), TESS_ERR_NOT_INITIALIZED);
    EXPECT_EQ(tessMalloc(mesh, 8, &p), TESS_ERR_NOT_INITIALIZED);
    EXPECT_EQ(tessFree(mesh, &n), TESS_ERR_NOT_INITIALIZED);
    EXPECT_EQ(tessAllReduce(mesh, &n, 1, TESS_INT32, TESS_COLL_SUM, nullptr, s.stream),
              TESS_ERR_NOT_INITIALIZED);
    EXPECT_EQ(tessMemGetInfo(mesh, 0, &size, &size), TESS_ERR_NOT_INITIALIZED);
  }
  EXPECT_EQ(tessStreamCreate(s.mesh, 0, nullptr), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessMalloc(s.mesh, 8, nullptr), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessHostAlloc(8, nullptr, TESS_MEM_PINNED_HOST), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessEventCreate(nullptr), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessModuleUnload(nullptr), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessKernelGet(nullptr, "x", nullptr), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessProfilerStart(nullptr, nullptr), TESS_ERR_NOT_INITIALIZED);
  EXPECT_EQ(tessProfilerStop(nullptr, nullptr), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessSetNumericsPolicy(nullptr, nullptr), TESS_ERR_NOT_INITIALIZED);
  EXPECT_EQ(tessGetNumericsPolicy(s.context, nullptr), TESS_ERR_INVALID_VALUE);
}

TEST(TesseraContract, ADamagedCacheEntryIsFound) {
  const temp_folder scratch;
  const std::string& folder = scratch.path();
  const environment cached({{"TESS_CACHE_DIR", folder.c_str()}});
  {
    session s;
    tessCacheStats stats{};
    stats.structSize = sizeof stats;
    ASSERT_TESS(tessCacheClear(s.context));
    ASSERT_TESS(tessCacheGetStats(s.context, &stats));
    EXPECT_EQ(stats.enabled, 1U);
    EXPECT_EQ(stats.entries, 0U);
    EXPECT_TESS(tessCacheVerify(s.context));
    tessera::cache_options options;
    options.folder = folder;
    auto cache = or_throw(tessera::module_cache::open(options));
    tessera::cache_key key;
    key.kernel = "idle";
    const std::vector<std::byte> content(100, std::byte{7});
    or_throw(cache->put(key, content));
  }
  std::string file;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      file = entry.path();
    }
  }
  ASSERT_FALSE(file.empty());
  std::fstream damaged(file, std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(-3, std::ios::end);
  damaged.put('x');
  damaged.close();
  session s;
  EXPECT_EQ(tessCacheVerify(s.context), TESS_ERR_CACHE_CORRUPT);
  EXPECT_TESS(tessCacheClear(s.context));
}

TEST(TesseraContract, WrongVariablesAreReportedOnceAtEveryLevel) {
  const auto said = [] {
    testing::internal::CaptureStderr();
    const session s;
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said(), "");
  static int repetition = 0;  // a process logs each text only once
  const std::string loud = "loud" + std::to_string(++repetition);
  const std::string perhaps = "perhaps" + std::to_string(repetition);
  const environment wrong(
      {{"TESS_LOG_LEVEL", loud.c_str()}, {"TESS_AUTOTUNE", perhaps.c_str()}});
  const std::string once = said();
  EXPECT_NE(once.find("TESS_LOG_LEVEL ignored: expected info, debug, trace, found \"" +
                      loud + "\""),
            std::string::npos)
      << once;
  EXPECT_NE(once.find("TESS_AUTOTUNE ignored"), std::string::npos) << once;
  EXPECT_EQ(said(), "") << "a second context must not repeat the message";
  std::vector<std::string> heard;
  EXPECT_TESS(tessSetLogCallback(
      [](tessLogLevel, const char* text, void* user) {
        static_cast<std::vector<std::string>*>(user)->emplace_back(text);
      },
      &heard));
  EXPECT_EQ(said(), "") << "the callback gets the message instead of standard error";
  EXPECT_TESS(tessSetLogCallback(nullptr, nullptr));
  ASSERT_GE(heard.size(), 2U);
  EXPECT_NE(heard[0].find("ignored"), std::string::npos);
}

TEST(TesseraContract, BackendsThatAreNotThereAreUnsupported) {
  const environment none({{"TESS_BACKEND", "abacus"}});
  tessContext_t c = nullptr;
  EXPECT_EQ(tessInit(&c), TESS_ERR_UNSUPPORTED);
}

TEST(TesseraContract, StatusesHaveNamesAndTexts) {
  for (int i = 0; i <= 11; ++i) {
    const auto s = static_cast<tessStatus_t>(i);
    EXPECT_EQ(std::string(tessGetErrorName(s)).rfind("TESS_", 0), 0U);
    EXPECT_STREQ(tessGetErrorString(s), tessStatusString(s));
  }
  EXPECT_STREQ(tessGetErrorName(static_cast<tessStatus_t>(15)), "unknown status");
}

TEST(TesseraContract, FunctionsAreFoundByName) {
  EXPECT_EQ(tessGetProcAddress("tessInit", 0), reinterpret_cast<void (*)()>(&tessInit));
  EXPECT_EQ(tessGetProcAddress("tessGraphLaunch", 0),
            reinterpret_cast<void (*)()>(&tessGraphLaunch));
  EXPECT_EQ(tessGetProcAddress("malloc", 0), nullptr);
  EXPECT_EQ(tessGetProcAddress(nullptr, 0), nullptr);
  EXPECT_EQ(tessGetProcAddress("tessInit", 1), nullptr)
      << "a version of the ABI that does not exist is refused";
}

TEST(TesseraContract, TheProfilerWritesATrace) {
  const temp_folder folder;
  const std::string path = folder / "trace.json";
  session s(2);
  const registered_module m(s.context, contract_kernels());
  tessProfiler_t p = nullptr;
  ASSERT_TESS(tessProfilerStart(s.context, &p));
  auto* x = s.memory<int>(1000);
  ASSERT_TESS(
      tessLaunch(m["idle"], s.mesh, {{3, 1, 1}, {1, 1, 1}, 0, 0}, nullptr, 0, s.stream));
  ASSERT_TESS(
      tessAllReduce(s.mesh, x, 1000, TESS_INT32, TESS_COLL_SUM, nullptr, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  ASSERT_TESS(tessProfilerStop(p, path.c_str()));
  EXPECT_EQ(tessProfilerStop(p, path.c_str()), TESS_ERR_INVALID_VALUE);
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  for (const char* part : {"\"idle\"", "\"all_reduce\"", "\"algorithm\":",
                           "\"grid\":[3,1,1]", "\"TESS_CPU_DEVICES\":\"8\""}) {
    EXPECT_NE(text.str().find(part), std::string::npos) << part;
  }
  ASSERT_TESS(tessProfilerStart(s.context, &p));
  EXPECT_EQ(tessProfilerStop(p, "/nonexistent/folder/trace.json"),
            TESS_ERR_INVALID_VALUE);
}

}  // namespace
}  // namespace weir::test
