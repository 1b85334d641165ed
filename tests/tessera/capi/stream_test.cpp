// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests streams, events, launches and failures through the C interface.
#include <chrono>
#include <thread>

#include "support.hpp"

namespace weir::test {
namespace {

/// Computes x[i] = x[i] * factor + addend, one element per block.
int step_kernel(const tessBlockContext* block, const void* args) {
  struct layout {
    int64_t* x;
    int64_t factor;
    int64_t addend;
  };
  const auto* a = static_cast<const layout*>(args);
  int64_t& x = a->x[block->blockIndex[0]];
  x = x * a->factor + a->addend;
  return 0;
}
/// Fails in the blocks 3 and 7, with 40 plus the number of the block.
int failing_kernel(const tessBlockContext* block, const void*) {
  return block->blockIndex[0] == 3 || block->blockIndex[0] == 7
             ? 40 + block->blockIndex[0]
             : 0;
}
int throwing_kernel(const tessBlockContext*, const void*) {
  throw std::runtime_error("thrown on purpose");
}
std::atomic<int> inside{0};
/// Ends as soon as two blocks run at the same time, or after ten seconds.
int meeting_kernel(const tessBlockContext*, const void*) {
  ++inside;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (inside < 2 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  return inside >= 2 ? 0 : 1;
}
/// Stores 100 * rank + 10 * index on tp + index on dp.
int rank_kernel(const tessBlockContext* block, const void* args) {
  int64_t* out = *static_cast<int64_t* const*>(args);
  out[0] = block->rank * 100 + block->axisIndex[0] * 10 + block->axisIndex[2];
  return 0;
}

/// Arguments of step_kernel.
struct step_arguments {
  int64_t* x;
  int64_t factor;
  int64_t addend;
};

std::vector<registered_module::entry> all_kernels() {
  return {{"step",
           step_kernel,
           {pointer_to("x", TESS_INT64), value("factor", TESS_INT64, 8),
            value("addend", TESS_INT64, 8)}},
          {"failing", failing_kernel, {}},
          {"throwing", throwing_kernel, {}},
          {"meeting", meeting_kernel, {}},
          {"rank", rank_kernel, {pointer_to("out", TESS_INT64)}},
          {"unordered", failing_kernel, {}, 0}};
}

tessLaunchConfig launch_of(int n, unsigned flags = 0) {
  return {{n, 1, 1}, {1, 1, 1}, 0, flags};
}

TEST(TesseraStream, RunsLaunchesInOrderOnEveryDevice) {
  session s(4);
  const registered_module m(s.context, all_kernels());
  auto* x = s.memory<int64_t>(5);
  std::vector<int64_t> expected(5, 0);
  for (int64_t i = 1; i <= 300; ++i) {
    step_arguments args{x, i % 3 + 1, i};
    ASSERT_TESS(
        tessLaunch(m["step"], s.mesh, launch_of(5), &args, sizeof args, s.stream));
    args = {};  // the call has copied the arguments
    for (int64_t& e : expected) {
      e = static_cast<int64_t>(static_cast<uint64_t>(e) *
                               static_cast<uint64_t>(i % 3 + 1)) +
          i;
      e %= int64_t{1} << 62;
    }
    if (i % 20 == 0) {
      EXPECT_TESS(tessMemsetAsync(x, 0, 5 * sizeof(int64_t), s.stream));
      std::fill(expected.begin(), expected.end(), 0);
    }
  }
  step_arguments args{x, 1, 7};
  ASSERT_TESS(tessLaunch(m["step"], s.mesh, launch_of(5), &args, sizeof args, s.stream));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(s.read(x, 5, rank), std::vector<int64_t>(5, 7)) << "rank " << rank;
  }
}

TEST(TesseraStream, GivesBlocksTheirRankAndPlace) {
  session s(8, {2, 1, 4, 1});
  const registered_module m(s.context, all_kernels());
  auto* x = s.memory<int64_t>(1);
  ASSERT_TESS(tessLaunch(m["rank"], s.mesh, launch_of(1), &x, sizeof x, s.stream));
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(s.read(x, 1, rank)[0], rank * 100 + rank % 2 * 10 + rank / 2);
  }
}

// Two streams update one number in turns, ordered only by events. The updates do not
// commute, so any other order gives another number.
TEST(TesseraStream, EventsOrderStreams) {
  session s(2);
  const registered_module m(s.context, all_kernels());
  tessStream_t other = nullptr;
  tessEvent_t done = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &other));
  ASSERT_TESS(tessEventCreate(&done));
  ASSERT_TESS(tessStreamWaitEvent(other, done));  // an event never recorded has no effect
  auto* x = s.memory<int64_t>(1);
  int64_t expected = 0;
  for (int64_t i = 0; i < 200; ++i) {
    tessStream_t const target = i % 2 == 0 ? s.stream : other;
    step_arguments args{x, i % 5 == 0 ? -1 : 1, i};
    ASSERT_TESS(tessLaunch(m["step"], s.mesh, launch_of(1), &args, sizeof args, target));
    ASSERT_TESS(tessEventRecord(done, target));
    ASSERT_TESS(tessStreamWaitEvent(i % 2 == 0 ? other : s.stream, done));
    expected = expected * (i % 5 == 0 ? -1 : 1) + i;
  }
  EXPECT_TESS(tessEventSynchronize(done));
  int reached = 0;
  EXPECT_TESS(tessEventQuery(done, &reached));
  EXPECT_EQ(reached, 1);
  EXPECT_EQ(s.read(x, 1, 1)[0], expected);
}

