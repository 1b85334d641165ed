// SPDX-License-Identifier: Apache-2.0
/// @file
/// The blocks of a launch, their threads, and the services that kernels call.
///
/// A kernel is entered once for each block, or once for each thread of a block. Threads
/// without barriers run one after another in a loop. Threads with barriers are fibers,
/// which switch at each barrier. All of it happens on the calling thread, so the order of
/// threads is fixed and results do not depend on timing. A service finds its block by the
/// context that the kernel passes to it.
///
/// A block is run from its begin to its end before the next one begins, so the blocks of
/// a slice share scratch memory.
#include "device/cpu/block_runner.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "device/cpu/grid_gate.hpp"
#include "device/cpu/sanitizers.hpp"
#include "weir/base/system/fp_environment.hpp"

namespace weir::tessera {
namespace {

/// Alignment of shared memory: the size of the largest vector register.
constexpr std::size_t shared_alignment = 64;
constexpr const char* foreign_exception = "an object that is no std::exception";
/// Larger than every thread.
constexpr std::int64_t no_thread = std::numeric_limits<std::int64_t>::max();

/// Returns the control bits of the floating point unit that a launch asks for. Denormal
/// numbers may be flushed to zero, as GPUs do.
std::uint64_t control_of(const grid_launch& launch) noexcept {
  if (launch.flush_subnormals) {
    return kernel_fp_control;
  }
#if defined(__SSE2__)
  // All exceptions masked, round to nearest.
  return 0x1F80;
#elif defined(__aarch64__)
  return 0;
#else
  return FE_TONEAREST;
#endif
}

/// Sets the floating point environment of a launch, and restores the caller's at the end.
/// Writing the control register is slow, so it is written only if it differs.
class block_environment {
 public:
  explicit block_environment(const grid_launch& launch) noexcept
      : wanted_(control_of(launch)) {
#if defined(__SSE2__)
    vector_before_ = _mm_getcsr();
    asm volatile("fnstcw %0" : "=m"(x87_before_));
    // The flags of exceptions are not compared, because they change with each operation.
    constexpr unsigned flags = 0x3F;
    differs_ = (vector_before_ & ~flags) != wanted_;
    if (differs_) {
      _mm_setcsr(static_cast<unsigned>(wanted_) | (vector_before_ & flags));
    }
#else
    control_before_ = fp_control();
    restore();
#endif
  }
  ~block_environment() {
#if defined(__SSE2__)
    if (differs_ || _mm_getcsr() != vector_before_) {
      _mm_setcsr(vector_before_);
    }
    restore_x87();
#else
    set_fp_control(control_before_);
#endif
  }
  block_environment(const block_environment&) = delete;
  block_environment& operator=(const block_environment&) = delete;

  /// Undoes changes that a block or a thread of it may have made. A kernel that changes
  /// rounding, for instance, must not influence the next block.
  void restore() const noexcept {
    if (fp_control() != wanted_) {
      set_fp_control(wanted_);
    }
#if defined(__SSE2__)
    restore_x87();
#endif
  }

 private:
  std::uint64_t wanted_;
#if defined(__SSE2__)
  void restore_x87() const noexcept {
    std::uint16_t x87 = 0;
    asm volatile("fnstcw %0" : "=m"(x87));
    if (x87 != x87_before_) {
      asm volatile("fldcw %0" ::"m"(x87_before_));
    }
  }

  bool differs_ = false;  ///< the launch's control bits differ from the caller's
  unsigned vector_before_ = 0;
  std::uint16_t x87_before_ = 0;
#else
  std::uint64_t control_before_ = 0;
#endif
};

/// Indices of the thread with a linear number; x is the fastest. Also used for blocks.
struct thread_index {
  std::int32_t xyz[3];

  thread_index(std::int64_t linear, const std::array<std::int32_t, 3>& extents) noexcept {
    if (linear < extents[0]) {  // the common case needs no divisions
      xyz[0] = static_cast<std::int32_t>(linear);
      xyz[1] = xyz[2] = 0;
      return;
    }
    xyz[0] = static_cast<std::int32_t>(linear % extents[0]);
    linear /= extents[0];
    xyz[1] = static_cast<std::int32_t>(linear % extents[1]);
    xyz[2] = static_cast<std::int32_t>(linear / extents[1]);
  }
  /// Moves to the next thread. Cheaper than computing the indices from the number.
  void advance(const std::int32_t* extents) noexcept {
    if (++xyz[0] < extents[0]) {
      return;
    }
    xyz[0] = 0;
    if (++xyz[1] < extents[1]) {
      return;
    }
    xyz[1] = 0;
    ++xyz[2];
  }
};

/// Runs blocks of a launch one after another. Has the context that kernels see, and the
/// failure of the present block.
///
/// An object lives during one call of `run_block_range` on one thread.
class block_loop {
 public:
  explicit block_loop(const block_host& host) noexcept;

