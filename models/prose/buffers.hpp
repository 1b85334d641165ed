// SPDX-License-Identifier: Apache-2.0
/// @file
/// Typed memory with its footprints ready, and the place where tasks go.
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

/// The bytes [lo, hi) of a storage.
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

/// A dense array of reals and the footprints of its parts.
template <class R>
struct buffer {
  R* p = nullptr;
  runtime::storage store;
  std::int64_t offset = 0;  ///< elements, in the storage
  std::int64_t count = 0;

  [[nodiscard]] runtime::footprint all() const { return part(0, count); }
  [[nodiscard]] runtime::footprint part(std::int64_t first, std::int64_t n) const {
    const auto size = static_cast<std::int64_t>(sizeof(R));
    return dense_footprint(store.id, (offset + first) * size,
                           (offset + first + n) * size);
  }
  /// `n` columns from `first` on, of a matrix of `rows` rows and `stride` columns.
  [[nodiscard]] runtime::footprint columns(std::int64_t first, std::int64_t n,
                                           std::int64_t rows, std::int64_t stride) const {
    const auto size = static_cast<std::int64_t>(sizeof(R));
    const std::int64_t shape[] = {rows, n};
    const std::int64_t strides[] = {stride * size, size};
    return or_throw(runtime::footprint::of_view(store.id, (offset + first) * size, shape,
                                                strides, size));
  }
  [[nodiscard]] buffer sub(std::int64_t first, std::int64_t n) const {
    return {p + first, store, offset + first, n};
  }
};

/// Working memory of this thread, kept from task to task; calls with another `slot` give
/// another piece.
template <class R, int slot = 0>
[[nodiscard]] R* scratch(int count) {
  static thread_local std::vector<R> memory;
  if (memory.size() < static_cast<std::size_t>(count)) {
    memory.resize(static_cast<std::size_t>(count));
  }
  return memory.data();
}

/// Collects the accesses of one task; neighbours that follow one another become one.
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
  /// Reads or, if `updating`, updates.
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

/// An engine, or nothing: then memory is plain and every task runs at once, which is the
/// order that defines the result.
class task_place {
 public:
  explicit task_place(runtime::engine* engine) : engine_(engine) {}

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
        return error(errc::out_of_memory, "allocation: expected memory, found none");
      }
      std::memset(memory, 0, static_cast<std::size_t>(bytes));
      owned_.emplace_back(static_cast<std::byte*>(memory), &std::free);
      s = {{static_cast<std::uint32_t>(owned_.size()), 1}, owned_.back().get(), bytes};
    }
    return buffer<R>{reinterpret_cast<R*>(s.base), s, 0, count};
  }

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
  /// Whether what is submitted can be recorded: see `runtime::engine::begin_capture`.
  [[nodiscard]] bool captures() const { return engine_ != nullptr; }
  [[nodiscard]] result<void> begin_capture(const void* argument) {
    return engine_->begin_capture(argument);
  }
  [[nodiscard]] result<runtime::capture> end_capture() { return engine_->end_capture(); }
  [[nodiscard]] result<runtime::task_id> replay(const runtime::capture& tasks,
                                                const void* argument) {
    return engine_->replay(tasks, argument);
  }
  [[nodiscard]] result<void> wait(runtime::task_id id) {
    return engine_ == nullptr || id == 0 ? result<void>() : engine_->wait(id);
  }
  [[nodiscard]] bool ended(runtime::task_id id) const {
    return engine_ == nullptr || id == 0 || engine_->ended(id);
  }
  [[nodiscard]] result<void> wait_all() {
    return engine_ == nullptr ? result<void>() : engine_->wait_all();
  }

 private:
  runtime::engine* engine_;
  runtime::task_id last_ = 0;
  std::vector<std::unique_ptr<std::byte, void (*)(void*)>> owned_;
};

}  // namespace weir::models
