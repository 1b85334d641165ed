// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counted references to objects that count themselves: half the size and cost of
/// `std::shared_ptr`, and one allocation.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace weir::runtime {

/// @threads{safe from any thread}
class counted {
 public:
  counted() = default;
  counted(const counted&) noexcept {}
  counted& operator=(const counted&) = delete;
  virtual ~counted() = default;

  void retain(std::uint32_t times = 1) noexcept {
    count_.fetch_add(times, std::memory_order_relaxed);
  }
  void release() noexcept {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete this;
    }
  }

 private:
  std::atomic<std::uint32_t> count_{0};
};

/// @threads{a value}
template <class T>
class ref {
 public:
  ref() = default;
  explicit ref(T* to) noexcept : to_(to) {
    if (to_ != nullptr) {
      to_->retain();
    }
  }
  ref(const ref& from) noexcept : ref(from.to_) {}
  ref(ref&& from) noexcept : to_(std::exchange(from.to_, nullptr)) {}
  template <class U>
  ref(const ref<U>& from) noexcept : ref(from.get()) {}  // NOLINT: as pointers convert
  ref& operator=(ref from) noexcept {
    std::swap(to_, from.to_);
    return *this;
  }
  ~ref() {
    if (to_ != nullptr) {
      to_->release();
    }
  }
  [[nodiscard]] T* get() const noexcept { return to_; }
  T* operator->() const noexcept { return to_; }
  T& operator*() const noexcept { return *to_; }
  explicit operator bool() const noexcept { return to_ != nullptr; }

 private:
  T* to_ = nullptr;
};

template <class T, class... Args>
[[nodiscard]] ref<T> make_ref(Args&&... args) {
  return ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace weir::runtime
