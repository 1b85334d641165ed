// SPDX-License-Identifier: Apache-2.0
/// @file
/// How long the kernel lets a thread run beside other processes.
#pragma once

namespace weir::tools {

/// Asks for the longest time slices there are, for this thread and those it starts from
/// here on; its share of the processor stays what it was. A task that loses its core in
/// the middle stalls all that wait for it, so fewer and longer turns are better. Changes
/// nothing on Linux before 6.12 or where it is not allowed.
/// @threads{safe from any thread}
void prefer_long_time_slices() noexcept;

}  // namespace weir::tools
