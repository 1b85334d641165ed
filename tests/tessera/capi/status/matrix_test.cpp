// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests which call returns which status, at once or when the stream is synchronized.
/// There is a test for each cell of the matrix.
/// @source{Tessera Runtime & ABI, 19.A}
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "support.hpp"
#include "support/temp_folder.hpp"

namespace weir::test {
namespace {

// Kernels that succeed, fail with a status, and throw.
int matrix_quiet(const tessBlockContext*, const void*) {
  return 0;
}
int matrix_refusing(const tessBlockContext*, const void*) {
  return 7;
}
int matrix_throwing(const tessBlockContext*, const void*) {
  throw 7;
}
std::vector<registered_module::entry> matrix_kernels() {
  return {{"m_quiet", matrix_quiet, {}},
          {"m_refusing", matrix_refusing, {}},
          {"m_throwing", matrix_throwing, {}},
          {"m_unmarked", matrix_quiet, {}, 0}};
}
tessLaunchConfig one_block(unsigned flags = 0) {
  return {{1, 1, 1}, {1, 1, 1}, 0, flags};
}

/// Builds the image of a module with what `fill` adds to it.
std::vector<char> built(const std::function<void(tessFatbin_t)>& fill) {
  tessFatbin_t fatbin = nullptr;
  EXPECT_TESS(tessFatbinCreate(&fatbin));
  fill(fatbin);
  std::size_t size = 0;
  EXPECT_TESS(tessFatbinBuild(fatbin, nullptr, nullptr, &size));
  std::vector<char> image(size);
  EXPECT_TESS(tessFatbinBuild(fatbin, nullptr, image.data(), &size));
  EXPECT_TESS(tessFatbinDestroy(fatbin));
  return image;
}
/// Loads a module and unloads it again; returns the status of the loading.
tessStatus_t load(const session& s, const std::vector<char>& image) {
  tessModule_t out = nullptr;
  const tessStatus_t status = tessModuleLoad(s.context, image.data(), image.size(), &out);
  if (status == TESS_OK) {
    EXPECT_TESS(tessModuleUnload(out));
  }
  return status;
}
/// Returns a module with one kernel without parameters and with code of this kind.
std::vector<char> module_of(const char* kind, const char* arch, const char* code) {
  return built([&](tessFatbin_t f) {
    tessFatbinKernel kernel{};
    kernel.structSize = sizeof kernel;
    kernel.name = "m_quiet";
    kernel.flags = TESS_KERNEL_DETERMINISTIC;
    EXPECT_TESS(
        tessFatbinAddCode(f, kind, arch, code, std::string(code).size(), nullptr));
    EXPECT_TESS(tessFatbinAddKernel(f, &kernel));
  });
}
/// Returns the fatbin of the demo kernels.
std::vector<char> demo_kernels() {
  std::ifstream file(WEIR_KERNELS_FATBIN, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// TESS_ERR_INVALID_VALUE

TEST(TesseraMatrix, InvalidValueAtOnce) {
  session s(4);
  const registered_module m(s.context, matrix_kernels());
  auto* x = s.memory<float>(16);
  tessKernel_t kernel = nullptr;
  tessGraph_t graph = nullptr;
  EXPECT_EQ(load(s, {'\xCA', '\xFE', '\xBA', '\xBE'}), TESS_ERR_INVALID_VALUE);
  std::vector<char> damaged = module_of("CPU_REGISTERED", "host", "");
  EXPECT_TESS(load(s, damaged));
  damaged[damaged.size() - 1] ^= 1;
  EXPECT_EQ(load(s, damaged), TESS_ERR_INVALID_VALUE)
      << "damaged bytes of a module are refused";
  EXPECT_EQ(tessKernelGet(m.module, "other", &kernel), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessAllReduce(s.mesh, x, 4, TESS_FP32, TESS_COLL_SUM, "xp", s.stream),
            TESS_ERR_INVALID_VALUE)
      << "an unknown axis is refused";
  EXPECT_EQ(tessAllReduce(s.mesh, x, 4, 14, TESS_COLL_SUM, nullptr, s.stream),
            TESS_ERR_INVALID_VALUE)
      << "an unknown type is refused";
  EXPECT_EQ(tessAllGather(s.mesh, x, 7, TESS_FP32, nullptr, s.stream),
            TESS_ERR_INVALID_VALUE)
      << "a count that the ranks do not divide is refused";
  EXPECT_EQ(tessLaunch(m["m_quiet"], s.mesh, one_block(1U << 4), nullptr, 0, s.stream),
            TESS_ERR_INVALID_VALUE)
      << "an unknown flag is refused";
  EXPECT_EQ(tessStreamEndCapture(s.stream, &graph), TESS_ERR_INVALID_VALUE)
      << "ending a capture that has not begun is refused";
  EXPECT_TESS(tessStreamSynchronize(s.stream));
}

TEST(TesseraMatrix, InvalidValueOfTensorsOfOtherLibraries) {
  session s(2);
  auto* x = s.memory<float>(16);
  int64_t extent = 16;
  tessTensorDesc desc{sizeof desc, TESS_FP32, 1, 0, &extent, nullptr, 0, 0};
  tessTensorInfo info{};
  info.structSize = sizeof info;
  void* out = nullptr;
  const auto give = [&] { return tessMemExportDlpack(s.context, x, &desc, &out); };
  extent = 17;
  EXPECT_EQ(give(), TESS_ERR_INVALID_VALUE)
      << "a tensor that is longer than its memory is refused";
  extent = -1;
  EXPECT_EQ(give(), TESS_ERR_INVALID_VALUE);
  extent = 16;
  desc.dtype = 99;
  EXPECT_EQ(give(), TESS_ERR_INVALID_VALUE);
  desc.dtype = TESS_FP32;
  desc.rank = 2;
  EXPECT_EQ(give(), TESS_ERR_INVALID_VALUE);
  desc.rank = 1;
  desc.ndim = 65;
  EXPECT_EQ(give(), TESS_ERR_INVALID_VALUE);
  desc.ndim = 1;
  EXPECT_EQ(tessMemExportDlpack(s.context, &info, &desc, &out), TESS_ERR_INVALID_VALUE)
      << "memory that the context does not know is refused";
  ASSERT_TESS(give());
  EXPECT_EQ(tessMemImportDlpack(s.context, out, 4, -1, &info), TESS_ERR_INVALID_VALUE)
      << "unknown flags are refused";
  EXPECT_EQ(tessMemImportDlpack(s.context, out, 0, 8, &info), TESS_ERR_INVALID_VALUE)
      << "a device that does not exist is refused";
  EXPECT_EQ(tessMemImportDlpack(nullptr, out, 0, -1, &info), TESS_ERR_NOT_INITIALIZED);
  ASSERT_TESS(tessMemImportDlpack(s.context, out, 0, -1, &info));
  EXPECT_EQ(tessMemReleaseImported(s.context, x), TESS_ERR_INVALID_VALUE)
      << "memory that was not imported cannot be released as imported";
  EXPECT_TESS(tessMemReleaseImported(s.context, info.begin));
  EXPECT_EQ(tessMemReleaseImported(s.context, info.begin), TESS_ERR_INVALID_VALUE);
}

// TESS_ERR_OUT_OF_MEMORY

TEST(TesseraMatrix, OutOfMemoryAtOnceByAllocations) {
  const environment small({{"TESS_CPU_DEVICE_MEMORY", "1m"}});
  session s(2);
  void* p = nullptr;
  EXPECT_EQ(tessMalloc(s.mesh, 2 << 20, &p), TESS_ERR_OUT_OF_MEMORY);
  EXPECT_EQ(tessMallocAsync(&p, 2 << 20, s.stream), TESS_ERR_OUT_OF_MEMORY);
  EXPECT_EQ(tessHostAlloc(SIZE_MAX / 2, &p, TESS_MEM_PINNED_HOST),
            TESS_ERR_OUT_OF_MEMORY);
  ASSERT_TESS(tessStreamSetMemoryLimit(s.stream, 100));
  EXPECT_EQ(tessMallocAsync(&p, 101, s.stream), TESS_ERR_OUT_OF_MEMORY);
}

TEST(TesseraMatrix, OutOfMemoryAtOnceByAModuleThatFindsNoPlace) {
  session s;
  const std::vector<char> image = demo_kernels();
  ASSERT_FALSE(image.empty());
  // Code is loaded through a file in memory. The limit leaves no descriptor for it.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest = dup(0);
  ASSERT_GE(lowest, 0);
  close(lowest);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(lowest);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const tessStatus_t status = load(s, image);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status, TESS_ERR_OUT_OF_MEMORY) << tessGetLastErrorMessage();
  EXPECT_TESS(load(s, image));
}

TEST(TesseraMatrix, OutOfMemoryLaterByScratchAndSharedMemory) {
  session s(4);
  const registered_module m(s.context, matrix_kernels());
  auto* x = s.memory<float>(10'000);
  tessCollectiveDesc d{};
  d.structSize = sizeof d;
  d.sendbuf = x;
  d.count = 10'000;
  d.dtype = TESS_FP32;
  d.algorithm = "tree";
  ASSERT_TESS(tessStreamSetMemoryLimit(s.stream, 64));
  ASSERT_TESS(tessCollective(s.mesh, &d, s.stream));
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_OUT_OF_MEMORY);
  tessLaunchConfig large = one_block();
  large.shmemBytes = 65;
  ASSERT_TESS(tessLaunch(m["m_quiet"], s.mesh, large, nullptr, 0, s.stream));
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_OUT_OF_MEMORY);
  EXPECT_TESS(tessStreamSynchronize(s.stream));
  // Each rank of a collective must have enough memory. One rank without it makes the call
  // fail for all.
  std::vector<tessStream_t> streams(4);
  for (int r = 0; r < 4; ++r) {
    const tessStreamDesc desc{sizeof desc, 0, r, 0, r == 2 ? 64U : 0U, -1};
    auto& stream = streams[static_cast<std::size_t>(r)];
    ASSERT_TESS(tessStreamCreateEx(s.mesh, &desc, &stream));
    ASSERT_TESS(tessCollective(s.mesh, &d, stream));
  }
  for (const tessStream_t stream : streams) {
    EXPECT_EQ(tessStreamSynchronize(stream), TESS_ERR_OUT_OF_MEMORY);
  }
}

// TESS_ERR_NOT_INITIALIZED

TEST(TesseraMatrix, NotInitializedAtOnce) {
  void* p = nullptr;
  tessEvent_t event = nullptr;
  tessStream_t stream = nullptr;
  EXPECT_EQ(tessHostAlloc(8, &p, TESS_MEM_PINNED_HOST), TESS_ERR_NOT_INITIALIZED);
  EXPECT_EQ(tessHostRegister(&p, 8), TESS_ERR_NOT_INITIALIZED);
  EXPECT_EQ(tessHostFree(&p), TESS_ERR_NOT_INITIALIZED);
  EXPECT_EQ(tessEventCreate(&event), TESS_ERR_NOT_INITIALIZED);
  EXPECT_EQ(tessShutdown(nullptr), TESS_ERR_NOT_INITIALIZED);
  EXPECT_EQ(tessStreamCreate(nullptr, 0, &stream), TESS_ERR_NOT_INITIALIZED);
}

// TESS_ERR_LAUNCH_FAILED

TEST(TesseraMatrix, LaunchFailedLater) {
  session s(2);
  const registered_module m(s.context, matrix_kernels());
  for (const char* kernel : {"m_refusing", "m_throwing"}) {
    ASSERT_TESS(tessLaunch(m[kernel], s.mesh, one_block(), nullptr, 0, s.stream));
    EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_LAUNCH_FAILED) << kernel;
    EXPECT_TESS(tessStreamSynchronize(s.stream));
  }
}

// TESS_ERR_ARCH_MISMATCH

TEST(TesseraMatrix, ArchMismatchAtOnce) {
  session s;
  EXPECT_EQ(load(s, module_of("PTX", "sm_90", "// ptx")), TESS_ERR_ARCH_MISMATCH);
  EXPECT_EQ(load(s, module_of("CUBIN", "sm_90a", "cubin")), TESS_ERR_ARCH_MISMATCH);
  EXPECT_EQ(load(s, module_of("CPU_REGISTERED", "host", "")), TESS_ERR_ARCH_MISMATCH)
      << "a function that is not registered is an architecture mismatch";
}

// TESS_ERR_UNSUPPORTED

TEST(TesseraMatrix, UnsupportedAtOnce) {
  {
    const environment none({{"TESS_BACKEND", "rocm"}});
    tessContext_t context = nullptr;
    EXPECT_EQ(tessInit(&context), TESS_ERR_UNSUPPORTED);
  }
  session s(2);
  const registered_module m(s.context, matrix_kernels());
  auto* x = s.memory<double>(16);
  for (const int type : {TESS_COMPLEX64, TESS_COMPLEX128}) {
    for (const auto op : {TESS_COLL_MAX, TESS_COLL_MIN}) {
      EXPECT_EQ(tessAllReduce(s.mesh, x, 4, type, op, nullptr, s.stream),
                TESS_ERR_UNSUPPORTED);
    }
  }
  EXPECT_EQ(load(s, module_of("NVVM_BC", "sm_90", "BC")), TESS_ERR_UNSUPPORTED);
  EXPECT_EQ(load(s, module_of("ROCDL_BC", "gfx942", "BC")), TESS_ERR_UNSUPPORTED);
  EXPECT_EQ(tessLaunch(m["m_quiet"], s.mesh,
                       one_block(TESS_LAUNCH_CAPTURE | TESS_LAUNCH_PERSISTENT), nullptr,
                       0, s.stream),
            TESS_ERR_UNSUPPORTED);
}

// TESS_ERR_COLLECTIVE_MISMATCH, TESS_ERR_DETERMINISM_VIOLATION, TESS_ERR_TIMEOUT

/// A mesh of two ranks with a stream each.
struct two_ranks {
  two_ranks() : s(2) {
    x = s.memory<float>(16);
    // Waits without a limit, whatever TESS_TIMEOUT_MS the test has set.
    EXPECT_TESS(tessStreamSetTimeout(s.stream, 0));
    EXPECT_TESS(tessStreamSynchronize(s.stream));
    for (int r = 0; r < 2; ++r) {
      const tessStreamDesc desc{sizeof desc, 0, r, 0, 0, -1};
      EXPECT_TESS(tessStreamCreateEx(s.mesh, &desc, &streams[r]));
    }
  }
  void expect(tessStatus_t status) const {
    EXPECT_EQ(tessStreamSynchronize(streams[0]), status);
    EXPECT_EQ(tessStreamSynchronize(streams[1]), status);
    EXPECT_TESS(tessStreamSynchronize(streams[0]));
  }
  session s;
  float* x = nullptr;
  tessStream_t streams[2] = {};
};

TEST(TesseraMatrix, CollectiveMismatchLater) {
  const two_ranks p;
  const auto sum = [&](int r, float* buffer, std::size_t count, int type, tessCollOp op) {
    ASSERT_TESS(tessAllReduce(p.s.mesh, buffer, count, type, op, nullptr, p.streams[r]));
  };
  sum(0, p.x, 4, TESS_FP32, TESS_COLL_SUM);
  sum(1, p.x, 5, TESS_FP32, TESS_COLL_SUM);
  p.expect(TESS_ERR_COLLECTIVE_MISMATCH);
  sum(0, p.x, 4, TESS_FP32, TESS_COLL_SUM);
  sum(1, p.x, 4, TESS_INT32, TESS_COLL_SUM);
  p.expect(TESS_ERR_COLLECTIVE_MISMATCH);
  sum(0, p.x, 4, TESS_FP32, TESS_COLL_SUM);
  sum(1, p.x, 4, TESS_FP32, TESS_COLL_MAX);
  p.expect(TESS_ERR_COLLECTIVE_MISMATCH);
  ASSERT_TESS(tessBroadcast(p.s.mesh, p.x, 4, TESS_FP32, 0, p.streams[0]));
  ASSERT_TESS(tessBroadcast(p.s.mesh, p.x, 4, TESS_FP32, 1, p.streams[1]));
  p.expect(TESS_ERR_COLLECTIVE_MISMATCH);
  ASSERT_TESS(tessBarrier(p.s.mesh, nullptr, p.streams[0]));
  sum(1, p.x, 4, TESS_FP32, TESS_COLL_SUM);
  p.expect(TESS_ERR_COLLECTIVE_MISMATCH);
  sum(0, p.x, 4, TESS_FP32, TESS_COLL_SUM);
  sum(1, p.x, 4, TESS_FP32, TESS_COLL_SUM);
  p.expect(TESS_OK);
}

TEST(TesseraMatrix, DeterminismViolationAtOnce) {
  const environment locked({{"TESS_POLICY_LOCK", "deterministic"}});
  session s(2);
  auto* x = s.memory<float>(16);
  const tessNumericsPolicy free{0, 0, 0, 0};
  EXPECT_EQ(tessSetNumericsPolicy(s.context, &free), TESS_ERR_DETERMINISM_VIOLATION);
  tessCollectiveDesc d{};
  d.structSize = sizeof d;
  d.sendbuf = x;
  d.count = 16;
  d.dtype = TESS_FP32;
  d.wireDtype = TESS_BF16;
  EXPECT_EQ(tessCollective(s.mesh, &d, s.stream), TESS_ERR_DETERMINISM_VIOLATION)
      << "the wire format would round between ranks";
}

TEST(TesseraMatrix, DeterminismViolationLater) {
  const two_ranks p;
  const registered_module m(p.s.context, matrix_kernels());
  const tessNumericsPolicy firm{1, 1, 1, 0};
  const tessNumericsPolicy free{0, 0, 1, 0};
  for (int r = 0; r < 2; ++r) {
    ASSERT_TESS(tessSetNumericsPolicy(p.s.context, r == 0 ? &firm : &free));
    ASSERT_TESS(
        tessAllReduce(p.s.mesh, p.x, 4, TESS_FP32, TESS_COLL_SUM, "dp", p.streams[r]));
  }
  p.expect(TESS_ERR_DETERMINISM_VIOLATION);
  ASSERT_TESS(tessLaunch(m["m_unmarked"], p.s.mesh, one_block(TESS_LAUNCH_DETERMINISTIC),
                         nullptr, 0, p.s.stream));
  EXPECT_EQ(tessStreamSynchronize(p.s.stream), TESS_ERR_DETERMINISM_VIOLATION);
}

TEST(TesseraMatrix, TimeoutOfARankThatDoesNotCome) {
  const environment soon({{"TESS_TIMEOUT_MS", "50"}});
  const two_ranks p;
  for (tessStream_t one : p.streams) {
    // The streams get no limit of their own, so that only the timeout of the collective
    // can end the wait.
    ASSERT_TESS(tessStreamSetTimeout(one, 0));
  }
  ASSERT_TESS(
      tessAllReduce(p.s.mesh, p.x, 4, TESS_FP32, TESS_COLL_SUM, "dp", p.streams[0]));
  EXPECT_EQ(tessStreamSynchronize(p.streams[0]), TESS_ERR_TIMEOUT);
  // A rank that calls too late gets the status at once, and its stream stays usable.
  EXPECT_EQ(tessAllReduce(p.s.mesh, p.x, 4, TESS_FP32, TESS_COLL_SUM, "dp", p.streams[1]),
            TESS_ERR_TIMEOUT);
  EXPECT_TESS(tessStreamSynchronize(p.streams[1]));
}

TEST(TesseraMatrix, TimeoutOfAWaitLeavesTheStreamAtWork) {
  gate before;
  session s;
  before.put_into(s.stream);
  ASSERT_TESS(tessStreamSetTimeout(s.stream, 10));
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_TIMEOUT);
  before.open();
  ASSERT_TESS(tessStreamSetTimeout(s.stream, 0));
  EXPECT_TESS(tessStreamSynchronize(s.stream));  // the timeout does not poison the stream
}

