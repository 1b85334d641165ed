// SPDX-License-Identifier: Apache-2.0
/// @file
/// The way into an engine for many threads: one lock makes them one submitter.
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "weir/runtime/engine.hpp"

namespace weir::tessera {

/// @threads{safe from any thread}
class submission_port {
 public:
  explicit submission_port(runtime::engine& to) : engine_(to) {}

  /// The right to submit. Keeps other threads out while it lives.
  class session {
   public:
    [[nodiscard]] runtime::engine& to() const noexcept { return port_->engine_; }
    /// The caller is about to submit so many tasks. Waits for room with the port open, so
    /// that no kernel ever runs in a thread of the program.
    void make_room(std::uint32_t tasks) {
      tasks = std::min({tasks, enough, port_->engine_.window() / 2});
      while (port_->credits_ < tasks) {
        port_->credits_ = port_->engine_.free_slots();
        if (port_->credits_ >= tasks) {
          break;
        }
        lock_.unlock();
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        lock_.lock();
      }
      port_->credits_ -= std::min(port_->credits_, tasks);
    }

    /// Every task that the engine was given has ended.
    [[nodiscard]] bool all_ended() {
      return port_->engine_.free_slots() == port_->engine_.window();
    }

   private:
    friend class submission_port;
    explicit session(submission_port& port) : port_(&port), lock_(port.mutex_) {}
    /// Whoever submits more lets the engine make the room for the rest.
    static constexpr std::uint32_t enough = 256;
    submission_port* port_;
    std::unique_lock<std::mutex> lock_;
  };

  [[nodiscard]] runtime::engine& of() const noexcept { return engine_; }
  [[nodiscard]] session enter() { return session(*this); }

 private:
  runtime::engine& engine_;
  std::mutex mutex_;
  std::uint32_t credits_ = 0;
};

}  // namespace weir::tessera
