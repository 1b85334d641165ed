// SPDX-License-Identifier: Apache-2.0
/// @file
/// Order between streams of the runtime and streams of another library on the same GPU.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "streams/shared_device.hpp"

namespace weir::test {
namespace {

using tessera::stand_in::breach;
using tessera::stand_in::other_library;

// Memory goes back and forth: the other library fills x, the runtime copies it to y, the
// other library copies y to x, and the runtime reads x. Each step needs its wait.
void exchange(shared_device& at, unsigned char value) {
  line up{};
  at.other.fill(at.x, value, bytes);
  ASSERT_TESS(tessStreamWaitNative(at.on.stream, 0, at.other.stream()));
  ASSERT_TESS(tessMemcpyAsync(at.y, at.x, bytes, TESS_COPY_D2D, at.on.stream));
  ASSERT_TESS(tessMemsetAsync(at.x, 0, bytes, at.on.stream));
  ASSERT_TESS(tessNativeWaitStream(at.other.stream(), 0, at.on.stream));
  at.other.copy(at.x, at.y, bytes);
  ASSERT_TESS(tessStreamWaitNative(at.on.stream, 0, at.other.stream()));
  ASSERT_TESS(tessMemcpyAsync(up.data(), at.x, bytes, TESS_COPY_D2H, at.on.stream));
  ASSERT_TESS(tessStreamSynchronize(at.on.stream));
  for (const unsigned char found : up) {
    ASSERT_EQ(found, value);
  }
}

TEST(GpuNativeStreams, WorkOfAnotherLibraryAndOfAStreamRunsInTheOrderOfTheWaits) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    shared_device at(delayed(seed));
    for (unsigned char value = 1; value <= 10; ++value) {
      exchange(at, value);
    }
  }
}

TEST(GpuNativeStreams, TheDefaultStreamOfADeviceIsANativeStream) {
  shared_device at(delayed(3), true);
  ASSERT_EQ(at.other.stream(), TESS_NATIVE_LEGACY);
  exchange(at, 7);
}

TEST(GpuNativeStreams, AStreamOfSeveralDevicesWaitsOnAllOfThem) {
  gpu_context context(delayed(5, 2), listed_kernels());
  const gpu_mesh on(context, 2);
  other_library other(1);
  void* x = nullptr;
  void* y = nullptr;
  ASSERT_TESS(tessMalloc(on.mesh, bytes, &x));
  ASSERT_TESS(tessMalloc(on.mesh, bytes, &y));
  void* second = nullptr;
  ASSERT_TESS(tessMemGetRankPtr(on.mesh, x, 1, &second));
  for (int i = 1; i <= 10; ++i) {
    line up{};
    other.fill(second, static_cast<unsigned char>(i), bytes);
    ASSERT_TESS(tessStreamWaitNative(on.stream, 1, other.stream()));
    ASSERT_TESS(tessMemcpyAsync(y, x, bytes, TESS_COPY_D2D, on.stream));
    ASSERT_TESS(tessMemcpyRankAsync(up.data(), y, bytes, TESS_COPY_D2H, 1, on.stream));
    ASSERT_TESS(tessNativeWaitStream(other.stream(), 1, on.stream));
    EXPECT_EQ(up[bytes - 1], i);
  }
  ASSERT_TESS(tessFree(on.mesh, x));
  ASSERT_TESS(tessFree(on.mesh, y));
}

// The mistake that the functions exist for. The stand-in reports it, and `settle` keeps
// it from doing harm.
TEST(GpuNativeStreams, WithoutAWaitForTheNativeStreamAccessesHaveNoOrder) {
  shared_device at(delayed(1));
  for (const bool waits : {true, false}) {
    line up{};
    at.other.fill(at.x, 9, bytes);
    if (waits) {
      ASSERT_TESS(tessStreamWaitNative(at.on.stream, 0, at.other.stream()));
    } else {
      tessera::stand_in::settle();
    }
    ASSERT_TESS(tessMemcpyAsync(up.data(), at.x, bytes, TESS_COPY_D2H, at.on.stream));
    ASSERT_TESS(tessNativeWaitStream(at.other.stream(), 0, at.on.stream));
    EXPECT_EQ(found_unordered_accesses(), !waits);
  }
}

