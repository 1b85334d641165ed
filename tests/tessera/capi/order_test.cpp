// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the order of operations on memory that several devices can reach, and the order
/// kept by events, captures and collectives that ranks call themselves.
/// @source{Tessera Runtime & ABI, sections 6 and 12; the rule at the top of tessera.h}
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "support.hpp"

namespace weir::test {
namespace {

using std::chrono::milliseconds;

/// Sets as many workers as the tests need for all devices to run at once, whatever the
/// machine has.
environment many_workers() {
  return {{"TESS_NUM_THREADS", "4"}};
}

/// Arguments of write_slowly.
struct write_args {
  std::int32_t* address;
  std::int32_t value;
  std::int32_t slow_rank;  ///< the rank that is slow
};
/// Writes value + rank.
int write_slowly(const tessBlockContext* block, const void* args) {
  const auto* a = static_cast<const write_args*>(args);
  if (block->rank == a->slow_rank) {
    std::this_thread::sleep_for(milliseconds(30));
  }
  *a->address = a->value + block->rank;
  return 0;
}

/// Arguments of write_slot.
struct slots_args {
  std::int32_t* slots;
  std::int32_t slow_rank;
};
/// Writes 100 + rank into the rank's slot.
int write_slot(const tessBlockContext* block, const void* args) {
  const auto* a = static_cast<const slots_args*>(args);
  if (block->rank == a->slow_rank) {
    std::this_thread::sleep_for(milliseconds(30));
  }
  a->slots[block->rank] = 100 + block->rank;
  return 0;
}

/// Arguments of sum_of_slots, which stores the sum of all ranks' slots at `sum`.
struct sum_args {
  const std::int32_t* slots;
  std::int32_t* sum;
};
int sum_of_slots(const tessBlockContext* block, const void* args) {
  const auto* a = static_cast<const sum_args*>(args);
  *a->sum = 0;
  for (int i = 0; i < block->ranks; ++i) {
    *a->sum += a->slots[i];
  }
  return 0;
}

/// Multiplies the number by 10 and adds rank + 1, so that its digits show the order in
/// which ranks ran.
int append_rank(const tessBlockContext* block, const void* args) {
  auto* const address = *static_cast<std::int32_t* const*>(args);
  const std::int32_t before = *address;
  std::this_thread::sleep_for(milliseconds(2));
  *address = before * 10 + block->rank + 1;
  return 0;
}

std::vector<registered_module::entry> order_kernels() {
  return {{"o_write",
           write_slowly,
           {pointer_to("at", TESS_INT32), value("value", TESS_INT32, 4),
            value("slow_rank", TESS_INT32, 4)}},
          {"o_slot",
           write_slot,
           {pointer_to("slots", TESS_INT32), value("slow_rank", TESS_INT32, 4)}},
          {"o_sum",
           sum_of_slots,
           {pointer_to("slots", TESS_INT32), pointer_to("sum", TESS_INT32)}},
          {"o_append", append_rank, {pointer_to("at", TESS_INT32)}}};
}

constexpr tessLaunchConfig one_thread{{1, 1, 1}, {1, 1, 1}, 0, 0};

/// Four devices and kernels whose results show which of two operations ran first.
class TesseraOrder : public ::testing::Test {
 protected:
  void launch(const char* name, const void* args, std::size_t bytes) {
    ASSERT_TESS(tessLaunch(kernels_[name], s.mesh, one_thread, args, bytes, s.stream));
  }
  /// Launches write_slowly on the memory at `address`.
  void write(std::int32_t* address, std::int32_t number, std::int32_t slow_rank) {
    const write_args args{address, number, slow_rank};
    launch("o_write", &args, sizeof args);
  }
  /// Returns the address of one rank's instance.
  std::int32_t* on_rank(std::int32_t* address, int rank) {
    void* out = nullptr;
    EXPECT_TESS(tessMemGetRankPtr(s.mesh, address, rank, &out));
    return static_cast<std::int32_t*>(out);
  }
  /// Allocates pinned host memory, filled with zeros.
  std::int32_t* pinned(std::size_t count) {
    void* out = nullptr;
    EXPECT_TESS(tessHostAlloc(count * sizeof(std::int32_t), &out, TESS_MEM_PINNED_HOST));
    std::memset(out, 0, count * sizeof(std::int32_t));
    return static_cast<std::int32_t*>(out);
  }

