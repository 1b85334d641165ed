// SPDX-License-Identifier: Apache-2.0
/// @file
/// The interfaces of the sanitizers, and functions that mark memory as inaccessible.
#pragma once

#include <cstddef>

#include "weir/base/system/sanitizers.hpp"

#if defined(WEIR_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(WEIR_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

/// Stands before a function whose accesses and calls ThreadSanitizer must not record,
/// because it begins in one fiber and ends in another.
#if defined(WEIR_TSAN) && defined(__clang__)
#define WEIR_UNRECORDED __attribute__((disable_sanitizer_instrumentation, noinline))
#elif defined(WEIR_TSAN)
#define WEIR_UNRECORDED __attribute__((no_sanitize_thread, noinline))
#else
#define WEIR_UNRECORDED
#endif

namespace weir::tessera {

/// Marks bytes as inaccessible. Under AddressSanitizer every access is reported until
/// `permit`; other builds do nothing.
inline void forbid([[maybe_unused]] const void* from,
                   [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(WEIR_ASAN)
  __asan_poison_memory_region(from, bytes);
#endif
}
/// Marks bytes as accessible again.
inline void permit([[maybe_unused]] const void* from,
                   [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(WEIR_ASAN)
  __asan_unpoison_memory_region(from, bytes);
#endif
}

}  // namespace weir::tessera
