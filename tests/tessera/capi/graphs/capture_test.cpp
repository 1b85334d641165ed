// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests which threads may record into a capture, graphs as nodes of graphs, and updates
/// of nodes other than launches.
#include <functional>
#include <thread>

#include "support.hpp"

namespace weir::test {
namespace {

/// Arguments of captured_step_kernel.
struct captured_step_arguments {
  int32_t* to;
  const int32_t* from;
  int32_t value;
  int32_t slow_rank;
};
/// Computes to = 3 * from + value; slow on rank `slow_rank`.
int captured_step_kernel(const tessBlockContext* block, const void* args) {
  const auto* a = static_cast<const captured_step_arguments*>(args);
  if (a->slow_rank == block->rank) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  *a->to = 3 * *a->from + a->value;
  return 0;
}
/// Fails in every block.
int failing_step(const tessBlockContext*, const void*) {
  return 4;
}

/// Four devices, kernels, and short names for the calls on captures.
class TesseraCapture : public testing::Test {
 protected:
  static constexpr tessLaunchConfig one{{1, 1, 1}, {1, 1, 1}, 0, 0};

  void step(tessStream_t stream, int32_t* to, const int32_t* from, int32_t value,
            int slow_rank = -1) {
    const captured_step_arguments args{to, from, value, slow_rank};
    EXPECT_TESS(tessLaunch(m["step"], s.mesh, one, &args, sizeof args, stream));
  }
  tessStatus_t launch_nothing(tessStream_t stream) {
    const captured_step_arguments args{x, x, 0, -1};
    return tessLaunch(m["step"], s.mesh, one, &args, sizeof args, stream);
  }
  tessGraphExec_t ended(tessStream_t stream) {
    tessGraph_t graph = nullptr;
    tessGraphExec_t out = nullptr;
    EXPECT_TESS(tessStreamEndCapture(stream, &graph));
    EXPECT_TESS(tessGraphInstantiate(graph, &out));
    EXPECT_TESS(tessGraphDestroy(graph));
    return out;
  }
  tessStream_t stream() {
    tessStream_t out = nullptr;
    EXPECT_TESS(tessStreamCreate(s.mesh, 0, &out));
    return out;
  }
  tessEvent_t event() {
    tessEvent_t out = nullptr;
    EXPECT_TESS(tessEventCreate(&out));
    return out;
  }
  void SetUp() override {
    x = s.memory<int32_t>(count);
    y = s.memory<int32_t>(count);
    ASSERT_TESS(tessStreamSynchronize(s.stream));
  }

