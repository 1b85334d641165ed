// SPDX-License-Identifier: Apache-2.0
/// @file
/// Largest sizes of models. They are far above those of useful models and keep damaged
/// values from taking memory or time.
#pragma once

#include <cstdint>

namespace weir::models {

inline constexpr std::uint32_t max_layers = 1024;
inline constexpr std::uint32_t max_features = 1U << 20;
inline constexpr std::uint32_t max_vocabulary_size = 1U << 24;
inline constexpr std::uint32_t max_context_tokens = 1U << 30;

}  // namespace weir::models
