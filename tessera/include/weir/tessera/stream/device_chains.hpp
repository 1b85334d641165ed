// SPDX-License-Identifier: Apache-2.0
/// @file
/// Device chains keep the operations of a stream in order: one for each device.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "weir/runtime/engine.hpp"

namespace weir::tessera {

/// The first error in a stream and the operation that failed; empty if there is none.
/// @threads{a value; the error is shared and immutable}
struct failure {
  std::shared_ptr<const weir::error> error;  ///< the error, or null
  std::uint64_t operation = 0;               ///< number of the operation in its stream

  /// Returns true if there is an error.
  explicit operator bool() const noexcept { return error != nullptr; }
  /// Keeps the failure of the earlier operation.
  void merge(const failure& other) {
    if (other && (!*this || other.operation < operation)) {
      *this = other;
    }
  }
};

/// One chain of tasks. Each operation holds its order token for writing, so a single task
/// at a time uses the other members.
struct device_chain {
  runtime::footprint token;  ///< the order token
  /// Access to the token for writing, kept to make submission cheaper.
  runtime::access held;
  failure poison;  ///< operations are skipped while it is set
  bool backwards =
      false;  ///< direction of the next collective that begins on this device chain
};

/// Memory that an operation touches on one device chain besides the memory of that device
/// chain's device.
struct touched_memory {
  /// Owner of memory that belongs to no device chain.
  static constexpr int no_chain = -1;
  /// Device chain whose device has the memory. `no_chain` is memory of the host, or of a
  /// device that the stream does not use; its addresses identify such memory.
  int owner = no_chain;
  std::int64_t begin = 0;  ///< first address
  std::int64_t end = 0;    ///< address behind the last byte
  bool writes = false;     ///< true if the operation writes the memory

  /// Returns memory of no device chain: `bytes` bytes from `address` on. Null means all
  /// addresses.
  [[nodiscard]] static touched_memory outside(const void* address, std::size_t bytes,
                                              bool writes) noexcept {
    constexpr std::uint64_t max_address = std::numeric_limits<std::int64_t>::max();
    const std::uint64_t begin = std::min<std::uint64_t>(
        reinterpret_cast<std::uintptr_t>(address), max_address - 1);
    const std::uint64_t end =
        address == nullptr ? max_address
                           : begin + std::min<std::uint64_t>(bytes, max_address - begin);
    return {no_chain, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end),
            writes};
  }
};

/// Failures of operations that should have written memory which belongs to no device
/// chain.
/// @threads{safe from any thread. The result for a task does not depend on timing,
/// because tasks that touch the same addresses run one after another}
class outside_failures {
 public:
  /// Marks memory as failed, unless an entry covers all of it.
  void add(const touched_memory& memory, const failure& why) {
    const std::lock_guard lock(mutex_);
    for (const entry& e : entries_) {
      if (e.begin <= memory.begin && memory.end <= e.end) {
        return;
      }
    }
    entries_.push_back({memory.begin, memory.end, why});
    any_.store(true, std::memory_order_release);
  }
  /// Returns the first failure in memory that overlaps `memory`, or none.
  [[nodiscard]] failure failure_in(const touched_memory& memory) const {
    failure out;
    if (any()) {
      const std::lock_guard lock(mutex_);
      for (const entry& e : entries_) {
        if (e.begin < memory.end && memory.begin < e.end) {
          out.merge(e.why);
        }
      }
    }
    return out;
  }
  /// Returns true if there is a failure.
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_acquire); }
  /// Removes all failures.
  void clear() {
    const std::lock_guard lock(mutex_);
    entries_.clear();
    any_.store(false, std::memory_order_release);
  }
  /// Adds the failures of `from`. If `operation` is not 0, it replaces the numbers of the
  /// operations that failed.
  void add_all(const outside_failures& from, std::uint64_t operation) {
    if (!from.any()) {
      return;
    }
    const std::vector<entry> others = [&] {
      const std::lock_guard lock(from.mutex_);
      return from.entries_;
    }();
    for (const entry& e : others) {
      failure why = e.why;
      why.operation = operation == 0 ? why.operation : operation;
      add({touched_memory::no_chain, e.begin, e.end, true}, why);
    }
  }

 private:
  struct entry {
    std::int64_t begin;
    std::int64_t end;
    failure why;
  };
  mutable std::mutex mutex_;
  std::vector<entry> entries_;
  std::atomic<bool> any_{false};
};

