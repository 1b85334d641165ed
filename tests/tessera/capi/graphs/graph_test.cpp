// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests captures, replays and persistent kernels.
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "support.hpp"

namespace weir::test {
namespace {

/// Arguments of mix_kernel.
struct mix_arguments {
  float* x;
  float factor;
  int32_t pad = 0;
};
int mix_kernel(const tessBlockContext* block, const void* args) {
  const auto* a = static_cast<const mix_arguments*>(args);
  float& x = a->x[block->blockIndex[0]];
  x = x * a->factor + 1.0F / static_cast<float>(block->blockIndex[0] + 1 + block->rank);
  return 0;
}
/// Fails in every block.
int failing_in_graph(const tessBlockContext*, const void*) {
  return 9;
}
int failing_on_rank_1(const tessBlockContext* block, const void*) {
  return block->rank == 1 ? 11 : 0;
}
int failing_on_rank_0(const tessBlockContext* block, const void*) {
  return block->rank == 0 ? 12 : 0;
}
std::atomic<int> rounds_run{0};
/// Persistent kernel that counts rounds until it is asked to stop.
int spinning_kernel(const tessBlockContext* block, const void*) {
  while (block->services->gridBarrier(block) == 0) {
    if (block->blockIndex[0] == 0) {
      ++rounds_run;
    }
  }
  return 0;
}
/// Persistent kernel that waits until it is asked to stop and then fails in block 1.
int spinning_then_failing(const tessBlockContext* block, const void*) {
  ++rounds_run;
  while (block->services->stopRequested(block) == 0) {
    std::this_thread::yield();
  }
  return block->blockIndex[0] == 1 ? 5 : 0;
}

std::vector<registered_module::entry> graph_kernels() {
  constexpr uint32_t persistent =
      TESS_KERNEL_DETERMINISTIC | TESS_KERNEL_PERSISTENT_CAPABLE;
  return {
      {"mix", mix_kernel, {pointer_to("x", TESS_FP32), value("factor", TESS_FP32, 4)}},
      {"failing_in_graph", failing_in_graph, {}},
      {"failing_on_rank_1", failing_on_rank_1, {}},
      {"failing_on_rank_0", failing_on_rank_0, {}},
      {"spinning", spinning_kernel, {}, persistent | TESS_KERNEL_PERSISTENT_ONLY},
      {"spinning_failing", spinning_then_failing, {}, persistent}};
}

tessLaunchConfig grid_of(int n, unsigned flags = 0) {
  return {{n, 1, 1}, {1, 1, 1}, 0, flags};
}

/// A program on two streams with a fork, a join, copies and collectives.
class program {
 public:
  program(session& owner, const registered_module& m) : s_(owner), m_(m) {
    x = s_.memory<float>(count);
    y = s_.memory<float>(count);
    z = s_.memory<float>(count);
    EXPECT_TESS(tessStreamCreate(s_.mesh, 0, &side_));
    EXPECT_TESS(tessEventCreate(&fork_));
    EXPECT_TESS(tessEventCreate(&join_));
    EXPECT_TESS(tessStreamSynchronize(s_.stream));
  }
  /// Enqueues one round of the program; `flags` are those of its launches on the main
  /// stream.
  void enqueue(unsigned flags = 0) {
    mix(s_.stream, x, 0.5F, flags);
    EXPECT_TESS(tessEventRecord(fork_, s_.stream));
    EXPECT_TESS(tessStreamWaitEvent(side_, fork_));
    EXPECT_TESS(tessMemcpyAsync(y, x, count * 4, TESS_COPY_D2D, side_));
    mix(side_, y, 0.25F, 0);
    mix(s_.stream, z, 0.75F, flags);
    EXPECT_TESS(tessEventRecord(join_, side_));
    EXPECT_TESS(tessStreamWaitEvent(s_.stream, join_));
    EXPECT_TESS(
        tessAllReduce(s_.mesh, y, count, TESS_FP32, TESS_COLL_SUM, "dp", s_.stream));
    EXPECT_TESS(tessMemcpyAsync(x, y, count * 2, TESS_COPY_D2D, s_.stream));
    EXPECT_TESS(
        tessAllReduce(s_.mesh, z, count, TESS_FP32, TESS_COLL_MAX, "dp", s_.stream));
  }
  void mix(tessStream_t stream, float* buffer, float factor, unsigned flags) {
    const mix_arguments args{buffer, factor};
    EXPECT_TESS(tessLaunch(m_["mix"], s_.mesh, grid_of(count, flags), &args, 12, stream));
  }
  std::vector<float> state() {
    std::vector<float> out;
    for (int r = 0; r < 4; ++r) {
      for (float* const buffer : {x, z}) {
        const auto part = s_.read(buffer, count, r);
        out.insert(out.end(), part.begin(), part.end());
      }
    }
    return out;
  }

