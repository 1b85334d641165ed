// SPDX-License-Identifier: Apache-2.0
/// @file
/// The TensorMap of the specification: buckets by base address, a ring of entries, lazy
/// invalidation and truncation of chains. The map of the engine answers the same
/// questions with an index; the concept `producer_finder` describes both.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "conformant/logical_tensor.hpp"
#include "weir/base/error.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// Remembers who writes what, forgets tasks that have retired, and finds all producers.
template <class Map, class Key>
concept producer_finder = requires(Map& map, const Key& key, task_id task,
                                   std::vector<task_id>& out) {
  { map.insert(key, task) } -> std::same_as<result<void>>;
  {map.lookup_all(key, out)};
  {map.retire_before(task)};
};

/// Hash of a base address. `seed` is that of the specification, which leaves most buckets
/// empty when bases are a power of two apart.
enum class base_hash : std::uint8_t { fibonacci, seed };

/// Sizes of a map.
struct producer_map_options {
  std::uint32_t buckets = 4096;           ///< number of buckets, a power of two
  std::uint32_t entries = 32768;          ///< number of entries of the ring
  base_hash hash = base_hash::fibonacci;  ///< hash of base addresses
};

/// A map from regions to the tasks that write them. `Traits` gives the key, its base, and
/// the overlap test of two keys.
///
/// Task numbers do not wrap and ascend, so every chain runs from new to old, and all
/// entries behind the first entry of a retired task are retired as well.
/// @source{TensorMap specification, 2, 3 and 6-8}
/// @threads{thread-compatible}
template <class Traits>
class producer_map {
 public:
  /// Type of a region.
  using key = typename Traits::key;

  /// Makes an empty map. @error{invalid_argument; buckets are no power of two, or there
  /// are no entries}
  [[nodiscard]] static result<producer_map> create(
      const producer_map_options& options = {}) {
    if (!std::has_single_bit(options.buckets) || options.entries == 0 ||
        options.entries >= nowhere) {
      return error(
          errc::invalid_argument,
          fmt::format("map not created: expected a power of two of buckets and 1 "
                      "to {} entries, found {} and {}",
                      nowhere - 1, options.buckets, options.entries));
    }
    return producer_map(options);
  }

  /// Records that a task writes a region. A region of no bytes is not kept.
  /// @error{out_of_memory; the next entry of the ring belongs to a live task: retire
  /// tasks first} @error{invalid_argument; the number is below one that was seen before}
  [[nodiscard]] result<void> insert(const key& region, task_id producer) {
    if (producer < newest_ || producer < oldest_alive_) {
      return error(
          errc::invalid_argument,
          fmt::format("region not inserted: expected an id of at least {}, found "
                      "{}",
                      std::max(newest_, oldest_alive_), producer));
    }
    if (Traits::empty(region)) {
      return {};
    }
    entry& e = pool_[next_];
    if (e.linked) {
      if (alive(e)) {  // overwriting it would lose a producer
        return error(
            errc::out_of_memory,
            fmt::format("region not inserted: expected a free entry in a ring of {}, "
                        "found that live tasks use all of them",
                        pool_.size()));
      }
      unlink(next_);
    }
    const auto after = (next_ + 1) % static_cast<std::uint32_t>(pool_.size());
    if (linked_ == 0) {
      oldest_ = next_;
    } else if (oldest_ == next_) {
      oldest_ = after;
    }
    const std::uint32_t bucket = bucket_of(Traits::base(region));
    e.region = region;
    e.producer = producer;
    e.bucket = bucket;
    e.newer = nowhere;
    e.older = heads_[bucket];
    e.linked = true;
    if (e.older != nowhere) {
      pool_[e.older].newer = next_;
    }
    heads_[bucket] = next_;
    next_ = after;
    newest_ = producer;
    ++linked_;
    return {};
  }

  /// Returns the newest live task that writes a byte of the region. A reader may wait for
  /// this task alone if it writes all bytes of the region; otherwise use `lookup_all`.
  [[nodiscard]] std::optional<task_id> lookup(const key& region) {
    std::optional<task_id> found;
    walk(region, [&](task_id producer) {
      found = producer;
      return false;
    });
    return found;
  }
  /// Appends all live tasks that write a byte of the region, newest first and each once.
  void lookup_all(const key& region, std::vector<task_id>& out) {
    const std::size_t first = out.size();
    walk(region, [&](task_id producer) {
      if (out.size() == first || out.back() != producer) {  // a task's lie side by side
        out.push_back(producer);
      }
      return true;
    });
  }

