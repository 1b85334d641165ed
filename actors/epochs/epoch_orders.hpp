// SPDX-License-Identifier: Apache-2.0
/// @file
/// The orders of a conductor at the engine host that carries them out, without actors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "epochs/epoch_plan.hpp"

namespace weir::actors {

/// Keeps the newest order and says when its place is reached. The host asks only while no
/// epoch is in flight.
/// @threads{thread-compatible}
class epoch_orders {
 public:
  /// What the host does now.
  enum class action : std::uint8_t {
    none,   ///< go on
    begin,  ///< begin an epoch, and call `begun`
    finish  ///< end the run: the last checkpoint stands where the sources are
  };

  /// Begins at the place where the run begins. @param stored  A checkpoint holds the
  /// items before it. @param bounded  No item is read before the first order.
  void launch(const flow::stand& from, bool stored, bool bounded) {
    committed_ = stored ? std::optional(from) : std::nullopt;
    limit_ = bounded ? from.next_item : epoch_order::no_boundary;
  }
  /// Takes an order, which replaces one that was not carried out.
  void take(const epoch_order& order) {
    order_ = order;
    stopping_ = stopping_ || order.last;
    limit_ = std::max(limit_, order.at);
  }
  /// Returns what is due. An epoch whose image would equal the last checkpoint is not
  /// begun. @param reached  Where the sources are.
  [[nodiscard]] action due(const flow::stand& reached) const noexcept {
    // There is no order, or its place is not reached yet.
    if (!order_ || reached.next_item < order_->at) {
      return action::none;
    }
    // Nothing has changed since the last checkpoint: neither items nor ends of sources.
    if (committed_ && committed_->items == reached.items &&
        committed_->ended == reached.ended) {
      return order_->last ? action::finish : action::none;
    }
    return action::begin;
  }
  /// Notes that the epoch of the order has begun. @pre `due` returned `begin`
  void begun() {
    WEIR_EXPECT(order_);
    last_ = order_->last;
    limit_ = std::max(limit_, order_->then);
    order_.reset();
  }
  /// Notes that the checkpoint of the epoch is durable.
  void committed(const flow::stand& barrier) { committed_ = barrier; }

  /// Returns the number of the first item that sources are not asked for.
  [[nodiscard]] std::uint64_t limit() const noexcept { return limit_; }
  /// Returns whether sources are not asked for any item.
  [[nodiscard]] bool stopping() const noexcept { return stopping_; }
  /// Returns whether the last epoch has begun.
  [[nodiscard]] bool last() const noexcept { return last_; }
  /// Returns the barrier of the last checkpoint, if there is one.
  [[nodiscard]] const std::optional<flow::stand>& durable() const noexcept {
    return committed_;
  }

 private:
  /// The newest order that was not begun.
  std::optional<epoch_order> order_;
  /// Where the newest durable checkpoint stands; empty before the first one.
  std::optional<flow::stand> committed_;
  /// Number of the first item that sources must not read yet.
  std::uint64_t limit_ = epoch_order::no_boundary;
  /// An order for the last epoch has come.
  bool stopping_ = false;
  /// The epoch in flight, or the one that was committed, is the last.
  bool last_ = false;
};

}  // namespace weir::actors
