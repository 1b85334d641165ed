// SPDX-License-Identifier: Apache-2.0
/// @file
/// The thread of a device: its queue, its loop and its life.
///
/// A step of the loop takes what has been posted, gives it to the driver, records one
/// event for each stream that got something, asks the events in flight, and calls the
/// completions of what has ended. Between steps without progress the thread sleeps for a
/// while, at most half a millisecond as long as work is in flight.
#include "device/cuda/device_thread.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/core.h>

#include "device/cuda/status_table.hpp"

namespace weir::tessera::cuda {
/// All members that have no lock belong to this thread. Other threads post functions and
/// work, which it takes at each step.
namespace {

/// True while this thread calls a completion. Waiting for a device would then never end.
thread_local bool inside_completion = false;
/// True on the threads of devices.
thread_local bool serves_device = false;

/// An outcome that one thread waits for.
///
/// It is shared, since the thread may set it after the waiting one has gone.
class awaited_outcome {
 public:
  // Called once.
  void set(result<void> outcome) {
    {
      const std::lock_guard lock(mutex_);
      outcome_.emplace(std::move(outcome));
    }
    changed_.notify_all();
  }
  [[nodiscard]] result<void> get() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return outcome_.has_value(); });
    return std::move(*outcome_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<result<void>> outcome_;
};

}  // namespace

/// Returns when the thread has opened the device.
result<std::unique_ptr<device_thread>> device_thread::open(device_family& family,
                                                           std::int32_t ordinal) {
  std::unique_ptr<device_thread> made(new device_thread(family, ordinal));
  const auto opened = std::make_shared<awaited_outcome>();
  // The object outlives its thread.
  made->thread_ = std::thread([thread = made.get(), opened] {
    serves_device = true;
    result<void> outcome = thread->open_here();
    const bool usable = outcome.has_value();
    if (!usable) {
      // What was opened in part is closed.
      thread->close_here();
    }
    opened->set(std::move(outcome));
    // The life of the device.
    if (usable) {
      thread->serve();
      thread->close_here();
    }
  });
  WEIR_CHECK(opened->get());
  return made;
}

/// The thread ends its work within a limit of time.
///
/// What has not ended then is told as failed.
device_thread::~device_thread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

/// Returns true if the calling thread serves any device.
bool device_thread::is_current() noexcept {
  return serves_device;
}

/// The first failure that the device could not survive.
std::optional<error> device_thread::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

/// May be called by any thread; the function runs on the thread of the device.
void device_thread::post(std::function<void()> function) {
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(function));
  }
  changed_.notify_all();
}

/// The completion is called on the thread of the device.
void device_thread::submit(const device_work& work, completion done) {
  {
    // The thread takes it at its next step.
    const std::lock_guard lock(mutex_);
    inbox_.emplace_back(work, std::move(done));
  }
  changed_.notify_all();
}

// The thread answers every question, also after the device is lost, so the wait ends.
result<void> device_thread::ask(const std::function<void(reply)>& question) {
  // Such a call would wait for itself.
  if (inside_completion) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot wait for {}: expected a call outside of completions, "
                    "found one inside",
                    facts_.name));
  }
  const auto answer = std::make_shared<awaited_outcome>();
  // The question stays valid, because this call waits.
  post([&question, answer] {
    question([answer](result<void> outcome) { answer->set(std::move(outcome)); });
  });
  return answer->get();
}

/// Runs `function` on the thread and returns its outcome.
///
/// After a loss, only calls that must run then are made.
result<void> device_thread::call(const std::function<result<void>()>& function,
                                 bool even_if_lost) {
  return ask([&](const reply& answer) {
    answer(is_lost_ && !even_if_lost ? result<void>(*lost()) : function());
  });
}

// The address is passed on when the allocation has taken place in the order of its
// stream. From then on every stream may use it.
result<std::byte*> device_thread::allocate(std::size_t bytes) {
  std::byte* address = nullptr;
  WEIR_CHECK(ask([&](const reply& answer) {
    if (is_lost_) {
      answer(*lost());
      return;
    }
    device_address made = 0;
    driver_stream& l = *fixed_[0];
    const status s = api_.allocate(&made, bytes, pool_, l.stream);
    if (s == status::success) {
      address = reinterpret_cast<std::byte*>(made);
      allocations_.insert(address);
    }
    // An operation without work: its end says that the allocation has taken place. The
    // driver orders allocations like work.
    operation waiting;
    waiting.done = answer;
    waiting.label = fmt::format("allocate {} bytes on {}", bytes, facts_.name);
    give(l, std::move(waiting), s, false);
  }));
  return address;
}

// What cannot be freed now is tried again when the device is closed. Memory of a lost
// device may still be in use by what runs there, and goes with the context.
void device_thread::free(std::byte* address) {
  post([this, address] {
    if (is_lost_) {
      return;
    }
    const status s =
        api_.free(reinterpret_cast<device_address>(address), fixed_[0]->stream);
    if (s == status::success) {
      allocations_.erase(address);
    } else if (kind_of(s) == status_kind::sticky) {
      lose(s, fmt::format("free memory on {}", facts_.name));
    }
  });
}

