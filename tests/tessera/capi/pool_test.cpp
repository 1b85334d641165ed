// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests memory that streams allocate and free in order, and what counts against their
/// limits.
#include <unistd.h>

#include <algorithm>
#include <random>
#include <thread>

#include "support.hpp"

namespace weir::test {
namespace {

/// Returns the statistics of a mesh's pool.
tessMemPoolStats stats_of(tessMesh_t mesh) {
  tessMemPoolStats out{};
  out.structSize = sizeof out;
  EXPECT_TESS(tessMemPoolGetStats(mesh, &out));
  return out;
}

/// Allocates memory on a stream.
char* take(tessStream_t from, std::size_t bytes) {
  void* out = nullptr;
  EXPECT_TESS(tessMallocAsync(&out, bytes, from));
  return static_cast<char*>(out);
}

/// Returns the free memory of a rank's device in bytes.
std::size_t free_bytes(const session& s, int rank = 0) {
  std::size_t out = 0;
  EXPECT_TESS(tessMemGetInfo(s.mesh, rank, &out, nullptr));
  return out;
}

/// Adds `addend` to the number at `x`.
int adding_kernel(const tessBlockContext*, const void* args) {
  struct layout {
    int64_t* x;
    int64_t addend;
  };
  const auto* a = static_cast<const layout*>(args);
  *a->x += a->addend;
  return 0;
}
/// Does nothing. One test launches it with shared memory.
int shared_kernel(const tessBlockContext*, const void*) {
  return 0;
}
std::vector<registered_module::entry> pool_kernels() {
  return {
      {"adding", adding_kernel, {pointer_to("x", TESS_INT64), value("a", TESS_INT64, 8)}},
      {"with_shared", shared_kernel, {}}};
}

// Blocks the stream before it reaches the freeing of x. Its own allocations may reuse x
// at once, because they run after the freeing; another stream may do so only when the
// freeing has been reached.
TEST(TesseraPool, ServesTheSameStreamAtOnceAndOthersWhenTheStreamIsThatFar) {
  gate before;
  session s(2);
  tessStream_t other = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &other));
  char* const x = take(s.stream, 1000);
  before.put_into(s.stream);
  ASSERT_TESS(tessFreeAsync(x, s.stream));
  EXPECT_EQ(tessFreeAsync(x, s.stream), TESS_ERR_INVALID_VALUE)
      << "the memory has been given back already";
  char* const elsewhere = take(other, 1000);
  EXPECT_NE(elsewhere, x)
      << "the stream that gave the memory back has not reached that point";
  EXPECT_EQ(take(s.stream, 1000), x) << "the same stream reuses the memory at once";
  EXPECT_EQ(stats_of(s.mesh).reuses, 1U);
  ASSERT_TESS(tessFreeAsync(x, s.stream));
  EXPECT_NE(take(s.stream, 999), x)
      << "a kept block serves only requests of its own size";
  before.open();
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_EQ(take(other, 1000), x)
      << "another stream reuses the memory after the first one has ended";
}

