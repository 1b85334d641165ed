// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests groups of collectives that start together, and sends between two ranks.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>
#include <utility>

#include "support.hpp"
#include "weir/base/system/sanitizers.hpp"

namespace weir::test {
namespace {

/// Creates a stream for each rank of the session's mesh.
std::vector<tessStream_t> rank_streams(const session& s, int ranks) {
  std::vector<tessStream_t> out(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    const tessStreamDesc desc{sizeof desc, 0, r, 0, 0, -1};
    EXPECT_TESS(tessStreamCreateEx(s.mesh, &desc, &out[static_cast<std::size_t>(r)]));
  }
  return out;
}

/// Allocates memory with x[i] = 10 * rank + i on every rank.
int64_t* ranked(session& s, int ranks, std::size_t count) {
  auto* x = s.memory<int64_t>(count);
  for (int r = 0; r < ranks; ++r) {
    std::vector<int64_t> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = 10 * r + static_cast<int64_t>(i);
    }
    EXPECT_TESS(
        tessMemcpyRankAsync(x, values.data(), count * 8, TESS_COPY_H2D, r, s.stream));
    EXPECT_TESS(tessStreamSynchronize(s.stream));
  }
  return x;
}

TEST(TesseraGroup, CallsBeginAtTheOutermostEnd) {
  session s(4);
  auto* x = ranked(s, 4, 4);
  ASSERT_TESS(tessGroupStart());
  ASSERT_TESS(tessAllReduce(s.mesh, x, 4, TESS_INT64, TESS_COLL_SUM, nullptr, s.stream));
  ASSERT_TESS(tessGroupStart());
  ASSERT_TESS(tessAllReduce(s.mesh, x, 4, TESS_INT64, TESS_COLL_MAX, nullptr, s.stream));
  ASSERT_TESS(tessGroupEnd());
  EXPECT_EQ(s.read(x, 4, 1), (std::vector<int64_t>{10, 11, 12, 13}))
      << "no call may begin before the end of the outermost group";
  ASSERT_TESS(tessGroupEnd());
  EXPECT_EQ(s.read(x, 4, 1), (std::vector<int64_t>{60, 64, 68, 72}));
  EXPECT_EQ(tessGroupEnd(), TESS_ERR_INVALID_VALUE);
}

TEST(TesseraGroup, NoCallBeginsIfOneIsInvalid) {
  session s(4);
  auto* x = ranked(s, 4, 4);
  ASSERT_TESS(tessGroupStart());
  ASSERT_TESS(tessAllReduce(s.mesh, x, 4, TESS_INT64, TESS_COLL_SUM, nullptr, s.stream));
  EXPECT_EQ(tessAllReduce(s.mesh, x, 5, TESS_INT64, TESS_COLL_SUM, nullptr, s.stream),
            TESS_ERR_INVALID_VALUE)
      << "the invalid call is refused at once";
  EXPECT_EQ(tessAllReduce(s.mesh, x, 1, TESS_COMPLEX64, TESS_COLL_MAX, "dp", s.stream),
            TESS_ERR_UNSUPPORTED);
  EXPECT_EQ(tessGroupEnd(), TESS_ERR_INVALID_VALUE)
      << "the group ends with the first failure";
  EXPECT_EQ(s.read(x, 4, 2), (std::vector<int64_t>{20, 21, 22, 23}));
  // If a stream or memory that a call of the group names is destroyed before the end of
  // the group, the group fails and none of its calls starts.
  tessStream_t brief = nullptr;
  void* y = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &brief));
  ASSERT_TESS(tessGroupStart());
  ASSERT_TESS(tessBarrier(s.mesh, nullptr, s.stream));
  ASSERT_TESS(tessBarrier(s.mesh, nullptr, brief));
  ASSERT_TESS(tessStreamDestroy(brief));
  EXPECT_EQ(tessGroupEnd(), TESS_ERR_INVALID_VALUE);
  ASSERT_TESS(tessMalloc(s.mesh, 32, &y));
  ASSERT_TESS(tessGroupStart());
  ASSERT_TESS(tessAllReduce(s.mesh, y, 4, TESS_INT64, TESS_COLL_SUM, nullptr, s.stream));
  ASSERT_TESS(tessFree(s.mesh, y));
  EXPECT_EQ(tessGroupEnd(), TESS_ERR_INVALID_VALUE);
  // The failure of one group does not affect the next.
  ASSERT_TESS(tessGroupStart());
  ASSERT_TESS(tessAllReduce(s.mesh, x, 4, TESS_INT64, TESS_COLL_MIN, nullptr, s.stream));
  ASSERT_TESS(tessGroupEnd());
  EXPECT_EQ(s.read(x, 4, 3), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(TesseraGroup, SendsNeedTheirTwoRanksAlone) {
  const environment limit({{"TESS_TIMEOUT_MS", "20000"}});
  session s(8);
  auto* x = ranked(s, 8, 2);
  auto* y = s.memory<int64_t>(2);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const auto streams = rank_streams(s, 8);
  ASSERT_TESS(tessSendRecv(s.mesh, x, y, 2, TESS_INT64, 6, 1, streams[6]));
  EXPECT_EQ(tessSendRecv(s.mesh, x, y, 2, TESS_INT64, 6, 1, streams[2]),
            TESS_ERR_INVALID_VALUE)
      << "rank 2 is neither the source nor the target";
  ASSERT_TESS(tessSendRecv(s.mesh, x, y, 2, TESS_INT64, 6, 1, streams[1]));
  EXPECT_TESS(tessStreamSynchronize(streams[6]));
  EXPECT_TESS(tessStreamSynchronize(streams[1]));
  EXPECT_EQ(s.read(y, 2, 1), (std::vector<int64_t>{60, 61}));
  EXPECT_EQ(s.read(y, 2, 6), (std::vector<int64_t>{0, 0}));
  ASSERT_TESS(tessSendRecv(s.mesh, x, y, 1, TESS_INT64, 3, 3, streams[3]));
  EXPECT_TESS(tessStreamSynchronize(streams[3]));
  EXPECT_EQ(s.read(y, 2, 3), (std::vector<int64_t>{30, 0}));
  // On a mesh stream, one call is both the send and the receive.
  ASSERT_TESS(tessSendRecv(s.mesh, x, y, 2, TESS_INT64, 5, 0, s.stream));
  EXPECT_EQ(s.read(y, 2, 0), (std::vector<int64_t>{50, 51}));
  // Both ranks must agree on the number of elements of the message.
  ASSERT_TESS(tessSendRecv(s.mesh, x, y, 2, TESS_INT64, 0, 1, streams[0]));
  ASSERT_TESS(tessSendRecv(s.mesh, x, y, 1, TESS_INT64, 0, 1, streams[1]));
  EXPECT_EQ(tessStreamSynchronize(streams[0]), TESS_ERR_COLLECTIVE_MISMATCH);
  EXPECT_EQ(tessStreamSynchronize(streams[1]), TESS_ERR_COLLECTIVE_MISMATCH);
}

// Each rank runs on its own thread and calls its two sends and two receives in its own
// order. Without the group, a rank could wait for a neighbour that waits for another one,
// and so on around the ring.
TEST(TesseraGroup, NeighboursOfARingExchangeInWhateverOrderTheyCall) {
  const environment limit({{"TESS_TIMEOUT_MS", "20000"}, {"TESS_NUM_THREADS", "1"}});
  constexpr int ranks = 8;
  session s(ranks);
  auto* x = ranked(s, ranks, 1);
  auto* left = s.memory<int64_t>(1);
  auto* right = s.memory<int64_t>(1);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const auto streams = rank_streams(s, ranks);
  // Each rank sends to both neighbours and receives from both, in its own order of calls.
  const auto exchange = [&](int rank) {
    const int next = (rank + 1) % ranks;
    const int before = (rank + ranks - 1) % ranks;
    tessStream_t const target = streams[static_cast<std::size_t>(rank)];
    EXPECT_TESS(tessGroupStart());
    for (int i = 0; i < 4; ++i) {
      switch ((i + rank) % 4) {
        case 0:
          EXPECT_TESS(tessSendRecv(s.mesh, x, left, 1, TESS_INT64, rank, next, target));
          break;
        case 1:
          EXPECT_TESS(tessSendRecv(s.mesh, x, right, 1, TESS_INT64, next, rank, target));
          break;
        case 2:
          EXPECT_TESS(
              tessSendRecv(s.mesh, x, right, 1, TESS_INT64, rank, before, target));
          break;
        default:
          EXPECT_TESS(tessSendRecv(s.mesh, x, left, 1, TESS_INT64, before, rank, target));
      }
    }
    EXPECT_TESS(tessGroupEnd());
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back(exchange, rank);
  }
  for (std::thread& t : threads) {
    t.join();
  }
  for (int rank = 0; rank < ranks; ++rank) {
    ASSERT_TESS(tessStreamSynchronize(streams[static_cast<std::size_t>(rank)]));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(s.read(left, 1, rank)[0], (rank + ranks - 1) % ranks * 10) << rank;
    EXPECT_EQ(s.read(right, 1, rank)[0], (rank + 1) % ranks * 10) << rank;
  }
}

// Half of the ranks call the sum along tp first, the others the sum along dp. The calls
// must be paired by their axes, and a copy behind the group must wait for both sums.
TEST(TesseraGroup, RanksNeedNotAgreeOnTheOrderOfAxes) {
  const environment limit({{"TESS_TIMEOUT_MS", "20000"}});
  session s(4, {2, 1, 2, 1});
  auto* x = ranked(s, 4, 1);
  auto* y = ranked(s, 4, 1);
  auto* z = s.memory<int64_t>(1);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const auto streams = rank_streams(s, 4);
  const auto sum = [&](int64_t* buffer, const char* axis, tessStream_t target) {
    EXPECT_TESS(
        tessAllReduce(s.mesh, buffer, 1, TESS_INT64, TESS_COLL_SUM, axis, target));
  };
  for (std::size_t r = 0; r < 4; ++r) {
    ASSERT_TESS(tessGroupStart());
    sum(r < 2 ? x : y, r < 2 ? "tp" : "dp", streams[r]);
    sum(r < 2 ? y : x, r < 2 ? "dp" : "tp", streams[r]);
    ASSERT_TESS(tessGroupEnd());
    // An operation enqueued after the group runs after all calls of the group.
    ASSERT_TESS(tessMemcpyAsync(z, x, 8, TESS_COPY_D2D, streams[r]));
  }
  for (const tessStream_t stream : streams) {
    EXPECT_TESS(tessStreamSynchronize(stream));
  }
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(s.read(x, 1, r)[0], r < 2 ? 10 : 50);
    EXPECT_EQ(s.read(z, 1, r)[0], r < 2 ? 10 : 50);
    EXPECT_EQ(s.read(y, 1, r)[0], r % 2 == 0 ? 20 : 40);
  }
}