  static constexpr int count = 8;
  session s{4};
  registered_module m{
      s.context,
      {{"step",
        captured_step_kernel,
        {pointer_to("to", TESS_INT32), pointer_to("from", TESS_INT32),
         value("value", TESS_INT32, 4), value("slow_rank", TESS_INT32, 4)}},
       {"failing_step", failing_step, {}}}};
  int32_t* x = nullptr;
  int32_t* y = nullptr;
};

// Calls of other threads during a capture.

TEST_F(TesseraCapture, CallsOfOtherThreadsAreRefusedAndTheCaptureIsLostByDefault) {
  const tessEvent_t e = event();
  static int32_t host = 0;
  const std::vector<std::function<tessStatus_t()>> calls = {
      [&] { return launch_nothing(s.stream); },
      [&] { return tessMemcpyAsync(x, &host, 4, TESS_COPY_H2D, s.stream); },
      [&] { return tessMemsetAsync(x, 0, 4, s.stream); },
      [&] {
        return tessAllReduce(s.mesh, x, 4, TESS_INT32, TESS_COLL_SUM, nullptr, s.stream);
      },
      [&] {
        return tessLaunchHostFunc(
            s.stream, [](void*) {}, nullptr);
      },
      [&] { return tessEventRecord(e, s.stream); },
      [&] {
        void* p = nullptr;
        return tessMallocAsync(&p, 4, s.stream);
      },
      [&] { return tessStreamSynchronize(s.stream); },
      [&] {
        EXPECT_TESS(tessGroupStart());
        EXPECT_TESS(
            tessAllReduce(s.mesh, x, 4, TESS_INT32, TESS_COLL_SUM, nullptr, s.stream));
        return tessGroupEnd();
      },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    ASSERT_TESS(tessStreamBeginCapture(s.stream));
    ASSERT_TESS(launch_nothing(s.stream));
    tessStatus_t got = TESS_OK;
    std::string why;
    std::thread([&] {
      got = calls[i]();
      why = tessGetLastErrorMessage();
    }).join();
    EXPECT_EQ(got, TESS_ERR_INVALID_VALUE) << i;
    EXPECT_NE(why.find("another thread"), std::string::npos) << why;
    tessGraph_t graph = nullptr;
    EXPECT_EQ(tessStreamEndCapture(s.stream, &graph), TESS_ERR_INVALID_VALUE) << i;
    EXPECT_NE(std::string(tessGetLastErrorMessage()).find("another thread called"),
              std::string::npos)
        << tessGetLastErrorMessage();
  }
}

TEST_F(TesseraCapture, OfItsThreadAloneGoesOnWithoutCallsOfOthers) {
  const tessEvent_t inside = event();
  const tessStream_t others = stream();
  ASSERT_TESS(tessStreamBeginCaptureEx(s.stream, TESS_CAPTURE_THREAD_LOCAL));
  ASSERT_TESS(launch_nothing(s.stream));
  ASSERT_TESS(tessEventRecord(inside, s.stream));
  std::thread([&] {
    EXPECT_EQ(launch_nothing(s.stream), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessEventSynchronize(inside), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessStreamWaitEvent(others, inside), TESS_ERR_INVALID_VALUE)
        << "the wait would make the stream a part of another thread's capture";
    int captures = 1;
    EXPECT_TESS(tessStreamIsCapturing(others, &captures));
    EXPECT_EQ(captures, 0);
    EXPECT_TESS(launch_nothing(others));
    EXPECT_TESS(tessStreamSynchronize(others));
    tessGraph_t graph = nullptr;
    EXPECT_EQ(tessStreamEndCapture(s.stream, &graph), TESS_ERR_INVALID_VALUE)
        << "only the thread that began the capture can end it";
  }).join();
  tessGraph_t graph = nullptr;
  std::size_t nodes = 0;
  ASSERT_TESS(tessStreamEndCapture(s.stream, &graph));
  ASSERT_TESS(tessGraphGetNodeCount(graph, &nodes));
  EXPECT_EQ(nodes, 2U);
}

TEST_F(TesseraCapture, ThatIsRelaxedRecordsCallsOfAllThreads) {
  const tessEvent_t inside = event();
  const tessEvent_t back = event();
  const tessStream_t other = stream();
  ASSERT_TESS(tessStreamBeginCaptureEx(s.stream, TESS_CAPTURE_RELAXED));
  ASSERT_TESS(tessEventRecord(inside, s.stream));
  tessGraph_t graph = nullptr;
  std::thread([&] {
    step(s.stream, x, x, 1);
    EXPECT_TESS(tessStreamWaitEvent(other, inside));
    step(other, y, y, 2);
    EXPECT_TESS(tessEventRecord(back, other));
    EXPECT_TESS(tessStreamWaitEvent(s.stream, back));
    EXPECT_TESS(launch_nothing(s.stream));
    EXPECT_TESS(tessStreamEndCapture(s.stream, &graph));
  }).join();
  tessGraphExec_t exec = nullptr;
  ASSERT_TESS(tessGraphInstantiate(graph, &exec));
  EXPECT_EQ(s.read(y, 1)[0], 0);
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  EXPECT_EQ(s.read(x, 1)[0], 3);
  EXPECT_EQ(s.read(y, 1)[0], 2);
}

TEST_F(TesseraCapture, HasOneOfThreeModes) {
  EXPECT_EQ(tessStreamBeginCaptureEx(s.stream, static_cast<tessCaptureMode>(3)),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessStreamBeginCaptureEx(nullptr, TESS_CAPTURE_RELAXED),
            TESS_ERR_INVALID_VALUE);
}

// Graphs as nodes of other graphs.

TEST_F(TesseraCapture, AGraphIsANodeOfAnotherAsItWasThen) {
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  step(s.stream, x, x, 1);
  step(s.stream, y, x, 0);
  const tessGraphExec_t inner = ended(s.stream);
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessMemsetAsync(x, 0, 4, s.stream));
  ASSERT_TESS(tessGraphLaunch(inner, s.stream));
  ASSERT_TESS(tessGraphLaunch(inner, s.stream));
  const tessGraphExec_t middle = ended(s.stream);
  // Updating the inner graph does not change graphs that already contain it.
  const captured_step_arguments other{x, x, 100, -1};
  ASSERT_TESS(tessGraphExecUpdateLaunch(inner, 0, m["step"], one, &other, sizeof other,
                                        s.stream));
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessGraphLaunch(middle, s.stream));
  step(s.stream, y + 1, y, 7);
  tessGraph_t graph = nullptr;
  tessGraphExec_t outer = nullptr;
  std::size_t nodes = 0;
  ASSERT_TESS(tessStreamEndCapture(s.stream, &graph));
  ASSERT_TESS(tessGraphGetNodeCount(graph, &nodes));
  EXPECT_EQ(nodes, 2U);
  std::string text(4096, ' ');
  std::size_t size = text.size();
  ASSERT_TESS(tessGraphExport(graph, "json", text.data(), &size));
  EXPECT_NE(text.find("\"kind\":\"graph\",\"name\":\"graph\""), std::string::npos)
      << text;
  EXPECT_NE(text.find("\"nodes\":3"), std::string::npos) << text;
  ASSERT_TESS(tessGraphInstantiate(graph, &outer));
  ASSERT_TESS(tessGraphExecDestroy(inner));
  ASSERT_TESS(tessGraphExecDestroy(middle));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TESS(tessGraphLaunch(outer, s.stream));
  }
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(s.read(x, 1, rank)[0], 4);  // 3 * (3 * 0 + 1) + 1
    EXPECT_EQ(s.read(y, 2, rank), (std::vector<int32_t>{12, 43}));
  }
}