/// Returns true while work has not ended or a completion has not been called.
bool device_thread::busy() const noexcept {
  // In the order in which work passes through them.
  return !waiting_.empty() || !staged_.empty() || !ended_.empty() ||
         std::any_of(streams_.begin(), streams_.end(),
                     [](const driver_stream& l) { return l.outstanding > 0; });
}

// Takes what other threads and completions have posted. Returns false if there is
// nothing.
bool device_thread::take_posted() {
  // Functions are called without the lock, since they may post others.
  std::deque<std::function<void()>> calls;
  bool any = false;
  {
    const std::lock_guard lock(mutex_);
    calls.swap(calls_);
    any = !calls.empty() || !inbox_.empty();
    while (!inbox_.empty()) {
      // In the order of the calls.
      waiting_.push_back(std::move(inbox_.front()));
      inbox_.pop_front();
    }
  }
  for (const auto& f : calls) {
    f();
  }
  return any;
}

/// Returns whether anything has happened.
bool device_thread::step() {
  bool moved = take_posted();
  // Work waits here if the streams are full.
  while (!waiting_.empty() && issue_next()) {
    waiting_.pop_front();
    moved = true;
  }
  while (issue_staged()) {
    moved = true;
  }
  close_batches();
  // Completions count as progress, since they may post work.
  moved = poll() || moved || !ended_.empty();
  deliver();
  return moved;
}

/// Calls the completions of what has ended. They may post further work.
void device_thread::deliver() {
  std::vector<std::pair<completion, result<void>>> ended;
  // Completions may add to the list.
  ended.swap(ended_);
  if (ended.empty()) {
    return;
  }
  // Completions run without being allowed to wait for a device.
  const no_device_waits scope;
  inside_completion = true;
  for (auto& [done, outcome] : ended) {
    if (done) {
      done(std::move(outcome));
    }
  }
  inside_completion = false;
}

/// Between steps: at first it only yields, then it sleeps longer and longer.
void device_thread::rest(bool moved) {
  if (moved) {
    idle_steps_ = 0;
    return;
  }
  constexpr unsigned spinning_steps = 32;
  // Polling keeps the latency of short work low.
  const bool in_flight = busy();
  if (in_flight && ++idle_steps_ <= spinning_steps) {
    std::this_thread::yield();
    return;
  }
  // A post wakes the thread.
  std::unique_lock lock(mutex_);
  const auto woken = [this] { return stopping_ || !calls_.empty() || !inbox_.empty(); };
  // Nothing is in flight, so only a post can change anything.
  if (!in_flight) {
    changed_.wait(lock, woken);
    return;
  }
  // From 10 to 500 microseconds.
  const unsigned pause_us = std::min(500U, 10U << std::min(idle_steps_ - 32U, 6U));
  // The condition is true already, so waiting for it would not sleep.
  if (stopping_) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
  } else {
    (void)changed_.wait_for(lock, std::chrono::microseconds(pause_us), woken);
  }
}

// After the request to end, persistent kernels are asked to stop, and what is in flight
// gets a limited time.
void device_thread::serve() {
  using clock = std::chrono::steady_clock;
  std::optional<clock::time_point> deadline;
  for (;;) {
    const bool moved = step();
    bool stopping = false;
    {
      const std::lock_guard lock(mutex_);
      // What was posted before the request is still done.
      stopping = stopping_ && calls_.empty() && inbox_.empty();
    }
    // Once, when the request comes.
    if (stopping && !deadline) {
      deadline = clock::now() + std::chrono::nanoseconds(family_.stop_limit_ns);
      for (const auto& run : persistent_) {
        run->request_stop();
      }
    }
    // Work that has not ended in time is given up.
    if (stopping && (!busy() || clock::now() >= *deadline)) {
      return;
    }
    rest(moved);
  }
}

/// The word is read by the kernel in memory of the host.
///
/// A request that came earlier is passed on.
void persistent_state::attach(std::uint32_t* stop_word) {
  const std::lock_guard lock(mutex_);
  stop_word_ = stop_word;
  std::atomic_ref(*stop_word_).store(stop_requested_ ? 1 : 0);
}

/// May be called before the kernel has its word.
///
/// Later calls change nothing.
void persistent_state::request_stop() noexcept {
  const std::lock_guard lock(mutex_);
  stop_requested_ = true;
  if (stop_word_ != nullptr) {
    std::atomic_ref(*stop_word_).store(1);
  }
}

/// The word is not the kernel's any more.
void persistent_state::finish(result<void> outcome) {
  {
    const std::lock_guard lock(mutex_);
    stop_word_ = nullptr;
    outcome_.emplace(std::move(outcome));
  }
  changed_.notify_all();
}

bool persistent_state::ended() const noexcept {
  const std::lock_guard lock(mutex_);
  return outcome_.has_value();
}

/// @param limit_ns  Nanoseconds; below 0 without a limit.
///
/// It may be called by several threads.
result<void> persistent_state::wait(std::int64_t limit_ns) {
  std::unique_lock lock(mutex_);
  const auto over = [this] { return outcome_.has_value(); };
  if (limit_ns < 0) {
    changed_.wait(lock, over);
  } else if (!changed_.wait_for(lock, std::chrono::nanoseconds(limit_ns), over)) {
    return error(errc::timeout,
                 fmt::format("wait for a persistent kernel: expected its end within {} "
                             "ns, found it running",
                             limit_ns));
  }
  return *outcome_;
}

}  // namespace weir::tessera::cuda