  /// Returns a stream that waits until 40 + rank has been written to x on each rank. Rank
  /// 2 is the last.
  tessStream_t stream_behind_a_write_to(std::int32_t* x) {
    tessStream_t other = nullptr;
    tessEvent_t done = nullptr;
    EXPECT_TESS(tessStreamCreate(s.mesh, 0, &other));
    EXPECT_TESS(tessEventCreate(&done));
    EXPECT_TESS(tessStreamSynchronize(s.stream));
    write(x, 40, 2);
    EXPECT_TESS(tessEventRecord(done, s.stream));
    EXPECT_TESS(tessStreamWaitEvent(other, done));
    return other;
  }

  const environment workers_ = many_workers();
  session s{4};  // NOLINT: as everywhere in these tests
  const registered_module kernels_{s.context, order_kernels()};
};

TEST_F(TesseraOrder, ACopyFromAnotherRankSeesWhatTheLaunchBeforeItHasWrittenThere) {
  auto* const x = s.memory<std::int32_t>(16);
  auto* const y = s.memory<std::int32_t>(16);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  write(x, 40, 3);
  ASSERT_TESS(tessMemcpyRankAsync(y, on_rank(x, 3), 4, TESS_COPY_D2D, 0, s.stream));
  EXPECT_EQ(s.read(y, 1)[0], 43);
}

TEST_F(TesseraOrder, ACopyFromOneRankToAllSeesWhatTheLaunchBeforeItHasWrittenThere) {
  auto* const x = s.memory<std::int32_t>(16);
  auto* const y = s.memory<std::int32_t>(16);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  write(x, 40, 3);
  ASSERT_TESS(tessMemcpyAsync(y, on_rank(x, 3), 4, TESS_COPY_D2D, s.stream));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(s.read(y, 1, rank)[0], 43) << rank;
  }
}

TEST_F(TesseraOrder, WhatIsCopiedFromARankIsNotOverwrittenBeforeTheCopyHasReadIt) {
  constexpr std::size_t bytes = 4 << 20;
  auto* const x = s.memory<char>(bytes);
  auto* const y = s.memory<char>(bytes);
  void* x3 = nullptr;
  ASSERT_TESS(tessMemGetRankPtr(s.mesh, x, 3, &x3));
  ASSERT_TESS(tessMemsetAsync(x, 1, bytes, s.stream));
  ASSERT_TESS(tessMemcpyRankAsync(y, x3, bytes, TESS_COPY_D2D, 0, s.stream));
  ASSERT_TESS(tessMemsetAsync(x, 2, bytes, s.stream));
  EXPECT_EQ(s.read(y, bytes), std::vector<char>(bytes, 1));
}

TEST_F(TesseraOrder, MemoryThatAStreamGivesBackBehindACopyFromARankIsReusedBehindIt) {
  constexpr std::size_t bytes = 4 << 20;
  auto* const y = s.memory<char>(bytes);
  void* x = nullptr;
  void* x3 = nullptr;
  ASSERT_TESS(tessMallocAsync(&x, bytes, s.stream));
  ASSERT_TESS(tessMemGetRankPtr(s.mesh, x, 3, &x3));
  ASSERT_TESS(tessMemsetAsync(x, 3, bytes, s.stream));
  ASSERT_TESS(tessMemcpyRankAsync(y, x3, bytes, TESS_COPY_D2D, 0, s.stream));
  ASSERT_TESS(tessFreeAsync(x, s.stream));
  void* again = nullptr;
  ASSERT_TESS(tessMallocAsync(&again, bytes, s.stream));
  ASSERT_EQ(again, x) << "this test needs memory that is reused";
  ASSERT_TESS(tessMemsetAsync(again, 4, bytes, s.stream));
  EXPECT_EQ(s.read(y, bytes), std::vector<char>(bytes, 3));
}

TEST_F(TesseraOrder, ALaunchOnMemoryOfTheHostSeesWhatAllRanksHaveWrittenThere) {
  std::int32_t* const slots = pinned(4);
  auto* const sum = s.memory<std::int32_t>(1);
  const slots_args written{slots, 1};
  launch("o_slot", &written, sizeof written);
  const sum_args added{slots, sum};
  launch("o_sum", &added, sizeof added);
  EXPECT_EQ(s.read(sum, 1)[0], 406);
  ASSERT_TESS(tessHostFree(slots));
}

TEST_F(TesseraOrder, ACopyFromTheHostSeesWhatAllRanksHaveWrittenThere) {
  std::int32_t* const slots = pinned(4);
  auto* const x = s.memory<std::int32_t>(4);
  const slots_args written{slots, 1};
  launch("o_slot", &written, sizeof written);
  ASSERT_TESS(tessMemcpyAsync(x, slots, 16, TESS_COPY_H2D, s.stream));
  EXPECT_EQ(s.read(x, 4), (std::vector<std::int32_t>{100, 101, 102, 103}));
  ASSERT_TESS(tessHostFree(slots));
}

// All ranks append their digit to one number in the memory of rank 2. The launch names
// the same memory on all ranks, so they must run one after another.
TEST_F(TesseraOrder, ALaunchOnOneRanksMemoryRunsRankAfterRank) {
  auto* const x = s.memory<std::int32_t>(1);
  std::int32_t* const x2 = on_rank(x, 2);
  launch("o_append", &x2, sizeof x2);
  ASSERT_TESS(tessMemcpyRankAsync(x, x2, 4, TESS_COPY_D2D, 1, s.stream));
  EXPECT_EQ(s.read(x, 1, 2)[0], 1234);
  EXPECT_EQ(s.read(x, 1, 1)[0], 1234);
}

// A failure must skip only operations that read what the failed one should have written;
// the other copies must still run.
TEST_F(TesseraOrder, AFailureReachesWhoReadsWhatShouldHaveBeenWrittenAndNobodyElse) {
  std::int32_t* const host = pinned(8);
  auto* const x = s.memory<std::int32_t>(8);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  // The kernel fails on rank 1, so the copy of rank 1's memory to the host is skipped.
  static const registered_module::entry refusing{
      "o_refuse",
      [](const tessBlockContext* block, const void*) { return block->rank == 1 ? 7 : 0; },
      {}};
  const registered_module m(s.context, {refusing});
  ASSERT_TESS(tessLaunch(m["o_refuse"], s.mesh, one_thread, nullptr, 0, s.stream));
  ASSERT_TESS(tessMemcpyRankAsync(host, x, 4, TESS_COPY_D2H, 1, s.stream));
  ASSERT_TESS(tessMemsetAsync(x, 1, 32, s.stream));
  // Skipped, because it reads what the skipped copy should have written.
  ASSERT_TESS(tessMemcpyRankAsync(x, host, 4, TESS_COPY_H2D, 2, s.stream));
  host[4] = 77;
  ASSERT_TESS(tessMemcpyRankAsync(x, host + 4, 4, TESS_COPY_H2D, 3, s.stream));
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_LAUNCH_FAILED);
  EXPECT_EQ(s.read(x, 1, 2)[0], 0x01010101)
      << "the copy to rank 2 is skipped, because rank 1 did not write its source";
  EXPECT_EQ(s.read(x, 1, 3)[0], 77)
      << "other bytes of the host's memory can still be copied";
  EXPECT_EQ(s.read(x, 1, 0)[0], 0x01010101) << "rank 0 has not failed, so its fill runs";
  ASSERT_TESS(tessHostFree(host));
}

