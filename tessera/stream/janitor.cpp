// SPDX-License-Identifier: Apache-2.0
/// @file
/// The janitor's thread.
#include "stream/janitor.hpp"

#include <chrono>
#include <utility>

#include "weir/base/clock.hpp"
#include "weir/base/system/threads.hpp"

namespace weir::tessera {
namespace {

/// A call on this thread let go of the last that kept its janitor.
thread_local bool janitor_is_gone = false;  // NOLINT: of the thread is what is asked for

}  // namespace

janitor::~janitor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    calls_.clear();
  }
  changed_.notify_all();
  if (!thread_.joinable()) {
    return;
  }
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
    janitor_is_gone = true;
  } else {
    thread_.join();
  }
}

void janitor::later(std::function<void()> what, std::int64_t when_ns) {
  {
    const std::lock_guard lock(mutex_);
    calls_.emplace(when_ns, std::move(what));
    if (!thread_.joinable()) {
      const signal_blocker scope;
      thread_ = std::thread([this] { work(); });
    }
  }
  changed_.notify_one();
}

void janitor::work() {
  name_this_thread("weir-janitor");
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (calls_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto first = calls_.begin();
    const std::int64_t wait = first->first - now_ns();
    if (wait > 0) {
      changed_.wait_for(lock, std::chrono::nanoseconds(wait));
      continue;
    }
    std::function<void()> call = std::move(first->second);
    calls_.erase(first);
    lock.unlock();
    call();
    call = nullptr;
    if (janitor_is_gone) {
      return;  // and so is the mutex
    }
    lock.lock();
  }
}

}  // namespace weir::tessera
