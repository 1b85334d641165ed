// SPDX-License-Identifier: Apache-2.0
/// @file
/// The accesses that the running kernel of a thread has declared. Without NDEBUG, or with
/// WEIR_CHECKED, an access to any other byte of a tensor ends the program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "weir/runtime/tensor.hpp"

namespace weir {

#if !defined(NDEBUG) || defined(WEIR_CHECKED)
/// 1 if every access through a view is checked.
#define WEIR_VIEWS_CHECKED 1
inline namespace checked_views {
#else
#define WEIR_VIEWS_CHECKED 0
inline namespace plain_views {
#endif

/// Owner of a view, for the message when a kernel accesses bytes outside of it.
struct view_owner {
  const char* task = "no task";  ///< name of the task
  int access = 0;                ///< number of the access among those of the task, from 0
  /// True if the view is no argument of a kernel. The kernel that uses it must then have
  /// declared the bytes by another argument.
  bool captured = false;
};

#if WEIR_VIEWS_CHECKED
/// Bytes of one access of a kernel.
struct declared_bytes {
  runtime::tensor operand;  ///< tensor whose bytes are declared
  bool reads_only = false;  ///< true if the kernel must not write them
};

/// Marks that this thread runs a kernel with these accesses, for the life of the object.
/// @threads{belongs to the thread that made it}
class running_kernel {
 public:
  /// Begins a kernel. The accesses must live as long as this object.
  running_kernel(const char* task, std::span<const declared_bytes> accesses) noexcept
      : task_(task), accesses_(accesses), outer_(current_) {
    current_ = this;
  }
  ~running_kernel() { current_ = outer_; }
  running_kernel(const running_kernel&) = delete;
  running_kernel& operator=(const running_kernel&) = delete;

  /// Returns true if this thread runs a kernel.
  [[nodiscard]] static bool any() noexcept { return current_ != nullptr; }
  /// Ends the program if this thread runs a kernel that has not declared the `size` bytes
  /// at `address`. `byte` is their offset in the view through which they are accessed.
  static void touch(const void* address, std::size_t size, bool writes,
                    std::int64_t byte) {
    for (std::size_t i = 0; current_ != nullptr && i < size; ++i) {
      current_->touch_one(reinterpret_cast<std::uintptr_t>(address) + i, writes,
                          byte + static_cast<std::int64_t>(i));
    }
  }

 private:
  void touch_one(std::uintptr_t address, bool writes, std::int64_t byte) const {
    int only_read = -1;
    for (std::size_t i = 0; i < accesses_.size(); ++i) {
      const runtime::footprint& bytes = accesses_[i].operand.bytes();
      runtime::footprint one;
      one.id = bytes.id;
      one.run = 1;
      one.lo = static_cast<std::int64_t>(
          address - reinterpret_cast<std::uintptr_t>(accesses_[i].operand.store().base));
      one.hi = one.lo + 1;
      if (runtime::decide_overlap(bytes, one) == runtime::overlap::no) {
        continue;
      }
      if (!writes || !accesses_[i].reads_only) {
        return;
      }
      only_read = static_cast<int>(i);
    }
    undeclared(only_read, byte);
  }
  [[noreturn]] void undeclared(int only_read, std::int64_t byte) const {
    if (only_read < 0) {
      std::fprintf(stderr,
                   "task \"%s\": expected what it touches to be in one of its %zu "
                   "accesses, found byte %lld of a view that it was not given\n",
                   task_, accesses_.size(), static_cast<long long>(byte));
    } else {
      std::fprintf(stderr,
                   "task \"%s\", access %d: expected reads only, found a reference for "
                   "writing to byte %lld of a view that it was not given\n",
                   task_, only_read, static_cast<long long>(byte));
    }
    std::abort();
  }

  const char* task_;
  std::span<const declared_bytes> accesses_;
  const running_kernel* outer_;
  inline static thread_local const running_kernel* current_ = nullptr;
};
#endif

/// Returns the owner of a view that an engine gives to its submitter. The submitter may
/// be a kernel of another engine, which must not use such a view without declaring its
/// bytes.
[[nodiscard]] inline view_owner asked_for() noexcept {
#if WEIR_VIEWS_CHECKED
  return {"no task", 0, !running_kernel::any()};
#else
  return {};
#endif
}

/// Returns `call`. Where views are checked, it declares the accesses of the task while it
/// runs.
template <class Call, class... Argument>
[[nodiscard]] auto with_accesses([[maybe_unused]] const char* task, Call call,
                                 [[maybe_unused]] const Argument&... arguments) {
#if WEIR_VIEWS_CHECKED
  const std::array<declared_bytes, sizeof...(Argument)> accesses{
      declared_bytes{arguments.operand.bytes(), Argument::reads_only}...};
  return [task, accesses, call = std::move(call)] {
    const running_kernel now(task, accesses);
    return call();
  };
#else
  return call;
#endif
}

/// Returns `call`. Where views are checked, it declares the bytes that `declare` adds to
/// a vector of `declared_bytes`.
template <class Call, class Declare>
[[nodiscard]] auto with_declared_bytes([[maybe_unused]] const char* task, Call call,
                                       [[maybe_unused]] const Declare& declare) {
#if WEIR_VIEWS_CHECKED
  std::vector<declared_bytes> accesses;
  declare(accesses);
  return [task, accesses = std::move(accesses), call = std::move(call)] {
    const running_kernel now(task, accesses);
    return call();
  };
#else
  return call;
#endif
}

}  // namespace checked_views or plain_views
}  // namespace weir
