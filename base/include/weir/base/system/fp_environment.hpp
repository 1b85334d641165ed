// SPDX-License-Identifier: Apache-2.0
/// @file
/// The floating point environment that every kernel sees, whatever thread runs it.
/// @threads{safe to call concurrently: each function is about the calling thread}
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace weir {

/// Control bits of this thread's vector unit: rounding, exception masks, treatment of
/// subnormals.
[[nodiscard]] inline std::uint64_t fp_control() noexcept {
#if defined(__SSE2__)
  return _mm_getcsr() & ~0x3FU;  // the low six bits are sticky flags
#elif defined(__aarch64__)
  std::uint64_t value = 0;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
#else
  return static_cast<std::uint64_t>(std::fegetround());
#endif
}

/// Sets this thread's control bits; `value` comes from `fp_control`. Sticky flags stay.
inline void set_fp_control(std::uint64_t value) noexcept {
#if defined(__SSE2__)
  _mm_setcsr(static_cast<unsigned>(value) | (_mm_getcsr() & 0x3FU));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" ::"r"(value));
#else
  std::fesetround(static_cast<int>(value));
#endif
}

/// Sets this thread's control bits and returns those that it had.
inline std::uint64_t exchange_fp_control(std::uint64_t value) noexcept {
#if defined(__SSE2__)
  // The register is read once, which takes a few nanoseconds.
  const unsigned before = _mm_getcsr();
  _mm_setcsr(static_cast<unsigned>(value) | (before & 0x3FU));
  return before & ~0x3FU;
#else
  const std::uint64_t before = fp_control();
  set_fp_control(value);
  return before;
#endif
}

/// Round to nearest, all exceptions masked, subnormal results and operands taken as zero.
inline constexpr std::uint64_t kernel_fp_control =
#if defined(__SSE2__)
    0x1F80 | 0x8000 | 0x0040;
#elif defined(__aarch64__)
    std::uint64_t{1} << 24;
#else
    FE_TONEAREST;
#endif

/// Undoes what a kernel may have done to the environment.
inline void ensure_kernel_fp() noexcept {
  if (fp_control() != kernel_fp_control) {
    set_fp_control(kernel_fp_control);
  }
}

/// Sets this thread's control bits for the life of the object, then the caller's again.
template <std::uint64_t control>
class fp_control_scope {
 public:
  /// Saves the caller's control bits and sets those of the scope.
  fp_control_scope() noexcept : before_(fp_control()) {
    if (before_ != control) {
      set_fp_control(control);
    }
  }
  ~fp_control_scope() {
    if (before_ != control) {
      set_fp_control(before_);
    }
  }
  fp_control_scope(const fp_control_scope&) = delete;
  fp_control_scope& operator=(const fp_control_scope&) = delete;

 private:
  std::uint64_t before_;
};

/// The environment of the kernels.
using fp_scope = fp_control_scope<kernel_fp_control>;

}  // namespace weir
