// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests memory through the C interface.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "support.hpp"

namespace weir::test {
namespace {

TEST(TesseraMemory, OnePointerStandsForAnInstanceOnEveryDevice) {
  session s(4);
  void* p = nullptr;
  ASSERT_TESS(tessMalloc(s.mesh, 1000, &p));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 256, 0U);
  std::vector<char*> instances(4);
  for (int r = 0; r < 4; ++r) {
    void* address = nullptr;
    ASSERT_TESS(tessMemGetRankPtr(s.mesh, static_cast<char*>(p) + 10, r, &address));
    instances[static_cast<std::size_t>(r)] = static_cast<char*>(address);
  }
  EXPECT_EQ(instances[0], static_cast<char*>(p) + 10);
  for (int r = 1; r < 4; ++r) {
    EXPECT_NE(instances[static_cast<std::size_t>(r)], instances[0]);
  }
  EXPECT_EQ(tessMemGetRankPtr(s.mesh, p, 4, &p), TESS_ERR_INVALID_VALUE);
}

TEST(TesseraMemory, NothingIsNullAndFreeingNullIsFine) {
  session s;
  void* p = &s;
  ASSERT_TESS(tessMalloc(s.mesh, 0, &p));
  EXPECT_EQ(p, nullptr);
  EXPECT_TESS(tessFree(s.mesh, nullptr));
  ASSERT_TESS(tessHostAlloc(0, &p, TESS_MEM_PINNED_HOST));
  EXPECT_EQ(p, nullptr);
  EXPECT_TESS(tessHostFree(nullptr));
}

TEST(TesseraMemory, EndsAtTheBytesAskedFor) {
  session s;
  char* p = static_cast<char*>(static_cast<void*>(s.memory<char>(100)));
  std::vector<char> host(200, 'x');
  EXPECT_TESS(tessMemcpyAsync(p, host.data(), 100, TESS_COPY_H2D, s.stream));
  EXPECT_EQ(tessMemcpyAsync(p, host.data(), 101, TESS_COPY_H2D, s.stream),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessMemcpyAsync(p + 50, host.data(), 51, TESS_COPY_H2D, s.stream),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessMemcpyAsync(host.data(), p, 101, TESS_COPY_D2H, s.stream),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessMemsetAsync(p, 0, 101, s.stream), TESS_ERR_INVALID_VALUE);
  ASSERT_TESS(tessHostRegister(host.data(), 100));
  EXPECT_TESS(tessMemcpyAsync(host.data(), p, 100, TESS_COPY_D2H, s.stream));
  EXPECT_EQ(tessMemcpyAsync(host.data() + 60, p, 50, TESS_COPY_D2H, s.stream),
            TESS_ERR_INVALID_VALUE)
      << "the range ends behind the registered memory";
  EXPECT_TESS(tessHostUnregister(host.data()));
  EXPECT_EQ(tessHostUnregister(host.data()), TESS_ERR_INVALID_VALUE);
  EXPECT_TESS(tessStreamSynchronize(s.stream));
}

TEST(TesseraMemory, CopiesRefuseTheWrongSide) {
  session s(2);
  auto* a = s.memory<char>(100);
  auto* b = s.memory<char>(100);
  std::vector<char> host(100);
  const auto copy = [&](void* to, const void* from, int kind) {
    return tessMemcpyAsync(to, from, 100, static_cast<tessCopyKind>(kind), s.stream);
  };
  EXPECT_EQ(copy(host.data(), host.data() + 1, TESS_COPY_H2D), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(copy(a, b, TESS_COPY_H2D), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(copy(a, b, TESS_COPY_D2H), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(copy(host.data(), a, TESS_COPY_D2D), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(copy(a, nullptr, TESS_COPY_H2D), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(copy(nullptr, host.data(), TESS_COPY_H2D), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(copy(a, b, 3), TESS_ERR_INVALID_VALUE);
  EXPECT_TESS(copy(a, a, TESS_COPY_D2D));
  EXPECT_EQ(tessMemcpyAsync(a + 10, a, 50, TESS_COPY_D2D, s.stream),
            TESS_ERR_INVALID_VALUE)
      << "ranges that overlap are refused";
  EXPECT_TESS(tessMemcpyAsync(a, nullptr, 0, TESS_COPY_H2D, s.stream));
}

TEST(TesseraMemory, ASymmetricTargetIsReplicatedAndASourceIsInstanceZero) {
  session s(3);
  auto* x = s.memory<int>(4);
  const std::vector<int> values{1, 2, 3, 4};
  ASSERT_TESS(tessMemcpyAsync(x, values.data(), 16, TESS_COPY_H2D, s.stream));
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(s.read(x, 4, r), values);
  }
  const std::vector<int> others{7, 8};
  ASSERT_TESS(tessMemcpyRankAsync(x + 1, others.data(), 8, TESS_COPY_H2D, 2, s.stream));
  EXPECT_EQ(s.read(x, 4, 2), (std::vector<int>{1, 7, 8, 4}));
  EXPECT_EQ(s.read(x, 4, 1), values);
  std::vector<int> got(4);
  ASSERT_TESS(tessMemcpyAsync(got.data(), x, 16, TESS_COPY_D2H, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_EQ(got, values);
  // The address of one instance means that instance only.
  void* second = nullptr;
  ASSERT_TESS(tessMemGetRankPtr(s.mesh, x, 1, &second));
  ASSERT_TESS(tessMemsetAsync(second, 0, 16, s.stream));
  EXPECT_EQ(s.read(x, 4, 0), values);
  EXPECT_EQ(s.read(x, 4, 1), std::vector<int>(4, 0));
}

TEST(TesseraMemory, ADeviceThatIsFullSaysSoAndRecovers) {
  const environment small({{"TESS_CPU_DEVICE_MEMORY", "1m"}});
  session s(2);
  void* p = nullptr;
  void* q = nullptr;
  EXPECT_EQ(tessMalloc(s.mesh, SIZE_MAX, &p), TESS_ERR_OUT_OF_MEMORY);
  EXPECT_EQ(tessMalloc(s.mesh, SIZE_MAX - 100, &p), TESS_ERR_OUT_OF_MEMORY);
  EXPECT_EQ(tessMalloc(s.mesh, (1 << 20) + 1, &p), TESS_ERR_OUT_OF_MEMORY);
  ASSERT_TESS(tessMalloc(s.mesh, 600 << 10, &p));
  EXPECT_EQ(tessMalloc(s.mesh, 600 << 10, &q), TESS_ERR_OUT_OF_MEMORY);
  std::size_t unused = 0;
  std::size_t total = 0;
  ASSERT_TESS(tessMemGetInfo(s.mesh, 1, &unused, &total));
  EXPECT_EQ(total, 1U << 20);
  EXPECT_EQ(unused, (1U << 20) - (600U << 10));
  // An allocation waits for memory that is about to be freed by work in progress.
  ASSERT_TESS(tessLaunchHostFunc(
      s.stream, [](void*) { usleep(50'000); }, nullptr));
  ASSERT_TESS(tessFree(s.mesh, p));
  EXPECT_TESS(tessMalloc(s.mesh, 600 << 10, &q));
}

TEST(TesseraMemory, KnowsWhatAnAddressIs) {
  session s(2);
  auto* x = s.memory<char>(100);
  tessPointerAttributes a{};
  a.structSize = sizeof a;
  ASSERT_TESS(tessPointerGetAttributes(s.context, x + 7, &a));
  EXPECT_EQ(a.kind, TESS_POINTER_DEVICE);
  EXPECT_EQ(a.base, x);
  EXPECT_EQ(a.bytes, 100U);
  EXPECT_EQ(a.offset, 7U);
  EXPECT_EQ(a.device, 0);
  int local = 0;
  ASSERT_TESS(tessPointerGetAttributes(s.context, &local, &a));
  EXPECT_EQ(a.kind, TESS_POINTER_UNKNOWN);
  void* pinned = nullptr;
  ASSERT_TESS(tessHostAlloc(64, &pinned, TESS_MEM_PINNED_HOST));
  ASSERT_TESS(tessPointerGetAttributes(s.context, pinned, &a));
  EXPECT_EQ(a.kind, TESS_POINTER_HOST);
  EXPECT_TESS(tessHostFree(pinned));
  EXPECT_EQ(tessHostAlloc(64, &pinned, TESS_MEM_GLOBAL), TESS_ERR_INVALID_VALUE);
}

TEST(TesseraMemory, BelongsToItsMesh) {
  session s(4);
  const int two[] = {0, 1};
  tessMesh_t smaller = nullptr;
  void* x = nullptr;
  void* rank = nullptr;
  ASSERT_TESS(tessMeshCreate(s.context, two, 2, {2, 1, 1, 1}, &smaller));
  ASSERT_TESS(tessMalloc(smaller, 64, &x));
  EXPECT_EQ(tessMemsetAsync(x, 0, 64, s.stream), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessAllReduce(s.mesh, x, 8, TESS_FP32, TESS_COLL_SUM, nullptr, s.stream),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessMemGetRankPtr(s.mesh, x, 1, &rank), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(rank, nullptr);
  ASSERT_TESS(tessMemGetRankPtr(smaller, x, 1, &rank));
  // The address of an instance means that instance only.
  EXPECT_TESS(tessMemsetAsync(rank, 0, 64, s.stream));
  EXPECT_TESS(tessStreamSynchronize(s.stream));
}

TEST(TesseraMemory, FreeWantsTheStartAndTheMesh) {
  session s(4);
  auto* x = s.memory<char>(100);
  const int one = 0;
  tessMesh_t other = nullptr;
  ASSERT_TESS(tessMeshCreate(s.context, &one, 1, {1, 1, 1, 1}, &other));
  EXPECT_EQ(tessFree(s.mesh, x + 1), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessFree(other, x), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessFree(s.mesh, &s), TESS_ERR_INVALID_VALUE);
  EXPECT_TESS(tessFree(s.mesh, x));
  EXPECT_EQ(tessFree(s.mesh, x), TESS_ERR_INVALID_VALUE);
}

TEST(TesseraMemory, TheStreamOfARankCopiesNoOtherRanks) {
  session s(2);
  auto* x = s.memory<int64_t>(1);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const tessStreamDesc desc{sizeof desc, 0, 1, 0, 0, -1};
  tessStream_t own = nullptr;
  ASSERT_TESS(tessStreamCreateEx(s.mesh, &desc, &own));
  const int64_t value = 5;
  ASSERT_TESS(tessMemcpyRankAsync(x, &value, 8, TESS_COPY_H2D, 1, own));
  EXPECT_EQ(tessMemcpyRankAsync(x, &value, 8, TESS_COPY_H2D, 0, own),
            TESS_ERR_INVALID_VALUE);
  ASSERT_TESS(tessStreamSynchronize(own));
  EXPECT_EQ(s.read(x, 1, 0)[0], 0);
  EXPECT_EQ(s.read(x, 1, 1)[0], 5);
}

/// An allocator of the program that counts what it has handed out.
struct program_memory {
  program_memory() { EXPECT_TESS(tessSetAllocator(take, give_back, this)); }
  ~program_memory() { EXPECT_TESS(tessSetAllocator(nullptr, nullptr, nullptr)); }
  program_memory(const program_memory&) = delete;
  program_memory& operator=(const program_memory&) = delete;

  static void* take(std::size_t bytes, std::size_t alignment, void* user) {
    auto& self = *static_cast<program_memory*>(user);
    if (self.refuses) {
      return nullptr;
    }
    void* const address = std::aligned_alloc(alignment, bytes + alignment);
    const std::lock_guard lock(self.mutex);
    self.out[address] = bytes;
    return static_cast<char*>(address) + (self.misaligned ? 8 : 0);
  }
  static void give_back(void* address, std::size_t bytes, void* user) {
    auto& self = *static_cast<program_memory*>(user);
    address = static_cast<char*>(address) - (self.misaligned ? 8 : 0);
    const std::lock_guard lock(self.mutex);
    EXPECT_EQ(self.out[address], bytes);
    EXPECT_EQ(self.out.erase(address), 1U);
    std::free(address);
  }
  [[nodiscard]] bool has(const void* address) {
    const std::lock_guard lock(mutex);
    auto next = out.upper_bound(const_cast<void*>(address));
    return next != out.begin() &&
           address < static_cast<char*>((--next)->first) + next->second;
  }

  std::mutex mutex;
  std::map<void*, std::size_t> out;
  bool refuses = false;
  bool misaligned = false;
};

TEST(TesseraMemory, ComesFromTheProgramIfItSaysSo) {
  session before;
  program_memory program;
  {
    session s(2);
    auto* x = s.memory<char>(100'000);
    void* rank1 = nullptr;
    void* pooled = nullptr;
    ASSERT_TESS(tessMemGetRankPtr(s.mesh, x, 1, &rank1));
    ASSERT_TESS(tessMallocAsync(&pooled, 64, s.stream));
    EXPECT_TRUE(program.has(x) && program.has(rank1) && program.has(pooled));
    EXPECT_FALSE(program.has(before.memory<char>(64)))
        << "the context was made before the allocator was set";
    EXPECT_EQ(s.read(x, 100'000, 1), std::vector<char>(100'000));
    void* more = nullptr;
    program.refuses = true;
    EXPECT_EQ(tessMalloc(s.mesh, 64, &more), TESS_ERR_OUT_OF_MEMORY);
    EXPECT_NE(std::string(tessGetLastErrorMessage()).find("from the program"),
              std::string::npos);
    program.refuses = false;
    EXPECT_TESS(tessMalloc(s.mesh, 64, &more));
  }
  EXPECT_EQ(program.out.size(), 0U)
      << "all memory has been returned to the program with the context";
  session s;
  program.misaligned = true;
  void* x = nullptr;
  EXPECT_EQ(tessMalloc(s.mesh, 64, &x), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(program.out.size(), 0U);
}

}  // namespace
}  // namespace weir::test
