// SPDX-License-Identifier: Apache-2.0
/// @file
/// The tasks that a new one must wait for, each once, with the strongest reason.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

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
      : seen_(window),
        mask_(window - 1),
        ids_(std::make_unique_for_overwrite<task_id[]>(window)) {}

  /// @pre no task has been started with that is newer
  void start(task_id by) noexcept {
    by_ = by << reasons;
    count_ = 0;
  }
  void add(task_id id, hazard why) noexcept {
    std::uint64_t& last = seen_[id & mask_];
    const std::uint64_t now = by_ + static_cast<std::uint64_t>(why);
    if (last < by_) {
      ids_[count_++] = id;
      last = now;
    } else if (last < now) {  // a stronger reason
      last = now;
    }
  }
  /// Those that have been added; good until the next is.
  class view {
   public:
    class iterator {
     public:
      iterator(const view& of, const task_id* at) noexcept : of_(of), at_(at) {}
      [[nodiscard]] item operator*() const noexcept {
        return {*at_, static_cast<hazard>(of_.seen_[*at_ & of_.mask_] & reason_mask)};
      }
      iterator& operator++() noexcept {
        ++at_;
        return *this;
      }
      [[nodiscard]] bool operator!=(const iterator& other) const noexcept {
        return at_ != other.at_;
      }

     private:
      const view& of_;
      const task_id* at_;
    };

    explicit view(const predecessor_list& of) noexcept
        : ids_(of.ids_.get()),
          seen_(of.seen_.data()),
          mask_(of.mask_),
          count_(of.count_) {}
    [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
    [[nodiscard]] iterator begin() const noexcept { return {*this, ids_}; }
    [[nodiscard]] iterator end() const noexcept { return {*this, ids_ + count_}; }

   private:
    const task_id* ids_;
    const std::uint64_t* seen_;
    std::uint64_t mask_;
    std::uint32_t count_;
  };

 private:
  static constexpr unsigned reasons = 3;  ///< bits of a hazard
  static constexpr std::uint64_t reason_mask = (1U << reasons) - 1;

  /// By id modulo the window: who found that task last, and the strongest reason.
  std::vector<std::uint64_t> seen_;
  std::uint64_t mask_;
  std::uint64_t by_ = 0;
  std::uint32_t count_ = 0;
  std::unique_ptr<task_id[]> ids_;  ///< one place for every live task
};

}  // namespace weir::runtime
