// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which code sections this processor can run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir::tessera {

/// Names of what the processor and its operating system support, best first: of
/// "x86-64-v4" to "x86-64-v1", or "aarch64". Asked of the processor once.
/// @source{x86-64 psABI, micro-architecture levels}
/// @threads{safe to call concurrently}
[[nodiscard]] const std::vector<std::string>& host_levels();

/// Those of `host_levels` from `most` on; all of them if it is empty. Empty if the host
/// does not have `most`.
[[nodiscard]] std::vector<std::string> host_levels_up_to(std::string_view most);

}  // namespace weir::tessera
