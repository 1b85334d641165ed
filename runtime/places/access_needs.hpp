// SPDX-License-Identifier: Apache-2.0
/// @file
/// Effects of an access on copies: whether a task needs the old bytes, and whether it
/// makes other copies invalid.
#pragma once

#include "weir/runtime/access.hpp"

namespace weir::runtime {

/// Returns true if a task may see or leave old bytes of an access. `whole` says that a
/// plain write sets every byte; it changes nothing for other modes, which read too.
[[nodiscard]] inline bool needs_old_bytes(access_mode mode, bool whole) noexcept {
  return mode != access_mode::none && !(whole && mode == access_mode::write);
}

/// Returns true if a task changes bytes of an access.
[[nodiscard]] inline bool changes_bytes(access_mode mode) noexcept {
  return mode != access_mode::none && mode != access_mode::read;
}

}  // namespace weir::runtime
