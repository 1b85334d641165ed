// SPDX-License-Identifier: Apache-2.0
/// @file
/// Chunk size against the periods of the levels.
#include <fmt/core.h>

#include "weir/storage/context.hpp"

namespace weir::storage {

result<std::string> check_chunk_size(std::size_t chunk,
                                     std::span<const std::uint64_t> frequencies) {
  if (chunk == 0) {
    return error(errc::invalid_argument,
                 "cannot use chunk size: expected at least 1 token, found 0");
  }
  if (frequencies.empty()) {
    return std::string();
  }
  const std::uint64_t fastest = frequencies.front();
  const std::uint64_t slowest = frequencies.back();
  if (chunk < fastest) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot use chunk size: expected at least the period {} of the "
                    "fastest level, found {}",
                    fastest, chunk));
  }
  if (chunk < slowest) {
    std::string levels;
    for (std::size_t level = 0; level < frequencies.size(); ++level) {
      if (frequencies[level] > chunk) {
        levels += fmt::format("{}{} (period {})", levels.empty() ? "" : ", ", level,
                              frequencies[level]);
      }
    }
    return fmt::format(
        "chunk size {} is below the slowest period {}: some levels do not fire in every "
        "chunk, only across chunks: {}",
        chunk, slowest, levels);
  }
  if (slowest != 0 && chunk % slowest != 0) {
    return fmt::format(
        "chunk size {} is no multiple of the slowest period {}: levels fire inside "
        "chunks",
        chunk, slowest);
  }
  return std::string();
}

}  // namespace weir::storage