TEST_F(TesseraOrder, OverlappingRangesOfOneRankAreRefusedByTheCallThroughAnyAddress) {
  auto* const x = s.memory<std::int32_t>(64);
  std::int32_t* const x3 = on_rank(x, 3);
  EXPECT_EQ(tessMemcpyRankAsync(x, x3 + 1, 32, TESS_COPY_D2D, 3, s.stream),
            TESS_ERR_INVALID_VALUE);
  EXPECT_TESS(tessMemcpyRankAsync(x, x3 + 1, 32, TESS_COPY_D2D, 2, s.stream));
  EXPECT_TESS(tessStreamSynchronize(s.stream));
}

TEST_F(TesseraOrder, AnEventOfAMeshStreamHasHappenedWhenAllItsLanesHaveReachedIt) {
  constexpr std::size_t bytes = 2 << 20;
  tessStream_t other = nullptr;
  tessEvent_t done = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &other));
  ASSERT_TESS(tessEventCreate(&done));
  auto* const x = s.memory<char>(bytes);
  auto* const y = s.memory<char>(bytes);
  std::vector<char> host(bytes);
  for (int round = 0; round < 5; ++round) {
    std::fill(host.begin(), host.end(), 1);
    ASSERT_TESS(tessMemsetAsync(y, 2, bytes, s.stream));
    ASSERT_TESS(tessStreamSynchronize(s.stream));
    // All ranks read host memory. Behind the event, rank 0 writes it.
    ASSERT_TESS(tessMemcpyAsync(x, host.data(), bytes, TESS_COPY_H2D, s.stream));
    ASSERT_TESS(tessEventRecord(done, s.stream));
    ASSERT_TESS(tessStreamWaitEvent(other, done));
    ASSERT_TESS(tessMemcpyAsync(host.data(), y, bytes, TESS_COPY_D2H, other));
    ASSERT_TESS(tessStreamSynchronize(other));
    for (int rank = 0; rank < 4; ++rank) {
      ASSERT_EQ(s.read(x, bytes, rank), std::vector<char>(bytes, 1)) << rank;
    }
  }
}

