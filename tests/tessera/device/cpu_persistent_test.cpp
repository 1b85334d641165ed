// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests persistent kernels on a processor: grid barriers that some blocks leave early,
/// threads of blocks as fibers, kernels that ignore a stop request, and lifetimes of runs
/// and backends.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cpu_kernels.hpp"
#include "device/cpu.hpp"
#include "device/cpu/sanitizers.hpp"

namespace weir::tessera {
namespace {

using grid_function = std::function<int(const tessBlockContext*, std::int64_t)>;
// Entry points of the kernels, called per block and per thread. Their argument is the
// address of a function object of the test, which also gets the linear index in the grid.

extern "C" int call_grid_body(const tessBlockContext* block, const void* args) {
  return (**static_cast<const grid_function* const*>(args))(
      block, cpu_kernels::linear_block(block));
}
extern "C" int call_grid_thread(const tessBlockContext* block,
                                const std::int32_t thread[3], const void* args) {
  return (**static_cast<const grid_function* const*>(args))(
      block, cpu_kernels::linear_block(block) * cpu_kernels::threads_of(block) +
                 cpu_kernels::linear_thread(block, thread));
}

/// A backend with one device, and launches whose blocks or threads call a function of the
/// test.
class CpuPersistent : public testing::Test {
 protected:
  grid_launch launch_of(grid_function body, std::int32_t blocks,
                        std::int32_t threads = 0) {
    body_ = std::move(body);
    grid_launch l;
    l.code = threads == 0 ? cpu_kernels::code_of("grid", &call_grid_body)
                          : cpu_kernels::code_of("grid", &call_grid_thread);
    l.code.flags |= TESS_KERNEL_PERSISTENT_CAPABLE;
    l.args = std::as_bytes(std::span(&body_address_, 1));
    l.grid = {blocks, 1, 1};
    l.block = {std::max(threads, 1), 1, 1};
    return l;
  }
  static std::shared_ptr<device_backend> make(
      std::int64_t stop_limit_ns = 5'000'000'000) {
    cpu_options options;
    options.devices = 1;
    options.memory = 1 << 20;
    options.stop_limit_ns = stop_limit_ns;
    return or_throw(make_cpu_backend(options));
  }
  /// Starts the kernel and waits until it has ended.
  result<void> run(const grid_launch& launch) {
    auto started = backend_->start_persistent(launch, {});
    return started ? (*started)->wait(-1) : result<void>(std::move(started).error());
  }

  std::shared_ptr<device_backend> backend_ = make();

