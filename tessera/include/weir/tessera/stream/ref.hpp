// SPDX-License-Identifier: Apache-2.0
/// @file
/// References to objects that contain their count. A reference is half the size of a
/// `std::shared_ptr`, and an object needs one allocation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace weir::tessera {

/// Base of objects that contain the count of their references. The last release destroys
/// the object. @threads{safe from any thread}
class counted {
 public:
  /// Allocates an object, from memory of destroyed objects if possible. Objects are made
  /// on one thread and destroyed on another, which general allocators handle slowly.
  [[nodiscard]] static void* operator new(std::size_t bytes);
  /// Frees an object. Small ones are kept for later objects.
  static void operator delete(void* memory, std::size_t bytes) noexcept;

  counted() = default;
  /// Makes a copy, whose count begins at zero.
  counted(const counted&) noexcept {}
  counted& operator=(const counted&) = delete;
  virtual ~counted() = default;

  /// Counts the first reference, while no other thread knows the object.
  void retain_first() noexcept { count_.store(1, std::memory_order_relaxed); }
  /// Adds references.
  void retain(std::uint32_t times = 1) noexcept {
    count_.fetch_add(times, std::memory_order_relaxed);
  }
  /// Returns true if there is a single reference. The result holds while its holder does
  /// not copy it.
  [[nodiscard]] bool sole() const noexcept {
    return count_.load(std::memory_order_acquire) == 1;
  }
  /// Removes references and destroys the object if none is left.
  void release(std::uint32_t times = 1) noexcept {
    if (count_.fetch_sub(times, std::memory_order_acq_rel) == times) {
      delete this;
    }
  }

 private:
  std::atomic<std::uint32_t> count_{0};
};

/// Allocator of lists that are made on one thread and destroyed on another. It uses the
/// memory of counted objects.
template <class T>
struct pooled_allocator {
  using value_type = T;  ///< type of the elements
  pooled_allocator() = default;
  /// Converts from the allocator of another type. Allocators have no state.
  template <class U>
  pooled_allocator(const pooled_allocator<U>&) noexcept {}  // NOLINT: as allocators do
  /// Allocates memory for `count` elements. Throws `std::bad_alloc` if there is none.
  [[nodiscard]] T* allocate(std::size_t count) {
    return static_cast<T*>(counted::operator new(count * sizeof(T)));
  }
  /// Frees memory for `count` elements.
  void deallocate(T* memory, std::size_t count) noexcept {
    counted::operator delete(memory, count * sizeof(T));
  }
  bool operator==(const pooled_allocator&) const = default;
};
/// List that is made on one thread and destroyed on another.
template <class T>
using pooled_list = std::vector<T, pooled_allocator<T>>;

/// Counted reference to an object that derives from `counted`, or null.
/// @threads{a value}
template <class T>
class ref {
 public:
  ref() = default;
  /// Adds a reference to an object; null is allowed.
  explicit ref(T* to) noexcept : to_(to) {
    if (to_ != nullptr) {
      to_->retain();
    }
  }
  /// Adds a reference to the object of another reference.
  ref(const ref& from) noexcept : ref(from.to_) {}
  /// Takes over a reference and leaves `from` null.
  ref(ref&& from) noexcept : to_(std::exchange(from.to_, nullptr)) {}
  /// Adds a reference to an object of a derived type.
  template <class U>
  ref(const ref<U>& from) noexcept : ref(from.get()) {}  // NOLINT: as pointers convert
  /// Takes over a reference to an object of a derived type.
  template <class U>
  ref(ref<U>&& from) noexcept  // NOLINT: likewise
      : to_(std::exchange(from.to_, nullptr)) {}
  /// Releases the object and refers to that of `from`.
  ref& operator=(ref from) noexcept {
    std::swap(to_, from.to_);
    return *this;
  }
  ~ref() {
    if (to_ != nullptr) {
      to_->release();
    }
  }
  /// Takes over a reference that is already counted.
  [[nodiscard]] static ref adopt(T* to) noexcept {
    ref out;
    out.to_ = to;
    return out;
  }
  /// Returns the object with its counted reference, and becomes null.
  [[nodiscard]] T* detach() noexcept { return std::exchange(to_, nullptr); }
  /// Returns the object, or null.
  [[nodiscard]] T* get() const noexcept { return to_; }
  /// Accesses the object. @pre not null.
  T* operator->() const noexcept { return to_; }
  /// Returns the object. @pre not null.
  T& operator*() const noexcept { return *to_; }
  /// Returns true if the reference is not null.
  explicit operator bool() const noexcept { return to_ != nullptr; }

 private:
  template <class U>
  friend class ref;
  T* to_ = nullptr;
};

/// Makes an object and returns the first reference to it.
template <class T, class... Args>
[[nodiscard]] ref<T> make_ref(Args&&... args) {
  T* const made = new T(std::forward<Args>(args)...);
  made->retain_first();
  return ref<T>::adopt(made);
}

/// References to one object that are counted in advance. Taking one usually does not
/// touch the count, which other processors change when they release theirs.
/// @threads{thread-compatible}
class prepaid_refs {
 public:
  prepaid_refs() = default;
  /// Takes references from `to`.
  explicit prepaid_refs(ref<counted> to) noexcept : to_(std::move(to)) {}
  /// Takes over the references of `from`.
  prepaid_refs(prepaid_refs&& from) noexcept
      : to_(std::move(from.to_)), left_(std::exchange(from.left_, 0)) {}
  /// Releases the own references and takes over those of `from`.
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