TEST_F(TesseraOrder, AWaitHoldsAllLanesEvenIfTheNextOperationIsThatOfOneLane) {
  auto* const x = s.memory<std::int32_t>(1);
  auto* const y = s.memory<std::int32_t>(1);
  tessStream_t const other = stream_behind_a_write_to(x);
  std::int32_t got = 0;
  // This copy runs on the chain of device 0 alone.
  ASSERT_TESS(tessMemcpyRankAsync(&got, y, 4, TESS_COPY_D2H, 0, other));
  ASSERT_TESS(tessMemsetAsync(x, 0, 4, other));
  ASSERT_TESS(tessStreamSynchronize(other));
  EXPECT_EQ(s.read(x, 1, 2)[0], 0) << "the fill must run after the launch";
}

TEST_F(TesseraOrder, AWaitInACaptureForAnEventFromOutsideIsRefusedAndLosesTheCapture) {
  tessStream_t other = nullptr;
  tessEvent_t outside = nullptr;
  tessEvent_t inside = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &other));
  ASSERT_TESS(tessEventCreate(&outside));
  ASSERT_TESS(tessEventCreate(&inside));
  auto* const x = s.memory<std::int32_t>(1);
  ASSERT_TESS(tessEventRecord(outside, s.stream));
  ASSERT_TESS(tessStreamBeginCapture(other));
  EXPECT_EQ(tessStreamWaitEvent(other, outside), TESS_ERR_INVALID_VALUE);
  ASSERT_TESS(tessMemsetAsync(x, 1, 4, other));
  tessGraph_t graph = nullptr;
  EXPECT_EQ(tessStreamEndCapture(other, &graph), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(graph, nullptr);
  // Accepted, because the capture has ended.
  EXPECT_TESS(tessStreamWaitEvent(other, outside));
  ASSERT_TESS(tessStreamBeginCapture(other));
  ASSERT_TESS(tessMemsetAsync(x, 1, 4, other));
  ASSERT_TESS(tessEventRecord(inside, other));
  EXPECT_TESS(tessStreamWaitEvent(other, inside));  // an event of the capture itself
  ASSERT_TESS(tessStreamEndCapture(other, &graph));
  EXPECT_TESS(tessGraphDestroy(graph));
}