  static constexpr int count = 33;
  float* x = nullptr;
  float* y = nullptr;
  float* z = nullptr;

 private:
  session& s_;
  const registered_module& m_;
  tessStream_t side_ = nullptr;
  tessEvent_t fork_ = nullptr;
  tessEvent_t join_ = nullptr;
};

/// Returns the state after `times` rounds that were called without a graph.
std::vector<float> eager(int times) {
  session s(4);
  const registered_module m(s.context, graph_kernels());
  program p(s, m);
  for (int i = 0; i < times; ++i) {
    p.enqueue();
  }
  return p.state();
}

TEST(TesseraGraph, ReplayedNTimesEqualsEagerNTimes) {
  const std::vector<float> expected = eager(25);
  session s(4);
  const registered_module m(s.context, graph_kernels());
  program p(s, m);
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  p.enqueue();
  tessGraph_t graph = nullptr;
  ASSERT_TESS(tessStreamEndCapture(s.stream, &graph));
  EXPECT_EQ(p.state(), std::vector<float>(8 * program::count, 0.0F))
      << "a capture must not run its operations";
  tessGraphExec_t exec = nullptr;
  ASSERT_TESS(tessGraphInstantiate(graph, &exec));
  ASSERT_TESS(tessGraphDestroy(graph));
  tessStream_t elsewhere = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &elsewhere));
  for (int i = 0; i < 24; ++i) {
    ASSERT_TESS(tessGraphLaunch(exec, i < 12 ? elsewhere : s.stream));
    if (i == 11) {
      ASSERT_TESS(tessStreamSynchronize(elsewhere));
    }
  }
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  ASSERT_TESS(tessGraphExecDestroy(exec));
  EXPECT_EQ(tessGraphLaunch(exec, s.stream), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(p.state(), expected);
}

TEST(TesseraGraph, TheFlagRecordsAndRuns) {
  const std::vector<float> expected = eager(3);
  session s(4);
  const registered_module m(s.context, graph_kernels());
  program p(s, m);
  tessGraph_t graph = nullptr;
  EXPECT_EQ(tessStreamTakeGraph(s.stream, &graph), TESS_ERR_INVALID_VALUE);
  p.enqueue();
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  // The flag records one stream only; work on other streams is not part of the graph.
  const mix_arguments args{p.x, 0.5F};
  const auto before = p.state();
  ASSERT_TESS(tessLaunch(m["mix"], s.mesh, grid_of(program::count, TESS_LAUNCH_CAPTURE),
                         &args, 12, s.stream));
  ASSERT_TESS(tessMemcpyAsync(p.y, p.x, 8, TESS_COPY_D2D, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_NE(p.state(), before) << "the launch with the flag has run";
  ASSERT_TESS(tessStreamTakeGraph(s.stream, &graph));
  std::size_t nodes = 0;
  ASSERT_TESS(tessGraphGetNodeCount(graph, &nodes));
  EXPECT_EQ(nodes, 2U);
  std::size_t size = 0;
  ASSERT_TESS(tessGraphExport(graph, "json", nullptr, &size));
  std::string text(size, '\0');
  ASSERT_TESS(tessGraphExport(graph, "json", text.data(), &size));
  EXPECT_NE(text.find("\"mix\""), std::string::npos) << text;
  for (const char* member :
       {"\"kind\":\"kernel\"", "\"grid\":[", "\"block\":[", "\"arguments\":{\""}) {
    EXPECT_NE(text.find(member), std::string::npos) << member << " in " << text;
  }
  ASSERT_TESS(tessGraphExport(graph, "dot", nullptr, &size));
  EXPECT_EQ(tessGraphExport(graph, "png", nullptr, &size), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(expected.size(), before.size());
}

TEST(TesseraGraph, AnUpdatedNodeRunsWithItsNewArguments) {
  session s(4);
  const registered_module m(s.context, graph_kernels());
  auto* x = s.memory<float>(2);
  mix_arguments args{x, 0.0F};
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessLaunch(m["mix"], s.mesh, grid_of(1), &args, 12, s.stream));
  ASSERT_TESS(tessMemsetAsync(x + 1, 0, 4, s.stream));
  tessGraph_t graph = nullptr;
  tessGraphExec_t exec = nullptr;
  ASSERT_TESS(tessStreamEndCapture(s.stream, &graph));
  ASSERT_TESS(tessGraphInstantiate(graph, &exec));
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  EXPECT_EQ(s.read(x, 1)[0], 1.0F);
  args.factor = 10;
  ASSERT_TESS(
      tessGraphExecUpdateLaunch(exec, 0, m["mix"], grid_of(1), &args, 12, s.stream));
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  EXPECT_EQ(s.read(x, 1)[0], 11.0F);
  const auto refused = [&](size_t node, size_t bytes) {
    EXPECT_EQ(tessGraphExecUpdateLaunch(exec, node, m["mix"], grid_of(1), &args, bytes,
                                        s.stream),
              TESS_ERR_INVALID_VALUE);
    return std::string(tessGetLastErrorMessage());
  };
  EXPECT_EQ(refused(2, 12),
            "node of a graph not updated: expected one in [0, 2), found 2");
  EXPECT_EQ(
      refused(1, 12),
      "node 1 of a graph not updated: expected an operation like its \"fill\", found "
      "\"mix\"");
  EXPECT_NE(refused(0, 11).find("kernel \"mix\""), std::string::npos);
}

TEST(TesseraGraph, CapturesThatCannotBeWholeAreRefused) {
  session s(2);
  const registered_module m(s.context, graph_kernels());
  tessStream_t side = nullptr;
  tessEvent_t fork = nullptr;
  tessGraph_t graph = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &side));
  ASSERT_TESS(tessEventCreate(&fork));
  auto* x = s.memory<float>(1);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_EQ(tessStreamEndCapture(s.stream, &graph), TESS_ERR_INVALID_VALUE);
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  EXPECT_EQ(tessStreamBeginCapture(s.stream), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessStreamEndCapture(s.stream, &graph), TESS_ERR_INVALID_VALUE)
      << "the capture is invalid after a refused call";
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessMemsetAsync(x, 1, 4, s.stream));
  ASSERT_TESS(tessEventRecord(fork, s.stream));
  ASSERT_TESS(tessStreamWaitEvent(side, fork));
  ASSERT_TESS(tessMemsetAsync(x, 2, 4, side));
  EXPECT_EQ(tessStreamEndCapture(s.stream, &graph), TESS_ERR_INVALID_VALUE)
      << "the other stream has not joined the capture's stream again";
  ASSERT_TESS(tessMemsetAsync(x, 3, 4, side));
  EXPECT_TESS(tessStreamSynchronize(side));  // the stream works again without the capture
  const auto bits = s.read(reinterpret_cast<uint32_t*>(x), 1);
  EXPECT_EQ(bits[0], 0x03030303U);
  EXPECT_EQ(tessLaunch(m["spinning"], s.mesh,
                       grid_of(1, TESS_LAUNCH_CAPTURE | TESS_LAUNCH_PERSISTENT), nullptr,
                       0, s.stream),
            TESS_ERR_UNSUPPORTED);
}

