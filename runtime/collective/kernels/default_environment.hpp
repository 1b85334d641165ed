// SPDX-License-Identifier: Apache-2.0
/// @file
/// The default arithmetic of IEEE 754, set for the life of an object.
#pragma once

#include "weir/base/system/fp_environment.hpp"

namespace weir::collective {

/// Round to nearest, all exceptions masked, subnormals kept.
inline constexpr std::uint64_t default_fp_control =
#if defined(__SSE2__)
    0x1F80;
#elif defined(__aarch64__)
    0;
#else
    FE_TONEAREST;
#endif

/// Sets rounding to nearest, and keeps subnormals. Kernels of the engine run with
/// subnormals flushed to zero; a sum that flushed them would not be the exact one, and
/// would differ from that of another machine. The destructor restores the caller's
/// settings.
using default_environment = fp_control_scope<default_fp_control>;

}  // namespace weir::collective
