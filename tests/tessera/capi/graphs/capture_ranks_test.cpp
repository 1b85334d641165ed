// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests collectives in graphs that each rank calls itself, with a thread for each rank
/// as in programs written for NCCL.
#include <functional>
#include <thread>

#include "support.hpp"

namespace weir::test {
namespace {

/// Arguments of rank_step, which stores 3 * from + value + rank at `to`.
struct rank_arguments {
  int32_t* to;
  const int32_t* from;
  int32_t value;
  int32_t pad = 0;
};
int rank_step(const tessBlockContext* block, const void* args) {
  const auto* a = static_cast<const rank_arguments*>(args);
  *a->to = *a->from * 3 + a->value + block->rank;
  return 0;
}

/// Four ranks with a stream each.
class TesseraCaptureRanks : public testing::Test {
 protected:
  static constexpr int ranks = 4;
  static constexpr tessLaunchConfig one{{1, 1, 1}, {1, 1, 1}, 0, 0};

  void SetUp() override {
    x = s.memory<int32_t>(8);
    ASSERT_TESS(tessStreamSynchronize(s.stream));
    for (int r = 0; r < ranks; ++r) {
      own.push_back(stream_of(r));
    }
  }
  tessStream_t stream_of(int rank) {
    const tessStreamDesc desc{sizeof desc, 0, rank, 0, 0, -1};
    tessStream_t out = nullptr;
    EXPECT_TESS(tessStreamCreateEx(s.mesh, &desc, &out));
    return out;
  }
  tessStream_t& own_stream(int rank) { return own[static_cast<std::size_t>(rank)]; }
  void step(tessStream_t stream, int32_t* to, const int32_t* from, int32_t value) {
    const rank_arguments args{to, from, value};
    EXPECT_TESS(tessLaunch(m["rank_step"], s.mesh, one, &args, sizeof args, stream));
  }
  tessStatus_t sum(int32_t* address, tessStream_t stream, const char* axis = nullptr,
                   int64_t timeout_ms = 0) {
    tessCollectiveDesc d{};
    d.structSize = sizeof d;
    d.sendbuf = address;
    d.recvbuf = address;
    d.count = 1;
    d.dtype = TESS_INT32;
    d.axis = axis;
    d.timeoutMs = timeout_ms;
    return tessCollective(s.mesh, &d, stream);
  }
  /// Calls one round of a rank's work on its own stream.
  void work(int rank, int32_t value) {
    step(own_stream(rank), x, x, value);
    EXPECT_TESS(sum(x, own_stream(rank)));
    step(own_stream(rank), x + 1, x, 0);
    EXPECT_TESS(sum(x + 1, own_stream(rank), "tp"));
    EXPECT_TESS(tessMemcpyAsync(x + 2, x + 1, 4, TESS_COPY_D2D, own_stream(rank)));
  }
  tessGraphExec_t captured(int rank, const std::function<void()>& calls) {
    tessGraph_t graph = nullptr;
    tessGraphExec_t out = nullptr;
    EXPECT_TESS(tessStreamBeginCapture(own_stream(rank)));
    calls();
    EXPECT_TESS(tessStreamEndCapture(own_stream(rank), &graph));
    EXPECT_TESS(tessGraphInstantiate(graph, &out));
    EXPECT_TESS(tessGraphDestroy(graph));
    return out;
  }
  void each_rank(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r) {
      threads.emplace_back([&body, r] { body(r); });
    }
    for (std::thread& t : threads) {
      t.join();
    }
  }
  std::vector<int32_t> state() {
    std::vector<int32_t> out;
    for (int r = 0; r < ranks; ++r) {
      const auto part = s.read(x, 3, r);
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }

  session s{ranks, {2, 1, 2, 1}};
  registered_module m{s.context,
                      {{"rank_step",
                        rank_step,
                        {pointer_to("to", TESS_INT32), pointer_to("from", TESS_INT32),
                         value("value", TESS_INT32, 4), value("pad", TESS_INT32, 4)}}}};
  int32_t* x = nullptr;
  std::vector<tessStream_t> own;
};

TEST_F(TesseraCaptureRanks, ReplayedNTimesEqualsEagerNTimes) {
  constexpr int rounds = 6;
  each_rank([&](int r) {
    for (int i = 0; i < rounds; ++i) {
      work(r, 2);
    }
    EXPECT_TESS(tessStreamSynchronize(own_stream(r)));
  });
  const std::vector<int32_t> expected = state();
  ASSERT_TESS(tessMemsetAsync(x, 0, 32, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  each_rank([&](int r) {
    const tessGraphExec_t exec = captured(r, [&] { work(r, 2); });
    for (int i = 0; i < rounds; ++i) {
      if (i == 2) {
        work(r, 2);  // direct calls and runs of the graph alternate
      } else {
        EXPECT_TESS(tessGraphLaunch(exec, own_stream(r)));
      }
    }
    // Destroys the graph while runs are in progress.
    EXPECT_TESS(tessGraphExecDestroy(exec));
    EXPECT_TESS(tessStreamSynchronize(own_stream(r)));
  });
  EXPECT_EQ(state(), expected);
}

TEST_F(TesseraCaptureRanks, OneRankMayCallWhatAnotherHasInAGraph) {
  each_rank([&](int r) {
    if (r % 2 == 0) {
      const tessGraphExec_t exec = captured(r, [&] { work(r, 1); });
      EXPECT_TESS(tessGraphLaunch(exec, own_stream(r)));
      EXPECT_TESS(tessGraphLaunch(exec, own_stream(r)));
    } else {
      work(r, 1);
      work(r, 1);
    }
    EXPECT_TESS(tessStreamSynchronize(own_stream(r)));
  });
  const std::vector<int32_t> mixed = state();
  ASSERT_TESS(tessMemsetAsync(x, 0, 32, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  each_rank([&](int r) {
    work(r, 1);
    work(r, 1);
    EXPECT_TESS(tessStreamSynchronize(own_stream(r)));
  });
  EXPECT_EQ(mixed, state());
}

/// Each rank runs one graph on two streams in turn. One of its collectives is on a stream
/// that joined the capture.
TEST_F(TesseraCaptureRanks, RunsOfOneGraphGoOneAfterAnotherOnAnyStreams) {
  each_rank([&](int r) {
    const tessStream_t side = stream_of(r);
    const tessStream_t elsewhere = stream_of(r);
    tessEvent_t fork = nullptr;
    tessEvent_t join = nullptr;
    EXPECT_TESS(tessEventCreate(&fork));
    EXPECT_TESS(tessEventCreate(&join));
    const tessGraphExec_t exec = captured(r, [&] {
      EXPECT_TESS(tessEventRecord(fork, own_stream(r)));
      EXPECT_TESS(tessStreamWaitEvent(side, fork));
      step(side, x + 1, x + 1, 1);
      EXPECT_TESS(sum(x + 1, side, "dp"));
      step(own_stream(r), x, x, 1);
      EXPECT_TESS(sum(x, own_stream(r)));
      EXPECT_TESS(tessEventRecord(join, side));
      EXPECT_TESS(tessStreamWaitEvent(own_stream(r), join));
      step(own_stream(r), x + 2, x + 1, 0);
    });
    for (int i = 0; i < 5; ++i) {
      EXPECT_TESS(tessGraphLaunch(exec, i % 2 == 0 ? own_stream(r) : elsewhere));
    }
    EXPECT_TESS(tessStreamSynchronize(own_stream(r)));
    EXPECT_TESS(tessStreamSynchronize(elsewhere));
  });
  std::vector<int32_t> all(ranks);
  std::vector<int32_t> pairs(ranks);
  for (int i = 0; i < 5; ++i) {
    for (int r = 0; r < ranks; ++r) {
      all[static_cast<std::size_t>(r)] = 3 * all[static_cast<std::size_t>(r)] + 1 + r;
      pairs[static_cast<std::size_t>(r)] = 3 * pairs[static_cast<std::size_t>(r)] + 1 + r;
    }
    all.assign(ranks, all[0] + all[1] + all[2] + all[3]);
    pairs = {pairs[0] + pairs[2], pairs[1] + pairs[3], pairs[0] + pairs[2],
             pairs[1] + pairs[3]};
  }
  for (int r = 0; r < ranks; ++r) {
    const auto found = s.read(x, 3, r);
    const int32_t pair = pairs[static_cast<std::size_t>(r)];
    EXPECT_EQ(found, (std::vector<int32_t>{all[0], pair, 3 * pair + r})) << r;
  }
}

TEST_F(TesseraCaptureRanks, GroupsOfCallsAreCapturedToo) {
  each_rank([&](int r) {
    const tessGraphExec_t exec = captured(r, [&] {
      step(own_stream(r), x, x, 1);
      EXPECT_TESS(tessGroupStart());
      // Both ranks of a pair make the calls in the same order. Neither waits for the
      // other inside the group, because all its calls start together.
      for (int i = 0; i < 2; ++i) {
        const int peer = (r + 2) % ranks;
        const int source = i == 0 ? r : peer;
        const int target = i == 0 ? peer : r;
        EXPECT_TESS(
            tessSendRecv(s.mesh, x, x + 1, 1, TESS_INT32, source, target, own_stream(r)));
      }
      EXPECT_TESS(tessGroupEnd());
    });
    for (int i = 0; i < 3; ++i) {
      EXPECT_TESS(tessGraphLaunch(exec, own_stream(r)));
    }
    EXPECT_TESS(tessStreamSynchronize(own_stream(r)));
  });
  for (int r = 0; r < ranks; ++r) {
    const int32_t peer = (r + 2) % ranks;
    EXPECT_EQ(s.read(x + 1, 1, r)[0], 13 * (1 + peer)) << r;  // 1 + 3 + 9 times
  }
}

TEST_F(TesseraCaptureRanks, ARankThatDoesNotComeEndsARunAndRecoversForTheNext) {
  std::vector<tessGraphExec_t> execs;
  for (int r = 0; r < ranks; ++r) {
    execs.push_back(captured(r, [&] {
      step(own_stream(r), x, x, 1);
      EXPECT_TESS(sum(x, own_stream(r), nullptr, 50));
      step(own_stream(r), x + 1, x, 0);
    }));
  }
  for (int r = 0; r < ranks - 1; ++r) {
    ASSERT_TESS(tessGraphLaunch(execs[static_cast<std::size_t>(r)], own_stream(r)));
  }
  for (int r = 0; r < ranks - 1; ++r) {
    EXPECT_EQ(tessStreamSynchronize(own_stream(r)), TESS_ERR_TIMEOUT) << r;
    EXPECT_TESS(tessStreamSynchronize(own_stream(r)));
    EXPECT_EQ(s.read(x + 1, 1, r)[0], 0)
        << "operations behind the failed collective are skipped";
  }
  EXPECT_EQ(tessGraphLaunch(execs[0], own_stream(0)), TESS_ERR_TIMEOUT)
      << "the launch is refused at once";
  EXPECT_NE(std::string(tessGetLastErrorMessage()).find("tessMeshRecover"),
            std::string::npos);
  ASSERT_TESS(tessMeshRecover(s.mesh, -1));
  ASSERT_TESS(tessMemsetAsync(x, 0, 32, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  for (int r = 0; r < ranks; ++r) {
    ASSERT_TESS(tessGraphLaunch(execs[static_cast<std::size_t>(r)], own_stream(r)));
  }
  for (int r = 0; r < ranks; ++r) {
    EXPECT_TESS(tessStreamSynchronize(own_stream(r)));
    EXPECT_EQ(s.read(x, 2, r), (std::vector<int32_t>{10, 30 + r}));
  }
}

TEST_F(TesseraCaptureRanks, EachRankChangesItsOwnNode) {
  each_rank([&](int r) {
    const tessGraphExec_t exec = captured(r, [&] {
      step(own_stream(r), x, x, 1);
      EXPECT_TESS(sum(x, own_stream(r)));
    });
    EXPECT_TESS(tessGraphLaunch(exec, own_stream(r)));
    tessCollectiveDesc d{};
    d.structSize = sizeof d;
    d.sendbuf = x;
    d.recvbuf = x;
    d.count = 1;
    d.dtype = TESS_INT32;
    d.op = TESS_COLL_MAX;
    EXPECT_TESS(tessGraphExecUpdateCollective(exec, 1, &d, own_stream(r)));
    EXPECT_EQ(tessGraphExecUpdateCollective(exec, 1, &d, s.stream),
              TESS_ERR_INVALID_VALUE);
    const rank_arguments args{x, x, 7};
    EXPECT_TESS(tessGraphExecUpdateLaunch(exec, 0, m["rank_step"], one, &args,
                                          sizeof args, own_stream(r)));
    EXPECT_TESS(tessGraphLaunch(exec, own_stream(r)));
    EXPECT_TESS(tessStreamSynchronize(own_stream(r)));
  });
  EXPECT_EQ(s.read(x, 1)[0], 3 * 10 + 7 + 3);
}

TEST_F(TesseraCaptureRanks, AGraphInWhichRanksMeetIsNoNodeOfAnother) {
  const tessGraphExec_t exec = captured(0, [&] { EXPECT_TESS(sum(x, own_stream(0))); });
  ASSERT_TESS(tessStreamBeginCapture(own_stream(0)));
  EXPECT_EQ(tessGraphLaunch(exec, own_stream(0)), TESS_ERR_UNSUPPORTED);
  tessGraph_t graph = nullptr;
  ASSERT_TESS(tessStreamEndCapture(own_stream(0), &graph));
}

TEST_F(TesseraCaptureRanks, MeshesAndContextsGoWhileARunWaits) {
  const tessGraphExec_t exec =
      captured(0, [&] { EXPECT_TESS(sum(x, own_stream(0), nullptr, -1)); });
  ASSERT_TESS(tessGraphLaunch(exec, own_stream(0)));
  ASSERT_TESS(tessGraphLaunch(exec, own_stream(0)));
  ASSERT_TESS(tessGraphExecDestroy(exec));
  const tessGraphExec_t other =
      captured(1, [&] { EXPECT_TESS(sum(x, own_stream(1), "tp", -1)); });
  ASSERT_TESS(tessGraphLaunch(other, own_stream(1)));
  EXPECT_TESS(tessMeshDestroy(s.mesh));
}

/// Memory and launches of other graphs may be nodes beside collectives.
TEST_F(TesseraCaptureRanks, OtherNodesAreWhatTheyAreInAllGraphs) {
  each_rank([&](int r) {
    const tessGraphExec_t inner = captured(r, [&] { step(own_stream(r), x, x, 1); });
    const tessGraphExec_t exec = captured(r, [&] {
      void* p = nullptr;
      EXPECT_TESS(tessMallocAsync(&p, 4, own_stream(r)));
      EXPECT_TESS(tessFreeAsync(p, own_stream(r)));
      EXPECT_TESS(tessGraphLaunch(inner, own_stream(r)));
      EXPECT_TESS(sum(x, own_stream(r)));
      EXPECT_TESS(tessGraphLaunch(inner, own_stream(r)));
    });
    for (int i = 0; i < 3; ++i) {
      EXPECT_TESS(tessGraphLaunch(exec, own_stream(r)));
    }
    EXPECT_TESS(tessGraphExecDestroy(inner));
    EXPECT_TESS(tessStreamSynchronize(own_stream(r)));
  });
  std::vector<int32_t> now(ranks);
  for (int i = 0; i < 3; ++i) {
    int32_t sum = 0;
    for (int r = 0; r < ranks; ++r) {
      sum += 3 * now[static_cast<std::size_t>(r)] + 1 + r;
    }
    for (int r = 0; r < ranks; ++r) {
      now[static_cast<std::size_t>(r)] = 3 * sum + 1 + r;
    }
  }
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(s.read(x, 1, r)[0], now[static_cast<std::size_t>(r)]) << r;
  }
}

}  // namespace
}  // namespace weir::test