TEST_F(TesseraOrder, AWaitBeforeACaptureHoldsWhatRunsBehindIt) {
  auto* const x = s.memory<std::int32_t>(1);
  auto* const y = s.memory<std::int32_t>(1);
  tessStream_t const other = stream_behind_a_write_to(x);
  ASSERT_TESS(tessStreamBeginCapture(other));
  ASSERT_TESS(tessMemcpyAsync(y, x, 4, TESS_COPY_D2D, other));
  tessGraph_t graph = nullptr;
  tessGraphExec_t exec = nullptr;
  ASSERT_TESS(tessStreamEndCapture(other, &graph));
  ASSERT_TESS(tessGraphInstantiate(graph, &exec));
  ASSERT_TESS(tessGraphLaunch(exec, other));
  ASSERT_TESS(tessStreamSynchronize(other));
  EXPECT_EQ(s.read(y, 1, 2)[0], 42);
  ASSERT_TESS(tessGraphExecDestroy(exec));
  ASSERT_TESS(tessGraphDestroy(graph));
}

TEST_F(TesseraOrder, OnlyTheStreamsOwnMeshIsTaken) {
  const int ids[] = {0, 1, 2, 3};
  tessMesh_t twin = nullptr;
  ASSERT_TESS(tessMeshCreate(s.context, ids, 4, {4, 1, 1, 1}, &twin));
  auto* const x = s.memory<std::int32_t>(1);
  EXPECT_EQ(tessAllReduce(twin, x, 1, TESS_INT32, TESS_COLL_SUM, "tp", s.stream),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessLaunch(kernels_["o_append"], twin, one_thread, &x, sizeof x, s.stream),
            TESS_ERR_INVALID_VALUE);
}

// Collectives that each rank calls itself.

/// Four ranks with two streams each, called a and b.
class TesseraMeeting : public ::testing::Test {
 protected:
  static constexpr int ranks = 4;

  TesseraMeeting() {
    for (int r = 0; r < ranks; ++r) {
      tessStreamDesc own{sizeof own, 0, 0, 0, 0, -1};
      own.rank = r;
      EXPECT_TESS(tessStreamCreateEx(s.mesh, &own, &a[index(r)]));
      EXPECT_TESS(tessStreamCreateEx(s.mesh, &own, &b[index(r)]));
    }
  }
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  /// Calls a sum of one element on a rank's stream.
  [[nodiscard]] tessStatus_t sum(std::int32_t* x, tessStream_t stream, const char* axis,
                                 std::int64_t timeout_ms = 0) const {
    tessCollectiveDesc d{};
    d.structSize = sizeof d;
    d.sendbuf = x;
    d.count = 1;
    d.dtype = TESS_INT32;
    d.axis = axis;
    d.timeoutMs = timeout_ms;
    return tessCollective(s.mesh, &d, stream);
  }
  /// Allocates an element and sets it to `number` on each rank.
  std::int32_t* numbers(std::int32_t number) {
    auto* const out = s.memory<std::int32_t>(1);
    EXPECT_TESS(tessMemcpyAsync(out, &number, 4, TESS_COPY_H2D, s.stream));
    EXPECT_TESS(tessStreamSynchronize(s.stream));
    return out;
  }
  /// Expects that synchronizing stream a of each rank returns `status`.
  void expect_all(tessStatus_t status) const {
    for (int r = 0; r < ranks; ++r) {
      EXPECT_EQ(tessStreamSynchronize(a[index(r)]), status) << "stream a of rank " << r;
    }
  }