TEST(TesseraGraph, EventsOfACaptureAreReachedNowhereElse) {
  session s(2);
  tessEvent_t mark = nullptr;
  tessGraph_t graph = nullptr;
  int done = 0;
  ASSERT_TESS(tessEventCreate(&mark));
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessEventRecord(mark, s.stream));
  ASSERT_TESS(tessStreamEndCapture(s.stream, &graph));
  EXPECT_EQ(tessEventQuery(mark, &done), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessEventSynchronize(mark), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessStreamWaitEvent(s.stream, mark), TESS_ERR_INVALID_VALUE);
  ASSERT_TESS(tessGraphDestroy(graph));
  EXPECT_EQ(tessStreamWaitEvent(s.stream, mark), TESS_ERR_INVALID_VALUE);
  EXPECT_TESS(tessStreamSynchronize(s.stream));
  ASSERT_TESS(tessEventRecord(mark, s.stream));
  EXPECT_TESS(tessEventSynchronize(mark));
}

TEST(TesseraGraph, AFailureInAGraphIsTheStreams) {
  session s(2);
  const registered_module m(s.context, graph_kernels());
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(
      tessLaunch(m["failing_in_graph"], s.mesh, grid_of(1), nullptr, 0, s.stream));
  tessGraph_t graph = nullptr;
  tessGraphExec_t exec = nullptr;
  ASSERT_TESS(tessStreamEndCapture(s.stream, &graph));
  ASSERT_TESS(tessGraphInstantiate(graph, &exec));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TESS(tessGraphLaunch(exec, s.stream));
    EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_LAUNCH_FAILED);
    EXPECT_TESS(tessStreamSynchronize(s.stream));
  }
}

