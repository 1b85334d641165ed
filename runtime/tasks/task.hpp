// SPDX-License-Identifier: Apache-2.0
/// @file
/// The record of a task in flight, and the lock-free list of its successors.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "weir/base/prefetch.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {

struct task;
class exclusion;
struct edge;

/// Leads to an edge and says whether failures pass along it; or to none; or says that
/// there will be no more.
class edge_link {
 public:
  constexpr edge_link() = default;
  edge_link(edge& to, bool carries_failure) noexcept
      : bits_(reinterpret_cast<std::uintptr_t>(&to) |
              static_cast<std::uintptr_t>(carries_failure)) {}
  /// Head of the list of a task that has ended: nothing can be added.
  [[nodiscard]] static constexpr edge_link sealed() noexcept { return of(1); }
  friend bool operator==(edge_link, edge_link) = default;
  /// As atomic variables hold it.
  [[nodiscard]] constexpr std::uintptr_t bits() const noexcept { return bits_; }
  [[nodiscard]] static constexpr edge_link of(std::uintptr_t bits) noexcept {
    edge_link out;
    out.bits_ = bits;
    return out;
  }

  [[nodiscard]] bool none() const noexcept { return bits_ == 0; }
  /// @pre neither none nor sealed; likewise below
  [[nodiscard]] edge& to() const noexcept {
    return *reinterpret_cast<edge*>(bits_ & ~std::uintptr_t{1});
  }
  /// The successor reads or extends what the predecessor wrote.
  [[nodiscard]] bool carries_failure() const noexcept { return (bits_ & 1) != 0; }
  /// The task that waits.
  [[nodiscard]] inline task& owner() const noexcept;

 private:
  std::uintptr_t bits_ = 0;  ///< edges are aligned, so the lowest bit is free
};

/// "My owner waits for you": hangs in the list of the predecessor.
struct edge {
  edge_link next;
};

/// Edges of one task: a first block that it always has, and more if it needs them.
struct alignas(64) edge_block {
  static constexpr std::size_t room = 6;

  task* owner = nullptr;
  edge_block* next = nullptr;  ///< of the same task; the newest follows the first
  std::array<edge, room> edges;
};
static_assert(sizeof(edge_block) == 64);

task& edge_link::owner() const noexcept {
  constexpr std::uintptr_t inside = alignof(edge_block) - 1;
  return *reinterpret_cast<const edge_block*>(bits_ & ~inside)->owner;
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

/// What a kernel has captured.
struct alignas(64) captured_values {
  std::array<std::byte, engine::max_capture> bytes;
};

/// What tasks have in common that lie side by side: the window, or one replay.
struct task_batch {
  const void* argument = nullptr;
  task* tasks = nullptr;
  edge_block* edges = nullptr;        ///< the first block of each
  captured_values* values = nullptr;  ///< of each
  exclusion** groups = nullptr;       ///< of exclusive tasks; replays have none
  const std::uint32_t* follower_begin = nullptr;  ///< of a replay, else null
  const follower* followers = nullptr;

  [[nodiscard]] inline std::size_t index_of(const task& t) const noexcept;
  [[nodiscard]] inline std::span<const follower> followers_of(
      const task& t) const noexcept;
};

/// What is known of a traced task before it runs: the submitter, who releases it and who
/// runs it hand one cache line on.
struct alignas(64) task_history {
  std::int64_t submitted = 0;
  std::int64_t ready = 0;
  task_id waited_for = 0;
  const char* waited_for_name = nullptr;
  std::uint64_t pulse = 0;
  bool keep = false;
};

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
  bool exclusive : 1 = false;   ///< commutes with others in any order
  bool many_edges : 1 = false;  ///< more than fit into its first block
  std::uint8_t worker = submit_options::anywhere;
  std::atomic<std::uintptr_t> successors{edge_link::sealed().bits()};  ///< the newest
  std::atomic<task_id> root{
      0};  ///< oldest failed task that this one depends on, or itself; 0 if none
  task_id id = 0;
  call_fn fn = nullptr;
  const task_batch* batch = nullptr;
  task_history* history = nullptr;  ///< set while the task is traced
  const char* name = nullptr;

  [[nodiscard]] bool ended() const noexcept {
    return successors.load(std::memory_order_acquire) == edge_link::sealed().bits();
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

[[nodiscard]] inline edge_block& block_of(const task& t) noexcept {
  return t.batch->edges[t.batch->index_of(t)];
}
[[nodiscard]] inline captured_values& values_of(const task& t) noexcept {
  return t.batch->values[t.batch->index_of(t)];
}
[[nodiscard]] inline exclusion*& group_of(const task& t) noexcept {
  return t.batch->groups[t.batch->index_of(t)];
}

/// Records of so many tasks.
struct task_records {
  explicit task_records(std::size_t count)
      : tasks(std::make_unique<task[]>(count)),
        edges(std::make_unique<edge_block[]>(count)),
        values(std::make_unique_for_overwrite<captured_values[]>(count)) {
    for (std::size_t i = 0; i < count; ++i) {
      edges[i].owner = &tasks[i];
    }
  }
  /// They belong to the batch from now on.
  void join(task_batch& batch) noexcept {
    batch.tasks = tasks.get();
    batch.edges = edges.get();
    batch.values = values.get();
  }

  std::unique_ptr<task[]> tasks;
  std::unique_ptr<edge_block[]> edges;
  std::unique_ptr<captured_values[]> values;
};

}  // namespace weir::runtime