// Each kernel waits until the other one runs, so the test fails by a timeout in the
// kernel if the streams run one after another.
TEST(TesseraStream, DistinctStreamsOverlap) {
  const environment two({{"TESS_NUM_THREADS", "2"}});
  session s;
  const registered_module m(s.context, all_kernels());
  tessStream_t other = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &other));
  inside = 0;
  ASSERT_TESS(tessLaunch(m["meeting"], s.mesh, launch_of(1), nullptr, 0, s.stream));
  ASSERT_TESS(tessLaunch(m["meeting"], s.mesh, launch_of(1), nullptr, 0, other));
  EXPECT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_TESS(tessStreamSynchronize(other));
}

// A failure skips all operations behind it on the same stream until a synchronization has
// reported it. Another stream is not affected.
TEST(TesseraStream, AFailurePoisonsItsStreamUntilItIsReported) {
  session s;
  const registered_module m(s.context, all_kernels());
  auto* x = s.memory<int64_t>(1);
  tessStream_t untouched = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &untouched));
  ASSERT_TESS(tessLaunch(m["failing"], s.mesh, launch_of(16), nullptr, 0, s.stream));
  step_arguments args{x, 1, 5};
  ASSERT_TESS(tessLaunch(m["step"], s.mesh, launch_of(1), &args, sizeof args, s.stream));
  EXPECT_TESS(tessStreamSynchronize(untouched));
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_LAUNCH_FAILED);
  // The message names the lowest failing block, whatever the timing.
  EXPECT_NE(std::string(tessGetLastErrorMessage()).find("43"), std::string::npos)
      << tessGetLastErrorMessage();
  EXPECT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_EQ(s.read(x, 1)[0], 0) << "operations behind the failure are skipped";
  ASSERT_TESS(tessLaunch(m["step"], s.mesh, launch_of(1), &args, sizeof args, s.stream));
  EXPECT_EQ(s.read(x, 1)[0], 5);
}

// A stream that waits for an event behind a failure must fail, too, because it would read
// data that was never written.
TEST(TesseraStream, AFailureTravelsWithEvents) {
  session s(2);
  const registered_module m(s.context, all_kernels());
  tessStream_t other = nullptr;
  tessEvent_t broken = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, 0, &other));
  ASSERT_TESS(tessEventCreate(&broken));
  auto* x = s.memory<int64_t>(1);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  ASSERT_TESS(tessLaunch(m["throwing"], s.mesh, launch_of(1), nullptr, 0, s.stream));
  ASSERT_TESS(tessEventRecord(broken, s.stream));
  ASSERT_TESS(tessStreamWaitEvent(other, broken));
  step_arguments args{x, 1, 5};
  ASSERT_TESS(tessLaunch(m["step"], s.mesh, launch_of(1), &args, sizeof args, other));
  EXPECT_EQ(tessEventSynchronize(broken), TESS_ERR_LAUNCH_FAILED);
  EXPECT_EQ(tessStreamSynchronize(other), TESS_ERR_LAUNCH_FAILED);
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_LAUNCH_FAILED);
  EXPECT_EQ(s.read(x, 1)[0], 0);
}

