// SPDX-License-Identifier: Apache-2.0
/// @file
/// Streams that are made from a stream of another library on the same GPU.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "streams/shared_device.hpp"

namespace weir::test {
namespace {

using tessera::stand_in::other_library;

/// A device with a stream that was made from the stream of the other library.
struct native_device : shared_device {
  explicit native_device(const tessera::stand_in::machine& shown,
                         bool default_stream = false)
      : shared_device(shown, default_stream) {
    EXPECT_TESS(tessStreamFromNative(on.mesh, 0, other.stream(), &stream));
  }
  ~native_device() { EXPECT_TESS(tessStreamDestroy(stream)); }
  native_device(const native_device&) = delete;
  native_device& operator=(const native_device&) = delete;

  /// Runs a call whose operation is behind a closed gate of the native stream, and
  /// expects that it returns behind the opening.
  void expect_wait(const std::function<tessStatus_t()>& call) {
    native_gate closed;
    other.call(&native_gate::wait, &closed);
    std::thread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      closed.open = true;
    });
    EXPECT_TESS(call());
    EXPECT_TRUE(closed.open) << "the call returned before the native stream got there";
    opener.join();
  }

  tessStream_t stream = nullptr;
};

/// Expects that all bytes of a line have a value.
void expect_all(const line& found, unsigned char value) {
  for (const unsigned char byte : found) {
    ASSERT_EQ(byte, value);
  }
}

// Memory goes back and forth without a call that orders both sides.
void exchange_in_turn(native_device& at, unsigned char value) {
  line up{};
  at.other.fill(at.x, value, bytes);
  ASSERT_TESS(tessMemcpyAsync(at.y, at.x, bytes, TESS_COPY_D2D, at.stream));
  ASSERT_TESS(tessMemsetAsync(at.x, 0, bytes, at.stream));
  at.other.copy(at.x, at.y, bytes);
  ASSERT_TESS(tessMemcpyAsync(up.data(), at.x, bytes, TESS_COPY_D2H, at.stream));
  expect_all(up, value);
}

TEST(GpuFromNative, EachOperationIsBetweenWorkBeforeAndBehindItsCall) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    native_device at(delayed(seed));
    for (unsigned char value = 1; value <= 10; ++value) {
      exchange_in_turn(at, value);
    }
  }
}

TEST(GpuFromNative, TheDefaultStreamOfADeviceIsANativeStream) {
  native_device at(delayed(3), true);
  ASSERT_EQ(at.other.stream(), TESS_NATIVE_LEGACY);
  exchange_in_turn(at, 7);
}

TEST(GpuFromNative, FunctionsAndSynchronizationsWaitForTheNativeStream) {
  native_device at(delayed(1));
  at.expect_wait([&] { return tessStreamSynchronize(at.stream); });
  at.expect_wait([&] {
    return tessLaunchHostFunc(
        at.stream, [](void*) {}, nullptr);
  });
  at.expect_wait([&] { return tessNativeWaitStream(TESS_NATIVE_LEGACY, 0, at.stream); });
}

TEST(GpuFromNative, LaunchesAreInOrder) {
  native_device at(delayed(4));
  const tessModule_t module = at.context.load(listed_kernels()->container("8.0"));
  const tessKernel_t kernel = kernel_of(module, "write_indices");
  const tessNumericsPolicy any{};  // the kernel does not say that it is deterministic
  ASSERT_TESS(tessSetNumericsPolicy(at.context.get(), &any));
  const tessLaunchConfig config{{4, 1, 1}, {16, 1, 1}, 0, TESS_LAUNCH_DEFAULT};
  std::array<std::int32_t, bytes / sizeof(std::int32_t)> found{};
  for (int i = 0; i < 10; ++i) {
    at.other.fill(at.x, 0xFF, bytes);  // -1, to which the kernel adds index + 1
    ASSERT_TESS(tessLaunch(kernel, at.on.mesh, config, &at.x, sizeof at.x, at.stream));
    at.other.copy(at.y, at.x, bytes);
    ASSERT_TESS(tessMemcpyAsync(found.data(), at.y, bytes, TESS_COPY_D2H, at.stream));
    for (std::size_t k = 0; k < found.size(); ++k) {
      ASSERT_EQ(found.at(k), static_cast<std::int32_t>(k));
    }
  }
}

