// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests how the processor runs blocks: shared memory, services, failures, the floating
/// point environment and the stop flag.
#include <atomic>
#include <cfenv>
#include <cmath>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cpu_kernels.hpp"
#include "device/cpu.hpp"
#include "device/cpu/sanitizers.hpp"
#include "weir/base/system/fp_environment.hpp"

namespace weir::tessera {
namespace {

using body_function = std::function<int(const tessBlockContext*)>;
// Entry points of the kernels. Their only argument is the address of a function object
// of the test, which they call.
using thread_function = std::function<int(const tessBlockContext*, std::int64_t)>;

extern "C" int call_body(const tessBlockContext* block, const void* args) {
  return (**static_cast<const body_function* const*>(args))(block);
}
extern "C" int call_thread_body(const tessBlockContext* block,
                                const std::int32_t thread[3], const void* args) {
  return (**static_cast<const thread_function* const*>(args))(
      block, cpu_kernels::linear_thread(block, thread));
}

/// Expects that the byte at `end` is out of bounds. Only AddressSanitizer can tell; other
/// builds check nothing.
void expect_end([[maybe_unused]] const std::byte* end) {
#if defined(WEIR_ASAN)
  EXPECT_TRUE(__asan_address_is_poisoned(end));
#endif
}

/// A backend that records the lines of its log, and a launch whose blocks or threads call
/// a function of the test. A log line "throw" makes the log throw.
class CpuBlocks : public testing::Test {
 protected:
  result<void> run(body_function body, std::int32_t blocks = 1) {
    body_ = std::move(body);
    launch_.code = cpu_kernels::code_of("probe", &call_body);
    launch_.args = std::as_bytes(std::span(&body_address_, 1));
    launch_.grid = {blocks, 1, 1};
    return backend_->run_blocks(launch_, 0, blocks);
  }
  result<void> run_threads(thread_function body, std::int32_t threads,
                           std::uint32_t flags = TESS_KERNEL_USES_BARRIER) {
    thread_body_ = std::move(body);
    launch_.code = cpu_kernels::code_of("probe", &call_thread_body, flags);
    launch_.args = std::as_bytes(std::span(&thread_body_address_, 1));
    launch_.grid = {1, 1, 1};
    launch_.block = {threads, 1, 1};
    return backend_->run_blocks(launch_, 0, 1);
  }

  grid_launch launch_;
  std::vector<std::string> lines_;
  std::shared_ptr<device_backend> backend_ = or_throw(make_cpu_backend([this] {
    cpu_options options;
    options.log = [this](std::int32_t device, std::string_view text) {
      lines_.push_back(std::to_string(device) + ": " + std::string(text));
      if (text == "throw") {
        throw std::runtime_error("a log that fails");
      }
    };
    return options;
  }()));

 private:
  body_function body_;
  const body_function* body_address_ = &body_;
  thread_function thread_body_;
  const thread_function* thread_body_address_ = &thread_body_;
};

TEST_F(CpuBlocks, TheContextSaysItsSizeAndNothingIsMissing) {
  launch_.device = 3;
  const tessDeterminism determinism{};
  launch_.facts.determinism = &determinism;
  ASSERT_TRUE(run([&](const tessBlockContext* b) {
                EXPECT_EQ(b->structSize, sizeof(tessBlockContext));
                EXPECT_EQ(b->services->structSize, sizeof(tessKernelServices));
                EXPECT_EQ(b->determinism, &determinism);
                EXPECT_EQ(b->shared, nullptr);
                EXPECT_EQ(b->sharedBytes, 0U);
                EXPECT_EQ(b->constants, nullptr);
                EXPECT_EQ(b->device, 3);
                EXPECT_EQ(b->services->stopRequested(b), 0);
                return 0;
              }).has_value());
}

TEST_F(CpuBlocks, SharedMemoryIsAlignedAndEndsWhereItWasAskedTo) {
  for (const std::size_t bytes : {1UL, 100UL, 4096UL, 77UL, 200'000UL, 64UL}) {
    launch_.shared_bytes = bytes;
    ASSERT_TRUE(run(
                    [&](const tessBlockContext* b) {
                      EXPECT_EQ(b->sharedBytes, bytes);
                      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b->shared) % 64, 0U);
                      std::memset(b->shared, 1, bytes);
                      expect_end(static_cast<std::byte*>(b->shared) + bytes);
                      return 0;
                    },
                    3)
                    .has_value());
  }
}

TEST_F(CpuBlocks, LinesOfKernelsReachTheLog) {
  launch_.device = 2;
  ASSERT_TRUE(run([](const tessBlockContext* b) {
                b->services->log(b, "throw");
                b->services->log(b, nullptr);
                b->services->log(b, "hello");
                return 0;
              }).has_value());
  EXPECT_EQ(lines_, (std::vector<std::string>{"2: throw", "2: hello"}));
}

TEST_F(CpuBlocks, ExceptionsBecomeFailures) {
  auto failed = run(
      [](const tessBlockContext* b) -> int {
        if (b->blockIndex[0] == 2) {
          throw std::runtime_error("of its own");
        }
        return 0;
      },
      4);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), errc::kernel_failed);
  EXPECT_EQ(
      failed.error().text(),
      "run block (2, 0, 0) of kernel probe on device 0: expected no exception, found "
      "of its own");
  failed = run([](const tessBlockContext*) -> int { throw 3; });
  ASSERT_FALSE(failed.has_value());
  EXPECT_NE(failed.error().text().find("no std::exception"), std::string::npos);
  const std::string longest(1000, 'x');
  failed =
      run([&](const tessBlockContext*) -> int { throw std::runtime_error(longest); });
  ASSERT_FALSE(failed.has_value());
  EXPECT_NE(failed.error().text().find("xxxx"), std::string::npos);
  EXPECT_TRUE(run([](const tessBlockContext*) { return 0; }).has_value());
}