/// Returns the message of a stream's last failure.
std::string message_of(tessStream_t stream) {
  std::size_t size = 0;
  EXPECT_TESS(tessStreamGetLastMessage(stream, nullptr, &size));
  std::string out(size, '\0');
  EXPECT_TESS(tessStreamGetLastMessage(stream, out.data(), &size));
  return out;
}

/// Captures one launch on the stream and returns its executable graph.
tessGraphExec_t graph_of(const session& s, tessStream_t stream, tessKernel_t kernel) {
  tessGraph_t graph = nullptr;
  tessGraphExec_t exec = nullptr;
  EXPECT_TESS(tessStreamBeginCapture(stream));
  EXPECT_TESS(tessLaunch(kernel, s.mesh, grid_of(1), nullptr, 0, stream));
  EXPECT_TESS(tessStreamEndCapture(stream, &graph));
  EXPECT_TESS(tessGraphInstantiate(graph, &exec));
  EXPECT_TESS(tessGraphDestroy(graph));
  return exec;
}

// Enqueues a failure before a graph that fails, and then in the other order. The message
// must name the kernel that failed first.
TEST(TesseraGraph, TheFirstFailureCountsWhetherItIsInAGraphOrBeforeIt) {
  session s(2);
  const registered_module m(s.context, graph_kernels());
  tessGraphExec_t late = graph_of(s, s.stream, m["failing_on_rank_0"]);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TESS(
        tessLaunch(m["failing_on_rank_1"], s.mesh, grid_of(1), nullptr, 0, s.stream));
    ASSERT_TESS(tessGraphLaunch(late, s.stream));
    EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_LAUNCH_FAILED);
    EXPECT_NE(message_of(s.stream).find("failing_on_rank_1"), std::string::npos);
    ASSERT_TESS(tessGraphLaunch(late, s.stream));
    ASSERT_TESS(
        tessLaunch(m["failing_on_rank_1"], s.mesh, grid_of(1), nullptr, 0, s.stream));
    EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_LAUNCH_FAILED);
    EXPECT_NE(message_of(s.stream).find("failing_on_rank_0"), std::string::npos);
  }
}

