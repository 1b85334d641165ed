// SPDX-License-Identifier: Apache-2.0
/// @file
/// The time at which a file was changed, by which a reader notices that somebody writes
/// to a file while it is read.
#pragma once

#include <cstdint>
#include <string>

namespace weir {

/// Returns the time at which the content of a file was changed last, or 0 if the system
/// does not know it. Two changes within a few milliseconds may have the same time.
/// @units{nanoseconds since 1970}
/// @threads{safe to call concurrently}
[[nodiscard]] std::int64_t modification_time(const std::string& path) noexcept;

}  // namespace weir
