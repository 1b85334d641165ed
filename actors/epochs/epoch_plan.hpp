// SPDX-License-Identifier: Apache-2.0
/// @file
/// When epochs begin and which of them is the last: the decisions of the conductor of a
/// pipeline, without actors.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "weir/pipeline/host/execution.hpp"

namespace weir::actors {

/// How often checkpoints are made.
struct epoch_rules {
  std::uint64_t every_items = 0;  ///< items between two barriers; 0: no such limit
  std::int64_t every_ns = 0;      ///< time between two checkpoints; 0: no such limit
  /// Number of the first item that sources do not hand on. The run ends in front of it,
  /// with a last epoch. The largest number stands for no such item.
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();
};

/// An order to the engine host to begin an epoch. A later order replaces one that was not
/// carried out.
struct epoch_order {
  /// Value of `then` without a boundary.
  static constexpr std::uint64_t no_boundary = std::numeric_limits<std::uint64_t>::max();
  /// The epoch begins when a source has handed on the items before this number, and no
  /// source is asked for later ones before. 0: it begins at once.
  std::uint64_t at = 0;
  /// Once the epoch has begun, sources may be asked for the items before this number.
  std::uint64_t then = no_boundary;
  bool last = false;  ///< sources stop, and the run ends behind the epoch
};

/// Decides when epochs begin.
///
/// An epoch is due behind every `every_items`-th item; when `every_ns` have passed since
/// the last one, if items were handed on since then; and once, as the last one, when the
/// run is asked to stop, when a source has failed, when all stages have ended, or in
/// front of the item `end`.
///
/// The host carries an order out when no epoch is in flight, so that there is at most one
/// epoch in flight and at most one save. It leaves an order that is not the last one
/// until there are items that no checkpoint holds. The order for the next boundary is
/// given as soon as the image of an epoch is complete; sources run up to `then` while the
/// epoch is in flight. A failed save ends its epoch, and the next one is due as usual:
/// behind the next boundary, or after `every_ns`.
/// @threads{thread-compatible}
class epoch_plan {
 public:
  explicit epoch_plan(epoch_rules rules) : rules_(rules) {}
  /// Begins at the place where the run begins. @param stored  A checkpoint holds the
  /// items before it. @units{now_ns: nanoseconds of any clock, the same for all calls}
  [[nodiscard]] std::optional<epoch_order> launch(const flow::stand& from, bool stored,
                                                  std::int64_t now_ns);
  /// Looks at the time. @param reached  Where the sources are, which may be out of date.
  [[nodiscard]] std::optional<epoch_order> tick(const flow::stand& reached,
                                                std::int64_t now_ns);
  /// Orders the last epoch. Further calls do nothing.
  [[nodiscard]] std::optional<epoch_order> stop();
  /// Notes that the image of an epoch is complete and is being saved. @pre not `saving()`
  [[nodiscard]] std::optional<epoch_order> complete(const flow::stand& barrier,
                                                    std::int64_t now_ns);
  /// Notes that the image is durable. @pre `saving()`
  void saved();
  /// Notes that the image could not be saved. @pre `saving()`
  void not_saved();

  /// Returns whether an image is being saved.
  [[nodiscard]] bool saving() const noexcept { return saving_; }
  /// Returns the barrier of the newest image.
  [[nodiscard]] const flow::stand& barrier() const noexcept { return barrier_; }
  /// Returns the barrier of the newest durable checkpoint.
  [[nodiscard]] const flow::stand& durable() const noexcept { return durable_; }

 private:
  [[nodiscard]] std::uint64_t boundary_behind(std::uint64_t item) const noexcept;
  [[nodiscard]] std::optional<epoch_order> next_boundary() const noexcept;

  epoch_rules rules_;
  flow::stand durable_;  ///< where the run began, if no checkpoint was made yet
  flow::stand barrier_;
  std::uint64_t boundary_ = epoch_order::no_boundary;  ///< next barrier by number
  std::int64_t last_ns_ = 0;                           ///< time of the last epoch
  bool launched_ = false;
  bool ordered_ = false;   ///< an epoch was ordered by time and is not complete yet
  bool stopping_ = false;  ///< the last epoch was ordered
  bool saving_ = false;
};

}  // namespace weir::actors
