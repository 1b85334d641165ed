// SPDX-License-Identifier: Apache-2.0
/// @file
/// A backend whose work completes later, on its own thread. To the layers above it looks
/// like an accelerator, so tests reach their asynchronous paths without one.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "weir/tessera/device/backend.hpp"

namespace weir::tessera {

/// Forwards every call to another backend, but runs no work inline: `submit` queues it,
/// and the thread of this class runs it in the order of the calls.
class later_backend final : public device_backend {
 public:
  explicit later_backend(std::shared_ptr<device_backend> real)
      : real_(std::move(real)), thread_([this] { serve(); }) {}
  ~later_backend() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "later"; }
  [[nodiscard]] std::int32_t device_count() const noexcept override {
    return real_->device_count();
  }
  [[nodiscard]] result<device_properties> properties(std::int32_t device) const override {
    auto p = real_->properties(device);
    if (p) {
      p->backend = "later";
      p->host_readable = false;
    }
    return p;
  }
  [[nodiscard]] result<std::byte*> allocate(std::int32_t device,
                                            std::size_t bytes) override {
    return real_->allocate(device, bytes);
  }
  [[nodiscard]] result<void> free(std::int32_t device, std::byte* address) override {
    return real_->free(device, address);
  }
  [[nodiscard]] memory_use memory(std::int32_t device) const override {
    return real_->memory(device);
  }
  [[nodiscard]] result<std::byte*> allocate_host(std::size_t bytes) override {
    return real_->allocate_host(bytes);
  }
  [[nodiscard]] result<void> free_host(std::byte* address) override {
    return real_->free_host(address);
  }
  [[nodiscard]] result<void> pin_host(std::byte* address, std::size_t bytes) override {
    return real_->pin_host(address, bytes);
  }
  void unpin_host(std::byte* address, std::size_t bytes) noexcept override {
    real_->unpin_host(address, bytes);
  }
  [[nodiscard]] result<void> check(const grid_launch& launch,
                                   bool persistent) const override {
    return real_->check(launch, persistent);
  }
  /// Always plans one slice, because an accelerator takes a grid as a whole.
  [[nodiscard]] slice_plan plan(const grid_launch& launch,
                                unsigned /*workers*/) const noexcept override {
    return cut_evenly(launch.blocks(), 1, 1, 1);
  }
  [[nodiscard]] slice_plan plan(std::size_t bytes,
                                unsigned /*workers*/) const noexcept override {
    return cut_evenly(static_cast<std::int64_t>(bytes), 64, 1, 1);
  }

  [[nodiscard]] bool inline_work() const noexcept override { return false; }
  [[nodiscard]] result<void> copy(const copy_work& /*work*/) override {
    return not_inline();
  }
  [[nodiscard]] result<void> fill(const fill_work& /*work*/) override {
    return not_inline();
  }
  [[nodiscard]] result<void> run_blocks(const grid_launch& /*launch*/,
                                        std::int64_t /*first*/,
                                        std::int64_t /*last*/) override {
    return not_inline();
  }
  /// Queues the work for the thread. `done` is called by that thread.
  void submit(const device_work& work, completion done) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.emplace_back(work, std::move(done));
    }
    changed_.notify_all();
  }
  [[nodiscard]] result<std::shared_ptr<persistent_run>> start_persistent(
      const grid_launch& launch, completion done) override {
    return real_->start_persistent(launch, std::move(done));
  }

 private:
  /// Returns the error of calls that would run work inline.
  static error not_inline() {
    return {errc::unsupported,
            "run work of a device at once: expected a call of submit, found another"};
  }
  /// Runs queued work until the destructor asks for the end and the queue is empty.
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) {
        return;
      }
      auto [work, done] = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      real_->submit(work, std::move(done));
      lock.lock();
    }
  }

  std::shared_ptr<device_backend> real_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<device_work, completion>> queue_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace weir::tessera