// A graph on two streams is launched into the capture of another graph. Different ranks
// are slow in each step, so a missing order on any of them changes the result.
TEST_F(TesseraCapture, AGraphOfManyStreamsIsOneNodeThatOthersWaitFor) {
  const tessStream_t side = stream();
  const tessStream_t third = stream();
  const tessEvent_t fork = event();
  const tessEvent_t join = event();
  const auto on_two_streams = [&](tessStream_t a, tessStream_t b) {
    EXPECT_TESS(tessEventRecord(fork, a));
    EXPECT_TESS(tessStreamWaitEvent(b, fork));
    step(b, y, x, 1, 2);
    EXPECT_TESS(tessEventRecord(join, b));
    EXPECT_TESS(tessStreamWaitEvent(a, join));
    step(a, x, y, 0, 1);
  };
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  on_two_streams(s.stream, side);
  const tessGraphExec_t inner = ended(s.stream);
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  step(s.stream, x, x, 5, 3);
  ASSERT_TESS(tessEventRecord(fork, s.stream));
  ASSERT_TESS(tessStreamWaitEvent(third, fork));
  ASSERT_TESS(tessGraphLaunch(inner, third));
  ASSERT_TESS(tessEventRecord(join, third));
  ASSERT_TESS(tessStreamWaitEvent(s.stream, join));
  step(s.stream, x, x, 0);
  const tessGraphExec_t outer = ended(s.stream);
  int32_t expected = 0;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TESS(tessGraphLaunch(outer, s.stream));
    expected = 3 * (3 * (3 * (3 * expected + 5) + 1));
  }
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(s.read(x, 1, rank)[0], expected) << rank;
  }
}

// The first node of the inner graph fails. The rest of both graphs must be skipped, and a
// later launch must start afresh.
TEST_F(TesseraCapture, AFailureInANodeThatIsAGraphIsTheStreams) {
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessLaunch(m["failing_step"], s.mesh, one, nullptr, 0, s.stream));
  step(s.stream, x, x, 1);
  const tessGraphExec_t inner = ended(s.stream);
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessGraphLaunch(inner, s.stream));
  step(s.stream, x, x, 1);
  const tessGraphExec_t outer = ended(s.stream);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TESS(tessGraphLaunch(outer, s.stream));
    EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_LAUNCH_FAILED);
    EXPECT_TESS(tessStreamSynchronize(s.stream));
    EXPECT_EQ(s.read(x, 1)[0], 0) << "operations behind the failure are skipped";
  }
}

