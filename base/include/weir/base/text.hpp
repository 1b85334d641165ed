// SPDX-License-Identifier: Apache-2.0
/// @file
/// Text for people (sizes, durations, suggestions) and text inside other formats (JSON
/// strings, XML and HTML text).
/// @threads{all functions: safe to call concurrently}
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weir {

/// Finds the candidate that a misspelt name probably means.
///
/// The distance is the number of insertions, deletions and replacements of bytes
/// (Levenshtein). A candidate counts as near up to a distance of 2, or of a third of the
/// length of `name` if that is more.
/// @returns The nearest candidate, the first of several that are equally near; nothing if
/// none is near. Empty candidates are never returned.
[[nodiscard]] std::optional<std::string> nearest_name(
    std::string_view name, std::span<const std::string> candidates);

/// Returns the suggestion that ends an error message about an unknown name.
/// @returns `; did you mean "x"?` with the candidate that `nearest_name` finds, or an
/// empty string.
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       std::span<const std::string> candidates);

/// Returns a size with its unit: "1023 B", "1.5 KiB", "3.0 MiB".
/// @units{bytes, bytes}
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);

/// Returns a number and a noun in the number it needs: "1 shard", "2 shards".
/// @param noun  Singular of a noun whose plural ends in "s".
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view noun);

/// Returns a duration: "12.0 s", "3 min 20 s", "2 h 5 min".
/// @units{seconds, seconds}
[[nodiscard]] std::string human_seconds(double seconds);

/// Returns a text as a JSON string, quotes included.
///
/// Quotes, backslashes and control characters are escaped. Each byte that is not part of
/// well-formed UTF-8 becomes U+FFFD, so the result is always valid JSON.
/// @source{RFC 8259, section 7}
[[nodiscard]] std::string json_quote(std::string_view text);

/// Returns a text with `&`, `<`, `>` and both quotes replaced by character references,
/// for text and attribute values of XML and HTML.
/// @source{XML 1.0, section 2.4}
[[nodiscard]] std::string xml_escape(std::string_view text);

}  // namespace weir
