// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests collectives in streams, both when one call stands for all ranks and when each
/// rank makes its own call.
#include <algorithm>
#include <chrono>
#include <thread>

#include "support.hpp"

namespace weir::test {
namespace {

/// Returns a number that differs between ranks and elements.
int64_t number(int rank, std::size_t i) {
  return static_cast<int64_t>(rank + 1) * 1000 + static_cast<int64_t>(i) * 7 % 100;
}

/// Allocates memory and fills each rank's instance with that rank's numbers.
int64_t* numbered(session& s, int ranks, std::size_t count) {
  auto* x = s.memory<int64_t>(count);
  for (int r = 0; r < ranks; ++r) {
    std::vector<int64_t> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = number(r, i);
    }
    EXPECT_TESS(
        tessMemcpyRankAsync(x, values.data(), count * 8, TESS_COPY_H2D, r, s.stream));
    EXPECT_TESS(tessStreamSynchronize(s.stream));
  }
  return x;
}

TEST(TesseraCollective, AllReduceSumsAlongAnAxis) {
  session s(8, {2, 1, 4, 1});
  constexpr std::size_t count = 10'007;
  auto* x = numbered(s, 8, count);
  ASSERT_TESS(tessAllReduce(s.mesh, x, count, TESS_INT64, TESS_COLL_SUM, "dp", s.stream));
  for (int rank = 0; rank < 8; ++rank) {
    const auto got = s.read(x, count, rank);
    for (std::size_t i = 0; i < count; ++i) {
      int64_t expected = 0;
      for (int other = rank % 2; other < 8; other += 2) {
        expected += number(other, i);
      }
      ASSERT_EQ(got[i], expected) << "rank " << rank << " element " << i;
    }
  }
}

TEST(TesseraCollective, ReduceScatterThenAllGatherIsAllReduce) {
  session s(4);
  constexpr std::size_t count = 4 * 30'011;
  auto* x = numbered(s, 4, count);
  auto* y = numbered(s, 4, count);
  for (const char* algorithm : {"direct", "ring", "tree"}) {
    tessCollectiveDesc d{};
    d.structSize = sizeof d;
    d.kind = TESS_COLLECTIVE_ALL_REDUCE;
    d.sendbuf = x;
    d.count = count;
    d.dtype = TESS_INT64;
    d.algorithm = algorithm;
    ASSERT_TESS(tessCollective(s.mesh, &d, s.stream));
    ASSERT_TESS(tessReduceScatter(s.mesh, y, count, TESS_INT64, TESS_COLL_SUM, nullptr,
                                  s.stream));
    ASSERT_TESS(tessAllGather(s.mesh, y, count, TESS_INT64, "world", s.stream));
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(s.read(x, count, rank), s.read(y, count, rank)) << algorithm;
    }
  }
}

TEST(TesseraCollective, BroadcastReachesEveryRank) {
  session s(8, {2, 2, 2, 1});
  auto* x = numbered(s, 8, 100);
  ASSERT_TESS(tessBroadcast(s.mesh, x, 100, TESS_INT64, 5, s.stream));
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(s.read(x, 100, rank)[99], number(5, 99));
  }
  EXPECT_EQ(tessBroadcast(s.mesh, x, 100, TESS_INT64, 8, s.stream),
            TESS_ERR_INVALID_VALUE);
}

