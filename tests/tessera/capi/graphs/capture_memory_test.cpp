// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests memory that is allocated and freed inside captures.
#include <thread>

#include "support.hpp"

namespace weir::test {
namespace {

/// Arguments of add_kernel, which stores the number at `from` (if null, at `to`) plus
/// `value` at `to`. If `slow` is set, it waits between reading and writing, so that a
/// concurrent run would be seen.
struct add_arguments {
  int32_t* to;
  const int32_t* from;
  int32_t value;
  int32_t slow;
};
int add_kernel(const tessBlockContext*, const void* args) {
  const auto* a = static_cast<const add_arguments*>(args);
  const int32_t before = a->from == nullptr ? *a->to : *a->from;
  if (a->slow != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  *a->to = before + a->value;
  return 0;
}

/// Two devices, a kernel, and short names for the calls on captures and memory.
class TesseraCaptureMemory : public testing::Test {
 protected:
  void add(tessStream_t stream, void* to, const void* from, int32_t value,
           bool slow = false) {
    const add_arguments args{static_cast<int32_t*>(to), static_cast<const int32_t*>(from),
                             value, slow ? 1 : 0};
    const tessLaunchConfig one{{1, 1, 1}, {1, 1, 1}, 0, 0};
    EXPECT_TESS(tessLaunch(m["add_slowly"], s.mesh, one, &args, sizeof args, stream));
  }
  void* take(tessStream_t stream, std::size_t bytes = 4) {
    void* out = nullptr;
    EXPECT_TESS(tessMallocAsync(&out, bytes, stream));
    return out;
  }
  tessGraph_t end() {
    tessGraph_t out = nullptr;
    EXPECT_TESS(tessStreamEndCapture(s.stream, &out));
    return out;
  }
  tessGraphExec_t ready(tessGraph_t graph) {
    tessGraphExec_t out = nullptr;
    EXPECT_TESS(tessGraphInstantiate(graph, &out));
    return out;
  }
  std::size_t free_bytes() {
    std::size_t out = 0;
    EXPECT_TESS(tessMemGetInfo(s.mesh, 0, &out, nullptr));
    return out;
  }
  int kind_of(const void* address) {
    tessPointerAttributes out{};
    out.structSize = sizeof out;
    EXPECT_TESS(tessPointerGetAttributes(s.context, address, &out));
    return out.kind;
  }

  session s{2};
  registered_module m{s.context,
                      {{"add_slowly",
                        add_kernel,
                        {pointer_to("to", TESS_INT32), pointer_to("from", TESS_INT32),
                         value("value", TESS_INT32, 4), value("slow", TESS_INT32, 4)}}}};
};

// The graph allocates and frees its memory in the capture. It keeps the same memory for
// all of its runs and releases it when it is destroyed.
TEST_F(TesseraCaptureMemory, TakenAndGivenBackServesEveryRun) {
  auto* const x = s.memory<int32_t>(1);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const std::size_t before = free_bytes();
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  void* const p = take(s.stream);
  ASSERT_TESS(tessMemsetAsync(p, 0, 4, s.stream));
  add(s.stream, p, nullptr, 5);
  add(s.stream, x, p, 1);
  EXPECT_EQ(kind_of(p), TESS_POINTER_DEVICE);
  ASSERT_TESS(tessFreeAsync(p, s.stream));
  EXPECT_EQ(kind_of(p), TESS_POINTER_UNKNOWN) << "the address has been given back";
  // A second allocation on the same stream reuses the memory.
  EXPECT_EQ(take(s.stream), p);
  ASSERT_TESS(tessFreeAsync(p, s.stream));
  const tessGraph_t graph = end();
  const tessGraphExec_t exec = ready(graph);
  std::size_t nodes = 0;
  ASSERT_TESS(tessGraphGetNodeCount(graph, &nodes));
  EXPECT_EQ(nodes, 7U);
  EXPECT_EQ(s.read(x, 1)[0], 0) << "no operation of the capture has run yet";
  const std::size_t remaining = free_bytes();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  }
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(s.read(x, 1, rank)[0], 6);
  }
  EXPECT_EQ(free_bytes(), remaining);
  EXPECT_LT(remaining, before) << "the memory of the graph counts as used";
  ASSERT_TESS(tessGraphExecDestroy(exec));
  ASSERT_TESS(tessGraphDestroy(graph));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_EQ(free_bytes(), before);
}

// Memory that a graph allocates and does not free belongs to the program after each
// launch. The graph cannot be launched again until the program has freed the memory, by
// either call.
TEST_F(TesseraCaptureMemory, LeftByAGraphIsTheProgramsBehindEachLaunch) {
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  void* const p = take(s.stream, 64);
  ASSERT_TESS(tessMemsetAsync(p, 7, 64, s.stream));
  const tessGraphExec_t exec = ready(end());
  EXPECT_EQ(tessMemsetAsync(p, 1, 64, s.stream), TESS_ERR_INVALID_VALUE)
      << "no run has allocated the memory yet";
  EXPECT_EQ(tessFreeAsync(p, s.stream), TESS_ERR_INVALID_VALUE);
  std::size_t used = 0;
  for (int run = 0; run < 4; ++run) {
    ASSERT_TESS(tessGraphLaunch(exec, s.stream));
    ASSERT_TESS(tessStreamGetMemoryUse(s.stream, &used, nullptr));
    EXPECT_EQ(used, 64U);
    EXPECT_EQ(tessGraphLaunch(exec, s.stream), TESS_ERR_INVALID_VALUE)
        << "the program still owns the memory of the last run";
    EXPECT_NE(std::string(tessGetLastErrorMessage()).find("64 bytes"), std::string::npos);
    auto* const words = static_cast<int32_t*>(p);
    EXPECT_EQ(s.read(words, 16, run % 2), std::vector<int32_t>(16, 0x07070707));
    ASSERT_TESS(tessMemsetAsync(p, run, 64, s.stream));
    if (run % 2 == 0) {
      ASSERT_TESS(tessFreeAsync(p, s.stream));
    } else {
      ASSERT_TESS(tessFree(s.mesh, p));
    }
    ASSERT_TESS(tessStreamGetMemoryUse(s.stream, &used, nullptr));
    EXPECT_EQ(used, 0U);
    EXPECT_EQ(tessMemsetAsync(p, 1, 64, s.stream), TESS_ERR_INVALID_VALUE);
  }
  // Memory that the graph has left to the program survives the graph.
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  ASSERT_TESS(tessGraphExecDestroy(exec));
  EXPECT_EQ(s.read(static_cast<int32_t*>(p), 1)[0], 0x07070707);
  ASSERT_TESS(tessFreeAsync(p, s.stream));
}

TEST_F(TesseraCaptureMemory, IsNotTakenAgainBeforeWhoGaveItBackIsDone) {
  tessStream_t other = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &other));
  auto* const out = s.memory<int32_t>(1);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  void* const p = take(s.stream);
  ASSERT_TESS(tessMemsetAsync(p, 0, 4, s.stream));
  const tessGraphExec_t exec = ready(end());
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  // The memory is read slowly on another stream and freed there. The next run must not
  // write it before the reader has ended.
  add(other, p, nullptr, 3, true);
  add(other, out, p, 0, true);
  ASSERT_TESS(tessFreeAsync(p, other));
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_EQ(s.read(out, 1)[0], 3);
  EXPECT_EQ(s.read(static_cast<int32_t*>(p), 1)[0], 0);
  ASSERT_TESS(tessFreeAsync(p, s.stream));
}

