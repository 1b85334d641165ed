// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counted references to objects that count themselves: half the size and cost of
/// `std::shared_ptr`, and one allocation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace weir::tessera {

/// @threads{safe from any thread}
class counted {
 public:
  /// Room of objects that were: those that come and go by the million are made by one
  /// thread and end on another, which allocators do not like.
  [[nodiscard]] static void* operator new(std::size_t bytes);
  static void operator delete(void* at, std::size_t bytes) noexcept;

  counted() = default;
  counted(const counted&) noexcept {}
  counted& operator=(const counted&) = delete;
  virtual ~counted() = default;

  /// The first reference of an object that nobody else knows yet.
  void retain_first() noexcept { count_.store(1, std::memory_order_relaxed); }
  void retain(std::uint32_t times = 1) noexcept {
    count_.fetch_add(times, std::memory_order_relaxed);
  }
  /// There is one reference, as long as who has it gives no other away.
  [[nodiscard]] bool sole() const noexcept {
    return count_.load(std::memory_order_acquire) == 1;
  }
  void release(std::uint32_t times = 1) noexcept {
    if (count_.fetch_sub(times, std::memory_order_acq_rel) == times) {
      delete this;
    }
  }

 private:
  std::atomic<std::uint32_t> count_{0};
};

/// A list that, as counted objects are, is made by one thread and ends on another.
template <class T>
struct room_allocator {
  using value_type = T;
  room_allocator() = default;
  template <class U>
  room_allocator(const room_allocator<U>&) noexcept {}  // NOLINT: as allocators do
  [[nodiscard]] T* allocate(std::size_t count) {
    return static_cast<T*>(counted::operator new(count * sizeof(T)));
  }
  void deallocate(T* at, std::size_t count) noexcept {
    counted::operator delete(at, count * sizeof(T));
  }
  bool operator==(const room_allocator&) const = default;
};
template <class T>
using room_list = std::vector<T, room_allocator<T>>;

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
  template <class U>
  ref(ref<U>&& from) noexcept  // NOLINT: likewise
      : to_(std::exchange(from.to_, nullptr)) {}
  ref& operator=(ref from) noexcept {
    std::swap(to_, from.to_);
    return *this;
  }
  ~ref() {
    if (to_ != nullptr) {
      to_->release();
    }
  }
  /// Takes over a reference that is counted already.
  [[nodiscard]] static ref adopt(T* to) noexcept {
    ref out;
    out.to_ = to;
    return out;
  }
  /// The caller takes the reference over.
  [[nodiscard]] T* detach() noexcept { return std::exchange(to_, nullptr); }
  [[nodiscard]] T* get() const noexcept { return to_; }
  T* operator->() const noexcept { return to_; }
  T& operator*() const noexcept { return *to_; }
  explicit operator bool() const noexcept { return to_ != nullptr; }

 private:
  template <class U>
  friend class ref;
  T* to_ = nullptr;
};

template <class T, class... Args>
[[nodiscard]] ref<T> make_ref(Args&&... args) {
  T* const made = new T(std::forward<Args>(args)...);
  made->retain_first();
  return ref<T>::adopt(made);
}

/// References that are counted ahead: who takes one does not touch a count that those who
/// let go of theirs are changing on other processors.
/// @threads{one at a time}
class prepaid_refs {
 public:
  prepaid_refs() = default;
  explicit prepaid_refs(ref<counted> to) noexcept : to_(std::move(to)) {}
  prepaid_refs(prepaid_refs&& from) noexcept
      : to_(std::move(from.to_)), left_(std::exchange(from.left_, 0)) {}
  prepaid_refs& operator=(prepaid_refs from) noexcept {
    std::swap(to_, from.to_);
    std::swap(left_, from.left_);
    return *this;
  }
  ~prepaid_refs() {
    if (left_ != 0) {
      to_->release(left_);
    }
  }
  /// The object has to be a T.
  template <class T>
  [[nodiscard]] ref<T> take() noexcept {
    if (left_ == 0) {
      to_->retain(ahead);
      left_ = ahead;
    }
    --left_;
    return ref<T>::adopt(static_cast<T*>(to_.get()));
  }

 private:
  static constexpr std::uint32_t ahead = 256;
  ref<counted> to_;
  std::uint32_t left_ = 0;
};

}  // namespace weir::tessera
