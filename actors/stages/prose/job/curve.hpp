// SPDX-License-Identifier: Apache-2.0
/// @file
/// The learning curve as a Tensogram message: its texts, and its encoding.
#pragma once

#include <string>
#include <vector>

#include "weir/actors/run.hpp"
#include "weir/base/bytes.hpp"

namespace weir::actors {

/// Texts of the message.
namespace curve_text {
inline constexpr const char* file = "curve.tgm";
inline constexpr const char* title = "learning curve";
inline constexpr const char* tokens = "tokens";
inline constexpr const char* tokens_unit = "tokens of Build at the end of the window";
inline constexpr const char* bits = "bits_per_byte";
inline constexpr const char* bits_unit = "bits per byte within the window";
}  // namespace curve_text

/// Returns the message that the stage `tgm.replace` of a run makes of a curve of n
/// points.
/// @shape{uint64 [n], float64 [n]}
[[nodiscard]] result<byte_vector> encode_curve(const std::vector<curve_point>& points,
                                               const std::string& run_name);

}  // namespace weir::actors
