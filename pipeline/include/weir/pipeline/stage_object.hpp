// SPDX-License-Identifier: Apache-2.0
/// @file
/// A stage without its static type, as the graph and the hosts handle it. The adapter in
/// `weir/pipeline/faces.hpp` makes it from a user's class; stages whose ports depend on
/// their settings implement it themselves.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/pipeline/figures.hpp"
#include "weir/pipeline/stage.hpp"
#include "weir/pipeline/stage_info.hpp"

namespace weir::flow {

/// A part of the state of a stage, with the memory that holds it: a tensor of the engine
/// or a value of the stage itself.
/// @threads{a value}
struct state_part {
  std::string name;            ///< name in the checkpoint, unique in the stage
  bool is_tensor = false;      ///< which of the two members below counts
  runtime::tensor tensor;      ///< row-major tensor of the engine
  std::span<std::byte> value;  ///< bytes of the value
};

struct image;
struct image_section;

/// Adds the parts of a state that a stage copies itself to the image of an epoch, for
/// states that are neither one tensor nor one value of fixed size.
/// @threads{thread-compatible; lives for one call}
class state_writer {
 public:
  /// Makes the object for a stage. For hosts.
  state_writer(image& growing, std::vector<task_id>& copies,
               std::vector<image_section>& spare, std::string stage)
      : growing_(growing), copies_(copies), spare_(spare), stage_(std::move(stage)) {}
  /// Adds a part of `bytes` bytes, of any content, and returns its memory, which is valid
  /// until the image was saved. @param name  Name in the checkpoint, unique in the stage.
  [[nodiscard]] mutable_bytes add(const std::string& name, std::size_t bytes);
  /// Adds a part with type and shape, which the stage has copied elsewhere. For hosts.
  void adopt(image_section part);
  /// Declares that a task fills memory of the image. Memory that no declared task fills
  /// is complete when `copy_state` returns.
  void filled_by(task_id id) { copies_.push_back(id); }

 private:
  image& growing_;
  std::vector<task_id>& copies_;
  std::vector<image_section>& spare_;  ///< memory of the image before
  std::string stage_;
};

/// Finds the parts of a state that `state_writer` has added.
/// @threads{thread-compatible; lives for one call}
class state_reader {
 public:
  /// Makes the object for a stage. For hosts.
  state_reader(const image& from, std::string stage)
      : from_(from), stage_(std::move(stage)) {}
  /// Returns the bytes of a part, valid until `restore_state` returns.
  /// @error{corrupt, the image has no such part}
  [[nodiscard]] result<bytes_view> part(const std::string& name) const;
  /// Returns the image. For hosts.
  [[nodiscard]] const image& whole() const noexcept { return from_; }

 private:
  const image& from_;
  std::string stage_;
};

/// A stage of a run.
///
/// The host calls the functions of the stage's face only. No two calls of a stage
/// overlap. `next` of a source, `put` and `settle` of a sink and `on_ready` of a blocking
/// stage run on the thread of the stage's own host.
/// @threads{thread-compatible}
class stage_object {
 public:
  stage_object() = default;
  stage_object(const stage_object&) = delete;
  stage_object& operator=(const stage_object&) = delete;
  virtual ~stage_object() = default;

  /// Prepares the stage for its first item. The error may have any code: the stage cannot
  /// work.
  [[nodiscard]] virtual result<void> open(opening& run);
  /// Takes one item: submits its tasks. The error may have any code: the item fails.
  [[nodiscard]] virtual result<void> on_item(step& s);
  /// Looks at an item whose tasks have ended, in the order of the items.
  /// The error may have any code: the item fails.
  [[nodiscard]] virtual result<void> on_done(step& s);
  /// Works on the item of a step loop once its tasks so far have ended. Returns true to
  /// be called again when the tasks that it has submitted have ended.
  /// The error may have any code: the item fails.
  [[nodiscard]] virtual result<bool> on_step(step& s);
  /// Takes a complete item and fills the item of the same number that it makes of it.
  /// The error may have any code: the item fails.
  [[nodiscard]] virtual result<void> on_ready(taken& from, pull& to);
  /// Fills the next item of a source. Returns false at the end of the data.
  /// The error may have any code: the source cannot go on.
  [[nodiscard]] virtual result<bool> next(pull& p);
  /// Returns the cursor from which `seek` continues behind the last item.
  [[nodiscard]] virtual small_record position() const;
  /// Continues from a cursor. The error may have any code: the data do not fit to the
  /// cursor.
  [[nodiscard]] virtual result<void> seek(bytes_view cursor);
  /// Writes one item. The error may have any code: the sink cannot go on.
  [[nodiscard]] virtual result<void> put(taken& t);
  /// Makes all items so far durable and returns the offset behind them.
  /// The error may have any code: they are not durable.
  [[nodiscard]] virtual result<small_record> settle();
  /// Removes everything behind an offset. @error{torn, less than the offset is there}
  [[nodiscard]] virtual result<void> rewind(bytes_view offset);
  /// Compares the output of a finished run with its last offset and changes nothing. It
  /// is called instead of `open`. Returns false if the sink cannot tell.
  /// @param state  What `copy_state` has copied.
  /// @error{torn, less than the offset is there}
  /// @error{hash_mismatch, something else is there}
  [[nodiscard]] virtual result<bool> verify(opening& run, bytes_view offset,
                                            const state_reader& state);
  /// Returns the parts of the state. Called after `open`.
  [[nodiscard]] virtual std::vector<state_part> state();
  /// Copies state that `state` does not return, as of the items before the barrier. For a
  /// source the host calls it behind `position`, and not at the time of another call.
  /// The error may have any code: there is no checkpoint, and the run ends.
  [[nodiscard]] virtual result<void> copy_state(state_writer& to);
  /// Restores what `copy_state` has copied. Called after `open`, and before `seek`.
  /// The error may have any code: the run cannot continue.
  [[nodiscard]] virtual result<void> restore_state(const state_reader& from);
  /// Tells figures for the user. Sources, blocking stages and sinks are asked before
  /// their first item and behind their last one, all others also between two calls.
  virtual void report(figures& to) const;
};

/// A stage with its description, before the run.
struct described_stage {
  stage_info info;                       ///< description
  std::unique_ptr<stage_object> object;  ///< the stage itself
  stage_origin origin{};                 ///< set if a catalog has made it
};

}  // namespace weir::flow
