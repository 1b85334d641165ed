// SPDX-License-Identifier: Apache-2.0
/// @file
/// The tasks that a new one must wait for, each once, with the strongest reason.
#pragma once

#include <algorithm>
#include <cstdint>
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

  explicit predecessor_list(std::uint32_t window) : seen_(window), mask_(window - 1) {}

  void start(task_id by) {
    by_ = by;
    items_.clear();
  }
  void add(task_id id, hazard why) {
    stamp& s = seen_[id & mask_];  // live ids differ modulo the window
    if (s.by == by_) {
      item& known = items_[s.position];
      known.why = std::max(known.why, why);
      return;
    }
    s = {by_, static_cast<std::uint32_t>(items_.size())};
    items_.push_back({id, why});
  }
  [[nodiscard]] const std::vector<item>& items() const noexcept { return items_; }

 private:
  struct stamp {
    task_id by = 0;
    std::uint32_t position = 0;
  };
  std::vector<stamp> seen_;
  std::uint32_t mask_;
  task_id by_ = 0;
  std::vector<item> items_;
};

}  // namespace weir::runtime
