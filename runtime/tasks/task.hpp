// SPDX-License-Identifier: Apache-2.0
/// @file
/// The record of a task in flight, and its successors.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "weir/base/system/prefetch.hpp"
#include "weir/runtime/engine.hpp"
#include "weir/runtime/trace.hpp"

namespace weir::runtime {

struct task;
class exclusion;
class scheduler;

/// A task that waits for another one, and whether failures pass to it, which they do if
/// it reads or extends the bytes that the other one wrote.
class successor {
 public:
  successor() = default;
  successor(task& waits, bool carries_failure) noexcept
      : bits_(reinterpret_cast<std::uintptr_t>(&waits) |
              static_cast<std::uintptr_t>(carries_failure)) {}
  [[nodiscard]] task& waits() const noexcept {
    return *reinterpret_cast<task*>(bits_ & ~std::uintptr_t{1});
  }
  [[nodiscard]] bool carries_failure() const noexcept { return (bits_ & 1) != 0; }

 private:
  std::uintptr_t bits_ = 0;  ///< tasks are aligned, so the lowest bit is free
};

/// Successors of one task. The first block lies beside the record; further ones come from
/// the `successor_pool`. The submitter writes the successors; the worker that ends the
/// task reads as many as `task::successors` counts by then.
struct alignas(128) successor_block {
  static constexpr std::uint32_t capacity = 14;

  successor_block* next = nullptr;    ///< set if the task has more successors
  successor_block* newest = nullptr;  ///< last block of the list; in the first block only
  std::array<successor, capacity> tasks;
};
static_assert(sizeof(successor_block) == 128);

/// A successor inside the same replay: its index there, and whether failures pass to it.
struct follower {
  std::uint32_t code = 0;
  follower() = default;
  follower(std::uint32_t index, bool carries_failure)
      : code(index * 2 + static_cast<std::uint32_t>(carries_failure)) {}
  [[nodiscard]] std::uint32_t index() const noexcept { return code >> 1; }
  [[nodiscard]] bool carries_failure() const noexcept { return (code & 1) != 0; }
};

/// Captured values of kernels, in places of equal size. The size is a power of two, so
/// that each place is aligned as far as its kernel can ask for.
class captured_values {
 public:
  captured_values(std::size_t count, std::size_t max_bytes)
      : shift_(static_cast<unsigned>(
            std::bit_width(std::max<std::size_t>(max_bytes, 16) - 1))),
        lines_(std::make_unique_for_overwrite<line[]>((count << shift_) / sizeof(line) +
                                                      1)) {}
  /// The values of task i lie at `first() + (i << shift())`.
  [[nodiscard]] std::byte* first() const noexcept { return lines_[0].bytes.data(); }
  [[nodiscard]] unsigned shift() const noexcept { return shift_; }

 private:
  struct alignas(engine::max_capture_alignment) line {
    std::array<std::byte, engine::max_capture_alignment> bytes;
  };
  unsigned shift_;
  std::unique_ptr<line[]> lines_;
};

/// Data that tasks share whose records lie side by side: in the window, or in one replay.
struct task_batch {
  const void* argument = nullptr;
  task* tasks = nullptr;
  std::size_t size = 0;
  successor_block* successors = nullptr;  ///< the first block of each
  std::byte* values = nullptr;  ///< captured values, `1 << value_shift` bytes per task
  unsigned value_shift = 0;
  exclusion** groups = nullptr;                   ///< of exclusive tasks; null in replays
  const std::uint32_t* follower_begin = nullptr;  ///< null outside replays
  const follower* followers = nullptr;
  scheduler* owner = nullptr;  ///< that runs the tasks