  /// Retires all tasks below `oldest_alive`. Their entries are ignored from now on and
  /// removed when a look-up meets them. The threshold never goes back.
  void retire_before(task_id oldest_alive) noexcept {
    oldest_alive_ = std::max(oldest_alive_, oldest_alive);
  }
  /// Removes all entries of retired tasks, in O(1) each.
  void clean_up() noexcept {
    while (linked_ > 0) {
      const auto size = static_cast<std::uint32_t>(pool_.size());
      for (; !pool_[oldest_].linked; oldest_ = (oldest_ + 1) % size) {
      }
      if (alive(pool_[oldest_])) {
        return;
      }
      unlink(oldest_);
    }
  }

  /// Returns the number of entries in buckets, including retired ones that are not
  /// removed.
  [[nodiscard]] std::uint32_t linked() const noexcept { return linked_; }
  /// Returns the bucket of a base address.
  [[nodiscard]] std::uint32_t bucket_of(const void* base) const noexcept {
    auto k = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(base));
    if (hash_ == base_hash::seed) {
      k ^= k >> 16;
      k ^= k >> 32;
      return static_cast<std::uint32_t>(k & (heads_.size() - 1));
    }
    const auto bits = static_cast<unsigned>(std::countr_zero(heads_.size()));
    return bits == 0
               ? 0
               : static_cast<std::uint32_t>((k * 0x9E3779B97F4A7C15U) >> (64 - bits));
  }

 private:
  /// Stands for "no entry" in links and heads of chains.
  static constexpr std::uint32_t nowhere = 0xFFFFFFFFU;

  /// An entry of the ring. It is a link of the chain of its bucket, from new to old.
  struct entry {
    key region;
    task_id producer = 0;
    std::uint32_t bucket = 0;
    std::uint32_t newer = nowhere;
    std::uint32_t older = nowhere;
    bool linked = false;
  };

  explicit producer_map(const producer_map_options& o)
      : hash_(o.hash), heads_(o.buckets, nowhere), pool_(o.entries) {}

  /// Returns true if the task of an entry has not been retired.
  [[nodiscard]] bool alive(const entry& e) const noexcept {
    return e.producer >= oldest_alive_;
  }
  /// Takes an entry out of its chain. Its place in the ring stays until the ring comes
  /// around.
  void unlink(std::uint32_t index) noexcept {
    entry& e = pool_[index];
    (e.newer == nowhere ? heads_[e.bucket] : pool_[e.newer].older) = e.older;
    if (e.older != nowhere) {
      pool_[e.older].newer = e.newer;
    }
    e.linked = false;
    --linked_;
  }
  /// Calls `visit(producer)` for what overlaps, newest first, while it answers true. A
  /// dead tail is cut off.
  template <class Visit>
  void walk(const key& region, Visit&& visit) {
    std::uint32_t index = heads_[bucket_of(Traits::base(region))];
    while (index != nowhere) {
      const entry& e = pool_[index];
      if (!alive(e)) {
        cut(index);
        return;
      }
      if (Traits::meet(region, e.region) && !visit(e.producer)) {
        return;
      }
      index = e.older;
    }
  }
  /// Unlinks an entry and all older ones of its chain, which are retired as well because
  /// numbers ascend.
  void cut(std::uint32_t index) noexcept {
    while (index != nowhere) {
      const std::uint32_t older = pool_[index].older;
      unlink(index);
      index = older;
    }
  }

  base_hash hash_;
  std::vector<std::uint32_t> heads_;
  std::vector<entry> pool_;
  std::uint32_t next_ = 0;
  std::uint32_t oldest_ = 0;  ///< where `clean_up` goes on
  std::uint32_t linked_ = 0;
  task_id oldest_alive_ = 0;
  task_id newest_ = 0;
};

/// Key, base and overlap test of regions of one dimension.
struct region_traits {
  using key = map_region;  ///< type of a region
  /// Returns the address of the storage.
  static const void* base(const key& k) noexcept { return k.base; }
  /// Returns true if the region has no byte.
  static bool empty(const key& k) noexcept { return k.size <= 0; }
  /// Returns true if two regions share a byte.
  static bool meet(const key& a, const key& b) noexcept { return regions_overlap(a, b); }
};
/// Key, base and overlap test of strided tensors.
struct logical_traits {
  using key = logical_tensor;  ///< type of a region
  /// Returns the address of the storage.
  static const void* base(const key& k) noexcept { return k.base(); }
  /// Returns true if the region has no byte.
  static bool empty(const key& k) noexcept { return k.bytes().empty(); }
  /// Returns true if two regions share a byte or may share one.
  static bool meet(const key& a, const key& b) noexcept {
    return overlap_hybrid(a, b) != overlap::no;
  }
};

/// The basic map of the specification, for regions of one dimension.
using tensor_map = producer_map<region_traits>;
/// The extended map of the specification, for strided tensors.
using tensor_map_ex = producer_map<logical_traits>;

}  // namespace weir::runtime