TEST(TesseraGroup, TheFirstFailureOfAGroupIsTheOneThatIsReported) {
  const environment limit({{"TESS_TIMEOUT_MS", "20000"}});
  session s(2);
  auto* x = ranked(s, 2, 2);
  const auto streams = rank_streams(s, 2);
  const tessNumericsPolicy loose{0, 0, 1, 0};
  const tessNumericsPolicy firm{1, 1, 1, 0};
  // The first calls of the two ranks have different policies, the second ones different
  // numbers of elements.
  for (std::size_t r = 0; r < 2; ++r) {
    ASSERT_TESS(tessSetNumericsPolicy(s.context, r == 0 ? &firm : &loose));
    ASSERT_TESS(tessGroupStart());
    ASSERT_TESS(tessAllReduce(s.mesh, x, 1, TESS_INT64, TESS_COLL_SUM, "dp", streams[r]));
    ASSERT_TESS(tessSendRecv(s.mesh, x, x, r + 1, TESS_INT64, 0, 1, streams[r]));
    ASSERT_TESS(tessGroupEnd());
  }
  EXPECT_EQ(tessStreamSynchronize(streams[0]), TESS_ERR_DETERMINISM_VIOLATION);
  EXPECT_EQ(tessStreamSynchronize(streams[1]), TESS_ERR_DETERMINISM_VIOLATION);
  EXPECT_TESS(tessStreamSynchronize(streams[0]));
}