TEST(GpuNativeStreams, WithoutAWaitOfTheNativeStreamAccessesHaveNoOrder) {
  shared_device at(delayed(1));
  const line down{};
  for (const bool waits : {true, false}) {
    native_gate opened;
    ASSERT_TESS(tessLaunchHostFunc(at.on.stream, &native_gate::wait, &opened));
    ASSERT_TESS(tessMemcpyAsync(at.x, down.data(), bytes, TESS_COPY_H2D, at.on.stream));
    std::thread opener;
    if (waits) {
      opener = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        opened.open = true;
      });
      EXPECT_TESS(tessNativeWaitStream(at.other.stream(), 0, at.on.stream));
      EXPECT_TRUE(opened.open) << "the call returned before the stream had got there";
    }
    at.other.copy(at.y, at.x, bytes);
    tessera::stand_in::settle();
    opened.open = true;
    if (opener.joinable()) {
      opener.join();
    }
    ASSERT_TESS(tessStreamSynchronize(at.on.stream));
    ASSERT_TESS(tessStreamWaitNative(at.on.stream, 0, at.other.stream()));
    ASSERT_TESS(tessStreamSynchronize(at.on.stream));
    EXPECT_EQ(found_unordered_accesses(), !waits);
  }
}

// A native stream may wait for the program itself. More operations than fit in the
// engine's window are enqueued behind the wait, and another stream goes on.
TEST(GpuNativeStreams, AWaitForANativeStreamKeepsNeitherCallersNorOtherStreams) {
  shared_device at(delayed(1));
  native_gate opened;
  at.other.call(&native_gate::wait, &opened);
  ASSERT_TESS(tessStreamWaitNative(at.on.stream, 0, at.other.stream()));
  std::atomic<int> behind{0};
  const auto count = [](void* user) { ++*static_cast<std::atomic<int>*>(user); };
  constexpr int many = 20'000;
  for (int i = 0; i < many; ++i) {
    ASSERT_TESS(tessLaunchHostFunc(at.on.stream, count, &behind));
  }
  tessStream_t beside = nullptr;
  std::atomic<int> ran{0};
  ASSERT_TESS(tessStreamCreate(at.on.mesh, 0, &beside));
  ASSERT_TESS(tessLaunchHostFunc(beside, count, &ran));
  ASSERT_TESS(tessStreamSynchronize(beside));
  EXPECT_EQ(ran, 1);
  int done = 1;
  ASSERT_TESS(tessStreamQuery(at.on.stream, &done));
  EXPECT_EQ(done, 0);
  EXPECT_EQ(behind, 0);
  opened.open = true;
  ASSERT_TESS(tessStreamSynchronize(at.on.stream));
  EXPECT_EQ(behind, many);
  ASSERT_TESS(tessStreamDestroy(beside));
}

TEST(GpuNativeStreams, ANativeStreamMayEndWhileItIsWaitedFor) {
  shared_device at(delayed(2));
  line up{};
  at.other.fill(at.x, 5, bytes);
  ASSERT_TESS(tessStreamWaitNative(at.on.stream, 0, at.other.stream()));
  at.other.destroy_stream();
  ASSERT_TESS(tessMemcpyAsync(up.data(), at.x, bytes, TESS_COPY_D2H, at.on.stream));
  ASSERT_TESS(tessStreamSynchronize(at.on.stream));
  EXPECT_EQ(up[0], 5);
}

void lose_a_device_that_is_waited_for() {
  gpu_context context(delayed(1), listed_kernels());
  context.has_broken_devices();
  const gpu_mesh on(context, 1);
  other_library other(0);
  native_gate opened;
  other.call(&native_gate::wait, &opened);
  ASSERT_TESS(tessStreamWaitNative(on.stream, 0, other.stream()));
  std::atomic<int> ran{0};
  ASSERT_TESS(tessLaunchHostFunc(
      on.stream, [](void* user) { ++*static_cast<std::atomic<int>*>(user); }, &ran));
  tessera::stand_in::break_device(0, tessera::cuda::status::illegal_address);
  opened.open = true;
  EXPECT_EQ(tessStreamSynchronize(on.stream), TESS_ERR_LAUNCH_FAILED) << last_text();
  EXPECT_NE(last_text().find("wait for native stream"), std::string::npos) << last_text();
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(tessStreamWaitNative(on.stream, 0, other.stream()), TESS_ERR_LAUNCH_FAILED);
  tessera::stand_in::settle();
  other.abandon();
}

TEST(GpuNativeStreams, ALostDeviceFailsTheStreamThatWaits) {
  lose_a_device_that_is_waited_for();
  // The backend ends with the last task, perhaps a moment after the context. The other
  // library has not released its context.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (tessera::stand_in::objects().contexts > 1 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(tessera::stand_in::objects().contexts, 1U);
}

