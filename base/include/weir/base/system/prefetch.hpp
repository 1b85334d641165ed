// SPDX-License-Identifier: Apache-2.0
/// @file
/// A hint to the processor that memory will be written soon.
#pragma once

namespace weir {

/// Fetches the cache line of an address for writing, so that a later store need not wait
/// for another processor that holds the line. The address need not be valid.
/// @threads{safe to call concurrently}
inline void prefetch_to_write(const void* line) noexcept {
#if defined(__x86_64__)
  // Without a flag for newer processors, compilers turn __builtin_prefetch(line, 1) into
  // a prefetch for reading.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace weir
