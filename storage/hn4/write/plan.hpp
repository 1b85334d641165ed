// SPDX-License-Identifier: Apache-2.0
/// @file
/// The plan of a store: its shards, their blocks and slots, and what they replace.
#pragma once

#include "hn4/write/allocation.hpp"

namespace weir::storage::hn4 {

/// Largest number of shards of a tag; the reference implementation refuses more.
inline constexpr std::size_t max_shards = 4095;

/// One shard that is to be written.
struct planned_shard {
  anchor a;
  bytes_view source;
  std::uint64_t first = 0;  ///< number of the first block
  std::uint64_t slot = 0;
  /// Block of the long name; 0 if the name is in the entry.
  std::uint64_t name_block = 0;
};

/// Plans one store. The public members are the result.
class planner {
 public:
  planner(const core& c, std::string_view tag, bytes_view source,
          const hn4_put_options& options)
      : c_(c), tag_(tag), source_(source), options_(options) {}

  /// Makes the plan. Errors are those of `hn4_volume::put`.
  result<void> plan();
  /// Returns the block behind the last one that the new shards take.
  [[nodiscard]] std::uint64_t end() const noexcept;

  std::vector<planned_shard> shards;
  std::vector<entry> replaced;  ///< entries that end with this store
  /// Further entries that end but tell nothing about blocks: damaged ones of the name,
  /// and tombstones for lost ones.
  std::vector<entry> discarded;
  /// Entry of the group that this one continues, which gets a mark.
  std::optional<entry> grown;
  block_bits bits;       ///< allocation once the new shards are stored
  block_bits bits_free;  ///< allocation once the replaced shards have ended

 private:
  result<void> collect();
  result<void> continue_group(const std::vector<entry>& continued);
  [[nodiscard]] error exists(const resolved_tag& found) const;
  result<void> split();
  result<void> add(std::uint64_t bytes, bool whole);
  result<void> name_and_place();
  result<void> identify(bytes_view whole);
  result<void> find_slots();
  result<void> free_replaced();
  free_run run_for(std::uint64_t blocks);
  error full(std::uint64_t bytes, bool whole);

  const core& c_;
  std::string_view tag_;
  bytes_view source_;
  const hn4_put_options& options_;
  /// The stream of the tag before, with its losses.
  resolved_tag lost_;
  std::uint32_t generation_ = 1;
  std::uint32_t distance_ = 0;
  std::uint32_t earliest_clock_ = 0;
  std::size_t continued_shards_ = 0;  ///< number of shards that stay
  /// Block at which the last search ended.
  std::uint64_t cursor_ = 0;
};

}  // namespace weir::storage::hn4
