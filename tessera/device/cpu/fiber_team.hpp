// SPDX-License-Identifier: Apache-2.0
/// @file
/// The threads of one block as fibers of the calling thread: they run one after the
/// other, each up to its next barrier.
///
/// Fibers were chosen over threads because a block may have a thousand threads that meet
/// at a barrier every few instructions: a switch between fibers takes nanoseconds, and
/// the order of the threads is fixed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "device/cpu/fiber.hpp"
#include "weir/base/error.hpp"

namespace weir::tessera {

/// Memory for stacks. Below each stack lies a page that may not be accessed, unless the
/// process has very many stacks.
class stack_slab {
 public:
  /// Makes memory for `count` stacks of at least `bytes` bytes.
  /// @error{out_of_memory; the system has no memory for them}
  [[nodiscard]] static result<std::unique_ptr<stack_slab>> make(std::size_t count,
                                                                std::size_t bytes);
  ~stack_slab();
  stack_slab(const stack_slab&) = delete;
  stack_slab& operator=(const stack_slab&) = delete;

  /// Returns stack `i`, without its guard page.
  [[nodiscard]] std::span<std::byte> stack(std::size_t i) const noexcept;
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// Returns the number of stacks with a guard page.
  [[nodiscard]] std::size_t guarded() const noexcept { return guarded_; }

 private:
  stack_slab() = default;

  std::byte* base_ = nullptr;
  std::size_t count_ = 0;
  std::size_t guarded_ = 0;
  std::size_t stack_bytes_ = 0;
  std::size_t guard_bytes_ = 0;
};

/// Runs the threads of a block as fibers in a fixed order. Threads start in ascending
/// order, each when the one before waits or has ended. Then those that wait continue in
/// that order, round by round. A thread that has returned counts as arrived at every
/// later barrier.
/// @threads{one block at a time, on any thread}
class fiber_team {
 public:
  /// The work of one thread of the block. It must not throw.
  using body = void (*)(void* argument, std::int64_t thread);
  /// Function that is called between two rounds if a thread called `barrier(true)`.
  using between = std::function<int()>;

  explicit fiber_team(std::size_t stack_bytes);
  ~fiber_team();
  fiber_team(const fiber_team&) = delete;
  fiber_team& operator=(const fiber_team&) = delete;

  /// Makes stacks for this many threads. @error{out_of_memory; see above}
  [[nodiscard]] result<void> reserve(std::int64_t threads);
  /// Runs body(argument, t) for each t in [0, threads) to its end. `reserve` has been
  /// called for this many threads.
  void run(std::int64_t threads, body function, void* argument,
           between rounds = {}) noexcept;
  /// Waits until all threads have arrived or ended. Called by the body. Returns the
  /// result of the call between rounds if `outside` is set, and 0 otherwise.
  int barrier(bool outside = false) noexcept;

 private:
  struct fiber;
  struct exception_state;

  /// The entry of a fiber: serves blocks until the team ends.
  static void enter(void* of_fiber) noexcept;
  /// Runs threads of the present block until all have started.
  void serve(fiber& self) noexcept;
  /// Takes a fiber out of the round and continues with another one.
  void retire(fiber& self) noexcept;
  /// Returns the fiber whose turn is next.
  [[nodiscard]] fiber& next_of(fiber& self) noexcept;
  /// Puts an idle fiber at the end of the round.
  fiber& add_to_ring() noexcept;
  /// Switches from one fiber to another.
  void change(fiber& from, fiber& to) noexcept;

  std::size_t stack_bytes_;
  std::vector<std::unique_ptr<stack_slab>> slabs_;
  std::vector<std::unique_ptr<fiber>> fibers_;
  std::vector<fiber*> idle_;
  fiber_context outside_;  ///< context of the thread that called `run`
  fiber* running_ = nullptr;
  fiber* tail_ = nullptr;  ///< last fiber of the round; its successor is the first
  std::int64_t started_ = 0;
  std::int64_t threads_ = 0;
  body body_ = nullptr;
  void* argument_ = nullptr;
  between rounds_;
  bool asked_ = false;  ///< true: a thread waits for the call between rounds
  int answer_ = 0;
  void* exceptions_ = nullptr;  ///< the thread's record of exceptions in flight
  bool quit_ = false;
};

}  // namespace weir::tessera