TEST(TesseraPool, MemoryEndsAtTheBytesAskedForTheSecondTimeToo) {
  session s;
  for (int i = 0; i < 3; ++i) {
    char* const x = take(s.stream, 100);
    EXPECT_TESS(tessMemsetAsync(x, i, 100, s.stream));
    EXPECT_EQ(tessMemsetAsync(x, i, 101, s.stream), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(s.read(x, 100)[99], i);
    ASSERT_TESS(tessFreeAsync(x, s.stream));
    EXPECT_EQ(tessMemsetAsync(x, 0, 1, s.stream), TESS_ERR_INVALID_VALUE)
        << "an address that has been given back names no memory";
  }
  EXPECT_EQ(stats_of(s.mesh).reuses, 2U);
}

TEST(TesseraPool, CountsWhatIsUsedAndKeptAndLetsGoOfIt) {
  session s(2);
  const std::size_t before = free_bytes(s, 1);
  char* const a = take(s.stream, 1 << 20);
  char* const b = take(s.stream, 2 << 20);
  ASSERT_TESS(tessFreeAsync(a, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  tessMemPoolStats now = stats_of(s.mesh);
  EXPECT_EQ(now.usedBytes, 2U << 20);
  EXPECT_EQ(now.usedPeakBytes, 3U << 20);
  EXPECT_EQ(now.reservedBytes, 3U << 20);
  EXPECT_EQ(before - free_bytes(s, 1), 3U << 20);
  ASSERT_TESS(tessMemPoolTrim(s.mesh, 0));
  now = stats_of(s.mesh);
  EXPECT_EQ(now.reservedBytes, 2U << 20) << "memory that is in use stays reserved";
  EXPECT_EQ(now.reservedPeakBytes, 3U << 20);
  EXPECT_EQ(before - free_bytes(s, 1), 2U << 20);
  // The pool releases the memory that was freed first.
  ASSERT_TESS(tessFreeAsync(b, s.stream));
  char* const c = take(s.stream, 3 << 20);
  ASSERT_TESS(tessFreeAsync(c, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  ASSERT_TESS(tessMemPoolTrim(s.mesh, 4 << 20));
  EXPECT_EQ(stats_of(s.mesh).reservedBytes, 3U << 20);
  ASSERT_TESS(tessMemPoolSetKeep(s.mesh, 1 << 20));
  now = stats_of(s.mesh);
  EXPECT_EQ(now.reservedBytes, 0U);
  EXPECT_EQ(now.keepBytes, 1U << 20);
  ASSERT_TESS(tessFreeAsync(take(s.stream, 2 << 20), s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_EQ(stats_of(s.mesh).reservedBytes, 0U) << "memory above the limit is freed";
  EXPECT_EQ(free_bytes(s, 1), before);
}

TEST(TesseraPool, AFullDeviceTakesTheKeptMemory) {
  const environment small({{"TESS_CPU_DEVICE_MEMORY", "1m"}});
  session s(2);
  ASSERT_TESS(tessFreeAsync(take(s.stream, 600 << 10), s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  void* p = nullptr;
  EXPECT_TESS(tessMalloc(s.mesh, 700 << 10, &p));
  EXPECT_EQ(stats_of(s.mesh).reservedBytes, 0U);
  ASSERT_TESS(tessFree(s.mesh, p));
  // The allocation also waits for memory that is about to be freed.
  ASSERT_TESS(tessLaunchHostFunc(
      s.stream, [](void*) { usleep(20'000); }, nullptr));
  ASSERT_TESS(tessFreeAsync(take(s.stream, 600 << 10), s.stream));
  ASSERT_TESS(tessFreeAsync(take(s.stream, 700 << 10), s.stream));
  EXPECT_EQ(tessMallocAsync(&p, 2 << 20, s.stream), TESS_ERR_OUT_OF_MEMORY);
}

// Frees memory of tessMalloc with tessFreeAsync and memory of tessMallocAsync with
// tessFree.
TEST(TesseraPool, EitherFreeTakesMemoryOfTheOtherAllocation) {
  session s(2);
  void* plain = nullptr;
  ASSERT_TESS(tessMalloc(s.mesh, 512, &plain));
  ASSERT_TESS(tessFreeAsync(plain, s.stream));
  char* const pooled = take(s.stream, 512);
  ASSERT_TESS(tessFree(s.mesh, pooled));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const tessMemPoolStats now = stats_of(s.mesh);
  EXPECT_EQ(now.usedBytes, 0U);
  EXPECT_EQ(now.reservedBytes, 0U);
  EXPECT_EQ(now.reuses, 0U);
}

// Memory that was exported and then freed on its stream still belongs to the other
// library, so the pool must not hand it out again.
TEST(TesseraPool, MemoryThatAnotherLibraryHasServesNobodyElse) {
  session s;
  char* const x = take(s.stream, 64);
  const int64_t extent = 64;
  const tessTensorDesc desc{sizeof desc, TESS_INT8, 1, 0, &extent, nullptr, 0, 0};
  void* tensor = nullptr;
  ASSERT_TESS(tessMemExportDlpack(s.context, x, &desc, &tensor));
  ASSERT_TESS(tessFreeAsync(x, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_NE(take(s.stream, 64), x);
  tessTensorInfo info{};
  info.structSize = sizeof info;
  ASSERT_TESS(tessMemImportDlpack(s.context, tensor, 0, -1, &info));
  ASSERT_TESS(tessMemReleaseImported(s.context, info.begin));
}

// tessFree during a capture takes effect at once. It must neither become a node of the
// graph nor leave work on the stream that never runs.
TEST(TesseraPool, MemoryOfTheMeshIsNoPartOfACapture) {
  session s(2);
  tessGraph_t graph = nullptr;
  void* p = nullptr;
  ASSERT_TESS(tessMalloc(s.mesh, 64, &p));
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessFree(s.mesh, p));
  int done = 0;
  for (int i = 0; i < 10'000 && done == 0; ++i) {
    ASSERT_TESS(tessStreamQuery(s.stream, &done));
    usleep(100);
  }
  EXPECT_EQ(done, 1) << "a recorded operation must not run";
  ASSERT_TESS(tessStreamEndCapture(s.stream, &graph));
  std::size_t nodes = 1;
  ASSERT_TESS(tessGraphGetNodeCount(graph, &nodes));
  EXPECT_EQ(nodes, 0U);
}

TEST(TesseraPool, MeshesAndContextsGoWhileTheirStreamsCapture) {
  session s(2);
  tessMesh_t mesh = nullptr;
  tessStream_t stream = nullptr;
  const int ids[] = {0, 1};
  ASSERT_TESS(tessMeshCreate(s.context, ids, 2, {2, 1, 1, 1}, &mesh));
  ASSERT_TESS(tessStreamCreate(mesh, 0, &stream));
  ASSERT_TESS(tessStreamBeginCapture(stream));
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  EXPECT_TESS(tessMeshDestroy(mesh));
}

TEST(TesseraPool, LimitsCountWhatAStreamHas) {
  session s(4);
  tessStreamDesc desc{sizeof desc, 0, -1, 0, 1000, -1};
  tessStream_t limited = nullptr;
  ASSERT_TESS(tessStreamCreateEx(s.mesh, &desc, &limited));
  void* p = nullptr;
  char* const a = take(limited, 600);
  EXPECT_EQ(tessMallocAsync(&p, 401, limited), TESS_ERR_OUT_OF_MEMORY);
  char* const b = take(limited, 400);
  std::size_t used = 0;
  std::size_t limit = 0;
  ASSERT_TESS(tessStreamGetMemoryUse(limited, &used, &limit));
  EXPECT_EQ(used, 1000U);
  EXPECT_EQ(limit, 1000U);
  EXPECT_EQ(tessMallocAsync(&p, 1, limited), TESS_ERR_OUT_OF_MEMORY);
  EXPECT_EQ(tessMallocAsync(&p, SIZE_MAX, limited), TESS_ERR_OUT_OF_MEMORY);
  EXPECT_TESS(tessMallocAsync(&p, 5000, s.stream));  // each stream has its own limit
  // Memory that is freed on another stream, by either call, no longer counts.
  ASSERT_TESS(tessFreeAsync(a, s.stream));
  ASSERT_TESS(tessFree(s.mesh, b));
  ASSERT_TESS(tessStreamGetMemoryUse(limited, &used, nullptr));
  EXPECT_EQ(used, 0U);
  EXPECT_NE(take(limited, 1000), nullptr);
  ASSERT_TESS(tessStreamSetMemoryLimit(limited, 500));
  EXPECT_EQ(tessMallocAsync(&p, 1, limited), TESS_ERR_OUT_OF_MEMORY);
  ASSERT_TESS(tessStreamSetMemoryLimit(limited, 0));
  EXPECT_TESS(tessMallocAsync(&p, 5000, limited));
  ASSERT_TESS(tessMallocAsync(&p, 0, limited));
  EXPECT_EQ(p, nullptr);
}

TEST(TesseraPool, ScratchHasToFitBesideWhatAStreamHas) {
  session s(4);
  auto* x = s.memory<float>(1000);
  tessCollectiveDesc d{};
  d.structSize = sizeof d;
  d.kind = TESS_COLLECTIVE_ALL_REDUCE;
  d.sendbuf = x;
  d.count = 1000;
  d.dtype = TESS_FP32;
  d.algorithm = "ring";
  ASSERT_TESS(tessStreamSetMemoryLimit(s.stream, 64 << 10));
  ASSERT_TESS(tessCollective(s.mesh, &d, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  char* const largest = take(s.stream, (64 << 10) - 1);
  ASSERT_TESS(tessCollective(s.mesh, &d, s.stream));
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_OUT_OF_MEMORY)
      << "the failure is found when the collective runs and not by the call";
  ASSERT_TESS(tessFreeAsync(largest, s.stream));
  ASSERT_TESS(tessCollective(s.mesh, &d, s.stream));
  EXPECT_TESS(tessStreamSynchronize(s.stream));
}

TEST(TesseraPool, SharedMemoryOfBlocksHasToFitToo) {
  session s;
  const registered_module m(s.context, pool_kernels());
  const tessLaunchConfig one{{1, 1, 1}, {1, 1, 1}, 4096, 0};
  ASSERT_TESS(tessStreamSetMemoryLimit(s.stream, 4096));
  ASSERT_TESS(tessLaunch(m["with_shared"], s.mesh, one, nullptr, 0, s.stream));
  EXPECT_TESS(tessStreamSynchronize(s.stream));
  ASSERT_TESS(tessStreamSetMemoryLimit(s.stream, 4095));
  ASSERT_TESS(tessLaunch(m["with_shared"], s.mesh, one, nullptr, 0, s.stream));
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_OUT_OF_MEMORY);
}

// Three threads allocate, zero, add to, copy and free small blocks, each on its own
// stream, while the pool is trimmed. If two streams held a block at the same time, a
// copied number would not be the one just added.
TEST(TesseraPool, ManyThreadsTakeAndGiveBackWithoutAnotherSeeingIt) {
  session s(2);
  const registered_module m(s.context, pool_kernels());
  tessKernel_t adding = m["adding"];
  constexpr int threads = 3;
  std::vector<tessStream_t> streams(threads);
  std::vector<int64_t*> sums(threads);
  for (int t = 0; t < threads; ++t) {
    ASSERT_TESS(tessStreamCreate(s.mesh, 0, &streams[static_cast<std::size_t>(t)]));
    sums[static_cast<std::size_t>(t)] = s.memory<int64_t>(1);
  }
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const auto work = [&](std::size_t t) {
    std::mt19937 random(static_cast<unsigned>(t));
    for (int64_t i = 1; i <= 200; ++i) {
      const std::size_t bytes = 8 * (1 + random() % 3);
      auto* const x = reinterpret_cast<int64_t*>(take(streams[t], bytes));
      EXPECT_TESS(tessMemsetAsync(x, 0, bytes, streams[t]));
      struct {
        int64_t* address;
        int64_t addend;
      } const args{x, i};
      EXPECT_TESS(tessLaunch(adding, s.mesh, {{1, 1, 1}, {1, 1, 1}, 0, 0}, &args,
                             sizeof args, streams[t]));
      EXPECT_TESS(tessMemcpyAsync(sums[t], x, 8, TESS_COPY_D2D, streams[t]));
      EXPECT_TESS(tessFreeAsync(x, streams[t]));
      if (i % 50 == 0) {
        EXPECT_TESS(tessMemPoolTrim(s.mesh, 32));
        EXPECT_TESS(tessStreamSynchronize(streams[t]));
        int64_t got = 0;
        EXPECT_TESS(tessMemcpyRankAsync(&got, sums[t], 8, TESS_COPY_D2H, 1, streams[t]));
        EXPECT_TESS(tessStreamSynchronize(streams[t]));
        EXPECT_EQ(got, i) << "seed " << t;
      }
    }
  };
  std::vector<std::thread> all;
  for (std::size_t t = 0; t < threads; ++t) {
    all.emplace_back(work, t);
  }
  for (std::thread& t : all) {
    t.join();
  }
  const tessMemPoolStats now = stats_of(s.mesh);
  EXPECT_EQ(now.usedBytes, 0U);
  EXPECT_GT(now.reuses, 100U);
}

// Trims the pool while other threads allocate from it. A block that is trimmed although a
// stream has just received it would be an error of the following free.
TEST(TesseraPool, TrimsNoMemoryThatIsOnItsWayToAStream) {
  session s(1);
  constexpr std::size_t threads = 2;
  std::atomic<std::size_t> left{threads};
  std::vector<std::thread> all;
  for (std::size_t t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      tessStream_t stream = nullptr;
      EXPECT_TESS(tessStreamCreate(s.mesh, 0, &stream));
      for (std::size_t i = 0; i < 2000; ++i) {
        char* const x = take(stream, 64 * (1 + t));
        EXPECT_TESS(tessFreeAsync(x, stream));
      }
      EXPECT_TESS(tessStreamSynchronize(stream));
      --left;
    });
  }
  while (left != 0) {
    ASSERT_TESS(tessMemPoolTrim(s.mesh, 0));
  }
  for (std::thread& t : all) {
    t.join();
  }
  ASSERT_TESS(tessMemPoolTrim(s.mesh, 0));
  const tessMemPoolStats now = stats_of(s.mesh);
  EXPECT_EQ(now.usedBytes, 0U);
  EXPECT_EQ(now.reservedBytes, 0U);
}

}  // namespace
}  // namespace weir::test
