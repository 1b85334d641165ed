// SPDX-License-Identifier: Apache-2.0
/// @file
/// The arithmetic of kernels and host functions in random programs. Results depend on the
/// order of the operations, so a wrong order changes memory.
#pragma once

#include "serial/program.hpp"

namespace weir::test::serial {

/// Combines two words so that the order of operations changes the result.
inline word mixed(word a, word b) {
  a = (a ^ b) * 0x9E3779B1U;
  return a ^ (a >> 15);
}

/// Applies `how` to the words first, first + step, ... of `to`. Combines them with the
/// words of `from` where it is not null. `rotate` always covers all words.
inline void compute(arithmetic how, word* to, const word* from, int words, word salt,
                    int first = 0, int step = 1) {
  if (how == arithmetic::rotate) {
    const word before = to[0];
    for (int i = 0; i + 1 < words; ++i) {
      to[i] = to[i + 1] + salt;
    }
    to[words - 1] = before;
    how = arithmetic::add;
  }
  for (int i = first; i < words; i += step) {
    const word other = from == nullptr ? 0 : from[i];
    switch (how) {
      case arithmetic::add: to[i] += other + salt; break;
      case arithmetic::exclusive_or: to[i] = (to[i] ^ other ^ salt) + 1; break;
      default: to[i] = mixed(mixed(to[i], other), salt); break;
    }
  }
}

/// Returns the salt of one rank, so that ranks compute different values.
inline word salt_of(word salt, int rank) {
  return salt + static_cast<word>(rank) * 0x01000193U;
}

}  // namespace weir::test::serial
