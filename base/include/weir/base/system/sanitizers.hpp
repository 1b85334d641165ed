// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sanitizers of a build, as macros for conditional code and as constants.
///
/// `WEIR_ASAN` is defined with AddressSanitizer, `WEIR_TSAN` with ThreadSanitizer, and
/// `WEIR_SANITIZED` with either. GCC defines a macro for each, clang has a feature test.
#pragma once

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
#if defined(WEIR_ASAN) || defined(WEIR_TSAN)
#define WEIR_SANITIZED 1
#endif

namespace weir {

/// True if the code is compiled with AddressSanitizer.
inline constexpr bool address_sanitizer =
#if defined(WEIR_ASAN)
    true;
#else
    false;
#endif

/// True if the code is compiled with ThreadSanitizer.
inline constexpr bool thread_sanitizer =
#if defined(WEIR_TSAN)
    true;
#else
    false;
#endif

/// True if the code is compiled with a sanitizer that makes it slower and needs larger
/// stacks.
inline constexpr bool sanitized = address_sanitizer || thread_sanitizer;

}  // namespace weir
