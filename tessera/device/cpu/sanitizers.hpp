// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sanitizer of this build, and functions that mark memory as inaccessible for it.
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

/// True if the build has a sanitizer that slows the code down and needs larger stacks.
inline constexpr bool sanitized =
#if defined(WEIR_ASAN) || defined(WEIR_TSAN)
    true;
#else
    false;
#endif

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
