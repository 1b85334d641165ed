// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counts the calls of the allocator. Linking allocation_counter.cpp replaces the
/// functions of the C library, which `operator new` calls, too.
#pragma once

#include <cstdint>

namespace weir::bench {

/// Returns the number of allocations of all threads since the start of the program.
/// @threads{safe to call concurrently}
[[nodiscard]] std::uint64_t allocations() noexcept;

}  // namespace weir::bench