TEST(TesseraMatrix, TimeoutOfAWaitLeavesTheFailureToTheNextOne) {
  gate before;
  session s(2);
  const registered_module m(s.context, matrix_kernels());
  before.put_into(s.stream);
  ASSERT_TESS(tessLaunch(m["m_refusing"], s.mesh, one_block(), nullptr, 0, s.stream));
  ASSERT_TESS(tessStreamSetTimeout(s.stream, 1));
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_TIMEOUT);
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_TIMEOUT);
  before.open();
  ASSERT_TESS(tessStreamSetTimeout(s.stream, 0));
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_LAUNCH_FAILED);
  EXPECT_TESS(tessStreamSynchronize(s.stream));
}

TEST(TesseraMatrix, InvalidValueOfTimesThatNobodyCanWait) {
  session s;
  constexpr int64_t max_ms = INT64_MAX / 1'000'000;
  tessStream_t out = nullptr;
  for (const int64_t limit : {int64_t{-2}, max_ms + 1, INT64_MAX, INT64_MIN}) {
    const tessStreamDesc desc{sizeof desc, 0, -1, 0, 0, limit};
    EXPECT_EQ(tessStreamCreateEx(s.mesh, &desc, &out), TESS_ERR_INVALID_VALUE) << limit;
    EXPECT_EQ(tessStreamSetTimeout(s.stream, limit), TESS_ERR_INVALID_VALUE) << limit;
  }
  ASSERT_TESS(tessStreamSetTimeout(s.stream, max_ms));
  EXPECT_TESS(tessStreamSynchronize(s.stream));
  const registered_module m(s.context, matrix_kernels());
  tessLaunchConfig large = one_block();
  large.block[0] = large.block[1] = large.block[2] = INT32_MAX;
  EXPECT_EQ(tessLaunch(m["m_quiet"], s.mesh, large, nullptr, 0, s.stream),
            TESS_ERR_INVALID_VALUE);
}

