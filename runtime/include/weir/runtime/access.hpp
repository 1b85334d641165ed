// SPDX-License-Identifier: Apache-2.0
/// @file
/// Accesses of tasks: the bytes that a task touches, and whether it reads or writes them.
/// @threads{values}
#pragma once

#include <cstdint>
#include <span>

#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// Number of a task, in the order of submission. Never used twice; 0 names no task.
using task_id = std::uint64_t;

/// Use of a region by a task. `none` asks for no order: it only keeps the storage until
/// the task has ended. Tasks that `commute` on a region run one at a time in the order of
/// their submission, so that sums of floating point numbers keep their bits. With
/// `commute_any` they run one at a time in the order in which they become ready; only
/// this mode can make a result differ from that of serial execution.
enum class access_mode : std::uint8_t {
  read,
  write,
  read_write,
  none,
  commute,
  commute_any
};
/// Order of tasks that commute.
enum class commute_order : std::uint8_t { submission, any };

/// A region and its use by a task. A write may leave bytes as they were.
struct access {
  footprint bytes;                       ///< bytes that the task touches
  access_mode mode = access_mode::read;  ///< use of the bytes
};
/// Declares that a task reads the tensor.
[[nodiscard]] inline access reads(const tensor& t) {
  return {t.bytes(), access_mode::read};
}
/// Declares that a task writes the tensor without reading it.
[[nodiscard]] inline access writes(const tensor& t) {
  return {t.bytes(), access_mode::write};
}
/// Declares that a task reads and writes the tensor.
[[nodiscard]] inline access updates(const tensor& t) {
  return {t.bytes(), access_mode::read_write};
}
/// Declares that a task updates the tensor and commutes with other tasks that do so. The
/// order `any` counts between tasks whose first commuting access has exactly the same
/// bytes, and outside of captures; all other tasks run in the order of submission.
[[nodiscard]] inline access commutes(const tensor& t,
                                     commute_order order = commute_order::submission) {
  return {t.bytes(),
          order == commute_order::any ? access_mode::commute_any : access_mode::commute};
}
/// Declares that a task keeps the storage of the tensor and does not touch its bytes.
[[nodiscard]] inline access keeps(const tensor& t) {
  return {t.bytes(), access_mode::none};
}

/// Options of one submission, beside its accesses.
struct submit_options {
  /// Value of `worker` for tasks that any worker may run.
  static constexpr std::uint8_t anywhere = 255;

  /// Tasks that end before this one begins. Their failures do not reach this task, except
  /// in a manual scope, where accesses bring none.
  std::span<const task_id> after;
  /// True if workers take the task before others.
  bool urgent = false;
  /// Worker that should run the task. Another worker runs it if that one is busy and the
  /// other has nothing to do.
  std::uint8_t worker = anywhere;
  /// True if the kernel is called although the task was poisoned, so that it can tell
  /// somebody; see `task_context::poisoned`. The task counts as one that was not run.
  bool though_poisoned = false;
};

}  // namespace weir::runtime
