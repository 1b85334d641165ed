// SPDX-License-Identifier: Apache-2.0
/// @file
/// The form of times in Chrome traces, for all writers of such traces.
#pragma once

#include <cstdint>
#include <string>

namespace weir::runtime {

/// Returns a time as the trace event format writes it: in microseconds, with three
/// decimals, because a floating point number would lose nanoseconds of long runs.
/// @units{ns, nanoseconds}
/// @threads{safe to call concurrently}
[[nodiscard]] std::string microseconds(std::int64_t ns);

}  // namespace weir::runtime
