// SPDX-License-Identifier: Apache-2.0
/// @file
/// Two operations that actors put into a queue: one reports that everything in front of
/// it has ended, the other keeps memory alive until then.
///
/// Both are operations like launches and copies: a queue runs them in order, and a device
/// chain is the part of an operation on one device.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "weir/tessera/stream/operation.hpp"

namespace weir::actors {

/// Takes the failures of a whole queue, leaves it clean, and calls.
/// @threads{`done`: any; `failures`: once `done` has returned true}
class synchronize_operation final : public tessera::joining_operation {
 public:
  /// `call` runs on a worker: it must neither block nor throw. It may be empty.
  explicit synchronize_operation(std::function<void()> call = {})
      : joining_operation(tessera::operation_kind::other), call_(std::move(call)) {}

  /// Returns whether it has run.
  [[nodiscard]] bool done() const noexcept {
    return done_.load(std::memory_order_acquire);
  }
  /// Returns the first failure in front of it, or an empty one.
  [[nodiscard]] const tessera::failure& failures() const noexcept { return failures_; }
  [[nodiscard]] std::string_view name() const noexcept override { return "synchronize"; }

 protected:
  void run(tessera::device_chains& chains) override {
    failures_ = chains.take_failures();
    done_.store(true, std::memory_order_release);
    if (call_) {
      call_();
    }
  }

 private:
  /// Called after the result can be read.
  std::function<void()> call_;
  /// Written before `done_` is set, read only afterwards.
  tessera::failure failures_;
  std::atomic<bool> done_{false};
};

/// Keeps an object alive until everything in front of it has ended on all device chains.
/// The queue owns the operation, so this also holds if the actor ends before.
class keep_alive_operation final : public tessera::chain_operation {
 public:
  /// Keeps what `holder` owns.
  explicit keep_alive_operation(std::shared_ptr<const void> holder)
      : chain_operation(tessera::operation_kind::other), holder_(std::move(holder)) {}

 protected:
  /// Nothing to do: the place in the queue is the effect.
  result<void> run(unsigned) override { return {}; }

 private:
  std::shared_ptr<const void> holder_;
};

}  // namespace weir::actors
