// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a store will write: shards, their places, their slots, and what they replace.
#pragma once

#include "hn4/write/allocation.hpp"

namespace weir::storage::hn4 {

inline constexpr std::size_t most_shards = 4095;  // the reference refuses more

struct planned_shard {
  anchor a;
  bytes_view source;
  std::uint64_t first = 0;  ///< block
  std::uint64_t slot = 0;
  std::uint64_t name_block = 0;  ///< 0: the name is inline
};

class planner {
 public:
  planner(const core& c, std::string_view tag, bytes_view source,
          const hn4_put_options& options)
      : c_(c), tag_(tag), source_(source), options_(options) {}

  result<void> plan();
  /// Behind the last block that the new shards take.
  [[nodiscard]] std::uint64_t end() const noexcept;

  std::vector<planned_shard> shards;
  std::vector<entry> replaced;  ///< entries that end with this store
  /// Entries that end too, and say nothing of their blocks: damaged ones of the name, and
  /// tombstones for lost ones.
  std::vector<entry> discarded;
  std::optional<entry> grown;  ///< of the group that this one continues
  block_bits bits;             ///< allocation once the new shards are in
  block_bits bits_free;        ///< allocation once the replaced shards are out

 private:
  result<void> collect();
  result<void> continue_group(const std::vector<entry>& kept);
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
  resolved_tag lost_;  // what the tag was, with what it has lost
  std::uint32_t generation_ = 1;
  std::uint32_t distance_ = 0;
  std::uint32_t earliest_clock_ = 0;
  std::size_t kept_ = 0;      // shards that stay
  std::uint64_t cursor_ = 0;  // where the last search ended
};

}  // namespace weir::storage::hn4
