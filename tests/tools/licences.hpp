// SPDX-License-Identifier: Apache-2.0
/// @file
/// The text on which the model's figures are stated: the licences that every Debian
/// system carries.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace weir::test {

/// First `bytes` bytes of the files of /usr/share/common-licenses, sorted bytewise, links
/// followed, one after the other; empty if there are fewer.
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
