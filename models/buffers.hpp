// SPDX-License-Identifier: Apache-2.0
/// @file
/// Arrays that know their footprints, the list of a task's accesses, and the task runner
/// to which the model submits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::models {

/// Returns the footprint of the bytes [lo, hi) of a storage.
[[nodiscard]] inline runtime::footprint dense_footprint(runtime::storage_id id,
                                                        std::int64_t lo,
                                                        std::int64_t hi) {
  runtime::footprint f;
  f.id = id;
  f.lo = lo;
  f.hi = hi;
  f.run = hi - lo;
  return f;
}

/// A dense array of elements of type R in a storage. A buffer does not own its memory:
/// the task runner does.
template <class R>
struct buffer {
  R* data = nullptr;
  runtime::storage store;
  std::int64_t offset = 0;  ///< of the first element in the storage, in elements
  std::int64_t count = 0;   ///< number of elements

  /// Returns the footprint of all elements.
  [[nodiscard]] runtime::footprint all() const { return part(0, count); }
  /// Returns the footprint of the elements [first, first + n).
  [[nodiscard]] runtime::footprint part(std::int64_t first, std::int64_t n) const {
    const auto size = static_cast<std::int64_t>(sizeof(R));
    return dense_footprint(store.id, (offset + first) * size,
                           (offset + first + n) * size);
  }
  /// Returns the footprint of `n` columns, from column `first` on, of a matrix that has
  /// `rows` rows and `stride` columns.
  [[nodiscard]] runtime::footprint columns(std::int64_t first, std::int64_t n,
                                           std::int64_t rows, std::int64_t stride) const {
    const auto size = static_cast<std::int64_t>(sizeof(R));
    const std::int64_t shape[] = {rows, n};
    const std::int64_t strides[] = {stride * size, size};
    return or_throw(runtime::footprint::of_view(store.id, (offset + first) * size, shape,
                                                strides, size));
  }
  /// Returns the elements [first, first + n) as a buffer.
  [[nodiscard]] buffer sub(std::int64_t first, std::int64_t n) const {
    return {data + first, store, offset + first, n};
  }
};

/// Returns working memory of the calling thread for `count` elements. The memory is
/// reused from task to task, so its contents are undefined, and the next call with the
/// same R and `slot` invalidates it. A task that needs two pieces uses two slots.
template <class R, int slot = 0>
[[nodiscard]] R* scratch(int count) {
  static thread_local std::vector<R> memory;
  if (memory.size() < static_cast<std::size_t>(count)) {
    memory.resize(static_cast<std::size_t>(count));
  }
  return memory.data();
}

/// Collects the accesses of one task. An access that continues the one added before it,
/// in memory and with the same mode, is merged into it, because the engine's cost grows
/// with the number of accesses.
class access_list {
 public:
  access_list& reads(const runtime::footprint& f) {
    return put(f, runtime::access_mode::read);
  }
  access_list& writes(const runtime::footprint& f) {
    return put(f, runtime::access_mode::write);
  }
  access_list& updates(const runtime::footprint& f) {
    return put(f, runtime::access_mode::read_write);
  }
  /// Adds an update if `updating` is true, else a read.
  access_list& uses(const runtime::footprint& f, bool updating) {
    return updating ? updates(f) : reads(f);
  }
  [[nodiscard]] std::span<const runtime::access> items() const { return items_; }
  void clear() { items_.clear(); }

 private:
  access_list& put(const runtime::footprint& f, runtime::access_mode mode) {
    if (!items_.empty()) {
      runtime::access& last = items_.back();
      const bool adjoins = last.mode == mode && last.bytes.id == f.id &&
                           last.bytes.dense() && f.dense() && last.bytes.hi == f.lo;
      if (adjoins) {
        last.bytes.hi = f.hi;
        last.bytes.run = f.hi - last.bytes.lo;
        return *this;
      }
    }
    items_.push_back({f, mode});
    return *this;
  }
  std::vector<runtime::access> items_;
};

/// Allocates memory and runs tasks: on an engine or, for tests, without one. Without an
/// engine a task runs inside `submit`; the order of submission is the order that defines
/// the result, so both must give equal bits.
class task_runner {
 public:
  /// Runs tasks on `engine`. A null pointer means: without an engine.
  explicit task_runner(runtime::engine* engine) : engine_(engine) {}

  /// Allocates `count` zeros, aligned to 64 bytes. `owner` names the memory in the
  /// engine's report.
  /// @error{out_of_memory}
  template <class R>
  [[nodiscard]] result<buffer<R>> allocate(std::int64_t count, std::string_view owner) {
    const auto bytes = static_cast<std::int64_t>(
        align_up<std::size_t>(static_cast<std::size_t>(count) * sizeof(R), 64));
    runtime::storage s;
    if (engine_ != nullptr) {
      WEIR_TRY(s, engine_->allocate(bytes, owner));
    } else {
      void* memory = std::aligned_alloc(64, static_cast<std::size_t>(bytes));
      if (memory == nullptr) {
        return error(errc::out_of_memory, "memory of the model: expected " +
                                              std::to_string(bytes) +
                                              " free bytes, found fewer; use a smaller "
                                              "model or free memory");
      }
      std::memset(memory, 0, static_cast<std::size_t>(bytes));
      owned_.emplace_back(static_cast<std::byte*>(memory), &std::free);
      s = {{static_cast<std::uint32_t>(owned_.size()), 1}, owned_.back().get(), bytes};
    }
    return buffer<R>{reinterpret_cast<R*>(s.base), s, 0, count};
  }

  /// Submits a task, or runs it at once if there is no engine.
  template <class Kernel>
  [[nodiscard]] result<runtime::task_id> submit(
      const char* name, const access_list& accesses, const Kernel& kernel,
      const runtime::submit_options& options = {}) {
    if (engine_ != nullptr) {
      return engine_->submit(name, accesses.items(), kernel, options);
    }
    WEIR_CHECK(kernel(runtime::task_context{++last_, 0}));
    return last_;
  }
  /// Returns whether submitted tasks can be recorded. The three functions that follow are
  /// those of `runtime::engine` and need an engine.
  [[nodiscard]] bool captures() const { return engine_ != nullptr; }
  [[nodiscard]] result<void> begin_capture(const void* argument) {
    return engine_->begin_capture(argument);
  }
  [[nodiscard]] result<runtime::capture> end_capture() { return engine_->end_capture(); }
  [[nodiscard]] result<runtime::task_id> replay(const runtime::capture& tasks,
                                                const void* argument) {
    return engine_->replay(tasks, argument);
  }
  /// Waits for a task; returns its error if it failed. Does nothing for id 0, which names
  /// no task.
  [[nodiscard]] result<void> wait(runtime::task_id id) {
    return engine_ == nullptr || id == 0 ? result<void>() : engine_->wait(id);
  }
  /// Returns whether a task has ended.
  [[nodiscard]] bool ended(runtime::task_id id) const {
    return engine_ == nullptr || id == 0 || engine_->ended(id);
  }
  /// Waits for all tasks that were submitted.
  [[nodiscard]] result<void> wait_all() {
    return engine_ == nullptr ? result<void>() : engine_->wait_all();
  }

 private:
  runtime::engine* engine_;
  runtime::task_id last_ = 0;  ///< without an engine: id of the last task
  std::vector<std::unique_ptr<std::byte, void (*)(void*)>> owned_;  ///< without an engine
};

}  // namespace weir::models