  result<void> run(std::int64_t first, std::int64_t last, bool fibers);

  [[nodiscard]] const block_host& host() const noexcept { return host_; }
  /// Notes that the kernel called a service that it may not call. The text says what was
  /// called; it ends "found ...".
  void misuse(const char* text) noexcept { misuse_ = text; }
  [[nodiscard]] bool has_fibers() const noexcept { return fibers_; }

 private:
  void run_block() noexcept;
  void run_block_entry() noexcept;
  void run_threads() noexcept;
  void run_fibers() noexcept;
  void call_thread(std::int64_t linear, const thread_index& thread) noexcept;
  // Entry of a fiber.
  static void enter_thread(void* self, std::int64_t thread) noexcept;
  void note(std::int64_t thread, int status, const char* text) noexcept;
  [[nodiscard]] error failure() const;

  const block_host& host_;
  block_environment environment_;
  // every member is set, which takes less time than zeroing all of it
  tessBlockContext context_;
  bool fibers_ = false;
  thread_index next_thread_{0, {1, 1, 1}};  ///< the thread that starts as the next fiber
  // The failed thread with the lowest number in the present block, and its failure.
  std::int64_t failed_thread_ = no_thread;
  int status_ = 0;
  bool threw_ = false;
  std::array<char, 160> thrown_;  ///< beginning of the exception's text; set if it threw
  const char* misuse_ = nullptr;
};

/// Returns the loop that runs a block.
block_loop& loop_of(const tessBlockContext* block) noexcept {
  return *static_cast<block_loop*>(block->runtime);
}

// The services of tessKernelServices. They are called by kernels, so they must not throw;
// misuse is noted and reported when the block has ended.
void barrier_service(const tessBlockContext* block) {
  block_loop& loop = loop_of(block);
  if (!loop.has_fibers()) {
    loop.misuse("a barrier in a kernel that is not marked as using barriers");
    return;
  }
  // Returns when all threads of the block have come.
  (void)loop.host().scratch->team().barrier();
}

// Returns other than 0 if the kernel has been asked to stop. If threads are fibers, the
// whole team waits, and one of its members arrives at the grid's barrier.
int grid_barrier_service(const tessBlockContext* block) {
  block_loop& loop = loop_of(block);
  if (loop.host().gate == nullptr) {
    loop.misuse("a grid barrier in a kernel that was not launched as a persistent one");
    return 1;
  }
  return loop.has_fibers() ? loop.host().scratch->team().barrier(true)
                           : loop.host().gate->arrive();
}

/// Asked by persistent kernels, which end by themselves.
int stop_service(const tessBlockContext* block) {
  const auto* stop = loop_of(block).host().stop;
  return stop != nullptr && stop->load(std::memory_order_acquire) ? 1 : 0;
}

/// Passes a line to the log of the context. Logs are optional, so errors are ignored.
void log_service(const tessBlockContext* block, const char* text) {
  const block_host& host = loop_of(block).host();
  if (host.log == nullptr || !*host.log || text == nullptr) {
    return;
  }
  try {
    (*host.log)(host.launch->device, text);
  } catch (...) {  // a failure of the log must not become a failure of the kernel
  }
}

/// The order is that of the structure in the C interface.
constexpr tessKernelServices cpu_services{sizeof(tessKernelServices),
                                          0,
                                          &barrier_service,
                                          &grid_barrier_service,
                                          &stop_service,
                                          &log_service};

// Everything that is the same for all blocks is set here; only the index changes later.
block_loop::block_loop(const block_host& host) noexcept
    : host_(host), environment_(*host.launch) {
  const grid_launch& launch = *host.launch;
  context_.structSize = sizeof(tessBlockContext);
  context_.reserved = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    context_.grid[i] = launch.grid[i];
    context_.block[i] = launch.block[i];
    context_.blockIndex[i] = 0;
  }
  context_.sharedBytes = launch.shared_bytes;
  context_.shared = launch.shared_bytes > 0 ? host.scratch->shared() : nullptr;
  context_.services = &cpu_services;
  context_.rank = launch.facts.rank;
  context_.ranks = launch.facts.ranks;
  context_.device = launch.device;
  for (std::size_t i = 0; i < 4; ++i) {
    context_.axisSize[i] = launch.facts.axis_size[i];
    context_.axisIndex[i] = launch.facts.axis_index[i];
  }
  context_.determinism = launch.facts.determinism;
  context_.constants = launch.facts.constants.data();
  context_.constantBytes = launch.facts.constants.size();
  // Services find the loop by this pointer.
  context_.runtime = this;
}

// Runs the blocks [first, last) and ends at the first failure. A stop request counts only
// between blocks. In persistent kernels the kernel itself asks for it.
//
// `fibers` says that threads need stacks of their own.
result<void> block_loop::run(std::int64_t first, std::int64_t last, bool fibers) {
  fibers_ = fibers;
  thread_index index(first, host_.launch->grid);
  for (std::int64_t i = first; i < last; ++i) {
    if (host_.gate == nullptr && host_.stop != nullptr &&
        host_.stop->load(std::memory_order_acquire)) {
      return error(errc::stopping,
                   fmt::format("run block {} of kernel {} on device {}: expected time to "
                               "run, found a request to stop",
                               i, host_.launch->code.name, host_.launch->device));
    }
    // The block before may have changed the environment.
    if (i != first) {
      environment_.restore();
    }
    std::copy(index.xyz, index.xyz + 3, context_.blockIndex);
    run_block();
    // The first block that fails ends the range.
    if (failed_thread_ != no_thread || misuse_ != nullptr) {
      environment_.restore();
      return failure();
    }
    index.advance(context_.grid);
  }
  return {};
}

/// Three ways, by the flags of the kernel.
void block_loop::run_block() noexcept {
  if ((host_.launch->code.flags & TESS_KERNEL_PER_THREAD) == 0) {
    run_block_entry();
  } else if (fibers_) {
    run_fibers();
  } else {
    run_threads();
  }
}

// An exception must not leave the loop, so it is kept as text.
void block_loop::run_block_entry() noexcept {
  const auto entry = reinterpret_cast<tessBlockEntry>(host_.launch->code.entry);
  int status = 0;
  try {
    status = entry(&context_, host_.launch->args.data());
  } catch (const std::exception& thrown) {
    note(0, 0, thrown.what());
  } catch (...) {
    note(0, 0, foreign_exception);
  }
  if (status != 0) {
    note(0, status, nullptr);
  }
}

// A thread that fails does not stop the others of its block if they are fibers, because
// they may be in the middle of their work.
void block_loop::call_thread(std::int64_t linear, const thread_index& thread) noexcept {
  const auto entry = reinterpret_cast<tessThreadEntry>(host_.launch->code.entry);
  try {
    if (const int status = entry(&context_, thread.xyz, host_.launch->args.data());
        status != 0) {
      note(linear, status, nullptr);
    }
  } catch (const std::exception& thrown) {
    note(linear, 0, thrown.what());
  } catch (...) {
    note(linear, 0, foreign_exception);
  }
}

// Without barriers, a thread that fails ends the block at once.
void block_loop::run_threads() noexcept {
  thread_index thread(0, host_.launch->block);
  const std::int64_t threads = host_.launch->threads();
  for (std::int64_t t = 0; t < threads && failed_thread_ == no_thread; ++t) {
    call_thread(t, thread);
    thread.advance(context_.block);
  }
}

// A fiber begins one thread after another; indices advance with each start, because
// fibers start in ascending order.
void block_loop::enter_thread(void* self, std::int64_t thread) noexcept {
  auto& loop = *static_cast<block_loop*>(self);
  loop.environment_.restore();
  const thread_index own = loop.next_thread_;
  loop.next_thread_.advance(loop.context_.block);
  loop.call_thread(thread, own);
}

// Between two rounds of fibers, the block arrives at the barrier of the grid if one of
// its threads has asked for that.
void block_loop::run_fibers() noexcept {
  next_thread_ = {0, host_.launch->block};
  fiber_team::between rounds;
  if (host_.gate != nullptr) {
    rounds = [gate = host_.gate] { return gate->arrive(); };
  }
  host_.scratch->team().run(host_.launch->threads(), &block_loop::enter_thread, this,
                            std::move(rounds));
}

// Keeps the failure of the lowest thread. Its text is copied to a fixed buffer, because
// memory may be short.
void block_loop::note(std::int64_t thread, int status, const char* text) noexcept {
  if (thread >= failed_thread_) {
    return;
  }
  failed_thread_ = thread;
  status_ = status;
  threw_ = text != nullptr;
  if (threw_) {
    std::strncpy(thrown_.data(), text, thrown_.size() - 1);
    thrown_.back() = '\0';
  }
}

// Describes the failure of the present block.
error block_loop::failure() const {
  std::string where =
      fmt::format("run block ({}, {}, {}) of kernel {} on device {}",
                  context_.blockIndex[0], context_.blockIndex[1], context_.blockIndex[2],
                  host_.launch->code.name, host_.launch->device);
  // No thread has failed, so a service was misused.
  if (failed_thread_ == no_thread) {
    return {errc::kernel_failed,
            fmt::format("{}: expected calls that it may make, found {}", where, misuse_)};
  }
  if ((host_.launch->code.flags & TESS_KERNEL_PER_THREAD) != 0) {
    where += fmt::format(", thread {}", failed_thread_);
  }
  if (threw_) {
    return {errc::kernel_failed,
            fmt::format("{}: expected no exception, found {}", where, thrown_.data())};
  }
  return {errc::kernel_failed,
          fmt::format("{}: expected status 0, found {}", where, status_)};
}

}  // namespace

