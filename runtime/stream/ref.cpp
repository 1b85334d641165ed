// SPDX-License-Identifier: Apache-2.0
/// @file
/// Room for counted objects. A thread keeps what it lets go of, and passes it on by the
/// handful: those who make and those who end meet once in many objects.
#include "weir/runtime/stream/ref.hpp"

#include <array>
#include <mutex>
#include <new>

namespace weir::runtime {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool recycles = false;  // who comes too late is to be caught
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool recycles = false;
#else
constexpr bool recycles = true;
#endif
#else
constexpr bool recycles = true;
#endif

constexpr std::size_t step = 64;   ///< sizes are multiples of it
constexpr std::size_t kinds = 12;  ///< larger objects are not kept
constexpr std::uint32_t handful = 32;

/// Room that nobody uses.
struct room {
  room* next = nullptr;
  room* next_handful = nullptr;  ///< of the first of a handful that was passed on
};

/// Rooms of one size that a thread has.
struct stack {
  room* top = nullptr;
  std::uint32_t count = 0;

  void push(room* r) noexcept {
    r->next = top;
    top = r;
    ++count;
  }
  [[nodiscard]] room* pop() noexcept {
    room* const r = top;
    top = r->next;
    --count;
    return r;
  }
};

/// Handfuls on their way from thread to thread.
class exchange {
 public:
  void give(std::size_t kind, const stack& all) noexcept {
    const std::lock_guard lock(mutex_);
    all.top->next_handful = handfuls_[kind];
    handfuls_[kind] = all.top;
  }
  /// Nothing, or as many as are counted from there.
  [[nodiscard]] stack take(std::size_t kind) noexcept {
    stack out;
    const std::lock_guard lock(mutex_);
    out.top = handfuls_[kind];
    if (out.top != nullptr) {
      handfuls_[kind] = out.top->next_handful;
      out.count = handful;
    }
    return out;
  }

 private:
  std::mutex mutex_;
  std::array<room*, kinds> handfuls_{};
};

/// Outlives all threads.
exchange& between_threads() {
  static auto* const all = new exchange;
  return *all;
}

/// What one thread has. Two stacks of a kind, so that who goes back and forth between
/// making and ending does not meet others each time.
class own_rooms {
 public:
  ~own_rooms() {
    gone_ = true;
    for (auto* const all : {&now_, &spare_}) {
      for (std::size_t kind = 0; kind < kinds; ++kind) {
        stack& s = (*all)[kind];
        if (s.count == handful) {
          between_threads().give(kind, std::exchange(s, {}));
        }
        while (s.count != 0) {
          ::operator delete(s.pop());
        }
      }
    }
  }

  /// Null if there is none.
  [[nodiscard]] void* get(std::size_t kind) noexcept {
    stack& now = now_[kind];
    if (now.count == 0) {
      std::swap(now, spare_[kind]);
    }
    if (now.count == 0) {
      now = between_threads().take(kind);
    }
    return now.count == 0 ? nullptr : now.pop();
  }
  void keep(std::size_t kind, void* at) noexcept {
    stack& now = now_[kind];
    if (now.count == handful) {
      if (spare_[kind].count != 0) {
        between_threads().give(kind, std::exchange(spare_[kind], {}));
      }
      std::swap(now, spare_[kind]);
    }
    now.push(::new (at) room);
  }

  /// The thread ends, and objects that its other variables hold end after this.
  [[nodiscard]] static bool gone() noexcept { return gone_; }

 private:
  std::array<stack, kinds> now_;
  std::array<stack, kinds> spare_;
  static thread_local bool gone_;
};
thread_local bool own_rooms::gone_ = false;
thread_local own_rooms own;  // NOLINT: of the thread is what is asked for

constexpr std::size_t kind_of(std::size_t bytes) noexcept {
  return (bytes - 1) / step;
}

}  // namespace

void* counted::operator new(std::size_t bytes) {
  const std::size_t kind = kind_of(bytes);
  if (!recycles || kind >= kinds || own_rooms::gone()) {
    return ::operator new(recycles&& kind < kinds ? (kind + 1) * step : bytes);
  }
  void* const found = own.get(kind);
  return found != nullptr ? found : ::operator new((kind + 1) * step);
}

void counted::operator delete(void* at, std::size_t bytes) noexcept {
  const std::size_t kind = kind_of(bytes);
  if (!recycles || kind >= kinds || own_rooms::gone()) {
    ::operator delete(at);
  } else {
    own.keep(kind, at);
  }
}

}  // namespace weir::runtime
