// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operations that say how far a queue has come.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "weir/tessera/stream/operation.hpp"

namespace weir::actors {

/// Takes the failures of a whole queue, leaves it clean, and calls.
/// @threads{`done` any; `found` once done}
class settling final : public tessera::joining_operation {
 public:
  explicit settling(std::function<void()> call = {})
      : joining_operation(kind::other), call_(std::move(call)) {}

  [[nodiscard]] bool done() const noexcept {
    return done_.load(std::memory_order_acquire);
  }
  [[nodiscard]] const tessera::failure& found() const noexcept { return found_; }
  [[nodiscard]] std::string_view name() const noexcept override { return "synchronize"; }

 protected:
  void run(tessera::lane_set& lanes) override {
    found_ = lanes.take_failures();
    done_.store(true, std::memory_order_release);
    if (call_) {
      call_();
    }
  }

 private:
  std::function<void()> call_;
  tessera::failure found_;
  std::atomic<bool> done_{false};
};

/// Keeps something until what stands before it has ended on all lanes.
class keeping final : public tessera::lane_operation {
 public:
  explicit keeping(std::shared_ptr<const void> what)
      : lane_operation(kind::other), what_(std::move(what)) {}

 protected:
  result<void> run(unsigned) override { return {}; }

 private:
  std::shared_ptr<const void> what_;
};

}  // namespace weir::actors