#ifndef WEIR_SANITIZED  // sanitizers end a program that runs out of memory
/// Limits the address space, so that the process can map only `bytes` more bytes.
class little_memory {
 public:
  explicit little_memory(std::size_t bytes) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &before_);
    rlimit now = before_;
    now.rlim_cur = pages * static_cast<std::size_t>(getpagesize()) + bytes;
    setrlimit(RLIMIT_AS, &now);
  }
  ~little_memory() { setrlimit(RLIMIT_AS, &before_); }
  little_memory(const little_memory&) = delete;
  little_memory& operator=(const little_memory&) = delete;

 private:
  rlimit before_{};
};

TEST(TesseraGroup, NoCallBeginsIfThereIsNoMemoryForOne) {
  session s(4);
  auto* x = ranked(s, 4, 4);
  const std::string axis(std::size_t{64} << 20, 'x');
  ASSERT_TESS(tessGroupStart());
  ASSERT_TESS(tessAllReduce(s.mesh, x, 4, TESS_INT64, TESS_COLL_SUM, nullptr, s.stream));
  {
    const little_memory left(std::size_t{16} << 20);
    EXPECT_EQ(
        tessAllReduce(s.mesh, x, 4, TESS_INT64, TESS_COLL_SUM, axis.c_str(), s.stream),
        TESS_ERR_OUT_OF_MEMORY)
        << "there is no memory for the text of the error about its axis";
  }
  EXPECT_EQ(tessGroupEnd(), TESS_ERR_OUT_OF_MEMORY);
  EXPECT_EQ(s.read(x, 4, 1), (std::vector<int64_t>{10, 11, 12, 13}));
  ASSERT_TESS(tessGroupStart());
  ASSERT_TESS(tessAllReduce(s.mesh, x, 4, TESS_INT64, TESS_COLL_SUM, nullptr, s.stream));
  ASSERT_TESS(tessGroupEnd());
  EXPECT_EQ(s.read(x, 4, 1), (std::vector<int64_t>{60, 64, 68, 72}));
}
#endif