TEST_F(TesseraCapture, WithTheFlagAGraphRunsAndIsRecorded) {
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  step(s.stream, x, x, 1);
  const tessGraphExec_t inner = ended(s.stream);
  const captured_step_arguments args{y, y, 2, -1};
  ASSERT_TESS(tessLaunch(m["step"], s.mesh,
                         {{1, 1, 1}, {1, 1, 1}, 0, TESS_LAUNCH_CAPTURE}, &args,
                         sizeof args, s.stream));
  ASSERT_TESS(tessGraphLaunch(inner, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_EQ(s.read(x, 1)[0], 1);
  tessGraph_t graph = nullptr;
  tessGraphExec_t outer = nullptr;
  ASSERT_TESS(tessStreamTakeGraph(s.stream, &graph));
  ASSERT_TESS(tessGraphInstantiate(graph, &outer));
  ASSERT_TESS(tessGraphLaunch(outer, s.stream));
  EXPECT_EQ(s.read(x, 1)[0], 4);
  EXPECT_EQ(s.read(y, 1)[0], 8);
}

// A graph that does not free its memory cannot be a node, because the program could not
// free the memory after each run.
TEST_F(TesseraCapture, AGraphThatLeavesMemoryIsNoNode) {
  void* p = nullptr;
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessMallocAsync(&p, 4, s.stream));
  const tessGraphExec_t inner = ended(s.stream);
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  EXPECT_EQ(tessGraphLaunch(inner, s.stream), TESS_ERR_UNSUPPORTED);
  ASSERT_TESS(tessGraphExecDestroy(ended(s.stream)));
}

// Updates of nodes.

/// Returns the description of a copy.
tessCopyDesc copy_of(tessCopyKind kind, void* to, const void* from, std::size_t bytes,
                     int rank = -1) {
  tessCopyDesc out{};
  out.structSize = sizeof out;
  out.kind = kind;
  out.dst = to;
  out.src = from;
  out.width = bytes;
  out.rank = rank;
  return out;
}

TEST_F(TesseraCapture, CopiesAndFillsInGraphsCanBeChanged) {
  std::vector<int32_t> host{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<int32_t> got(count);
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessMemcpyAsync(x, host.data(), 8, TESS_COPY_H2D, s.stream));
  ASSERT_TESS(tessMemsetAsync(y, 1, 4, s.stream));
  ASSERT_TESS(tessMemcpyAsync(got.data(), y, 32, TESS_COPY_D2H, s.stream));
  const tessGraphExec_t exec = ended(s.stream);
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  tessCopyDesc d = copy_of(TESS_COPY_H2D, x, host.data() + 4, 16, 2);
  ASSERT_TESS(tessGraphExecUpdateCopy(exec, 0, &d, s.stream));
  ASSERT_TESS(tessGraphExecUpdateFill(exec, 1, y + 1, 2, 8, s.stream));
  d = copy_of(TESS_COPY_D2D, y + 4, x, 8, 2);  // a copy in another direction
  ASSERT_TESS(tessGraphExecUpdateCopy(exec, 2, &d, s.stream));
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  EXPECT_EQ(s.read(x, 4, 0), (std::vector<int32_t>{1, 2, 0, 0}))
      << "the changed copy writes on rank 2 only";
  EXPECT_EQ(s.read(x, 4, 2), (std::vector<int32_t>{5, 6, 7, 8}));
  EXPECT_EQ(s.read(y, 6, 2),
            (std::vector<int32_t>{0x01010101, 0x02020202, 0x02020202, 0, 5, 6}));
  EXPECT_EQ(got[0], 0x01010101);
  const auto refused = [&](tessStatus_t status) {
    EXPECT_EQ(status, TESS_ERR_INVALID_VALUE);
    return std::string(tessGetLastErrorMessage());
  };
  EXPECT_NE(
      refused(tessGraphExecUpdateFill(exec, 0, y, 0, 4, s.stream)).find("found \"fill\""),
      std::string::npos);
  EXPECT_NE(refused(tessGraphExecUpdateFill(exec, 1, y, 0, 0, s.stream))
                .find("that does something"),
            std::string::npos);
  d = copy_of(TESS_COPY_D2D, y, x, 64, 2);
  EXPECT_NE(refused(tessGraphExecUpdateCopy(exec, 0, &d, s.stream)).find("32 bytes"),
            std::string::npos);
  EXPECT_NE(refused(tessGraphExecUpdateCopy(exec, 3, &d, s.stream)).size(), 0U);
  EXPECT_EQ(tessGraphExecUpdateCopy(exec, 0, nullptr, s.stream), TESS_ERR_INVALID_VALUE);
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  EXPECT_EQ(s.read(y, 6, 2)[5], 6) << "a refused change must change nothing";
}

TEST_F(TesseraCapture, CollectivesInGraphsCanBeChanged) {
  const std::vector<int32_t> ones(count, 1);
  ASSERT_TESS(tessMemcpyAsync(x, ones.data(), 32, TESS_COPY_H2D, s.stream));
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessAllReduce(s.mesh, x, 4, TESS_INT32, TESS_COLL_SUM, "dp", s.stream));
  const tessGraphExec_t exec = ended(s.stream);
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  tessCollectiveDesc d{};
  d.structSize = sizeof d;
  d.kind = TESS_COLLECTIVE_ALL_REDUCE;
  d.sendbuf = x + 4;
  d.recvbuf = x + 4;
  d.count = 2;
  d.dtype = TESS_INT32;
  d.op = TESS_COLL_SUM;
  ASSERT_TESS(tessGraphExecUpdateCollective(exec, 0, &d, s.stream));
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  EXPECT_EQ(s.read(x, count, 1), (std::vector<int32_t>{4, 4, 4, 4, 4, 4, 1, 1}));
  d.kind = TESS_COLLECTIVE_BROADCAST;
  d.root = 3;
  step(s.stream, x + 4, x + 4, 0);
  ASSERT_TESS(tessGraphExecUpdateCollective(exec, 0, &d, s.stream));
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  EXPECT_EQ(s.read(x + 4, 2), (std::vector<int32_t>{12, 4}));
  d.count = 100;
  EXPECT_EQ(tessGraphExecUpdateCollective(exec, 0, &d, s.stream), TESS_ERR_INVALID_VALUE);
  d.count = 0;
  EXPECT_EQ(tessGraphExecUpdateCollective(exec, 0, &d, s.stream), TESS_ERR_INVALID_VALUE);
}

