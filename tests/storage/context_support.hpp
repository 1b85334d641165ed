// SPDX-License-Identifier: Apache-2.0
/// @file
/// Small corpora and helpers that read them, for the tests of the context stream.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "support/temp_folder.hpp"
#include "weir/base/philox.hpp"
#include "weir/storage/context.hpp"

namespace weir::test {

using tokens = std::vector<std::uint32_t>;

/// Returns `count` random bytes, of which up to `documents` are replaced by
/// `end_of_text`.
inline tokens random_tokens(std::size_t count, std::uint64_t seed,
                            std::size_t documents = 0) {
  const philox random(seed, 7);
  tokens out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<std::uint32_t>(random.below(i, 256));
  }
  for (std::size_t d = 0; d < documents; ++d) {
    out[random.below(count + d, count)] = storage::end_of_text;
  }
  return out;
}

/// Opens a stream over tokens in memory.
inline std::unique_ptr<storage::context_stream> open_stream(storage::stream_config config,
                                                            tokens corpus) {
  return or_throw(storage::context_stream::open(
      config, or_throw(storage::open_memory_tokens(std::move(corpus)))));
}

/// Reads all chunks of a rank, or the first `max_count`.
inline std::vector<storage::token_chunk> read_all(storage::context_stream& stream,
                                                  std::size_t n, std::uint32_t rank = 0,
                                                  std::size_t max_count = 1000000) {
  std::vector<storage::token_chunk> out;
  while (out.size() < max_count) {
    auto chunk = or_throw(stream.next_chunk(n, rank));
    if (!chunk) {
      break;
    }
    out.push_back(std::move(*chunk));
  }
  return out;
}

/// Returns the tokens of all chunks.
inline tokens concatenated(const std::vector<storage::token_chunk>& chunks) {
  tokens out;
  for (const auto& chunk : chunks) {
    out.insert(out.end(), chunk.tokens.begin(), chunk.tokens.end());
  }
  return out;
}

/// Returns the text that every lane delivers.
inline std::map<std::uint32_t, tokens> by_lane(
    const std::vector<storage::token_chunk>& chunks) {
  std::map<std::uint32_t, tokens> out;
  for (const auto& chunk : chunks) {
    auto& lane = out[chunk.lane];
    lane.insert(lane.end(), chunk.tokens.begin(), chunk.tokens.end());
  }
  return out;
}

/// Returns whether two chunks agree in everything but their marks.
inline bool same(const storage::token_chunk& a, const storage::token_chunk& b) {
  return a.tokens == b.tokens && a.lookahead == b.lookahead && a.chunk_id == b.chunk_id &&
         a.lane == b.lane && a.lane_position == b.lane_position &&
         a.document_boundary == b.document_boundary && a.boundaries == b.boundaries;
}

/// Writes a file.
inline void write_text(const std::string& path, std::string_view text) {
  or_throw(write_file_atomically(posix_file_system(), path, as_view(text)));
}

}  // namespace weir::test