// Three graphs share memory that was allocated in one capture, and their runs are
// launched on two streams. Runs that overlapped would add to each other's number.
TEST_F(TesseraCaptureMemory, IsUsedByOneRunAtATimeHoweverManyGraphsHaveIt) {
  constexpr int runs = 20;
  auto* const x = s.memory<int32_t>(2);
  tessStream_t other = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &other));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  void* const p = take(s.stream);
  ASSERT_TESS(tessMemsetAsync(p, 0, 4, s.stream));
  add(s.stream, p, nullptr, 1, true);
  add(s.stream, p, nullptr, 1);
  add(s.stream, x, p, 0);  // x is 2 unless another run wrote the memory in between
  ASSERT_TESS(tessFreeAsync(p, s.stream));
  const tessGraph_t graph = end();
  const tessGraphExec_t first = ready(graph);
  const tessGraphExec_t second = ready(graph);
  // A third graph contains the first one as a node.
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessGraphLaunch(first, s.stream));
  const tessGraphExec_t third = ready(end());
  for (int i = 0; i < runs; ++i) {
    ASSERT_TESS(tessGraphLaunch(first, s.stream));
    ASSERT_TESS(tessGraphLaunch(i % 2 == 0 ? second : third, other));
    ASSERT_TESS(tessStreamSynchronize(s.stream));
    ASSERT_TESS(tessStreamSynchronize(other));
    ASSERT_EQ(s.read(x, 1)[0], 2) << i;
  }
}

