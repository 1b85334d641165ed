// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds files that other implementations have made. They are not part of the project, so
/// a test that needs them is skipped where they are absent.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/folders.hpp"

namespace weir::test {

/// Returns the folder of a family of fixtures ("hn4", "tensogram"), or an empty text if
/// it does not exist. `WEIR_FIXTURES` names another place than `../shared/fixtures`
/// beside the checkout.
inline std::string fixture_folder(const std::string& family) {
  const char* set = std::getenv("WEIR_FIXTURES");
  const std::filesystem::path root =
      set != nullptr
          ? std::filesystem::path(set)
          : std::filesystem::path(source_folder()) / ".." / "shared" / "fixtures";
  const auto folder = root / family;
  return std::filesystem::is_directory(folder) ? folder.string() : std::string();
}

}  // namespace weir::test

/// Declares a variable `folder` with the path of a family, or skips the test with a
/// message.
#define WEIR_NEEDS_FIXTURES(folder, family)                             \
  const std::string folder = ::weir::test::fixture_folder(family);      \
  if (folder.empty()) {                                                 \
    GTEST_SKIP() << "fixtures \"" family                                \
                    "\" are absent: set WEIR_FIXTURES to their folder"; \
  }                                                                     \
  static_assert(true)
