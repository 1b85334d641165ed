// SPDX-License-Identifier: Apache-2.0
/// @file
/// How long the kernel lets a thread run beside other processes.
#pragma once

namespace weir::tools {

/// Asks for the longest time slices there are and for the policy of batch jobs, for this
/// thread and those it starts from here on; its share of the processor stays what it was.
/// A task that loses its core in the middle stalls all that wait for it, so fewer and
/// longer turns are better, and a thread that wakes for a message waits until a worker
/// has nothing to do. Slices stay as they are on Linux before 6.12; where it is not
/// allowed, nothing changes.
/// @threads{safe from any thread}
void prefer_long_time_slices() noexcept;

}  // namespace weir::tools