TEST(GpuNativeStreams, AFailureOfTheStreamIsReturnedAndStays) {
  shared_device at(delayed(1));
  const auto fails = [](void*) { throw std::runtime_error("function failed"); };
  ASSERT_TESS(tessLaunchHostFunc(at.on.stream, fails, nullptr));
  EXPECT_EQ(tessNativeWaitStream(at.other.stream(), 0, at.on.stream),
            TESS_ERR_LAUNCH_FAILED);
  EXPECT_EQ(tessStreamSynchronize(at.on.stream), TESS_ERR_LAUNCH_FAILED);
  EXPECT_TESS(tessNativeWaitStream(at.other.stream(), 0, at.on.stream));
}

TEST(GpuNativeStreams, TheWaitOfANativeStreamEndsAtItsLimit) {
  show_machine(delayed(1), listed_kernels());
  const environment set({{"TESS_BACKEND", "cuda"}, {"TESS_TIMEOUT_MS", "20"}});
  {
    session own;
    other_library other(0);
    native_gate opened;
    ASSERT_TESS(tessLaunchHostFunc(own.stream, &native_gate::wait, &opened));
    EXPECT_EQ(tessNativeWaitStream(other.stream(), 0, own.stream), TESS_ERR_TIMEOUT);
    opened.open = true;
    ASSERT_TESS(tessStreamSetTimeout(own.stream, 0));
    ASSERT_TESS(tessStreamSynchronize(own.stream));
  }
  expect_clean_end();
}

TEST(GpuNativeStreams, StreamsThatCannotBeWaitedForAreRefusedByName) {
  shared_device at(delayed(1, 2));
  other_library second(1);
  struct {
    int device;
    void* native;
    tessStatus_t status;
    const char* text;
  } const cases[] = {
      {0, nullptr, TESS_ERR_INVALID_VALUE, "expected a native stream, found NULL"},
      {2, at.other.stream(), TESS_ERR_INVALID_VALUE, "device 2"},
      {-1, at.other.stream(), TESS_ERR_INVALID_VALUE, "device -1"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(tessStreamWaitNative(at.on.stream, c.device, c.native), c.status);
    EXPECT_NE(last_text().find(c.text), std::string::npos) << last_text();
    EXPECT_EQ(tessNativeWaitStream(c.native, c.device, at.on.stream), c.status);
    EXPECT_NE(last_text().find(c.text), std::string::npos) << last_text();
  }
  // Only the thread that has this stream could record an event on it.
  EXPECT_EQ(tessStreamWaitNative(at.on.stream, 0, TESS_NATIVE_PER_THREAD),
            TESS_ERR_UNSUPPORTED);
  EXPECT_TESS(tessNativeWaitStream(TESS_NATIVE_PER_THREAD, 0, at.on.stream));
  // The stream of another device is known to the driver alone.
  EXPECT_EQ(tessStreamWaitNative(at.on.stream, 0, second.stream()),
            TESS_ERR_INVALID_VALUE);
  EXPECT_NE(last_text().find("expected a stream of the primary context"),
            std::string::npos)
      << last_text();
  for (const breach& b : tessera::stand_in::take_breaches()) {
    EXPECT_EQ(b.rule, "stream_context") << b.text;
  }
  EXPECT_TESS(tessStreamSynchronize(at.on.stream));
}

TEST(GpuNativeStreams, CapturesTakeNoWaitsForNativeStreams) {
  shared_device at(delayed(1));
  ASSERT_TESS(tessStreamBeginCapture(at.on.stream));
  EXPECT_EQ(tessStreamWaitNative(at.on.stream, 0, at.other.stream()),
            TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessNativeWaitStream(at.other.stream(), 0, at.on.stream),
            TESS_ERR_INVALID_VALUE);
  // The capture is not affected.
  ASSERT_TESS(tessMemsetAsync(at.x, 3, bytes, at.on.stream));
  tessGraph_t graph = nullptr;
  ASSERT_TESS(tessStreamEndCapture(at.on.stream, &graph));
  std::size_t nodes = 0;
  ASSERT_TESS(tessGraphGetNodeCount(graph, &nodes));
  EXPECT_EQ(nodes, 1U);
  ASSERT_TESS(tessGraphDestroy(graph));
}

}  // namespace
}  // namespace weir::test
