// SPDX-License-Identifier: Apache-2.0
/// @file
/// All stages that come with Weir, each in a small pipeline, for tests that ask the same
/// of every stage.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "stages/file_runs.hpp"

namespace weir::test {

/// A pipeline of a stage: its folder, and the size of its input.
struct stage_trial {
  std::string folder;
  int items = 6;   ///< items of the input
  int extent = 4;  ///< elements of an item
  /// Value of the setting that limits the items of the stage; 0: the one of the table.
  std::int64_t limit = 0;
  bool other_type = false;  ///< the items are u8[3,3] in place of f32[extent]
  /// Bytes that may be alive on the edges to the stages.
  std::int64_t window_bytes = flow::default_window_bytes;
  /// Returns a path of the input.
  [[nodiscard]] std::string in(const std::string& name) const {
    return folder + "/" + name;
  }
  /// Returns a path of the output.
  [[nodiscard]] std::string out(const std::string& name) const {
    return folder + "/out/" + name;
  }
};

/// Builds a pipeline.
using trial_builder = std::function<void(pipeline&, const stage_trial&)>;

/// A stage with the pipelines in which it is tested.
struct stage_entry {
  std::string stage;
  trial_builder build;
  /// Makes the input; may be empty.
  std::function<void(const stage_trial&)> prepare = {};
  /// A pipeline whose types do not fit; empty if the stage takes every type.
  trial_builder wrong = {};
  /// Code and parts of the message of its error: stages, expected and found types.
  errc refusal_code = errc::invalid_argument;
  std::vector<std::string> refusal = {};
  /// Code and part of the message with which an empty input is refused; an empty text: it
  /// is processed.
  errc empty_code = errc::invalid_argument;
  std::string empty_refusal = "";
  /// A pipeline in which the stage gets no item; empty: `build` with an empty input.
  trial_builder empty = {};
  bool writes = true;  ///< the pipeline writes files, so that a full disk matters
  /// Returns the smallest `limit` for the input of a trial; empty if no setting limits
  /// the size of an item.
  std::function<std::int64_t(const stage_trial&)> needed = {};
  int limited_items = 1;  ///< items of the input when the limit is tried
  /// Begins what must go on beside a run; may be empty.
  std::function<std::thread(const stage_trial&, bool resuming)> beside = {};
};

/// Returns the table, in the order of the names.
std::vector<stage_entry> stage_table();

}  // namespace weir::test