TEST_F(TesseraCaptureMemory, OfOthersCannotBeGivenBackThere) {
  void* const mine = take(s.stream);
  tessStream_t other = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &other));
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  EXPECT_EQ(tessFreeAsync(mine, s.stream), TESS_ERR_INVALID_VALUE);
  void* const p = take(s.stream);
  EXPECT_EQ(tessFree(s.mesh, p), TESS_ERR_INVALID_VALUE);
  EXPECT_NE(std::string(tessGetLastErrorMessage()).find("a capture took it"),
            std::string::npos)
      << tessGetLastErrorMessage();
  EXPECT_EQ(tessFreeAsync(p, other), TESS_ERR_INVALID_VALUE);
  ASSERT_TESS(tessFreeAsync(p, s.stream));
  EXPECT_EQ(tessFreeAsync(p, s.stream), TESS_ERR_INVALID_VALUE)
      << "memory is given back only once";
  const tessGraphExec_t exec = ready(end());
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  ASSERT_TESS(tessFreeAsync(mine, s.stream));
  EXPECT_TESS(tessStreamSynchronize(s.stream));
}

// A capture is lost by a call that it does not allow, another one by the end of its
// stream. In both cases its memory must be free again.
TEST_F(TesseraCaptureMemory, OfALostCaptureGoesBack) {
  const std::size_t before = free_bytes();
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  void* const p = take(s.stream, 1000);
  EXPECT_LT(free_bytes(), before);
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_INVALID_VALUE);
  tessGraph_t graph = nullptr;
  EXPECT_EQ(tessStreamEndCapture(s.stream, &graph), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(free_bytes(), before);
  EXPECT_EQ(kind_of(p), TESS_POINTER_UNKNOWN);
  tessStream_t other = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &other));
  ASSERT_TESS(tessStreamBeginCapture(other));
  take(other, 1000);
  ASSERT_TESS(tessStreamDestroy(other));
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(TesseraCaptureMemory, OfALaunchWithTheFlagIsRecordedAndRuns) {
  auto* const x = s.memory<int32_t>(1);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const add_arguments args{x, nullptr, 1, 0};
  ASSERT_TESS(tessLaunch(m["add_slowly"], s.mesh,
                         {{1, 1, 1}, {1, 1, 1}, 0, TESS_LAUNCH_CAPTURE}, &args,
                         sizeof args, s.stream));
  void* const p = take(s.stream);
  void* const left = take(s.stream);
  ASSERT_TESS(tessMemsetAsync(p, 0, 4, s.stream));
  add(s.stream, p, x, 10);
  ASSERT_TESS(tessMemcpyAsync(left, p, 4, TESS_COPY_D2D, s.stream));
  ASSERT_TESS(tessFreeAsync(p, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_EQ(s.read(static_cast<int32_t*>(left), 1)[0], 11)
      << "the launch with the flag has run";
  tessGraph_t graph = nullptr;
  ASSERT_TESS(tessStreamTakeGraph(s.stream, &graph));
  const tessGraphExec_t exec = ready(graph);
  EXPECT_EQ(tessGraphLaunch(exec, s.stream), TESS_ERR_INVALID_VALUE)
      << "the memory of the last run has not been given back";
  ASSERT_TESS(tessFreeAsync(left, s.stream));
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  EXPECT_EQ(s.read(static_cast<int32_t*>(left), 1)[0], 12);
  ASSERT_TESS(tessFreeAsync(left, s.stream));
}

TEST_F(TesseraCaptureMemory, CountsAgainstTheLimitOfTheStreamThatRunsIt) {
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  void* const p = take(s.stream, 5000);
  ASSERT_TESS(tessFreeAsync(p, s.stream));
  void* const left = take(s.stream, 3000);
  const tessGraphExec_t exec = ready(end());
  ASSERT_TESS(tessStreamSetMemoryLimit(s.stream, 7999));
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_OUT_OF_MEMORY);
  EXPECT_EQ(tessFreeAsync(left, s.stream), TESS_ERR_INVALID_VALUE)
      << "the run has failed and left no memory";
  ASSERT_TESS(tessStreamSetMemoryLimit(s.stream, 8000));
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  EXPECT_TESS(tessStreamSynchronize(s.stream));
  ASSERT_TESS(tessFreeAsync(left, s.stream));
}

TEST_F(TesseraCaptureMemory, ThatAnotherLibraryHasIsNotTakenAgain) {
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  void* const p = take(s.stream, 16);
  const tessGraphExec_t exec = ready(end());
  ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const int64_t extent = 16;
  const tessTensorDesc desc{sizeof desc, TESS_INT8, 1, 0, &extent, nullptr, 0, 0};
  void* tensor = nullptr;
  ASSERT_TESS(tessMemExportDlpack(s.context, p, &desc, &tensor));
  ASSERT_TESS(tessFreeAsync(p, s.stream));
  EXPECT_EQ(tessGraphLaunch(exec, s.stream), TESS_ERR_INVALID_VALUE);
  tessTensorInfo info{};
  info.structSize = sizeof info;
  ASSERT_TESS(tessMemImportDlpack(s.context, tensor, 0, -1, &info));
  ASSERT_TESS(tessMemReleaseImported(s.context, info.begin));
}

}  // namespace
}  // namespace weir::test
