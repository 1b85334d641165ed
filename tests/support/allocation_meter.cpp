// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counts the bytes that the allocator hands out. Sanitizers bring an allocator of their
/// own, which calls hooks; without a sanitizer, functions that count replace those of the
/// C library.
#include "support/allocation_meter.hpp"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "weir/base/system/sanitizers.hpp"

namespace weir::test {

namespace {

std::atomic<std::int64_t> allocated{0};
std::atomic<std::int64_t> highest{0};
std::atomic<std::int64_t> largest_single{0};

/// Raises a number to another one if that is larger.
void raise(std::atomic<std::int64_t>& number, std::int64_t to) noexcept {
  std::int64_t before = number.load(std::memory_order_relaxed);
  while (to > before &&
         !number.compare_exchange_weak(before, to, std::memory_order_relaxed)) {
  }
}

/// Adds bytes to the number of those allocated, negative ones for memory that is freed.
void add(std::int64_t bytes) noexcept {
  raise(highest, allocated.fetch_add(bytes, std::memory_order_relaxed) + bytes);
}

/// Counts an allocation.
void count(std::int64_t bytes) noexcept {
  raise(largest_single, bytes);
  add(bytes);
}

}  // namespace

allocation_meter::allocation_meter() : before_(allocated.load()) {
  highest = before_;
  largest_single = 0;
}

std::int64_t allocation_meter::peak() const {
  return highest.load() - before_;
}

std::int64_t allocation_meter::largest() {
  return largest_single.load();
}

}  // namespace weir::test

extern "C" {

#ifdef WEIR_SANITIZED

std::size_t __sanitizer_get_allocated_size(const volatile void* p);

void __sanitizer_malloc_hook(const volatile void* p, std::size_t size) {
  if (p != nullptr) {
    weir::test::count(static_cast<std::int64_t>(size));
  }
}
void __sanitizer_free_hook(const volatile void* p) {
  if (p != nullptr) {
    weir::test::add(-static_cast<std::int64_t>(__sanitizer_get_allocated_size(p)));
  }
}

#else

void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* p, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* p);

/// Returns the bytes behind a pointer of the allocator, 0 for a null pointer.
static std::int64_t size_of(void* p) {
  return p == nullptr ? 0 : static_cast<std::int64_t>(malloc_usable_size(p));
}
/// Counts new memory and returns it.
static void* counted(void* p) {
  weir::test::count(size_of(p));
  return p;
}

void* malloc(std::size_t size) {
  return counted(__libc_malloc(size));
}
void* calloc(std::size_t n, std::size_t size) {
  return counted(__libc_calloc(n, size));
}
void* realloc(void* p, std::size_t size) {
  const std::int64_t before = size_of(p);
  void* out = __libc_realloc(p, size);
  if (out != nullptr || size == 0) {
    weir::test::add(-before);
    weir::test::count(size_of(out));
  }
  return out;
}
void* memalign(std::size_t alignment, std::size_t size) {
  return counted(__libc_memalign(alignment, size));
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return counted(__libc_memalign(alignment, size));
}
int posix_memalign(void** to, std::size_t alignment, std::size_t size) {
  void* out = counted(__libc_memalign(alignment, size));
  if (out == nullptr) {
    return ENOMEM;
  }
  *to = out;
  return 0;
}
void free(void* p) {
  weir::test::add(-size_of(p));
  __libc_free(p);
}

#endif

}  // extern "C"