TEST(GpuFromNative, KernelsThatDoNotEndAndRecordingsThatRunAreRefused) {
  native_device at(delayed(1));
  const tessModule_t module = at.context.load(listed_kernels()->container("8.0"));
  const tessKernel_t kernel = kernel_of(module, "until_stop");
  for (const auto& [flags, text] :
       {std::pair<unsigned, const char*>{TESS_LAUNCH_PERSISTENT,
                                         "expected no persistent kernel on a stream"},
        {TESS_LAUNCH_CAPTURE, "expected no capture by TESS_LAUNCH_CAPTURE"}}) {
    const tessLaunchConfig config{{1, 1, 1}, {1, 1, 1}, 0, flags};
    EXPECT_EQ(tessLaunch(kernel, at.on.mesh, config, &at.x, sizeof at.x, at.stream),
              TESS_ERR_UNSUPPORTED);
    EXPECT_NE(last_text().find(text), std::string::npos) << last_text();
  }
}

// An event of the stream is behind the work of the native stream; a wait for an event
// lets the native stream wait as well.
TEST(GpuFromNative, EventsOrderOtherStreams) {
  native_device at(delayed(6));
  tessEvent_t event = nullptr;
  ASSERT_TESS(tessEventCreate(&event));
  for (unsigned char value = 1; value <= 10; ++value) {
    line up{};
    at.other.fill(at.x, value, bytes);
    ASSERT_TESS(tessEventRecord(event, at.stream));
    ASSERT_TESS(tessStreamWaitEvent(at.on.stream, event));
    ASSERT_TESS(tessMemcpyAsync(at.y, at.x, bytes, TESS_COPY_D2D, at.on.stream));
    ASSERT_TESS(tessEventRecord(event, at.on.stream));
    ASSERT_TESS(tessStreamWaitEvent(at.stream, event));
    at.other.fill(at.x, 0, bytes);
    at.other.copy(at.x, at.y, bytes);
    ASSERT_TESS(tessMemcpyAsync(up.data(), at.x, bytes, TESS_COPY_D2H, at.stream));
    expect_all(up, value);
  }
  ASSERT_TESS(tessEventDestroy(event));
}

// The pool gives the same memory again, which the other library still fills.
TEST(GpuFromNative, MemoryIsTakenAndGivenBackInTheOrderOfBoth) {
  native_device at(delayed(8));
  void* before = nullptr;
  int again = 0;
  for (unsigned char value = 1; value <= 20; ++value) {
    void* taken = nullptr;
    line up{};
    ASSERT_TESS(tessMallocAsync(&taken, bytes, at.stream));
    again += taken == before ? 1 : 0;
    at.other.fill(taken, value, bytes);
    at.other.copy(at.x, taken, bytes);
    ASSERT_TESS(tessFreeAsync(taken, at.stream));
    before = taken;
    ASSERT_TESS(tessMemcpyAsync(up.data(), at.x, bytes, TESS_COPY_D2H, at.stream));
    expect_all(up, value);
  }
  EXPECT_GT(again, 0);
}

