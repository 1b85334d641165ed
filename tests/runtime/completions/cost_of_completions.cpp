// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that a completion takes no memory and no lock. The program has functions of its
/// own in place of `malloc` and `pthread_mutex_lock`, which count the calls of a thread,
/// so it is not built with sanitizers, which replace the same functions.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tensors.hpp"
#include "weir/runtime/engine.hpp"

namespace {

/// Calls of this thread while it counts.
struct call_count {
  bool counts = false;
  int allocations = 0;
  int locks = 0;
};
constinit thread_local call_count calls_here;

void note_allocation() noexcept {
  calls_here.allocations += calls_here.counts ? 1 : 0;
}

}  // namespace

// The names under which the C library keeps its own functions.
extern "C" {
void* __libc_malloc(std::size_t bytes);                           // NOLINT
void* __libc_calloc(std::size_t count, std::size_t bytes);        // NOLINT
void* __libc_realloc(void* old, std::size_t bytes);               // NOLINT
void* __libc_memalign(std::size_t alignment, std::size_t bytes);  // NOLINT

void* malloc(std::size_t bytes) {
  note_allocation();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  note_allocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  note_allocation();
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  note_allocation();
  return __libc_memalign(alignment, bytes);
}
int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using function = int (*)(pthread_mutex_t*);
  static const auto real =
      reinterpret_cast<function>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  calls_here.locks += calls_here.counts ? 1 : 0;
  return real(mutex);
}
}

namespace weir::runtime {
namespace {

/// Returns the calls that this thread makes inside of a function.
template <class Body>
call_count calls_of(Body&& body) {
  calls_here = {true, 0, 0};
  body();
  return std::exchange(calls_here, {});
}

constexpr std::size_t handle_count = 4;

/// An engine whose tasks are completed by the tests, for different numbers of workers.
class CostOfCompletions : public testing::TestWithParam<unsigned> {
 protected:
  static engine_options options() {
    engine_options o;
    o.workers = GetParam();
    o.window = 64;
    return o;
  }
  /// Submits tasks that end later and two readers of each of them. Returns when all
  /// kernels have given their handles away.
  void begin_round() {
    given_ = 0;
    for (std::size_t i = 0; i < handle_count; ++i) {
      const tensor memory = bytes_of(stores_[i]);
      or_throw(e_->submit("later", std::array{writes(memory)},
                          [this, i](const task_context& c) {
                            handles_[i] = c.later();
                            ++given_;
                          }));
      for (int reader = 0; reader < 2; ++reader) {
        or_throw(e_->submit("read", std::array{reads(memory)},
                            [this](const task_context&) { ++read_; }));
      }
    }
    while (given_ != handle_count) {
      if (!e_->run_one()) {
        e_->idle(100'000);
      }
    }
  }
  /// Completes all tasks of the round.
  void complete_all() {
    for (const completion& one : handles_) {
      static_cast<void>(complete(one, {}));
    }
  }

  std::unique_ptr<engine> e_ = or_throw(engine::create(options()));
  std::array<completion, handle_count> handles_;
  std::atomic<std::size_t> given_{0};
  std::atomic<int> read_{0};
  std::array<storage, handle_count> stores_{
      or_throw(e_->allocate(64, "test")), or_throw(e_->allocate(64, "test")),
      or_throw(e_->allocate(64, "test")), or_throw(e_->allocate(64, "test"))};
};
INSTANTIATE_TEST_SUITE_P(Workers, CostOfCompletions, testing::Values(1U, 2U, 3U));

TEST_P(CostOfCompletions, TheProgramCountsCalls) {
  std::mutex mutex;
  std::vector<int> memory;
  const call_count found = calls_of([&] {
    const std::lock_guard lock(mutex);
    memory.resize(3);
  });
  EXPECT_EQ(found.allocations, 1);
  EXPECT_EQ(found.locks, 1);
}

TEST_P(CostOfCompletions, AnotherThreadTakesNoMemoryAndNoLock) {
  for (int round = 0; round < 20; ++round) {
    begin_round();
    call_count found;
    std::thread([&] { found = calls_of([this] { complete_all(); }); }).join();
    ASSERT_TRUE(e_->wait_all());
    EXPECT_EQ(found.allocations, 0);
    EXPECT_EQ(found.locks, 0);
  }
  EXPECT_EQ(read_, 20 * 2 * static_cast<int>(handle_count));
}

TEST_P(CostOfCompletions, AFailureOfAnotherThreadTakesNoMemoryAndNoLock) {
  begin_round();
  result<void> failure = error(errc::io, "the cable of the machine with rank 1 is cut");
  call_count found;
  std::thread([&] {
    found =
        calls_of([&] { static_cast<void>(complete(handles_[0], std::move(failure))); });
  }).join();
  EXPECT_EQ(found.allocations, 0);
  EXPECT_EQ(found.locks, 0);
  complete_all();  // the first one was completed, which is an error
  EXPECT_FALSE(e_->wait_all());
}

// The queue of a worker takes memory when it is used first, so a worker counts from its
// second round on.
TEST_P(CostOfCompletions, AWorkerThatReleasesSuccessorsTakesNoMemoryAndNoLock) {
  std::array<bool, 3> warm{};  // by worker
  int counted = 0;
  for (int round = 0; round < 200 && counted < 20; ++round) {
    begin_round();
    call_count found;
    bool counts = false;
    or_throw(e_->submit("complete", {}, [&](const task_context& c) {
      found = calls_of([this] { complete_all(); });
      counts = std::exchange(warm[c.worker], true);
    }));
    ASSERT_TRUE(e_->wait_all());
    if (counts) {
      EXPECT_EQ(found.allocations, 0) << "round " << round;
      EXPECT_EQ(found.locks, 0) << "round " << round;
      ++counted;
    }
  }
  EXPECT_EQ(counted, 20);
}

}  // namespace
}  // namespace weir::runtime
