// SPDX-License-Identifier: Apache-2.0
/// @file
/// Settings of sources that are made of other sources: `mix`, `shuffle` and `sample` in
/// the tables `[stream]` and `[source.NAME]`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/storage/mix_source.hpp"

namespace weir {
template <class Owner>
class settings_table;
}

namespace weir::actors {

/// A mixture of named sources; without any, the source is no mixture.
struct mix_settings {
  std::vector<std::string> sources;    ///< names of tables `[source.NAME]`
  std::vector<std::uint64_t> weights;  ///< one per source; empty: all are equal
  storage::mix_mode mode = storage::mix_mode::smooth;  ///< order of the draws
  std::uint64_t seed = 0;                              ///< seed of the random mode
  std::uint64_t unit = 0;  ///< tokens of a run; 0 draws documents
  /// "loop", "drop" or "stop": one for all sources, or one per source.
  std::vector<std::string> exhausted = {"loop"};
  /// Rows "DRAW: WEIGHT, WEIGHT, ..." in ascending order.
  std::vector<std::string> curriculum;
  friend bool operator==(const mix_settings&, const mix_settings&) = default;
};
/// A random order of the units of each window.
struct shuffle_settings {
  std::uint64_t window = 0;  ///< units per window; 0 keeps the order
  std::uint64_t seed = 0;    ///< seed of the order
  std::uint64_t unit = 0;    ///< tokens of a run; 0 shuffles documents
  friend bool operator==(const shuffle_settings&, const shuffle_settings&) = default;
};
/// A random sample of units: `keep` of `among` in the long run.
struct sample_settings {
  std::uint64_t keep = 1;   ///< units that are kept
  std::uint64_t among = 1;  ///< units of which they are chosen
  std::uint64_t seed = 0;   ///< seed of the choice
  std::uint64_t unit = 0;   ///< tokens of a run; 0 chooses documents
  friend bool operator==(const sample_settings&, const sample_settings&) = default;
};

/// Returns the settings of a mixture by their keys. Include "weir/base/settings.hpp" to
/// use the tables. @threads{safe to call concurrently}
[[nodiscard]] const settings_table<mix_settings>& mix_table();
/// Returns the settings of a shuffle. @threads{safe to call concurrently}
[[nodiscard]] const settings_table<shuffle_settings>& shuffle_table();
/// Returns the settings of a sample. @threads{safe to call concurrently}
[[nodiscard]] const settings_table<sample_settings>& sample_table();

/// Options of a mixture, with the weights and policies of its parts.
struct read_mix {
  storage::mix_options options;                ///< mode, seed, unit and curriculum
  std::vector<std::uint64_t> weights;          ///< one per source
  std::vector<storage::exhaustion> exhausted;  ///< one per source
};
/// Reads the settings of a mixture.
/// @param prefix  Text before the keys in messages: "stream." or "source.NAME.".
/// @error{invalid_argument, a list has another length than the sources, a row of the
/// curriculum cannot be read, or its draws do not rise}
/// @threads{safe to call concurrently}
[[nodiscard]] result<read_mix> read_mix_settings(std::string_view prefix,
                                                 const mix_settings& mix);

}  // namespace weir::actors
