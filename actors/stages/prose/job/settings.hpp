// SPDX-License-Identifier: Apache-2.0
/// @file
/// The configurations of a run's model and stream, which are derived from that of the
/// run.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "weir/actors/run.hpp"

namespace weir::actors {

/// A setting of the model that a user cannot set, because the run derives it from another
/// setting. The vocabulary is derived from the corpus.
struct derived_setting {
  std::string_view name;  ///< name in the model's settings
  /// Setting of the run from which it is derived, and key under which it is stored. For
  /// the vocabulary there is no such setting, only the key.
  const char* key;
};
inline constexpr derived_setting derived_settings[] = {{"vocab", "model.vocab"},
                                                       {"seed", "seed"},
                                                       {"lanes", "stream.lanes"},
                                                       {"max_chunk", "stream.chunk"}};

/// Returns the number of token ids of a source, with the end-of-text token if it can
/// occur in the stream. @error{as of `open_source`}
[[nodiscard]] result<std::uint32_t> vocabulary_of(const run_config& config,
                                                  const source_settings& source);
/// Returns the sources that a run reads: that of its stream, and those of its phases.
[[nodiscard]] std::vector<const source_settings*> sources_of(const run_config& config);
/// Returns the number of token ids that all sources of a run need.
/// @error{as of `vocabulary_of` and `check_sources`}
[[nodiscard]] result<std::uint32_t> needed_vocabulary(const run_config& config);

/// Returns the configuration of the model; its tokens are below `vocab`.
[[nodiscard]] models::prose_config model_of(const run_config& config,
                                            std::uint32_t vocab);
/// Returns the configuration of the stream, with the frequencies of the model.
[[nodiscard]] storage::stream_config stream_of(const run_config& config);

}  // namespace weir::actors