TEST(TesseraStream, KernelsThatAreNotDeterministicViolateADeterministicLaunch) {
  session s;
  const registered_module m(s.context, all_kernels());
  tessNumericsPolicy free{0, 0, 0, 0};
  ASSERT_TESS(tessSetNumericsPolicy(s.context, &free));
  ASSERT_TESS(tessLaunch(m["unordered"], s.mesh, launch_of(1), nullptr, 0, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  ASSERT_TESS(tessLaunch(m["unordered"], s.mesh, launch_of(1, TESS_LAUNCH_DETERMINISTIC),
                         nullptr, 0, s.stream));
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_DETERMINISM_VIOLATION);
}

TEST(TesseraStream, HostFunctionsRunInOrderAndMayNotEnqueue) {
  session s(2);
  const registered_module m(s.context, all_kernels());
  struct seen {
    session* s;
    tessStatus_t inner = TESS_OK;
    int64_t value = 0;
    int64_t* x = nullptr;
  } saw{&s, TESS_OK, 0, s.memory<int64_t>(1)};
  step_arguments args{saw.x, 1, 5};
  ASSERT_TESS(tessLaunch(m["step"], s.mesh, launch_of(1), &args, sizeof args, s.stream));
  ASSERT_TESS(tessLaunchHostFunc(
      s.stream,
      [](void* user) {
        auto* me = static_cast<seen*>(user);
        me->value = *me->x;
        me->inner = tessStreamSynchronize(me->s->stream);
      },
      &saw));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_EQ(saw.value, 5);
  EXPECT_EQ(saw.inner, TESS_ERR_INVALID_VALUE);
}

TEST(TesseraStream, CopiesKeepTheOrderOfTheHostsMemory) {
  session s(8);
  const registered_module m(s.context, all_kernels());
  auto* x = s.memory<int64_t>(1);
  auto* y = s.memory<int64_t>(1);
  // The value of device 0 is copied through one variable of the host to all devices, many
  // times. A copy out of order would read the value of another round.
  int64_t through = -1;
  for (int64_t i = 1; i <= 50; ++i) {
    step_arguments args{x, 1, i};
    ASSERT_TESS(
        tessLaunch(m["step"], s.mesh, launch_of(1), &args, sizeof args, s.stream));
    ASSERT_TESS(tessMemcpyAsync(&through, x, 8, TESS_COPY_D2H, s.stream));
    ASSERT_TESS(tessMemcpyAsync(y, &through, 8, TESS_COPY_H2D, s.stream));
    args = {y, 2, 1};
    ASSERT_TESS(
        tessLaunch(m["step"], s.mesh, launch_of(1), &args, sizeof args, s.stream));
    ASSERT_TESS(tessMemcpyAsync(x, y, 8, TESS_COPY_D2D, s.stream));
  }
  int64_t expected = 0;
  for (int64_t i = 1; i <= 50; ++i) {
    expected = (expected + i) * 2 + 1;
  }
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(s.read(x, 1, rank)[0], expected);
  }
}

