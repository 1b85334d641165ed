// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random token ids for tests.
#pragma once

#include <cstdint>
#include <vector>

#include "weir/base/philox.hpp"

namespace weir::test {

/// Returns `count` random token ids below `vocab`. A third of them repeat the token 7
/// places before, so that there is something to learn.
inline std::vector<std::uint32_t> some_tokens(std::size_t count, std::uint32_t vocab,
                                              std::uint64_t seed) {
  const philox random(seed, 0x746f6b);
  std::vector<std::uint32_t> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    const bool repeats = i >= 7 && random.below(2 * i, 3) == 0;
    out[i] =
        repeats ? out[i - 7] : static_cast<std::uint32_t>(random.below(2 * i + 1, vocab));
  }
  return out;
}

}  // namespace weir::test
