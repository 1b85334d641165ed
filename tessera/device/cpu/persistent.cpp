// SPDX-License-Identifier: Apache-2.0
/// @file
/// The threads of persistent kernels. They start together or not at all, because blocks
/// may wait for each other at the grid barrier, and end one by one.
///
/// Ownership: threads share the run, which therefore may outlive the backend. The
/// program's handle is another object, whose end asks the kernel to stop.
#include "device/cpu/persistent.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "device/cpu/grid_gate.hpp"
#include "weir/base/system/threads.hpp"

/// A kernel has one thread per block. The order of an end is: the grid barrier is left,
/// the completion is called by the last block, then `ended` becomes true.
namespace weir::tessera {
namespace {

/// For the functions of the standard library.
std::chrono::nanoseconds to_duration(std::int64_t ns) {
  return std::chrono::nanoseconds(ns);
}

}  // namespace

/// One persistent kernel. It owns copies of everything that its threads read, so that it
/// may outlive the caller's arguments and the backend.
class cpu_persistent_run final : public persistent_run {
 public:
  cpu_persistent_run(const grid_launch& launch, std::shared_ptr<const kernel_log> log,
                     completion done)
      : launch_(launch),
        name_(launch.code.name),
        // Arguments are kept in words of 8 bytes, which gives them their alignment.
        args_((launch.args.size() + 7) / 8),
        log_(std::move(log)),
        done_(std::move(done)),
        gate_(launch.blocks(), stop_),
        left_(launch.blocks()) {
    std::copy(launch.args.begin(), launch.args.end(),
              std::as_writable_bytes(std::span(args_)).begin());
    launch_.code.name = name_;
    launch_.args = std::as_bytes(std::span(args_)).first(launch.args.size());
    launch_.stop = &stop_;
    if (launch.facts.determinism != nullptr) {
      determinism_ = *launch.facts.determinism;
      launch_.facts.determinism = &determinism_;
    }
  }

  // May be called at any time and more than once.
  void request_stop() noexcept override { stop_.store(true, std::memory_order_release); }
  [[nodiscard]] bool ended() const noexcept override {
    return ended_.load(std::memory_order_acquire);
  }
  [[nodiscard]] result<void> wait(std::int64_t limit_ns) override;

  /// Makes scratch and threads. @error{out_of_memory; nothing has run}
  [[nodiscard]] result<void> start(const std::shared_ptr<cpu_persistent_run>& self,
                                   std::size_t stack_bytes);
  /// Waits for the threads to return. Must not be called by one of its threads.
  void join();
  /// Leaves the threads running without this object waiting for them.
  void detach();
  /// Returns true if this is one of its threads.
  [[nodiscard]] bool has_thread(std::thread::id id) const;

 private:
  void run_block(std::int64_t block, block_scratch& scratch);
  void end_block(std::int64_t block, result<void> outcome);
  void open(bool go);

  // Its pointers refer to the members below.
  grid_launch launch_;
  std::string name_;
  std::vector<std::uint64_t> args_;
  tessDeterminism determinism_{};
  std::shared_ptr<const kernel_log> log_;
  // Called once, by the thread of the last block.
  completion done_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> ended_{false};
  grid_gate gate_;

  std::mutex mutex_;
  std::condition_variable changed_;
  /// true: the threads shall run; false: they shall return at once
  std::optional<bool> go_;
  std::int64_t left_;         ///< blocks that have not ended
  std::int64_t failed_ = -1;  ///< lowest block that has failed; -1: none
  result<void> outcome_;
  std::vector<std::thread> threads_;
};

// Threads wait until all have been made (`open`). If one cannot be made, those that exist
// are told to return without running. Threads block signals, so that the program's
// handlers run on the program's threads.
result<void> cpu_persistent_run::start(const std::shared_ptr<cpu_persistent_run>& self,
                                       std::size_t stack_bytes) {
  const std::int64_t blocks = launch_.blocks();
  const bool fibers = needs_fibers(launch_, true);
  try {
    const signal_blocker scope;
    threads_.reserve(static_cast<std::size_t>(blocks));
    // Scratch is made here, so that a lack of memory is found before anything runs.
    for (std::int64_t b = 0; b < blocks; ++b) {
      auto scratch = std::make_shared<block_scratch>(stack_bytes);
      auto reserved =
          scratch->reserve(launch_.shared_bytes, fibers ? launch_.threads() : 0);
      if (!reserved) {
        // The threads that exist return without running.
        open(false);
        join();
        return std::move(reserved).error();
      }
      threads_.emplace_back([self, scratch, b] {
        name_this_thread("weir-kernel");
        self->run_block(b, *scratch);
      });
    }
  } catch (const std::exception&) {  // no memory or no more threads
    const std::size_t made = threads_.size();
    open(false);
    join();
    return error(
        errc::out_of_memory,
        fmt::format("start persistent kernel {}: expected {} threads, started {}", name_,
                    blocks, made));
  }
  // From here on all of them run.
  open(true);
  return {};
}

/// Called once.
void cpu_persistent_run::open(bool go) {
  const std::lock_guard lock(mutex_);
  go_ = go;
  changed_.notify_all();
}

// The body of a thread. `leave` comes before `end_block`, so that other blocks do not
// wait at the grid barrier for this one.
void cpu_persistent_run::run_block(std::int64_t block, block_scratch& scratch) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return go_.has_value(); });
    if (!*go_) {
      return;
    }
  }
  const block_host host{&launch_, &scratch, log_.get(), &gate_, &stop_};
  result<void> outcome;
  try {
    outcome = run_block_range(host, block, block + 1);
  } catch (const std::bad_alloc&) {
    outcome =
        error(errc::out_of_memory, "run persistent kernel: no memory for its error");
  }
  gate_.leave();
  end_block(block, std::move(outcome));
}

