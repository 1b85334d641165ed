// SPDX-License-Identifier: Apache-2.0
/// @file
/// Levels of instruction sets that this processor runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir::tessera {

/// Returns the levels that the processor and the operating system support, best first:
/// from "x86-64-v4" to "x86-64-v1", or "aarch64". The processor is asked once.
/// @source{x86-64 psABI, micro-architecture levels}
/// @threads{safe to call concurrently}
[[nodiscard]] const std::vector<std::string>& host_levels();

/// Returns the levels of the host up to `highest`, best first; all levels if it is empty,
/// and none if the host does not have it.
[[nodiscard]] std::vector<std::string> host_levels_up_to(std::string_view highest);

}  // namespace weir::tessera