/// A copy that runs on all ranks waits on all device chains. It must still do so after an
/// update that makes it run on one device chain only.
TEST_F(TesseraCapture, AChangedNodeWaitsOnAllDevicesForWhatItWaitedFor) {
  const tessStream_t side = stream();
  const tessEvent_t fork = event();
  const tessEvent_t join = event();
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessEventRecord(fork, s.stream));
  ASSERT_TESS(tessStreamWaitEvent(side, fork));
  step(side, y, y, 1, 3);  // slow on rank 3
  ASSERT_TESS(tessEventRecord(join, side));
  ASSERT_TESS(tessStreamWaitEvent(s.stream, join));
  ASSERT_TESS(tessMemcpyAsync(x + 4, x, 4, TESS_COPY_D2D, s.stream));
  step(s.stream, x + 1, y, 0);
  const tessGraphExec_t exec = ended(s.stream);
  int32_t last = 0;
  for (int i = 0; i < 5; ++i) {
    const tessCopyDesc d = copy_of(TESS_COPY_D2D, x + 4, x, 4, i % 2 == 0 ? 0 : -1);
    ASSERT_TESS(tessGraphExecUpdateCopy(exec, 3, &d, s.stream));
    ASSERT_TESS(tessGraphLaunch(exec, s.stream));
    last = 3 * last + 1;
    EXPECT_EQ(s.read(x + 1, 1, 3)[0], 3 * last) << i;
  }
}

}  // namespace
}  // namespace weir::test
