// SPDX-License-Identifier: Apache-2.0
/// @file
/// The settings of the source `text.pulses`, and the steps that follow from them.
#pragma once

#include <string>
#include <vector>

#include "stages/prose/chunk_plan.hpp"
#include "weir/pipeline.hpp"

namespace weir::actors {

/// Settings of the stage.
struct pulses_settings {
  source_settings source;          ///< what the stream of the run reads
  named_sources sources;           ///< sources that others name
  storage::stream_config stream;   ///< geometry of all streams
  phase_budgets budgets;           ///< by phase
  std::vector<std::string> chain;  ///< see `run_config`
  std::vector<std::string> order = run_phases().order;  ///< names of the phases
  std::string build_source;                             ///< see `run_phases`
  std::string test_source;                              ///< see `run_phases`
  std::string stream_source;                            ///< see `run_phases`
  bool grown = false;                                   ///< see `text_policy::grown`
  bool replan = false;  ///< budgets or geometry differ from those before
  context_policy contexts = context_policy::keep;  ///< for other lanes than before
};

/// The steps of a run, and the sources of its further streams.
struct planned_steps {
  phase_steps steps;
  std::vector<std::string> sources;  ///< source of stream `i + 1`
};
/// Returns the steps that settings ask for.
[[nodiscard]] planned_steps steps_of(const pulses_settings& settings);

/// Reads the settings of the stage, and describes them in `info`. Those of named sources
/// have keys that no table lists.
/// @error{invalid_argument, a setting is refused, or a phase reads a source that is not
/// described}
/// @error{unknown_key, there is no such setting}
[[nodiscard]] result<pulses_settings> read_pulses_settings(flow::stage_info& info,
                                                           const given_settings& given);

}  // namespace weir::actors
