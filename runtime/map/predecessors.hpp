// SPDX-License-Identifier: Apache-2.0
/// @file
/// The tasks that a new one must wait for, each once, with the strongest reason.
///
/// One array has an entry for each id modulo the window. It holds the search that found
/// the task last, so a new search needs no clearing: older entries have smaller values.
///
/// Adding must be cheap, because a task may meet the same predecessor in many of its
/// accesses.
#pragma once

#include <cstdint>
#include <memory>

#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// Why one task waits for another, weakest first. `asked`: the program asks for the
/// order; `manual`: the program states it in a manual scope, where it stands for
/// a dependency of data.
enum class hazard : std::uint8_t { asked, war, waw, raw, manual };
inline constexpr std::size_t hazards = 5;

/// Returns true if the later task inherits a failure of the earlier one, because it reads
/// or overwrites what that one should have written.
[[nodiscard]] constexpr bool carries_failure(hazard why) noexcept {
  return why >= hazard::waw;
}

/// The predecessors of one task at a time. @threads{thread-compatible}
class predecessor_list {
 public:
  /// A predecessor and the reason for it.
  struct item {
    task_id id;
    hazard why;
  };

  /// Makes an empty list. Ids of live tasks differ modulo `window`, a power of two.
  explicit predecessor_list(std::uint32_t window)
      : mask_(window - 1),
        seen_(std::make_unique<std::uint64_t[]>(window)),
        found_(std::make_unique_for_overwrite<std::uint64_t[]>(window)),
        end_(found_.get()) {}

  /// Begins the list of a new task. The task itself is marked as found, so that it never
  /// becomes its own predecessor. @pre ids of started tasks grow
  void start(task_id by) noexcept {
    by_ = by << reasons;
    end_ = found_.get();
    seen_[by & mask_] = by_ + reason_mask;
  }
  /// Adds a predecessor, or strengthens its reason if it has been added before.
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
  /// Adds a predecessor. If it has been added before, that reason is at least as strong.
  void add_new(task_id id, hazard why) noexcept {
    std::uint64_t& last = seen_[id & mask_];
    if (last < by_) {
      push(id, why);
      last = by_ + static_cast<std::uint64_t>(why);
    }
  }
  /// The predecessors that have been added; valid until the next is added.
  class view {
   public:
    /// Unpacks the entries of the list.
    class iterator {
     public:
      explicit iterator(const std::uint64_t* position) noexcept : position_(position) {}
      [[nodiscard]] item operator*() const noexcept {
        return {*position_ >> reasons, static_cast<hazard>(*position_ & reason_mask)};
      }
      iterator& operator++() noexcept {
        ++position_;
        return *this;
      }
      friend bool operator==(iterator, iterator) = default;

     private:
      const std::uint64_t* position_;
    };

    explicit view(const predecessor_list& list) noexcept
        : begin_(list.found_.get()), end_(list.end_) {}
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
  /// Replaces the reason of a predecessor. Rare, so it searches the list. @pre it has
  /// been added
  [[gnu::noinline]] void strengthen(task_id id, hazard why) noexcept {
    std::uint64_t* place = found_.get();
    while (*place >> reasons != id) {
      ++place;
    }
    *place = (id << reasons) + static_cast<std::uint64_t>(why);
  }

  std::uint64_t mask_;
  std::uint64_t by_ = 0;
  /// For each id modulo the window: the task that searched (times 8) plus the strongest
  /// reason for which it found the id.
  std::unique_ptr<std::uint64_t[]> seen_;
  /// predecessors in the order of discovery, with capacity for all live tasks
  std::unique_ptr<std::uint64_t[]> found_;
  std::uint64_t* end_;  ///< end of the found predecessors
};

}  // namespace weir::runtime