// The last block calls the completion, without the lock, before `ended` becomes true: a
// thread that sees the end may rely on the completion's effects.
void cpu_persistent_run::end_block(std::int64_t block, result<void> outcome) {
  completion done;
  result<void> of_all;
  {
    const std::lock_guard lock(mutex_);
    // The failure of the lowest block counts.
    if (!outcome && (failed_ < 0 || block < failed_)) {
      failed_ = block;
      outcome_ = std::move(outcome);
    }
    // Other blocks still run.
    if (--left_ > 0) {
      return;
    }
    done = std::move(done_);
    of_all = outcome_;
  }
  if (done) {
    done(std::move(of_all));
    done = nullptr;  // objects that it holds are released before the end is announced
  }
  const std::lock_guard lock(mutex_);
  ended_.store(true, std::memory_order_release);
  changed_.notify_all();
}

// The end is announced under the lock, so a waiting thread cannot miss it.
//
// @param limit_ns  Nanoseconds; below 0 without a limit.
result<void> cpu_persistent_run::wait(std::int64_t limit_ns) {
  std::unique_lock lock(mutex_);
  const auto over = [this] { return ended(); };
  if (limit_ns < 0) {
    changed_.wait(lock, over);
  } else if (!changed_.wait_for(lock, to_duration(limit_ns), over)) {
    return error(
        errc::timeout,
        fmt::format("wait for persistent kernel {}: expected its end within {} ns, "
                    "found {} blocks that run",
                    name_, limit_ns, left_));
  }
  return outcome_;
}

/// Waits for the threads themselves, after their blocks have ended.
void cpu_persistent_run::join() {
  for (auto& thread : threads_) {
    thread.join();
  }
  threads_.clear();
}

/// The threads keep the run alive by their shared pointers.
void cpu_persistent_run::detach() {
  for (auto& thread : threads_) {
    thread.detach();
  }
  threads_.clear();
}

/// Compares identities of threads.
bool cpu_persistent_run::has_thread(std::thread::id id) const {
  for (const auto& thread : threads_) {
    if (thread.get_id() == id) {
      return true;
    }
  }
  return false;
}

namespace {

/// The handle of the program. It asks the kernel to stop when it is destroyed.
class persistent_handle final : public persistent_run {
 public:
  explicit persistent_handle(std::shared_ptr<cpu_persistent_run> run)
      : run_(std::move(run)) {}
  ~persistent_handle() override { run_->request_stop(); }
  persistent_handle(const persistent_handle&) = delete;
  persistent_handle& operator=(const persistent_handle&) = delete;

  void request_stop() noexcept override { run_->request_stop(); }
  [[nodiscard]] bool ended() const noexcept override { return run_->ended(); }
  [[nodiscard]] result<void> wait(std::int64_t limit_ns) override {
    return run_->wait(limit_ns);
  }

 private:
  std::shared_ptr<cpu_persistent_run> run_;
};

}  // namespace

/// The log is shared with the threads, which may outlive this object.
persistent_kernels::persistent_kernels(std::size_t stack_bytes,
                                       std::int64_t stop_limit_ns, kernel_log log)
    : stack_bytes_(stack_bytes),
      stop_limit_ns_(stop_limit_ns),
      log_(std::make_shared<const kernel_log>(std::move(log))) {}

// A kernel that does not stop in time keeps its threads and its run; only the wait ends.
persistent_kernels::~persistent_kernels() {
  for (auto& run : runs_) {
    run->request_stop();
  }
  // One limit for all kernels together.
  const auto limit = std::chrono::steady_clock::now() + to_duration(stop_limit_ns_);
  for (auto& run : runs_) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
        limit - std::chrono::steady_clock::now());
    // A completion may destroy the backend. Its thread belongs to the kernel and cannot
    // wait for itself.
    const bool own = run->has_thread(std::this_thread::get_id());
    if (!own && (run->ended() || run->wait(std::max<std::int64_t>(left.count(), 0)) ||
                 run->ended())) {
      run->join();
    } else {
      run->detach();
    }
  }
}

// Joins outside of the lock. Such threads have nothing left to do but to return.
void persistent_kernels::reap() {
  std::vector<std::shared_ptr<cpu_persistent_run>> over;
  {
    const std::lock_guard lock(mutex_);
    // Kernels that have ended are moved to the back.
    const auto end_of_live = std::partition(
        runs_.begin(), runs_.end(), [](const auto& run) { return !run->ended(); });
    over.assign(std::make_move_iterator(end_of_live),
                std::make_move_iterator(runs_.end()));
    runs_.erase(end_of_live, runs_.end());
  }
  for (auto& run : over) {
    run->join();
  }
}

// Earlier kernels are joined here, so that threads do not collect without a limit.
result<std::shared_ptr<persistent_run>> persistent_kernels::start(
    const grid_launch& launch, completion done) {
  // Threads that have ended are joined first.
  reap();
  try {
    auto run = std::make_shared<cpu_persistent_run>(launch, log_, std::move(done));
    // The handle keeps the run, and the run does not know the handle.
    std::shared_ptr<persistent_run> handle = std::make_shared<persistent_handle>(run);
    const std::lock_guard lock(mutex_);
    runs_.push_back(run);
    // The lock is held meanwhile, so `pop_back` removes this run and no other.
    if (auto started = run->start(run, stack_bytes_); !started) {
      runs_.pop_back();
      return std::move(started).error();
    }
    return handle;
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory,
                 "start a persistent kernel: expected memory for its blocks, found none");
  }
}

}  // namespace weir::tessera