// The graph belongs to a stream of rank 0, the failure is on rank 1. Launched on the
// mesh's stream, the graph is behind the failure and must be skipped.
TEST(TesseraGraph, OfOneRanksStreamRunsBehindAFailureOfAnyRankNoMore) {
  session s(2);
  const registered_module m(s.context, graph_kernels());
  const tessStreamDesc desc{sizeof desc, 0, 0, 0, 0, -1};
  tessStream_t own = nullptr;
  ASSERT_TESS(tessStreamCreateEx(s.mesh, &desc, &own));
  auto* x = s.memory<float>(1);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  tessGraph_t graph = nullptr;
  tessGraphExec_t exec = nullptr;
  ASSERT_TESS(tessStreamBeginCapture(own));
  ASSERT_TESS(tessMemsetAsync(x, 1, 4, own));
  ASSERT_TESS(tessStreamEndCapture(own, &graph));
  ASSERT_TESS(tessGraphInstantiate(graph, &exec));
  ASSERT_TESS(
      tessLaunch(m["failing_on_rank_1"], s.mesh, grid_of(1), nullptr, 0, s.stream));
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_LAUNCH_FAILED);
  EXPECT_EQ(s.read(x, 1, 0)[0], 0.0F) << "operations behind the failure are skipped";
}

TEST(TesseraGraph, NodesAreUpdatedOnlyByWhatCanRunThere) {
  session s(2);
  const registered_module m(s.context, graph_kernels());
  tessGraphExec_t exec = graph_of(s, s.stream, m["failing_on_rank_0"]);
  const auto update = [&](tessKernel_t kernel, tessStream_t stream, unsigned flags = 0) {
    return tessGraphExecUpdateLaunch(exec, 0, kernel, grid_of(1, flags), nullptr, 0,
                                     stream);
  };
  const tessStreamDesc desc{sizeof desc, 0, 1, 0, 0, -1};
  tessStream_t own = nullptr;
  ASSERT_TESS(tessStreamCreateEx(s.mesh, &desc, &own));
  EXPECT_EQ(update(m["failing_on_rank_1"], own), TESS_ERR_INVALID_VALUE)
      << "a launch of one rank's stream cannot replace a launch on all devices";
  tessMesh_t mesh = nullptr;
  tessStream_t other = nullptr;
  const int id = 1;
  ASSERT_TESS(tessMeshCreate(s.context, &id, 1, {1, 1, 1, 1}, &mesh));
  ASSERT_TESS(tessStreamCreate(mesh, 0, &other));
  EXPECT_EQ(update(m["failing_on_rank_1"], other), TESS_ERR_INVALID_VALUE)
      << "a stream with fewer devices cannot replace the launch";
  EXPECT_EQ(update(m["spinning"], s.stream, TESS_LAUNCH_PERSISTENT),
            TESS_ERR_UNSUPPORTED);
  session elsewhere(2);
  EXPECT_EQ(update(m["failing_on_rank_1"], elsewhere.stream), TESS_ERR_INVALID_VALUE);
  ASSERT_TESS(update(m["failing_on_rank_1"], s.stream));
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_LAUNCH_FAILED);
  EXPECT_NE(message_of(s.stream).find("failing_on_rank_1"), std::string::npos);
}