TEST(TesseraCollective, RefusesWhatMakesNoSense) {
  session s(4);
  auto* x = numbered(s, 4, 100);
  const auto reduce = [&](void* buffer, std::size_t count, int type, int op,
                          const char* axis) {
    return tessAllReduce(s.mesh, buffer, count, type, static_cast<tessCollOp>(op), axis,
                         s.stream);
  };
  EXPECT_EQ(reduce(nullptr, 1, TESS_INT64, TESS_COLL_SUM, nullptr),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(reduce(x, 101, TESS_INT64, TESS_COLL_SUM, nullptr), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(reduce(x, SIZE_MAX / 4, TESS_INT64, TESS_COLL_SUM, nullptr),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(reduce(x, 10, 14, TESS_COLL_SUM, nullptr), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(reduce(x, 10, 32, TESS_COLL_SUM, nullptr), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(reduce(x, 10, TESS_INT64, TESS_COLL_SUM, "xp"), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(reduce(x, 10, TESS_COMPLEX64, TESS_COLL_MAX, nullptr), TESS_ERR_UNSUPPORTED);
  EXPECT_EQ(
      tessReduceScatter(s.mesh, x, 10, TESS_INT64, TESS_COLL_SUM, nullptr, s.stream),
      TESS_ERR_INVALID_VALUE);
  std::vector<int64_t> host(10);
  EXPECT_EQ(reduce(host.data(), 10, TESS_INT64, TESS_COLL_SUM, nullptr),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(reduce(x, 0, TESS_INT64, TESS_COLL_SUM, nullptr), TESS_OK);
  EXPECT_EQ(reduce(x, 10, TESS_INT64, TESS_COLL_SUM, "tp"), TESS_OK);
  EXPECT_EQ(s.read(x, 10, 2)[3], number(2, 3));
  tessCollectiveDesc d{};
  d.structSize = sizeof d;
  d.sendbuf = x;
  d.count = 10;
  d.dtype = TESS_FP32;
  d.op = 5;
  EXPECT_EQ(tessCollective(s.mesh, &d, s.stream), TESS_ERR_INVALID_VALUE);
  d.op = TESS_COLL_PRODUCT;
  EXPECT_EQ(tessCollective(s.mesh, &d, s.stream), TESS_ERR_UNSUPPORTED)
      << "products are unsupported at level 2";
  d.op = TESS_COLL_SUM;
  d.wireDtype = TESS_BF16;
  EXPECT_EQ(tessCollective(s.mesh, &d, s.stream), TESS_ERR_DETERMINISM_VIOLATION);
}

/// Creates a stream for each rank.
std::vector<tessStream_t> bound_streams(const session& s, int ranks) {
  std::vector<tessStream_t> out(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    tessStreamDesc d{};
    d.structSize = sizeof d;
    d.rank = r;
    d.timeoutMs = -1;
    EXPECT_TESS(tessStreamCreateEx(s.mesh, &d, &out[static_cast<std::size_t>(r)]));
  }
  return out;
}

// One thread makes the calls of the eight ranks in a different order in each round. Calls
// are paired by the order on each rank, not by the order in time.
TEST(TesseraCollective, RanksMeetWhateverTheOrderOfTheirCalls) {
  session s(8, {2, 1, 4, 1});
  auto* x = numbered(s, 8, 1000);
  const auto streams = bound_streams(s, 8);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 8; ++i) {
      const int r = (i * 3 + round) % 8;
      ASSERT_TESS(tessAllReduce(s.mesh, x, 1000, TESS_INT64, TESS_COLL_MAX, "dp",
                                streams[static_cast<std::size_t>(r)]));
      ASSERT_TESS(tessAllReduce(s.mesh, x, 1000, TESS_INT64, TESS_COLL_MIN, "tp",
                                streams[static_cast<std::size_t>(r)]));
    }
  }
  for (tessStream_t one : streams) {
    EXPECT_TESS(tessStreamSynchronize(one));
  }
  for (int r = 0; r < 8; ++r) {
    EXPECT_EQ(s.read(x, 1000, r)[10], number(6, 10))
        << "the smaller of the two maxima is stored";
  }
}

TEST(TesseraCollective, RanksFromManyThreadsMeet) {
  session s(8);
  auto* x = numbered(s, 8, 1000);
  const auto streams = bound_streams(s, 8);
  std::vector<std::thread> ranks;
  for (std::size_t r = 0; r < 8; ++r) {
    ranks.emplace_back([&, r] {
      for (int round = 0; round < 30; ++round) {
        EXPECT_TESS(tessAllReduce(s.mesh, x, 1000, TESS_INT64, TESS_COLL_MAX, nullptr,
                                  streams[r]));
        EXPECT_TESS(tessStreamSynchronize(streams[r]));
      }
    });
  }
  for (auto& t : ranks) {
    t.join();
  }
  EXPECT_EQ(s.read(x, 1000, 3)[0], number(7, 0));
}

// Each pair of calls differs in one parameter. Both ranks must get the error, and no
// memory may change.
TEST(TesseraCollective, CallsThatDifferFailOnEveryRank) {
  session s(2);
  auto* x = numbered(s, 2, 100);
  const auto streams = bound_streams(s, 2);
  struct difference {
    const char* difference;
    std::size_t count;
    int type;
    tessCollOp op;
  };
  for (const difference& d : {difference{"count", 99, TESS_INT64, TESS_COLL_SUM},
                              difference{"type", 100, TESS_FP64, TESS_COLL_SUM},
                              difference{"operation", 100, TESS_INT64, TESS_COLL_MAX}}) {
    ASSERT_TESS(
        tessAllReduce(s.mesh, x, 100, TESS_INT64, TESS_COLL_SUM, nullptr, streams[0]));
    ASSERT_TESS(tessAllReduce(s.mesh, x, d.count, d.type, d.op, nullptr, streams[1]));
    EXPECT_EQ(tessStreamSynchronize(streams[0]), TESS_ERR_COLLECTIVE_MISMATCH)
        << d.difference;
    EXPECT_EQ(tessStreamSynchronize(streams[1]), TESS_ERR_COLLECTIVE_MISMATCH)
        << d.difference;
  }
  ASSERT_TESS(
      tessAllReduce(s.mesh, x, 100, TESS_INT64, TESS_COLL_SUM, nullptr, streams[0]));
  ASSERT_TESS(tessAllGather(s.mesh, x, 100, TESS_INT64, nullptr, streams[1]));
  EXPECT_EQ(tessStreamSynchronize(streams[0]), TESS_ERR_COLLECTIVE_MISMATCH)
      << "calls of different kinds are a mismatch on rank 0";
  EXPECT_EQ(tessStreamSynchronize(streams[1]), TESS_ERR_COLLECTIVE_MISMATCH)
      << "calls of different kinds are a mismatch on rank 1";
  EXPECT_EQ(s.read(x, 100, 1)[5], number(1, 5))
      << "a collective that fails must write nothing";
}

TEST(TesseraCollective, PoliciesThatDifferViolateDeterminismOnEveryRank) {
  session s(2);
  auto* x = numbered(s, 2, 100);
  const auto streams = bound_streams(s, 2);
  ASSERT_TESS(
      tessAllReduce(s.mesh, x, 100, TESS_INT64, TESS_COLL_SUM, nullptr, streams[0]));
  const tessNumericsPolicy other{0, 1, 1, 0};
  ASSERT_TESS(tessSetNumericsPolicy(s.context, &other));
  ASSERT_TESS(
      tessAllReduce(s.mesh, x, 100, TESS_INT64, TESS_COLL_SUM, nullptr, streams[1]));
  EXPECT_EQ(tessStreamSynchronize(streams[0]), TESS_ERR_DETERMINISM_VIOLATION);
  EXPECT_EQ(tessStreamSynchronize(streams[1]), TESS_ERR_DETERMINISM_VIOLATION);
}

/// Returns the description of one rank's call of a sum in place.
tessCollectiveDesc share_for(void* x, int64_t timeout_ms) {
  tessCollectiveDesc d{};
  d.structSize = sizeof d;
  d.sendbuf = x;
  d.count = 100;
  d.dtype = TESS_INT64;
  d.timeoutMs = timeout_ms;
  return d;
}

TEST(TesseraCollective, ARankThatDoesNotComeIsATimeoutForAll) {
  session s(3);
  auto* x = numbered(s, 3, 100);
  const auto streams = bound_streams(s, 3);
  const auto brief = share_for(x, 50);
  for (int r : {0, 1}) {
    ASSERT_TESS(tessCollective(s.mesh, &brief, streams[static_cast<std::size_t>(r)]));
  }
  for (int r : {0, 1}) {
    EXPECT_EQ(tessStreamSynchronize(streams[static_cast<std::size_t>(r)]),
              TESS_ERR_TIMEOUT);
  }
  EXPECT_EQ(tessAllReduce(s.mesh, x, 100, TESS_INT64, TESS_COLL_SUM, nullptr, streams[2]),
            TESS_ERR_TIMEOUT)
      << "the call comes after the timeout of its group";
  ASSERT_TESS(tessMeshRecover(s.mesh, -1));
  for (tessStream_t one : streams) {
    ASSERT_TESS(tessAllReduce(s.mesh, x, 100, TESS_INT64, TESS_COLL_MAX, nullptr, one));
  }
  for (tessStream_t one : streams) {
    EXPECT_TESS(tessStreamSynchronize(one));
  }
  EXPECT_EQ(s.read(x, 100, 0)[0], number(2, 0));
}

// Both groups lack a rank. The shares of the second group have the longer limit, and no
// call follows theirs.
TEST(TesseraCollective, EachOfSeveralGroupsThatWaitHasItsTimeout) {
  session s(4, {2, 1, 2, 1});
  auto* x = numbered(s, 4, 100);
  const auto streams = bound_streams(s, 4);
  // A failure must not hang the test, so the streams have a limit.
  for (tessStream_t one : streams) {
    ASSERT_TESS(tessStreamSetTimeout(one, 5'000));
  }
  auto brief = share_for(x, 20);
  brief.axis = "tp";
  auto longer = share_for(x, 60);
  longer.axis = "tp";
  ASSERT_TESS(tessCollective(s.mesh, &brief, streams[0]));
  ASSERT_TESS(tessCollective(s.mesh, &longer, streams[2]));
  for (const std::size_t r : {0U, 2U}) {
    EXPECT_EQ(tessStreamSynchronize(streams[r]), TESS_ERR_TIMEOUT);
    EXPECT_NE(std::string(tessGetLastErrorMessage()).find("not come to"),
              std::string::npos)
        << "rank " << r << ": " << tessGetLastErrorMessage();
  }
}

TEST(TesseraCollective, AShareWaitsAsLongAsItsCallSays) {
  const environment brief({{"TESS_TIMEOUT_MS", "20"}});
  session s(4, {2, 1, 2, 1});
  // The streams get no limit of their own, so that only the timeouts of the collectives
  // can end a wait.
  ASSERT_TESS(tessStreamSetTimeout(s.stream, 0));
  auto* x = numbered(s, 4, 100);
  const auto streams = bound_streams(s, 4);
  for (tessStream_t one : streams) {
    ASSERT_TESS(tessStreamSetTimeout(one, 0));
  }
  // Ranks 0 and 1 form one group, ranks 2 and 3 another.
  auto patient = share_for(x, -1);
  patient.axis = "tp";
  auto usual = share_for(x, 0);
  usual.axis = "tp";
  ASSERT_TESS(tessCollective(s.mesh, &patient, streams[0]));
  ASSERT_TESS(tessCollective(s.mesh, &usual, streams[2]));
  EXPECT_EQ(tessStreamSynchronize(streams[2]), TESS_ERR_TIMEOUT);
  // Rank 0 called before rank 2 did and has no timeout, so it still waits.
  ASSERT_TESS(tessCollective(s.mesh, &patient, streams[1]));
  EXPECT_TESS(tessStreamSynchronize(streams[0]));
  EXPECT_TESS(tessStreamSynchronize(streams[1]));
  EXPECT_EQ(s.read(x, 100, 0)[1], number(0, 1) + number(1, 1));
}

TEST(TesseraCollective, ACallCanHaveAShorterTimeoutThanTheEnvironment) {
  const environment patient({{"TESS_TIMEOUT_MS", "600000"}});
  session s(2);
  auto* x = numbered(s, 2, 100);
  const auto streams = bound_streams(s, 2);
  auto d = share_for(x, 20);
  ASSERT_TESS(tessCollective(s.mesh, &d, streams[0]));
  EXPECT_EQ(tessStreamSynchronize(streams[0]), TESS_ERR_TIMEOUT);
  d.timeoutMs = -2;
  EXPECT_EQ(tessCollective(s.mesh, &d, streams[1]), TESS_ERR_INVALID_VALUE);
  d.timeoutMs = INT64_MAX;
  EXPECT_EQ(tessCollective(s.mesh, &d, streams[1]), TESS_ERR_INVALID_VALUE);
  // A program compiled before the member existed passes a smaller size and does not set
  // it.
  d.structSize = offsetof(tessCollectiveDesc, timeoutMs);
  EXPECT_EQ(tessCollective(s.mesh, &d, streams[1]), TESS_ERR_TIMEOUT)
      << "rank 0 has left after its timeout";
  --d.structSize;
  EXPECT_EQ(tessCollective(s.mesh, &d, streams[1]), TESS_ERR_INVALID_VALUE);
}

TEST(TesseraCollective, TheirDescriptorSaysHowNumbersAreAddedAndSent) {
  session s(4);
  auto* x = s.memory<char>(4096);
  const auto determinism_of = [&](const tessCollectiveDesc& d) {
    EXPECT_TESS(tessCollective(s.mesh, &d, s.stream));
    tessDeterminism out{};
    out.structSize = sizeof out;
    EXPECT_TESS(tessStreamGetDeterminism(s.stream, &out));
    return out;
  };
  const auto under = [&](tessNumericsPolicy p) {
    EXPECT_TESS(tessSetNumericsPolicy(s.context, &p));
  };
  auto d = share_for(x, 0);
  d.dtype = TESS_BF16;
  d.algorithm = "tree";
  d.chunkBytes = 256;
  under({0, 1, 0, 0});
  const tessDeterminism tree = determinism_of(d);
  EXPECT_EQ(tree.level, 1U);
  EXPECT_EQ(tree.policy, 2U);
  EXPECT_EQ(tree.algorithm, 2U);
  EXPECT_EQ(tree.accumulate, uint32_t{TESS_FP32});
  EXPECT_EQ(tree.wire, 0U);
  EXPECT_EQ(tree.chunkBytes, 256U);
  EXPECT_EQ(determinism_of(d).digest, tree.digest) << "the same call has the same digest";
  d.algorithm = "ring";
  EXPECT_NE(determinism_of(d).digest, tree.digest);
  under({1, 1, 1, 0});
  const tessDeterminism exact = determinism_of(d);
  EXPECT_EQ(exact.policy, 7U);
  EXPECT_EQ(exact.accumulate, uint32_t{TESS_FP64}) << "the sum is exact and rounded once";
  under({0, 0, 1, 1});
  d.algorithm = nullptr;
  d.dtype = TESS_FP32;
  d.wireDtype = TESS_FP8_E4M3;
  const tessDeterminism rounded = determinism_of(d);
  EXPECT_EQ(rounded.policy, 12U);
  EXPECT_EQ(rounded.algorithm, 4U);
  EXPECT_EQ(rounded.wire, uint32_t{TESS_FP8_E4M3});
  d.kind = TESS_COLLECTIVE_ALL_GATHER;
  d.wireDtype = 0;
  EXPECT_EQ(determinism_of(d).accumulate, 0U)
      << "a collective that adds nothing has no accumulation type";
  EXPECT_TESS(tessStreamSynchronize(s.stream));
}

TEST(TesseraCollective, RanksWithOtherSeedsOrTogglesDisagree) {
  session s(2);
  auto* x = s.memory<float>(4);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const auto streams = bound_streams(s, 2);
  const auto share = [&](uint64_t seed, uint32_t toggles, std::size_t rank) {
    ASSERT_TESS(tessSetDeterminism(s.context, seed, toggles));
    ASSERT_TESS(
        tessAllReduce(s.mesh, x, 4, TESS_FP32, TESS_COLL_SUM, nullptr, streams[rank]));
  };
  const auto both_end = [&](tessStatus_t how) {
    for (tessStream_t one : streams) {
      EXPECT_EQ(tessStreamSynchronize(one), how);
    }
  };
  share(5, 7, 0);
  share(6, 7, 1);
  both_end(TESS_ERR_DETERMINISM_VIOLATION);
  share(5, 3, 0);
  share(5, 7, 1);
  both_end(TESS_ERR_DETERMINISM_VIOLATION);
  share(5, 7, 0);
  share(5, 7, 1);
  both_end(TESS_OK);
}

TEST(TesseraCollective, RanksThatRoundDifferentlyBetweenThemDisagree) {
  session s(2);
  auto* x = s.memory<float>(256);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const auto streams = bound_streams(s, 2);
  const tessNumericsPolicy rounding{0, 0, 1, 1};
  ASSERT_TESS(tessSetNumericsPolicy(s.context, &rounding));
  for (const int second : {TESS_FP8_E4M3, TESS_BF16}) {
    tessCollectiveDesc d{};
    d.structSize = sizeof d;
    d.sendbuf = x;
    d.count = 256;
    d.dtype = TESS_FP32;
    d.wireDtype = TESS_BF16;
    ASSERT_TESS(tessCollective(s.mesh, &d, streams[0]));
    d.wireDtype = second;
    ASSERT_TESS(tessCollective(s.mesh, &d, streams[1]));
    for (tessStream_t one : streams) {
      EXPECT_EQ(tessStreamSynchronize(one),
                second == TESS_BF16 ? TESS_OK : TESS_ERR_COLLECTIVE_MISMATCH);
    }
  }
}

TEST(TesseraCollective, MemoryThatWasFreedBehindACallIsStillItsOwn) {
  session s(2);
  auto* x = numbered(s, 2, 3);
  const auto streams = bound_streams(s, 2);
  tessStream_t late = nullptr;
  const tessStreamDesc desc{sizeof desc, 0, 1, 0, 0, -1};
  ASSERT_TESS(tessStreamCreateEx(s.mesh, &desc, &late));
  // Rank 0 waits for a send that rank 1 calls last, and rank 1 for the barrier of rank 0.
  ASSERT_TESS(tessSendRecv(s.mesh, nullptr, nullptr, 0, TESS_FP32, 0, 1, streams[0]));
  std::vector<int64_t> got[2] = {std::vector<int64_t>(3), std::vector<int64_t>(3)};
  for (std::size_t r : {0U, 1U}) {
    ASSERT_TESS(tessBarrier(s.mesh, nullptr, streams[r]));
    ASSERT_TESS(
        tessAllReduce(s.mesh, x, 3, TESS_INT64, TESS_COLL_SUM, nullptr, streams[r]));
    ASSERT_TESS(tessMemcpyAsync(got[r].data(), x, 24, TESS_COPY_D2H, streams[r]));
  }
  ASSERT_TESS(tessFree(s.mesh, x));
  ASSERT_TESS(tessSendRecv(s.mesh, nullptr, nullptr, 0, TESS_FP32, 0, 1, late));
  for (std::size_t r : {0U, 1U}) {
    ASSERT_TESS(tessStreamSynchronize(streams[r]));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(got[r][i], number(0, i) + number(1, i)) << "rank " << r;
    }
  }
}

TEST(TesseraCollective, BuffersThatOverlapAreRefused) {
  session s(2);
  auto* x = s.memory<float>(16);
  tessCollectiveDesc d{};
  d.structSize = sizeof d;
  d.dtype = TESS_FP32;
  d.count = 8;
  const auto post = [&](tessCollectiveKind kind, std::size_t from, std::size_t to) {
    d.kind = kind;
    d.sendbuf = x + from;
    d.recvbuf = x + to;
    return tessCollective(s.mesh, &d, s.stream);
  };
  for (const tessCollectiveKind kind :
       {TESS_COLLECTIVE_ALL_REDUCE, TESS_COLLECTIVE_ALL_TO_ALL,
        TESS_COLLECTIVE_SCATTER}) {
    EXPECT_TESS(post(kind, 0, 8));
    EXPECT_TESS(post(kind, 8, 0));
    EXPECT_TESS(post(kind, 4, 4));
    EXPECT_EQ(post(kind, 0, 1), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(post(kind, 7, 0), TESS_ERR_INVALID_VALUE);
  }
  // A packed shard inside the full buffer would be written while other ranks read it.
  d.packedShards = 1;
  EXPECT_EQ(post(TESS_COLLECTIVE_ALL_GATHER, 0, 0), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(post(TESS_COLLECTIVE_REDUCE_SCATTER, 0, 0), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(post(TESS_COLLECTIVE_REDUCE_SCATTER, 0, 7), TESS_ERR_INVALID_VALUE);
  EXPECT_TESS(post(TESS_COLLECTIVE_REDUCE_SCATTER, 0, 8));
  EXPECT_TESS(post(TESS_COLLECTIVE_ALL_GATHER, 8, 0));
  EXPECT_TESS(tessStreamSynchronize(s.stream));
}

TEST(TesseraCollective, VerificationComparesTwoSchedules) {
  const environment verify({{"TESS_VERIFY_DETERMINISM", "1"}});
  session s(4);
  constexpr std::size_t count = 4 * 5003;
  auto* x = numbered(s, 4, count);
  ASSERT_TESS(
      tessAllReduce(s.mesh, x, count, TESS_INT64, TESS_COLL_MAX, nullptr, s.stream));
  ASSERT_TESS(
      tessReduceScatter(s.mesh, x, count, TESS_INT64, TESS_COLL_SUM, nullptr, s.stream));
  ASSERT_TESS(tessAllGather(s.mesh, x, count, TESS_INT64, nullptr, s.stream));
  EXPECT_EQ(s.read(x, count, 2)[77], 4 * number(3, 77));
}

TEST(TesseraCollective, ConsecutiveCallsAreCorrectInEitherDirection) {
  session s(4);
  constexpr std::size_t count = 150'001;
  auto* x = numbered(s, 4, count);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TESS(
        tessAllReduce(s.mesh, x, count, TESS_INT64, TESS_COLL_SUM, nullptr, s.stream));
  }
  for (const int rank : {0, 3}) {
    const auto got = s.read(x, count, rank);
    for (std::size_t i = 0; i < count; ++i) {
      const int64_t once = 10'000 + 4 * (static_cast<int64_t>(i) * 7 % 100);
      ASSERT_EQ(got[i], 16 * once) << "rank " << rank << " element " << i;
    }
  }
}

TEST(TesseraCollective, BarriersAndBracketsAreThere) {
  session s(4);
  EXPECT_TESS(tessGroupStart());
  EXPECT_TESS(tessBarrier(s.mesh, "dp", s.stream));
  EXPECT_TESS(tessGroupEnd());
  EXPECT_EQ(tessGroupEnd(), TESS_ERR_INVALID_VALUE);
  EXPECT_TESS(tessStreamSynchronize(s.stream));
}

TEST(TesseraCollective, GivesTheSameBitsOnAnyNumberOfWorkers) {
  std::vector<std::vector<float>> results;
  for (const char* workers : {"1", "2", "4"}) {
    for (const char* algorithm : {"direct", "ring", "tree", "hierarchical"}) {
      const environment set({{"TESS_NUM_THREADS", workers},
                             {"TESS_COLL_ALGO", algorithm},
                             {"TESS_TOPOLOGY", "2x4"}});
      session s(8);
      const tessNumericsPolicy canonical{0, 1, 1, 0};
      ASSERT_TESS(tessSetNumericsPolicy(s.context, &canonical));
      constexpr std::size_t count = 100'003;
      auto* x = s.memory<float>(count);
      for (int r = 0; r < 8; ++r) {
        std::vector<float> values(count);
        for (std::size_t i = 0; i < count; ++i) {
          values[i] =
              static_cast<float>((i * 2654435761U + static_cast<unsigned>(r) * 40503U) %
                                 1000003) /
              static_cast<float>(1 + (i + static_cast<unsigned>(r)) % 97);
        }
        ASSERT_TESS(
            tessMemcpyRankAsync(x, values.data(), count * 4, TESS_COPY_H2D, r, s.stream));
        ASSERT_TESS(tessStreamSynchronize(s.stream));
      }
      ASSERT_TESS(
          tessAllReduce(s.mesh, x, count, TESS_FP32, TESS_COLL_SUM, nullptr, s.stream));
      results.push_back(s.read(x, count, 7));
    }
  }
  for (const auto& one : results) {
    EXPECT_EQ(one, results.front());
  }
}

}  // namespace
}  // namespace weir::test
