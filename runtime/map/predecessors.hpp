// SPDX-License-Identifier: Apache-2.0
/// @file
/// The tasks that a new one must wait for, each once, with the strongest reason.
#pragma once

#include <cstdint>
#include <memory>

#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// Why one task waits for another, weakest first. `asked`: the program wants it so;
/// `told`: likewise, in a manual scope, where that stands for data.
enum class hazard : std::uint8_t { asked, war, waw, raw, told };
inline constexpr std::size_t hazards = 5;

/// The later task reads or extends what the earlier one wrote.
[[nodiscard]] constexpr bool carries_failure(hazard why) noexcept {
  return why >= hazard::waw;
}

/// @threads{thread-compatible}
class predecessor_list {
 public:
  struct item {
    task_id id;
    hazard why;
  };

  /// Ids of live tasks differ modulo `window`, a power of two.
  explicit predecessor_list(std::uint32_t window)
      : mask_(window - 1),
        seen_(std::make_unique<std::uint64_t[]>(window)),
        found_(std::make_unique_for_overwrite<std::uint64_t[]>(window)),
        end_(found_.get()) {}

  /// The task itself is none of its predecessors. @pre no task has been started with that
  /// is newer
  void start(task_id by) noexcept {
    by_ = by << reasons;
    end_ = found_.get();
    seen_[by & mask_] = by_ + reason_mask;
  }
  void add(task_id id, hazard why) noexcept {
    std::uint64_t& last = seen_[id & mask_];
    const std::uint64_t now = by_ + static_cast<std::uint64_t>(why);
    if (last < by_) {
      push(id, why);
      last = now;
    } else if (last < now) {
      strengthen(id, why);
      last = now;
    }
  }
  /// Adds a predecessor that has not been added for a weaker reason before.
  void add_new(task_id id, hazard why) noexcept {
    std::uint64_t& last = seen_[id & mask_];
    if (last < by_) {
      push(id, why);
      last = by_ + static_cast<std::uint64_t>(why);
    }
  }
  /// Those that have been added; good until the next is.
  class view {
   public:
    class iterator {
     public:
      explicit iterator(const std::uint64_t* at) noexcept : at_(at) {}
      [[nodiscard]] item operator*() const noexcept {
        return {*at_ >> reasons, static_cast<hazard>(*at_ & reason_mask)};
      }
      iterator& operator++() noexcept {
        ++at_;
        return *this;
      }
      friend bool operator==(iterator, iterator) = default;

     private:
      const std::uint64_t* at_;
    };

    explicit view(const predecessor_list& of) noexcept
        : begin_(of.found_.get()), end_(of.end_) {}
    [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }
    [[nodiscard]] iterator begin() const noexcept { return iterator(begin_); }
    [[nodiscard]] iterator end() const noexcept { return iterator(end_); }

   private:
    const std::uint64_t* begin_;
    const std::uint64_t* end_;
  };

 private:
  static constexpr unsigned reasons = 3;  ///< bits of a hazard
  static constexpr std::uint64_t reason_mask = (1U << reasons) - 1;

  void push(task_id id, hazard why) noexcept {
    *end_++ = (id << reasons) + static_cast<std::uint64_t>(why);
  }
  /// @pre it has been added
  [[gnu::noinline]] void strengthen(task_id id, hazard why) noexcept {
    std::uint64_t* at = found_.get();
    while (*at >> reasons != id) {
      ++at;
    }
    *at = (id << reasons) + static_cast<std::uint64_t>(why);
  }

  std::uint64_t mask_;
  std::uint64_t by_ = 0;
  /// For each id modulo the window: the search that found the task last, and the
  /// strongest reason.
  std::unique_ptr<std::uint64_t[]> seen_;
  std::unique_ptr<std::uint64_t[]> found_;  ///< one place for every live task
  std::uint64_t* end_;                      ///< of those found
};

}  // namespace weir::runtime