/// The device chains of one stream: one for each device. Operations on one device chain
/// run in order. Operations of different device chains do not wait for each other, unless
/// one of them touches memory of the other's device or both touch the same memory that
/// belongs to no device chain.
/// @threads{each device chain: the tasks that hold its token; the rest is constant}
class device_chains {
 public:
  /// Makes device chains for this many devices. Each gets a token from the engine.
  /// @error{out_of_memory; no memory for the tokens}
  [[nodiscard]] static result<std::unique_ptr<device_chains>> make(runtime::engine& in,
                                                                   unsigned devices) {
    auto out = std::make_unique<device_chains>();
    for (unsigned i = 0; i < devices; ++i) {
      WEIR_TRY(const runtime::storage token, in.allocate(1, "order tokens"));
      WEIR_TRY(const runtime::footprint bytes, bytes_of(token.id, 0, 1));
      out->chains_.push_back(
          {bytes, {bytes, runtime::access_mode::read_write}, {}, false});
    }
    if (devices > 1) {
      constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();
      // The storage stands for all addresses. No byte of it is ever touched.
      static std::byte nothing;
      out->outside_ = in.adopt(&nothing, all, "");
    }
    return out;
  }

  /// Returns the number of device chains; each device has one.
  [[nodiscard]] unsigned devices() const noexcept {
    return static_cast<unsigned>(chains_.size());
  }
  /// Returns the device chain of a device.
  [[nodiscard]] device_chain& chain_of(std::size_t device) noexcept {
    return chains_[device];
  }
  /// Returns the access that a task needs to touch this memory. @pre devices() > 1
  [[nodiscard]] runtime::access access_to(const touched_memory& memory) const {
    const runtime::access_mode mode =
        memory.writes ? runtime::access_mode::read_write : runtime::access_mode::read;
    if (memory.owner != touched_memory::no_chain) {
      return {chains_[static_cast<std::size_t>(memory.owner)].token, mode};
    }
    const auto bytes = bytes_of(outside_.id, memory.begin, memory.end - memory.begin);
    WEIR_EXPECT(bytes.has_value());  // addresses are below 2^63
    return {*bytes, mode};
  }
  /// Returns the failures in memory that belongs to no device chain.
  [[nodiscard]] outside_failures& outside() noexcept { return failures_; }

  /// Returns true if a device chain, or memory of no device chain, has a failure. The
  /// caller holds all tokens, or knows that no task holds one.
  [[nodiscard]] bool poisoned() const noexcept {
    return failures_.any() ||
           std::any_of(chains_.begin(), chains_.end(),
                       [](const device_chain& l) { return static_cast<bool>(l.poison); });
  }
  /// Returns the first failure of all device chains. The caller holds all tokens.
  [[nodiscard]] failure first_failure() const {
    failure out;
    for (const device_chain& l : chains_) {
      out.merge(l.poison);
    }
    return out;
  }
  /// Returns the first failure of all device chains and clears all failures.
  [[nodiscard]] failure take_failures() {
    failure out = first_failure();
    for (device_chain& l : chains_) {
      l.poison = {};
    }
    if (failures_.any()) {
      failures_.clear();
    }
    return out;
  }

  bool urgent = false;  ///< tasks are submitted as urgent

 private:
  [[nodiscard]] static result<runtime::footprint> bytes_of(runtime::storage_id id,
                                                           std::int64_t begin,
                                                           std::int64_t length) {
    const std::int64_t one = 1;
    return runtime::footprint::of_view(id, begin, {&length, 1}, {&one, 1}, 1);
  }

  std::vector<device_chain> chains_;
  runtime::storage outside_;  ///< only where there are several device chains
  outside_failures failures_;
};

}  // namespace weir::tessera