TEST_F(CpuBlocks, TheFirstThreadThatFailsIsNamedAndAllRunToTheirEnd) {
  std::vector<int> steps(10);
  auto failed = run_threads(
      [&](const tessBlockContext* b, std::int64_t t) {
        ++steps[static_cast<std::size_t>(t)];
        if (t == 7) {
          throw std::runtime_error("seven");
        }
        b->services->barrier(b);
        ++steps[static_cast<std::size_t>(t)];
        b->services->barrier(b);
        return t == 4 ? -5 : 0;
      },
      10);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(
      failed.error().text(),
      "run block (0, 0, 0) of kernel probe on device 0, thread 4: expected status 0, "
      "found -5");
  EXPECT_EQ(steps, (std::vector<int>{2, 2, 2, 2, 2, 2, 2, 1, 2, 2}));
}

TEST_F(CpuBlocks, WithoutBarriersTheFirstFailureEndsTheBlock) {
  int ran = 0;
  auto failed = run_threads(
      [&](const tessBlockContext*, std::int64_t t) {
        ++ran;
        return t == 3 ? 9 : 0;
      },
      10, 0);
  ASSERT_FALSE(failed.has_value());
  EXPECT_NE(failed.error().text().find("thread 3: expected status 0, found 9"),
            std::string::npos);
  EXPECT_EQ(ran, 4);
}

TEST_F(CpuBlocks, ServicesThatAKernelMayNotCallFailIt) {
  auto failed = run([](const tessBlockContext* b) {
    b->services->barrier(b);
    return 0;
  });
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), errc::kernel_failed);
  EXPECT_NE(failed.error().text().find("a barrier"), std::string::npos);
  failed = run([](const tessBlockContext* b) {
    EXPECT_NE(b->services->gridBarrier(b), 0);
    return 0;
  });
  ASSERT_FALSE(failed.has_value());
  EXPECT_NE(failed.error().text().find("a grid barrier"), std::string::npos);
  failed = run_threads(
      [](const tessBlockContext* b, std::int64_t) {
        b->services->barrier(b);
        return 0;
      },
      4, 0);
  ASSERT_FALSE(failed.has_value());
  EXPECT_TRUE(run([](const tessBlockContext*) { return 0; }).has_value());
}

/// What a kernel can see of its floating point environment: whether an addition may
/// return a subnormal number, and how 1/3 is rounded.
struct arithmetic {
  bool subnormals = false;
  int rounding = 0;
};
/// Returns what the calling thread sees of its floating point environment.
arithmetic probe_arithmetic() {
  volatile float tiny = 1.5e-38F;
  volatile float half = 0.5F;
  return {tiny * half != 0.0F, std::fegetround()};
}

TEST_F(CpuBlocks, KernelsSeeOneFloatingPointEnvironment) {
  const fp_scope callers;  // sets subnormals to zero in the calling thread
  ASSERT_FALSE(probe_arithmetic().subnormals);
  for (const bool flush : {false, true}) {
    launch_.flush_subnormals = flush;
    arithmetic found;
    const auto probe = [&](const tessBlockContext*) {
      found = probe_arithmetic();
      return 0;
    };
    ASSERT_TRUE(run(probe).has_value());
    EXPECT_EQ(found.subnormals, !flush);
    EXPECT_EQ(found.rounding, FE_TONEAREST);
  }
  EXPECT_FALSE(probe_arithmetic().subnormals);
  EXPECT_EQ(fp_control(), kernel_fp_control);
}

TEST_F(CpuBlocks, WhatABlockDoesToTheEnvironmentEndsWithIt) {
  std::feclearexcept(FE_ALL_EXCEPT);
  std::vector<int> found;
  ASSERT_TRUE(run(
                  [&](const tessBlockContext*) {
                    found.push_back(std::fegetround());
                    std::fesetround(FE_UPWARD);
                    volatile double zero = 0;
                    volatile double infinite = 1 / zero;
                    (void)infinite;
                    return 0;
                  },
                  3)
                  .has_value());
  EXPECT_EQ(found, std::vector<int>(3, FE_TONEAREST));
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  found.clear();
  ASSERT_TRUE(run_threads(
                  [&](const tessBlockContext* b, std::int64_t t) {
                    found.push_back(std::fegetround());
                    std::fesetround(FE_DOWNWARD);
                    if (t != 1) {
                      b->services->barrier(b);
                    }
                    return 0;
                  },
                  4)
                  .has_value());
  EXPECT_EQ(found, std::vector<int>(4, FE_TONEAREST));
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
#if defined(__SSE2__)
  EXPECT_EQ(_mm_getcsr() & 0x3FU, 0U)
      << "exception flags that blocks raised must not reach the caller";
#endif
}

