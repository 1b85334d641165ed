// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages that take several items with one call, because a call costs more than an item:
/// stages with an engine of their own, and stages in child processes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weir/pipeline/host/image.hpp"
#include "weir/pipeline/host/slot_memory.hpp"
#include "weir/pipeline/stage_object.hpp"

namespace weir::flow {

/// Result of a call with several items of a blocking stage or of a sink.
struct processed_items {
  std::size_t processed = 0;    ///< items that are complete, from the first
  std::optional<error> failed;  ///< error of the item behind them
  /// True if the item behind them is not complete: what the stage has made of it so far
  /// is there, and the stage is called with it again.
  bool partial = false;
};
/// Result of a call with several items of a source.
struct filled_items {
  std::size_t filled = 0;        ///< items that the source has filled, from the first
  bool ended = false;            ///< the source has no data for the item behind them
  bool nothing_yet = false;      ///< the source has no item at the moment
  std::optional<error> failure;  ///< error of `next` for the item behind them
  small_record cursor;           ///< position of the source, set if it has ended
};

/// A stage that hosts call with several items at once instead of by `on_ready`, `next`
/// and `put`.
/// @threads{thread-compatible}
class batch_stage : public stage_object {
 public:
  /// Processes items of a blocking stage. An error has no item number yet.
  [[nodiscard]] virtual processed_items work(std::span<exchange* const> items);
  /// Fills items of a source. An error names the item.
  [[nodiscard]] virtual filled_items fill(std::span<blank* const> items);
  /// Writes items of a sink. An error names the item.
  [[nodiscard]] virtual processed_items write(std::span<const ready* const> items);
  /// Returns memory in which the stage reaches items without a copy; null if any memory
  /// will do. Slots of the items that it takes and makes come from there, if possible.
  [[nodiscard]] virtual std::shared_ptr<slot_memory> memory() const { return nullptr; }
};

/// Calls `work` of the stage, or `on_ready` for each item. An exception becomes an error.
[[nodiscard]] processed_items call_work(stage_object& stage,
                                        std::span<exchange* const> items);
/// Calls `fill` of the stage, or `next` for each item. An exception becomes an error.
[[nodiscard]] filled_items call_fill(stage_object& stage, const std::string& name,
                                     std::span<blank* const> items);
/// Calls `write` of the stage, or `put` for each item. An exception becomes an error.
[[nodiscard]] processed_items call_write(stage_object& stage, const std::string& name,
                                         std::span<const ready* const> items);

/// A call of a stage as a host sees it.
struct call_view {
  std::uint64_t seq = 0;              ///< number of the item, the first one of several
  std::uint32_t lane = 0;             ///< lane of the item
  std::int64_t source_ns = 0;         ///< see `step::source_time`
  std::int64_t turn_ns = 0;           ///< see `step::turn_time`
  const attributes* about = nullptr;  ///< attributes; not null
  /// Tensors by item of the call, then by inlet; null for a gap.
  std::vector<const runtime::tensor*> inputs;
};
/// Describes the call of an item in the hands of a blocking stage.
void look_at(const exchange& from, call_view& to);
/// Describes the call of an item in the hands of a sink.
void look_at(const ready& from, call_view& to);

/// Returns an item that a blocking stage makes; `pull` fills it.
/// @param nth  Below the number of items that a call of the stage makes at most.
[[nodiscard]] blank& made_item(exchange& of_call, std::size_t nth);
/// Returns the memory that an item that is being made has at an outlet before `pull` has
/// filled it; size 0 if it has none. Bytes of `pull::fill_bytes` begin there if they fit.
[[nodiscard]] runtime::storage memory_at(const blank& of_item, std::size_t outlet);
/// Sets how many items a stage with numbers of its own has made of a call, and whether
/// there will be more.
void set_made(exchange& of_call, std::size_t made, bool partial);
/// Replaces the attributes of an item that is being made.
void set_attributes(blank& of_item, const attributes& about);
/// Returns whether the position of the source behind the item is wanted.
[[nodiscard]] bool wants_mark(const blank& of_item);
/// Sets the position and the state of the source behind an item.
void set_mark(blank& of_item, const small_record& cursor,
              std::vector<image_section> state);

}  // namespace weir::flow