TEST(TesseraGroup, AnEmptyShareOfARankIsAShare) {
  const environment limit({{"TESS_TIMEOUT_MS", "20000"}});
  session s(2);
  auto* x = ranked(s, 2, 4);
  const auto streams = rank_streams(s, 2);
  const auto sum = [&](std::size_t r, std::size_t count) {
    ASSERT_TESS(
        tessAllReduce(s.mesh, x, count, TESS_INT64, TESS_COLL_SUM, "dp", streams[r]));
  };
  for (std::size_t r = 0; r < 2; ++r) {
    sum(r, 0);
    ASSERT_TESS(tessAllGather(s.mesh, x, 0, TESS_FP32, "dp", streams[r]));
    ASSERT_TESS(tessSendRecv(s.mesh, nullptr, nullptr, 0, TESS_FP32, 0, 1, streams[r]));
    sum(r, 4);
  }
  EXPECT_TESS(tessStreamSynchronize(streams[0]));
  EXPECT_TESS(tessStreamSynchronize(streams[1]));
  EXPECT_EQ(s.read(x, 4, 1), (std::vector<int64_t>{10, 12, 14, 16}));
  sum(0, 0);
  sum(0, 4);
  sum(1, 4);
  sum(1, 4);
  EXPECT_EQ(tessStreamSynchronize(streams[0]), TESS_ERR_COLLECTIVE_MISMATCH);
  EXPECT_EQ(tessStreamSynchronize(streams[1]), TESS_ERR_COLLECTIVE_MISMATCH);
  EXPECT_EQ(s.read(x, 4, 1)[0], 10) << "operations behind the failure are skipped";
}

