// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes failing programs smaller as long as they still fail.
#pragma once

#include <functional>

#include "serial/program.hpp"

namespace weir::test::serial {

/// Returns a subset of the program's operations that is sound and for which `fails` still
/// returns true. Calls `fails` at most `attempts` times.
[[nodiscard]] program shrink(program p, const std::function<bool(const program&)>& fails,
                             int attempts);

}  // namespace weir::test::serial
