// SPDX-License-Identifier: Apache-2.0
/// @file
/// The text for which the figures of the model are stated: the licences that every Debian
/// system has.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace weir::test {

/// Returns the first bytes of the files of /usr/share/common-licenses, which are read one
/// after another, sorted by the bytes of their names; links are followed. Empty if the
/// files have fewer bytes.
inline std::string licences(std::size_t bytes) {
  const std::filesystem::path folder = "/usr/share/common-licenses";
  std::error_code ignored;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (const auto& name : names) {
    std::ifstream in(folder / name, std::ios::binary);
    text.append(std::istreambuf_iterator<char>(in), {});
  }
  return text.size() < bytes ? std::string() : text.substr(0, bytes);
}

}  // namespace weir::test
