// SPDX-License-Identifier: Apache-2.0
/// @file
/// A hint that memory is about to be written.
#pragma once

namespace weir {

/// Asks for the cache line, to be written soon, which another processor may have.
inline void prefetch_to_write(const void* line) noexcept {
#if defined(__x86_64__)  // compilers take the hint for reads unless told the processor
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace weir
