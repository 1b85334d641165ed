// SPDX-License-Identifier: Apache-2.0
/// @file
/// Functions that count in place of those of the C library.
#include "allocation_counter.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace weir::bench {
namespace {

std::atomic<std::uint64_t> count{0};

/// Counts an allocation and returns its memory.
void* counted(void* p) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  return p;
}

}  // namespace

std::uint64_t allocations() noexcept {
  return count.load(std::memory_order_relaxed);
}

}  // namespace weir::bench

extern "C" {

void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* p, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
  return weir::bench::counted(__libc_malloc(size));
}
void* calloc(std::size_t n, std::size_t size) {
  return weir::bench::counted(__libc_calloc(n, size));
}
void* realloc(void* p, std::size_t size) {
  return weir::bench::counted(__libc_realloc(p, size));
}
void* memalign(std::size_t alignment, std::size_t size) {
  return weir::bench::counted(__libc_memalign(alignment, size));
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return weir::bench::counted(__libc_memalign(alignment, size));
}
int posix_memalign(void** to, std::size_t alignment, std::size_t size) {
  void* const out = weir::bench::counted(__libc_memalign(alignment, size));
  if (out == nullptr) {
    return ENOMEM;
  }
  *to = out;
  return 0;
}

}  // extern "C"