// TESS_ERR_ABI_VERSION_MISMATCH

TEST(TesseraMatrix, AbiVersionMismatchAtOnce) {
  session s;
  const auto made_for = [](int major, int minor) {
    return built([&](tessFatbin_t f) { EXPECT_TESS(tessFatbinSetAbi(f, major, minor)); });
  };
  EXPECT_TESS(load(s, made_for(1, 0)));
  EXPECT_EQ(load(s, made_for(1, 1)), TESS_ERR_ABI_VERSION_MISMATCH);
  EXPECT_EQ(load(s, made_for(0, 9)), TESS_ERR_ABI_VERSION_MISMATCH);
  EXPECT_EQ(load(s, made_for(2, 0)), TESS_ERR_ABI_VERSION_MISMATCH);
}

// TESS_ERR_CACHE_CORRUPT

/// Damages all files of a folder, except those that were set aside as damaged.
void damage_all(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() != ".bad") {
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(4096);
      file.put('x');
    }
  }
}

TEST(TesseraMatrix, CacheCorruptAtOnce) {
  const std::vector<char> image = demo_kernels();
  const temp_folder scratch;
  const std::string& folder = scratch.path();
  const environment from_cache(
      {{"TESS_CACHE_DIR", folder.c_str()}, {"TESS_CODE_FROM_CACHE", "1"}});
  const auto stats = [](const session& s) {
    tessCacheStats out{};
    out.structSize = sizeof out;
    EXPECT_TESS(tessCacheGetStats(s.context, &out));
    return out;
  };
  {
    session s;
    ASSERT_TESS(load(s, image));
    ASSERT_TESS(load(s, image));
    EXPECT_GT(stats(s).entries, 0U);
    EXPECT_GT(stats(s).hits, 0U);
    EXPECT_TESS(tessCacheVerify(s.context));
  }
  damage_all(folder);
  {
    const environment strict({{"TESS_CACHE_STRICT", "1"}});
    session s;
    EXPECT_EQ(load(s, image), TESS_ERR_CACHE_CORRUPT);
    EXPECT_EQ(tessCacheVerify(s.context), TESS_ERR_CACHE_CORRUPT);
  }
  {
    session s;
    // A damaged entry is replaced unless the cache is strict.
    EXPECT_TESS(load(s, image));
    EXPECT_GT(stats(s).quarantined, 0U);
    EXPECT_TESS(tessCacheVerify(s.context));
  }
}

}  // namespace
}  // namespace weir::test