 private:
  grid_function body_;
  const grid_function* body_address_ = &body_;
};

// Block i waits at the grid barrier 5 * i times. The others must not wait for blocks that
// have ended.
TEST_F(CpuPersistent, BlocksThatHaveEndedCountAsArrived) {
  std::vector<int> rounds(6);
  ASSERT_TRUE(run(launch_of(
                      [&](const tessBlockContext* b, std::int64_t block) {
                        for (int r = 0; r < 5 * static_cast<int>(block); ++r) {
                          EXPECT_EQ(b->services->gridBarrier(b), 0);
                          ++rounds[static_cast<std::size_t>(block)];
                        }
                        return 0;
                      },
                      6))
                  .has_value());
  EXPECT_EQ(rounds, (std::vector<int>{0, 5, 10, 15, 20, 25}));
}

// In each round, a thread writes its slot and, behind the barrier, reads the slot of a
// thread in another block. It would read an old number if any thread passed the barrier
// early.
TEST_F(CpuPersistent, ThreadsOfAllBlocksMeetAtTheGridBarrier) {
  constexpr std::int32_t blocks = 3;
  constexpr std::int32_t threads = 20;
  std::vector<std::int64_t> slots(blocks * threads);
  std::atomic<int> wrong{0};
  ASSERT_TRUE(run(launch_of(
                      [&](const tessBlockContext* b, std::int64_t id) {
                        for (std::int64_t r = 1; r <= 20; ++r) {
                          slots[static_cast<std::size_t>(id)] = r * id;
                          b->services->barrier(b);
                          (void)b->services->gridBarrier(b);
                          const auto peer =
                              static_cast<std::size_t>((id + r * 7) % (blocks * threads));
                          wrong +=
                              slots[peer] == r * static_cast<std::int64_t>(peer) ? 0 : 1;
                          (void)b->services->gridBarrier(b);
                        }
                        return 0;
                      },
                      blocks, threads))
                  .has_value());
  EXPECT_EQ(wrong, 0);
}

// Requests the stop at an arbitrary time. All blocks must have counted the same number of
// rounds; otherwise one would wait at a barrier that another has left.
TEST_F(CpuPersistent, AllBlocksLearnOfAStopAtTheSameBarrier) {
  for (int trial = 0; trial < (sanitized ? 10 : 50); ++trial) {
    std::vector<std::int64_t> rounds(4);
    const grid_launch launch = launch_of(
        [&](const tessBlockContext* b, std::int64_t block) {
          while (b->services->gridBarrier(b) == 0) {
            ++rounds[static_cast<std::size_t>(block)];
          }
          return 0;
        },
        4);
    auto started = backend_->start_persistent(launch, {});
    ASSERT_TRUE(started.has_value());
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    (*started)->request_stop();
    ASSERT_TRUE((*started)->wait(-1).has_value());
    EXPECT_EQ(rounds, std::vector<std::int64_t>(4, rounds[0]));
  }
}

// Blocks 2 and 3 both fail. The outcome must name block 2, whatever the timing.
TEST_F(CpuPersistent, TheFailureOfTheFirstBlockIsTheOutcome) {
  auto failed = run(launch_of(
      [](const tessBlockContext* b, std::int64_t block) -> int {
        (void)b->services->gridBarrier(b);
        if (block == 2) {
          throw std::runtime_error("block two");
        }
        return block == 3 ? 3 : 0;
      },
      5));
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), errc::kernel_failed);
  EXPECT_NE(failed.error().text().find("block two"), std::string::npos);
}

TEST_F(CpuPersistent, EveryBlockHasAThreadOfItsOwn) {
  std::vector<std::thread::id> ids(64);
  ASSERT_TRUE(run(launch_of(
                      [&](const tessBlockContext* b, std::int64_t block) {
                        ids[static_cast<std::size_t>(block)] = std::this_thread::get_id();
                        (void)b->services->gridBarrier(b);
                        return 0;
                      },
                      64))
                  .has_value());
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
  EXPECT_EQ(std::count(ids.begin(), ids.end(), std::this_thread::get_id()), 0);
}

TEST_F(CpuPersistent, TheLastBlockCallsTheCompletionBeforeTheEndIsReported) {
  for (int trial = 0; trial < 20; ++trial) {
    std::atomic<int> called{0};
    auto token = std::make_shared<int>(0);
    auto started = backend_->start_persistent(
        launch_of([](const tessBlockContext*, std::int64_t) { return 0; }, 3),
        [&called, token](const result<void>& r) { called += r ? 1 : 10; });
    ASSERT_TRUE(started.has_value());
    ASSERT_TRUE((*started)->wait(-1).has_value());
    EXPECT_EQ(called, 1);
    EXPECT_EQ(token.use_count(), 1) << "the completion function has been destroyed";
  }
}

// The completion holds the last reference to the backend and drops it while the backend's
// own thread calls it.
TEST_F(CpuPersistent, ACompletionMayDropTheBackend) {
  std::promise<void> dropped;
  std::atomic<bool> let_go{false};
  auto started =
      backend_->start_persistent(launch_of(
                                     [&](const tessBlockContext*, std::int64_t) {
                                       while (!let_go) {
                                         std::this_thread::yield();
                                       }
                                       return 0;
                                     },
                                     2),
                                 [&, backend = backend_](const result<void>&) mutable {
                                   backend.reset();  // the last reference
                                   dropped.set_value();
                                 });
  ASSERT_TRUE(started.has_value());
  backend_.reset();
  let_go = true;
  dropped.get_future().get();
  EXPECT_TRUE((*started)->wait(-1).has_value());
}

