// SPDX-License-Identifier: Apache-2.0
/// @file
/// An edge: a bounded queue of items between two stages of one thread, with credits.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "flow/item_memory.hpp"
#include "weir/pipeline/counters.hpp"

namespace weir::flow {

/// Content of one place of an edge.
enum class entry_kind : std::uint8_t {
  item,     ///< an item
  gap,      ///< a number without an item
  barrier,  ///< the end of an epoch
  end       ///< the end of the data
};

/// One place of an edge.
struct entry {
  item* body = nullptr;               ///< the item; null for all other kinds
  std::uint64_t number = 0;           ///< number of the item or gap; epoch of a barrier
  std::int64_t bytes = 0;             ///< bytes of the item at the edge's outlet
  entry_kind kind = entry_kind::gap;  ///< content
};

/// A queue of items in the order of their numbers.
///
/// A credit is the right to have one more item alive on the edge. Pushing takes credits;
/// the consumer gives them back when it has let go of the item, which may be long after
/// it has taken the item from the queue. Barriers and ends need no credit.
/// @threads{thread-compatible}
class edge {
 public:
  /// @param window_items  Credits in items, at least 1.
  /// @param window_bytes  Credits in bytes; one item may exceed them alone.
  edge(std::uint32_t window_items, std::int64_t window_bytes)
      : ring_(std::bit_ceil(std::size_t{window_items} + marker_places)),
        mask_(ring_.size() - 1),
        items_(window_items),
        fewest_(window_items),
        bytes_(window_bytes),
        window_items_(window_items) {}

  /// Returns whether `count` items may be pushed.
  [[nodiscard]] bool has_credit(std::uint32_t count) const noexcept {
    return items_ >= count && has_bytes();
  }
  /// Returns the number of items that may be pushed as long as `has_bytes`.
  [[nodiscard]] std::uint32_t credits() const noexcept { return items_; }
  /// Returns whether bytes are left for one more item.
  [[nodiscard]] bool has_bytes() const noexcept { return bytes_ > 0; }
  /// Appends an item, which the edge then holds. @pre `has_credit(1)`
  void push(item& one, std::uint64_t number, std::int64_t bytes) noexcept {
    ++one.holders;
    --items_;
    bytes_ -= bytes;
    place() = {&one, number, bytes, entry_kind::item};
    pushed_bytes_ += bytes;
    fewest_ = std::min(fewest_, items_);
  }
  /// Appends a gap. @pre `has_credit(1)`
  void push_gap(std::uint64_t number) noexcept {
    --items_;
    place() = {nullptr, number, 0, entry_kind::gap};
    ++gaps_;
  }
  /// Appends a barrier or an end.
  void push_marker(entry_kind kind, std::uint64_t epoch) noexcept {
    place() = {nullptr, epoch, 0, kind};
    ++markers_;
  }

  /// Takes the credits of an item that the consumer holds from an earlier run.
  /// @units{bytes: bytes}
  void take_credit(std::int64_t bytes) noexcept {
    --items_;
    bytes_ -= bytes;
  }

  /// Returns whether the queue has no entry.
  [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }
  /// Returns the number of entries in the queue.
  [[nodiscard]] std::size_t size() const noexcept { return tail_ - head_; }
  /// Returns the oldest entry. @pre not `empty()`
  [[nodiscard]] const entry& front() const noexcept { return ring_[head_ & mask_]; }
  /// Returns the entry `nth` places behind the oldest one. @pre `nth < size()`
  [[nodiscard]] const entry& peek(std::size_t nth) const noexcept {
    return ring_[(head_ + nth) & mask_];
  }
  /// Removes the oldest entry and returns it, valid until the next push. Credits are not
  /// given back.
  const entry& pop() noexcept { return ring_[head_++ & mask_]; }
  /// Gives the credits of one item or gap back. @units{bytes: bytes}
  void give_back(std::int64_t bytes) noexcept {
    ++items_;
    bytes_ += bytes;
  }
  /// Returns the number of items and gaps whose credits are out.
  [[nodiscard]] std::uint32_t alive() const noexcept { return window_items_ - items_; }

  /// Returns the counters since the start of the run.
  [[nodiscard]] edge_counters counters() const noexcept {
    return {.items = tail_ - gaps_ - markers_,
            .gaps = gaps_,
            .bytes = static_cast<std::uint64_t>(pushed_bytes_),
            .deepest = window_items_ - fewest_};
  }

  /// Newest epoch whose barrier has passed the stage that feeds a feedback edge.
  std::uint64_t epoch_passed = 0;

 private:
  /// Places for markers: one barrier and one end, and one barrier of a resumed run.
  static constexpr std::size_t marker_places = 4;
  entry& place() noexcept { return ring_[tail_++ & mask_]; }

  std::vector<entry> ring_;
  std::size_t mask_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
  std::uint32_t items_;   ///< credits in items
  std::uint32_t fewest_;  ///< smallest number of credits behind an item
  std::int64_t bytes_;    ///< credits in bytes
  std::uint32_t window_items_;
  std::uint64_t gaps_ = 0;         ///< gaps that were pushed
  std::uint64_t markers_ = 0;      ///< barriers and ends that were pushed
  std::int64_t pushed_bytes_ = 0;  ///< bytes of the items that were pushed
};

}  // namespace weir::flow
