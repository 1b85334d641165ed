// SPDX-License-Identifier: Apache-2.0
/// @file
/// Errors and lists of bad lines.
///
/// A list is text: lines of JSON, which `json.write` appends to a file as they are. Two
/// stages may list lines of the same file, so that their lists are merged by the number
/// of the line.
#include "stages/texts/bad_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "weir/base/text.hpp"

namespace weir::actors {
namespace {

/// Returns the number of the line that a line of a list names; 0 for other text.
std::uint64_t listed_number(std::string_view listed) {
  const auto value = nlohmann::json::parse(listed, nullptr, false);
  if (!value.is_object() || !value.contains("line") ||
      !value["line"].is_number_unsigned()) {
    return 0;
  }
  return value["line"].get<std::uint64_t>();
}

}  // namespace

/// The place stands in front, as compilers write it.
error line_error(const std::string& file, std::uint64_t line, const error& reason) {
  return error(reason.code(), fmt::format("{}:{}: {}", file, line, reason.text()));
}

std::string listed_line(const std::string& file, std::uint64_t line, std::uint64_t offset,
                        std::string_view reason) {
  return fmt::format("{{\"file\": {}, \"line\": {}, \"offset\": {}, \"reason\": {}}}\n",
                     json_quote(file), line, offset, json_quote(reason));
}

/// Lines of equal numbers keep their order.
std::string merge_lists(std::string_view first, std::string_view second) {
  if (first.empty() || second.empty()) {
    return std::string(first.empty() ? second : first);
  }
  std::vector<std::pair<std::uint64_t, std::string_view>> lines;
  for (std::string_view rest : {first, second}) {
    while (!rest.empty()) {
      // A last line without its end is a line, too.
      const std::size_t length = std::min(rest.find('\n'), rest.size() - 1) + 1;
      lines.emplace_back(listed_number(rest.substr(0, length)), rest.substr(0, length));
      rest.remove_prefix(length);
    }
  }
  std::ranges::stable_sort(lines, {}, &decltype(lines)::value_type::first);
  std::string all;
  for (const auto& [number, text] : lines) {
    all += text;
  }
  return all;
}

}  // namespace weir::actors
