// SPDX-License-Identifier: Apache-2.0
/// @file
/// The lock by which several threads share an engine that has a single submitter.
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "weir/runtime/engine.hpp"

namespace weir::tessera {

/// Lets one thread at a time submit to an engine. @threads{safe from any thread}
class submission_lock {
 public:
  /// Shares an engine, which outlives this object.
  explicit submission_lock(runtime::engine& shared) : engine_(shared) {}

  /// The right to submit. Other threads cannot submit while it exists.
  class guard {
   public:
    /// Returns the engine.
    [[nodiscard]] runtime::engine& engine() const noexcept { return owner_->engine_; }
    /// Waits until the engine takes this many tasks, so that submitting does not run a
    /// kernel on a thread of the program. Releases the lock while it waits.
    void reserve(std::uint32_t tasks) {
      tasks = std::min({tasks, enough, owner_->engine_.window() / 2});
      while (owner_->credits_ < tasks) {
        owner_->credits_ = owner_->engine_.free_slots();
        if (owner_->credits_ >= tasks) {
          break;
        }
        lock_.unlock();
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        lock_.lock();
      }
      owner_->credits_ -= std::min(owner_->credits_, tasks);
    }

    /// Returns true if every task that the engine was given has ended.
    [[nodiscard]] bool all_ended() {
      return owner_->engine_.free_slots() == owner_->engine_.window();
    }

   private:
    friend class submission_lock;
    explicit guard(submission_lock& lock) : owner_(&lock), lock_(lock.mutex_) {}
    /// Number of tasks beyond which the engine itself waits for free slots.
    static constexpr std::uint32_t enough = 256;
    submission_lock* owner_;
    std::unique_lock<std::mutex> lock_;
  };

  /// Returns the engine, without the right to submit to it.
  [[nodiscard]] runtime::engine& engine() const noexcept { return engine_; }
  /// Waits for the right to submit and returns it.
  [[nodiscard]] guard enter() { return guard(*this); }

 private:
  runtime::engine& engine_;
  std::mutex mutex_;
  std::uint32_t credits_ = 0;
};

}  // namespace weir::tessera
