// SPDX-License-Identifier: Apache-2.0
/// @file
/// One run of a planned pipeline, without threads of its own: a host calls it from the
/// thread that submits to the engine, and moves items between it and the sources and
/// sinks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weir/pipeline/counters.hpp"
#include "weir/pipeline/graph.hpp"
#include "weir/pipeline/host/image.hpp"
#include "weir/pipeline/stage_object.hpp"

namespace weir::flow {

/// Options of an execution.
struct execution_options {
  std::uint64_t seed = 1;         ///< seed of `step::random`
  std::string folder;             ///< folder of the pipeline's file, see `opening::path`
  std::uint32_t turn_items = 32;  ///< items that a stage takes in one turn at most
  opening::loader load{};         ///< loads constants; may be empty
  std::string kernels = "auto";   ///< see `opening::kernels`
  /// Byte, from 0 to 255, that fills the memory of an item before a stage gets it, so
  /// that bytes that no stage writes show; -1: nothing is filled.
  int fill_slots = -1;
  std::size_t recorded_items = 0;  ///< items that `add_to_trace` knows at most; 0: none
  /// Items that sources read and the run does not process: they become gaps. Images hold
  /// the ranges, which then count in resumed runs, too.
  std::vector<item_range> skip{};
  /// True if sinks work on the thread of the host: `turn` then calls a sink of one inlet
  /// for items whose bytes are complete. `next_ready` hands out all other items.
  bool calls_sinks = false;
};

/// The result of `execution::fill`: how far a source has come.
struct source_turn {
  std::uint32_t delivered = 0;  ///< items that it has filled and that were handed on
  /// Granted item with which it has stopped, and which the host gives back by `deliver`,
  /// `take_back` or `end`. Null if the limit was reached or nothing could be granted.
  blank* last = nullptr;
  result<bool> more = true;  ///< answer of `call_next` for `last`
};

/// A place that the sources of a run have reached.
struct stand {
  std::uint64_t next_item = 0;  ///< largest number that a source hands on next
  std::uint64_t items = 0;      ///< items of all sources together
  bool ended = false;           ///< true if all stages have ended
};

/// A run of a pipeline.
///
/// Sources that meet in later stages hand an item on only when all of them have read the
/// item of that number, or have ended. A barrier stands behind the items that were handed
/// on, so that no source keeps the others of its group from a checkpoint.
///
/// The host alternates between `turn`, sources (`grant` or `fill`, `deliver`, `end`),
/// blocking stages (`next_exchange`, `give_back`) and sinks (`next_ready`, `done`). To
/// make a checkpoint it calls `begin_epoch`, answers `wants_cursor` and `wants_settle`,
/// waits until `complete`, saves the image and calls `committed`. Every function may be
/// called only by the submitter of the engine; a `blank`, an `exchange` and a `ready` may
/// be used by another thread until they are given back.
/// @threads{thread-compatible; belongs to the submitter of the engine}
class execution {
 public:
  /// Makes a run, opens all stages and restores them from an image if there is one.
  /// @param p       Plan of the pipeline.
  /// @param stages  Stages in the order of the plan.
  /// @param host    Engine of the run; must outlive it.
  /// @param from    Image to continue from, or null.
  /// @error{out_of_memory, the memory of items cannot be allocated}
  /// @error{corrupt, the image lacks a section or has one of another size}
  /// @error{invalid_argument, a stage cannot be opened, which may have other codes, too;
  /// or a range to skip is empty or begins before the image}
  [[nodiscard]] static result<std::unique_ptr<execution>> create(
      plan p, std::vector<std::unique_ptr<stage_object>> stages, weir::engine& host,
      execution_options options, const image* from = nullptr);
  execution(const execution&) = delete;
  execution& operator=(const execution&) = delete;
  /// Waits for the tasks of the run.
  ~execution();

  /// Lets each stage do a bounded amount of work. Returns whether any stage did
  /// something.
  /// @error{kernel_failed, a stage or a task failed; the message names stage and item. An
  /// error of a stage keeps its code}
  [[nodiscard]] result<bool> turn();

  /// Returns the indices of all sources.
  [[nodiscard]] const std::vector<std::uint32_t>& sources() const noexcept;
  /// Returns the indices of all sinks.
  [[nodiscard]] const std::vector<std::uint32_t>& sinks() const noexcept;
  /// Returns the indices of all blocking stages.
  [[nodiscard]] const std::vector<std::uint32_t>& blocking() const noexcept;
  /// Returns the stage of an index.
  [[nodiscard]] stage_object& stage(std::uint32_t index) noexcept;

