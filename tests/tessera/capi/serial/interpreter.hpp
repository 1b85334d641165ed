// SPDX-License-Identifier: Apache-2.0
/// @file
/// Executes a program one operation after another and returns the memory at its end. It
/// is the oracle of the serial tests.
#pragma once

#include <vector>

#include "serial/program.hpp"

namespace weir::test::serial {

/// Words of memory, indexed by buffer and by instance.
using memory = std::vector<std::vector<std::vector<word>>>;

/// Returns the memory before the first operation of the program.
[[nodiscard]] memory first_memory(const program& p);
/// Returns the memory after the program. Pooled buffers that are not allocated at the end
/// have no words.
[[nodiscard]] memory interpret(const program& p);

}  // namespace weir::test::serial
