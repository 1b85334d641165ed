// SPDX-License-Identifier: Apache-2.0
/// @file
/// Places for tests: memory that nothing can touch but the kernels and copies of its
/// place.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "weir/runtime/places.hpp"

namespace weir::test {

/// Memory of the places from 1 on, in mappings that are open only while a kernel or a
/// copy of the place runs.
/// @threads{safe to call concurrently}
class guarded_memory final : public runtime::mover {
 public:
  static constexpr runtime::place_id places = 4;

  /// Keeps the memory of a place open. Place 0 is always open.
  class visit {
   public:
    visit(guarded_memory& memory, runtime::place_id place)
        : memory_(memory), place_(place) {
      memory_.count(place_, 1);
    }
    ~visit() { memory_.count(place_, -1); }
    visit(const visit&) = delete;
    visit& operator=(const visit&) = delete;

   private:
    guarded_memory& memory_;
    runtime::place_id place_;
  };

  result<std::byte*> allocate(runtime::place_id at, std::int64_t bytes) override {
    const std::lock_guard lock(mutex_);
    void* base = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
      return error(errc::out_of_memory, "no mapping");
    }
    regions_[at].push_back({base, static_cast<std::size_t>(bytes)});
    protect(regions_[at].back(), visits_[at] > 0);
    return static_cast<std::byte*>(base);
  }
  void free(runtime::place_id at, std::byte* base, std::int64_t) noexcept override {
    const std::lock_guard lock(mutex_);
    std::erase_if(regions_[at], [base](const region& r) {
      return r.base == base && ::munmap(r.base, r.bytes) == 0;
    });
  }
  result<void> copy(const runtime::copy_order& order) override {
    if (failing_copies > 0) {
      --failing_copies;
      return error(errc::io, "injected failure of a copy");
    }
    const visit source(*this, order.from_place);
    const visit destination(*this, order.to_place);
    const std::int64_t last = order.bytes.hi - 1;
    const std::byte before = order.to[last];
    runtime::copy_bytes(order.bytes, order.from, order.to);
    if (loses_last_byte) {
      order.to[last] = before;
    }
    return {};
  }
  /// Returns the number of mappings.
  std::size_t mappings() {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& of_place : regions_) {
      count += of_place.size();
    }
    return count;
  }

  bool loses_last_byte = false;         ///< a copy leaves the last byte out
  std::atomic<int> failing_copies = 0;  ///< number of next copies that fail

 private:
  struct region {
    void* base;
    std::size_t bytes;
  };

  static void protect(const region& r, bool open) {
    WEIR_EXPECT(::mprotect(r.base, r.bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE) ==
                0);
  }
  void count(runtime::place_id place, int change) {
    if (place == runtime::machine_memory) {
      return;
    }
    const std::lock_guard lock(mutex_);
    const int before = visits_[place];
    visits_[place] += change;
    if ((before > 0) != (visits_[place] > 0)) {
      for (const region& r : regions_[place]) {
        protect(r, visits_[place] > 0);
      }
    }
  }

  std::mutex mutex_;
  std::array<std::vector<region>, places> regions_;
  std::array<int, places> visits_{};
};

}  // namespace weir::test
