// SPDX-License-Identifier: Apache-2.0
/// @file
/// The record of a task in flight, and the lock-free list of its successors.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weir/runtime/engine.hpp"

namespace weir::runtime {

struct task;
struct task_body;
class exclusion;

/// "`to` waits for me": lives in the record of the waiting task, hangs in the list of its
/// predecessor.
struct edge {
  edge* next = nullptr;

  void set(task& waits, bool carries_failure) noexcept {
    to_ = reinterpret_cast<std::uintptr_t>(&waits) |
          static_cast<std::uintptr_t>(carries_failure);
  }
  [[nodiscard]] task& to() const noexcept {
    return *reinterpret_cast<task*>(to_ & ~std::uintptr_t{1});
  }
  /// The successor reads or extends what the predecessor wrote.
  [[nodiscard]] bool carries_failure() const noexcept { return (to_ & 1) != 0; }

 private:
  std::uintptr_t to_ = 0;  ///< tasks are aligned, so the lowest bit is free
};

/// Room for the edges of tasks with many predecessors.
struct edge_chunk {
  static constexpr std::size_t room = 15;

  edge_chunk* next = nullptr;
  std::array<edge, room> edges;
};

/// Head of the list of a task that has ended: nothing can be added.
inline edge* sealed_mark() noexcept {
  static edge mark;
  return &mark;
}

/// A successor inside the same replay: its number there, and whether failures pass.
struct follower {
  std::uint32_t code = 0;
  follower() = default;
  follower(std::uint32_t index, bool carries_failure)
      : code(index * 2 + static_cast<std::uint32_t>(carries_failure)) {}
  [[nodiscard]] std::uint32_t index() const noexcept { return code >> 1; }
  [[nodiscard]] bool carries_failure() const noexcept { return (code & 1) != 0; }
};

/// What tasks have in common that lie side by side: the window, or one replay.
struct task_batch {
  const void* argument = nullptr;
  task* tasks = nullptr;
  task_body* bodies = nullptr;
  const std::uint32_t* follower_begin = nullptr;  ///< of a replay, else null
  const follower* followers = nullptr;

  [[nodiscard]] inline std::size_t index_of(const task& t) const noexcept;
  [[nodiscard]] inline std::span<const follower> followers_of(
      const task& t) const noexcept;
};

inline constexpr std::size_t inline_edges = 3;

/// One task: a slot of the window, or one place of a replay. What every task needs, in
/// one cache line.
///
/// Life: prepared by the submitter, reachable through predecessors once an edge is
/// pushed, ready when `pending` reaches zero, ended when `successors` is sealed; after
/// that only the submitter touches it.
struct alignas(64) task {
  using call_fn = result<void> (*)(const void* captures, const task_context&);

  std::atomic<std::int32_t> pending{0};
  std::uint16_t accesses = 0;  ///< registered in the map
  bool urgent : 1 = false;
  bool exclusive : 1 = false;  ///< commutes with others in any order
  std::uint8_t worker = submit_options::anywhere;
  std::atomic<edge*> successors{sealed_mark()};
  std::atomic<task_id> root{
      0};  ///< oldest failed task that this one depends on, or itself; 0 if none
  task_id id = 0;
  call_fn fn = nullptr;
  const task_batch* batch = nullptr;
  edge_chunk* spill = nullptr;
  task_record* history = nullptr;  ///< set while the task is traced

  [[nodiscard]] bool ended() const noexcept {
    return successors.load(std::memory_order_acquire) == sealed_mark();
  }
  /// Remembers the oldest failure among the predecessors, so that the answer does not
  /// depend on timing.
  void poison(task_id by) noexcept {
    task_id known = root.load(std::memory_order_relaxed);
    while ((known == 0 || by < known) &&
           !root.compare_exchange_weak(known, by, std::memory_order_relaxed)) {
    }
  }
};

static_assert(sizeof(task) == 64);

/// The rest of a task.
struct alignas(64) task_body {
  const char* name = nullptr;
  exclusion* group = nullptr;  ///< of an exclusive task
  std::array<edge, inline_edges> edges;
  alignas(64) std::array<std::byte, engine::max_capture> captures;
};
static_assert(sizeof(task_body) == 192);

[[nodiscard]] inline task_body& body_of(const task& t) noexcept {
  return t.batch->bodies[t.batch->index_of(t)];
}

std::size_t task_batch::index_of(const task& t) const noexcept {
  return static_cast<std::size_t>(&t - tasks);
}
std::span<const follower> task_batch::followers_of(const task& t) const noexcept {
  if (follower_begin == nullptr) {
    return {};
  }
  const std::size_t index = index_of(t);
  return {followers + follower_begin[index], followers + follower_begin[index + 1]};
}

}  // namespace weir::runtime
