// SPDX-License-Identifier: Apache-2.0
/// @file
/// Enumerates all programs of a few tasks on four bytes, and checks that the edges found
/// for them order every conflict and nothing else.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "map/conflict_search.hpp"

namespace weir::test {

/// An access to some of the four bytes.
struct small_access {
  runtime::access accessed;
  unsigned mask = 0;
  [[nodiscard]] bool writes() const {
    return accessed.mode != runtime::access_mode::read;
  }
};

/// Returns every access that one strided view can make. With `dense`, only those without
/// gaps.
inline std::vector<small_access> small_accesses(bool dense) {
  std::vector<small_access> out;
  const auto add = [&](std::int64_t first, std::int64_t count, std::int64_t stride) {
    unsigned mask = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      mask |= 1U << (first + i * stride);
    }
    const std::array<std::int64_t, 1> shape{count};
    const std::array<std::int64_t, 1> strides{stride};
    for (const auto mode : {runtime::access_mode::read, runtime::access_mode::write,
                            runtime::access_mode::read_write}) {
      out.push_back(
          {{or_throw(runtime::footprint::of_view({0, 1}, first, shape, strides, 1)),
            mode},
           mask});
    }
  };
  for (std::int64_t first = 0; first < 4; ++first) {
    for (std::int64_t count = 1; first + count <= 4; ++count) {
      add(first, count, 1);
    }
  }
  if (!dense) {
    add(0, 2, 2);
    add(1, 2, 2);
    add(0, 2, 3);
  }
  return out;
}

/// The accesses of one task.
using small_task = std::vector<const small_access*>;

/// Returns whether the tasks have accesses that need an order.
inline bool conflict(const small_task& a, const small_task& b) {
  for (const small_access* x : a) {
    for (const small_access* y : b) {
      if ((x->mask & y->mask) != 0 && (x->writes() || y->writes())) {
        return true;
      }
    }
  }
  return false;
}

/// Submits each program to a dependency map of its own and checks the edges.
class program_judge {
 public:
  program_judge() : search_(1 << 12, 64) { search_.map().add_storage(0); }

  /// Checks a program of at most 16 tasks. Returns false and prints a message if a
  /// conflict is not ordered or an edge joins tasks without a conflict.
  [[nodiscard]] bool judge(const std::vector<small_task>& tasks) {
    std::array<unsigned, 16> reach{};  // by task: the tasks that end before it starts
    std::array<unsigned, 16> hazards{};
    bool good = true;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      search_.start(next_ + i);
      for (const small_access* a : tasks[i]) {
        search_.look_up(a->accessed, true);
      }
      for (const small_access* a : tasks[i]) {
        search_.insert(a->accessed, next_ + i);
      }
      for (const auto& p : search_.found()) {
        const auto before = static_cast<std::size_t>(p.id - next_);
        good = good && before < i && conflict(tasks[before], tasks[i]);
        reach[i] |= reach[before] | 1U << before;
        ++edges_;
      }
      for (std::size_t k = 0; k < i; ++k) {
        if (conflict(tasks[k], tasks[i])) {
          hazards[i] |= 1U << k;
        }
      }
      good = good && (hazards[i] & ~reach[i]) == 0;
      least_ += count_least(hazards, i);
    }
    for (const small_task& t : tasks) {
      search_.map().retire(static_cast<std::uint32_t>(t.size()), 0);
    }
    next_ += tasks.size();
    return good;
  }

  [[nodiscard]] std::uint64_t edges() const { return edges_; }
  /// Returns the number of edges that no other edges imply. None of them can be left out.
  [[nodiscard]] std::uint64_t least() const { return least_; }

 private:
  /// Returns the number of conflicts of task i that do not follow from others.
  static std::uint64_t count_least(const std::array<unsigned, 16>& hazards,
                                   std::size_t i) {
    std::array<unsigned, 16> closed{};
    for (std::size_t k = 0; k < i; ++k) {
      closed[k] = hazards[k];
      for (std::size_t j = 0; j < k; ++j) {
        if ((hazards[k] >> j & 1U) != 0) {
          closed[k] |= closed[j];
        }
      }
    }
    unsigned implied = 0;
    for (std::size_t k = 0; k < i; ++k) {
      if ((hazards[i] >> k & 1U) != 0) {
        implied |= closed[k];
      }
    }
    return static_cast<std::uint64_t>(std::popcount(hazards[i] & ~implied));
  }

  runtime::conflict_search search_;
  runtime::task_id next_ = 1;
  std::uint64_t edges_ = 0;
  std::uint64_t least_ = 0;
};

}  // namespace weir::test
