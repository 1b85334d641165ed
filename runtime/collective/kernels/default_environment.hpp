// SPDX-License-Identifier: Apache-2.0
/// @file
/// The default arithmetic of IEEE 754, set for the life of an object.
#pragma once

#include "weir/base/system/fp_environment.hpp"

namespace weir::collective {

/// Sets rounding to nearest, and keeps subnormals. Kernels of the engine run with
/// subnormals flushed to zero; a sum that flushed them would not be the exact one, and
/// would differ from that of another machine. The destructor restores the caller's
/// settings.
class default_environment {
 public:
  default_environment() noexcept : before_(fp_control()) {
    if (before_ != usual) {
      set_fp_control(usual);
    }
  }
  ~default_environment() {
    if (before_ != usual) {
      set_fp_control(before_);
    }
  }
  default_environment(const default_environment&) = delete;
  default_environment& operator=(const default_environment&) = delete;

 private:
  static constexpr std::uint64_t usual =
#if defined(__SSE2__)
      0x1F80;
#elif defined(__aarch64__)
      0;
#else
      FE_TONEAREST;
#endif

  std::uint64_t before_;
};

}  // namespace weir::collective
