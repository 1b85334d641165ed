// SPDX-License-Identifier: Apache-2.0
/// @file
/// The time for which the kernel lets a thread run before another process gets its core.
#pragma once

namespace weir::tools {

/// Requests the longest time slices for the calling thread and for threads that it starts
/// later.
///
/// A task that loses its core in the middle delays all tasks that wait for it, so few
/// long turns are better than many short ones. The share of the processor stays the same.
/// Has no effect on Linux before 6.12, or if the system does not permit it.
/// @threads{safe to call concurrently}
void prefer_long_time_slices() noexcept;

}  // namespace weir::tools
