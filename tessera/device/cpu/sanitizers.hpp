// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sanitizer of this build, and how it learns where memory ends.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define WEIR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEIR_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define WEIR_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEIR_TSAN 1
#endif
#endif

#if defined(WEIR_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(WEIR_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace weir::tessera {

inline constexpr bool sanitized =
#if defined(WEIR_ASAN) || defined(WEIR_TSAN)
    true;
#else
    false;
#endif

/// Makes every access to these bytes an error under a sanitizer from now on.
inline void forbid([[maybe_unused]] const void* from,
                   [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(WEIR_ASAN)
  __asan_poison_memory_region(from, bytes);
#endif
}
inline void permit([[maybe_unused]] const void* from,
                   [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(WEIR_ASAN)
  __asan_unpoison_memory_region(from, bytes);
#endif
}

}  // namespace weir::tessera
