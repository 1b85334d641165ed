// SPDX-License-Identifier: Apache-2.0
/// @file
/// A cache for blocks of a file, which also guesses the blocks that will be read next.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/formats/byte_source.hpp"

namespace weir::formats {

/// Keeps the blocks that were used last in bounded memory.
/// @threads{safe to call concurrently}
class block_cache {
 public:
  static constexpr std::uint64_t block_size =
      16 << 10;  ///< bytes of a block; the last block of a file may be shorter

  /// Makes a cache for a file of `size` bytes. `capacity` is in bytes.
  block_cache(std::uint64_t size, std::uint64_t capacity)
      : size_(size), capacity_(capacity) {}

  /// Copies the parts of a range that are cached to their places in `to`. Returns the
  /// other parts, in order.
  [[nodiscard]] std::vector<byte_range> copy(std::uint64_t offset, mutable_bytes to);
  /// Returns the blocks to request, as ranges in order: all blocks of `needed`, and those
  /// of `guessed` that are not cached. Blocks of `needed` count even where they are
  /// cached, because another thread may have cached them after copy() missed them. Ranges
  /// with few blocks between them are joined, up to the length `longest`.
  [[nodiscard]] std::vector<byte_range> to_request(std::span<const byte_range> needed,
                                                   std::span<const byte_range> guessed,
                                                   std::uint64_t longest) const;
  /// Caches whole blocks from `offset` on, a multiple of the block size.
  void put(std::uint64_t offset, bytes_view bytes);

  /// Returns ranges that are likely to be read after `range`, which is not cached: the
  /// next blocks of a sequential reader, forward or backward, or the next steps of a
  /// reader that goes through the file in equal steps. The more blocks or steps the
  /// reader has read, the more are returned.
  [[nodiscard]] std::vector<byte_range> likely_after(byte_range range);

  /// Returns the largest number of cached bytes.
  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }

 private:
  /// A cached block and its place in the list of uses.
  struct block {
    byte_vector bytes;                       ///< of the block
    std::list<std::uint64_t>::iterator age;  ///< its place in `by_age_`
  };
  // The members below expect that the mutex is held.
  [[nodiscard]] bool has(std::uint64_t number) const {
    return blocks_.find(number) != blocks_.end();
  }
  [[nodiscard]] std::uint64_t neighbours(std::uint64_t number, bool before) const;
  [[nodiscard]] std::vector<byte_range> steps_from(byte_range range) const;
  void remember(std::uint64_t offset);

  std::uint64_t size_;                     ///< of the file
  std::uint64_t capacity_;                 ///< in bytes
  mutable std::mutex mutex_;               ///< for the members below
  std::map<std::uint64_t, block> blocks_;  ///< by number: offset / block size
  std::list<std::uint64_t> by_age_;  ///< numbers of blocks, most recently used first
  std::uint64_t cached_bytes_ = 0;   ///< sum of the sizes of all blocks
  /// The last offsets that were requested or predicted, as a ring.
  std::array<std::uint64_t, 64> asked_{};
  std::size_t asked_count_ = 0;  ///< offsets ever put into the ring
};

}  // namespace weir::formats