TEST_F(CpuBlocks, TheStopFlagEndsALaunchBetweenBlocks) {
  std::atomic<bool> stop{false};
  launch_.stop = &stop;
  int ran = 0;
  auto stopped = run(
      [&](const tessBlockContext* b) {
        EXPECT_EQ(b->services->stopRequested(b), 0);
        if (++ran == 5) {
          stop = true;
          EXPECT_NE(b->services->stopRequested(b), 0);
          stop = true;
        }
        return 0;
      },
      100);
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code(), errc::stopping);
  EXPECT_EQ(ran, 5);
}

TEST_F(CpuBlocks, LargeBlocksWithBarriersRunOnManyThreadsAtOnce) {
  constexpr std::int32_t threads = sanitized ? 256 : 1000;
  std::vector<std::thread> hosts;
  std::vector<std::int64_t> sums(3);
  thread_function body = [](const tessBlockContext* b, std::int64_t t) {
    auto* shared = static_cast<std::int64_t*>(b->shared);
    shared[t] = t;
    for (std::int64_t width = 1; width < threads; width *= 2) {
      b->services->barrier(b);
      const std::int64_t other = t + width < threads ? shared[t + width] : 0;
      b->services->barrier(b);
      shared[t] += other;
    }
    b->services->barrier(b);
    return shared[0] == threads * (threads - 1) / 2 ? 0 : 1;
  };
  const thread_function* address = &body;
  grid_launch launch;
  launch.code = cpu_kernels::code_of("sum", &call_thread_body, TESS_KERNEL_USES_BARRIER);
  launch.args = std::as_bytes(std::span(&address, 1));
  launch.grid = {6, 1, 1};
  launch.block = {threads, 1, 1};
  launch.shared_bytes = threads * sizeof(std::int64_t);
  ASSERT_TRUE(backend_->check(launch, false).has_value());
  for (std::size_t h = 0; h < sums.size(); ++h) {
    hosts.emplace_back([&, h] {
      const auto first = static_cast<std::int64_t>(2 * h);
      sums[h] = backend_->run_blocks(launch, first, first + 2).has_value() ? 1 : 0;
    });
  }
  for (auto& host : hosts) {
    host.join();
  }
  EXPECT_EQ(sums, std::vector<std::int64_t>(3, 1));
}

#if defined(WEIR_ASAN)
using CpuBlocksDeathTest = CpuBlocks;

TEST_F(CpuBlocksDeathTest, AKernelThatWritesBeyondItsMemoryIsCaught) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  std::byte* const memory = or_throw(backend_->allocate(0, 100));
  launch_.shared_bytes = 40;
  // The threads wait at a barrier first, so the write happens on the stack of a fiber.
  const auto write = [&](std::size_t in_memory, std::size_t in_shared) {
    return run_threads(
        [=](const tessBlockContext* b, std::int64_t t) {
          b->services->barrier(b);
          if (t == 2) {
            memory[in_memory] = std::byte{1};
            static_cast<std::byte*>(b->shared)[in_shared] = std::byte{1};
          }
          b->services->barrier(b);
          return 0;
        },
        4);
  };
  EXPECT_TRUE(write(99, 39).has_value());
  EXPECT_DEATH((void)write(100, 0), "use-after-poison");
  EXPECT_DEATH((void)write(0, 40), "use-after-poison");
  or_throw(backend_->free(0, memory));
}
#endif

TEST(CpuBackend, OptionsThatMakeNoSenseAreRefused) {
  const auto refused = [](auto change) {
    cpu_options options;
    change(options);
    auto made = make_cpu_backend(options);
    return !made && made.error().code() == errc::invalid_argument;
  };
  EXPECT_TRUE(refused([](auto& o) { o.devices = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.devices = -4; }));
  EXPECT_TRUE(refused([](auto& o) { o.memory = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.stack_bytes = 4096; }));
  EXPECT_TRUE(refused([](auto& o) { o.persistent_blocks = -1; }));
  EXPECT_FALSE(refused([](auto&) {}));
}

TEST(CpuBackend, TheArchitectureIsWhatTheCallerSaysOrThisProcessor) {
  cpu_options options;
  EXPECT_EQ(or_throw(or_throw(make_cpu_backend(options))->properties(0)).arch,
            cpu_arch());
  options.arch = "x86-64-v2";
  EXPECT_EQ(or_throw(or_throw(make_cpu_backend(options))->properties(7)).arch,
            "x86-64-v2");
#if defined(__x86_64__)
  EXPECT_EQ(cpu_arch().substr(0, 6), "x86-64");
#endif
}

}  // namespace
}  // namespace weir::tessera