TEST(TesseraGraph, IsLaunchedAndUpdatedWhileTheWindowIsFull) {
  gate gates[8];
  session s(2);
  const registered_module m(s.context, graph_kernels());
  tessStream_t full = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &full));
  auto* x = s.memory<float>(2);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const mix_arguments args{x, 1.0F};
  const mix_arguments other{x + 1, 1.0F};
  tessGraph_t graph = nullptr;
  tessGraphExec_t exec = nullptr;
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessLaunch(m["mix"], s.mesh, grid_of(1), &args, 12, s.stream));
  ASSERT_TESS(tessStreamEndCapture(s.stream, &graph));
  ASSERT_TESS(tessGraphInstantiate(graph, &exec));
  tessKernel_t mix = m["mix"];
  for (gate& before : gates) {
    ASSERT_TESS(tessGraphLaunch(exec, s.stream));
    ASSERT_TESS(tessStreamSynchronize(s.stream));
    before.put_into(full);
    std::atomic<pid_t> ids[3] = {};
    std::thread fills([&] {
      ids[0] = gettid();
      for (int i = 0; i < 20'000; ++i) {
        EXPECT_TESS(tessLaunch(mix, s.mesh, grid_of(1), &other, 12, full));
      }
    });
    until_asleep(ids[0]);
    std::thread launches([&] {
      ids[1] = gettid();
      EXPECT_TESS(tessGraphLaunch(exec, s.stream));
    });
    until_asleep(ids[1]);
    std::thread updates([&] {
      ids[2] = gettid();
      EXPECT_TESS(
          tessGraphExecUpdateLaunch(exec, 0, mix, grid_of(1), &args, 12, s.stream));
    });
    until_asleep(ids[2]);
    before.open();
    fills.join();
    launches.join();
    updates.join();
    ASSERT_TESS(tessStreamSynchronize(full));
  }
  EXPECT_EQ(s.read(x, 2), (std::vector<float>{16.0F, 160'000.0F}));
}

// A stream joins a capture by a wait and enqueues nothing. It must leave the capture when
// that ends, and it must not block the shutdown.
TEST(TesseraGraph, AStreamThatJoinedACaptureAndDidNothingGoesOn) {
  for (const bool goes_at_once : {true, false}) {
    session s(2);
    tessStream_t side = nullptr;
    tessEvent_t fork = nullptr;
    tessGraph_t graph = nullptr;
    int captures = 0;
    ASSERT_TESS(tessStreamCreate(s.mesh, 0, &side));
    ASSERT_TESS(tessEventCreate(&fork));
    auto* x = s.memory<float>(1);
    ASSERT_TESS(tessStreamSynchronize(s.stream));
    ASSERT_TESS(tessStreamBeginCapture(s.stream));
    ASSERT_TESS(tessEventRecord(fork, s.stream));
    ASSERT_TESS(tessStreamIsCapturing(side, &captures));
    EXPECT_EQ(captures, 0);
    ASSERT_TESS(tessStreamWaitEvent(side, fork));
    ASSERT_TESS(tessStreamIsCapturing(side, &captures));
    EXPECT_EQ(captures, 1) << "the stream has joined the capture";
    if (goes_at_once) {
      continue;  // the context can end
    }
    ASSERT_TESS(tessStreamEndCapture(s.stream, &graph));
    ASSERT_TESS(tessStreamIsCapturing(side, &captures));
    EXPECT_EQ(captures, 0);
    ASSERT_TESS(tessMemsetAsync(x, 3, 4, side));
    ASSERT_TESS(tessStreamSetTimeout(side, 60'000));
    EXPECT_TESS(tessStreamSynchronize(side));
    EXPECT_EQ(s.read(reinterpret_cast<uint32_t*>(x), 1)[0], 0x03030303U);
  }
}

TEST(TesseraGraph, NeedsItsMemoryWithinTheLimitOfTheStreamThatItIsLaunchedOn) {
  session s(4);
  const registered_module m(s.context, graph_kernels());
  auto* x = s.memory<float>(10'000);
  tessStream_t narrow = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &narrow));
  tessCollectiveDesc d{};
  d.structSize = sizeof d;
  d.sendbuf = x;
  d.count = 10'000;
  d.dtype = TESS_FP32;
  d.algorithm = "tree";  // needs scratch memory
  const mix_arguments args{x, 1.0F};
  tessLaunchConfig shared = grid_of(1);
  shared.shmemBytes = 8192;
  for (const bool collective : {true, false}) {
    // Recording allocates nothing, so the limit of the recording stream does not matter.
    ASSERT_TESS(tessStreamSetMemoryLimit(narrow, 4096));
    ASSERT_TESS(tessStreamBeginCapture(narrow));
    if (collective) {
      ASSERT_TESS(tessCollective(s.mesh, &d, narrow));
    } else {
      ASSERT_TESS(tessLaunch(m["mix"], s.mesh, shared, &args, sizeof args, narrow));
    }
    tessGraph_t graph = nullptr;
    tessGraphExec_t exec = nullptr;
    ASSERT_TESS(tessStreamEndCapture(narrow, &graph));
    ASSERT_TESS(tessGraphInstantiate(graph, &exec));
    ASSERT_TESS(tessGraphLaunch(exec, s.stream));
    EXPECT_TESS(tessStreamSynchronize(s.stream));
    ASSERT_TESS(tessGraphLaunch(exec, narrow));
    EXPECT_EQ(tessStreamSynchronize(narrow), TESS_ERR_OUT_OF_MEMORY) << collective;
    ASSERT_TESS(tessStreamSetMemoryLimit(narrow, 1 << 20));
    ASSERT_TESS(tessGraphLaunch(exec, narrow));
    EXPECT_TESS(tessStreamSynchronize(narrow));
    EXPECT_TESS(tessGraphExecDestroy(exec));
    EXPECT_TESS(tessGraphDestroy(graph));
  }
  EXPECT_TESS(tessStreamSynchronize(narrow));
}

TEST(TesseraPersistent, RunsUntilItIsAskedToStopAndHoldsItsStreamAlone) {
  session s;
  const registered_module m(s.context, graph_kernels());
  tessStream_t other = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &other));
  auto* x = s.memory<float>(1);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  rounds_run = 0;
  EXPECT_EQ(tessLaunch(m["spinning"], s.mesh, grid_of(2), nullptr, 0, s.stream),
            TESS_ERR_INVALID_VALUE)
      << "the kernel is marked for persistent launches only";
  EXPECT_EQ(
      tessLaunch(m["mix"], s.mesh, grid_of(1, TESS_LAUNCH_PERSISTENT), &x, 12, s.stream),
      TESS_ERR_UNSUPPORTED);
  EXPECT_EQ(tessLaunch(m["spinning"], s.mesh, grid_of(100'000, TESS_LAUNCH_PERSISTENT),
                       nullptr, 0, s.stream),
            TESS_ERR_INVALID_VALUE);
  ASSERT_TESS(tessLaunch(m["spinning"], s.mesh, grid_of(2, TESS_LAUNCH_PERSISTENT),
                         nullptr, 0, s.stream));
  // Enqueues far more operations behind the kernel and on another stream than fit into
  // the engine's window.
  const mix_arguments args{x, 1.0F};
  for (int i = 0; i < 40'000; ++i) {
    ASSERT_TESS(tessLaunch(m["mix"], s.mesh, grid_of(1), &args, 12,
                           i % 4 == 0 ? s.stream : other));
  }
  EXPECT_TESS(tessStreamSynchronize(other));
  int done = 1;
  ASSERT_TESS(tessStreamQuery(s.stream, &done));
  EXPECT_EQ(done, 0);
  const int seen = rounds_run;
  while (rounds_run == seen) {
    std::this_thread::yield();
  }
  ASSERT_TESS(tessStreamRequestStop(s.stream));
  EXPECT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_EQ(s.read(x, 1)[0], 40'000.0F);
}

TEST(TesseraPersistent, AFailureOfItPoisonsItsStream) {
  session s(2);
  const registered_module m(s.context, graph_kernels());
  auto* x = s.memory<float>(1);
  rounds_run = 0;
  ASSERT_TESS(tessLaunch(m["spinning_failing"], s.mesh,
                         grid_of(2, TESS_LAUNCH_PERSISTENT), nullptr, 0, s.stream));
  const mix_arguments args{x, 1.0F};
  ASSERT_TESS(tessLaunch(m["mix"], s.mesh, grid_of(1), &args, 12, s.stream));
  while (rounds_run == 0) {
    std::this_thread::yield();
  }
  ASSERT_TESS(tessStreamRequestStop(s.stream));
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_LAUNCH_FAILED);
  EXPECT_EQ(s.read(x, 1)[0], 0.0F);
}

TEST(TesseraPersistent, IsStoppedWithItsContext) {
  session s(2);
  const registered_module m(s.context, graph_kernels());
  ASSERT_TESS(tessLaunch(m["spinning"], s.mesh, grid_of(2, TESS_LAUNCH_PERSISTENT),
                         nullptr, 0, s.stream));
  EXPECT_TESS(tessShutdown(s.context));  // whether it has started or not
  s.context = nullptr;
}

}  // namespace
}  // namespace weir::test