// Destroys the backend while a kernel runs that waits for the stop request. The run must
// have ended when the destructor returns, and its completion must have been called.
TEST_F(CpuPersistent, DestroyingTheBackendStopsRunningKernels) {
  std::promise<result<void>> done;
  auto started =
      backend_->start_persistent(launch_of(
                                     [](const tessBlockContext* b, std::int64_t) {
                                       while (b->services->stopRequested(b) == 0) {
                                         std::this_thread::yield();
                                       }
                                       return 0;
                                     },
                                     2),
                                 [&](result<void> r) { done.set_value(std::move(r)); });
  ASSERT_TRUE(started.has_value());
  backend_.reset();
  EXPECT_TRUE((*started)->ended());
  EXPECT_TRUE(done.get_future().get().has_value());
}

// The kernel ignores the stop request. Destroying the backend must return after the
// stop limit (20 ms) and leave the run alive until its kernel does end.
TEST_F(CpuPersistent, AKernelThatIgnoresTheStopIsLeftBehindInTime) {
  backend_ = make(20'000'000);
  std::atomic<bool> let_go{false};
  std::promise<void> done;
  auto started =
      backend_->start_persistent(launch_of(
                                     [&](const tessBlockContext*, std::int64_t) {
                                       while (!let_go) {
                                         std::this_thread::yield();
                                       }
                                       return 0;
                                     },
                                     2),
                                 [&](const result<void>&) { done.set_value(); });
  ASSERT_TRUE(started.has_value());
  const auto before = std::chrono::steady_clock::now();
  backend_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(3));
  EXPECT_FALSE((*started)->ended());
  let_go = true;
  done.get_future().get();
  EXPECT_TRUE((*started)->wait(-1).has_value());
}

TEST_F(CpuPersistent, ManyShortKernelsRunOneAfterAnother) {
  std::atomic<int> ran{0};
  const grid_launch launch = launch_of(
      [&](const tessBlockContext*, std::int64_t) {
        ++ran;
        return 0;
      },
      4);
  for (int i = 0; i < (sanitized ? 30 : 200); ++i) {
    ASSERT_TRUE(run(launch).has_value());
  }
  EXPECT_EQ(ran, sanitized ? 120 : 800);
}

#if !defined(WEIR_ASAN) && !defined(WEIR_TSAN)
/// Limits the address space so that 64 threads cannot start, and exits with 0 if the
/// start is refused, no block has run, and the same start succeeds once the limit is
/// raised.
[[noreturn]] void start_without_memory(device_backend& backend, const grid_launch& launch,
                                       const std::atomic<int>& ran) {
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = rlim_t{1} << 28;  // less than 64 stacks of 8 MiB
  int status = ::setrlimit(RLIMIT_AS, &limit);
  auto refused = backend.start_persistent(launch, {});
  status += !refused && refused.error().code() == errc::out_of_memory ? 0 : 2;
  status += ran == 0 ? 0 : 4;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_AS, &limit);
  auto started = backend.start_persistent(launch, {});
  status += started && (*started)->wait(-1) ? 0 : 8;
  status += ran == 64 ? 0 : 16;
  std::_Exit(status);
}

using CpuPersistentDeathTest = CpuPersistent;

TEST_F(CpuPersistentDeathTest, AllBlocksStartOrNone) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  std::atomic<int> ran{0};
  const grid_launch launch = launch_of(
      [&](const tessBlockContext*, std::int64_t) {
        ++ran;
        return 0;
      },
      64);
  EXPECT_EXIT(start_without_memory(*backend_, launch, ran), testing::ExitedWithCode(0),
              "");
}
#endif

}  // namespace
}  // namespace weir::tessera