  [[nodiscard]] inline std::size_t index_of(const task& t) const noexcept;
  [[nodiscard]] std::byte* values_of(std::size_t index) const noexcept {
    return values + (index << value_shift);
  }
  [[nodiscard]] inline std::span<const follower> followers_of(
      const task& t) const noexcept;
};

/// The part of a traced task's history from before it runs. It is one cache line, which
/// goes from the submitter to the worker that releases the task and on to the worker that
/// runs it.
struct alignas(64) task_history {
  std::int64_t submitted = 0;
  std::int64_t ready = 0;
  task_id waited_for = 0;
  const char* waited_for_name = nullptr;
  std::uint64_t pulse = 0;
  bool keep = false;
};

/// The record of one task, in a slot of the window or in a replay. It is one cache line
/// with the data that every task needs.
///
/// The submitter prepares the record. Other threads reach it once it is a successor of
/// another task or in a queue. The task is ready when `pending` reaches zero, closed when
/// its kernel has ended, and ended when its successors know. After that only the
/// submitter touches the record.
struct alignas(64) task {
  using call_fn = result<void> (*)(const void* captures, const task_context&);
  /// Bit of `successors`: the task gets no more of them.
  static constexpr std::uint32_t closed = std::uint32_t{1} << 30;
  /// Bits of `successors`: the task is closed, and all its successors know that it ended.
  static constexpr std::uint32_t over = closed | std::uint32_t{1} << 31;

  std::atomic<std::int32_t> pending{0};
  std::uint16_t accesses = 0;  ///< registered in the map
  bool urgent = false;
  std::uint8_t worker = submit_options::anywhere;
  std::atomic<std::uint32_t> successors{over};  ///< their number, and the bits above
  bool exclusive = false;                       ///< commutes with others in any order
  bool though_poisoned = false;                 ///< its kernel is called in any case
  std::uint16_t tag = 0;                        ///< time in the kernel counts for it
  std::atomic<task_id> root{
      0};  ///< oldest failed task that this one depends on, or itself; 0 if none
  task_id id = 0;
  call_fn fn = nullptr;
  const task_batch* batch = nullptr;
  task_history* history = nullptr;  ///< set while the task is traced
  const char* name = nullptr;

  [[nodiscard]] bool ended() const noexcept {
    return successors.load(std::memory_order_acquire) >= over;
  }
  /// Returns true if the task has ended and its retirement has nothing to give back. That
  /// holds for most tasks of a replay. @threads{the submitter}
  [[nodiscard]] bool is_spent() const noexcept {
    return successors.load(std::memory_order_acquire) - over <=
               successor_block::capacity &&
           accesses == 0 && !exclusive && root.load(std::memory_order_relaxed) == 0;
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
  const std::uint32_t* const begin = follower_begin + index_of(t);
  return {followers + begin[0], begin[1] - begin[0]};
}

[[nodiscard]] inline successor_block& successors_of(const task& t) noexcept {
  return t.batch->successors[t.batch->index_of(t)];
}
[[nodiscard]] inline std::byte* values_of(const task& t) noexcept {
  return t.batch->values_of(t.batch->index_of(t));
}
[[nodiscard]] inline exclusion*& group_of(const task& t) noexcept {
  return t.batch->groups[t.batch->index_of(t)];
}

/// The record that the trace keeps of a task that has run.
[[nodiscard]] inline task_record record_of(const task& t, unsigned worker,
                                           std::int64_t started, std::int64_t ended,
                                           std::int64_t completed = 0) {
  const task_history& known = *t.history;
  return {.name = t.name,
          .id = t.id,
          .submitted = known.submitted,
          .ready = known.ready,
          .started = started,
          .ended = ended,
          .waited_for = known.waited_for,
          .waited_for_name = known.waited_for_name,
          .worker = worker,
          .pulse = known.pulse,
          .keep = known.keep,
          .completed = completed};
}

/// Memory for the records of tasks, their first blocks of successors, and their captured
/// values.
struct task_records {
  task_records(std::size_t count, std::size_t max_captured)
      : size(count),
        tasks(std::make_unique<task[]>(count)),
        successors(std::make_unique<successor_block[]>(count)),
        values(count, max_captured) {}
  /// Makes these the records of the batch.
  void join(task_batch& batch) noexcept {
    batch.tasks = tasks.get();
    batch.size = size;
    batch.successors = successors.get();
    batch.values = values.first();
    batch.value_shift = values.shift();
  }

  std::size_t size;
  std::unique_ptr<task[]> tasks;
  std::unique_ptr<successor_block[]> successors;
  captured_values values;
};

}  // namespace weir::runtime
