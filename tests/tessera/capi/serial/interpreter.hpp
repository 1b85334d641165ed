// SPDX-License-Identifier: Apache-2.0
/// @file
/// Executes programs one operation after another: what memory holds at the end.
#pragma once

#include <vector>

#include "serial/program.hpp"

namespace weir::test::serial {

/// Words by buffer and instance.
using memory = std::vector<std::vector<std::vector<word>>>;

/// What memory holds before a program.
[[nodiscard]] memory first_memory(const program& p);
/// What it holds behind it. Pooled buffers that are not there at the end have no words.
[[nodiscard]] memory interpret(const program& p);

}  // namespace weir::test::serial
