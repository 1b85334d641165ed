// SPDX-License-Identifier: Apache-2.0
/// @file
/// Suggestions, sizes, durations, and quoting for JSON and XML.
#include "weir/base/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "weir/base/utf8.hpp"

namespace weir {

namespace {

/// Levenshtein distance in bytes. `row` holds the distances from the first `i` bytes of
/// `a` to every prefix of `b`; it is overwritten from left to right, so `diagonal` keeps
/// the entry of the previous row that the next column still needs.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  // From nothing, each prefix of `b` is reached by adding all of its bytes.
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    // All `i` bytes of `a` must be removed to reach the empty prefix.
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      // Bytes that are equal cost nothing.
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above + 1, row[j - 1] + 1, change});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

/// Short names may differ in two places, longer ones in a third of their bytes. The first
/// of several nearest names wins.
std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates) {
  std::optional<std::string> best;
  // One more than the largest distance that is allowed, so that the comparison below also
  // refuses names that are too far away.
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    // An empty name is near to every short one.
    if (candidate.empty()) {
      continue;
    }
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const auto near = nearest_name(name, candidates);
  // The text follows the end of a message without a space.
  return near ? fmt::format("; did you mean \"{}\"?", *near) : std::string();
}

/// Powers of 1024, one decimal. The largest unit is TiB.
std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) {
    return fmt::format("{} B", bytes);
  }
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // The last unit takes everything, however large.
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

/// The plural is formed by an "s".
std::string counted(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string human_seconds(double seconds) {
  // The first minute has tenths.
  if (seconds < 60) {
    return fmt::format("{:.1f} s", seconds);
  }
  // Longer times are whole: minutes and seconds, then hours and minutes.
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 3600) {
    return fmt::format("{} min {} s", whole / 60, whole % 60);
  }
  // Seconds do not matter any more.
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

/// Every text becomes valid JSON: bytes that are not UTF-8 become U+FFFD, one for each.
std::string json_quote(std::string_view text) {
  // Control characters get the long form of an escape, which every parser knows.
  std::string out = "\"";
  while (!text.empty()) {
    // Zero if the next bytes do not form a character.
    const std::size_t n = utf8_sequence_length(text);
    const auto c = static_cast<unsigned char>(text[0]);
    if (n == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += {'\\', static_cast<char>(c)};
    } else if (c < 0x20) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out += text.substr(0, n);
    }
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out + '"';
}

/// The five characters that have a meaning in XML, inside attributes too.
std::string xml_escape(std::string_view text) {
  // All other bytes stay, also those of characters beyond ASCII.
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace weir
