// SPDX-License-Identifier: Apache-2.0
/// @file
/// Numbers that environment variables set for tests: how many random cases to try.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace weir::test {

/// Returns the number in an environment variable, or `otherwise` if it is not set.
inline std::uint64_t number_or(const char* variable, std::uint64_t otherwise) {
  const char* set = std::getenv(variable);
  return set != nullptr ? std::strtoull(set, nullptr, 10) : otherwise;
}

/// Returns how many cases a random test tries: the number in the environment variable
/// `variable`, else `usual`, of which `WEIR_TEST_SHARE` percent are tried if that is set.
/// `scripts/test` sets the share under sanitizers, where each case takes several times
/// as long (docs/decisions/021). At least `least` cases are tried.
inline std::uint64_t case_count(const char* variable, std::uint64_t usual,
                                std::uint64_t least = 1) {
  const std::uint64_t share =
      std::min<std::uint64_t>(number_or("WEIR_TEST_SHARE", 100), 100);
  return number_or(variable, std::max(usual * share / 100, least));
}

/// Returns the distance between the cases that an exhaustive test tries: 1, or so many
/// that `WEIR_TEST_SHARE` percent are tried. It is odd, so that the cases are not all
/// aligned alike.
inline std::uint64_t case_step() {
  return (100 / std::clamp<std::uint64_t>(number_or("WEIR_TEST_SHARE", 100), 1, 100)) | 1;
}

/// Says which cases an exhaustive test in nested loops tries: one in `case_step()`.
class case_picker {
 public:
  /// Returns whether to try the next case.
  bool next() { return number_++ % step_ == 0; }

 private:
  std::uint64_t step_ = case_step();
  std::uint64_t number_ = 0;
};

}  // namespace weir::test