TEST(GpuFromNative, CapturesRecordAndLaunchesOfGraphsAreInOrder) {
  native_device at(delayed(2));
  native_gate closed;
  at.other.call(&native_gate::wait, &closed);
  ASSERT_TESS(tessStreamBeginCapture(at.stream));
  ASSERT_TESS(tessMemcpyAsync(at.y, at.x, bytes, TESS_COPY_D2D, at.stream));
  ASSERT_TESS(tessMemsetAsync(at.x, 0, bytes, at.stream));
  tessGraph_t graph = nullptr;
  ASSERT_TESS(tessStreamEndCapture(at.stream, &graph));
  closed.open = true;
  tessGraphExec_t exec = nullptr;
  ASSERT_TESS(tessGraphInstantiate(graph, &exec));
  for (unsigned char value = 1; value <= 10; ++value) {
    line up{};
    at.other.fill(at.x, value, bytes);
    ASSERT_TESS(tessGraphLaunch(exec, at.stream));
    at.other.copy(at.x, at.y, bytes);
    ASSERT_TESS(tessMemcpyAsync(up.data(), at.x, bytes, TESS_COPY_D2H, at.stream));
    expect_all(up, value);
  }
  ASSERT_TESS(tessGraphExecDestroy(exec));
  ASSERT_TESS(tessGraphDestroy(graph));
}

/// Two ranks, each with a stream that was made from a stream of another library.
struct native_ranks {
  native_ranks() : context(delayed(9, 2), listed_kernels()), on(context, 2) {
    EXPECT_TESS(tessMalloc(on.mesh, bytes, &x));
    for (int r = 0; r < 2; ++r) {
      EXPECT_TESS(tessMemGetRankPtr(on.mesh, x, r, &at[static_cast<std::size_t>(r)]));
      others.push_back(std::make_unique<other_library>(r));
      EXPECT_TESS(tessStreamFromNative(on.mesh, r, others.back()->stream(),
                                       &streams[static_cast<std::size_t>(r)]));
    }
  }
  ~native_ranks() {
    for (tessStream_t s : streams) {
      EXPECT_TESS(tessStreamSynchronize(s));
      EXPECT_TESS(tessStreamDestroy(s));
    }
    EXPECT_TESS(tessFree(on.mesh, x));
  }
  native_ranks(const native_ranks&) = delete;
  native_ranks& operator=(const native_ranks&) = delete;

  /// Lets each library fill the memory of its rank with rank + 1.
  void fill_all() {
    for (std::size_t r = 0; r < 2; ++r) {
      others[r]->fill(at[r], static_cast<unsigned char>(r + 1), bytes);
    }
  }
  tessStatus_t reduce(std::size_t rank) {
    return tessAllReduce(on.mesh, x, bytes, TESS_INT8, TESS_COLL_SUM, "dp",
                         streams.at(rank));
  }

  gpu_context context;
  gpu_mesh on;
  void* x = nullptr;
  std::array<void*, 2> at{};
  std::array<tessStream_t, 2> streams{};
  std::vector<std::unique_ptr<other_library>> others;
};

TEST(GpuFromNative, CollectivesOfAGroupAreInOrderOnAllRanks) {
  native_ranks on;
  for (int i = 0; i < 5; ++i) {
    on.fill_all();
    ASSERT_TESS(tessGroupStart());
    ASSERT_TESS(on.reduce(0));
    ASSERT_TESS(on.reduce(1));
    ASSERT_TESS(tessGroupEnd());
    for (std::size_t r = 0; r < 2; ++r) {
      line up{};
      ASSERT_TESS(tessMemcpyAsync(up.data(), on.at.at(r), bytes, TESS_COPY_D2H,
                                  on.streams.at(r)));
      expect_all(up, 3);
    }
  }
}

TEST(GpuFromNative, CollectivesOfOneThreadForEachRankAreInOrder) {
  native_ranks on;
  on.fill_all();
  std::thread second([&] { EXPECT_TESS(on.reduce(1)); });
  EXPECT_TESS(on.reduce(0));
  second.join();
  line up{};
  ASSERT_TESS(tessMemcpyAsync(up.data(), on.at[1], bytes, TESS_COPY_D2H, on.streams[1]));
  expect_all(up, 3);
}