  session s{ranks, {2, 1, 2, 1}};  // NOLINT
  std::array<tessStream_t, ranks> a{};
  std::array<tessStream_t, ranks> b{};
};

TEST_F(TesseraMeeting, CollectivesPairByTheOrderOfTheCallsWhicheverStreamsTheyAreOn) {
  std::int32_t* const t = numbers(1);
  std::int32_t* const x = numbers(1);
  std::int32_t* const y = numbers(100);
  // One thread makes the calls rank by rank. On stream a, the sum over tp ends when the
  // last of its ranks has called it. It delays the sum of x, which was called before the
  // sum of y.
  for (int r = 0; r < ranks; ++r) {
    ASSERT_TESS(sum(t, a[index(r)], "tp"));
    ASSERT_TESS(sum(x, a[index(r)], nullptr));
    ASSERT_TESS(sum(y, b[index(r)], nullptr));
  }
  for (int r = 0; r < ranks; ++r) {
    ASSERT_TESS(tessStreamSynchronize(a[index(r)]));
    ASSERT_TESS(tessStreamSynchronize(b[index(r)]));
  }
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(s.read(t, 1, r)[0], 2) << r;
    EXPECT_EQ(s.read(x, 1, r)[0], 4) << r;
    EXPECT_EQ(s.read(y, 1, r)[0], 400) << r;
  }
}

// In a mesh of two ranks along dp, "dp" and all axes name the same group. One rank uses
// each name; both must meet.
TEST_F(TesseraMeeting, RanksMeetByWhicheverAxesTheyNameTheirGroup) {
  session line(2);
  auto* const x = line.memory<std::int32_t>(1);
  ASSERT_TESS(tessStreamSynchronize(line.stream));
  std::array<tessStream_t, 2> own{};
  const std::array<const char*, 2> names = {nullptr, "dp"};
  for (int r = 0; r < 2; ++r) {
    tessStreamDesc desc{sizeof desc, 0, 0, 0, 0, -1};
    desc.rank = r;
    ASSERT_TESS(tessStreamCreateEx(line.mesh, &desc, &own[index(r)]));
    ASSERT_TESS(tessAllReduce(line.mesh, x, 1, TESS_INT32, TESS_COLL_SUM, names[index(r)],
                              own[index(r)]));
  }
  for (const tessStream_t one : own) {
    EXPECT_TESS(tessStreamSynchronize(one));
  }
}

// A rank may pass the address of its own instance. The address of another rank's instance
// must be refused.
TEST_F(TesseraMeeting, ARankMayNameItsOwnInstance) {
  std::int32_t* const x = numbers(5);
  for (int r = 0; r < ranks; ++r) {
    void* own = nullptr;
    ASSERT_TESS(tessMemGetRankPtr(s.mesh, x, r, &own));
    ASSERT_TESS(sum(static_cast<std::int32_t*>(own), a[index(r)], nullptr));
  }
  expect_all(TESS_OK);
  EXPECT_EQ(s.read(x, 1, 3)[0], 20);
  void* foreign = nullptr;
  ASSERT_TESS(tessMemGetRankPtr(s.mesh, x, 2, &foreign));
  EXPECT_EQ(sum(static_cast<std::int32_t*>(foreign), a[1], nullptr),
            TESS_ERR_INVALID_VALUE);
}