// A program that only asks whether the stream has ended must get the answer yes at some
// time, without any call that waits.
TEST(TesseraStream, QueriesComeToAnEndWithoutAWait) {
  session s(2);
  const registered_module m(s.context, all_kernels());
  auto* x = s.memory<int64_t>(1);
  step_arguments args{x, 1, 5};
  ASSERT_TESS(tessLaunch(m["step"], s.mesh, launch_of(1), &args, sizeof args, s.stream));
  int done = 0;
  for (int i = 0; i < 10'000 && done == 0; ++i) {
    ASSERT_TESS(tessStreamQuery(s.stream, &done));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  EXPECT_EQ(done, 1);
  ASSERT_TESS(tessLaunch(m["step"], s.mesh, launch_of(1), &args, sizeof args, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  ASSERT_TESS(tessStreamQuery(s.stream, &done));
  EXPECT_EQ(done, 1) << "a query after a synchronization reports the end at once";
}

// One thread waits for an event while another records it. Both orders are valid, and
// ThreadSanitizer checks the accesses.
TEST(TesseraStream, EventsMayBeRecordedAndWaitedForAtOnce) {
  session s;
  for (int i = 0; i < 100; ++i) {
    tessEvent_t mark = nullptr;
    ASSERT_TESS(tessEventCreate(&mark));
    std::thread waits([&] { EXPECT_TESS(tessEventSynchronize(mark)); });
    EXPECT_TESS(tessEventRecord(mark, s.stream));
    waits.join();
    ASSERT_TESS(tessEventDestroy(mark));
  }
}

// Destroys streams and events directly after their use. Their work must still be done,
// and the handles must be refused from then on.
TEST(TesseraStream, StreamsAndEventsMayGoWhileTheirWorkIsPending) {
  session s(2);
  const registered_module m(s.context, all_kernels());
  auto* x = s.memory<int64_t>(1);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  for (int i = 0; i < 200; ++i) {
    tessStream_t brief = nullptr;
    tessEvent_t mark = nullptr;
    ASSERT_TESS(tessStreamCreate(s.mesh, i % 3 - 1, &brief));
    ASSERT_TESS(tessEventCreate(&mark));
    step_arguments args{x, 1, 1};
    ASSERT_TESS(tessStreamWaitEvent(brief, mark));
    ASSERT_TESS(tessLaunch(m["step"], s.mesh, launch_of(1), &args, sizeof args, brief));
    ASSERT_TESS(tessEventRecord(mark, brief));
    ASSERT_TESS(tessStreamWaitEvent(s.stream, mark));
    ASSERT_TESS(tessEventDestroy(mark));
    ASSERT_TESS(tessStreamDestroy(brief));
    EXPECT_EQ(tessStreamDestroy(brief), TESS_ERR_INVALID_VALUE);
    EXPECT_EQ(tessEventRecord(mark, s.stream), TESS_ERR_INVALID_VALUE);
    ASSERT_TESS(tessStreamSynchronize(s.stream));
  }
  EXPECT_EQ(s.read(x, 1, 1)[0], 200);
}

// Frees memory while a kernel and a copy of it are pending. If it was reused too early,
// the next round would overwrite the number that is copied.
TEST(TesseraStream, MemoryFreedInFlightStaysUntilItsWorkHasEnded) {
  session s(2);
  const registered_module m(s.context, all_kernels());
  auto* sum = s.memory<int64_t>(1);
  for (int64_t i = 0; i < 100; ++i) {
    auto* x = s.memory<int64_t>(4096);
    step_arguments args{x, 1, i};
    ASSERT_TESS(
        tessLaunch(m["step"], s.mesh, launch_of(4096), &args, sizeof args, s.stream));
    ASSERT_TESS(tessMemcpyAsync(sum, x + 4095, 8, TESS_COPY_D2D, s.stream));
    ASSERT_TESS(tessFree(s.mesh, x));
    EXPECT_EQ(tessFree(s.mesh, x), TESS_ERR_INVALID_VALUE);
  }
  EXPECT_EQ(s.read(sum, 1, 1)[0], 99);
}

// The devices of the processor have no streams of other libraries.
TEST(TesseraStream, NativeStreamsAreRefusedWithoutAGpu) {
  session s(2);
  for (const int device : {0, 1, 7}) {
    EXPECT_EQ(tessStreamWaitNative(s.stream, device, TESS_NATIVE_LEGACY),
              TESS_ERR_UNSUPPORTED);
    EXPECT_NE(std::string(tessGetLastErrorMessage())
                  .find("expected devices that are GPUs, found the backend \"cpu\""),
              std::string::npos)
        << tessGetLastErrorMessage();
    EXPECT_EQ(tessNativeWaitStream(TESS_NATIVE_LEGACY, device, s.stream),
              TESS_ERR_UNSUPPORTED);
  }
  tessStream_t made = nullptr;
  EXPECT_EQ(tessStreamFromNative(s.mesh, 0, TESS_NATIVE_LEGACY, &made),
            TESS_ERR_UNSUPPORTED);
  EXPECT_EQ(made, nullptr);
  EXPECT_TESS(tessStreamSynchronize(s.stream));
}

}  // namespace
}  // namespace weir::test