TEST(GpuFromNative, AFailureIsReturnedByCallsUntilTheSynchronization) {
  native_device at(delayed(1));
  const auto fails = [](void*) { throw std::runtime_error("function failed"); };
  EXPECT_EQ(tessLaunchHostFunc(at.stream, fails, nullptr), TESS_ERR_LAUNCH_FAILED);
  EXPECT_EQ(tessMemsetAsync(at.x, 0, bytes, at.stream), TESS_ERR_LAUNCH_FAILED);
  EXPECT_NE(last_text().find("function failed"), std::string::npos) << last_text();
  EXPECT_EQ(tessStreamSynchronize(at.stream), TESS_ERR_LAUNCH_FAILED);
  exchange_in_turn(at, 5);
}

// The program may not know that the call has got memory, so it has none.
TEST(GpuFromNative, ACallForMemoryThatFailsTakesNone) {
  native_device at(delayed(1));
  const auto fails = [](void*) { throw std::runtime_error("function failed"); };
  EXPECT_EQ(tessLaunchHostFunc(at.stream, fails, nullptr), TESS_ERR_LAUNCH_FAILED);
  void* taken = nullptr;
  EXPECT_EQ(tessMallocAsync(&taken, bytes, at.stream), TESS_ERR_LAUNCH_FAILED);
  EXPECT_EQ(taken, nullptr);
  EXPECT_EQ(tessStreamSynchronize(at.stream), TESS_ERR_LAUNCH_FAILED);
  size_t used = 1;
  size_t limit = 0;
  ASSERT_TESS(tessStreamGetMemoryUse(at.stream, &used, &limit));
  EXPECT_EQ(used, 0U);
}

// The failure is returned and cleared although the native stream is gone.
TEST(GpuFromNative, ASynchronizationReturnsTheFailureOfTheStreamFirst) {
  native_device at(delayed(1));
  const auto fails = [](void*) { throw std::runtime_error("function failed"); };
  EXPECT_EQ(tessLaunchHostFunc(at.stream, fails, nullptr), TESS_ERR_LAUNCH_FAILED);
  tessera::stand_in::let_capture(at.other.stream(), true);
  EXPECT_EQ(tessStreamSynchronize(at.stream), TESS_ERR_LAUNCH_FAILED);
  EXPECT_NE(last_text().find("function failed"), std::string::npos) << last_text();
  EXPECT_EQ(tessStreamSynchronize(at.stream), TESS_ERR_INVALID_VALUE);
  tessera::stand_in::let_capture(at.other.stream(), false);
  ASSERT_TESS(tessStreamSynchronize(at.stream));
}

// An event that is recorded in a capture of the other library never occurs.
TEST(GpuFromNative, CapturesOfTheOtherLibraryAreRefusedAndTheDeviceStays) {
  native_device at(delayed(1));
  tessera::stand_in::let_capture(at.other.stream(), true);
  tessStream_t second = nullptr;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(tessMemsetAsync(at.x, 1, bytes, at.stream), TESS_ERR_INVALID_VALUE);
    EXPECT_NE(last_text().find("expected a stream that does not capture"),
              std::string::npos)
        << last_text();
  }
  EXPECT_EQ(tessStreamFromNative(at.on.mesh, 0, at.other.stream(), &second),
            TESS_ERR_INVALID_VALUE);
  tessera::stand_in::let_capture(at.other.stream(), false);
  exchange_in_turn(at, 8);
}

// Work of the other ranks ends before the group does, also if one rank has failed.
TEST(GpuFromNative, AGroupThatFailsHasWaitedForAllRanks) {
  native_ranks on;
  const auto fails = [](void*) { throw std::runtime_error("function failed"); };
  EXPECT_EQ(tessLaunchHostFunc(on.streams[0], fails, nullptr), TESS_ERR_LAUNCH_FAILED);
  on.fill_all();
  ASSERT_TESS(tessGroupStart());
  ASSERT_TESS(on.reduce(0));
  ASSERT_TESS(on.reduce(1));
  EXPECT_EQ(tessGroupEnd(), TESS_ERR_LAUNCH_FAILED);
  on.fill_all();  // reported at the end if the group still used the memory
  for (tessStream_t s : on.streams) {
    EXPECT_EQ(tessStreamSynchronize(s), TESS_ERR_LAUNCH_FAILED);
  }
}