// One rank calls another operation than the others. The message on every rank must name
// both calls and the rank that differs.
TEST_F(TesseraMeeting, RanksThatDisagreeGetBothDescriptions) {
  std::int32_t* const x = numbers(1);
  for (int r = 0; r < ranks; ++r) {
    ASSERT_TESS(tessAllReduce(s.mesh, x, 1, TESS_INT32,
                              r == 2 ? TESS_COLL_MAX : TESS_COLL_SUM, nullptr,
                              a[index(r)]));
  }
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(tessStreamSynchronize(a[index(r)]), TESS_ERR_COLLECTIVE_MISMATCH);
    const std::string why = tessGetLastErrorMessage();
    EXPECT_NE(why.find("all_reduce of 1 int32, sum"), std::string::npos) << why;
    EXPECT_NE(why.find("all_reduce of 1 int32, max"), std::string::npos) << why;
    EXPECT_NE(why.find("by rank 2"), std::string::npos) << why;
  }
  // All ranks have called, so they are in step again.
  for (int r = 0; r < ranks; ++r) {
    ASSERT_TESS(sum(x, a[index(r)], nullptr));
  }
  expect_all(TESS_OK);
  EXPECT_EQ(s.read(x, 1)[0], 4);
}

TEST_F(TesseraMeeting, ARankThatLeavesOneOutBreaksTheGroupUntilAllHaveRecovered) {
  std::int32_t* const x = numbers(1);
  std::int32_t* const y = numbers(1);
  for (int r = 0; r < 3; ++r) {
    ASSERT_TESS(sum(x, a[index(r)], nullptr, 30));
  }
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(tessStreamSynchronize(a[index(r)]), TESS_ERR_TIMEOUT);
    const std::string why = tessGetLastErrorMessage();
    EXPECT_NE(why.find("rank 3 has not come to all_reduce 1"), std::string::npos) << why;
  }
  // No call is paired with a call of another collective: all fail until the recovery.
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(sum(x, a[index(r)], nullptr), TESS_ERR_TIMEOUT) << r;
  }
  const std::string why = tessGetLastErrorMessage();
  EXPECT_NE(why.find("tessMeshRecover"), std::string::npos) << why;
  for (int r = 0; r < ranks; ++r) {
    EXPECT_TESS(sum(y, b[index(r)], "tp"));  // other groups are not affected
    EXPECT_TESS(tessMeshRecover(s.mesh, r));
    EXPECT_TESS(
        sum(x, a[index(r)], nullptr));  // each rank works again after its recovery
  }
  expect_all(TESS_OK);
}

TEST_F(TesseraMeeting, WhatWaitsFromBeforeARecoveryEndsWhenTheLastRankHasRecovered) {
  std::int32_t* const x = numbers(1);
  ASSERT_TESS(sum(x, a[0], nullptr, -1));  // waits without a timeout
  for (int r = 0; r < ranks; ++r) {
    ASSERT_TESS(tessMeshRecover(s.mesh, r));
  }
  EXPECT_EQ(tessStreamSynchronize(a[0]), TESS_ERR_TIMEOUT);
  EXPECT_EQ(tessMeshRecover(s.mesh, ranks), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessMeshRecover(s.mesh, -2), TESS_ERR_INVALID_VALUE);
}

