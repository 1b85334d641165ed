// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes programs that fail smaller while they still fail.
#pragma once

#include <functional>

#include "serial/program.hpp"

namespace weir::test::serial {

/// A program of some of the operations, still sound, that `fails` too. Stops after
/// `attempts` questions.
[[nodiscard]] program shrink(program p, const std::function<bool(const program&)>& fails,
                             int attempts);

}  // namespace weir::test::serial
