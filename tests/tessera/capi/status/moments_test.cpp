// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests lifetimes, and the status of calls at unusual moments: after a fork, after a
/// module was unloaded, behind a failure, and with a damaged cache.
/// @source{Tessera Runtime & ABI, sections 4, 7 and 8}
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "support.hpp"
#include "support/temp_folder.hpp"
#include "weir/tessera/device/dlpack.hpp"
#include "weir/tessera/stream/settings.hpp"

namespace weir::test {
namespace {

constexpr tessLaunchConfig single_thread{{1, 1, 1}, {1, 1, 1}, 0, 0};

/// Fails in every block.
int kernel_that_fails(const tessBlockContext*, const void*) {
  return 7;
}

/// Loads a module that has this policy and one plan for all-reduces along `axis`, but no
/// kernels.
tessStatus_t load_plans(const session& s, const tessNumericsPolicy& policy,
                        const char* axis, tessModule_t* out) {
  tessFatbin_t fatbin = nullptr;
  EXPECT_TESS(tessFatbinCreate(&fatbin));
  tessFatbinPlan plan{};
  plan.structSize = sizeof plan;
  plan.collective = 1;
  plan.algorithm = 1;  // ring
  plan.axis = axis;
  EXPECT_TESS(tessFatbinAddPlan(fatbin, &plan));
  EXPECT_TESS(tessFatbinSetPolicy(fatbin, &policy, 0, 0));
  std::size_t size = 0;
  EXPECT_TESS(tessFatbinBuild(fatbin, nullptr, nullptr, &size));
  std::vector<char> image(size);
  EXPECT_TESS(tessFatbinBuild(fatbin, nullptr, image.data(), &size));
  EXPECT_TESS(tessFatbinDestroy(fatbin));
  return tessModuleLoad(s.context, image.data(), image.size(), out);
}
/// Returns the level of determinism of the context's policy.
int level_of(const session& s) {
  tessNumericsPolicy p{};
  EXPECT_TESS(tessGetNumericsPolicy(s.context, &p));
  return p.deterministic == 0 ? 0 : p.stableReductions == 0 ? 1 : 2;
}
/// Returns the number of the algorithm that an all-reduce over all ranks uses.
std::uint32_t algorithm_of_a_sum(session& s) {
  auto* const x = s.memory<float>(1024);
  EXPECT_TESS(tessAllReduce(s.mesh, x, 1024, TESS_FP32, TESS_COLL_SUM, "dp", s.stream));
  EXPECT_TESS(tessStreamSynchronize(s.stream));
  tessDeterminism reported{};
  reported.structSize = sizeof reported;
  EXPECT_TESS(tessStreamGetDeterminism(s.stream, &reported));
  EXPECT_TESS(tessFree(s.mesh, x));
  return reported.algorithm;
}

// The policy is that of the module loaded last. Unloading modules must restore the policy
// and the plans that held before.
TEST(TesseraModules, TakePolicyAndPlansWithThemWhenTheyAreUnloaded) {
  session s(4);
  constexpr std::uint32_t ring = 1;
  const std::uint32_t before = algorithm_of_a_sum(s);
  ASSERT_NE(before, ring);
  tessModule_t loose = nullptr;
  tessModule_t firm = nullptr;
  ASSERT_TESS(load_plans(s, {0, 0, 1, 0}, "dp", &loose));
  EXPECT_EQ(level_of(s), 0);
  ASSERT_TESS(load_plans(s, {0, 1, 1, 0}, "tp", &firm));
  EXPECT_EQ(level_of(s), 1) << "the level of the module that was loaded last is in force";
  EXPECT_EQ(algorithm_of_a_sum(s), ring);
  ASSERT_TESS(tessModuleUnload(firm));
  EXPECT_EQ(level_of(s), 0) << "the level of the remaining module is in force";
  ASSERT_TESS(tessModuleUnload(loose));
  EXPECT_EQ(level_of(s), 2);
  EXPECT_EQ(algorithm_of_a_sum(s), before);
}

// The first plan of the module is valid, the second is not. The load must fail as a
// whole, without leaving the first plan or the policy.
TEST(TesseraModules, ThatCannotBeLoadedChangeNothing) {
  session s(2);
  const std::uint32_t before = algorithm_of_a_sum(s);
  tessera::fatbin_builder builder;
  builder.set_policy({false, false, true, false, false, 0});
  tessera::plan_record plan;
  plan.collective = 1;
  plan.algorithm = 1;  // ring
  builder.add_plan(plan);
  plan.axis = "zz";
  builder.add_plan(plan);
  const byte_vector image = or_throw(builder.build());
  tessModule_t none = nullptr;
  EXPECT_EQ(tessModuleLoad(s.context, image.data(), image.size(), &none),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(level_of(s), 2);
  EXPECT_EQ(algorithm_of_a_sum(s), before);
}

TEST(TesseraModules, PlansAlongUnknownAxesAreRefusedWhenTheyAreAdded) {
  tessFatbin_t fatbin = nullptr;
  ASSERT_TESS(tessFatbinCreate(&fatbin));
  tessFatbinPlan plan{};
  plan.structSize = sizeof plan;
  plan.axis = "zz";
  EXPECT_EQ(tessFatbinAddPlan(fatbin, &plan), TESS_ERR_INVALID_VALUE);
  plan.axis = "tp+dp";
  EXPECT_TESS(tessFatbinAddPlan(fatbin, &plan));
  ASSERT_TESS(tessFatbinDestroy(fatbin));
}

TEST(TesseraModules, LeaveThePolicyThatAProgramHasSet) {
  const session s(2);
  const tessNumericsPolicy own{0, 1, 1, 0};
  ASSERT_TESS(tessSetNumericsPolicy(s.context, &own));
  tessModule_t loose = nullptr;
  ASSERT_TESS(load_plans(s, {0, 0, 1, 0}, "dp", &loose));
  EXPECT_EQ(level_of(s), 1);
  ASSERT_TESS(tessModuleUnload(loose));
  EXPECT_EQ(level_of(s), 1);
}

// The threads of the runtime do not exist in a forked child, so any call that waits for
// them would block forever. `alarm` turns that into a failure.
TEST(TesseraFork, TheChildGetsAnErrorFromEveryCallAndNoneHangs) {
  session s(2);
  auto* const x = s.memory<char>(64);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // ends a child that blocks
    tessMesh_t mesh = nullptr;
    void* memory = nullptr;
    const int device = 0;
    const tessStatus_t all[] = {
        tessMemsetAsync(x, 0, 64, s.stream),
        tessStreamSynchronize(s.stream),
        tessStreamDestroy(s.stream),
        tessMalloc(s.mesh, 64, &memory),
        tessFree(s.mesh, x),
        tessMeshDestroy(s.mesh),
        tessHostAlloc(64, &memory, TESS_MEM_PINNED_HOST),
        tessMeshCreate(s.context, &device, 1, {1, 1, 1, 1}, &mesh),
        tessShutdown(s.context)};
    int wrong = 0;
    for (const tessStatus_t status : all) {
      wrong += status == TESS_ERR_NOT_INITIALIZED ? 0 : 1;
    }
    wrong += std::strstr(tessGetLastErrorMessage(), "forked") == nullptr ? 16 : 0;
    _exit(wrong);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(s.read(x, 1)[0], 0) << "the stream of the parent process goes on";
}

/// An allocator that uses the system's memory and counts how often memory is given back.
struct counted_source {
  static std::atomic<int>& given_back() {
    static std::atomic<int> count{0};
    return count;
  }
  static void* take(std::size_t bytes, std::size_t alignment, void*) {
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  static void give_back(void* address, std::size_t, void*) {
    ++given_back();
    std::free(address);
  }
};

// The deleter of an exported tensor runs in a forked child and in its parent. Only the
// parent may free the memory.
TEST(TesseraFork, ATensorThatWasExportedIsGivenBackByTheProcessThatMadeItAlone) {
  ASSERT_TESS(
      tessSetAllocator(&counted_source::take, &counted_source::give_back, nullptr));
  void* tensor = nullptr;
  {
    session s;
    auto* const x = s.memory<float>(16);
    const std::int64_t extent = 16;
    tessTensorDesc desc{};
    desc.structSize = sizeof desc;
    desc.dtype = TESS_FP32;
    desc.ndim = 1;
    desc.shape = &extent;
    ASSERT_TESS(tessMemExportDlpack(s.context, x, &desc, &tensor));
  }
  ASSERT_TESS(tessSetAllocator(nullptr, nullptr, nullptr));
  auto* const managed = static_cast<tessera::dlpack::managed_tensor_versioned*>(tensor);
  const int before = counted_source::given_back();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    managed->deleter(managed);
    _exit(counted_source::given_back() - before);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  managed->deleter(managed);
  EXPECT_EQ(counted_source::given_back() - before, 1);
}

// A host function blocks the shutdown until it times out. The context must then stay
// alive for the worker that still uses it, and new contexts must work.
TEST(TesseraShutdown, ThatTimesOutLeavesAProgramThatGoesOn) {
  static std::atomic<bool> open{false};
  static std::atomic<bool> through{false};
  session s;
  ASSERT_TESS(tessLaunchHostFunc(
      s.stream,
      [](void*) {
        open.wait(false);
        through = true;
      },
      nullptr));
  const tessContext_t context = std::exchange(s.context, nullptr);
  EXPECT_EQ(tessShutdown(context), TESS_ERR_TIMEOUT);
  // The worker holds the last reference to the context and releases it now.
  open = true;
  open.notify_all();
  while (!through) {
    std::this_thread::yield();
  }
  session next;
  auto* const x = next.memory<char>(1);
  EXPECT_EQ(next.read(x, 1)[0], 0);
}

/// A run of a graph may go on after the shutdown has returned and needs its nodes until
/// it ends.
TEST(TesseraShutdown, ThatTimesOutLeavesTheGraphThatRuns) {
  static std::atomic<bool> open{false};
  static std::atomic<int> through{0};
  session s;
  const auto wait = [](void*) {
    open.wait(false);
    ++through;
  };
  tessGraph_t graph = nullptr;
  tessGraphExec_t exec = nullptr;
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessLaunchHostFunc(s.stream, wait, nullptr));
  ASSERT_TESS(tessLaunchHostFunc(s.stream, wait, nullptr));
  ASSERT_TESS(tessStreamEndCapture(s.stream, &graph));
  ASSERT_TESS(tessGraphInstantiate(graph, &exec));
  ASSERT_TESS(tessGraphDestroy(graph));
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  EXPECT_EQ(tessShutdown(std::exchange(s.context, nullptr)), TESS_ERR_TIMEOUT);
  open = true;
  open.notify_all();
  while (through < 2) {
    std::this_thread::yield();
  }
}

TEST(TesseraQuery, SaysTheFailureOfWhatHasEndedAndLeavesItToTheSynchronization) {
  session s;
  const registered_module m(s.context, {{"q_refusing", kernel_that_fails, {}}});
  tessEvent_t behind = nullptr;
  ASSERT_TESS(tessEventCreate(&behind));
  ASSERT_TESS(tessLaunch(m["q_refusing"], s.mesh, single_thread, nullptr, 0, s.stream));
  ASSERT_TESS(tessEventRecord(behind, s.stream));
  const auto poll = [](const auto& ask) {
    int done = 0;
    tessStatus_t status = TESS_OK;
    while (done == 0) {
      status = ask(&done);
      std::this_thread::yield();
    }
    return status;
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(poll([&](int* done) { return tessStreamQuery(s.stream, done); }),
              TESS_ERR_LAUNCH_FAILED);
    EXPECT_EQ(poll([&](int* done) { return tessEventQuery(behind, done); }),
              TESS_ERR_LAUNCH_FAILED);
  }
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_LAUNCH_FAILED);
  int done = 0;
  EXPECT_TESS(tessStreamQuery(s.stream, &done));
  EXPECT_EQ(done, 1);
}

TEST(TesseraDescriptions, CountAsFarAsTheirSizeSaysAndHideNothing) {
  const session s(2);
  tessStream_t stream = nullptr;
  tessStreamDesc old{sizeof old, 0, 0, 0, 4096, 0};
  old.structSize = offsetof(tessStreamDesc, timeoutMs);
  ASSERT_TESS(tessStreamCreateEx(s.mesh, &old, &stream));
  void* memory = nullptr;
  EXPECT_EQ(tessMallocAsync(&memory, 8192, stream), TESS_ERR_OUT_OF_MEMORY)
      << "the limit is below the requested size";
  struct longer {
    tessStreamDesc known;
    std::uint64_t unknown;
  } grown{{sizeof grown, 0, 0, 0, 0, -1}, 0};
  EXPECT_TESS(tessStreamCreateEx(s.mesh, &grown.known, &stream));
  grown.unknown = 1;
  EXPECT_EQ(tessStreamCreateEx(s.mesh, &grown.known, &stream), TESS_ERR_INVALID_VALUE);
  tessStreamDesc reserved{sizeof reserved, 0, 0, 5, 0, -1};
  EXPECT_EQ(tessStreamCreateEx(s.mesh, &reserved, &stream), TESS_ERR_INVALID_VALUE);
  tessStreamDesc endless{0xffffffff, 0, 0, 0, 0, -1};
  EXPECT_EQ(tessStreamCreateEx(s.mesh, &endless, &stream), TESS_ERR_INVALID_VALUE);
  tessCollectiveDesc c{};
  c.structSize = sizeof c;
  c.kind = TESS_COLLECTIVE_BARRIER;
  EXPECT_TESS(tessCollective(s.mesh, &c, s.stream));
  c.packedShards = 77;
  EXPECT_EQ(tessCollective(s.mesh, &c, s.stream), TESS_ERR_INVALID_VALUE);
}

/// A description followed by a member that a later version has added.
template <class Desc>
struct later_version {
  Desc known;
  std::uint64_t unknown;
};

TEST(TesseraDescriptions, OfModulesAndTensorsAreReadByTheSameRule) {
  tessFatbin_t fatbin = nullptr;
  ASSERT_TESS(tessFatbinCreate(&fatbin));
  later_version<tessFatbinPlan> plan{};
  plan.known.structSize = sizeof plan;
  EXPECT_TESS(tessFatbinAddPlan(fatbin, &plan.known));
  plan.unknown = 1;
  EXPECT_EQ(tessFatbinAddPlan(fatbin, &plan.known), TESS_ERR_INVALID_VALUE);
  plan = {};
  plan.known.structSize = sizeof plan.known;
  plan.known.reserved = 1;
  EXPECT_EQ(tessFatbinAddPlan(fatbin, &plan.known), TESS_ERR_INVALID_VALUE);

  tessParamInfo x = pointer_to("x", TESS_FP32);
  later_version<tessFatbinKernel> kernel{};
  kernel.known.structSize = sizeof kernel;
  kernel.known.name = "of_two_versions";
  kernel.known.params = &x;
  kernel.known.paramCount = 1;
  kernel.unknown = 1;
  EXPECT_EQ(tessFatbinAddKernel(fatbin, &kernel.known), TESS_ERR_INVALID_VALUE);
  kernel.unknown = 0;
  x.reserved = 1;
  EXPECT_EQ(tessFatbinAddKernel(fatbin, &kernel.known), TESS_ERR_INVALID_VALUE);
  x.reserved = 0;
  x.structSize = sizeof x + 8;
  EXPECT_EQ(tessFatbinAddKernel(fatbin, &kernel.known), TESS_ERR_INVALID_VALUE)
      << "elements of an array have the size that is known, so a larger one is refused";
  x.structSize = sizeof x;
  EXPECT_TESS(tessFatbinAddKernel(fatbin, &kernel.known));
  ASSERT_TESS(tessFatbinDestroy(fatbin));

  session s;
  auto* const memory = s.memory<float>(4);
  const std::int64_t extent = 4;
  later_version<tessTensorDesc> tensor{};
  tensor.known.structSize = sizeof tensor;
  tensor.known.dtype = TESS_FP32;
  tensor.known.ndim = 1;
  tensor.known.shape = &extent;
  void* made = nullptr;
  tensor.unknown = 1;
  EXPECT_EQ(tessMemExportDlpack(s.context, memory, &tensor.known, &made),
            TESS_ERR_INVALID_VALUE);
  tensor.unknown = 0;
  tensor.known.flags = 1U << 31;
  EXPECT_EQ(tessMemExportDlpack(s.context, memory, &tensor.known, &made),
            TESS_ERR_INVALID_VALUE);
  tensor.known.flags = 0;
  ASSERT_TESS(tessMemExportDlpack(s.context, memory, &tensor.known, &made));
  auto* const managed = static_cast<tessera::dlpack::managed_tensor_versioned*>(made);
  managed->deleter(managed);
}

// Memory of another mesh is about to be freed on the same full device. The allocation
// must wait for it instead of failing.
TEST(TesseraMemory, OfAnotherMeshOverTheSameDeviceIsWaitedForBeforeThereIsNone) {
  gate before;
  const environment small({{"TESS_CPU_DEVICE_MEMORY", "1m"}});
  session s;
  tessMesh_t other = nullptr;
  tessStream_t busy = nullptr;
  const int device = 0;
  ASSERT_TESS(tessMeshCreate(s.context, &device, 1, {1, 1, 1, 1}, &other));
  ASSERT_TESS(tessStreamCreate(other, 0, &busy));
  void* x = nullptr;
  void* y = nullptr;
  ASSERT_TESS(tessMalloc(other, 700'000, &x));
  before.put_into(busy);
  ASSERT_TESS(tessFree(other, x));
  std::thread opens([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    before.open();
  });
  EXPECT_TESS(tessMalloc(s.mesh, 700'000, &y));
  opens.join();
}

// The memory that is freed is still read by a stream of a third mesh. The allocation must
// find that stream and wait for it.
TEST(TesseraMemory, ThatAStreamOfAnotherMeshUsesIsWaitedForBeforeThereIsNone) {
  for (int round = 0; round < 20; ++round) {
    gate before;
    const environment small({{"TESS_CPU_DEVICE_MEMORY", "1m"}});
    session s;
    tessMesh_t owner = nullptr;
    tessMesh_t user = nullptr;
    tessStream_t busy = nullptr;
    const int device = 0;
    ASSERT_TESS(tessMeshCreate(s.context, &device, 1, {1, 1, 1, 1}, &owner));
    ASSERT_TESS(tessMeshCreate(s.context, &device, 1, {1, 1, 1, 1}, &user));
    ASSERT_TESS(tessStreamCreate(user, 0, &busy));
    void* x = nullptr;
    void* y = nullptr;
    void* own = nullptr;
    ASSERT_TESS(tessMalloc(owner, 500'000, &x));
    ASSERT_TESS(tessMalloc(user, 100'000, &own));
    before.put_into(busy);
    ASSERT_TESS(tessMemcpyAsync(own, x, 100'000, TESS_COPY_D2D, busy));
    // The mesh that owns x has no stream it could wait for.
    ASSERT_TESS(tessFree(owner, x));
    std::thread opens([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      before.open();
    });
    EXPECT_TESS(tessMalloc(owner, 700'000, &y));
    opens.join();
  }
}

// One stream never comes to its end. Memory that only another stream uses is found all
// the same, and memory that the first stream uses is missing after a limited time.
TEST(TesseraMemory, IsNotWaitedForForeverIfAStreamDoesNotEnd) {
  gate never;
  gate soon;
  const environment small({{"TESS_CPU_DEVICE_MEMORY", "1m"},
                           {"TESS_TIMEOUT_MS", "5000"},
                           {"TESS_NUM_THREADS", "4"}});
  session s;
  tessMesh_t other = nullptr;
  tessStream_t busy = nullptr;
  const int device = 0;
  ASSERT_TESS(tessMeshCreate(s.context, &device, 1, {1, 1, 1, 1}, &other));
  ASSERT_TESS(tessStreamCreate(other, 0, &busy));
  void* held = nullptr;
  void* x = nullptr;
  void* y = nullptr;
  ASSERT_TESS(tessMalloc(other, 200'000, &held));
  ASSERT_TESS(tessMalloc(s.mesh, 700'000, &x));
  never.put_into(busy);
  soon.put_into(s.stream);
  ASSERT_TESS(tessFree(other, held));
  ASSERT_TESS(tessFree(s.mesh, x));
  // The stream that never ends is let go if the calls below do not return.
  std::atomic<bool> over{false};
  std::thread opens([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    soon.open();
    for (int i = 0; i < 1000 && !over; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    never.open();
  });
  EXPECT_TESS(tessMalloc(s.mesh, 700'000, &y));
  EXPECT_EQ(tessMalloc(s.mesh, 200'000, &x), TESS_ERR_OUT_OF_MEMORY);
  over = true;
  opens.join();
}

// The profiler is stopped after its context has ended and another context has existed.
// The trace must have the records from before.
TEST(TesseraProfiler, ThatIsOpenAtTheShutdownKeepsItsRecords) {
  const temp_folder folder;
  const std::string path = folder / "trace.json";
  session s;
  tessProfiler_t profiler = nullptr;
  ASSERT_TESS(tessProfilerStart(s.context, &profiler));
  auto* const x = s.memory<char>(64);
  ASSERT_TESS(tessMemsetAsync(x, 1, 64, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  ASSERT_TESS(tessShutdown(std::exchange(s.context, nullptr)));
  { const session another; }  // another context that is created and shut down
  ASSERT_TESS(tessProfilerStop(profiler, path.c_str()));
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("\"fill\""), std::string::npos) << text;
}

TEST(TesseraSettings, ReportVariablesThatTheyCannotRead) {
  const std::map<std::string, std::string> set = {
      {"TESS_TOPOLOGY", "abc"}, {"TESS_COLL_ALGO", "foo"},   {"TESS_DETERMINSTIC", "1"},
      {"TESS_SEED", "0"},       {"TESS_TIMEOUT_MS", "1000"}, {"PATH", "/bin"}};
  std::vector<std::string> names;
  for (const auto& [name, value] : set) {
    names.push_back(name);
  }
  std::vector<std::string> warnings;
  const auto read = or_throw(tessera::read_settings(
      [&](const char* name) {
        const auto found = set.find(name);
        return found == set.end() ? nullptr : found->second.c_str();
      },
      warnings, names));
  ASSERT_EQ(warnings.size(), 3U);
  EXPECT_NE(warnings[0].find("TESS_TOPOLOGY"), std::string::npos);
  EXPECT_NE(warnings[1].find("TESS_COLL_ALGO"), std::string::npos);
  EXPECT_NE(warnings[2].find("TESS_DETERMINSTIC"), std::string::npos);
  EXPECT_NE(warnings[2].find("did you mean \"TESS_DETERMINISTIC\"?"), std::string::npos)
      << warnings[2];
  EXPECT_EQ(read.topology, "");
  EXPECT_EQ(read.algorithm, "");
  EXPECT_EQ(read.seed, std::optional<std::uint64_t>(0)) << "the seed 0 is accepted";
  EXPECT_EQ(read.wait_limit_ms, 1000);
  EXPECT_EQ(read.rendezvous_limit_ms, 900) << "the rendezvous limit is shorter than the "
                                              "wait, so that the missing rank is named";
}

/// Returns the settings that these variables give.
tessera::runtime_settings settings_of(const std::map<std::string, std::string>& set) {
  std::vector<std::string> warnings;
  return or_throw(tessera::read_settings(
      [&](const char* name) {
        const auto found = set.find(name);
        return found == set.end() ? nullptr : found->second.c_str();
      },
      warnings));
}

TEST(TesseraSettings, KeepTheirDefaultsForVariablesThatAreEmptyOrUnusable) {
  const tessera::runtime_settings usual = settings_of({});
  for (const char* const text : {"", "soon", "-1"}) {
    const tessera::runtime_settings s =
        settings_of({{"TESS_TIMEOUT_MS", text}, {"TESS_AUTOTUNE", text}});
    EXPECT_EQ(s.wait_limit_ms, usual.wait_limit_ms) << text;
    EXPECT_EQ(s.rendezvous_limit_ms, usual.rendezvous_limit_ms) << text;
    EXPECT_EQ(s.autotune, usual.autotune) << text;
  }
  EXPECT_EQ(settings_of({{"TESS_TIMEOUT_MS", "0"}}).rendezvous_limit_ms, 0);
  EXPECT_EQ(settings_of({{"TESS_AUTOTUNE", "0"}}).autotune, std::optional(false));
}

}  // namespace
}  // namespace weir::test