/// Poisoned memory must not be freed.
block_scratch::~block_scratch() {
  permit(shared_, capacity_);
  std::free(shared_);
}

// Shared memory is kept for later launches. The part that this launch did not ask for is
// poisoned under AddressSanitizer.
//
// `fibers` is the number of threads that need stacks, or 0.
result<void> block_scratch::reserve(std::size_t shared_bytes, std::int64_t fibers) {
  if (fibers > 0) {
    WEIR_CHECK(team_.reserve(fibers));
  }
  // All of it may be used while the size changes.
  permit(shared_, capacity_);
  if (shared_bytes > capacity_) {
    const std::size_t wanted =
        (shared_bytes + shared_alignment - 1) / shared_alignment * shared_alignment;
    void* made = nullptr;
    if (::posix_memalign(&made, shared_alignment, wanted) != 0) {
      return error(errc::out_of_memory,
                   fmt::format("make shared memory of a block: expected {} bytes, found "
                               "no memory",
                               shared_bytes));
    }
    // The new memory was taken first, so a failure keeps the old one.
    std::free(shared_);
    shared_ = static_cast<std::byte*>(made);
    capacity_ = wanted;
  }
  forbid(shared_ + shared_bytes, capacity_ - shared_bytes);
  return {};
}

// The list is short, and the last scratch is the most likely to be in the caches.
//
// Scratch is used by one thread at a time.
result<std::unique_ptr<block_scratch>> scratch_pool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto taken = std::move(idle_.back());
      idle_.pop_back();
      return taken;
    }
  }
  // Without an idle one, a new one is made.
  std::unique_ptr<block_scratch> made(new (std::nothrow) block_scratch(stack_bytes_));
  if (!made) {
    return error(errc::out_of_memory,
                 "make scratch for the blocks of a kernel: expected memory, found none");
  }
  return made;
}

/// If the list cannot grow, the scratch is freed.
void scratch_pool::give_back(std::unique_ptr<block_scratch> scratch) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    idle_.push_back(std::move(scratch));
  } catch (const std::bad_alloc&) {  // the next launch then makes its own
  }
}

// A persistent kernel may call the grid barrier, at which its threads must switch.
bool needs_fibers(const grid_launch& launch, bool persistent) noexcept {
  return (launch.code.flags & TESS_KERNEL_PER_THREAD) != 0 &&
         ((launch.code.flags & TESS_KERNEL_USES_BARRIER) != 0 || persistent);
}

/// Called by workers with slices of a launch.
result<void> run_block_range(const block_host& host, std::int64_t first,
                             std::int64_t last) {
  block_loop loop(host);
  return loop.run(first, last, needs_fibers(*host.launch, host.gate != nullptr));
}

}  // namespace weir::tessera
