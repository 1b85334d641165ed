// SPDX-License-Identifier: Apache-2.0
/// @file
/// Text for people: nearest names, sizes, durations, JSON strings.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weir {

/// The candidate with the smallest edit distance to `name`, if it is near enough to be
/// meant.
[[nodiscard]] std::optional<std::string> nearest_name(
    std::string_view name, std::span<const std::string> candidates);
/// `; did you mean "x"?`, or nothing.
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       std::span<const std::string> candidates);
/// 1.5 KiB, 3.0 MiB.
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);
/// 1 shard, 2 shards.
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view thing);
/// 12 s, 3 min 20 s.
[[nodiscard]] std::string human_seconds(double seconds);
/// A JSON string with its quotes; bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string json_quote(std::string_view text);

}  // namespace weir