// Calls wait without a timeout on two groups. The abort must end them and all later
// calls, on any group, until each rank has recovered.
TEST_F(TesseraMeeting, AnAbortEndsWhatWaitsAndAllThatComesUntilARecovery) {
  std::int32_t* const x = numbers(1);
  std::int32_t* const y = numbers(1);
  ASSERT_TESS(sum(x, a[0], nullptr, -1));
  ASSERT_TESS(sum(x, a[0], nullptr, -1));  // waits behind the first call
  ASSERT_TESS(sum(y, b[0], "tp", -1));
  for (int r = 0; r < ranks; ++r) {
    EXPECT_TESS(tessMeshQuery(s.mesh, r));
  }
  ASSERT_TESS(tessMeshAbort(s.mesh));
  EXPECT_EQ(tessStreamSynchronize(a[0]), TESS_ERR_TIMEOUT);
  EXPECT_NE(std::string(tessGetLastErrorMessage()).find("were aborted"),
            std::string::npos)
      << tessGetLastErrorMessage();
  EXPECT_EQ(tessStreamSynchronize(b[0]), TESS_ERR_TIMEOUT);
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(tessMeshQuery(s.mesh, r), TESS_ERR_TIMEOUT);
    EXPECT_NE(std::string(tessGetLastErrorMessage()).find("tessMeshRecover"),
              std::string::npos);
    // The abort also ends calls on groups that were never used before.
    EXPECT_EQ(sum(x, a[index(r)], "dp"), TESS_ERR_TIMEOUT) << r;
    EXPECT_EQ(sum(x, a[index(r)], nullptr), TESS_ERR_TIMEOUT) << r;
  }
  ASSERT_TESS(tessAllReduce(s.mesh, x, 1, TESS_INT32, TESS_COLL_SUM, nullptr, s.stream));
  EXPECT_TESS(tessStreamSynchronize(s.stream));  // no other rank is needed on this stream
  for (int r = 0; r < ranks; ++r) {
    ASSERT_TESS(tessMeshRecover(s.mesh, r));
    EXPECT_TESS(tessMeshQuery(s.mesh, r));
    ASSERT_TESS(sum(x, a[index(r)], nullptr));
    ASSERT_TESS(sum(y, b[index(r)], "tp"));
  }
  expect_all(TESS_OK);
  EXPECT_EQ(tessMeshQuery(s.mesh, ranks), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessMeshQuery(s.mesh, -1), TESS_ERR_INVALID_VALUE);
}

TEST_F(TesseraMeeting, AQuerySaysWhichGroupIsBrokenAndWhy) {
  std::int32_t* const x = numbers(1);
  ASSERT_TESS(sum(x, a[0], "tp", 30));
  EXPECT_EQ(tessStreamSynchronize(a[0]), TESS_ERR_TIMEOUT);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(tessMeshQuery(s.mesh, 1), TESS_ERR_TIMEOUT);
    EXPECT_NE(std::string(tessGetLastErrorMessage())
                  .find("expected ranks 0, 1 to meet, found that rank 1 has not come to "
                        "all_reduce 1 in time"),
              std::string::npos)
        << tessGetLastErrorMessage();
  }
  EXPECT_TESS(tessMeshQuery(s.mesh, 2));  // this rank is in other groups
}

TEST_F(TesseraMeeting, WhatCannotBeCapturedIsRefusedByTheCall) {
  tessGraph_t graph = nullptr;
  static const registered_module::entry lasting{
      "o_lasting",
      [](const tessBlockContext*, const void*) { return 0; },
      {},
      TESS_KERNEL_PERSISTENT_CAPABLE | TESS_KERNEL_DETERMINISTIC};
  const registered_module m(s.context, {lasting});
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  EXPECT_EQ(
      tessLaunch(m["o_lasting"], s.mesh,
                 {{1, 1, 1}, {1, 1, 1}, 0, TESS_LAUNCH_PERSISTENT}, nullptr, 0, s.stream),
      TESS_ERR_UNSUPPORTED);
  ASSERT_TESS(tessStreamEndCapture(s.stream, &graph));
  EXPECT_TESS(tessGraphDestroy(graph));
}

TEST_F(TesseraMeeting, BuffersStandAtMultiplesOfTheirElementsSize) {
  auto* const x = s.memory<char>(64);
  for (int offset = 1; offset < 4; ++offset) {
    EXPECT_EQ(tessAllReduce(s.mesh, x + offset, 4, TESS_INT32, TESS_COLL_SUM, nullptr,
                            s.stream),
              TESS_ERR_INVALID_VALUE)
        << offset;
  }
  EXPECT_TESS(
      tessAllReduce(s.mesh, x + 4, 4, TESS_INT32, TESS_COLL_SUM, nullptr, s.stream));
}

}  // namespace
}  // namespace weir::test