  /// Returns an empty item for a source to fill, or a null pointer without credit. Items
  /// must be given back in the order in which they were granted.
  [[nodiscard]] blank* grant(std::uint32_t source);
  /// Lets a source on the thread of the host fill up to `limit` items, and hands on those
  /// that have one tensor, in the memory that was granted, and no attributes. It stops at
  /// the first other item, which the host gives back before it calls `fill` or `grant`.
  [[nodiscard]] source_turn fill(std::uint32_t source, std::uint32_t limit);
  /// Returns whether `grant` would return at least `count` items, or all those before the
  /// limit of `stop_before`. For items of varying size one suffices.
  [[nodiscard]] bool can_grant(std::uint32_t source, std::uint32_t count) const noexcept;
  /// Takes an item that a source has filled by `call_next`. The item is handed on as soon
  /// as all sources that meet this one have read theirs of the same number.
  /// @error{invalid_argument, it has no tensor}
  [[nodiscard]] result<void> deliver(blank& filled);
  /// Returns whether the source has called `pull::nothing_yet` for the item.
  [[nodiscard]] static bool took_nothing(const blank& item) noexcept;
  /// Takes back all items that were granted to a source and that it has not filled.
  void take_back(std::uint32_t source);
  /// Ends a source, which has not filled `unused`. @param cursor Its last position.
  /// @error{invalid_argument, see `deliver`}
  [[nodiscard]] result<void> end(blank& unused, const small_record& cursor);
  /// Returns whether the source stands at the barrier, so that the host has to pass its
  /// cursor to `mark`. Never true for a source that meets others.
  [[nodiscard]] bool wants_cursor(std::uint32_t source) const noexcept;
  /// Puts the barrier behind the delivered items. @error{invalid_argument, the state
  /// cannot be copied}
  [[nodiscard]] result<void> mark(std::uint32_t source, const small_record& cursor);

  /// Hands out the next complete item of a blocking stage with an empty one, or a null
  /// pointer. Several may be handed out; they are given back in the same order.
  /// @error{upstream_failed, a task that writes the item failed}
  [[nodiscard]] result<exchange*> next_exchange(std::uint32_t stage);
  /// Takes an item back that a blocking stage has processed.
  /// @param failed  Error of `call_on_ready`, or null.
  /// @error{invalid_argument, the stage has made no item; or returns the error of the
  /// stage, unless failed items of the stage are skipped}
  [[nodiscard]] static result<void> give_back(exchange& item,
                                              const error* failed = nullptr);

  /// Hands out the next complete item of a sink, or a null pointer. Several items may be
  /// handed out; `done` takes them back in the same order.
  /// @error{upstream_failed, a task that writes the item failed}
  [[nodiscard]] result<const ready*> next_ready(std::uint32_t sink);
  /// Takes the oldest item that was handed out back.
  void done(std::uint32_t sink);
  /// Returns whether the sink has to make its items durable, and pass the offset to
  /// `settled`.
  [[nodiscard]] bool wants_settle(std::uint32_t sink) const noexcept;
  /// Takes the offset of a sink whose items are durable.
  /// @error{invalid_argument, the state cannot be copied}
  [[nodiscard]] result<void> settled(std::uint32_t sink, const small_record& offset);

  /// Returns how far the sources have handed items on.
  [[nodiscard]] stand reached() const noexcept;
  /// Grants no item from number `next` on, until the limit is moved. By default there is
  /// no limit.
  void stop_before(std::uint64_t next) noexcept;
  /// Begins an epoch, whose barrier stands where the sources are. A source gets no items
  /// until its cursor has been passed to `mark`, but sources that meet need not wait: the
  /// barrier stands behind the items that all of them have handed on.
  /// @pre No epoch is in flight
  /// @error{invalid_argument, the state of a source cannot be copied}
  [[nodiscard]] result<void> begin_epoch();
  /// Returns where the barrier of the newest epoch stands, once that is `complete`.
  [[nodiscard]] stand barrier() const noexcept;
  /// Returns whether an epoch has begun and is not committed.
  [[nodiscard]] bool epoch_in_flight() const noexcept;
  /// Returns whether the image of the epoch in flight is complete.
  [[nodiscard]] bool complete() const noexcept;
  /// Returns the image of the epoch in flight.
  /// @error{kernel_failed, a state could not be copied}
  [[nodiscard]] result<const image*> completed();
  /// Ends the epoch in flight, after its image was saved.
  void committed();
  /// Ends the epoch in flight, whose image could not be saved. The next epoch may follow:
  /// sinks can go back from where they are to the offsets of an older image.
  void abandoned();
  /// Returns whether all stages have ended.
  [[nodiscard]] bool all_ended() const noexcept;
  /// Returns the number of the item that has failed and thereby ended the run. Empty if
  /// no item has failed, or if it has a number that no source counts.
  [[nodiscard]] std::optional<std::uint64_t> failed_item() const noexcept;

  /// Returns whether tasks of the engine have not ended yet.
  [[nodiscard]] bool tasks_in_flight() const noexcept;
  /// Returns for each stage the reason for which it does nothing, in words; or only for
  /// those that wait for each other, if there are such.
  [[nodiscard]] std::string waiting() const;
  /// Returns the stage that limits the rate, in words, or an empty text: seen from the
  /// sinks, the first stage that has input and whose output is not blocked.
  [[nodiscard]] std::string bottleneck() const;
  /// Returns a copy of all counters.
  [[nodiscard]] run_counters counters() const;
  /// Returns the figures of each stage. @param outside  True to ask sources, blocking
  /// stages and sinks, too, which no other thread may use at the same time.
  [[nodiscard]] std::vector<figures> reports(bool outside) const;
  /// Returns the credits of each edge, in the order of the plan's edges. For tests.
  [[nodiscard]] std::vector<edge_credits> credits() const;
  /// Adds to the trace of the engine a line for each stage, which shows when it took the
  /// first and the newest items and let them go, with arrows from stage to stage.
  void add_to_trace() const;
  /// Returns the plan of the run.
  [[nodiscard]] const plan& planned() const noexcept;

 private:
  struct state;
  explicit execution(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace weir::flow
