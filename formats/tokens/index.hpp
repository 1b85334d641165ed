// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tables that find an id by bytes, or a merge by two ids, with one or two cache misses.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/hash.hpp"

namespace weir::formats::tokens {

/// Id that no token has.
inline constexpr std::uint32_t no_id = 0xFFFF'FFFF;

/// Returns a hash of the bytes of a text.
[[nodiscard]] inline std::uint64_t hash_of(std::string_view text) noexcept {
  return xxh3_64(as_view(text));
}

/// Ids by bytes: open addressing, at most half full. The keys are not copied.
class text_index {
 public:
  /// Makes an index for up to `count` keys.
  explicit text_index(std::size_t count = 0)
      : slots_(std::bit_ceil(2 * count + 2)), mask_(slots_.size() - 1) {}

  /// Adds a key, whose bytes must outlive the index; returns false if it is there.
  bool add(std::string_view key, std::uint32_t id) {
    // The lower bits choose the slot.
    const std::uint64_t hash = hash_of(key);
    std::size_t i = hash & mask_;
    while (slots_[i].id != no_id) {
      if (slots_[i].key == key) {
        return false;
      }
      // The next slot is tried, until one is free.
      i = (i + 1) & mask_;
    }
    // The upper bits are the tag.
    slots_[i] = {key, static_cast<std::uint32_t>(hash >> 32), id};
    longest_ = key.size() > longest_ ? key.size() : longest_;
    return true;
  }
  /// Returns the id of a key, or `no_id`.
  [[nodiscard]] std::uint32_t find(std::string_view key) const noexcept {
    return find(key, hash_of(key));
  }
  /// Returns the id of a key whose hash is known, or `no_id`.
  [[nodiscard]] std::uint32_t find(std::string_view key,
                                   std::uint64_t hash) const noexcept {
    // A table that is at most half full always has a free slot, which ends the search.
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    for (std::size_t i = hash & mask_; slots_[i].id != no_id; i = (i + 1) & mask_) {
      if (slots_[i].tag == tag && slots_[i].key == key) {
        return slots_[i].id;
      }
    }
    return no_id;
  }
  /// Returns the number of bytes of the longest key.
  [[nodiscard]] std::size_t longest() const noexcept { return longest_; }

 private:
  // A slot is free if its id is `no_id`. The tag, half of the hash, saves comparing most
  // keys that are not the wanted one.
  struct slot {
    std::string_view key;      ///< refers to bytes outside of the index
    std::uint32_t tag = 0;     ///< upper half of the hash
    std::uint32_t id = no_id;  ///< `no_id` in a free slot
  };
  std::vector<slot> slots_;  ///< a power of two of them
  std::size_t mask_;         ///< number of slots minus one
  std::size_t longest_ = 0;  ///< bytes of the longest key
};

/// Result of merging two neighbouring ids.
struct merge {
  std::uint32_t rank = no_id;  ///< the merge with the smallest rank comes first
  std::uint32_t id = no_id;    ///< id of the merged token
};

/// Merges by their two ids: open addressing, at most half full.
class merge_index {
 public:
  /// Makes an index for up to `count` merges.
  explicit merge_index(std::size_t count = 0)
      : slots_(std::bit_ceil(2 * count + 2)), mask_(slots_.size() - 1) {}

  /// Adds a merge, or replaces the one of the same ids.
  void set(std::uint32_t left, std::uint32_t right, merge value) {
    const std::uint64_t key = key_of(left, right);
    // Goes on to the slot of the same ids, or to a free one.
    std::size_t i = start(key);
    while (slots_[i].value.id != no_id && slots_[i].key != key) {
      i = (i + 1) & mask_;
    }
    slots_[i] = {key, value};
  }
  /// Returns the merge of two ids; its rank is `no_id` if they do not merge.
  [[nodiscard]] merge find(std::uint32_t left, std::uint32_t right) const noexcept {
    const std::uint64_t key = key_of(left, right);
    std::size_t i = start(key);
    while (slots_[i].value.id != no_id) {
      if (slots_[i].key == key) {
        return slots_[i].value;
      }
      i = (i + 1) & mask_;
    }
    return {};
  }

 private:
  // A slot is free if the id of its value is `no_id`.
  struct slot {
    std::uint64_t key = 0;  ///< both ids
    merge value;            ///< its id is `no_id` in a free slot
  };
  // Returns both ids as one number.
  [[nodiscard]] static std::uint64_t key_of(std::uint32_t left,
                                            std::uint32_t right) noexcept {
    return std::uint64_t{left} << 32 | right;
  }
  // Spreads the bits of both ids over the low bits (Fibonacci hashing).
  [[nodiscard]] std::size_t start(std::uint64_t key) const noexcept {
    key *= 0x9E37'79B9'7F4A'7C15;
    return (key ^ key >> 32) & mask_;
  }
  std::vector<slot> slots_;  ///< a power of two of them
  std::size_t mask_;         ///< number of slots minus one
};

}  // namespace weir::formats::tokens