// Thousands of calls of one rank wait behind a collective that cannot complete yet. They
// must not exhaust the engine's window or the stack when they are released.
TEST(TesseraGroup, AnyNumberOfSharesMayWaitBehindOneAnother) {
  const environment limit({{"TESS_TIMEOUT_MS", "100000"}});
  session s(2);
  auto* x = ranked(s, 2, 1);
  const auto streams = rank_streams(s, 2);
  // The first collective can complete only after all others are enqueued.
  ASSERT_TESS(tessBarrier(s.mesh, "dp", streams[0]));
  for (int i = 0; i < 6'000; ++i) {
    ASSERT_TESS(tessAllReduce(s.mesh, x, 1, TESS_INT64, TESS_COLL_MAX, "dp", streams[0]));
  }
  ASSERT_TESS(tessSendRecv(s.mesh, x, x, 1, TESS_INT64, 0, 1, streams[1]));
  ASSERT_TESS(tessBarrier(s.mesh, "dp", streams[1]));
  for (int i = 0; i < 6'000; ++i) {
    ASSERT_TESS(tessAllReduce(s.mesh, x, 1, TESS_INT64, TESS_COLL_MAX, "dp", streams[1]));
  }
  const tessStreamDesc desc{sizeof desc, 0, 0, 0, 0, -1};
  tessStream_t third = nullptr;
  ASSERT_TESS(tessStreamCreateEx(s.mesh, &desc, &third));
  ASSERT_TESS(tessSendRecv(s.mesh, x, x, 1, TESS_INT64, 0, 1, third));
  EXPECT_TESS(tessStreamSynchronize(streams[0]));
  EXPECT_TESS(tessStreamSynchronize(streams[1]));
  EXPECT_EQ(s.read(x, 1, 0)[0], 0) << "the send comes before the reductions";
}

// Ranks wait without a timeout for calls that never come. Destroying the mesh must end
// all of them and wake the thread that waits.
TEST(TesseraGroup, DestroyingAMeshEndsAllThatItsRanksWaitFor) {
  const environment forever({{"TESS_TIMEOUT_MS", "0"}});
  session s(2);
  auto* x = s.memory<int64_t>(1);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const auto streams = rank_streams(s, 2);
  // One collective waits for its partner, one is behind it, and one is a send. The
  // partner never calls.
  ASSERT_TESS(tessAllReduce(s.mesh, x, 1, TESS_INT64, TESS_COLL_SUM, "dp", streams[0]));
  ASSERT_TESS(tessAllReduce(s.mesh, x, 1, TESS_INT64, TESS_COLL_MAX, "dp", streams[0]));
  ASSERT_TESS(tessSendRecv(s.mesh, x, x, 1, TESS_INT64, 0, 1, streams[1]));
  tessStatus_t waited = TESS_OK;
  std::atomic<pid_t> id{0};
  std::thread waits([&] {
    id = gettid();
    waited = tessStreamSynchronize(streams[0]);
  });
  until_asleep(id);
  EXPECT_TESS(tessMeshDestroy(s.mesh));
  waits.join();
  EXPECT_EQ(waited, TESS_ERR_TIMEOUT);
  EXPECT_EQ(tessStreamSynchronize(streams[1]), TESS_ERR_INVALID_VALUE)
      << "the stream has been destroyed together with its mesh";
}

TEST(TesseraGroup, DestroyingAContextEndsThemToo) {
  const environment forever({{"TESS_TIMEOUT_MS", "0"}});
  session s(2);
  auto* x = s.memory<int64_t>(1);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const auto streams = rank_streams(s, 2);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TESS(tessAllReduce(s.mesh, x, 1, TESS_INT64, TESS_COLL_SUM, "dp", streams[0]));
  }
  EXPECT_TESS(tessShutdown(std::exchange(s.context, nullptr)));
}

}  // namespace
}  // namespace weir::test