TEST(GpuFromNative, TheWaitOfACallEndsAtItsLimit) {
  show_machine(delayed(1), listed_kernels());
  const environment set({{"TESS_BACKEND", "cuda"}, {"TESS_TIMEOUT_MS", "20"}});
  {
    session own;
    other_library other(0);
    void* x = nullptr;
    ASSERT_TESS(tessMalloc(own.mesh, bytes, &x));
    tessStream_t stream = nullptr;
    ASSERT_TESS(tessStreamFromNative(own.mesh, 0, other.stream(), &stream));
    native_gate closed;
    other.call(&native_gate::wait, &closed);
    EXPECT_EQ(tessMemsetAsync(x, 6, bytes, stream), TESS_ERR_TIMEOUT);
    closed.open = true;
    ASSERT_TESS(tessStreamSetTimeout(stream, 0));
    ASSERT_TESS(tessStreamSynchronize(stream));
    line up{};
    ASSERT_TESS(tessMemcpyAsync(up.data(), x, bytes, TESS_COPY_D2H, own.stream));
    ASSERT_TESS(tessStreamSynchronize(own.stream));
    expect_all(up, 6);  // the operation was not lost
    ASSERT_TESS(tessStreamDestroy(stream));
    ASSERT_TESS(tessFree(own.mesh, x));
  }
  expect_clean_end();
}

TEST(GpuFromNative, TheNativeStreamIsGivenBackAndStays) {
  native_device at(delayed(1));
  void* found = nullptr;
  ASSERT_TESS(tessStreamGetNative(at.stream, &found));
  EXPECT_EQ(found, at.other.stream());
  EXPECT_EQ(tessStreamGetNative(at.on.stream, &found), TESS_ERR_INVALID_VALUE);
  EXPECT_NE(last_text().find("expected a stream that was made from a native stream"),
            std::string::npos)
      << last_text();
  tessStream_t second = nullptr;
  ASSERT_TESS(tessStreamFromNative(at.on.mesh, 0, at.other.stream(), &second));
  ASSERT_TESS(tessMemsetAsync(at.x, 4, bytes, second));
  ASSERT_TESS(tessStreamDestroy(second));
  exchange_in_turn(at, 9);  // the native stream works on
}

TEST(GpuFromNative, StreamsThatCannotBeWaitedForAreRefusedByName) {
  native_device at(delayed(1, 2));
  other_library second(1);
  struct {
    int rank;
    void* native;
    tessStatus_t status;
    const char* text;
  } const cases[] = {
      {0, nullptr, TESS_ERR_INVALID_VALUE, "expected a native stream, found NULL"},
      {1, at.other.stream(), TESS_ERR_INVALID_VALUE,
       "expected a rank in [0, 1), found 1"},
      {-1, at.other.stream(), TESS_ERR_INVALID_VALUE,
       "expected a rank in [0, 1), found -1"},
      {0, TESS_NATIVE_PER_THREAD, TESS_ERR_UNSUPPORTED,
       "found the default stream of a thread"},
      {0, second.stream(), TESS_ERR_INVALID_VALUE,
       "expected a stream of the primary context"},
  };
  for (const auto& c : cases) {
    tessStream_t made = nullptr;
    EXPECT_EQ(tessStreamFromNative(at.on.mesh, c.rank, c.native, &made), c.status);
    EXPECT_NE(last_text().find(c.text), std::string::npos) << last_text();
    EXPECT_EQ(made, nullptr);
  }
  EXPECT_EQ(tessStreamFromNative(at.on.mesh, 0, at.other.stream(), nullptr),
            TESS_ERR_INVALID_VALUE);
  for (const tessera::stand_in::breach& b : tessera::stand_in::take_breaches()) {
    EXPECT_EQ(b.rule, "stream_context") << b.text;
  }
}

}  // namespace
}  // namespace weir::test
